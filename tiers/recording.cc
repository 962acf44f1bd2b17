#include "tiers/recording.h"

#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "deopt/ledger.h"
#include "interp/anchor.h"
#include "ir/op.h"
#include "runtime/activity.h"
#include "runtime/log.h"
#include "runtime/low_priority.h"
#include "runtime/nvtx.h"
#include "runtime/options.h"
#include "runtime/trace/live.h"
#include "runtime/trace/recorder.h"
#include "tessera/runtime.h"
#include "tiers/generate.h"
#include "tiers/manager.h"

namespace tessera::tiers {
namespace {

using rt::trace::Recorder;

// The report comes first: what kernels reach is reckoned from it. A cubin is for CUDA devices, in base64.
constexpr const char* kStages[] = {"report", "graph", "sched", "tile", "target", "llvm", "asm"};
constexpr char kCubin[] = "cubin";
/// A longer text is cut off.
constexpr size_t kMostStageBytes = 1 << 20;
constexpr size_t kMostVersions = 4096;
/// Of one version that are told with what was seen; the others are events alone.
constexpr int kMostRefusals = 32;
/// Texts of earlier recordings that are kept.
constexpr size_t kMostTextBytes = 16 << 20;

std::string FileOf(const Trace& trace, const TraceStep& step) {
  if (step.source.file != nullptr) return step.source.file;
  if (trace.is_eager || step.frame < 0 || static_cast<size_t>(step.frame) >= trace.frames.size()) return "";
  return trace.frames[static_cast<size_t>(step.frame)].code->file;
}

void AddTrace(Recorder& recorder, const Trace& trace) {
  static constexpr const char* kEnds[] = {"loop", "returned", "stopped"};
  rt::trace::TraceRow row = {trace.id,
                             trace.name,
                             trace.is_eager,
                             std::string(trace.device->name()),
                             trace.tier1_ns,
                             {},
                             kEnds[static_cast<int>(trace.end)]};
  const std::vector<std::string> lines = absl::StrSplit(ToString(trace), '\n');
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const TraceStep& step = trace.steps[i];
    row.steps.push_back(
        {i < lines.size() ? lines[i] : "", step.ns, FileOf(trace, step), step.source.line, step.source.column});
    recorder.AddSourceFile(row.steps.back().file);
  }
  recorder.Add(std::move(row));
}

std::string GuardText(const Version& version, ValueId v) {
  const deopt::InputGuard& guard = version.guard(v);
  const Trace& trace = version.trace();
  std::string text = absl::StrCat("x", v, ": ", std::string(Name(guard.dtype)), "[");
  for (int d = 0; d < guard.rank; ++d) {
    if (d > 0) text += ",";
    if (guard.dims[d] >= 0) {
      absl::StrAppend(&text, guard.dims[d]);
      continue;
    }
    const auto symbol = static_cast<size_t>(-1 - guard.dims[d]);
    absl::StrAppend(&text, "s", symbol);
    if (symbol >= trace.ranges.size()) continue;
    const deopt::DimRange& range = trace.ranges[symbol];
    absl::StrAppend(&text, " from ", range.low);
    if (range.high != INT64_MAX) absl::StrAppend(&text, " to ", range.high);
    if (range.divisor > 1) absl::StrAppend(&text, " by ", range.divisor);
  }
  static constexpr const char* kLayouts[] = {"strides as recorded", "dense", "any layout"};
  absl::StrAppend(&text, "] on ", std::string(guard.device->name()), ", ", kLayouts[static_cast<int>(guard.layout)]);
  if (guard.alignment > 1) absl::StrAppend(&text, ", aligned to ", guard.alignment);
  return text;
}

// What is known of versions beside the ledger, and the thread that asks the compiler for their stages.
class Recording {
 public:
  static Recording& Get() {
    static auto* const recording = new Recording;
    return *recording;
  }

  void Begin() {
    std::lock_guard lock(mutex_);
    jobs_.clear();
    guards_.clear();
    seen_.clear();
    refusals_.clear();
    spent_ns_ = 0;
  }

