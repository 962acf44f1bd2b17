// The ground rules of interp/cpu/math:
//
//  * One source for every tier. Results are bitwise the same for every vector width, instruction set and compiler, so
//    each fused step is an explicit Fma, nothing may be reassociated, and the including unit is compiled with
//    -ffp-contract=off and -fno-math-errno (without the latter, square roots do not vectorise). Which NaN comes out
//    when two different ones go in is the one thing left open.
//  * Every function is straight-line code unless its comment says otherwise, so that a plain loop over it vectorises.
//  * Including units are compiled several times, once for each instruction set, with TSR_ISA naming the set. Nothing
//    here may have linkage: no standard library templates, no inline functions that the linker could merge.
//  * "ulp" figures: the bound, and in brackets the largest error measured by tests/unit/cpu_math_test.cc (for the f32
//    functions also with every 61st bit pattern), rounded up.
//
// A target without a fused multiply-add instruction still gives the same bits, through the C library's fma, slowly.
#ifndef TESSERA_INTERP_CPU_MATH_BASIC_H_
#define TESSERA_INTERP_CPU_MATH_BASIC_H_

#include <stdint.h>

#ifndef TSR_ISA
#define TSR_ISA base
#endif

// TSR_MATH_SLOW: code for rare arguments, which may stay a call.
#ifdef __CUDACC__
#define TSR_MATH static __device__ __forceinline__
#define TSR_MATH_SLOW static __device__ __noinline__
#else
#define TSR_MATH static inline __attribute__((always_inline))
#define TSR_MATH_SLOW static inline
#endif

// Before a loop over one of these functions. They are chains of dependent steps, so several vectors go side by side, as
// many as there are registers for: on a Neoverse-N1 exp takes 2.5, 2.1 and 1.8 ns per f32 element with 1, 2 and 4.
#if defined(__clang__) && (defined(__aarch64__) || defined(__AVX512F__))
#define TSR_MATH_LOOP _Pragma("clang loop interleave_count(4)")
#elif defined(__clang__)
#define TSR_MATH_LOOP _Pragma("clang loop interleave_count(2)")
#else
#define TSR_MATH_LOOP
#endif

