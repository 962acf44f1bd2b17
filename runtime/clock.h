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

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_CLOCK_H_
