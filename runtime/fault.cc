#include "runtime/fault.h"

#include <mutex>

namespace tessera::rt {
namespace {

struct Armed {
  int64_t skip = 0;   // calls that still pass
  int64_t times = 0;  // calls that fail after them; below 0: all
};
constinit std::mutex mutex;
constinit Armed armed[kNumFaults] = {};
static_assert(kNumFaults <= 32, "g_armed_faults has a bit per fault");

constexpr uint32_t Bit(Fault f) { return uint32_t{1} << static_cast<int>(f); }

}  // namespace

namespace internal {

constinit std::atomic<uint32_t> g_armed_faults{0};

bool FaultFiresSlow(Fault f) {
  if ((g_armed_faults.load(std::memory_order_relaxed) & Bit(f)) == 0) return false;
  std::lock_guard lock(mutex);
  Armed& mine = armed[static_cast<int>(f)];
  if (mine.times == 0) return false;
  if (mine.skip > 0) {
    --mine.skip;
    return false;
  }
  if (mine.times > 0 && --mine.times == 0) g_armed_faults.fetch_and(~Bit(f), std::memory_order_relaxed);
  return true;
}

}  // namespace internal

void ArmFault(Fault f, int64_t nth, int64_t times) {
  std::lock_guard lock(mutex);
  const bool on = nth > 0 && times != 0;
  armed[static_cast<int>(f)] = on ? Armed{nth - 1, times} : Armed{};
  if (on)
    internal::g_armed_faults.fetch_or(Bit(f), std::memory_order_relaxed);
  else
    internal::g_armed_faults.fetch_and(~Bit(f), std::memory_order_relaxed);
}

void DisarmFaults() {
  for (const FaultInfo& fault : kFaults) ArmFault(fault.id, 0);
}

}  // namespace tessera::rt
