// The control plane: every decision of policy asks here, so that tests can take it. Without the options chaos_seed and
// deopt_every the answer is the policy's own, for the price of a load.
#ifndef TESSERA_TRACER_CONTROL_H_
#define TESSERA_TRACER_CONTROL_H_

#include <atomic>
#include <cstdint>

namespace tessera::tracer {

namespace internal {
/// Nonzero when an option of the control plane is set. Kept by RefreshControl().
[[gnu::visibility("hidden")]] extern std::atomic<bool> g_controlled;
bool DecideSlow(bool policy, int one_in);
bool GuardFailsSlow();
}  // namespace internal

/// Some decision may not be the policy's.
inline bool IsControlled() { return internal::g_controlled.load(std::memory_order_relaxed); }

/// The policy's decision; under chaos the opposite in one of `one_in` cases.
inline bool Decide(bool policy, int one_in = 2) {
  if (!internal::g_controlled.load(std::memory_order_relaxed)) [[likely]]
    return policy;
  return internal::DecideSlow(policy, one_in);
}

/// True when a guard that holds must be taken as failed.
inline bool GuardFails() {
  if (!internal::g_controlled.load(std::memory_order_relaxed)) [[likely]]
    return false;
  return internal::GuardFailsSlow();
}

/// Reads the options anew, and seeds.
void RefreshControl();

/// Counts every change of an option: what a version was made under.
uint64_t ConfigEpoch();

}  // namespace tessera::tracer

#endif  // TESSERA_TRACER_CONTROL_H_
