// A request to stop what runs, as a user makes it with Ctrl-C. Loops and calls of functions look at it, in tier 1 and
// in versions, and end with a cancelled status; ops that run are not cut short.
#ifndef TESSERA_INTERP_INTERRUPT_H_
#define TESSERA_INTERP_INTERRUPT_H_

#include <atomic>

#include "runtime/status.h"

namespace tessera::interp {

namespace internal {
/// A lock-free flag: a signal handler may set it.
[[gnu::visibility("hidden")]] extern std::atomic<bool> g_interrupt;
}  // namespace internal

/// Of the whole process: every function that runs is asked to stop until the request is taken back.
inline void RequestInterrupt() { internal::g_interrupt.store(true, std::memory_order_relaxed); }
inline void ClearInterrupt() { internal::g_interrupt.store(false, std::memory_order_relaxed); }
inline bool Interrupted() { return internal::g_interrupt.load(std::memory_order_relaxed); }
inline absl::Status InterruptedStatus() { return absl::CancelledError("interrupted"); }

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_INTERRUPT_H_
