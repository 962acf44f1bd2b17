#include "tiers/run_ahead.h"

#include <algorithm>
#include <utility>

#include "interp/guard_word.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "tracer/control.h"

namespace tessera::tiers {
namespace {

// Enough for a device to have work while the host looks at a verdict.
constexpr size_t kOnDevices = 4;
// Runs in a row whose branches hold before one that does not go round is submitted without a look: a wrong guess costs
// a whole run.
constexpr int32_t kSure = 8;
constexpr int32_t kMostHeld = 1 << 20;
static_assert(interp::GuardWord::kRuns >= 62 + 2, "the option run_ahead allows 62");

size_t MostOf(const Activation& a, const rt::Device& device) {
  if (!a.MayRunAhead()) return 0;
  const int64_t asked = rt::options().run_ahead();
  if (asked >= 0) return static_cast<size_t>(asked);
  if (device.kind() == rt::DeviceKind::cuda) return kOnDevices;
  return tracer::Decide(false, 4) ? 2 : 0;
}

}  // namespace

RunAhead::RunAhead(FunctionVersion& f, Activation& a) : f_(f), a_(a), most_(MostOf(a, *f.version->trace().device)) {}

size_t RunAhead::depth() const {
  // Half of what held: a loop that ends soon wastes little.
  if (most_ == 0) return 0;
  return std::min(most_, static_cast<size_t>(f_.held.load(std::memory_order_relaxed)) / 2);
}

void RunAhead::NoteHeld() {
  if (most_ == 0) return;
  const int32_t held = f_.held.load(std::memory_order_relaxed);
  if (held < kMostHeld) f_.held.store(held + 1, std::memory_order_relaxed);
}

absl::Status RunAhead::RunOnce() {
  const int size = static_cast<int>(f_.version->trace().steps.size());
  if (most_ == 0 || f_.held.load(std::memory_order_relaxed) < kSure || !a_.LeaveBranchesToDevice()) {
    TSR_RETURN_IF_ERROR(a_.Run(size));
    if (a_.position() == size && a_.failure().step < 0)
      NoteHeld();
    else
      f_.held.store(0, std::memory_order_relaxed);
    return absl::OkStatus();
  }
  const std::vector<interp::Frame::Counter> counters = a_.counters();
  bool held = a_.Run(size).ok();
  const uint64_t run = a_.ReadBranches();
  rt::Count(rt::Metric::runs_ahead);
  if (held) {
    TSR_ASSIGN_OR_RETURN(held, a_.Held(run));
  }
  if (held) {
    NoteHeld();
    return absl::OkStatus();
  }
  f_.held.store(0, std::memory_order_relaxed);
  rt::Count(rt::Metric::runs_ahead_lost);
  return a_.RunOver(counters);
}

RunAhead::Entry RunAhead::Begin() const {
  Entry e;
  e.begin.reserve(f_.carried.size());
  for (size_t k = 0; k < f_.carried.size(); ++k) e.begin.push_back(a_.Carried(f_.carried, k));
  return e;
}

absl::Status RunAhead::Submit(int64_t* lost) {
  const int size = static_cast<int>(f_.version->trace().steps.size());
  if (!a_.LeaveBranchesToDevice()) return a_.RunAgain(f_.carried, size);
  std::vector<interp::Frame::Counter> counters = a_.counters();
  const absl::Status status = a_.RunAgain(f_.carried, size);
  Entry e = Begin();
  e.run = a_.ReadBranches();
  e.counters = std::move(counters);
  rt::Count(rt::Metric::runs_ahead);
  if (status.ok() && a_.position() == size) {
    log_.push_back(std::move(e));
    return absl::OkStatus();
  }
  // It failed, or a guard of the host's did: what it was given may never have been.
  absl::Status again;
  if (!Settle(0, lost, &again)) return again;
  f_.held.store(0, std::memory_order_relaxed);
  rt::Count(rt::Metric::runs_ahead_lost);
  // At the end of the last one it has not begun.
  if (!status.ok() && a_.position() == size) return a_.RunAgain(f_.carried, size);
  return a_.RunFrom(f_.carried, absl::MakeSpan(e.begin), e.counters);
}

bool RunAhead::WaitFor(size_t left, int64_t* lost, absl::Status* status) {
  while (log_.size() > left) {
    const absl::StatusOr<bool> held = a_.Held(log_.front().run);
    if (!held.ok() || !*held) {
      *status = held.ok() ? GoBack(lost) : held.status();
      return false;
    }
    log_.erase(log_.begin());
    NoteHeld();
  }
  return true;
}

absl::Status RunAhead::GoBack(int64_t* lost) {
  *lost = static_cast<int64_t>(log_.size());
  Entry from = std::move(log_.front());
  log_.clear();
  f_.held.store(0, std::memory_order_relaxed);
  rt::Count(rt::Metric::runs_ahead_lost, *lost);
  TSR_LOG(3, "version ", f_.version->id, " of ", f_.version->trace().name, ": a branch did not hold; ", *lost,
          " iterations that were submitted are taken back to it");
  return a_.RunFrom(f_.carried, absl::MakeSpan(from.begin), from.counters);
}

}  // namespace tessera::tiers