  void AddRefusal(int64_t version, const GuardFailure& failure, int64_t serves) {
    {
      std::lock_guard lock(mutex_);
      if (++refusals_[version] > kMostRefusals) return;
    }
    Recorder::Get().Add(rt::trace::RefusalRow{rt::Ticks(), version, serves, static_cast<int64_t>(failure.guard),
                                              failure.step, failure.value, failure.dim, failure.expected,
                                              failure.seen});
  }

  void Add(const Version& version) {
    Recorder& recorder = Recorder::Get();
    AddTrace(recorder, version.trace());
    std::vector<rt::trace::GuardRow> guards;
    for (const ValueId v : version.layout().inputs) guards.push_back({v, GuardText(version, v)});
    std::lock_guard lock(mutex_);
    if (guards_.size() >= kMostVersions) return;
    guards_[version.id] = std::move(guards);
    if (version.code() == nullptr || recorder.redacts() || rt::options().trace_stages() == 0) return;
    if (const auto it = texts_.find(version.id); it != texts_.end()) {
      for (const rt::trace::StageRow& row : it->second) recorder.Add(row);
      return;
    }
    const Trace& trace = version.trace();
    const std::string file = trace.is_eager || trace.frames.empty() ? "" : trace.frames[0].code->file;
    jobs_.push_back(
        {version.id, version.shared_trace(), version.example, std::max(version.tier, 2), version.schedule, file});
    if (running_) return;
    try {
      std::thread([this] { Work(); }).detach();
      running_ = true;
    } catch (const std::system_error&) {
      jobs_.clear();
    }
  }

  /// Waits for the texts that are on their way, as long as there is time left for them.
  void Finish() {
    std::unique_lock lock(mutex_);
    const rt::PriorityScope scope(thread_);
    idle_.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(Budget() - spent_ns_, 0)),
                   [&] { return !running_; });
    jobs_.clear();
  }

  std::vector<rt::trace::GuardRow> guards(int64_t version) {
    std::lock_guard lock(mutex_);
    const auto it = guards_.find(version);
    return it == guards_.end() ? std::vector<rt::trace::GuardRow>() : it->second;
  }
  /// Has the row changed since it was written last?
  bool Changed(const deopt::VersionRecord& v) {
    std::lock_guard lock(mutex_);
    auto now = std::tuple(v.counters->runs.load(std::memory_order_relaxed),
                          v.counters->exits.load(std::memory_order_relaxed), v.state, v.note);
    auto& last = seen_[v.id];
    if (last == now) return false;
    last = std::move(now);
    return true;
  }

 private:
  struct Job {
    int64_t version;
    std::shared_ptr<const Trace> trace, example;
    int tier;
    std::string schedule, file;
  };

  static int64_t Budget() { return rt::options().trace_stages() * 1'000'000; }

  // For the next recording, which need not ask again.
  void Keep(int64_t version, std::vector<rt::trace::StageRow> rows) {
    if (rows.size() < std::size(kStages)) return;
    for (const auto& row : rows) text_bytes_ += row.text.size();
    texts_[version] = std::move(rows);
    while (text_bytes_ > kMostTextBytes && !texts_.empty()) {  // the oldest go
      for (const auto& row : texts_.begin()->second) text_bytes_ -= row.text.size();
      texts_.erase(texts_.begin());
    }
  }

  void Work() {
    const pid_t thread = rt::LowerPriorityOfThisThread();
    std::unique_lock lock(mutex_);
    thread_ = thread;
    while (!jobs_.empty() && spent_ns_ < Budget() && Recorder::Get().on()) {
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      std::vector<rt::trace::StageRow> rows;
      std::vector<const char*> stages(std::begin(kStages), std::end(kStages));
      if (!job.trace->device->code_target().empty()) stages.push_back(kCubin);
      for (const char* stage : stages) {
        if (spent_ns_ >= Budget()) break;
        lock.unlock();
        const int64_t start = rt::NowNs();
        auto text = InspectStage(*job.trace, *job.example, job.tier, stage, job.schedule, job.file);
        const int64_t ns = rt::NowNs() - start;
        const bool is_cubin = std::string_view(stage) == kCubin;
        if (text.ok() && is_cubin) text = absl::Base64Escape(*text);
        // A part of a cubin is of no use.
        if (text.ok() && (!is_cubin || text->size() <= kMostStageBytes)) {
          if (text->size() > kMostStageBytes) text->resize(kMostStageBytes);
          rows.push_back({job.version, stage, *std::move(text)});
          Recorder::Get().Add(rows.back());
        }
        lock.lock();
        spent_ns_ += ns;
      }
      Keep(job.version, std::move(rows));
    }
    jobs_.clear();
    running_ = false;
    thread_ = 0;
    idle_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<Job> jobs_;
  bool running_ = false;
  pid_t thread_ = 0;
  int64_t spent_ns_ = 0;
  std::map<int64_t, std::vector<rt::trace::StageRow>> texts_;  // by version
  size_t text_bytes_ = 0;
  std::map<int64_t, int> refusals_;  // by version, of this recording
  std::map<int64_t, std::vector<rt::trace::GuardRow>> guards_;
  std::map<int64_t, std::tuple<int64_t, int64_t, std::string, std::string>> seen_;
};

