// What kernels that move elements share: accesses of 16 bytes wherever addresses allow them, and numbers.
#ifndef TESSERA_INTERP_CUDA_KERNELS_MOVES_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_MOVES_CUH_

// nvcc passes on what the host has; a device has no __fp16.
#undef __ARM_FP16_FORMAT_IEEE
#include "interp/cuda/kernels/device.cuh"
#include "interp/cuda/number_args.h"

namespace tessera::cuda {

/// Elements of type T in 16 bytes.
template <class T>
constexpr int kUnit = 16 / static_cast<int>(sizeof(T));

__device__ __forceinline__ bool IsAligned(const void* p, int bytes) {
  return (reinterpret_cast<uint64_t>(p) & static_cast<uint64_t>(bytes - 1)) == 0;
}

struct Parts {
  int64_t quotient, rest;
};
/// Of numbers that are not negative.
__device__ __forceinline__ Parts Divide(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) {
    const uint32_t q = static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
    return {static_cast<int64_t>(q), static_cast<int64_t>(static_cast<uint32_t>(a) - q * static_cast<uint32_t>(b))};
  }
  const int64_t q = a / b;
  return {q, a - q * b};
}

/// Elements out[first], ..., as far as there are any below `count`.
template <class T, int n>
__device__ __forceinline__ void StorePack(T* out, int64_t first, int64_t count, const Pack<T, n>& p) {
  static_assert(sizeof(p) == sizeof(T) * n && sizeof(p) <= 16);
  if (first + n <= count && IsAligned(out + first, sizeof(p))) {
    if constexpr (sizeof(p) == 16) {
      *reinterpret_cast<uint4*>(out + first) = __builtin_bit_cast(uint4, p);
    } else {
      *reinterpret_cast<Pack<T, n>*>(out + first) = p;
    }
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i)
      if (first + i < count) out[first + i] = p.at[i];
  }
}

/// n elements from p on, `stride` apart.
template <class T, int n>
__device__ __forceinline__ Pack<T, n> LoadPack(const T* p, int64_t stride) {
  static_assert(sizeof(T) * n == 16);
  if (stride == 1 && IsAligned(p, 16)) return __builtin_bit_cast(Pack<T, n>, *reinterpret_cast<const uint4*>(p));
  Pack<T, n> r;
#pragma unroll
  for (int i = 0; i < n; ++i) r.at[i] = p[i * stride];
  return r;
}

template <class T>
__device__ __forceinline__ void CopyUnitAs(void* dst, const void* src) {
  T r[kUnit<T>];
#pragma unroll
  for (int i = 0; i < kUnit<T>; ++i) r[i] = static_cast<const T*>(src)[i];
#pragma unroll
  for (int i = 0; i < kUnit<T>; ++i) static_cast<T*>(dst)[i] = r[i];
}

/// 16 bytes of elements of that size, to which both addresses are aligned.
__device__ __forceinline__ void CopyUnit(void* dst, const void* src, int size) {
  if (IsAligned(dst, 16) && IsAligned(src, 16)) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
    return;
  }
  switch (size) {
    case 8: return CopyUnitAs<uint64_t>(dst, src);
    case 4: return CopyUnitAs<uint32_t>(dst, src);
    case 2: return CopyUnitAs<uint16_t>(dst, src);
    default: return CopyUnitAs<uint8_t>(dst, src);
  }
}

/// The element at p as a D, by the rules of a cast.
template <class D>
__device__ __forceinline__ D ReadAs(const void* p, int32_t dtype) {
  D r{};
  switch (static_cast<DType>(dtype)) {
#define TSR_CASE(name, S)                                 \
  case DType::name:                                       \
    if constexpr (__is_same(D, S))                        \
      r = *static_cast<const S*>(p);                      \
    else                                                  \
      Store(Load(*static_cast<const S*>(p)), r);          \
    break;
    TSR_FOR_EACH_STORAGE(TSR_CASE)
#undef TSR_CASE
  }
  return r;
}

// Of any dtype; calls, because a kernel asks once.
static __device__ __noinline__ double ReadFloat(const void* p, int32_t dtype) { return ReadAs<double>(p, dtype); }
static __device__ __noinline__ int64_t ReadInt(const void* p, int32_t dtype) { return ReadAs<int64_t>(p, dtype); }

__device__ __forceinline__ double FloatOf(const Number& n) {
  return n.data == 0 ? n.f : ReadFloat(At<const void>(n.data), n.dtype);
}
__device__ __forceinline__ int64_t IntOf(const Number& n) {
  return n.data == 0 ? n.i : ReadInt(At<const void>(n.data), n.dtype);
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_MOVES_CUH_
