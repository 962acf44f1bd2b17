// Inverse trigonometric functions. f64 natively; f32 through f64 (0.51 ulp).
#ifndef TESSERA_INTERP_CPU_MATH_INVERSE_TRIG_H_
#define TESSERA_INTERP_CPU_MATH_INVERSE_TRIG_H_

#include "interp/cpu/math/basic.h"

namespace tessera::cpu {
namespace TSR_ISA {

// (asin s - s) / s^3 in z = s^2 for |s| <= 1/2: degree 11, error of asin below 2^-55 (relative).
TSR_MATH double AsinTail(double z) {
  double p = 0x1.fa24d6644b141p-6;
  p = Fma(p, z, -0x1.e06ca97871d5ap-7);
  p = Fma(p, z, 0x1.2ebeb79e12cbap-6);
  p = Fma(p, z, 0x1.c6729b9970702p-8);
  p = Fma(p, z, 0x1.8b7c1a1ba8585p-7);
  p = Fma(p, z, 0x1.c7867bc9e04f8p-7);
  p = Fma(p, z, 0x1.1c646cd359c02p-6);
  p = Fma(p, z, 0x1.6e8a7db6e723bp-6);
  p = Fma(p, z, 0x1.f1c725ef51cf8p-6);
  p = Fma(p, z, 0x1.6db6db5826b7fp-5);
  p = Fma(p, z, 0x1.333333334893ep-4);
  return Fma(p, z, 0x1.555555555550ap-3);
}

// asin |x| below 1/2; above, asin sqrt((1 - |x|) / 2), which is acos |x| / 2. As s + tail.
struct AsinParts {
  double s;
  double tail;
  bool big;
};
TSR_MATH AsinParts AsinReduce(double x) {
  const double a = Abs(x);
  const bool big = a > 0.5;
  const double z = Select(big, Fma(-0.5, a, 0.5), a * a);
  const double root = Sqrt(z);
  const double lost = Select(z > 0.0, 0.5 * Fma(-root, root, z) / root, 0.0);
  const double s = Select(big, root, a);
  return {s, Fma(s * z, AsinTail(z), Select(big, lost, 0.0)), big};
}

// 1 ulp (0.8). NaN outside of [-1, 1], by way of the square root.
TSR_MATH double Asin(double x) {
  const AsinParts p = AsinReduce(x);
  const Pair<double> h = FastTwoSum(0x1.921fb54442d18p+0, -2.0 * p.s);
  const double big = h.hi + (h.lo + Fma(-2.0, p.tail, 0x1.1a62633145c07p-54));
  return MulSign(Select(p.big, big, p.s + p.tail), x);
}
// 1 ulp (0.8).
TSR_MATH double Acos(double x) {
  const AsinParts p = AsinReduce(x);
  // acos x = base + factor (s + tail): pi/2 - x', 2 s', or pi - 2 s'.
  const bool neg = IsNegative(x);
  const double base = Select(p.big, Select(neg, 0x1.921fb54442d18p+1, 0.0), 0x1.921fb54442d18p+0);
  const double base_lo = Select(p.big, Select(neg, 0x1.1a62633145c07p-53, 0.0), 0x1.1a62633145c07p-54);
  const double factor = Select(p.big, Select(neg, -2.0, 2.0), Select(neg, 1.0, -1.0));
  const Pair<double> h = FastTwoSum(base, factor * p.s);
  return h.hi + (h.lo + Fma(factor, p.tail, base_lo));
}

// (atan t - t) / t^3 in z = t^2 for |t| <= tan(pi/8): degree 10, error of atan below 2^-57 (relative).
TSR_MATH double AtanTail(double z) {
  double p = -0x1.2ca36558d33fcp-6;
  p = Fma(p, z, 0x1.3b4d2e840b946p-5);
  p = Fma(p, z, -0x1.9e431b85b9696p-5);
  p = Fma(p, z, 0x1.df65cd95f98p-5);
  p = Fma(p, z, -0x1.10f209071e346p-4);
  p = Fma(p, z, 0x1.3b11b0e81bdccp-4);
  p = Fma(p, z, -0x1.745d020458888p-4);
  p = Fma(p, z, 0x1.c71c713e0ec35p-4);
  p = Fma(p, z, -0x1.24924923a24fap-3);
  p = Fma(p, z, 0x1.999999999830ap-3);
  return Fma(p, z, -0x1.5555555555552p-2);
}

// The angle of (b, a), or of (-b, a) if left, for finite a, b >= 0 that are not both 0, and whose sum is finite.
// By octants: a/b, pi/4 + (a - b)/(a + b), pi/2 - b/a; the quotient with its rounding error.
TSR_MATH double AtanOfQuotient(double a, double b, bool left) {
  const bool mid = a > 0x1.a827999fcef32p-2 * b;
  const bool top = b < 0x1.a827999fcef32p-2 * a;
  const Pair<double> diff = TwoSum(a, -b);
  const Pair<double> sum = TwoSum(a, b);
  const double num = Select(top, -b, Select(mid, diff.hi, a));
  const double den = Select(top, a, Select(mid, sum.hi, b));
  const bool middle = mid & !top;
  const double num_lo = Select(middle, diff.lo, 0.0);
  const double den_lo = Select(middle, sum.lo, 0.0);
  const double t = num / den;
  const double t_lo = (Fma(-t, den, num) + Fma(-t, den_lo, num_lo)) / den;
  const double z = t * t;
  const double tail = Fma(t * z, AtanTail(z), t_lo);
  const double base = Select(
      top, 0x1.921fb54442d18p+0,
      Select(mid, Select(left, 0x1.2d97c7f3321d2p+1, 0x1.921fb54442d18p-1), Select(left, 0x1.921fb54442d18p+1, 0.0)));
  const double base_lo = Select(top, 0x1.1a62633145c07p-54,
                                Select(mid, Select(left, 0x1.a79394c9e8a0ap-54, 0x1.1a62633145c07p-55),
                                       Select(left, 0x1.1a62633145c07p-53, 0.0)));
  const Pair<double> h = FastTwoSum(base, Select(left, -t, t));
  return h.hi + (h.lo + (base_lo + Select(left, -tail, tail)));
}

// 1 ulp (0.7).
TSR_MATH double Atan(double x) {
  const double a = Abs(x);
  const bool huge = a > 0x1p60;
  const double y = AtanOfQuotient(Select(huge, 0x1p60, a), 1.0, false);
  return MulSign(y, x);
}

// 1 ulp (0.8), with the C standard's values for zeros and infinities.
TSR_MATH double Atan2(double y, double x) {
  const double ay = Abs(y);
  const double ax = Abs(x);
  const bool any_inf = Or(IsInf(y), IsInf(x));
  const double larger = Select(ay > ax, ay, ax);
  const double scale = Select(larger > 0x1p1020, 0.25, Select(larger < 0x1p-900, 0x1p100, 1.0));
  const double a = Select(any_inf, Select(IsInf(y), 1.0, 0.0), ay * scale);
  double b = Select(any_inf, Select(IsInf(x), 1.0, 0.0), ax * scale);
  b = Select(larger == 0.0, 1.0, b);
  const double r = MulSign(AtanOfQuotient(a, b, IsNegative(x)), y);
  return Select((x != x) | (y != y), x + y, r);
}

TSR_MATH float Asin(float x) { return static_cast<float>(Asin(static_cast<double>(x))); }
TSR_MATH float Acos(float x) { return static_cast<float>(Acos(static_cast<double>(x))); }
TSR_MATH float Atan(float x) { return static_cast<float>(Atan(static_cast<double>(x))); }
TSR_MATH float Atan2(float y, float x) {
  return static_cast<float>(Atan2(static_cast<double>(y), static_cast<double>(x)));
}

}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_MATH_INVERSE_TRIG_H_
