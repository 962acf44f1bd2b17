// Rows that a group of threads holds in registers: a thread has up to n elements, in packs of neighbours where the
// memory of all operands allows it, else one by one.
#ifndef TESSERA_INTERP_CUDA_KERNELS_ROW_REGS_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_ROW_REGS_CUH_

#include "interp/cuda/kernels/rows.cuh"
#include "interp/cuda/row_args.h"

namespace tessera::cuda {

template <class C>
constexpr int kHeld = sizeof(C) == 8 ? kRowDoubles : kRowFloats;

/// Whether rows of n elements of T, which begin at that address, may be read in packs. Those of one byte never are: it
/// would not be worth the code.
template <class T>
__device__ __forceinline__ bool PacksFit(const T* row, int64_t n) {
  return sizeof(T) > 1 && n % kPack<T> == 0 && Aligned<T, kPack<T>>(row);
}

/// The first `count` elements of a row for member t of `lanes`; `fill` beyond.
template <class T, class C, int n>
__device__ __forceinline__ void LoadRow(const T* row, int count, int t, int lanes, bool packs, C fill, C (&v)[n]) {
  if constexpr (sizeof(T) > 1) {
    if (packs) {
      constexpr int V = kPack<T>;
#pragma unroll
      for (int k = 0; k < n / V; ++k) {
        const int i = (k * lanes + t) * V;
        Pack<T, V> p;
        if (i < count) p = *reinterpret_cast<const Pack<T, V>*>(row + i);
#pragma unroll
        for (int j = 0; j < V; ++j) v[k * V + j] = i < count ? Get<C>(p.at[j]) : fill;
      }
      return;
    }
  }
#pragma unroll
  for (int k = 0; k < n; ++k) {
    const int i = k * lanes + t;
    v[k] = i < count ? Get<C>(row[i]) : fill;
  }
}

/// Bit k: v[k] of LoadRow is an element.
template <class T, int n>
__device__ __forceinline__ uint32_t RowMask(int count, int t, int lanes, bool packs) {
  static_assert(n <= 32);
  constexpr int V = kPack<T>;
  uint32_t mask = 0;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    const int i = packs ? (k / V * lanes + t) * V : k * lanes + t;
    mask |= i < count ? 1u << k : 0;
  }
  return mask;
}

/// Writes what LoadRow would read back.
template <class T, class C, int n>
__device__ __forceinline__ void StoreRow(T* row, int count, int t, int lanes, bool packs, const C (&v)[n]) {
  if constexpr (sizeof(T) > 1) {
    if (packs) {
      constexpr int V = kPack<T>;
#pragma unroll
      for (int k = 0; k < n / V; ++k) {
        const int i = (k * lanes + t) * V;
        Pack<T, V> p;
#pragma unroll
        for (int j = 0; j < V; ++j) Put(v[k * V + j], p.at[j]);
        if (i < count) *reinterpret_cast<Pack<T, V>*>(row + i) = p;
      }
      return;
    }
  }
#pragma unroll
  for (int k = 0; k < n; ++k) {
    const int i = k * lanes + t;
    if (i < count) Put(v[k], row[i]);
  }
}

/// The sum of n values, four at a time side by side.
template <class C, int n, class Fn>
__device__ __forceinline__ C ThreadSum(const C (&v)[n], Fn fn) {
  C s[4] = {};
#pragma unroll
  for (int k = 0; k < n; ++k) s[k % 4] += fn(v[k], k);
  return (s[0] + s[1]) + (s[2] + s[3]);
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_ROW_REGS_CUH_
