// Remainders and floor division of floating-point numbers, all exact.
//
// FmodFast is straight-line and exact unless FmodNeedsSlow; FmodSlow is exact always, and scalar. Fmod branches.
#ifndef TESSERA_INTERP_CPU_MATH_REMAINDER_H_
#define TESSERA_INTERP_CPU_MATH_REMAINDER_H_

#include "interp/cpu/math/basic.h"

namespace tessera::cpu {
namespace TSR_ISA {

// True where the quotient has more bits than a mantissa, and for divisors that are 0, infinite or NaN.
TSR_MATH bool FmodNeedsSlow(float a, float b) { return !And(Abs(a / b) < 0x1p22f, Abs(b) < Inf(b)); }
TSR_MATH bool FmodNeedsSlow(double a, double b) { return !And(Abs(a / b) < 0x1p51, Abs(b) < Inf(b)); }

// The rounded quotient is at most one too large; a - q b is exact for it and for the right one.
template <typename T>
TSR_MATH T FmodFastOf(T a, T b) {
  const T x = Abs(a);
  const T y = Abs(b);
  const T r = Fma(-Trunc(x / y), y, x);
  return Copysign(Select(r < T(0), r + y, r), a);
}
TSR_MATH float FmodFast(float a, float b) { return FmodFastOf(a, b); }
TSR_MATH double FmodFast(double a, double b) { return FmodFastOf(a, b); }

// Long division on the integer mantissas, `kStep` bits at a time.
template <typename T, typename U, int kMantissa, int kStep>
TSR_MATH_SLOW T FmodSlowOf(T a, T b) {
  const T x = Abs(a);
  const T y = Abs(b);
  if (!(x < Inf(x)) || y != y || y == T(0)) return NaN(a);
  if (x < y) return a;
  const U one = U{1} << kMantissa;
  const U bx = Bits(x);
  const U by = Bits(y);
  int ex = static_cast<int>(bx >> kMantissa);
  int ey = static_cast<int>(by >> kMantissa);
  uint64_t mx = bx & (one - 1);
  uint64_t my = by & (one - 1);
  // A subnormal has the exponent of the smallest normal number, and no hidden bit.
  mx |= ex == 0 ? 0 : one;
  my |= ey == 0 ? 0 : one;
  ex += ex == 0;
  ey += ey == 0;
  mx %= my;
  for (int left = ex - ey; left > 0 && mx != 0;) {
    const int step = left < kStep ? left : kStep;
    mx = (mx << step) % my;
    left -= step;
  }
  // mx 2^(ey - bias) is below y, so it is representable: normalise it, or leave it subnormal.
  if (mx == 0) return Copysign(T(0), a);
  while (mx < one && ey > 1) {
    mx <<= 1;
    --ey;
  }
  const U bits = static_cast<U>(mx < one ? mx : (mx - one) | (static_cast<uint64_t>(ey) << kMantissa));
  return Copysign(FromBits(bits), a);
}
TSR_MATH_SLOW float FmodSlow(float a, float b) { return FmodSlowOf<float, uint32_t, 23, 40>(a, b); }
TSR_MATH_SLOW double FmodSlow(double a, double b) { return FmodSlowOf<double, uint64_t, 52, 11>(a, b); }

// a - b trunc(a / b): the sign of a.
TSR_MATH float Fmod(float a, float b) { return FmodNeedsSlow(a, b) ? FmodSlow(a, b) : FmodFast(a, b); }
TSR_MATH double Fmod(double a, double b) { return FmodNeedsSlow(a, b) ? FmodSlow(a, b) : FmodFast(a, b); }

// a - b floor(a / b), from a's Fmod: the sign of b, zeros included, as in Python. The one rounding is in the addition,
// when a is small and of the other sign.
template <typename T>
TSR_MATH T ModFromFmod(T fmod, T b) {
  const T r = Select((fmod < T(0)) != (b < T(0)), fmod + b, fmod);
  return Select(fmod == T(0), Copysign(T(0), b), r);
}
TSR_MATH float Mod(float a, float b) { return ModFromFmod(Fmod(a, b), b); }
TSR_MATH double Mod(double a, double b) { return ModFromFmod(Fmod(a, b), b); }

// floor of the exact quotient, rounded if it has more bits than a mantissa. The rounded quotient can only be too large
// when rounding took it up to an integer; the sign of the exact residual tells. a / 0 is a / 0 (inf or NaN), as in
// NumPy; inf / b is NaN.
template <typename T>
TSR_MATH T FloorDivOf(T a, T b, T integral) {
  const T q = a / b;
  const T f = Floor(q);
  const T residual = Fma(-f, b, a);
  const bool over = (residual != T(0)) & ((residual < T(0)) != (b < T(0))) & (Abs(q) < integral);
  T r = Select(over, f - T(1), f);
  // An infinite divisor: the quotient is 0, or just below it.
  const bool below = (a != T(0)) & ((a < T(0)) != (b < T(0)));
  r = Select(Abs(b) == Inf(b), Select(below, T(-1), q), r);
  r = Select(b == T(0), q, r);
  return Select((a != a) | (b != b) | (Abs(a) == Inf(a)), Select(b == T(0), q, NaN(a)), r);
}
TSR_MATH float FloorDiv(float a, float b) { return FloorDivOf(a, b, 0x1p24f); }
TSR_MATH double FloorDiv(double a, double b) { return FloorDivOf(a, b, 0x1p53); }

}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_MATH_REMAINDER_H_
