// What every element-wise op computes: tables of X(name, expression), one for each group of dtypes, and the functions
// of integers and questions that the expressions name. Tier 1's loops (loops_ew_*_isa.cc) and the functions that
// compiled kernels call (tiers/compiler/target/math_functions.cc) are both made from them, so an op has one meaning.
//
// In an expression x is the operand of a unary op; a and b those of a binary one; a, b and c those of a ternary one;
// T is their type, and U the unsigned type of its size where T is an integer. The result is cast to T, or to bool for
// the tables named ASK. `where` is in none of them: it moves bits.
#ifndef TESSERA_INTERP_CPU_EW_OPS_ISA_H_
#define TESSERA_INTERP_CPU_EW_OPS_ISA_H_

#include "interp/cpu/math/math.h"

namespace tessera::cpu {
namespace TSR_ISA {

template <typename T>
struct UnsignedOf {
  using Type = T;
};
template <>
struct UnsignedOf<int64_t> {
  using Type = uint64_t;
};
template <>
struct UnsignedOf<int32_t> {
  using Type = uint32_t;
};
template <>
struct UnsignedOf<int8_t> {
  using Type = uint8_t;
};

// ---- integers and bools. Overflow wraps: sums and products are formed in unsigned types.

template <typename T>
constexpr int kWidth = 8 * sizeof(T);
template <typename T>
constexpr bool kSigned = T(-1) < T(0);

template <typename T>
TSR_MATH T Negated(T x) {
  using U = typename UnsignedOf<T>::Type;
  return static_cast<T>(U(0) - static_cast<U>(x));
}
template <typename T>
TSR_MATH T AbsInt(T x) {
  return x < 0 ? Negated(x) : x;
}
template <typename T>
TSR_MATH T Max(T a, T b) {
  return a > b ? a : b;
}
template <typename T>
TSR_MATH T Min(T a, T b) {
  return a < b ? a : b;
}

// Division by 0 gives 0. By -1 it is a negation, so that the smallest number wraps in place of trapping.
template <typename T>
TSR_MATH T TruncDiv(T a, T b) {
  if (b == 0) return 0;
  if (kSigned<T> && b == T(-1)) return Negated(a);
  return static_cast<T>(a / b);
}
template <typename T>
TSR_MATH T TruncMod(T a, T b) {
  if (b == 0 || (kSigned<T> && b == T(-1))) return 0;
  return static_cast<T>(a % b);
}
template <typename T>
TSR_MATH T FloorDivInt(T a, T b) {
  const T r = TruncMod(a, b);
  return static_cast<T>(TruncDiv(a, b) - (r != 0 && (r < 0) != (b < 0) ? 1 : 0));
}
template <typename T>
TSR_MATH T FloorModInt(T a, T b) {
  const T r = TruncMod(a, b);
  return static_cast<T>(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}

// A negative power is 1 / a^-b truncated: only 1 and -1 leave anything (0 counts as division by 0).
template <typename T>
TSR_MATH T PowInt(T a, T b) {
  using U = typename UnsignedOf<T>::Type;
  if (b < 0) return a == T(1) ? T(1) : kSigned<T> && a == T(-1) ? ((b & 1) != 0 ? T(-1) : T(1)) : T(0);
  U result = 1, base = static_cast<U>(a), e = static_cast<U>(b);
  while (e != 0) {
    if ((e & 1) != 0) result = static_cast<U>(result * base);
    base = static_cast<U>(base * base);
    e = static_cast<U>(e >> 1);
  }
  return static_cast<T>(result);
}

template <typename T>
TSR_MATH typename UnsignedOf<T>::Type Gcd(T a, T b) {
  using U = typename UnsignedOf<T>::Type;
  U u = static_cast<U>(AbsInt(a)), v = static_cast<U>(AbsInt(b));
  while (v != 0) {
    const U r = static_cast<U>(u % v);
    u = v;
    v = r;
  }
  return u;
}
template <typename T>
TSR_MATH T Lcm(T a, T b) {
  using U = typename UnsignedOf<T>::Type;
  const U g = Gcd(a, b);
  return g == 0 ? T(0) : static_cast<T>(static_cast<U>(AbsInt(a)) / g * static_cast<U>(AbsInt(b)));
}

// b outside the width: nothing is left but, to the right, the sign.
template <typename T>
TSR_MATH T ShiftLeft(T a, T b) {
  using U = typename UnsignedOf<T>::Type;
  const bool within = static_cast<U>(b) < U(kWidth<T>);
  const T shifted = static_cast<T>(static_cast<U>(a) << (static_cast<U>(b) & U(kWidth<T> - 1)));
  return within ? shifted : T(0);
}
template <typename T>
TSR_MATH T ShiftRight(T a, T b) {
  using U = typename UnsignedOf<T>::Type;
  const bool within = static_cast<U>(b) < U(kWidth<T>);
  const T shifted = static_cast<T>(a >> (static_cast<U>(b) & U(kWidth<T> - 1)));
  return within ? shifted : a < 0 ? T(-1) : T(0);
}

// ---- questions

TSR_MATH bool IsNan(float x) { return x != x; }
TSR_MATH bool IsNan(double x) { return x != x; }
TSR_MATH bool IsFinite(float x) { return Abs(x) < Inf(x); }
TSR_MATH bool IsFinite(double x) { return Abs(x) < Inf(x); }
TSR_MATH bool HasSign(float x) { return Bits(x) >> 31 != 0; }
TSR_MATH bool HasSign(double x) { return Bits(x) >> 63 != 0; }
template <typename T>
TSR_MATH bool IsNan(T) {
  return false;
}
template <typename T>
TSR_MATH bool IsInf(T) {
  return false;
}
template <typename T>
TSR_MATH bool IsFinite(T) {
  return true;
}
template <typename T>
TSR_MATH bool HasSign(T x) {
  return x < 0;
}

}  // namespace TSR_ISA
}  // namespace tessera::cpu

// ---- f32 and f64: exact, or a few roundings

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

// ---- f32 and f64: functions of interp/cpu/math

#define TSR_MATH1(X)        \
  X(rsqrt, Rsqrt(x))        \
  X(cbrt, Cbrt(x))          \
  X(exp, Exp(x))            \
  X(exp2, Exp2(x))          \
  X(expm1, Expm1(x))        \
  X(log, Log(x))            \
  X(log2, Log2(x))          \
  X(log10, Log10(x))        \
  X(log1p, Log1p(x))        \
  X(asin, Asin(x))          \
  X(acos, Acos(x))          \
  X(atan, Atan(x))          \
  X(sinh, Sinh(x))          \
  X(cosh, Cosh(x))          \
  X(tanh, Tanh(x))          \
  X(asinh, Asinh(x))        \
  X(acosh, Acosh(x))        \
  X(atanh, Atanh(x))        \
  X(erf, Erf(x))            \
  X(erfc, Erfc(x))          \
  X(sigmoid, Sigmoid(x))    \
  X(softplus, Softplus(x))  \
  X(gelu, Gelu(x))          \
  X(gelu_tanh, GeluTanh(x)) \
  X(silu, Silu(x))          \
  X(mish, Mish(x))          \
  X(selu, Selu(x))

#define TSR_MATH2(X)              \
  X(floor_div, FloorDiv(a, b))    \
  X(pow, Pow(a, b))               \
  X(atan2, Atan2(a, b))           \
  X(hypot, Hypot(a, b))           \
  X(logaddexp, LogAddExp(a, b))   \
  X(logaddexp2, LogAddExp2(a, b)) \
  X(elu, Elu(a, b))               \
  X(gelu_tanh_grad, GeluTanhGrad(a, b))

// Straight-line code for common arguments, and slow code for the rest: X(name, fast, is it one of the rest, slow).
#define TSR_REPAIR1(X)                              \
  X(sin, SinFast(x), SinNeedsLarge(x), SinLarge(x)) \
  X(cos, CosFast(x), CosNeedsLarge(x), CosLarge(x)) \
  X(tan, TanFast(x), TanNeedsLarge(x), TanLarge(x))

#define TSR_REPAIR2(X)                                         \
  X(fmod, FmodFast(a, b), FmodNeedsSlow(a, b), FmodSlow(a, b)) \
  X(mod, ModFromFmod(FmodFast(a, b), b), FmodNeedsSlow(a, b), ModFromFmod(FmodSlow(a, b), b))

// ---- integers

#define TSR_INT1(X)          \
  X(neg, Negated(x))         \
  X(abs, AbsInt(x))          \
  X(sign, (x > 0) - (x < 0)) \
  X(square, U(x) * U(x))     \
  X(floor, x)                \
  X(ceil, x)                 \
  X(round, x)                \
  X(trunc, x)                \
  X(relu, Max(x, T(0)))      \
  X(relu6, Min(Max(x, T(0)), T(6)))

#define TSR_INT2(X)                              \
  X(sub, U(a) - U(b))                            \
  X(floor_div, FloorDivInt(a, b))                \
  X(mod, FloorModInt(a, b))                      \
  X(fmod, TruncMod(a, b))                        \
  X(pow, PowInt(a, b))                           \
  X(heaviside, a < 0 ? T(0) : a == 0 ? b : T(1)) \
  X(gcd, Gcd(a, b))                              \
  X(lcm, Lcm(a, b))                              \
  X(shift_left, ShiftLeft(a, b))                 \
  X(shift_right, ShiftRight(a, b))

// These have bools too, held as uint8_t 0 and 1.
#define TSR_INT2_BOOL(X) \
  X(maximum, Max(a, b))  \
  X(minimum, Min(a, b))  \
  X(fmax, Max(a, b))     \
  X(fmin, Min(a, b))     \
  X(bit_and, a& b)       \
  X(bit_or, a | b)       \
  X(bit_xor, a ^ b)      \
  X(mul, U(a) * U(b))

#define TSR_INT3(X) X(clamp, Min(Max(a, b), c))

// These are other ops for bools.
#define TSR_INT1_NOT_BOOL(X) X(bit_not, ~x)
#define TSR_INT2_NOT_BOOL(X) X(add, U(a) + U(b))
#define TSR_BOOL1(X) X(bit_not, x ^ 1)
#define TSR_BOOL2(X) X(add, a | b)

// ---- questions, of all dtypes

#define TSR_ASK1(X)        \
  X(isnan, IsNan(x))       \
  X(isinf, IsInf(x))       \
  X(isfinite, IsFinite(x)) \
  X(signbit, HasSign(x))   \
  X(logical_not, x == T(0))

#define TSR_ASK2(X)                         \
  X(eq, a == b)                             \
  X(ne, a != b)                             \
  X(lt, a < b)                              \
  X(le, a <= b)                             \
  X(gt, a > b)                              \
  X(ge, a >= b)                             \
  X(logical_and, (a != T(0)) & (b != T(0))) \
  X(logical_or, (a != T(0)) | (b != T(0)))  \
  X(logical_xor, (a != T(0)) ^ (b != T(0)))

#endif  // TESSERA_INTERP_CPU_EW_OPS_ISA_H_
