// Activations and soft maxima. Each is within 4 ulp of its exact value everywhere, the far tails included; the figure
// measured stands with each. Limits, not IEEE products, at infinity: Silu(-inf) = -0, not NaN.
#ifndef TESSERA_INTERP_CPU_MATH_ACTIVATION_H_
#define TESSERA_INTERP_CPU_MATH_ACTIVATION_H_

#include "interp/cpu/math/basic.h"
#include "interp/cpu/math/exp.h"
#include "interp/cpu/math/log.h"
#include "interp/cpu/math/special.h"

namespace tessera::cpu {
namespace TSR_ISA {

// Below the first of these, e^x is 0 after rounding, and so is x e^x below the second.
TSR_MATH float ExpFloor(float) { return -105.0f; }
TSR_MATH double ExpFloor(double) { return -746.0; }
TSR_MATH float ExpProductFloor(float) { return -110.0f; }
TSR_MATH double ExpProductFloor(double) { return -754.0; }

// e^(hi + lo) = (p + p_lo) 2^n, as ExpKernel, but for the rounding error of the reduction. For code whose own error is
// larger.
template <typename T>
struct ExpRough {
  T p;
  T p_lo;
  T shifted;
};
TSR_MATH ExpRough<float> ExpKernelRough(float hi, float lo) {
  const float shifted = Fma(hi, 0x1.715476p+0f, 0x1.8p23f);
  const float n = shifted - 0x1.8p23f;
  const float r = Fma(n, -0x1.62e43p-1f, hi) + Fma(n, 0x1.05c61p-29f, lo);
  const Pair<float> p = FastTwoSum(1.0f, Fma(r * r, ExpTail(r), r));
  return {p.hi, p.lo, shifted};
}
TSR_MATH ExpRough<double> ExpKernelRough(double hi, double lo) {
  const double shifted = Fma(hi, 0x1.71547652b82fep+0, 0x1.8p52);
  const double n = shifted - 0x1.8p52;
  const double r = Fma(n, -0x1.62e42fefa39efp-1, hi) + Fma(n, -0x1.abc9e3b39803fp-56, lo);
  const Pair<double> p = FastTwoSum(1.0, Fma(r * r, ExpTail(r), r));
  return {p.hi, p.lo, shifted};
}

// factor / (1 + e^-v) for v = -(hi + lo) >= 0, or factor e^-v / (1 + e^-v) if `negative`. The power of two comes last.
template <typename T>
TSR_MATH T Logistic(T factor, bool negative, T hi, T lo) {
  const ExpRough<T> e = ExpKernelRough(hi, lo);
  const T den = T(1) + Scale(e.p, e.shifted);
  const T y = Select(negative, factor * e.p, factor) / den;
  return Scale(y, Select(negative, e.shifted, RoundMagic(hi)));
}

// 3 ulp (f32 2.3, f64 1.9).
template <typename T>
TSR_MATH T SigmoidOf(T x) {
  return Logistic(T(1), !(x >= T(0)), AtLeast(-Abs(x), ExpFloor(x)), T(0));
}
TSR_MATH float Sigmoid(float x) { return SigmoidOf(x); }
TSR_MATH double Sigmoid(double x) { return SigmoidOf(x); }

// x sigmoid(x). 4 ulp (f32 3.0, f64 2.4).
template <typename T>
TSR_MATH T SiluOf(T x) {
  const T c = AtLeast(x, ExpProductFloor(x));
  return Logistic(c, !(x >= T(0)), AtLeast(-Abs(x), ExpProductFloor(x)), T(0));
}
TSR_MATH float Silu(float x) { return SiluOf(x); }
TSR_MATH double Silu(double x) { return SiluOf(x); }

// x (1 + tanh u) / 2 = x sigmoid(2 u) with 2 u = x (c1 + c3 x^2), c1 = 2 sqrt(2/pi), c3 = 0.044715 c1. Constants and
// products in two parts: in the negative tail the absolute error of 2 u becomes a relative one. 3 ulp (f32 3.0,
// f64 2.8).
template <typename T>
TSR_MATH T GeluTanhOf(T x, T limit, Pair<T> c1, Pair<T> c3) {
  const T a = AtMost(Abs(x), limit);
  const Pair<T> sq = TwoProduct(a, a);
  const Pair<T> p = TwoProduct(sq.hi, c3.hi);
  const Pair<T> s = TwoSum(c1.hi, p.hi);
  const T s_lo = s.lo + (c1.lo + Fma(sq.lo, c3.hi, Fma(sq.hi, c3.lo, p.lo)));
  const Pair<T> v = TwoProduct(s.hi, a);
  const T v_lo = Fma(s_lo, a, v.lo);
  return Logistic(AtLeast(x, -limit), !(x >= T(0)), -v.hi, -v_lo);
}
TSR_MATH float GeluTanh(float x) {
  return GeluTanhOf(x, 11.0f, Pair<float>{0x1.988454p+0f, -0x1.857936p-25f},
                    Pair<float>{0x1.2444f2p-4f, 0x1.49b16ap-29f});
}
TSR_MATH double GeluTanh(double x) {
  return GeluTanhOf(x, 22.5, Pair<double>{0x1.9884533d43651p+0, -0x1.cbc0d30ebfd15p-54},
                    Pair<double>{0x1.2444f2a4d8b4bp-4, -0x1.6c843a29d1c7p-61});
}

// The slope of that at x, times g: with v = x (c1 + c3 x^2) and s = sigmoid(v) it is s (1 + x (1 - s) v'), where
// neither s nor 1 - s is a difference. The error is one of g, 4 units: the slope has a zero. Beyond the limit it is 0
// or 1.
template <typename T>
TSR_MATH T GeluTanhGradOf(T x, T g, T e, T near, T steep) {
  const bool negative = x < T(0);
  const T far = e * near;
  return g * (Select(negative, far, near) * Fma(x * Select(negative, near, far), steep, T(1)));
}
TSR_MATH float GeluTanhGrad(float x, float g) {
  constexpr float kC1 = 0x1.988454p+0f, kC3 = 0x1.2444f2p-4f;
  const float c = AtLeast(AtMost(x, 25.0f), -25.0f), sq = c * c;
  const float v = Abs(c * Fma(kC3, sq, kC1));
#if defined(__CUDACC__) || defined(__NVPTX__)
  // The device's own power of two: what it errs is far below that of the slope.
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(v * -0x1.715476p+0f));
#else
  const float e = Exp(-v);
#endif
  return GeluTanhGradOf(c, g, e, RoughReciprocal(1.0f + e), Fma(3.0f * kC3, sq, kC1));
}
TSR_MATH double GeluTanhGrad(double x, double g) {
  constexpr double kC1 = 0x1.9884533d43651p+0, kC3 = 0x1.2444f2a4d8b4bp-4;
  const double c = AtLeast(AtMost(x, 25.0), -25.0), sq = c * c;
  const double e = Exp(-Abs(c * Fma(kC3, sq, kC1)));
  return GeluTanhGradOf(c, g, e, 1.0 / (1.0 + e), Fma(3.0 * kC3, sq, kC1));
}

// x Phi(x), Phi the normal distribution: -|x| Phi(-|x|) below zero, x - x Phi(-x) above, with
// Phi(-a) = exp(-a^2/2) p(t) / (2 (a + K)) from special.h. 3 ulp (f32 3.0, f64 1.9).
#if defined(__CUDACC__) || defined(__NVPTX__)
// On a GPU the same as 2^(-k a^2) s p(s) with s = 1 / (a + 4), half the instructions: 4 ulp (4.0, of all floats), of
// which 1.2 are what the device's own power of two errs. k is log2(e) / 2 rounded to f32, and p makes good for that.
// The exponent is taken to a multiple of 2^-16, by a number from which it can be subtracted exactly; what that leaves,
// and the errors of s, are small, so they are made good together with the error of a 2^(-k a^2): the result changes
// 0.77 + 8 s times as much as s does. Powers of two are 2^24 times as large until the end, so that none of those that
// count is subnormal; p is -2^-24 times what it is, to undo that and to subtract. At -0 the result is +0.
TSR_MATH float Gelu(float x) {
  const float a = SmallerOf(Magnitude(x), 15.0f);
  const float sq = a * a;
  constexpr float kMinusK = -0x1.715476p-1f, kGrid = 300.0f;
  const float shifted = Fma(sq, kMinusK, kGrid);
  const float u_lo = Fma(Fma(a, a, -sq), kMinusK, Fma(sq, kMinusK, kGrid - shifted));
  const float den = a + 4.0f;
  const float den_lo = a - (den - 4.0f);
  const float s = RoughReciprocal(den);
  const float missing = Fma(-s, den_lo, Fma(-s, den, 1.0f));
  // Minimax for a up to 14.5, relative error 2^-26.6; of such polynomials the one with the smallest largest error of
  // the function as it is computed here.
  float p = -0x1.17f1d8p-10f;
  p = Fma(p, s, 0x1.0cefeep-10f);
  p = Fma(p, s, -0x1.e101d4p-13f);
  p = Fma(p, s, -0x1.2edc02p-16f);
  p = Fma(p, s, -0x1.60e9a6p-18f);
  p = Fma(p, s, -0x1.4df7d8p-18f);
  p = Fma(p, s, -0x1.2ee486p-20f);
  p = Fma(p, s, -0x1.854c32p-22f);
  p = Fma(p, s, -0x1.97cbf4p-24f);
  p = Fma(p, s, -0x1.988c9ep-26f);
  const float y = p * s;
  const float e = RoughExp2(shifted - (kGrid - 24.0f));
  const float z = a * e;
  const float z_lo = Fma(z, Fma(Fma(0x1.ff4996p+2f, s, 0x1.8bb86ap-1f), missing, u_lo * 0x1.62e43p-1f), Fma(a, e, -z));
  return Fma(y, z, Fma(y, z_lo, LargerOf(x, 0.0f)));
}
#else
TSR_MATH float Gelu(float x) {
  const float a = AtMost(Abs(x), 15.0f);
  const float half = 0.5f * a;
  const float sq = half * a;
  const ExpRough<float> e = ExpKernelRough(-sq, -Fma(half, a, -sq));
  const Pair<float> den = TwoSum(a, 4.0f);
  const float inverse = RoughReciprocal(den.hi);
  const float num = den.hi - 8.0f;
  const float q = num * inverse;
  const float t = Fma(Fma(-q, den.hi, num), inverse, q);
  // What is missing, relative to the result: 1/den's rounding, and den.lo in 1/den and in t (p'/p is near 0.63 t - 1).
  const float missing =
      Fma(den.lo * inverse, Fma(8.0f * inverse, Fma(0.63f, t, -1.0f), -1.0f), Fma(-inverse, den.hi, 1.0f));
  const float p = NormalTailPolynomial(t);
  const float y = p * e.p;
  const float y_lo = Fma(p, e.p_lo, Fma(p, e.p, -y));
  const float z = y * inverse;
  const float z_lo = Fma(z, missing, Fma(y_lo, inverse, Fma(y, inverse, -z)));
  const float tail = Scale(Fma(half, z, half * z_lo), e.shifted);
  return Select(IsNegative(x), -tail, x - tail);
}
#endif
TSR_MATH double Gelu(double x) {
  const double a = AtMost(Abs(x), 39.5);
  const double half = 0.5 * a;
  const Pair<double> sq = TwoProduct(half, a);
  const ExpParts<double> e = ExpKernel(-sq.hi, -sq.lo);
  const TailQuotient q = TailReduce(a, 5.0);
  const Pair<double> y = TailCombine(q, 0x1.89d3abe1f95aep+0, NormalTailPolynomial(q.t));
  const double phi = Fma(e.p, y.hi, Fma(e.p, y.lo, e.p_lo * y.hi));
  const double tail = Scale(phi * half, e.shifted);
  return Select(IsNegative(x), -tail, x - tail);
}

// x tanh(log(1 + e^x)). With e = e^-|x|: (1 + 2e) / (1 + 2e + 2e^2) above zero, e (e + 2) / (e (e + 2) + 2) below.
// 4 ulp (f32 3.4, f64 2.5).
template <typename T>
TSR_MATH T MishOf(T x) {
  const bool negative = !(x >= T(0));
  const ExpRough<T> k = ExpKernelRough(AtLeast(-Abs(x), ExpProductFloor(x)), T(0));
  const T e = Scale(k.p, k.shifted);
  const T e2 = e + T(2);
  const T above = Fma(T(2), e, T(1));
  const T num = Select(negative, Fma(T(2), k.p, Fma(k.p, e, k.p_lo + k.p_lo)), above);
  const T den = Select(negative, Fma(e, e2, T(2)), Fma(e + e, e, above));
  return Scale(AtLeast(x, ExpProductFloor(x)) * (num / den), Select(negative, k.shifted, RoundMagic(x)));
}
TSR_MATH float Mish(float x) { return MishOf(x); }
TSR_MATH double Mish(double x) { return MishOf(x); }

// log(1 + e^x) = max(x, 0) + log1p(e^-|x|). 2 ulp (1.6).
template <typename T>
TSR_MATH T SoftplusOf(T x) {
  return AtLeast(x, T(0)) + Log1p(Exp(-Abs(x)));
}
TSR_MATH float Softplus(float x) { return SoftplusOf(x); }
TSR_MATH double Softplus(double x) { return SoftplusOf(x); }

// x above zero, alpha (e^x - 1) below; 2 ulp.
TSR_MATH float Elu(float x, float alpha) { return Select(x > 0.0f, x, alpha * Expm1(x)); }
TSR_MATH double Elu(double x, double alpha) { return Select(x > 0.0, x, alpha * Expm1(x)); }
// scale x above zero, scale alpha (e^x - 1) below, with the constants of the paper; 2 ulp (1.7).
TSR_MATH float Selu(float x) { return Select(x > 0.0f, 1.0507009873554805f * x, 1.7580993408473766f * Expm1(x)); }
TSR_MATH double Selu(double x) { return Select(x > 0.0, 1.0507009873554805 * x, 1.7580993408473766 * Expm1(x)); }

// log(e^a + e^b) = max + log1p(e^-d), d = |a - b| with its rounding error. Where max and the logarithm cancel, the
// error is 3 ulp (2.0) of the larger of the two, not of the result. f32 through f64 (which hides that).
TSR_MATH double LogAddExp(double a, double b) {
  const double hi = Maximum(a, b);
  const double lo = Minimum(a, b);
  const Pair<double> d = TwoSum(lo, -hi);
  const bool same = a == b;
  const double x = AtLeast(Select(same, 0.0, d.hi), -746.0);
  const double e = Exp(x);
  return hi + Log1p(Fma(e, Select((x > -700.0) & !same, d.lo, 0.0), e));
}
TSR_MATH double LogAddExp2(double a, double b) {
  const double hi = Maximum(a, b);
  const double lo = Minimum(a, b);
  const Pair<double> d = TwoSum(lo, -hi);
  const bool same = a == b;
  const double x = AtLeast(Select(same, 0.0, d.hi), -1076.0);
  const double e = Exp2(x);
  const double l = Log1p(Fma(e * 0x1.62e42fefa39efp-1, Select((x > -1000.0) & !same, d.lo, 0.0), e));
  return Select(same, hi + 1.0, Fma(l, 0x1.71547652b82fep+0, hi));
}
TSR_MATH float LogAddExp(float a, float b) {
  return static_cast<float>(LogAddExp(static_cast<double>(a), static_cast<double>(b)));
}
TSR_MATH float LogAddExp2(float a, float b) {
  return static_cast<float>(LogAddExp2(static_cast<double>(a), static_cast<double>(b)));
}

}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_MATH_ACTIVATION_H_
