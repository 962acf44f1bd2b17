#include "runtime/trace/gpu.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/activity.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/trace/recorder.h"

namespace tessera::rt::trace {
namespace {

/// Launches that differ in name, grid or resources; what comes after so many has no row.
constexpr size_t kMostKernels = size_t{1} << 16;

struct State {
  // ---- GPUs and whether they are recorded. Held while activity starts and stops.
  std::mutex mutex;
  std::vector<std::pair<Device*, GpuRow>> gpus;
  bool recording = false;  // events are recorded, and GPUs with them, once there are any
  std::atomic<bool> started{false};
  int64_t measured_runs = 0;

  // ---- rows of the recording at hand
  std::mutex rows_mutex;
  using Key = std::tuple<const char*, uint32_t, uint32_t, uint32_t, uint32_t>;
  std::map<Key, int64_t> kernels;
  std::set<int64_t> graphs;
  std::map<int64_t, int64_t> looked_at;  // runs by version
  std::set<Look> cannot;
};
State& TheState() {
  static auto* state = new State;
  return *state;
}

int64_t KernelNumber(State& state, const Activity& a) {
  if (a.kind != ActivityKind::kernel) return 0;
  // A name lives as long as the process, and is there once.
  const State::Key key(a.name.data(), a.blocks, a.threads, a.registers, a.shared_bytes);
  const auto known = state.kernels.find(key);
  if (known != state.kernels.end()) return known->second;
  if (state.kernels.size() >= kMostKernels) return 0;
  const auto number = static_cast<int64_t>(state.kernels.size()) + 1;
  state.kernels.emplace(key, number);
  Recorder::Get().Add(KernelRow{number, std::string(a.name), a.blocks, a.threads, a.registers, a.shared_bytes});
  return number;
}

void Take(absl::Span<const Activity> activities) {
  State& state = TheState();
  std::lock_guard lock(state.rows_mutex);
  std::map<uint32_t, std::pair<ActivityBatchRow, ActivityRow>> batches;  // with the row before
  for (const Activity& a : activities) {
    auto& [batch, last] = batches[a.device];
    const ActivityRow row = {static_cast<int64_t>(a.kind),
                             a.start_ns,
                             a.end_ns - a.start_ns,
                             a.launched_ns,
                             KernelNumber(state, a),
                             a.bytes,
                             a.stream,
                             a.correlation,
                             a.owner};
    ActivityRow difference = row;
    difference.start_ns -= last.start_ns + last.ns;
    difference.launched_ns -= last.launched_ns;
    difference.kernel -= last.kernel;
    difference.stream -= last.stream;
    difference.correlation -= last.correlation;
    difference.owner -= last.owner;
    last = row;
    batch.rows.push_back(difference);
  }
  for (auto& [gpu, rows] : batches) {
    rows.first.gpu = gpu;
    rows.first.lost = ActivityRecorder::lost();
    Recorder::Get().Add(std::move(rows.first));
  }
}

void TakeLink(const GpuLink& link) {
  Recorder::Get().Add(LinkRow{link.ends[0].gpu, link.ends[1].gpu, link.ends[0].name, link.ends[1].name, link.links,
                              link.bytes_per_s, link.version, link.by_switch});
}

void AddMeasures(State& state, const Device& device, int64_t version, const KernelMeasures& measured) {
  int64_t gpu = 0;
  for (const auto& [known, row] : state.gpus)
    if (known == &device) gpu = row.number;
  int32_t at = 0;
  for (const std::vector<double>& kernel : measured.kernels) {
    MeasureRow row = {gpu, 0, ActivityOwner{ActivityOwner::Kind::step, at++, version}.Pack(), {}};
    for (const double value : kernel)
      row.thousandths.push_back(static_cast<int64_t>(std::clamp(value, -1.0, 1e15) * 1000));
    Recorder::Get().Add(std::move(row));
  }
  // So that whoever wonders what measuring costs can see. A later row replaces an earlier one.
  ++state.measured_runs;
  Recorder::Get().Add(MetaRow{
      "measures", absl::StrCat(state.measured_runs, " runs, the last one of ", measured.kernels.size(), " kernels in ",
                               measured.passes, " passes; milliseconds of that: ", measured.took)});
}

void AddPcs(int64_t version, const std::vector<PcSample>& samples) {
  for (const PcSample& sample : samples) {
    PcRow row = {version, sample.function, sample.pc, {}};
    for (const auto& [reason, count] : sample.stalls) row.stalls.push_back({reason, count});
    Recorder::Get().Add(std::move(row));
  }
}

// With the lock.
void Start(State& state) {
  if (!state.recording || state.gpus.empty() || state.started || !options().trace_gpu()) return;
  std::string how;
  const int64_t start = NowNs();
  absl::Status status = ActivityRecorder::Start(Take, TakeLink);
  if (status.ok()) {
    how = absl::StrCat(ActivityRecorder::version(), ", started in ", (NowNs() - start) / 1000000, " ms");
  } else {
    how = absl::StrCat("events in place of CUPTI: ", std::string(status.message()));
    status = ActivityRecorder::StartEvents(Take);
    TSR_LOG(0,
            status.ok() ? "the trace has times of ops and runs on GPUs, and not of each kernel: "
                        : "the trace has nothing of what GPUs do: ",
            status.ok() ? how : std::string(status.message()));
    if (!status.ok()) how = std::string(status.message());
  }
  Recorder::Get().Add(MetaRow{"gpu", how});
  for (const auto& [device, row] : state.gpus) Recorder::Get().Add(row);
  if (!status.ok()) return;
  state.started = true;
  // The driver ends before whatever was registered before it was opened.
  static std::once_flag once;
  std::call_once(once, [] { std::atexit(EndGpus); });
}

}  // namespace

void AddGpu(Device& device, GpuRow row) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.gpus.emplace_back(&device, std::move(row));
  if (state.started)
    Recorder::Get().Add(state.gpus.back().second);
  else
    Start(state);
}

