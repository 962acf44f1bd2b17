#include "runtime/trace/recorder.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/activity.h"
#include "runtime/device.h"
#include "runtime/file.h"
#include "runtime/log.h"
#include "runtime/memory_events.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "runtime/sha256.h"
#include "runtime/trace/file.h"
#include "runtime/trace/gpu.h"

namespace tessera::rt::trace {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr size_t kBlockBytes = 1 << 16;
constexpr auto kPause = std::chrono::milliseconds(10);
constexpr int64_t kClockNs = 50'000'000;
constexpr int64_t kCollectNs = 1'000'000'000;
constexpr size_t kMostSourceFiles = 256;
/// Clients that look on at once, and what one of them may be behind before it is left.
constexpr size_t kMostClients = 4;
constexpr size_t kMostUnsentBytes = 32 << 20;

constexpr bool IsSize(std::string_view word) { return word.starts_with("bytes") || word.starts_with("elements"); }
/// Which words of an event are sizes: a redacted file has none.
constexpr auto kSizes = [] {
  std::array<std::array<bool, 3>, kNumEventKinds> sizes{};
  for (const EventInfo& e : kEvents) sizes[static_cast<size_t>(e.id)] = {IsSize(e.a), IsSize(e.b), IsSize(e.c)};
  return sizes;
}();

constinit std::atomic<Recorder::Collector> g_collector{nullptr};
// Whoever wakes the thread of the recorder needs no lock: it looks by itself every few milliseconds.
std::condition_variable& Wakeup() {
  static auto* const wakeup = new std::condition_variable;
  return *wakeup;
}

int64_t WallNs() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// How many ticks a nanosecond has, for slices whose time was taken with the other clock.
double TicksPerNs() {
  static const double rate = [] {
    const int64_t ns = NowNs(), ticks = Ticks();
    while (NowNs() - ns < 1'000'000) {
    }
    return static_cast<double>(Ticks() - ticks) / static_cast<double>(NowNs() - ns);
  }();
  return rate;
}

void RecordTimed(EventKind kind, int64_t ns, int64_t a, int64_t b, int64_t c) {
  const int64_t end = Ticks();
  const int64_t took = ns == 0 ? 0 : static_cast<int64_t>(static_cast<double>(ns) * TicksPerNs());
  if (ThreadBuffer* buffer = PeekBuffer()) buffer->Push(kind, end, took, a, b, c);
}

template <class... Parts>
absl::Status FailedPrecondition(const Parts&... parts) {
  return absl::FailedPreconditionError(absl::StrCat(parts...));
}

std::string FirstLineOf(const char* path) {
  std::string text;
  if (std::FILE* file = std::fopen(path, "re")) {
    char bytes[512];
    text.assign(bytes, std::fread(bytes, 1, sizeof(bytes), file));
    std::fclose(file);
  }
  std::replace(text.begin(), text.end(), '\0', ' ');
  text.erase(std::find(text.begin(), text.end(), '\n'), text.end());
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace

struct Recorder::State {
  // ---- the pass: files, kept blocks, the reading ends of buffers
  std::mutex mutex;
  BlockFile file;
  absl::Status file_status;  // why the last one ended early
  std::string message;       // for the log, once the lock is free
  int64_t keep_ns = 0;
  struct KeptBlock {
    int64_t ns;
    std::string bytes;
  };
  std::deque<KeptBlock> kept;  // events and samples
  std::string kept_rows;       // blocks of rows that stay as they are
  std::string fresh_rows;      // blocks of the others, since the pass began
  std::string unwritten;       // blocks for the file
  size_t sites_put = 0, spans_put = 0, threads_put = 0;
  int64_t last_sample = 0, last_clock = 0, last_collect = 0;
  int64_t first_event = 0;
  struct Client {
    int fd;
    std::string unsent;
  };
  std::vector<Client> clients;
  bool is_live = false;    // clients may come
  int64_t generation = 0;  // a thread of an earlier one ends

  // ---- rows; the last of all locks
  std::mutex rows_mutex;
  struct Pending {
    std::string bytes;
    uint32_t rows = 0;
  };
  std::map<BlockKind, Pending> pending;
  std::vector<std::shared_ptr<ThreadBuffer>> buffers;
  using SiteKey = std::tuple<const void*, int32_t, const char*, int32_t>;
  std::map<SiteKey, uint32_t> site_numbers;
  std::vector<SiteRow> sites;
  std::map<std::string, int64_t, std::less<>> span_numbers;
  std::vector<SpanRow> spans;
  std::vector<ThreadRow> threads;
  std::set<std::string, std::less<>> source_files;

  bool wanted() const { return file.is_open() || keep_ns > 0 || !clients.empty(); }
  bool keeps_rows() const { return keep_ns > 0 || is_live; }
};

// ---- the writing ends

void internal::BufferHolder::Retire() {
  if (buffer != nullptr) buffer->ended_.store(true, std::memory_order_release);
}

void ThreadBuffer::Wake() { Wakeup().notify_one(); }

ThreadBuffer* BufferOfThread() {
  auto* holder = PerThread<internal::BufferHolder>::Get();
  if (holder == nullptr) return nullptr;
  if (holder->buffer != nullptr) return holder->buffer.get();
  try {
    auto buffer = std::make_shared<ThreadBuffer>();
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof(name));
    Recorder::State& state = *Recorder::Get().state_;
    std::lock_guard lock(state.rows_mutex);
    buffer->number_ = static_cast<int64_t>(state.threads.size()) + 1;
    state.threads.push_back({buffer->number_, static_cast<int64_t>(syscall(SYS_gettid)), name});
    state.buffers.push_back(buffer);
    holder->buffer = std::move(buffer);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return holder->buffer.get();
}

uint32_t Recorder::SiteNumber(ThreadBuffer& buffer, const void* base, int32_t index, const char* file, int32_t line,
                              int32_t column, std::string_view module_file, std::string_view function) {
  std::lock_guard lock(state_->rows_mutex);
  const State::SiteKey key(base, index, file, line);
  auto it = state_->site_numbers.find(key);
  if (it == state_->site_numbers.end()) {
    if (state_->sites.size() >= kMostSites) return 0;
    const auto number = static_cast<uint32_t>(state_->sites.size()) + 1;
    state_->sites.push_back(
        {number, file != nullptr ? std::string(file) : std::string(module_file), line, column, std::string(function)});
    it = state_->site_numbers.emplace(key, number).first;
  }
  buffer.KeepSite(base, index, file, line, it->second);
  return it->second;
}

int64_t Recorder::SpanNumber(std::string_view name) {
  std::lock_guard lock(state_->rows_mutex);
  if (const auto it = state_->span_numbers.find(name); it != state_->span_numbers.end()) return it->second;
  if (state_->spans.size() >= kMostSites) return 0;
  const auto number = static_cast<int64_t>(state_->spans.size()) + 1;
  state_->spans.push_back({number, std::string(name)});
  state_->span_numbers.emplace(name, number);
  return number;
}

void Recorder::AddEncoded(BlockKind kind, std::string row) {
  std::lock_guard lock(state_->rows_mutex);
  State::Pending& pending = state_->pending[kind];
  if (pending.bytes.size() + row.size() > kMostBlockBytes) return;
  pending.bytes += row;
  ++pending.rows;
}

std::string Recorder::TokenOf(std::string_view name) {
  // Nobody can try names without knowing this.
  static const auto* const secret = [] {
    auto* bytes = new std::string(32, '\0');
    if (std::FILE* file = std::fopen("/dev/urandom", "re")) {
      if (std::fread(bytes->data(), 1, bytes->size(), file) != bytes->size())
        *bytes = absl::StrCat(NowNs(), " ", WallNs(), " ", getpid());
      std::fclose(file);
    }
    return bytes;
  }();
  return "x" + Hex(Sha256::Of(absl::StrCat(*secret, std::string(name)))).substr(0, 8);
}

std::string ExpandPath(std::string path) {
  if (const size_t at = path.find("%p"); at != std::string::npos) path.replace(at, 2, absl::StrCat(getpid()));
  return path;
}

// ---- on and off

Recorder::Recorder() : state_(new State) {
  // The child of a fork has no thread that would empty its buffers; the file is the parent's.
  pthread_atfork(nullptr, nullptr, [] {
    rt::internal::g_events.fetch_and(~rt::internal::kRecorder, kRelaxed);
    Get().forked_.store(true, kRelaxed);
  });
}

Recorder& Recorder::Get() {
  static auto* const recorder = new Recorder;
  return *recorder;
}

void Recorder::SetCollector(Collector collector) { g_collector.store(collector, std::memory_order_release); }

// With the lock.
void Recorder::Switch() {
  const bool wanted = state_->wanted();
  if (wanted == on()) return;
  if (wanted) {
    redact_.store(options().trace_redact(), kRelaxed);
    TicksPerNs();
    DrainAll();  // what was left of the last recording
    {
      std::lock_guard lock(state_->rows_mutex);
      state_->pending.clear();
    }
    state_->unwritten.clear();
    state_->kept.clear();
    events_.store(0, kRelaxed);
    lost_.store(0, kRelaxed);
    state_->sites_put = state_->spans_put = state_->threads_put = 0;
    state_->last_collect = NowNs();
    state_->kept_rows.clear();
    rt::internal::g_recorder.store(&RecordTimed, std::memory_order_release);
    rt::internal::g_events.fetch_or(rt::internal::kRecorder, std::memory_order_release);
    Preamble();
    const int64_t generation = ++state_->generation;
    try {
      std::thread([this, generation] { Work(generation); }).detach();
    } catch (const std::system_error&) {
      state_->message = "no thread could be started to record: events are written when the recording ends";
    }
  } else {
    EndGpus();
    rt::internal::g_events.fetch_and(~rt::internal::kRecorder, std::memory_order_release);
    ++state_->generation;
    Wakeup().notify_all();
  }
}

absl::Status Recorder::Start(const std::string& path) {
  if (forked_.load(kRelaxed)) return FailedPrecondition("a process that was forked while it recorded cannot record");
  std::lock_guard lock(state_->mutex);
  if (state_->file.is_open())
    return FailedPrecondition("a recording to ", state_->file.path(), " is open; stop it before the next one begins");
  TSR_RETURN_IF_ERROR(state_->file.Open(path));
  state_->file_status = absl::OkStatus();
  if (on()) {  // for dumps; the rows that are kept belong into the file, too
    PutRows();
    state_->unwritten = KeptRows();
  }
  Switch();
  Clock();
  // At once, so that whatever becomes of the rest, the file is a trace.
  if (absl::Status status = state_->file.Append(HeaderBytes(redacts())); !status.ok()) {
    state_->file.Close();
    state_->unwritten.clear();
    Switch();
    return status;
  }
  return absl::OkStatus();
}

absl::Status Recorder::Stop(std::string_view reason) {
  if (forked_.load(kRelaxed)) return absl::OkStatus();
  std::string message;
  absl::Status status;
  {
    std::lock_guard lock(state_->mutex);
    if (!state_->file.is_open()) {
      if (state_->file_status.ok()) return FailedPrecondition("no recording is open");
      return std::exchange(state_->file_status, absl::OkStatus());
    }
    if (state_->keep_ns > 0 || !state_->clients.empty())
      FlushGpus();
    else
      EndGpus();
    Pass(/*last=*/true);
    EndRow end = {Ticks(), events(), lost(), std::string(reason)};
    const std::string row = Encode(end);
    Put(BlockKind::ends, 1, row, 0);
    if (state_->file.is_open()) {
      if (absl::Status s = state_->file.Append(state_->unwritten); !s.ok()) Fail(s);
      state_->unwritten.clear();
    }
    status = std::exchange(state_->file_status, absl::OkStatus());
    state_->file.Close();
    Switch();
    message = std::exchange(state_->message, "");
  }
  if (!message.empty()) TSR_LOG(0, message);
  return status;
}

void Recorder::Keep(int64_t seconds) {
  if (forked_.load(kRelaxed)) return;
  std::lock_guard lock(state_->mutex);
  state_->keep_ns = seconds * 1'000'000'000;
  if (seconds == 0) state_->kept.clear();
  Switch();
}

absl::Status Recorder::Dump(const std::string& path) {
  if (forked_.load(kRelaxed)) return FailedPrecondition("a process that was forked while it recorded cannot record");
  std::unique_lock lock(state_->mutex);
  if (state_->keep_ns == 0)
    return FailedPrecondition("no events are kept: set the option trace_keep to a number of seconds first");
  FlushGpus();
  Pass(/*last=*/false);
  std::string bytes = HeaderBytes(redacts()) + KeptRows();
  for (const State::KeptBlock& block : state_->kept) bytes += block.bytes;
  EndRow end = {Ticks(), events(), lost(), "dumped"};
  AppendBlock(&bytes, BlockKind::ends, 1, Encode(end));
  lock.unlock();
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return InvalidArgument("cannot write ", path, ": it is no plain file");
  return WriteFile(path, {bytes}, 0600);
}

// ---- the thread of the recorder

void Recorder::Work(int64_t generation) {
  pthread_setname_np(pthread_self(), "tessera trace");
  std::unique_lock lock(state_->mutex);
  while (generation == state_->generation) {
    Wakeup().wait_for(lock, kPause);
    if (generation != state_->generation) break;
    Pass(/*last=*/false);
    // A file that failed may have been all there was to do.
    Switch();
    const std::string message = std::exchange(state_->message, "");
    const bool dump = dump_wanted_.exchange(false, kRelaxed);
    if (message.empty() && !dump) continue;
    lock.unlock();
    if (!message.empty()) TSR_LOG(0, message);
    if (dump) {
      const std::string path = ExpandPath(options().trace_dump());
      if (const absl::Status status = Dump(path); !status.ok()) {
        TSR_LOG(0, "no trace was dumped: ", std::string(status.message()));
      } else {
        TSR_LOG(0, "the last seconds are in ", path);
      }
    }
    lock.lock();
  }
}

void Recorder::Pass(bool last) {
  const int64_t now = NowNs();
  const bool shown = state_->file.is_open() || !state_->clients.empty();
  if (last || (shown && now - state_->last_collect >= kCollectNs)) {
    state_->last_collect = now;
    Collect(last ? Moment::end : Moment::now);
  }
  if (last) PutSources();
  DrainAll();
  if (last || now - state_->last_sample >= kSampleNs) {
    if (ActivityRecorder::mode() == ActivityRecorder::Mode::events) FlushGpus();
    Sample();
  }
  if (last || now - state_->last_clock >= kClockNs) Clock();
  PutRows();
  if (state_->file.is_open() && !state_->unwritten.empty()) {
    if (const absl::Status status = state_->file.Append(state_->unwritten); !status.ok()) Fail(status);
  }
  state_->unwritten.clear();
  state_->fresh_rows.clear();
  SendToClients();
  if (state_->keep_ns > 0)
    while (!state_->kept.empty() && state_->kept.front().ns < now - state_->keep_ns) state_->kept.pop_front();
}

void Recorder::Collect(Moment moment) {
  if (const Collector collector = g_collector.load(std::memory_order_acquire)) collector(*this, moment);
}

void Recorder::AddSourceFile(std::string_view path) {
  if (path.empty()) return;
  std::lock_guard lock(state_->rows_mutex);
  if (state_->source_files.size() < kMostSourceFiles) state_->source_files.emplace(path);
}

void Recorder::PutSources() {
  if (redacts()) return;
  std::set<std::string, std::less<>> files;
  {
    std::lock_guard lock(state_->rows_mutex);
    for (const SiteRow& site : state_->sites)
      if (!site.file.empty() && state_->source_files.size() < kMostSourceFiles) state_->source_files.insert(site.file);
    files = state_->source_files;
  }
  for (const std::string& file : files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (error || size > kMostSourceBytes || !std::filesystem::is_regular_file(file, error)) continue;
    if (auto text = ReadFile(file); text.ok()) Add(SourceRow{file, *std::move(text)});
  }
}

void Recorder::Fail(const absl::Status& status) {
  state_->file_status = status;
  state_->message = absl::StrCat("the recording ended early: ", std::string(status.message()),
                                 "; what was written before can be read, and the program goes on");
  state_->file.Close();
}

void Recorder::DrainAll() {
  std::vector<std::shared_ptr<ThreadBuffer>> buffers;
  {
    std::lock_guard lock(state_->rows_mutex);
    buffers = state_->buffers;
  }
  for (const auto& buffer : buffers) {
    const bool ended = buffer->ended_.load(std::memory_order_acquire);
    Drain(*buffer);
    if (!ended) continue;
    std::lock_guard lock(state_->rows_mutex);
    std::erase(state_->buffers, buffer);
  }
}

void Recorder::Drain(ThreadBuffer& buffer) {
  const uint64_t head = buffer.head_.load(std::memory_order_acquire);
  uint64_t tail = buffer.tail_.load(kRelaxed);
  // Also where there is nothing to fetch: the last that a thread recorded may all have been too many.
  const int64_t lost = buffer.lost_.exchange(0, kRelaxed);
  if (!state_->wanted()) {
    buffer.tail_.store(head, std::memory_order_release);
    return;
  }
  lost_.fetch_add(lost, kRelaxed);
  const bool redacts = this->redacts();
  while (tail != head) {
    std::string bytes;
    bytes.reserve(kBlockBytes + 64);
    PutUnsigned(&bytes, static_cast<uint64_t>(buffer.number_));
    PutUnsigned(&bytes, static_cast<uint64_t>(lost_.load(kRelaxed)));
    int64_t before = 0;
    std::array<std::array<int64_t, 3>, kNumEventKinds> last{};
    uint32_t rows = 0;
    for (; tail != head && bytes.size() < kBlockBytes; ++tail, ++rows) {
      const RawEvent& e = buffer.slots_[tail % ThreadBuffer::kSlots];
      const auto kind = static_cast<size_t>(e.kind_and_took >> 48);
      bytes.push_back(static_cast<char>(kind));
      PutSigned(&bytes, e.end - before);
      before = e.end;
      PutUnsigned(&bytes, e.kind_and_took & ThreadBuffer::kTook);
      auto& before_it = last[kind];
      int64_t words[] = {e.a, e.b, e.c};
      for (size_t w = 0; w < 3; ++w) {
        if (redacts && kSizes[kind][w]) words[w] = 0;
        PutSigned(&bytes, words[w] - std::exchange(before_it[w], words[w]));
      }
    }
    buffer.tail_.store(tail, std::memory_order_release);
    events_.fetch_add(rows, kRelaxed);
    Put(BlockKind::events, rows, bytes, NowNs());
  }
}

void Recorder::Sample() {
  state_->last_sample = NowNs();
  const MemoryStats memory = Cpu().memory_stats();
  const MetricValues metrics = SnapshotMetrics();
  SampleRow row = {Ticks(), memory.bytes_in_use, memory.bytes_cached, {metrics.begin(), metrics.end()}};
  Put(BlockKind::samples, 1, Encode(row), state_->last_sample);
  for (GpuSampleRow& gpu : SampleGpus()) Put(BlockKind::gpu_samples, 1, Encode(gpu), state_->last_sample);
}

void Recorder::Clock() {
  state_->last_clock = NowNs();
  ClockRow row = {Ticks(), NowNs(), WallNs()};
  Put(BlockKind::clocks, 1, Encode(row), state_->last_clock);
}

void Recorder::PutRows() {
  std::map<BlockKind, State::Pending> pending;
  {
    std::lock_guard lock(state_->rows_mutex);
    pending.swap(state_->pending);
    const auto add = [&](BlockKind kind, auto& rows, size_t* put) {
      for (; *put < rows.size(); ++*put, ++pending[kind].rows) pending[kind].bytes += Encode(rows[*put]);
    };
    add(BlockKind::sites, state_->sites, &state_->sites_put);
    add(BlockKind::spans, state_->spans, &state_->spans_put);
    add(BlockKind::threads, state_->threads, &state_->threads_put);
  }
  // Deopts go with the events that they belong to, and what GPUs did is as old as they are.
  for (const auto& [kind, rows] : pending)
    Put(kind, rows.rows, rows.bytes,
        kind == BlockKind::deopts || kind == BlockKind::refusals || kind == BlockKind::batches ? NowNs() : 0);
}

// last_ns: when the block may go from those that are kept; 0: never.
void Recorder::Put(BlockKind kind, uint32_t rows, std::string_view bytes, int64_t last_ns) {
  std::string block;
  AppendBlock(&block, kind, rows, bytes);
  // Rows of these tell how things are now: each dump and each client gets new ones.
  const bool is_state =
      kind == BlockKind::versions || kind == BlockKind::aborts || kind == BlockKind::pins || kind == BlockKind::sources;
  if (last_ns != 0) {
    if (state_->keep_ns > 0) state_->kept.push_back({last_ns, block});
  } else if (state_->keeps_rows()) {
    std::string& kept = is_state ? state_->fresh_rows : state_->kept_rows;
    if (kept.size() + block.size() <= kMostKeptBytes) kept += block;
  }
  if (state_->file.is_open()) state_->unwritten += block;
  for (State::Client& client : state_->clients)
    if (client.unsent.size() <= kMostUnsentBytes) client.unsent += block;
}

// Everything that events of before and of later need to be understood.
std::string Recorder::KeptRows() {
  PutRows();
  state_->fresh_rows.clear();
  Collect(Moment::end);
  PutSources();
  PutRows();
  return state_->kept_rows + std::exchange(state_->fresh_rows, "");
}

// ---- clients

void Recorder::AllowClients() {
  std::lock_guard lock(state_->mutex);
  state_->is_live = true;
}

bool Recorder::AddClient(int fd) {
  if (forked_.load(kRelaxed)) return false;
  std::lock_guard lock(state_->mutex);
  if (state_->clients.size() >= kMostClients) return false;
  const bool was_on = on();
  std::string first = HeaderBytes(was_on ? redacts() : options().trace_redact());
  if (was_on) first += KeptRows();
  state_->clients.push_back({fd, std::move(first)});
  Switch();
  Clock();
  return true;
}

// With the lock. Never waits: a client that does not read is left behind, and then left.
void Recorder::SendToClients() {
  for (State::Client& client : state_->clients) {
    size_t sent = 0;
    while (sent < client.unsent.size()) {
      const ssize_t n =
          ::send(client.fd, client.unsent.data() + sent, client.unsent.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && client.unsent.size() <= kMostUnsentBytes) break;
      if (n < 0) {
        ::close(client.fd);
        client.fd = -1;
        break;
      }
      sent += static_cast<size_t>(n);
    }
    client.unsent.erase(0, sent);
  }
  std::erase_if(state_->clients, [](const State::Client& client) { return client.fd < 0; });
}

void Recorder::Preamble() {
  const auto name = [&](const char* table, int64_t number, std::string_view name, std::string_view text) {
    Add(NameRow{table, number, std::string(name), std::string(text)});
  };
  for (const EventInfo& e : kEvents) name("event", static_cast<int64_t>(e.id), e.name, e.summary);
  for (const ActivityInfo& a : kActivities) name("activity", static_cast<int64_t>(a.id), a.name, a.summary);
  int64_t measure = 0;
#define TSR_MEASURE(what, metric, unit) name("measure", measure++, #what, unit);
#include "runtime/cuda/measures.def"
  for (const MetricInfo& m : kMetrics) name("metric", static_cast<int64_t>(m.id), m.name, m.unit);
#define TSR_COMPILE_STAGE(stage, summary) \
  name("compile_stage", static_cast<int64_t>(CompileStage::stage), #stage, summary);
#include "runtime/compile_stages.def"
#define TSR_MEMORY_REASON(reason, summary) \
  name("memory_reason", static_cast<int64_t>(MemoryReason::reason), #reason, summary);
#include "runtime/memory_reasons.def"
  Add(MetaRow{"command", FirstLineOf("/proc/self/cmdline")});
  Add(MetaRow{"process", absl::StrCat(getpid())});
  Add(MetaRow{"version", TESSERA_VERSION});
  // Processes of one boot share the steady clock.
  Add(MetaRow{"boot", FirstLineOf("/proc/sys/kernel/random/boot_id")});
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
    if (const char* rank = std::getenv(variable)) {
      Add(MetaRow{"rank", rank});
      break;
    }
  std::string set;
  for (const OptionInfo& o : AllOptions()) {
    const auto value = options().Get(o.name);
    // Of files the name is enough.
    if (value.ok() && *value != o.default_text && o.id != OptionId::trace)
      absl::StrAppend(&set, set.empty() ? "" : " ", std::string(o.name), "=", value->substr(value->rfind('/') + 1));
  }
  Add(MetaRow{"options", set});
  Clock();
  Collect(Moment::begin);
  BeginGpus();
}

}  // namespace tessera::rt::trace
