// Tensors made from a few numbers.
#include "interp/cuda/generate_args.h"
#include "interp/cuda/kernels/moves.cuh"

namespace tessera::cuda {
namespace {

/// Integers are made from integers, or with a.floating as all other dtypes are.
template <class T, bool integer>
__device__ __forceinline__ void Iota(const IotaArgs& a) {
  constexpr int n = sizeof(T) == 8 ? 2 : 4;
  T* out = At<T>(a.out);
  const double start = FloatOf(a.start), step = FloatOf(a.step);
  const uint64_t int_start = static_cast<uint64_t>(IntOf(a.start)), int_step = static_cast<uint64_t>(IntOf(a.step));
  for (int64_t first = ThreadIndex() * n; first < a.count; first += ThreadCount() * n) {
    const Parts p = Divide(first, a.inner);
    int64_t within = p.rest, index = Divide(p.quotient, a.length).rest;
    Pack<T, n> r;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if constexpr (integer) {
        if (a.floating) {
          Store(Fma(step, static_cast<double>(index), start), r.at[i]);
        } else {
          r.at[i] = static_cast<T>(int_start + int_step * static_cast<uint64_t>(index));
        }
      } else {
        Store(Fma(step, static_cast<double>(index), start), r.at[i]);
      }
      if (++within == a.inner) {
        within = 0;
        if (++index == a.length) index = 0;
      }
    }
    StorePack(out, first, a.count, r);
  }
}

}  // namespace

extern "C" __global__ void fill(const __grid_constant__ FillArgs a) {
  uint64_t bits = a.bits;
  if (a.value != 0) {
    const void* value = At<const void>(a.value);
    switch (a.size) {
      case 8: bits = *static_cast<const uint64_t*>(value); break;
      case 4: bits = *static_cast<const uint32_t*>(value); break;
      case 2: bits = *static_cast<const uint16_t*>(value); break;
      default: bits = *static_cast<const uint8_t*>(value); break;
    }
  }
  // Eight bytes of it.
  if (a.size == 1) bits = (bits & 0xff) * 0x0101010101010101u;
  if (a.size == 2) bits = (bits & 0xffff) * 0x0001000100010001u;
  if (a.size == 4) bits = (bits & 0xffffffffu) * 0x0000000100000001u;
  char* out = At<char>(a.out);
  const uint32_t low = static_cast<uint32_t>(bits), high = static_cast<uint32_t>(bits >> 32);
  const uint4 unit = {low, high, low, high};
  const bool aligned = IsAligned(out, 16);
  for (int64_t at = ThreadIndex() * 16; at < a.bytes; at += ThreadCount() * 16) {
    if (aligned && at + 16 <= a.bytes) {
      *reinterpret_cast<uint4*>(out + at) = unit;
    } else {
      for (int i = 0; i < 16 && at + i < a.bytes; ++i) out[at + i] = static_cast<char>(bits >> (8 * (i & 7)));
    }
  }
}

/// One thread.
extern "C" __global__ void convert_one(const __grid_constant__ ConvertOneArgs a) {
  const void* in = At<const void>(a.in);
  switch (static_cast<DType>(a.out_dtype)) {
#define TSR_CASE(name, D) \
  case DType::name: *At<D>(a.out) = ReadAs<D>(in, a.in_dtype); break;
    TSR_FOR_EACH_STORAGE(TSR_CASE)
#undef TSR_CASE
  }
}

#define TSR_KERNEL(name, T, integer) \
  extern "C" __global__ void iota_##name(const __grid_constant__ IotaArgs a) { Iota<T, integer>(a); }
TSR_KERNEL(f64, double, false)
TSR_KERNEL(f32, float, false)
TSR_KERNEL(f16, Half, false)
TSR_KERNEL(bf16, BHalf, false)
TSR_KERNEL(f8e4m3, E4M3, false)
TSR_KERNEL(f8e5m2, E5M2, false)
TSR_KERNEL(i64, int64_t, true)
TSR_KERNEL(i32, int32_t, true)
TSR_KERNEL(i8, int8_t, true)
TSR_KERNEL(u8, uint8_t, true)
#undef TSR_KERNEL

}  // namespace tessera::cuda
