// Guards and the reasons for which they fail, as tables; what a failure looked like.
#ifndef TESSERA_DEOPT_GUARDS_H_
#define TESSERA_DEOPT_GUARDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "interp/observer.h"
#include "runtime/tensor.h"
#include "tracer/trace.h"

namespace tessera::deopt {

enum class DeoptReason : uint8_t {
#define TSR_DEOPT_REASON(name, policy, message) name,
#include "deopt/deopt_reasons.def"
};
enum class Policy : uint8_t { generalise, bridge, record, keep, drop };
struct DeoptReasonInfo {
  DeoptReason id;
  std::string_view name;
  Policy policy;
  std::string_view message;
};
inline constexpr DeoptReasonInfo kDeoptReasons[] = {
#define TSR_DEOPT_REASON(name, policy, message) {DeoptReason::name, #name, Policy::policy, message},
#include "deopt/deopt_reasons.def"
};
inline constexpr int kNumDeoptReasons = static_cast<int>(sizeof(kDeoptReasons) / sizeof(kDeoptReasons[0]));
inline const DeoptReasonInfo& Info(DeoptReason r) { return kDeoptReasons[static_cast<int>(r)]; }
std::string_view Name(Policy policy);

enum class GuardKind : uint8_t {
#define TSR_GUARD(name, reason, expected, summary) name,
#include "deopt/guards.def"
};
struct GuardInfo {
  GuardKind id;
  std::string_view name;
  DeoptReason reason;
  std::string_view expected, summary;
};
inline constexpr GuardInfo kGuards[] = {
#define TSR_GUARD(name, reason, expected, summary) {GuardKind::name, #name, DeoptReason::reason, expected, summary},
#include "deopt/guards.def"
};
inline constexpr int kNumGuards = static_cast<int>(sizeof(kGuards) / sizeof(kGuards[0]));
inline const GuardInfo& Info(GuardKind g) { return kGuards[static_cast<int>(g)]; }

using tracer::DimRange;

/// What an input must be like. dims[i] >= 0: that number; -1 - s: symbol s.
struct InputGuard {
  rt::Device* device = nullptr;
  DType dtype = DType::f32;
  uint8_t rank = 0;
  /// exact: `strides` are compared; dense: row-major whatever the dims; free: not compared.
  enum class Layout : uint8_t { exact, dense, free } layout = Layout::exact;
  int32_t alignment = 1;                                // in bytes, a power of two; 1: not checked
  tracer::MaskShape mask = tracer::MaskShape::unknown;  // by CheckMask(), once for each tensor that comes
  int64_t dims[kMaxRank];
  int64_t strides[kMaxRank];
};

/// Values that symbols have in one run; -1: none yet.
using Symbols = std::vector<int64_t>;

/// One failed guard. Texts are made only when someone wants to see them.
struct GuardFailure {
  GuardKind guard = GuardKind::branch;
  DeoptReason reason = DeoptReason::branch;
  int32_t step = -1;   // in the trace
  int32_t value = -1;  // of the trace
  int32_t dim = -1;
  interp::Source source;
  std::string expected, seen;
};

/// Checks x, which has its storage, against the guard and binds symbols that have no value yet; a symbol of the guard
/// has its place in `ranges` and in `symbols`. On failure fills `failure` (if not null) with the first guard that does
/// not hold, cheapest first; its step, value and source are the caller's, and symbols may be bound in part. Strides do
/// not matter where a dim is 1; of an empty tensor neither strides nor alignment do. Allocates only to fill `failure`.
bool CheckInput(const InputGuard& guard, const rt::TensorImpl& x, const std::vector<DimRange>& ranges, Symbols& symbols,
                GuardFailure* failure);

/// The rest of the guard, for which the elements of x are looked at. A tensor's elements stay as they are while
/// somebody holds it, so that its holder need not ask again.
bool CheckMask(const InputGuard& guard, const rt::TensorImpl& x, GuardFailure* failure);

/// A property of all elements of a tensor that a version may rely on.
struct ValueProperty {
  enum class Kind : uint8_t { all_true, all_finite, within } kind = Kind::all_true;
  double low = 0, high = 0;  // within: low <= every element <= high
};
/// x is in memory of the host, with any dtype and strides. NaN is true (it is not 0), is not finite, and is within
/// nothing; an empty tensor has every property. Integers are compared as such, not rounded to doubles first.
bool Holds(const ValueProperty& property, const View& x);
/// "all true", "all finite", "within 0.0 to 1.0"
std::string ToString(const ValueProperty& property);

}  // namespace tessera::deopt

#endif  // TESSERA_DEOPT_GUARDS_H_
