// Arithmetic of f32 and f64 that needs no series: exact, or a few roundings.
#include "interp/cpu/loops_ew_isa.h"

namespace tessera::cpu::TSR_ISA {
namespace {

#define TSR_FLOAT1(X)                                         \
  X(neg, -x)                                                  \
  X(abs, Abs(x))                                              \
  X(sign, Sign(x))                                            \
  X(square, x* x)                                             \
  X(reciprocal, T(1) / x)                                     \
  X(sqrt, Sqrt(x))                                            \
  X(floor, Floor(x))                                          \
  X(ceil, Ceil(x))                                            \
  X(round, Rint(x))                                           \
  X(trunc, Trunc(x))                                          \
  X(relu, Select(x > T(0) || x != x, x, T(0)))                \
  X(relu6, AtMost(Select(x > T(0) || x != x, x, T(0)), T(6))) \
  X(degrees, x* T(57.29577951308232087679815))                \
  X(radians, x* T(0.01745329251994329576923691))              \
  X(hardswish, x*(AtMost(AtLeast(x + T(3), T(0)), T(6)) / T(6)))

#define TSR_FLOAT2(X)           \
  X(add, a + b)                 \
  X(sub, a - b)                 \
  X(mul, a* b)                  \
  X(div, a / b)                 \
  X(maximum, Maximum(a, b))     \
  X(minimum, Minimum(a, b))     \
  X(fmax, Fmax(a, b))           \
  X(fmin, Fmin(a, b))           \
  X(copysign, Copysign(a, b))   \
  X(heaviside, Heaviside(a, b)) \
  X(leaky_relu, Select(a > T(0), a, b * a))

#define TSR_FLOAT3(X) X(clamp, Minimum(Maximum(a, b), c))

TSR_FLOAT1(TSR_EW1)
TSR_FLOAT2(TSR_EW2)
TSR_FLOAT3(TSR_EW3)

const EwEntry kEntries[] = {TSR_FLOAT1(TSR_EW_FLOATS) TSR_FLOAT2(TSR_EW_FLOATS) TSR_FLOAT3(TSR_EW_FLOATS)};

}  // namespace

TSR_EW_LIST(kEwFloat, kEntries);

}  // namespace tessera::cpu::TSR_ISA