void BeginGpus() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  {
    std::lock_guard rows(state.rows_mutex);
    state.kernels.clear();
    state.graphs.clear();
    state.looked_at.clear();
    state.cannot.clear();
  }
  state.recording = true;
  state.measured_runs = 0;
  Start(state);
}

void FlushGpus() {
  if (TheState().started.load(std::memory_order_relaxed)) ActivityRecorder::Flush();
}

void EndGpus() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.recording = false;
  if (!state.started.exchange(false)) return;
  for (const auto& [device, row] : state.gpus) device->Wait();
  ActivityRecorder::Stop();
  if (const int64_t lost = ActivityRecorder::lost(); lost > 0) Recorder::Get().Add(ActivityBatchRow{0, lost, {}});
}

std::vector<GpuSampleRow> SampleGpus() {
  State& state = TheState();
  // Whoever starts or stops may take long.
  const std::unique_lock lock(state.mutex, std::try_to_lock);
  std::vector<GpuSampleRow> rows;
  if (!lock.owns_lock()) return rows;
  for (const auto& [device, row] : state.gpus) {
    const MemoryStats memory = device->memory_stats();
    rows.push_back({Ticks(), row.number, memory.bytes_in_use, memory.bytes_cached});
  }
  return rows;
}

int64_t NewGraphNumber() {
  static std::atomic<int64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void TellGraph(int64_t number, int64_t version, const std::vector<int64_t>& steps) {
  State& state = TheState();
  std::lock_guard lock(state.rows_mutex);
  if (state.graphs.insert(number).second) Recorder::Get().Add(GraphRow{number, version, steps});
}

Look HowToLook(int64_t version) {
  const int64_t runs = options().trace_measures();
  if (runs == 0 || ActivityRecorder::mode() != ActivityRecorder::Mode::cupti) [[likely]]
    return Look::none;
  State& state = TheState();
  std::lock_guard lock(state.rows_mutex);
  // The first ones are recorded as ever: they tell which kernels there are, and few versions of a program stay. Program
  // counters come first, and no run is a graph: CUPTI 13.0 gives no samples in a process where counters were read before
  // the first of them, or where a graph ran.
  constexpr int64_t kPcsAt = 16, kCountersFrom = 32;
  const int64_t run = state.looked_at[version]++;
  const Look look = run == kPcsAt                                        ? Look::pcs
                    : run >= kCountersFrom && run - kCountersFrom < runs ? Look::counters
                                                                         : Look::launches;
  return state.cannot.contains(look) ? Look::launches : look;
}

absl::Status LookAtRun(Look look, Device& device, int64_t version, const std::function<absl::Status()>& run) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  if (!state.started) return run();
  // CUPTI does one or the other.
  device.Wait();
  ActivityRecorder::Stop();
  absl::Status status, seen;
  if (look == Look::counters) {
    const auto measured = MeasureKernels(device, run, &status);
    seen = measured.status();
    if (measured.ok()) AddMeasures(state, device, version, *measured);
  } else {
    const auto samples = SamplePcs(device, run, &status);
    seen = samples.status();
    if (samples.ok()) AddPcs(version, *samples);
  }
  if (!seen.ok()) {
    TSR_LOG(0, "option trace_measures: ", std::string(seen.message()));
    std::lock_guard rows(state.rows_mutex);
    state.cannot.insert(look);
  }
  if (const absl::Status again = ActivityRecorder::Start(Take); !again.ok()) {
    TSR_LOG(0, "the trace has nothing more of what GPUs do: ", std::string(again.message()));
    state.started = false;
  }
  return status;
}

}  // namespace tessera::rt::trace