rt::trace::VersionRow RowOf(const deopt::VersionRecord& v) {
  const deopt::VersionCounters& c = *v.counters;
  const auto get = [](const std::atomic<int64_t>& n) { return n.load(std::memory_order_relaxed); };
  rt::trace::VersionRow row;
  row.id = v.id;
  row.trace_id = v.trace_id;
  row.place = v.trace;
  row.generator = v.generator;
  row.rung = std::string(Name(v.rung));
  row.cause = v.cause;
  row.note = v.note;
  row.state = v.state;
  row.steps = v.steps;
  row.recording_ns = v.recording_ns;
  row.compile_ns = v.compile_ns;
  row.tier1_ns = v.tier1_ns;
  row.handing_ns = v.handing_ns;
  row.bytes = v.bytes;
  row.runs = get(c.runs);
  row.timed_runs = get(c.timed_runs);
  row.timed_ns = get(c.timed_ns);
  row.compared_runs = get(c.compared_runs);
  row.compared_ns = get(c.compared_ns);
  row.compared_tier1_ns = get(c.compared_tier1_ns);
  row.exits = get(c.exits);
  row.escapes = get(c.escapes);
  row.guards = Recording::Get().guards(v.id);
  return row;
}

void AddNames(Recorder& recorder) {
  const auto name = [&](const char* table, auto id, std::string_view name, std::string_view text) {
    recorder.Add(rt::trace::NameRow{table, static_cast<int64_t>(id), std::string(name), std::string(text)});
  };
  for (const ir::OpInfo& op : ir::AllOps()) name("op", op.op, op.name, op.summary);
  for (const deopt::DeoptReasonInfo& r : deopt::kDeoptReasons) name("deopt_reason", r.id, r.name, r.message);
  for (const deopt::GuardInfo& g : deopt::kGuards) name("guard", g.id, g.name, g.summary);
  for (const tracer::TraceAbortInfo& a : tracer::kTraceAborts) name("trace_abort", a.id, a.name, a.message);
}

void Collect(Recorder& recorder, Recorder::Moment moment) {
  Recording& recording = Recording::Get();
  if (moment == Recorder::Moment::begin) {
    recording.Begin();
    AddNames(recorder);
    for (const auto& anchor : Manager::Get().anchors())
      for (const rt::Ref<Version>& v : anchor->versions()) recording.Add(*v);
  }
  deopt::Ledger& ledger = deopt::Ledger::Get();
  for (const deopt::VersionRecord& v : ledger.versions())
    if (recording.Changed(v) || moment == Recorder::Moment::end) recorder.Add(RowOf(v));
  if (moment != Recorder::Moment::end) return;
  for (const deopt::AbortRecord& a : ledger.aborts())
    recorder.Add(rt::trace::AbortRow{a.trace, static_cast<int64_t>(a.reason), a.count, a.ns});
  for (const auto& [place, reason] : ledger.pins()) recorder.Add(rt::trace::PinRow{place, reason});
}

