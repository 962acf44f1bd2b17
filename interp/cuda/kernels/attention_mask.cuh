// Which keys a query sees, for the kernels of attention.
#ifndef TESSERA_INTERP_CUDA_KERNELS_ATTENTION_MASK_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_ATTENTION_MASK_CUH_

#include "interp/cuda/attention_args.h"
#include "interp/cuda/kernels/rows.cuh"

namespace tessera::cuda {

/// Keys that query number i may see.
__device__ __forceinline__ int Seen(const AttentionArgs& a, int i) {
  if (!a.causal) return a.keys;
  const int64_t n = static_cast<int64_t>(i) + 1 + a.keys - a.queries;
  return n < 0 ? 0 : n > a.keys ? a.keys : static_cast<int>(n);
}

/// The first of them.
__device__ __forceinline__ int First(const AttentionArgs& a, int i) {
  if (a.window == 0) return 0;
  const int64_t n = static_cast<int64_t>(i) + 1 + a.keys - a.queries - a.window;
  return n < 0 ? 0 : n > a.keys ? a.keys : static_cast<int>(n);
}

/// Queries before this one do not see key number i, nor a later one.
__device__ __forceinline__ int FirstQuery(const AttentionArgs& a, int i) {
  const int64_t n = static_cast<int64_t>(i) + a.queries - a.keys;
  return !a.causal || n < 0 ? 0 : static_cast<int>(n);
}

/// Queries from this one on do not see key number i, nor an earlier one.
__device__ __forceinline__ int QueriesEnd(const AttentionArgs& a, int i) {
  if (a.window == 0) return a.queries;
  const int64_t n = i + a.window + a.queries - a.keys;
  return n < 0 ? 0 : n > a.queries ? a.queries : static_cast<int>(n);
}

/// What the mask adds to a score; of a bool one, 0 or -inf.
template <class C>
__device__ __forceinline__ C MaskAt(const AttentionArgs& a, int64_t at) {
  const Address mask = a.mask.data;
  switch (static_cast<DType>(a.mask_dtype)) {
    case DType::boolean: return At<const uint8_t>(mask)[at] ? C(0) : -Inf(C(0));
    case DType::f64: return static_cast<C>(At<const double>(mask)[at]);
    case DType::f32: return static_cast<C>(At<const float>(mask)[at]);
    case DType::f16: return Get<C>(At<const Half>(mask)[at]);
    case DType::bf16: return Get<C>(At<const BHalf>(mask)[at]);
    case DType::f8e4m3: return Get<C>(At<const E4M3>(mask)[at]);
    case DType::f8e5m2: return Get<C>(At<const E5M2>(mask)[at]);
    case DType::i64: return static_cast<C>(At<const int64_t>(mask)[at]);
    case DType::i32: return static_cast<C>(At<const int32_t>(mask)[at]);
    case DType::i8: return static_cast<C>(At<const int8_t>(mask)[at]);
    default: return static_cast<C>(At<const uint8_t>(mask)[at]);
  }
}

/// A masked key has the score -inf, whatever it was.
template <class C>
__device__ __forceinline__ C Masked(const AttentionArgs& a, C score, C mask) {
  if (static_cast<DType>(a.mask_dtype) == DType::boolean) return mask < C(0) ? mask : score;
  return score + mask;
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_ATTENTION_MASK_CUH_
