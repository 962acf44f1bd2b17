// Fault points: the rows of faults.def. Tests arm one; the code that meets it behaves as if the system had failed.
#ifndef TESSERA_RUNTIME_FAULT_H_
#define TESSERA_RUNTIME_FAULT_H_

#include <atomic>
#include <cstdint>
#include <string_view>

namespace tessera::rt {

enum class Fault : uint8_t {
#define TSR_FAULT(name, owner, summary) name,
#include "runtime/faults.def"
};

inline constexpr int kNumFaults = 0
#define TSR_FAULT(name, owner, summary) +1
#include "runtime/faults.def"
    ;

struct FaultInfo {
  Fault id;
  std::string_view name, owner, summary;
};
inline constexpr FaultInfo kFaults[] = {
#define TSR_FAULT(name, owner, summary) {Fault::name, #name, #owner, summary},
#include "runtime/faults.def"
};

namespace internal {
// Hidden, which spares the reader a load of its address.
[[gnu::visibility("hidden")]] extern std::atomic<uint32_t> g_armed_faults;
bool FaultFiresSlow(Fault f);
}  // namespace internal

inline bool AnyFaultArmed() { return internal::g_armed_faults.load(std::memory_order_relaxed) != 0; }

/// True when the armed count of this fault has come. One relaxed load when nothing is armed.
inline bool FaultFires(Fault f) {
  if (!AnyFaultArmed()) [[likely]]
    return false;
  return internal::FaultFiresSlow(f);
}

/// The nth call (1: the next one) of FaultFires(f) from now, in any thread, is true, and `times` - 1 more after it;
/// then the fault is disarmed. times < 0: until it is disarmed. nth == 0 disarms.
void ArmFault(Fault f, int64_t nth, int64_t times = 1);
void DisarmFaults();

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_FAULT_H_
