// The error function and its complement, and the tail of the normal distribution that Gelu needs.
//
// Tails: exp(a^2) erfc(a) = p(t) / (a + K) with t = (a - K) / (a + K), which maps [0, inf) to [-1, 1); one polynomial p
// serves all a. exp(-a^2) takes a^2 with its rounding error, and its power of two is applied last, so that subnormal
// results are rounded once.
#ifndef TESSERA_INTERP_CPU_MATH_SPECIAL_H_
#define TESSERA_INTERP_CPU_MATH_SPECIAL_H_

#include "interp/cpu/math/basic.h"
#include "interp/cpu/math/exp.h"

namespace tessera::cpu {
namespace TSR_ISA {

// (p(t) - p(0)) / t for erfc with K = 4: p has degree 22 and a relative error below 2^-54 up to a = 28.
TSR_MATH double ErfcPolynomial(double t) {
  const double t2 = t * t;
  const double t4 = t2 * t2;
  double low = -0x1.dd283c21c1361p-12;
  low = Fma(low, t, -0x1.269b56c3c406cp-12);
  low = Fma(low, t, 0x1.908f470768d0fp-8);
  low = Fma(low, t, -0x1.b00c052a442dfp-6);
  low = Fma(low, t, 0x1.38dbd2c91999ap-4);
  low = Fma(low, t, -0x1.645fd8a4bfa11p-3);
  low = Fma(low, t, 0x1.52cac2370f2a8p-2);
  low = Fma(low, t, -0x1.14eacb1ad02dcp-1);
  low = Fma(low, t, 0x1.8be202d26c73fp-1);
  low = Fma(low, t, -0x1.f3fe31ecb49cp-1);
  double high = 0x1.e0ac46f7bfe82p-31;
  high = Fma(high, t, -0x1.b6584a4e6b43p-31);
  high = Fma(high, t, -0x1.07232f4ec0552p-26);
  high = Fma(high, t, 0x1.06c0153e4e6ebp-28);
  high = Fma(high, t, 0x1.0b5b198590b71p-23);
  high = Fma(high, t, -0x1.5561c2ba3a16p-24);
  high = Fma(high, t, -0x1.c6ca26cc62e0bp-21);
  high = Fma(high, t, 0x1.7f17243a026fcp-20);
  high = Fma(high, t, 0x1.3b18a33a4d1dp-18);
  high = Fma(high, t, -0x1.3c748ff7724fp-16);
  high = Fma(high, t, -0x1.e7f7a12629ca3p-19);
  high = Fma(high, t, 0x1.72cddc1fe4c64p-13);
  return Fma(high * t2, t4 * t4, low);
}
// The same for erfc(a / sqrt(2)) with K = 5: degree 22, relative error below 2^-55 up to a = 40.
TSR_MATH double NormalTailPolynomial(double t) {
  const double t2 = t * t;
  const double t4 = t2 * t2;
  double low = -0x1.f21459c751e8dp-14;
  low = Fma(low, t, 0x1.1daf1c79382a9p-10);
  low = Fma(low, t, -0x1.a25037e602654p-10);
  low = Fma(low, t, -0x1.88590ea4b2318p-8);
  low = Fma(low, t, 0x1.54b4d4f4c06c8p-5);
  low = Fma(low, t, -0x1.1b1c254c9d792p-3);
  low = Fma(low, t, 0x1.51f6329f01ap-2);
  low = Fma(low, t, -0x1.410ed5f875a18p-1);
  low = Fma(low, t, 0x1.fb31653876f7dp-1);
  low = Fma(low, t, -0x1.54ad03f27ca17p+0);
  double high = -0x1.3bb87fd66be75p-31;
  high = Fma(high, t, 0x1.956abbafd2f4bp-29);
  high = Fma(high, t, 0x1.100697ac52c7fp-26);
  high = Fma(high, t, -0x1.22589b27c1a4dp-26);
  high = Fma(high, t, -0x1.1ba70af1207bep-23);
  high = Fma(high, t, 0x1.61346520a4d1bp-24);
  high = Fma(high, t, 0x1.d0eda81c0ad83p-21);
  high = Fma(high, t, -0x1.687f5b7ba80d9p-21);
  high = Fma(high, t, -0x1.73a8df9f185ecp-18);
  high = Fma(high, t, 0x1.0b204b2a7005cp-17);
  high = Fma(high, t, 0x1.17dcdb95b8c51p-15);
  high = Fma(high, t, -0x1.a1708fe00c795p-14);
  return Fma(high * t2, t4 * t4, low);
}
// p(t) for erfc(a / sqrt(2)) in f32 with K = 4: degree 9, relative error below 2^-25 up to a = 15.
TSR_MATH float NormalTailPolynomial(float t) {
  float p = -0x1.15059ap-12f;
  p = Fma(p, t, 0x1.7306cp-12f);
  p = Fma(p, t, 0x1.9a5e9cp-9f);
  p = Fma(p, t, -0x1.cc85e4p-8f);
  p = Fma(p, t, -0x1.ed02ccp-7f);
  p = Fma(p, t, 0x1.eed64ep-4f);
  p = Fma(p, t, -0x1.7e003ap-2f);
  p = Fma(p, t, 0x1.8c6d9p-1f);
  p = Fma(p, t, -0x1.373e38p+0f);
  p = Fma(p, t, 0x1.82b4bcp+0f);
  return p;
}

// p(t) / (a + K) with its rounding error, given t and what t's own rounding lost.
struct TailQuotient {
  double t;
  double t_lo;
  double inverse;
  Pair<double> den;
};
TSR_MATH TailQuotient TailReduce(double a, double k) {
  const Pair<double> den = TwoSum(a, k);
  const Pair<double> num = TwoSum(a, -k);
  const double inverse = 1.0 / den.hi;
  const double t = num.hi * inverse;
  const double t_lo = (Fma(-t, den.hi, num.hi) + Fma(-t, den.lo, num.lo)) * inverse;
  return {t, t_lo, inverse, den};
}
// `q` is (p(t) - c0) / t. p'/p is close to 0.63 t - 1, which is all that t_lo needs.
TSR_MATH Pair<double> TailCombine(TailQuotient x, double c0, double q) {
  const Pair<double> qt = TwoProduct(q, x.t);
  const Pair<double> p = TwoSum(c0, qt.hi);
  const double p_lo = Fma(p.hi * Fma(0.63, x.t, -1.0), x.t_lo, p.lo + qt.lo);
  const double y = p.hi * x.inverse;
  return {y, (Fma(-y, x.den.hi, p.hi) + Fma(-y, x.den.lo, p_lo)) * x.inverse};
}

// erfc(a) = value * 2^n for a in [0, 28]; `shifted` is n + RoundMagic.
struct ScaledTail {
  double value;
  double shifted;
};
TSR_MATH ScaledTail ErfcTail(double a) {
  const TailQuotient x = TailReduce(a, 4.0);
  const Pair<double> y = TailCombine(x, 0x1.18932bf08e154p+0, ErfcPolynomial(x.t));
  const Pair<double> sq = TwoProduct(a, a);
  const ExpParts<double> e = ExpKernel(-sq.hi, -sq.lo);
  return {Fma(e.p, y.hi, Fma(e.p, y.lo, e.p_lo * y.hi)), e.shifted};
}

// erf(x) / x - 1 in z = x^2 for |x| <= 1: degrees 6 and 12, errors of erf below 2^-26 and 2^-56 (relative).
TSR_MATH float ErfPolynomial(float z) {
  float p = 0x1.4ae366p-14f;
  p = Fma(p, z, -0x1.a48566p-11f);
  p = Fma(p, z, 0x1.5419e2p-8f);
  p = Fma(p, z, -0x1.b7fbb2p-6f);
  p = Fma(p, z, 0x1.ce2d2p-4f);
  p = Fma(p, z, -0x1.81273ep-2f);
  p = Fma(p, z, 0x1.06eba8p-3f);
  return p;
}
TSR_MATH double ErfPolynomial(double z) {
  double p = 0x1.06271157131c5p-34;
  p = Fma(p, z, -0x1.38ac063a5276bp-30);
  p = Fma(p, z, 0x1.f7b993c7339d7p-27);
  p = Fma(p, z, -0x1.5f1f40061d93bp-23);
  p = Fma(p, z, 0x1.b9df303e0c0b8p-20);
  p = Fma(p, z, -0x1.f4d1e43232bep-17);
  p = Fma(p, z, 0x1.f9a321e494578p-14);
  p = Fma(p, z, -0x1.c02db3db4825p-11);
  p = Fma(p, z, 0x1.565bcd0dbd8a3p-8);
  p = Fma(p, z, -0x1.b82ce31284f35p-6);
  p = Fma(p, z, 0x1.ce2f21a042b34p-4);
  p = Fma(p, z, -0x1.812746b0379e6p-2);
  p = Fma(p, z, 0x1.06eba8214db69p-3);
  return p;
}

// f32: beyond 1, 1 - exp(q(|x|)) with q = log erfc of degree 6, error below 2^-27. 2 ulp (1.3).
TSR_MATH float Erf(float x) {
  const float small = Fma(x, ErfPolynomial(x * x), x);
  const float a = AtMost(Abs(x), 4.0f);
  float p = 0x1.9190bep-13f;
  p = Fma(p, a, -0x1.8920a8p-9f);
  p = Fma(p, a, 0x1.694956p-6f);
  p = Fma(p, a, -0x1.a8340cp-4f);
  p = Fma(p, a, -0x1.4673bep-1f);
  p = Fma(p, a, -0x1.209eeep+0f);
  p = Fma(p, a, -0x1.0d2562p-12f);
  const float shifted = Fma(p, 0x1.715476p+0f, 0x1.8p23f);
  const float n = shifted - 0x1.8p23f;
  const float r = Fma(n, 0x1.05c61p-29f, Fma(n, -0x1.62e43p-1f, p));
  const float e = Fma(Fma(ExpTail(r), r, 1.0f), r, 1.0f);
  const float scale = PowerOfTwo(Bits(shifted) - Bits(0x1.8p23f) + 127);
  const float big = Copysign(Fma(-e, scale, 1.0f), x);
  return Select(a < 1.0f, small, Select(x != x, x, big));
}
// f64: beyond 1, 1 - erfc. 1 ulp (1.0).
TSR_MATH double Erf(double x) {
  const double small = Fma(x, ErfPolynomial(x * x), x);
  const double a = AtMost(Abs(x), 6.0);
  const ScaledTail t = ErfcTail(a);
  const double big = Copysign(Fma(-t.value, PowerOfTwo(Bits(t.shifted) - Bits(0x1.8p52) + 1023), 1.0), x);
  return Select(a < 1.0, small, Select(x != x, x, big));
}

// 2 ulp (f64 1.6; f32 through f64, 0.51).
TSR_MATH double Erfc(double x) {
  const double a = AtMost(Abs(x), 28.0);
  const ScaledTail t = ErfcTail(a);
  const double y = Scale(t.value, t.shifted);
  // The sign of a NaN that has come all this way depends on how negations and products were fused.
  return Select(x != x, x + x, Select(x < 0.0, 2.0 - y, y));
}
TSR_MATH float Erfc(float x) { return static_cast<float>(Erfc(static_cast<double>(x))); }

}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_MATH_SPECIAL_H_
