// Hyperbolic functions and their inverses. Tanh has an f32 version of its own; the others go through f64 (0.51 ulp).
#ifndef TESSERA_INTERP_CPU_MATH_HYPERBOLIC_H_
#define TESSERA_INTERP_CPU_MATH_HYPERBOLIC_H_

#include "interp/cpu/math/basic.h"
#include "interp/cpu/math/exp.h"
#include "interp/cpu/math/log.h"

namespace tessera::cpu {
namespace TSR_ISA {

// (tanh x - x) / x^3 in z = x^2 for |x| <= 0.6: degrees 4 and 10, errors of tanh below 2^-28 and 2^-57 (relative).
TSR_MATH float TanhTail(float z) {
  float p = -0x1.862e04p-8f;
  p = Fma(p, z, 0x1.559988p-6f);
  p = Fma(p, z, -0x1.b8bcf4p-5f);
  p = Fma(p, z, 0x1.110adap-3f);
  p = Fma(p, z, -0x1.555544p-2f);
  return p;
}
TSR_MATH double TanhTail(double z) {
  double p = -0x1.2564337c43468p-16;
  p = Fma(p, z, 0x1.4f470e59a2209p-14);
  p = Fma(p, z, -0x1.e450de66334e6p-13);
  p = Fma(p, z, 0x1.33ff1c554931ep-11);
  p = Fma(p, z, -0x1.7d7f6441ee759p-10);
  p = Fma(p, z, 0x1.d6d152d013e79p-9);
  p = Fma(p, z, -0x1.226e2711431f4p-7);
  p = Fma(p, z, 0x1.664f481e0d397p-6);
  p = Fma(p, z, -0x1.ba1ba1b892f95p-5);
  p = Fma(p, z, 0x1.111111110fb9cp-3);
  p = Fma(p, z, -0x1.555555555554cp-2);
  return p;
}

// Beyond 0.6: 1 - 2 / (e^(2|x|) + 1). 2 ulp (1.5).
TSR_MATH float Tanh(float x) {
  const float z = x * x;
  const float small = Fma(z * x, TanhTail(z), x);
  const float a = AtMost(Abs(x), 10.0f) * 2.0f;
  const float shifted = Fma(a, 0x1.715476p+0f, 0x1.8p23f);
  const float n = shifted - 0x1.8p23f;
  const float r = Fma(n, 0x1.05c61p-29f, Fma(n, -0x1.62e43p-1f, a));
  const float e = Fma(Fma(ExpTail(r), r, 1.0f), r, 1.0f);
  const float scale = PowerOfTwo(Bits(shifted) - Bits(0x1.8p23f) + 127);
  const float big = 1.0f - 2.0f / Fma(e, scale, 1.0f);
  return Copysign(Select(a < 1.2f, small, big), x);
}
TSR_MATH double Tanh(double x) {
  const double z = x * x;
  const double small = Fma(z * x, TanhTail(z), x);
  const double a = AtMost(Abs(x), 20.0) * 2.0;
  const double shifted = Fma(a, 0x1.71547652b82fep+0, 0x1.8p52);
  const double n = shifted - 0x1.8p52;
  const double r = Fma(n, -0x1.abc9e3b39803fp-56, Fma(n, -0x1.62e42fefa39efp-1, a));
  const double e = Fma(Fma(ExpTail(r), r, 1.0), r, 1.0);
  const double scale = PowerOfTwo(Bits(shifted) - Bits(0x1.8p52) + 1023);
  const double big = 1.0 - 2.0 / Fma(e, scale, 1.0);
  return Copysign(Select(a < 1.2, small, big), x);
}

// (sinh x - x) / x^3 in z = x^2 for |x| <= 1: degree 6, error of sinh below 2^-56 (relative).
TSR_MATH double SinhTail(double z) {
  double p = 0x1.b4c308d8ba838p-41;
  p = Fma(p, z, 0x1.611a6740febb6p-33);
  p = Fma(p, z, 0x1.ae6466e504811p-26);
  p = Fma(p, z, 0x1.71de3a46b0fdcp-19);
  p = Fma(p, z, 0x1.a01a01a0280b7p-13);
  p = Fma(p, z, 0x1.11111111110adp-7);
  p = Fma(p, z, 0x1.5555555555556p-3);
  return p;
}

// e^|x| / 2 with its rounding error; inf once sinh and cosh overflow.
TSR_MATH Pair<double> HalfExp(double x) {
  const double a = AtMost(Abs(x), 711.0);
  const ExpParts<double> e = ExpKernel(a, 0.0);
  return {Scale(e.p, e.shifted - 1.0), Scale(e.p_lo, e.shifted - 1.0)};
}
// 1 ulp (0.8).
TSR_MATH double Sinh(double x) {
  const double z = x * x;
  const double small = Fma(z * x, SinhTail(z), x);
  const Pair<double> h = HalfExp(x);
  return Select(Abs(x) < 1.0, small, MulSign(h.hi + (h.lo - 0.25 / h.hi), x));
}
// 1 ulp (0.9).
TSR_MATH double Cosh(double x) {
  const Pair<double> h = HalfExp(x);
  return h.hi + (h.lo + 0.25 / h.hi);
}

// The inverses are logarithms of an argument held in two parts, which keeps relative accuracy near 1, where the
// logarithm is near 0; below 2^-27 the odd ones are their argument.

// log(a + sqrt(a^2 + 1)). 1 ulp (0.7).
TSR_MATH double Asinh(double x) {
  const double a = Abs(x);
  const double b = AtMost(a, 0x1p40);
  const Pair<double> sq = TwoProduct(b, b);
  const Pair<double> t = TwoSum(1.0, sq.hi);
  const double root = Sqrt(t.hi);
  const double root_lo = (Fma(-root, root, t.hi) + (t.lo + sq.lo)) / (2.0 * root);
  const Pair<double> u = TwoSum(b, root);
  const Pair<double> v = FastTwoSum(u.hi, u.lo + root_lo);
  const bool huge = a > 0x1p30;
  const double y = LogPlus(Select(huge, a, v.hi), Select(huge, 0.0, v.lo), Select(huge, 1.0, 0.0));
  return Select((a < Inf(a)) & (a > 0x1p-27), Copysign(y, x), x);
}

// log(x + sqrt(x^2 - 1)). 1 ulp (0.7).
TSR_MATH double Acosh(double x) {
  const double b = AtMost(x, 0x1p40);
  const Pair<double> sq = TwoProduct(b, b);
  const Pair<double> d = TwoSum(sq.hi, -1.0);
  const Pair<double> t = FastTwoSum(d.hi, d.lo + sq.lo);
  const double root = Sqrt(t.hi);
  const double root_lo = Select(root > 0.0, (Fma(-root, root, t.hi) + t.lo) / (2.0 * root), 0.0);
  const Pair<double> u = TwoSum(b, root);
  const Pair<double> v = FastTwoSum(u.hi, u.lo + root_lo);
  const bool huge = x > 0x1p30;
  const double y = LogPlus(Select(huge, x, v.hi), Select(huge, 0.0, v.lo), Select(huge, 1.0, 0.0));
  return Select(x < 1.0, NaN(x), Select(x < Inf(x), y, x));
}

// log((1 + a) / (1 - a)) / 2. 1 ulp (0.7).
TSR_MATH double Atanh(double x) {
  const double a = Abs(x);
  const Pair<double> num = FastTwoSum(1.0, a);
  const Pair<double> den = FastTwoSum(1.0, -a);
  const double q = num.hi / den.hi;
  const double q_lo = (Fma(-q, den.hi, num.hi) + Fma(-q, den.lo, num.lo)) / den.hi;
  const Pair<double> u = FastTwoSum(q, q_lo);
  double y = Copysign(0.5 * LogPlus(u.hi, u.lo, 0.0), x);
  y = Select(a == 1.0, Copysign(Inf(x), x), y);
  y = Select(a > 1.0, NaN(x), y);
  return Select((a > 0x1p-27), y, x);
}

TSR_MATH float Sinh(float x) { return static_cast<float>(Sinh(static_cast<double>(x))); }
TSR_MATH float Cosh(float x) { return static_cast<float>(Cosh(static_cast<double>(x))); }
TSR_MATH float Asinh(float x) { return static_cast<float>(Asinh(static_cast<double>(x))); }
TSR_MATH float Acosh(float x) { return static_cast<float>(Acosh(static_cast<double>(x))); }
TSR_MATH float Atanh(float x) { return static_cast<float>(Atanh(static_cast<double>(x))); }

}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_MATH_HYPERBOLIC_H_
