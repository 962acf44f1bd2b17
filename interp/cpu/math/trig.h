// Sine, cosine, tangent: x = n pi/2 + r with |r| <= pi/4 (a little more after rounding), then by quadrant n mod 4.
//
// SinFast and its like are straight-line and right up to the bound that TrigNeedsLarge names. A loop runs them over a
// block and repairs the elements for which TrigNeedsLarge holds with SinLarge, which is exact for any size but scalar.
// Sin is right everywhere and branches for itself.
#ifndef TESSERA_INTERP_CPU_MATH_TRIG_H_
#define TESSERA_INTERP_CPU_MATH_TRIG_H_

#include "interp/cpu/math/basic.h"

namespace tessera::cpu {
namespace TSR_ISA {

template <typename T>
struct TrigReduced {
  T r;
  T r_lo;
  decltype(Bits(T())) quadrant;  // modulo 4
};

TSR_MATH bool TrigNeedsLarge(float x) { return Abs(x) > 1e5f; }
TSR_MATH bool TrigNeedsLarge(double x) { return Abs(x) > 0x1p30; }
TSR_MATH bool SinNeedsLarge(float x) { return TrigNeedsLarge(x); }
TSR_MATH bool SinNeedsLarge(double x) { return TrigNeedsLarge(x); }
TSR_MATH bool CosNeedsLarge(float x) { return TrigNeedsLarge(x); }
TSR_MATH bool CosNeedsLarge(double x) { return TrigNeedsLarge(x); }
TSR_MATH bool TanNeedsLarge(float x) { return TrigNeedsLarge(x); }
TSR_MATH bool TanNeedsLarge(double x) { return TrigNeedsLarge(x); }

// pi/2 in three full-length parts. x - n * part1 is exact: it is a multiple of part1's ulp and smaller than 1. In f32
// the second sum may have its terms in the wrong order for FastTwoSum, but only where both are small multiples of one
// ulp.
TSR_MATH TrigReduced<float> TrigReduce(float x) {
  const float shifted = Fma(x, 0x1.45f306p-1f, 0x1.8p23f);
  const float n = shifted - 0x1.8p23f;
  const float a = Fma(n, -0x1.921fb6p+0f, x);
  const Pair<float> t = TwoProduct(n, 0x1.777a5cp-25f);
  const Pair<float> r = FastTwoSum(a, t.hi);
  return {r.hi, r.lo + Fma(n, 0x1.ee59dap-50f, t.lo), Bits(shifted)};
}
TSR_MATH TrigReduced<double> TrigReduce(double x) {
  const double shifted = Fma(x, 0x1.45f306dc9c883p-1, 0x1.8p52);
  const double n = shifted - 0x1.8p52;
  const double a = Fma(n, -0x1.921fb54442d18p+0, x);
  const Pair<double> t = TwoProduct(n, -0x1.1a62633145c07p-54);
  const Pair<double> b = TwoSum(a, t.hi);
  const Pair<double> r = FastTwoSum(b.hi, b.lo + Fma(n, 0x1.f1976b7ed8fbcp-110, t.lo));
  return {r.hi, r.lo, Bits(shifted)};
}

// (sin r - r) / r^3 and (cos r - 1 + r^2/2) / r^4 in z = r^2. Errors left in the results: f32 (degrees 2, 2) below
// 2^-27 and 2^-30, f64 (degrees 5, 5) below 2^-56 and 2^-59.
TSR_MATH float SinTail(float z) { return Fma(Fma(-0x1.9955bcp-13f, z, 0x1.110782p-7f), z, -0x1.555546p-3f); }
TSR_MATH float CosTail(float z) { return Fma(Fma(0x1.99feeep-16f, z, -0x1.6c0c84p-10f), z, 0x1.55554ap-5f); }
TSR_MATH double SinTail(double z) {
  double p = 0x1.5d9d1b8d26922p-33;
  p = Fma(p, z, -0x1.ae5e8d5d68981p-26);
  p = Fma(p, z, 0x1.71de35b0ec7d5p-19);
  p = Fma(p, z, -0x1.a01a019c5f32bp-13);
  p = Fma(p, z, 0x1.111111110fb74p-7);
  return Fma(p, z, -0x1.555555555554bp-3);
}
TSR_MATH double CosTail(double z) {
  double p = -0x1.8fbca5f1c0dcap-37;
  p = Fma(p, z, 0x1.1eea09a5c4568p-29);
  p = Fma(p, z, -0x1.27e4f83a89c13p-22);
  p = Fma(p, z, 0x1.a01a019cfdbdfp-16);
  p = Fma(p, z, -0x1.6c16c16c15502p-10);
  return Fma(p, z, 0x1.555555555554ep-5);
}

// sin(r + r_lo) and cos(r + r_lo) as a leading part and a small one.
template <typename T>
TSR_MATH Pair<T> SinKernel(T r, T r_lo) {
  const T z = r * r;
  return {r, Fma(z * r, SinTail(z), Fma(T(-0.5) * z, r_lo, r_lo))};
}
template <typename T>
TSR_MATH Pair<T> CosKernel(T r, T r_lo) {
  const T z = r * r;
  const T half = T(0.5) * z;
  const T w = T(1) - half;
  return {w, ((T(1) - w) - half) + Fma(z * z, CosTail(z), -r * r_lo)};
}

// The sine of the angle whose reduction is given.
template <typename T>
TSR_MATH T SinFromReduced(TrigReduced<T> x) {
  const Pair<T> s = SinKernel(x.r, x.r_lo);
  const Pair<T> c = CosKernel(x.r, x.r_lo);
  const bool odd = (x.quadrant & 1) != 0;
  const T y = Select(odd, c.hi, s.hi) + Select(odd, c.lo, s.lo);
  return Select((x.quadrant & 2) != 0, -y, y);
}
template <typename T>
TSR_MATH T TanFromReduced(TrigReduced<T> x) {
  Pair<T> s = SinKernel(x.r, x.r_lo);
  Pair<T> c = CosKernel(x.r, x.r_lo);
  s = FastTwoSum(s.hi, s.lo);
  c = FastTwoSum(c.hi, c.lo);
  const bool odd = (x.quadrant & 1) != 0;
  const T num = Select(odd, -c.hi, s.hi);
  const T num_lo = Select(odd, -c.lo, s.lo);
  const T den = Select(odd, s.hi, c.hi);
  const T den_lo = Select(odd, s.lo, c.lo);
  const T inverse = T(1) / den;
  const T q = num * inverse;
  return Fma(inverse, Fma(-q, den, num) + Fma(-q, den_lo, num_lo), q);
}

// 1 ulp (0.8). Zeros keep their sign: the reduction works on |x|.
TSR_MATH float SinFast(float x) { return MulSign(SinFromReduced(TrigReduce(Abs(x))), x); }
TSR_MATH double SinFast(double x) { return MulSign(SinFromReduced(TrigReduce(Abs(x))), x); }
template <typename T>
TSR_MATH T CosFastOf(T x) {
  TrigReduced<T> r = TrigReduce(Abs(x));
  r.quadrant += 1;
  return SinFromReduced(r);
}
TSR_MATH float CosFast(float x) { return CosFastOf(x); }
TSR_MATH double CosFast(double x) { return CosFastOf(x); }
// f64 1 ulp (0.9); f32 through f64 (0.51).
TSR_MATH double TanFast(double x) { return MulSign(TanFromReduced(TrigReduce(Abs(x))), x); }
TSR_MATH float TanFast(float x) { return static_cast<float>(TanFast(static_cast<double>(x))); }

// 2/pi in binary, after one word of zeros: enough for the largest double.
#ifdef __CUDACC__
__device__
#endif
    static constexpr uint64_t kTwoOverPi[21] = {
        0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
        0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
        0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
        0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
        0xf0cfbc209af4361d};

// Payne and Hanek's reduction in integers, for finite x >= 1: x 2/pi modulo 4, to 190 bits after the point. Those bits
// of 2/pi that only add multiples of 4 are left out, so 192 bits of it are enough. Scalar code.
TSR_MATH_SLOW TrigReduced<double> TrigReduceLarge(double x) {
  const uint64_t bits = Bits(x);
  const uint64_t mantissa = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
  const int start = static_cast<int>(bits >> 52) - 1075 + 62;  // x = mantissa 2^(start - 62)
  const int word = start >> 6;
  const int shift = start & 63;
  uint64_t w[3];
  for (int i = 0; i < 3; ++i) {
    const uint64_t high = kTwoOverPi[word + i] << shift;
    w[i] = shift == 0 ? high : high | (kTwoOverPi[word + i + 1] >> (64 - shift));
  }
  typedef unsigned __int128 Wide;
  const Wide p2 = static_cast<Wide>(mantissa) * w[2];
  const Wide p1 = static_cast<Wide>(mantissa) * w[1] + static_cast<uint64_t>(p2 >> 64);
  const uint64_t lo = static_cast<uint64_t>(p2);
  const uint64_t mid = static_cast<uint64_t>(p1);
  const uint64_t hi = mantissa * w[0] + static_cast<uint64_t>(p1 >> 64);

  uint64_t quadrant = hi >> 62;
  uint64_t f0 = (hi << 2) | (mid >> 62);
  uint64_t f1 = (mid << 2) | (lo >> 62);
  uint64_t f2 = lo << 2;
  const bool negative = (f0 >> 63) != 0;
  if (negative) {  // beyond the middle of the quadrant: count back from the next one
    quadrant += 1;
    f2 = ~f2 + 1;
    f1 = ~f1 + (f2 == 0);
    f0 = ~f0 + (f2 == 0 && f1 == 0);
  }
  // No double is nearer to a multiple of pi/2 than about 2^-62, so f0 and f1 are not both zero.
  int lead = 0;
  if (f0 == 0) {
    f0 = f1;
    f1 = f2;
    f2 = 0;
    lead = 64;
  }
  const int zeros = __builtin_clzll(f0);
  if (zeros > 0) {
    f0 = (f0 << zeros) | (f1 >> (64 - zeros));
    f1 = (f1 << zeros) | (f2 >> (64 - zeros));
  }
  lead += zeros;
  const double unit = FromBits(static_cast<uint64_t>(1023 - lead) << 52);
  const double h = static_cast<double>(f0 >> 11) * 0x1p-53 * unit;
  const double l = static_cast<double>((f0 << 53) | (f1 >> 11)) * 0x1p-117 * unit;
  const double r = h * 0x1.921fb54442d18p+0;
  const double r_lo = Fma(h, 0x1.921fb54442d18p+0, -r) + Fma(h, 0x1.1a62633145c07p-54, l * 0x1.921fb54442d18p+0);
  const Pair<double> sum = FastTwoSum(r, r_lo);
  return {negative ? -sum.hi : sum.hi, negative ? -sum.lo : sum.lo, quadrant};
}

// For |x| >= 1, infinities (which give NaN) and NaN. Scalar. 1 ulp.
TSR_MATH_SLOW double SinLarge(double x) {
  if (!(Abs(x) < Inf(x))) return x - x;
  return MulSign(SinFromReduced(TrigReduceLarge(Abs(x))), x);
}
TSR_MATH_SLOW double CosLarge(double x) {
  if (!(Abs(x) < Inf(x))) return x - x;
  TrigReduced<double> r = TrigReduceLarge(Abs(x));
  r.quadrant += 1;
  return SinFromReduced(r);
}
TSR_MATH_SLOW double TanLarge(double x) {
  if (!(Abs(x) < Inf(x))) return x - x;
  return MulSign(TanFromReduced(TrigReduceLarge(Abs(x))), x);
}
TSR_MATH_SLOW float SinLarge(float x) { return static_cast<float>(SinLarge(static_cast<double>(x))); }
TSR_MATH_SLOW float CosLarge(float x) { return static_cast<float>(CosLarge(static_cast<double>(x))); }
TSR_MATH_SLOW float TanLarge(float x) { return static_cast<float>(TanLarge(static_cast<double>(x))); }

TSR_MATH float Sin(float x) { return SinNeedsLarge(x) ? SinLarge(x) : SinFast(x); }
TSR_MATH double Sin(double x) { return SinNeedsLarge(x) ? SinLarge(x) : SinFast(x); }
TSR_MATH float Cos(float x) { return CosNeedsLarge(x) ? CosLarge(x) : CosFast(x); }
TSR_MATH double Cos(double x) { return CosNeedsLarge(x) ? CosLarge(x) : CosFast(x); }
TSR_MATH float Tan(float x) { return TanNeedsLarge(x) ? TanLarge(x) : TanFast(x); }
TSR_MATH double Tan(double x) { return TanNeedsLarge(x) ? TanLarge(x) : TanFast(x); }

}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_MATH_TRIG_H_
