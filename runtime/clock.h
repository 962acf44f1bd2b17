// The one clock of the runtime.
#ifndef TESSERA_RUNTIME_CLOCK_H_
#define TESSERA_RUNTIME_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace tessera::rt {

/// Nanoseconds of the steady clock. The vDSO answers it without entering the kernel.
inline int64_t NowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// A counter that runs evenly and costs a fraction of what the clock does. How fast it runs, NowNs() tells whoever
/// reads both twice.
inline int64_t Ticks() {
#if defined(__aarch64__)
  int64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#elif defined(__x86_64__)
  return static_cast<int64_t>(__builtin_ia32_rdtsc());
#else
  return NowNs();
#endif
}

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_CLOCK_H_
