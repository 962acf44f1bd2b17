// Exponentials: x = n ln2 + r with |r| <= ln2/2, e^x = 2^n e^r.
#ifndef TESSERA_INTERP_CPU_MATH_EXP_H_
#define TESSERA_INTERP_CPU_MATH_EXP_H_

#include "interp/cpu/math/basic.h"

namespace tessera::cpu {
namespace TSR_ISA {

// (e^r - 1 - r) / r^2 on |r| <= 0.347. Minimax; the error of e^r that it leaves is below 2^-28 (f32, degree 5) and
// 2^-59 (f64, degree 10).
TSR_MATH float ExpTail(float r) {
  float p = 0x1.a19f2ap-13f;
  p = Fma(p, r, 0x1.6d704ap-10f);
  p = Fma(p, r, 0x1.111092p-7f);
  p = Fma(p, r, 0x1.5554b4p-5f);
  p = Fma(p, r, 0x1.555556p-3f);
  return Fma(p, r, 0x1.0p-1f);
}
TSR_MATH double ExpTail(double r) {
  const double r2 = r * r;
  const double r4 = r2 * r2;
  const double a = Fma(0x1.5555555555559p-3, r, 0x1.0p-1);
  const double b = Fma(0x1.111111110f7c7p-7, r, 0x1.555555555555ap-5);
  const double c = Fma(0x1.a01a01af84d22p-13, r, 0x1.6c16c16c14652p-10);
  const double d = Fma(0x1.71ddf9293e9dap-19, r, 0x1.a01a01b03bdbfp-16);
  const double e = Fma(Fma(0x1.1f945058ff2ccp-29, r, 0x1.af5d73cc6a789p-26), r, 0x1.27e4c67667084p-22);
  const double low = Fma(b, r2, a);
  const double high = Fma(e, r4, Fma(d, r2, c));
  return Fma(high, r4, low);
}

// e^(hi + lo) = (p + p_lo) * 2^n. |lo| is small against 1, and hi is in a range that keeps n within what Scale takes.
template <typename T>
struct ExpParts {
  T p;        // in [0.70, 1.42]
  T p_lo;     // what rounding p lost
  T shifted;  // n + RoundMagic
};

// n as a number, and the reduced argument, r + r_lo, with r_lo the rounding error of r.
template <typename T>
struct ExpReduced {
  T r;
  T r_lo;
  T n;
  T shifted;
};

TSR_MATH ExpReduced<float> ExpReduce(float hi, float lo) {
  const float shifted = Fma(hi, 0x1.715476p+0f, RoundMagic(hi));
  const float n = shifted - RoundMagic(hi);
  // ln2 in two parts, the first short enough for n * part to be exact; fused, so the subtraction is exact as well.
  const float a = Fma(n, -0x1.62e4p-1f, hi);
  const float b = Fma(n, -0x1.7f7d1cp-20f, lo);
  const Pair<float> r = FastTwoSum(a, b);
  return {r.hi, r.lo, n, shifted};
}
TSR_MATH ExpReduced<double> ExpReduce(double hi, double lo) {
  const double shifted = Fma(hi, 0x1.71547652b82fep+0, RoundMagic(hi));
  const double n = shifted - RoundMagic(hi);
  const double a = Fma(n, -0x1.62e42fefa38p-1, hi);
  const double b = Fma(n, -0x1.ef35793c7673p-45, lo);
  const Pair<double> r = FastTwoSum(a, b);
  return {r.hi, r.lo, n, shifted};
}

template <typename T>
TSR_MATH ExpParts<T> ExpKernel(T hi, T lo) {
  const ExpReduced<T> x = ExpReduce(hi, lo);
  const T t = Fma(x.r * x.r, ExpTail(x.r), x.r_lo);
  const Pair<T> s = FastTwoSum(x.r, t);
  const Pair<T> p = FastTwoSum(T(1), s.hi);
  return {p.hi, p.lo + s.lo, x.shifted};
}

// e^r is taken as 1 + r (1 + r tail), so that only the last step's rounding counts in full. 1 ulp (0.9).
TSR_MATH float Exp(float x) {
  x = AtLeast(AtMost(x, 89.0f), -105.0f);
  const float shifted = Fma(x, 0x1.715476p+0f, 0x1.8p23f);
  const float n = shifted - 0x1.8p23f;
  const float r = Fma(n, 0x1.05c61p-29f, Fma(n, -0x1.62e43p-1f, x));
  const float p = Fma(Fma(ExpTail(r), r, 1.0f), r, 1.0f);
  return Scale(p, shifted);
}
TSR_MATH double Exp(double x) {
  x = AtLeast(AtMost(x, 710.0), -746.0);
  const double shifted = Fma(x, 0x1.71547652b82fep+0, 0x1.8p52);
  const double n = shifted - 0x1.8p52;
  const double r = Fma(n, -0x1.abc9e3b39803fp-56, Fma(n, -0x1.62e42fefa39efp-1, x));
  const double p = Fma(Fma(ExpTail(r), r, 1.0), r, 1.0);
  return Scale(p, shifted);
}

// e^x for x <= 0, and 0 where that is below the smallest normal number: the weights of a softmax. Half the instructions
// of Exp: no clamps, one scaling, and a polynomial whose steps do not wait for each other. 1 ulp.
TSR_MATH float ExpWeight(float x) {
  const float shifted = Fma(x, 0x1.715476p+0f, 0x1.8000fep23f);  // n + 127 in the low bits
  const float n = shifted - 0x1.8000fep23f;
  const float r = Fma(n, 0x1.05c61p-29f, Fma(n, -0x1.62e43p-1f, x));
  const float r2 = r * r;
  const float a = Fma(0x1.555556p-3f, r, 0x1.0p-1f);
  const float b = Fma(0x1.111092p-7f, r, 0x1.5554b4p-5f);
  const float c = Fma(0x1.a19f2ap-13f, r, 0x1.6d704ap-10f);
  const float p = Fma(Fma(Fma(c, r2, b), r2, a), r2, r) + 1.0f;
  const float y = p * FromBits(Bits(shifted) << 23);
  return x < -87.0f ? 0.0f : y;
}
TSR_MATH double ExpWeight(double x) {
  const double shifted = Fma(x, 0x1.71547652b82fep+0, 0x1.80000000003ffp52);
  const double n = shifted - 0x1.80000000003ffp52;
  const double r = Fma(n, -0x1.abc9e3b39803fp-56, Fma(n, -0x1.62e42fefa39efp-1, x));
  const double p = Fma(ExpTail(r), r * r, r) + 1.0;
  const double y = p * FromBits(Bits(shifted) << 52);
  return x < -708.0 ? 0.0 : y;
}

// (2^f - 1) / f on |f| <= 1/2: degrees 5 and 10, errors of 2^f below 2^-28 and 2^-57.
TSR_MATH float Exp2Polynomial(float f) {
  float p = 0x1.44228p-13f;
  p = Fma(p, f, 0x1.5f0b92p-10f);
  p = Fma(p, f, 0x1.3b2a4ap-7f);
  p = Fma(p, f, 0x1.c6af76p-5f);
  p = Fma(p, f, 0x1.ebfbep-3f);
  p = Fma(p, f, 0x1.62e43p-1f);
  return p;
}
TSR_MATH double Exp2Polynomial(double f) {
  double p = 0x1.eb0fdd100640fp-32;
  p = Fma(p, f, 0x1.e61b61dcf7e05p-28);
  p = Fma(p, f, 0x1.b52416983239ep-24);
  p = Fma(p, f, 0x1.62bfc79ce448dp-20);
  p = Fma(p, f, 0x1.ffcbfce156f1ap-17);
  p = Fma(p, f, 0x1.4309130ed2907p-13);
  p = Fma(p, f, 0x1.5d87fe788793cp-10);
  p = Fma(p, f, 0x1.3b2ab6fba016fp-7);
  p = Fma(p, f, 0x1.c6b08d704a188p-5);
  p = Fma(p, f, 0x1.ebfbdff82c5a4p-3);
  p = Fma(p, f, 0x1.62e42fefa39efp-1);
  return p;
}

// 2^x; the fraction x - n is exact. 1 ulp (0.9).
TSR_MATH float Exp2(float x) {
  x = AtLeast(AtMost(x, 129.0f), -151.0f);
  const float shifted = x + 0x1.8p23f;
  const float f = x - (shifted - 0x1.8p23f);
  return Scale(Fma(Exp2Polynomial(f), f, 1.0f), shifted);
}
TSR_MATH double Exp2(double x) {
  x = AtLeast(AtMost(x, 1025.0), -1076.0);
  const double shifted = x + 0x1.8p52;
  const double f = x - (shifted - 0x1.8p52);
  return Scale(Fma(Exp2Polynomial(f), f, 1.0), shifted);
}

// e^x - 1 = (2^n - 1) + 2^n r + 2^n (e^r - 1 - r), the first two terms added exactly. 1 ulp (f32 0.9, f64 1.0).
// Below `floor` the result rounds to -1. n = max exponent + 1 would overflow 2^n, so there it is applied in two steps.
template <typename T>
TSR_MATH T Expm1Of(T x, T floor, T ceiling, T max_n) {
  const T sign_keeper = x;
  x = AtLeast(AtMost(x, ceiling), floor);
  const ExpReduced<T> e = ExpReduce(x, T(0));
  const T t = Fma(e.r * e.r, ExpTail(e.r), e.r_lo);
  const bool top = e.n > max_n;
  const T shifted = Select(top, RoundMagic(x) + max_n, e.shifted);
  const T s = Scale(T(1), shifted);
  const T s1 = s - T(1);
  const T h = Fma(s, e.r, s1);
  const T h_lo = Fma(s, e.r, s1 - h) + ((s - s1) - T(1));
  const T y = (h + Fma(s, t, h_lo)) * Select(top, T(2), T(1));
  return Select(x == T(0), sign_keeper, y);
}
TSR_MATH float Expm1(float x) { return Expm1Of(x, -20.0f, 89.0f, 127.0f); }
TSR_MATH double Expm1(double x) { return Expm1Of(x, -40.0, 710.0, 1023.0); }

}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_MATH_EXP_H_
