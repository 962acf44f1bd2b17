// Powers and roots: Pow, Cbrt, Hypot.
#ifndef TESSERA_INTERP_CPU_MATH_POWER_H_
#define TESSERA_INTERP_CPU_MATH_POWER_H_

#include "interp/cpu/math/basic.h"
#include "interp/cpu/math/exp.h"
#include "interp/cpu/math/log.h"

namespace tessera::cpu {
namespace TSR_ISA {

// log x in two parts, relative error below 2^-65, for positive finite x. With m as in LogReduce and
// s = (m - 1) / (m + 1), log m = 2 s + s^3 (2/3 + s^2 q(s^2)): s, s^2, s^3 and 2/3 + ... in two parts, q (degree 7,
// error of the logarithm below 2^-67) in one.
TSR_MATH Pair<double> LogTwoParts(double x) {
  const LogReduced<double> r = LogReduce(x);
  const double f = r.m - 1.0;
  const Pair<double> d = TwoSum(r.m, 1.0);
  const double inverse = 1.0 / d.hi;
  const double s = f * inverse;
  const double s_lo = Fma(-s, d.lo, Fma(-s, d.hi, f)) * inverse;
  const double z = s * s;
  const double z_lo = Fma(2.0 * s, s_lo, Fma(s, s, -z));
  double q = 0x1.e78c729ed1bf6p-4;
  q = Fma(q, z, 0x1.dea8032083699p-4);
  q = Fma(q, z, 0x1.111d98a3efecdp-3);
  q = Fma(q, z, 0x1.3b137952eeb2cp-3);
  q = Fma(q, z, 0x1.745d17d4fbd05p-3);
  q = Fma(q, z, 0x1.c71c71c6587fap-3);
  q = Fma(q, z, 0x1.249249249283ep-2);
  q = Fma(q, z, 0x1.9999999999999p-2);
  const Pair<double> c = FastTwoSum(0x1.5555555555555p-1, q * z);
  const double c_lo = c.lo + 0x1.5555555555555p-55;
  const double s3 = s * z;
  const double s3_lo = Fma(s, z, -s3) + Fma(s, z_lo, s_lo * z);
  const double u = s3 * c.hi;
  const double u_lo = Fma(s3, c.hi, -u) + Fma(s3, c_lo, s3_lo * c.hi);
  const Pair<double> a = FastTwoSum(2.0 * s, u);
  const Pair<double> b = FastTwoSum(r.k * 0x1.62e42fefa38p-1, a.hi);
  const double lo = b.lo + (a.lo + Fma(r.k, 0x1.ef35793c7673p-45, Fma(2.0, s_lo, u_lo)));
  return FastTwoSum(b.hi, lo);
}

// Gives |x|^y its sign, and the values that the C standard names for zeros, ones, infinities and NaN.
template <typename T>
TSR_MATH T PowEdges(T x, T y, T magnitude) {
  const T a = Abs(x);
  const bool integral = Trunc(y) == y;
  const bool odd = integral & (Trunc(y * T(0.5)) != y * T(0.5));
  const bool grows = y > T(0);
  T r = magnitude;
  r = Select(a == T(0), Select(grows, T(0), Inf(x)), r);
  r = Select(a == Inf(x), Select(grows, Inf(x), T(0)), r);
  r = Select(a == T(1), T(1), r);
  r = Select(odd, MulSign(r, x), r);
  r = Select((x < T(0)) & (a < Inf(x)) & !integral, NaN(x), r);
  r = Select((x != x) | (y != y), x + y, r);
  return Select((y == T(0)) | (x == T(1)), T(1), r);
}

// e^(y log |x|) with the exponent in two parts. 1 ulp (0.7).
TSR_MATH double Pow(double x, double y) {
  const Pair<double> l = LogTwoParts(Abs(x));
  const double t = y * l.hi;
  const double t_lo = Fma(y, l.lo, Fma(y, l.hi, -t));
  const double hi = AtLeast(AtMost(t, 710.0), -746.0);
  const ExpParts<double> e = ExpKernel(hi, Select(hi == t, t_lo, 0.0));
  return PowEdges(x, y, Scale(e.p + e.p_lo, e.shifted));
}
// In f64, with no more accuracy than f32 needs: log2 by a polynomial of degree 5 in s^2 (error below 2^-43), 2^f by one
// of degree 7 (2^-34). The power of two cannot leave the range of f64, so the one rounding to f32 is the last step.
// 1 ulp (0.51).
TSR_MATH float Pow(float x, float y) {
  const LogReduced<double> r = LogReduce(static_cast<double>(Abs(x)));
  const double f = r.m - 1.0;
  const double s = f / (r.m + 1.0);
  const double z = s * s;
  double q = 0x1.21b522b7f6ebep-2;
  q = Fma(q, z, 0x1.47950a43ccc0ep-2);
  q = Fma(q, z, 0x1.a61a30a798aep-2);
  q = Fma(q, z, 0x1.2776c290d9f02p-1);
  q = Fma(q, z, 0x1.ec709dc53e882p-1);
  q = Fma(q, z, 0x1.71547652b825p+1);
  const double t = static_cast<double>(y) * Fma(s, q, r.k);
  const double c = AtLeast(AtMost(t, 140.0), -160.0);
  const double shifted = c + 0x1.8p52;
  const double g = c - (shifted - 0x1.8p52);
  double p = 0x1.00f7b423c11f9p-16;
  p = Fma(p, g, 0x1.446c7bacbc6ccp-13);
  p = Fma(p, g, 0x1.5d8715adf620ap-10);
  p = Fma(p, g, 0x1.3b29d8b870585p-7);
  p = Fma(p, g, 0x1.c6b08e06f69dp-5);
  p = Fma(p, g, 0x1.ebfbe0aa093e8p-3);
  p = Fma(p, g, 0x1.62e42fef6cd18p-1);
  p = Fma(p, g, 0x1.ffffffffa70bep-1);
  const double magnitude = p * PowerOfTwo(Bits(shifted) - Bits(0x1.8p52) + 1023);
  return PowEdges(x, y, static_cast<float>(magnitude));
}

// |x| = 2^(3k + j) m with m in [1/2, 1). m^(-1/3) by a polynomial of degree 5 (2^-17) and one step of third order
// (2^-49); then one Newton step for the cube root itself, its residual taken exactly. 1 ulp (0.51; f32 through f64).
TSR_MATH double Cbrt(double x) {
  const double a = Abs(x);
  const bool tiny = a < 0x1p-1022;
  const uint64_t ix = Bits(Select(tiny, a * 0x1p54, a));
  const double exponent = FromBits((ix >> 52) | Bits(0x1p52)) - (0x1p52 + 1022.0);
  const double m = FromBits((ix & (Bits(0x1p-1022) - 1)) | Bits(0.5));
  const double shifted = Fma(exponent - 1.0, 0x1.5555555555555p-2, 0x1.8p52);
  const double j = Fma(shifted - 0x1.8p52, -3.0, exponent);
  double p = -0x1.659bb5e20be98p-1;
  p = Fma(p, m, 0x1.989ca4fab7faep+1);
  p = Fma(p, m, -0x1.86094d6d9654ap+2);
  p = Fma(p, m, 0x1.94591c43accf3p+2);
  p = Fma(p, m, -0x1.fb633ea0ea9f5p+1);
  p = Fma(p, m, 0x1.1f8db2edadd6fp+1);
  const double e = Fma(-m * p, p * p, 1.0);
  p = Fma(p * e, Fma(e, 0x1.c71c71c71c71cp-3, 0x1.5555555555555p-2), p);
  p *= Select(j == 0.0, 1.0, Select(j == 1.0, 0x1.965fea53d6e3dp-1, 0x1.428a2f98d728bp-1));
  const double target = m * Select(j == 0.0, 1.0, Select(j == 1.0, 2.0, 4.0));
  const double y = target * (p * p);
  const Pair<double> sq = TwoProduct(y, y);
  const double residual = Fma(sq.hi, y, -target) + sq.lo * y;
  const double root = Fma(residual * -0x1.5555555555555p-2, p * p, y);
  const double scaled = root * PowerOfTwo(Bits(shifted) - Bits(0x1.8p52) + 1023) * Select(tiny, 0x1p-18, 1.0);
  return Select((a < Inf(a)) & (a > 0.0), MulSign(scaled, x), x);
}
TSR_MATH float Cbrt(float x) { return static_cast<float>(Cbrt(static_cast<double>(x))); }

// sqrt(x^2 + y^2) without overflow or underflow on the way; inf if either is infinite, even if the other is NaN.
// 1 ulp (f64 0.6; f32 through f64).
TSR_MATH double Hypot(double x, double y) {
  const double ax = Abs(x);
  const double ay = Abs(y);
  const bool swap = ax < ay;
  const double larger = Select(swap, ay, ax);
  const double smaller = Select(swap, ax, ay);
  const double up = Select(larger > 0x1p500, 0x1p-600, Select(larger < 0x1p-400, 0x1p600, 1.0));
  const double down = Select(larger > 0x1p500, 0x1p600, Select(larger < 0x1p-400, 0x1p-600, 1.0));
  const Pair<double> a = TwoProduct(larger * up, larger * up);
  const Pair<double> b = TwoProduct(smaller * up, smaller * up);
  const Pair<double> s = FastTwoSum(a.hi, b.hi);
  const double root = Sqrt(s.hi);
  const double lost = (Fma(-root, root, s.hi) + (s.lo + (a.lo + b.lo))) / (2.0 * root);
  const double r = (root + Select(s.hi > 0.0, lost, 0.0)) * down;
  return Select(Or(IsInf(x), IsInf(y)), Inf(ax), Select((x != x) | (y != y), x + y, r));
}
TSR_MATH float Hypot(float x, float y) {
  const double dx = static_cast<double>(x);
  const double dy = static_cast<double>(y);
  const float r = static_cast<float>(Sqrt(Fma(dx, dx, dy * dy)));
  return Select(Or(IsInf(x), IsInf(y)), Inf(x), r);
}

}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_MATH_POWER_H_
