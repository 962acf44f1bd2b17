// Events for memory that a pool takes from the system or gives back: how much, how long it took, and why.
#ifndef TESSERA_RUNTIME_MEMORY_EVENTS_H_
#define TESSERA_RUNTIME_MEMORY_EVENTS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/clock.h"
#include "runtime/ring.h"

namespace tessera::rt {

enum class MemoryReason : uint8_t {
#define TSR_MEMORY_REASON(name, summary) name,
#include "runtime/memory_reasons.def"
};

/// The third word of such an event.
struct MemoryWhy {
  MemoryReason reason = MemoryReason::block;
  int gpu = -1;  // -1: memory of the host

  constexpr int64_t Pack() const { return int64_t{gpu + 1} << 8 | static_cast<int64_t>(reason); }
  /// Number of the reason, and gpu.
  static constexpr int64_t ReasonOf(int64_t packed) { return packed & 0xff; }
  static constexpr int64_t GpuOf(int64_t packed) { return (packed >> 8) - 1; }
};

/// Times one call that takes memory or gives it back; nothing but a load where nobody wants events.
class MemoryEvent {
 public:
  MemoryEvent() : start_(EventsOn() ? NowNs() : 0) {}
  /// The call is over. `held`: bytes that the pool holds after it.
  void Done(EventKind kind, size_t bytes, int64_t held, MemoryWhy why) const {
    if (start_ != 0) [[unlikely]]
      RecordFor(kind, NowNs() - start_, static_cast<int64_t>(bytes), held, why.Pack());
  }

 private:
  int64_t start_;
};

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_MEMORY_EVENTS_H_