absl::Status Stop(const char* reason) {
  Recording::Get().Finish();
  return Recorder::Get().Stop(reason);
}

std::string NameOf(rt::ActivityOwner owner) {
  switch (owner.kind) {
    case rt::ActivityOwner::Kind::nobody: return "";
    case rt::ActivityOwner::Kind::op: return std::string(ir::Info(static_cast<ir::Op>(owner.part)).name);
    case rt::ActivityOwner::Kind::step: return absl::StrCat("step ", owner.part, " of version ", owner.number);
    case rt::ActivityOwner::Kind::graph: return absl::StrCat("graph ", owner.number);
  }
  return "";
}

// Signals belong to the application: one that it uses is left alone.
void TakeSignal(int number) {
  struct sigaction old;
  if (sigaction(number, nullptr, &old) != 0 || (old.sa_flags & SA_SIGINFO) != 0 || old.sa_handler != SIG_DFL) {
    TSR_LOG(0, "option trace_signal: signal ", number, " cannot be taken, or is used already");
    return;
  }
  struct sigaction action = {};
  action.sa_handler = [](int) { Recorder::Get().AskForDump(); };
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(number, &action, nullptr) != 0) TSR_LOG(0, "option trace_signal: signal ", number, " cannot be taken");
}

}  // namespace

void RecordVersion(const Version& version) { Recording::Get().Add(version); }

void RecordRefusal(int64_t version, const GuardFailure& failure, int64_t serves) {
  rt::Record(rt::EventKind::version_refused, version, static_cast<int64_t>(failure.guard), serves);
  if (rt::RecorderOn()) [[unlikely]]
    Recording::Get().AddRefusal(version, failure, serves);
}

void StartRecording() {
  Recorder::SetCollector(&Collect);
  rt::SetOwnerNamer(&NameOf);
  rt::StartNvtx();
  const rt::Options& options = rt::options();
  if (options.trace_keep() > 0) {
    Recorder::Get().Keep(options.trace_keep());
    if (options.trace_signal() > 0) TakeSignal(static_cast<int>(options.trace_signal()));
  }
  if (options.trace_live()) {
    if (const absl::Status status = rt::trace::AllowLiveClients(); !status.ok())
      TSR_LOG(0, "option trace_live: ", std::string(status.message()));
  }
  if (const std::string path = options.trace(); !path.empty()) {
    if (const absl::Status status = Recorder::Get().Start(rt::trace::ExpandPath(path)); !status.ok()) {
      TSR_LOG(0, "option trace: ", std::string(status.message()));
    } else {
      // The application may have stopped it by then.
      std::atexit([] { (void)Stop("the process ended"); });
    }
  }
}

}  // namespace tessera::tiers

namespace tessera {

Status Runtime::trace_start(const std::string& path) {
  interp::StartTiers();
  return ToPublic(rt::trace::Recorder::Get().Start(path));
}

Status Runtime::trace_stop() { return ToPublic(tiers::Stop("stopped")); }

Status Runtime::trace_dump(const std::string& path) {
  interp::StartTiers();
  return ToPublic(rt::trace::Recorder::Get().Dump(path));
}

TraceSpan::TraceSpan(std::string_view name) {
  if (rt::NvtxOn()) [[unlikely]] {
    rt::PushNvtx(name, 0);
    has_range_ = true;
  }
  if (!rt::RecorderOn()) [[likely]]
    return;
  name_ = rt::trace::Recorder::Get().SpanNumber(name);
  start_ = rt::Ticks();
}

TraceSpan::~TraceSpan() {
  if (has_range_) [[unlikely]]
    rt::PopNvtx();
  if (start_ != 0 && rt::RecorderOn()) rt::trace::RecordSince(rt::EventKind::span, start_, name_, 0, 0);
}

}  // namespace tessera
