// Values of every dtype as bits, and the conversions between them (rules: tessera/dtypes.def), one element at a time
// and without branches, so that plain loops over them vectorise. For files that are compiled once per instruction
// set; every one of them gives the same bits, NaN payloads included:
//
//   to f16 and bf16   a NaN keeps its sign and the upper bits of its payload, and becomes quiet
//   to f8             a NaN keeps its sign: 0x7f in f8e4m3, 0x7e in f8e5m2
//   from f8, f16      a NaN becomes quiet
//
// They need the default environment: round to nearest, subnormals kept.
#ifndef TESSERA_INTERP_CPU_NUMERIC_ISA_H_
#define TESSERA_INTERP_CPU_NUMERIC_ISA_H_

#include <stdint.h>

#include "interp/cpu/math/basic.h"

// Hardware conversion between f16 and f32, where loops over it vectorise. A GPU's makes all NaN one.
#if defined(__CUDACC__) || defined(__NVPTX__)
#define TSR_GPU_CONVERSIONS
#elif defined(__aarch64__) && defined(__ARM_FP16_FORMAT_IEEE)
#define TSR_HARDWARE_F16 __fp16
#elif defined(__F16C__) && defined(__clang__)
#define TSR_HARDWARE_F16 _Float16
#endif

namespace tessera::cpu {
namespace TSR_ISA {

// Storage types. An element of a tensor of that dtype may be read and written through a pointer to one.
struct Half {
  uint16_t bits;
};
struct BHalf {
  uint16_t bits;
};
struct E4M3 {
  uint8_t bits;
};
struct E5M2 {
  uint8_t bits;
};
struct BoolByte {
  uint8_t bits;
};

// The dtype's C++ type, in the order of dtypes.def.
#define TSR_FOR_EACH_STORAGE(X) \
  X(f64, double)                \
  X(f32, float)                 \
  X(f16, Half)                  \
  X(bf16, BHalf)                \
  X(f8e4m3, E4M3) X(f8e5m2, E5M2) X(i64, int64_t) X(i32, int32_t) X(i8, int8_t) X(u8, uint8_t) X(boolean, BoolByte)

// ---- narrow floats to f32: exact

// The parts of an IEEE-like format: `em` is exponent and fraction, shifted so that the exponent's lowest bit is bit
// 23. Subnormals: with the exponent of the smallest normal put in, the fraction is an offset from that power of two.
TSR_MATH uint32_t WidenNormal(uint32_t em, uint32_t bias) { return em + ((127 - bias) << 23); }
TSR_MATH uint32_t WidenSubnormal(uint32_t em, uint32_t bias) {
  const uint32_t magic = (128 - bias) << 23;
  return Bits(FromBits(em + magic) - FromBits(magic));
}

TSR_MATH float SoftFromF16(uint16_t h) {
  const uint32_t em = static_cast<uint32_t>(h & 0x7fff) << 13;
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t special = em | 0x7f800000u | (em > (31u << 23) ? 0x00400000u : 0u);
  uint32_t r = WidenNormal(em, 15);
  r = em < (1u << 23) ? WidenSubnormal(em, 15) : r;
  r = em >= (31u << 23) ? special : r;
  return FromBits(r | sign);
}

TSR_MATH float ToF32(Half x) {
#ifdef TSR_GPU_CONVERSIONS
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return (x.bits & 0x7fff) > 0x7c00 ? SoftFromF16(x.bits) : y;
#elif defined(TSR_HARDWARE_F16)
  return static_cast<float>(__builtin_bit_cast(TSR_HARDWARE_F16, x.bits));
#else
  return SoftFromF16(x.bits);
#endif
}
TSR_MATH float ToF32(BHalf x) { return FromBits(static_cast<uint32_t>(x.bits) << 16); }
TSR_MATH float ToF32(E4M3 x) {
  const uint32_t em = static_cast<uint32_t>(x.bits & 0x7f) << 20;
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x80) << 24;
  uint32_t r = WidenNormal(em, 7);
  r = em < (1u << 23) ? WidenSubnormal(em, 7) : r;
  r = em == (0x7fu << 20) ? 0x7fc00000u : r;
  return FromBits(r | sign);
}
// The upper byte of an f16.
TSR_MATH float ToF32(E5M2 x) { return ToF32(Half{static_cast<uint16_t>(x.bits << 8)}); }
TSR_MATH float ToF32(float x) { return x; }

// ---- f32 to narrow floats: round to nearest even

// Magnitude bits `a` of an f32 as those of a format with `fraction` fraction bits and that exponent bias; `largest` is
// what overflow gives. A NaN counts as large. Below the smallest normal, adding the power of two whose unit in the
// last place is the format's smallest subnormal does the rounding.
template <int fraction, int bias, uint32_t largest>
TSR_MATH uint32_t Narrow(uint32_t a) {
  constexpr int shift = 23 - fraction;
  constexpr uint32_t min_normal = static_cast<uint32_t>(128 - bias) << 23;
  constexpr uint32_t magic = static_cast<uint32_t>(128 - bias - fraction + 23) << 23;
  const uint32_t odd = (a >> shift) & 1;
  const uint32_t normal = (a - (static_cast<uint32_t>(127 - bias) << 23) + ((1u << (shift - 1)) - 1) + odd) >> shift;
  const uint32_t subnormal = Bits(FromBits(a) + FromBits(magic)) - magic;
  const uint32_t r = a < min_normal ? subnormal : normal;
  return r > largest ? largest : r;
}

TSR_MATH uint16_t SoftToF16(float x) {
  const uint32_t bits = Bits(x);
  const uint32_t a = bits & 0x7fffffffu;
  const uint32_t nan = 0x7e00u | ((a >> 13) & 0x3ffu);
  const uint32_t r = a > 0x7f800000u ? nan : Narrow<10, 15, 0x7c00>(a);
  return static_cast<uint16_t>(r | ((bits >> 16) & 0x8000u));
}

TSR_MATH void FromF32(float x, Half& y) {
#ifdef TSR_GPU_CONVERSIONS
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  y.bits = x != x ? SoftToF16(x) : bits;
#elif defined(TSR_HARDWARE_F16)
  y.bits = __builtin_bit_cast(uint16_t, static_cast<TSR_HARDWARE_F16>(x));
#else
  y.bits = SoftToF16(x);
#endif
}
TSR_MATH void FromF32(float x, BHalf& y) {
  const uint32_t bits = Bits(x);
#ifdef TSR_GPU_CONVERSIONS
  uint16_t rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
#else
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
#endif
  const uint32_t nan = (bits >> 16) | 0x40u;
  y.bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}
TSR_MATH void FromF32(float x, E4M3& y) {
  const uint32_t bits = Bits(x);
  const uint32_t a = bits & 0x7fffffffu;
  const uint32_t r = a > 0x7f800000u ? 0x7fu : Narrow<3, 7, 0x7e>(a);
  y.bits = static_cast<uint8_t>(r | ((bits >> 24) & 0x80u));
}
TSR_MATH void FromF32(float x, E5M2& y) {
  const uint32_t bits = Bits(x);
  const uint32_t a = bits & 0x7fffffffu;
  const uint32_t r = a > 0x7f800000u ? 0x7eu : Narrow<2, 15, 0x7b>(a);
  y.bits = static_cast<uint8_t>(r | ((bits >> 24) & 0x80u));
}

// ---- rounding once from wider types

// x as an f32 rounded to odd: where x lies between two f32 numbers, the one whose last bit is 1. Rounding that to a
// format with at least two bits fewer gives the same as rounding x itself.
TSR_MATH float RoundToOdd(double x) {
  const float near = static_cast<float>(x);
  const double back = near;
  const uint32_t bits = Bits(near);
  const uint32_t toward_zero = bits - (Abs(back) > Abs(x) ? 1u : 0u);
  return FromBits(back == x ? bits : toward_zero | 1u);
}

// x with bits folded into an odd last one so that f64 holds the result exactly, rounded to odd in the same sense.
TSR_MATH double RoundToOdd(int64_t x) {
  const int64_t magnitude = x ^ (x >> 63);
  const int64_t folded = (x & ~int64_t{0xfff}) | ((x & 0xfff) != 0 ? 0x800 : 0);
  return static_cast<double>(magnitude >> 52 != 0 ? folded : x);
}

// ---- floats to integers: truncates, saturates, NaN gives 0

// lo and hi are the integer type's range; both are exact in F.
template <typename I, typename F>
TSR_MATH I Saturate(F x, F lo, F hi) {
  const F number = Select(x == x, x, F(0));
  return static_cast<I>(Select(number < lo, lo, Select(number > hi, hi, number)));
}
// The largest integer of the type is not exact in F: below is the largest F below 2^(width - 1).
template <typename I, typename F>
TSR_MATH I SaturateWide(F x, F limit, F below, I largest) {
  const I r = Saturate<I>(x, -limit, below);
  return x >= limit ? largest : r;
}

TSR_MATH void ToInt(float x, int64_t& y) { y = SaturateWide<int64_t>(x, 0x1p63f, 0x1.fffffep62f, INT64_MAX); }
TSR_MATH void ToInt(double x, int64_t& y) { y = SaturateWide<int64_t>(x, 0x1p63, 0x1.fffffffffffffp62, INT64_MAX); }
TSR_MATH void ToInt(float x, int32_t& y) { y = SaturateWide<int32_t>(x, 0x1p31f, 0x1.fffffep30f, INT32_MAX); }
TSR_MATH void ToInt(double x, int32_t& y) { y = Saturate<int32_t>(x, -0x1p31, 0x1p31 - 1); }
template <typename F>
TSR_MATH void ToInt(F x, int8_t& y) {
  y = static_cast<int8_t>(Saturate<int32_t>(x, F(-128), F(127)));
}
template <typename F>
TSR_MATH void ToInt(F x, uint8_t& y) {
  y = static_cast<uint8_t>(Saturate<int32_t>(x, F(0), F(255)));
}

// ---- any to any

// What a storage type computes in: float for narrow floats, uint8_t for bool.
TSR_MATH double Load(double x) { return x; }
TSR_MATH float Load(float x) { return x; }
TSR_MATH float Load(Half x) { return ToF32(x); }
TSR_MATH float Load(BHalf x) { return ToF32(x); }
TSR_MATH float Load(E4M3 x) { return ToF32(x); }
TSR_MATH float Load(E5M2 x) { return ToF32(x); }
TSR_MATH int64_t Load(int64_t x) { return x; }
TSR_MATH int32_t Load(int32_t x) { return x; }
TSR_MATH int8_t Load(int8_t x) { return x; }
TSR_MATH uint8_t Load(uint8_t x) { return x; }
TSR_MATH uint8_t Load(BoolByte x) { return x.bits; }

// x on its way to a narrow float: an f32 that rounds as x does.
TSR_MATH float Pre(double x) { return RoundToOdd(x); }
TSR_MATH float Pre(float x) { return x; }
TSR_MATH float Pre(int64_t x) { return RoundToOdd(RoundToOdd(x)); }
TSR_MATH float Pre(int32_t x) { return RoundToOdd(static_cast<double>(x)); }
TSR_MATH float Pre(int8_t x) { return x; }
TSR_MATH float Pre(uint8_t x) { return x; }

template <typename S>
TSR_MATH void Store(S x, double& y) {
  y = static_cast<double>(x);
}
template <typename S>
TSR_MATH void Store(S x, float& y) {
  y = static_cast<float>(x);
}
template <typename S>
TSR_MATH void Store(S x, Half& y) {
  FromF32(Pre(x), y);
}
template <typename S>
TSR_MATH void Store(S x, BHalf& y) {
  FromF32(Pre(x), y);
}
template <typename S>
TSR_MATH void Store(S x, E4M3& y) {
  FromF32(Pre(x), y);
}
template <typename S>
TSR_MATH void Store(S x, E5M2& y) {
  FromF32(Pre(x), y);
}
template <typename S>
TSR_MATH void Store(S x, BoolByte& y) {
  y.bits = x != 0;
}
#define TSR_STORE_INT(I)                              \
  template <typename S>                               \
  TSR_MATH void Store(S x, I& y) {                    \
    y = static_cast<I>(x);                            \
  }                                                   \
  TSR_MATH void Store(float x, I& y) { ToInt(x, y); } \
  TSR_MATH void Store(double x, I& y) { ToInt(x, y); }
TSR_STORE_INT(int64_t)
TSR_STORE_INT(int32_t)
TSR_STORE_INT(int8_t)
TSR_STORE_INT(uint8_t)
#undef TSR_STORE_INT

}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_NUMERIC_ISA_H_
