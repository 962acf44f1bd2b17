#include "runtime/cuda/event_timer.h"

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/cuda/device.h"

namespace tessera::cuda {
namespace {

/// Stretches that may be under way at once; those beyond are lost.
constexpr size_t kMostPending = size_t{1} << 16;
/// The driver tells times as floats of milliseconds since another event, so that one must not be long ago.
constexpr int64_t kBaseNs = 1'000'000'000;

struct Stretch {
  CUevent first, last;
  int64_t owner, launched_ns;
};

/// Of one device.
struct Timer {
  CUevent base = nullptr, next_base = nullptr;
  double base_ns = 0;  // when the base was, on the clock of NowNs()
  int64_t base_set_ns = 0;
  std::deque<Stretch> pending;
};

struct State {
  std::mutex mutex;
  rt::ActivityRecorder::Sink sink;  // null: off
  std::map<Device*, Timer> timers;
  std::vector<CUevent> spare;
  std::atomic<int64_t> lost{0};  // read by the sink, too
};
// Never destroyed: threads may outlive whatever ends with the process.
State& TheState() {
  static auto* state = new State;
  return *state;
}
[[gnu::tls_model("initial-exec")]] constinit thread_local bool t_in_stretch = false;

CUevent Recorded(State& state, Device& device) {
  CUevent event = nullptr;
  if (!state.spare.empty()) {
    event = state.spare.back();
    state.spare.pop_back();
  } else if (TheDriver().cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
    return nullptr;
  }
  if (TheDriver().cuEventRecord(event, device.live_stream()) == CUDA_SUCCESS) return event;
  state.spare.push_back(event);
  return nullptr;
}

double Between(CUevent from, CUevent to) {
  float ms = 0;
  TheDriver().cuEventElapsedTime(&ms, from, to);
  return static_cast<double>(ms) * 1e6;
}

// Takes what is finished, in the order of the stream.
void Take(State& state, Device& device, Timer& timer, std::vector<rt::Activity>* out) {
  const Driver& driver = TheDriver();
  while (!timer.pending.empty() && driver.cuEventQuery(timer.pending.front().last) == CUDA_SUCCESS) {
    const Stretch s = timer.pending.front();
    timer.pending.pop_front();
    rt::Activity a;
    a.kind = rt::ActivityKind::stretch;
    a.device = static_cast<uint32_t>(device.index());
    a.owner = s.owner;
    a.launched_ns = s.launched_ns;
    a.start_ns = static_cast<int64_t>(timer.base_ns + Between(timer.base, s.first));
    a.end_ns = a.start_ns + static_cast<int64_t>(Between(s.first, s.last));
    out->push_back(a);
    state.spare.push_back(s.first);
    state.spare.push_back(s.last);
  }
  if (timer.next_base != nullptr && driver.cuEventQuery(timer.next_base) == CUDA_SUCCESS) {
    timer.base_ns += Between(timer.base, timer.next_base);
    state.spare.push_back(std::exchange(timer.base, std::exchange(timer.next_base, nullptr)));
    timer.base_set_ns = rt::NowNs();
  } else if (timer.next_base == nullptr && rt::NowNs() - timer.base_set_ns > kBaseNs) {
    timer.next_base = Recorded(state, device);
  }
}

void FlushLocked(State& state) {
  std::vector<rt::Activity> done;
  for (auto& [device, timer] : state.timers)
    if (device->Enter().ok()) Take(state, *device, timer, &done);
  if (state.sink && !done.empty()) state.sink(done);
}

}  // namespace

void StartEventTimer(rt::ActivityRecorder::Sink sink) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.sink = std::move(sink);
  state.lost = 0;
}

void FlushEventTimer() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  FlushLocked(state);
}

void StopEventTimer() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  FlushLocked(state);
  state.sink = nullptr;
  for (auto& [device, timer] : state.timers) {
    for (const Stretch& s : timer.pending) state.spare.insert(state.spare.end(), {s.first, s.last});
    for (const CUevent base : {timer.base, timer.next_base})
      if (base != nullptr) state.spare.push_back(base);
  }
  state.timers.clear();
}

int64_t LostByEventTimer() { return TheState().lost.load(std::memory_order_relaxed); }

CUevent BeginStretch(Device& device) {
  if (t_in_stretch || device.stream() != device.live_stream() || !device.Enter().ok()) return nullptr;
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  if (!state.sink) return nullptr;
  Timer& timer = state.timers[&device];
  if (timer.pending.size() >= kMostPending) {
    ++state.lost;
    return nullptr;
  }
  if (timer.base == nullptr) {
    // Once for a device: when an event was is known only by waiting for it.
    timer.base = Recorded(state, device);
    if (timer.base == nullptr || TheDriver().cuEventSynchronize(timer.base) != CUDA_SUCCESS) return nullptr;
    timer.base_set_ns = rt::NowNs();
    timer.base_ns = static_cast<double>(timer.base_set_ns);
  }
  const CUevent first = Recorded(state, device);
  t_in_stretch = first != nullptr;
  return first;
}

void EndStretch(Device& device, CUevent first, int64_t owner) {
  t_in_stretch = false;
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  const CUevent last = state.sink ? Recorded(state, device) : nullptr;
  if (last == nullptr) {
    state.spare.push_back(first);
    return;
  }
  state.timers[&device].pending.push_back({first, last, owner, rt::NowNs()});
}

}  // namespace tessera::cuda