namespace tessera::cpu {
namespace TSR_ISA {

TSR_MATH uint32_t Bits(float x) { return __builtin_bit_cast(uint32_t, x); }
TSR_MATH uint64_t Bits(double x) { return __builtin_bit_cast(uint64_t, x); }
TSR_MATH float FromBits(uint32_t x) { return __builtin_bit_cast(float, x); }
TSR_MATH double FromBits(uint64_t x) { return __builtin_bit_cast(double, x); }

// c ? a : b, without a branch. GCC turns a conditional between floating-point values into control flow, sinks the
// arithmetic into it, and then may not undo that (the arithmetic could trap); masks keep it straight. Clang turns
// conditionals into selects, and makes better code from them.
#ifdef __clang__
TSR_MATH float Select(bool c, float a, float b) { return c ? a : b; }
TSR_MATH double Select(bool c, double a, double b) { return c ? a : b; }
#else
TSR_MATH float Select(bool c, float a, float b) {
  const uint32_t m = -static_cast<uint32_t>(c);
  return FromBits((Bits(a) & m) | (Bits(b) & ~m));
}
TSR_MATH double Select(bool c, double a, double b) {
  const uint64_t m = -static_cast<uint64_t>(c);
  return FromBits((Bits(a) & m) | (Bits(b) & ~m));
}
#endif

#ifdef __CUDACC__
TSR_MATH float Fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
TSR_MATH double Fma(double a, double b, double c) { return __fma_rn(a, b, c); }
#else
TSR_MATH float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TSR_MATH double Fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#endif

constexpr uint32_t kSign32 = uint32_t{1} << 31;
constexpr uint64_t kSign64 = uint64_t{1} << 63;

// For conditions inside Select: && and || between calls would be control flow.
TSR_MATH bool And(bool a, bool b) { return a & b; }
TSR_MATH bool Or(bool a, bool b) { return a | b; }

TSR_MATH float Abs(float x) { return FromBits(Bits(x) & ~kSign32); }
TSR_MATH double Abs(double x) { return FromBits(Bits(x) & ~kSign64); }
TSR_MATH bool IsNegative(float x) { return (Bits(x) & kSign32) != 0; }
TSR_MATH bool IsNegative(double x) { return (Bits(x) & kSign64) != 0; }
// Gives x, whose own sign bit is clear, the sign of `sign`; where x has a sign, the two are multiplied.
TSR_MATH float MulSign(float x, float sign) { return FromBits(Bits(x) ^ (Bits(sign) & kSign32)); }
TSR_MATH double MulSign(double x, double sign) { return FromBits(Bits(x) ^ (Bits(sign) & kSign64)); }
TSR_MATH float Copysign(float x, float s) { return FromBits((Bits(x) & ~kSign32) | (Bits(s) & kSign32)); }
TSR_MATH double Copysign(double x, double s) { return MulSign(Abs(x), s); }

TSR_MATH float Inf(float) { return __builtin_inff(); }
TSR_MATH double Inf(double) { return __builtin_inf(); }
TSR_MATH float NaN(float) { return __builtin_nanf(""); }
TSR_MATH double NaN(double) { return __builtin_nan(""); }
TSR_MATH bool IsInf(float x) { return Abs(x) == Inf(x); }
TSR_MATH bool IsInf(double x) { return Abs(x) == Inf(x); }

// 1 / x for normal x and results, where what it lacks is made good afterwards: exact on a cpu, 1 ulp on a GPU, which
// would take a dozen instructions for the last bit.
TSR_MATH float RoughReciprocal(float x) {
#if defined(__CUDACC__) || defined(__NVPTX__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}

#if defined(__CUDACC__) || defined(__NVPTX__)
// 2^x by the device's own approximation, 2 ulp; 0 where that is no normal number.
TSR_MATH float RoughExp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// |x|, which is part of the instruction that takes it.
TSR_MATH float Magnitude(float x) {
  float y;
  asm("abs.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// The larger and the smaller of two numbers; NaN where one is. One instruction each.
TSR_MATH float LargerOf(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
TSR_MATH float SmallerOf(float x, float y) {
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
#endif

TSR_MATH float Floor(float x) { return __builtin_floorf(x); }
TSR_MATH double Floor(double x) { return __builtin_floor(x); }
TSR_MATH float Ceil(float x) { return __builtin_ceilf(x); }
TSR_MATH double Ceil(double x) { return __builtin_ceil(x); }
TSR_MATH float Trunc(float x) { return __builtin_truncf(x); }
TSR_MATH double Trunc(double x) { return __builtin_trunc(x); }
// To nearest, ties to even.
TSR_MATH float Rint(float x) { return __builtin_rintf(x); }
TSR_MATH double Rint(double x) { return __builtin_rint(x); }

TSR_MATH float Sqrt(float x) { return __builtin_sqrtf(x); }
TSR_MATH double Sqrt(double x) { return __builtin_sqrt(x); }

// 1 / sqrt(x), 1 ulp (f32: 0.5). Rsqrt(+-0) = +-inf, as IEEE 754 has it.
TSR_MATH float Rsqrt(float x) { return static_cast<float>(1.0 / Sqrt(static_cast<double>(x))); }
TSR_MATH double Rsqrt(double x) {
  // The residual below needs room under x.
  const bool tiny = x < 0x1p-900;
  x = Select(tiny, x * 0x1p200, x);
  const double s = Sqrt(x);
  const double y = 1.0 / s;
  // x y^2 = 1 + e, and the wanted value is y (1 - e/2). Two residuals, because s is rounded too.
  const double es = Fma(s, s, -x);
  const double ey = Fma(s, y, -1.0);
  const double fixed = Fma(y, Fma(0.5 * es * y, y, -ey), y);
  return Select(And(y > 0.0, y < Inf(y)), fixed, y) * Select(tiny, 0x1p100, 1.0);
}

// Larger and smaller of two. Maximum and Minimum give NaN if either is; Fmax and Fmin give the other one. +0 > -0.
template <typename T>
TSR_MATH T MaxOrdered(T a, T b) {
  return Select((a > b) | ((a == b) & (Bits(a) == 0)), a, b);
}
template <typename T>
TSR_MATH T MinOrdered(T a, T b) {
  return Select((a < b) | ((a == b) & (Bits(b) == 0)), a, b);
}
// Where the machine has an instruction that does just this, one in place of nine.
#if defined(__aarch64__) && !defined(__CUDACC__) && defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_maximum) && __has_builtin(__builtin_elementwise_minimum)
#define TSR_HAS_MAXIMUM 1
#endif
#endif
#ifdef TSR_HAS_MAXIMUM
TSR_MATH float Maximum(float a, float b) { return __builtin_elementwise_maximum(a, b); }
TSR_MATH double Maximum(double a, double b) { return __builtin_elementwise_maximum(a, b); }
TSR_MATH float Minimum(float a, float b) { return __builtin_elementwise_minimum(a, b); }
TSR_MATH double Minimum(double a, double b) { return __builtin_elementwise_minimum(a, b); }
#else
#ifdef __CUDACC__
TSR_MATH float Maximum(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
TSR_MATH float Minimum(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
#else
TSR_MATH float Maximum(float a, float b) { return Select(a != a, a, Select(b != b, b, MaxOrdered(a, b))); }
TSR_MATH float Minimum(float a, float b) { return Select(a != a, a, Select(b != b, b, MinOrdered(a, b))); }
#endif
TSR_MATH double Maximum(double a, double b) { return Select(a != a, a, Select(b != b, b, MaxOrdered(a, b))); }
TSR_MATH double Minimum(double a, double b) { return Select(a != a, a, Select(b != b, b, MinOrdered(a, b))); }
#endif
TSR_MATH float Fmax(float a, float b) { return Select(a != a, b, Select(b != b, a, MaxOrdered(a, b))); }
TSR_MATH double Fmax(double a, double b) { return Select(a != a, b, Select(b != b, a, MaxOrdered(a, b))); }
TSR_MATH float Fmin(float a, float b) { return Select(a != a, b, Select(b != b, a, MinOrdered(a, b))); }
TSR_MATH double Fmin(double a, double b) { return Select(a != a, b, Select(b != b, a, MinOrdered(a, b))); }

// -1, 0 or 1; NaN for NaN; zeros keep their sign.
TSR_MATH float Sign(float x) { return Select((x != x) | (x == 0.0f), x, MulSign(1.0f, x)); }
TSR_MATH double Sign(double x) { return Select((x != x) | (x == 0.0), x, MulSign(1.0, x)); }

// 0 below zero, 1 above, `at_zero` at either zero, NaN for NaN.
TSR_MATH float Heaviside(float x, float at_zero) {
  return Select(x != x, x, Select(x == 0.0f, at_zero, Select(x < 0.0f, 0.0f, 1.0f)));
}
TSR_MATH double Heaviside(double x, double at_zero) {
  return Select(x != x, x, Select(x == 0.0, at_zero, Select(x < 0.0, 0.0, 1.0)));
}

// Clamps that let NaN through.
template <typename T>
TSR_MATH T AtMost(T x, T hi) {
  return Select(x > hi, hi, x);
}
template <typename T>
TSR_MATH T AtLeast(T x, T lo) {
  return Select(x < lo, lo, x);
}

// An unevaluated sum hi + lo with |lo| at most half an ulp of hi.
template <typename T>
struct Pair {
  T hi;
  T lo;
};

// a + b exactly.
template <typename T>
TSR_MATH Pair<T> TwoSum(T a, T b) {
  const T s = a + b;
  const T bb = s - a;
  return {s, (a - (s - bb)) + (b - bb)};
}
// a + b exactly, for |a| >= |b| or a == 0.
template <typename T>
TSR_MATH Pair<T> FastTwoSum(T a, T b) {
  const T s = a + b;
  return {s, (a - s) + b};
}
// a * b exactly, barring underflow.
template <typename T>
TSR_MATH Pair<T> TwoProduct(T a, T b) {
  const T p = a * b;
  return {p, Fma(a, b, -p)};
}

// x rounded to an integer by adding 1.5 * 2^(mantissa bits): the low bits of the sum are that integer in two's
// complement. Vector float-to-int64 conversion is missing from AVX2, so this is how f64 code gets at integers.
// |x| below 2^22 (f32) and 2^51 (f64); anything else (NaN) gives unspecified bits.
TSR_MATH float RoundMagic(float) { return 0x1.8p23f; }
TSR_MATH double RoundMagic(double) { return 0x1.8p52; }

// 2^n for a biased exponent in [1, max).
TSR_MATH float PowerOfTwo(uint32_t biased) { return FromBits(biased << 23); }
TSR_MATH double PowerOfTwo(uint64_t biased) { return FromBits(biased << 52); }

// p * 2^n with one rounding where the result is normal or p has a full mantissa; `shifted` is n + RoundMagic. |n| at
// most 126 * 2 (f32), 1022 * 2 (f64). The factor is split in two halves, so that subnormal results and n = 128 work.
TSR_MATH float Scale(float p, float shifted) {
  const uint32_t n = Bits(shifted) - Bits(0x1.8p23f) + 2 * 127;
  const uint32_t half = n >> 1;
  return p * PowerOfTwo(half) * PowerOfTwo(n - half);
}
TSR_MATH double Scale(double p, double shifted) {
  const uint64_t n = Bits(shifted) - Bits(0x1.8p52) + 2 * 1023;
  const uint64_t half = n >> 1;
  return p * PowerOfTwo(half) * PowerOfTwo(n - half);
}

}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_MATH_BASIC_H_
