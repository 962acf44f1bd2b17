// Functions for CUDA devices whose results are rounded to bf16, f16 or f8 in the end: tsr_exp_f32_narrow and so on, in
// place of tsr_exp_f32. Their relative error is below 2^-14, a 32nd of what that rounding makes of them, and they are a
// quarter of the instructions: bf16 leaves about thirty for each element before arithmetic is what a kernel waits for.
// They are built on the device's own approximations of 2^x (2^-22), 1/x and 1/sqrt(x) (2^-22.9). Results below
// 2^-121 may become 0. Infinities and NaN are those of the exact functions.
//
// Those that end in Row are for f32 and f64, where a result follows from a sum in any case.
//
// Sums and products there may be contracted, which only makes them more exact.
//
// Not among them are functions with zeros away from 0 (log) or with results near 0 that take more than one formula
// (expm1, erf).
#ifndef TESSERA_TIERS_COMPILER_TARGET_MATH_NARROW_H_
#define TESSERA_TIERS_COMPILER_TARGET_MATH_NARROW_H_

#include "interp/cpu/math/basic.h"

namespace tessera::cpu::TSR_ISA {

constexpr float kLog2E = 0x1.715476p+0f;

// e^x. The product's absolute error, at most 2^-17, is the relative one of the result.
TSR_MATH float ExpNarrow(float x) { return __nvvm_ex2_approx_ftz_f(x * kLog2E); }
TSR_MATH float ReciprocalNarrow(float x) { return __nvvm_rcp_approx_ftz_f(x); }
TSR_MATH float RsqrtNarrow(float x) { return __nvvm_rsqrt_approx_f(x); }
// Within 1 ulp, for a number of each row; f64, which the exact function takes, is slow.
TSR_MATH float RsqrtRow(float x) {
  const float y = __nvvm_rsqrt_approx_f(x);
  const float fixed = Fma(0.5f * Fma(-x * y, y, 1.0f), y, y);
  return Select(And(y > 0.0f, y < Inf(y)), fixed, y);
}

// sum / n, within 1 ulp: the assembler has as much work with a division as with all the rest of a short kernel.
TSR_MATH float MeanRow(float sum, float n) {
  const float r = ReciprocalNarrow(n);
  return sum * Fma(Fma(-n, r, 1.0f), r, r);
}
TSR_MATH double MeanRow(double sum, double n) {
  double r = ReciprocalNarrow(static_cast<float>(n));
  r = Fma(Fma(-n, r, 1.0), r, r);
  return sum * Fma(Fma(-n, r, 1.0), r, r);
}

// e^x for x <= 0, the weights of a softmax, whose results have no exact bits to keep: 2 ulp for half the instructions
// of the exact function. What the product lacks is made good. 0 where the result is no normal number.
TSR_MATH float ExpWeightRow(float x) {
  const float c = __nvvm_fmax_nan_f(x, -88.0f);
  const float u = c * kLog2E;
  const float lo = Fma(c, 0x1.4ae0cp-26f, Fma(c, kLog2E, -u));
  const float e = __nvvm_ex2_approx_ftz_f(u);
  return Fma(e, lo * 0x1.62e43p-1f, e);
}

// 1 / (1 + e^-x), for arguments 0 to 1 without cancellation.
TSR_MATH float SigmoidNarrow(float x) { return ReciprocalNarrow(1.0f + ExpNarrow(-x)); }
// The bound keeps minus infinity from meeting 0; there the result is -0, as that of the exact function.
TSR_MATH float SiluNarrow(float x) {
  const float c = AtLeast(x, -110.0f);
  return c * SigmoidNarrow(c);
}
// Below 1/4 the series to x^5, whose next term is 2^-16.2 of it; (1 - e^-2a) / (1 + e^-2a) above.
TSR_MATH float TanhNarrow(float x) {
  const float a = Abs(x), sq = x * x;
  const float e = __nvvm_ex2_approx_ftz_f(a * (-2.0f * kLog2E));
  const float far = (1.0f - e) * ReciprocalNarrow(1.0f + e);
  const float near = Fma(Fma(0x1.111112p-3f, sq, -0x1.555556p-2f) * sq, a, a);
  return Copysign(Select(a < 0.25f, near, far), x);
}
// x sigmoid(x (c1 + c3 x^2)), as GeluTanh has it, with the logarithm of e in the constants.
TSR_MATH float GeluTanhNarrow(float x) {
  const float c = AtLeast(x, -11.5f);
  const float e = __nvvm_ex2_approx_ftz_f(c * Fma(-0x1.a5a7cep-4f, c * c, -0x1.26aec2p+1f));
  return c * ReciprocalNarrow(1.0f + e);
}
// As Gelu: max(x, 0) less |x| Phi(-|x|), where Phi(-a) is e^(-a^2/2) times a polynomial of degree 5 in 1 / (a + 4.08)
// (relative error 2^-16 up to a = 13.3, beyond which results are 0 or nearly so). At -0 the result is +0.
TSR_MATH float GeluNarrow(float x) {
  const float a = __nvvm_fmin_f(Abs(x), 15.0f);
  const float s = ReciprocalNarrow(a + 4.08f);
  float p = 0x1.57180ap+8f;
  p = Fma(p, s, -0x1.fd5f76p+5f);
  p = Fma(p, s, 0x1.352b6cp+4f);
  p = Fma(p, s, 0x1.212c96p-1f);
  p = Fma(p, s, 0x1.c5c5fap-2f);
  p = Fma(p, s, -0x1.82aecep-11f);
  const float e = __nvvm_ex2_approx_ftz_f(a * (a * (-0.5f * kLog2E)));
  return Fma(-p, a * e, __nvvm_fmax_nan_f(x, 0.0f));
}

}  // namespace tessera::cpu::TSR_ISA

#endif  // TESSERA_TIERS_COMPILER_TARGET_MATH_NARROW_H_
