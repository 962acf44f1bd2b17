// Blocks in a storage format (ir/formats.h), with one scale each.
#include "interp/cuda/kernels/moves.cuh"
#include "interp/cuda/quantize_args.h"

namespace tessera::cuda {
namespace {

constexpr uint64_t kInfinity = uint64_t{0x7ff} << 52;

__device__ __forceinline__ double TwoTo(int e) { return FromBits(static_cast<uint64_t>(e + 1023) << 52); }

/// As ir::EncodeStorage: the code nearest to x, ties to even, beyond the largest value the largest.
__device__ __forceinline__ uint32_t Encode(const FormatArgs& f, double x) {
  const uint64_t bits = Bits(x);
  const uint32_t sign_bit = 1u << (f.bits - 1), largest = sign_bit - 1;
  const uint32_t sign = bits >> 63 != 0 ? sign_bit : 0;
  int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  if (exponent > f.emax) return sign | largest;
  if (exponent < f.emin) exponent = f.emin;
  // Adding 2^52 leaves no fraction bits, so that the sum is rounded to an integer, ties to even.
  const double q = (Abs(x) * TwoTo(f.fraction_bits - exponent) + 0x1p52) - 0x1p52;
  // A carry out of the fraction moves into the exponent, where it belongs.
  const uint32_t code = (static_cast<uint32_t>(exponent - f.emin) << f.fraction_bits) + static_cast<uint32_t>(q);
  return sign | (code < largest ? code : largest);
}

/// As ir::DecodeStorage; exact.
__device__ __forceinline__ double Decode(const FormatArgs& f, uint32_t code) {
  const uint32_t sign_bit = 1u << (f.bits - 1);
  const uint32_t magnitude = code & (sign_bit - 1);
  const int exponent = static_cast<int>(magnitude >> f.fraction_bits);
  const uint32_t fraction = magnitude & ((1u << f.fraction_bits) - 1);
  const uint32_t significand = exponent == 0 ? fraction : fraction | 1u << f.fraction_bits;
  const double value = significand * TwoTo((exponent == 0 ? 1 : exponent) - f.bias - f.fraction_bits);
  return (code & sign_bit) != 0 ? -value : value;
}

/// Bits of the scale for the largest magnitude of a block, which is given by its bits; NaN's and infinity's count as
/// larger than all others.
__device__ __forceinline__ uint32_t ScaleBits(const FormatArgs& f, uint64_t amax) {
  if (amax >= kInfinity) return 0x7fc00000u;
  if (amax == 0) return 127u << 23;
  const int e = static_cast<int>(amax >> 52) - 1023 - f.emax;
  return static_cast<uint32_t>((e < -126 ? -126 : e > 127 ? 127 : e) + 127) << 23;
}

template <class T>
__device__ __forceinline__ void Quantize(const QuantizeArgs& a) {
  __shared__ uint64_t shared[32];
  const T* x = At<const T>(a.x);
  uint8_t* data = At<uint8_t>(a.data);
  uint32_t* scale = At<uint32_t>(a.scale);
  const auto larger = [](uint64_t p, uint64_t q) { return p > q ? p : q; };
  const int in_group = a.format.group, group_bytes = in_group * a.format.bits / 8;
  const int64_t groups = a.block / in_group, block_bytes = groups * group_bytes;
  const int width = a.width, me = static_cast<int>(threadIdx.x) & (width - 1);
  const int64_t step = ThreadCount() / width;
  // All threads of a block of threads make the same number of rounds: they meet in reductions.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * (blockDim.x / width); first < a.count; first += step) {
    const int64_t b = first + threadIdx.x / width;
    const bool active = b < a.count;
    const Parts p = Divide(active ? b : 0, a.blocks);
    const int64_t begin = p.rest * a.block, left = a.length - begin, n = left < a.block ? left : a.block;
    const int64_t from = p.quotient * a.length + begin;
    uint64_t amax = 0;
    if (active) {
      for (int64_t i = me; i < n; i += width)
        amax = larger(amax, Bits(Abs(static_cast<double>(Load(x[OffsetOf(a.layout, from + i)])))));
    }
    if (width > 32) {
      amax = BlockReduce<uint64_t>(amax, shared, 0, larger);
    } else {
      for (int lanes = width / 2; lanes > 0; lanes /= 2) amax = larger(amax, __shfl_xor_sync(kAllLanes, amax, lanes));
    }
    if (!active) continue;
    const uint32_t s = ScaleBits(a.format, amax);
    if (me == 0) scale[b] = s;
    const bool nan = amax >= kInfinity;
    const double inverse = nan ? 0 : 1.0 / static_cast<double>(FromBits(s));
    for (int64_t g = me; g < groups; g += width) {
      uint32_t packed = 0;
      for (int i = 0; i < in_group; ++i) {
        const int64_t at = g * in_group + i;
        const double value = at < n ? static_cast<double>(Load(x[OffsetOf(a.layout, from + at)])) : 0.0;
        packed |= Encode(a.format, value * inverse) << (i * a.format.bits);
      }
      if (nan) packed = 0;
      uint8_t* out = data + b * block_bytes + g * group_bytes;
      for (int i = 0; i < group_bytes; ++i) out[i] = static_cast<uint8_t>(packed >> (8 * i));
    }
  }
}

/// The value as a cast from f64 would give it. A NaN is that of the scale: arithmetic would lose its bits.
__device__ __forceinline__ void StoreScaled(float s, double value, double& y) {
  const uint64_t bits = Bits(s);
  y = s == s ? value : FromBits((bits & 0x80000000u) << 32 | 0x7ff8000000000000u | (bits & 0x7fffffu) << 29);
}
template <class T>
__device__ __forceinline__ void StoreScaled(float s, double value, T& y) {
  if (s == s)
    Store(value, y);
  else
    Store(FromBits(Bits(s) | 0x400000u), y);
}

template <class T>
__device__ __forceinline__ void Dequantize(const DequantizeArgs& a) {
  const uint8_t* data = At<const uint8_t>(a.data);
  const float* scale = At<const float>(a.scale);
  T* out = At<T>(a.out);
  const FormatArgs f = a.format;
  const int group_bytes = f.group * f.bits / 8;
  const int64_t groups = a.block / f.group;
  for (int64_t g = ThreadIndex(); g < a.count; g += ThreadCount()) {
    const float s = scale[OffsetOf(a.scale_layout, Divide(g, groups).quotient)];
    uint32_t packed = 0;
    for (int i = 0; i < group_bytes; ++i)
      packed |= static_cast<uint32_t>(data[OffsetOf(a.data_layout, g * group_bytes + i)]) << (8 * i);
    for (int i = 0; i < f.group; ++i) {
      const uint32_t code = packed >> (i * f.bits) & ((1u << f.bits) - 1);
      StoreScaled(s, Decode(f, code) * static_cast<double>(s), out[g * f.group + i]);
    }
  }
}

}  // namespace

#define TSR_KERNELS(name, T)                                                                            \
  extern "C" __global__ void quantize_##name(const __grid_constant__ QuantizeArgs a) { Quantize<T>(a); } \
  extern "C" __global__ void dequantize_##name(const __grid_constant__ DequantizeArgs a) { Dequantize<T>(a); }
TSR_KERNELS(f64, double)
TSR_KERNELS(f32, float)
TSR_KERNELS(f16, Half)
TSR_KERNELS(bf16, BHalf)
TSR_KERNELS(f8e4m3, E4M3)
TSR_KERNELS(f8e5m2, E5M2)
#undef TSR_KERNELS

}  // namespace tessera::cuda
