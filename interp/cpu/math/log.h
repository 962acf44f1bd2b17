// Logarithms: x = 2^k m with m in [sqrt(1/2), sqrt(2)), log x = k ln2 + log m.
#ifndef TESSERA_INTERP_CPU_MATH_LOG_H_
#define TESSERA_INTERP_CPU_MATH_LOG_H_

#include "interp/cpu/math/basic.h"

namespace tessera::cpu {
namespace TSR_ISA {

template <typename T>
struct LogReduced {
  T k;
  T m;
  T unscale;  // 2^-k, for the corrections of arguments in [2^-100, 2^100]
};

// For positive, finite x; other values give an unspecified result.
TSR_MATH LogReduced<float> LogReduce(float x) {
  const bool tiny = x < 0x1p-126f;
  const uint32_t ix = Bits(Select(tiny, x * 0x1p24f, x));
  const uint32_t biased = (ix - Bits(0x1.6a09e6p-1f) + (128u << 23)) >> 23;
  const float m = FromBits(ix - ((biased - 128u) << 23));
  const float k = static_cast<float>(static_cast<int32_t>(biased)) - Select(tiny, 152.0f, 128.0f);
  return {k, m, PowerOfTwo(uint32_t{255} - biased)};
}
TSR_MATH LogReduced<double> LogReduce(double x) {
  const bool tiny = x < 0x1p-1022;
  const uint64_t ix = Bits(Select(tiny, x * 0x1p54, x));
  const uint64_t biased = (ix - Bits(0x1.6a09e667f3bcdp-1) + (uint64_t{1024} << 52)) >> 52;
  const double m = FromBits(ix - ((biased - 1024) << 52));
  // No vector int64-to-double conversion in AVX2: put the integer below the units of 2^52.
  const double k = FromBits(biased | Bits(0x1p52)) - Select(tiny, 0x1p52 + 1078.0, 0x1p52 + 1024.0);
  return {k, m, PowerOfTwo(uint64_t{2047} - biased)};
}

// log(1 + f) = head + tail for 1 + f in [sqrt(1/2), sqrt(2)], where head = f - f^2/2 rounded, and tail carries what the
// rounding lost.
// f32: the rest is f^3 times a polynomial of degree 7, error below 2^-26 of the result.
// f64: with s = f / (2 + f), log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)), R of degree 7, error below 2^-57.
TSR_MATH Pair<float> LogKernel(float f) {
  float p = -0x1.43f3acp-4f;
  p = Fma(p, f, 0x1.075114p-3f);
  p = Fma(p, f, -0x1.0c4182p-3f);
  p = Fma(p, f, 0x1.227c36p-3f);
  p = Fma(p, f, -0x1.548bbp-3f);
  p = Fma(p, f, 0x1.99a526p-3f);
  p = Fma(p, f, -0x1.0001cep-2f);
  p = Fma(p, f, 0x1.55554cp-2f);
  const float f2 = f * f;
  return {f, Fma(f2 * f, p, -0.5f * f2)};
}
TSR_MATH Pair<double> LogKernel(double f) {
  const double s = f / (2.0 + f);
  const double z = s * s;
  double p = 0x1.2e39a067e462cp-3;
  p = Fma(p, z, 0x1.39b75f99806bp-3);
  p = Fma(p, z, 0x1.746556a11ad2ep-3);
  p = Fma(p, z, 0x1.c71c56e3aa6fp-3);
  p = Fma(p, z, 0x1.2492493b40fb4p-2);
  p = Fma(p, z, 0x1.9999999988986p-2);
  p = Fma(p, z, 0x1.5555555555572p-1);
  const double half = 0.5 * f * f;
  const double half_lo = Fma(0.5 * f, f, -half);
  const Pair<double> head = FastTwoSum(f, -half);
  return {head.hi, Fma(s, Fma(p, z, half), head.lo - half_lo)};
}

// k ln2 + head + tail. The first part of ln2 is short enough for its product with k to be exact.
TSR_MATH float LogCombine(float k, Pair<float> l) {
  const Pair<float> s = FastTwoSum(k * 0x1.62e4p-1f, l.hi);
  return s.hi + (s.lo + Fma(k, 0x1.7f7d1cp-20f, l.lo));
}
TSR_MATH double LogCombine(double k, Pair<double> l) {
  const Pair<double> s = FastTwoSum(k * 0x1.62e42fefa38p-1, l.hi);
  return s.hi + (s.lo + Fma(k, 0x1.ef35793c7673p-45, l.lo));
}

// What every logarithm of x does outside of (0, inf).
template <typename T>
TSR_MATH T LogEdges(T x, T y) {
  y = Select(x == T(0), -Inf(x), y);
  y = Select(x < T(0), NaN(x), y);
  return Select(x < Inf(x), y, x);
}

template <typename T>
TSR_MATH T LogOf(T x) {
  const LogReduced<T> r = LogReduce(x);
  return LogEdges(x, LogCombine(r.k, LogKernel(r.m - T(1))));
}
// 1 ulp (f32 0.9, f64 0.6).
TSR_MATH float Log(float x) { return LogOf(x); }
TSR_MATH double Log(double x) { return LogOf(x); }

// log(u + c) + extra ln2 for u in [2^-100, 2^1023], |c| at most an ulp of u, c ignored from 2^60 on. Relative accuracy
// holds for u + c near 1 as well: u - 1 is exact there, and c restores the rest.
template <typename T>
TSR_MATH T LogPlus(T u, T c, T extra) {
  const LogReduced<T> r = LogReduce(u);
  const Pair<T> f = FastTwoSum(r.m - T(1), Select(u < T(0x1p60), c * r.unscale, T(0)));
  Pair<T> l = LogKernel(f.hi);
  // What f lost, over 1 + f, to the few bits that matter.
  l.lo = Fma(f.lo, Fma(f.hi, f.hi - T(1), T(1)), l.lo);
  return LogCombine(r.k + extra, l);
}

// log(u + c) with u + c = 1 + x exactly. 1 ulp (f32 0.9, f64 0.6).
template <typename T>
TSR_MATH T Log1pOf(T x) {
  const Pair<T> u = TwoSum(T(1), x);
  T y = LogPlus(u.hi, u.lo, T(0));
  y = Select(x == T(-1), -Inf(x), y);
  y = Select(x < T(-1), NaN(x), y);
  return Select((x < Inf(x)) & (x != T(0)), y, x);
}
TSR_MATH float Log1p(float x) { return Log1pOf(x); }
TSR_MATH double Log1p(double x) { return Log1pOf(x); }

// Other bases: log m times the constant, both in two parts, plus k times the logarithm of 2. Exact for powers of the
// base where those are exact. 1 ulp (f64 0.6; f32 through f64).
TSR_MATH double LogScaled(double x, double c_hi, double c_lo, double two_hi, double two_lo) {
  const LogReduced<double> r = LogReduce(x);
  const Pair<double> parts = LogKernel(r.m - 1.0);
  const Pair<double> l = FastTwoSum(parts.hi, parts.lo);
  const Pair<double> p = TwoProduct(l.hi, c_hi);
  const double p_lo = p.lo + Fma(l.lo, c_hi, l.hi * c_lo);
  const Pair<double> s = FastTwoSum(r.k * two_hi, p.hi);
  return LogEdges(x, s.hi + (s.lo + Fma(r.k, two_lo, p_lo)));
}
TSR_MATH double Log2(double x) { return LogScaled(x, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56, 1.0, 0.0); }
TSR_MATH double Log10(double x) {
  return LogScaled(x, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.34413509f78p-2, 0x1.fef311f12b358p-46);
}
TSR_MATH float Log2(float x) { return static_cast<float>(Log2(static_cast<double>(x))); }
TSR_MATH float Log10(float x) { return static_cast<float>(Log10(static_cast<double>(x))); }

}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_MATH_LOG_H_
