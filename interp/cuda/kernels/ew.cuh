// Kernels for element-wise ops: two for each op and storage type.
//
//   ew_<op>_<dtype>_flat     operands that lie as the result does: 16 bytes at a time
//   ew_<op>_<dtype>_strided  any strides, one element at a time; what broadcasts most, 16 bytes at a time where rows
//                            allow it
//
// What an op computes comes from the tables of interp/cpu/ew_ops_isa.h.
#ifndef TESSERA_INTERP_CUDA_KERNELS_EW_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_EW_CUH_

#include "interp/cuda/ew_args.h"
#include "interp/cuda/kernels/device.cuh"

namespace tessera::cuda {

// What a storage type computes in.
template <class S>
using Computed = decltype(Load(S{}));

template <class T>
__device__ __forceinline__ T FromWord(uint64_t bits) {
  T x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

template <class S>
__device__ __forceinline__ Computed<S> Single(uint64_t in, OperandKind kind) {
  if (kind == OperandKind::immediate) return FromWord<Computed<S>>(in);
  return Load(*At<const S>(in));
}

/// S: storage of the operands, R: of the result. F has arity and Run.
template <class F, class S, class R>
__device__ __forceinline__ void EwFlatBody(const EwFlat& a) {
  using T = Computed<S>;
  constexpr int kWide = sizeof(S) > sizeof(R) ? sizeof(S) : sizeof(R);
  constexpr int kPack = 16 / kWide;
  constexpr int kArity = F::kArity;
  R* const out = At<R>(a.out);
  const S* in[kArity];
  T single[kArity];
#pragma unroll
  for (int k = 0; k < kArity; ++k) {
    in[k] = nullptr;
    single[k] = T(0);
    if (a.kind[k] == OperandKind::elements)
      in[k] = At<const S>(a.in[k]);
    else
      single[k] = Single<S>(a.in[k], a.kind[k]);
  }
  const int64_t packs = a.size / kPack;
  for (int64_t p = ThreadIndex(); p < packs; p += ThreadCount()) {
    Pack<S, kPack> x[kArity];
#pragma unroll
    for (int k = 0; k < kArity; ++k)
      if (in[k] != nullptr) x[k] = reinterpret_cast<const Pack<S, kPack>*>(in[k])[p];
    Pack<R, kPack> y;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      T v[kArity];
#pragma unroll
      for (int k = 0; k < kArity; ++k) v[k] = in[k] != nullptr ? Load(x[k].at[i]) : single[k];
      Store(F::Run(v), y.at[i]);
    }
    reinterpret_cast<Pack<R, kPack>*>(out)[p] = y;
  }
  const int64_t rest = packs * kPack + ThreadIndex();
  if (rest < a.size) {
    T v[kArity];
#pragma unroll
    for (int k = 0; k < kArity; ++k) v[k] = in[k] != nullptr ? Load(in[k][rest]) : single[k];
    Store(F::Run(v), out[rest]);
  }
}

/// offset[k]: where element i of the result is in operand k. `inner` is the last dim, perhaps counted in packs.
template <int kArity>
__device__ __forceinline__ void OffsetsOf(const EwStrided& a, int64_t i, int64_t inner, int64_t step,
                                          int64_t (&offset)[kArity]) {
  if ((a.size >> 31) == 0) {
    uint32_t rest = static_cast<uint32_t>(i);
    for (int d = a.rank - 1; d > 0; --d) {
      const bool last = d == a.rank - 1;
      const uint32_t n = static_cast<uint32_t>(last ? inner : a.dims[d]);
      const uint32_t q = rest / n, r = (rest - q * n) * static_cast<uint32_t>(last ? step : 1);
#pragma unroll
      for (int k = 0; k < kArity; ++k) offset[k] += r * a.strides[k][d];
      rest = q;
    }
    if (a.rank == 1) rest *= static_cast<uint32_t>(step);
#pragma unroll
    for (int k = 0; k < kArity; ++k) offset[k] += rest * a.strides[k][0];
  } else {
    int64_t rest = i;
    for (int d = a.rank - 1; d > 0; --d) {
      const bool last = d == a.rank - 1;
      const int64_t n = last ? inner : a.dims[d];
      const int64_t q = rest / n, r = (rest - q * n) * (last ? step : 1);
#pragma unroll
      for (int k = 0; k < kArity; ++k) offset[k] += r * a.strides[k][d];
      rest = q;
    }
    if (a.rank == 1) rest *= step;
#pragma unroll
    for (int k = 0; k < kArity; ++k) offset[k] += rest * a.strides[k][0];
  }
}

/// kPacks: the kernel takes EwStrided::pack.
template <class F, class S, class R, bool kPacks>
__device__ __forceinline__ void EwStridedBody(const EwStrided& a) {
  using T = Computed<S>;
  constexpr int kArity = F::kArity;
  R* const out = At<R>(a.out);
  const S* in[kArity];
  T single[kArity];
#pragma unroll
  for (int k = 0; k < kArity; ++k) {
    in[k] = nullptr;
    single[k] = T(0);
    if (a.kind[k] == OperandKind::elements)
      in[k] = At<const S>(a.in[k]);
    else
      single[k] = Single<S>(a.in[k], a.kind[k]);
  }
  if constexpr (kPacks) {
    constexpr int V = 16 / static_cast<int>(sizeof(S) > sizeof(R) ? sizeof(S) : sizeof(R));
    if (a.pack > 1) {
      const int64_t inner = a.dims[a.rank - 1] / V;
      for (int64_t p = ThreadIndex(); p < a.size / V; p += ThreadCount()) {
        int64_t offset[kArity] = {};
        OffsetsOf(a, p, inner, V, offset);
        Pack<S, V> x[kArity];
#pragma unroll
        for (int k = 0; k < kArity; ++k) {
          if (in[k] == nullptr) continue;
          if (a.strides[k][a.rank - 1] == 1) {
            x[k] = *reinterpret_cast<const Pack<S, V>*>(in[k] + offset[k]);
          } else {
            const S one = in[k][offset[k]];
#pragma unroll
            for (int e = 0; e < V; ++e) x[k].at[e] = one;
          }
        }
        Pack<R, V> y;
#pragma unroll
        for (int e = 0; e < V; ++e) {
          T v[kArity];
#pragma unroll
          for (int k = 0; k < kArity; ++k) v[k] = in[k] != nullptr ? Load(x[k].at[e]) : single[k];
          Store(F::Run(v), y.at[e]);
        }
        reinterpret_cast<Pack<R, V>*>(out)[p] = y;
      }
      return;
    }
  }
  for (int64_t i = ThreadIndex(); i < a.size; i += ThreadCount()) {
    int64_t offset[kArity] = {};
    OffsetsOf(a, i, a.dims[a.rank - 1], 1, offset);
    T v[kArity];
#pragma unroll
    for (int k = 0; k < kArity; ++k) v[k] = in[k] != nullptr ? Load(in[k][offset[k]]) : single[k];
    Store(F::Run(v), out[i]);
  }
}

// The function of an op: F_<op><T>.
#define TSR_F_HEAD(n)                                         \
  static constexpr int kArity = n;                            \
  using U [[maybe_unused]] = typename UnsignedOf<T>::Type;
#define TSR_F1(name, ...)                                                                     \
  template <class T>                                                                          \
  struct F_##name {                                                                           \
    TSR_F_HEAD(1)                                                                             \
    static __device__ __forceinline__ T Run(const T* v) {                                     \
      const T x = v[0];                                                                       \
      return static_cast<T>(__VA_ARGS__);                                                     \
    }                                                                                         \
  };
#define TSR_F2(name, ...)                                                                     \
  template <class T>                                                                          \
  struct F_##name {                                                                           \
    TSR_F_HEAD(2)                                                                             \
    static __device__ __forceinline__ T Run(const T* v) {                                     \
      const T a = v[0], b = v[1];                                                             \
      return static_cast<T>(__VA_ARGS__);                                                     \
    }                                                                                         \
  };
#define TSR_F3(name, ...)                                                                     \
  template <class T>                                                                          \
  struct F_##name {                                                                           \
    TSR_F_HEAD(3)                                                                             \
    static __device__ __forceinline__ T Run(const T* v) {                                     \
      const T a = v[0], b = v[1], c = v[2];                                                   \
      return static_cast<T>(__VA_ARGS__);                                                     \
    }                                                                                         \
  };
#define TSR_F1_REPAIR(name, fast, rest, slow) TSR_F1(name, (rest) ? (slow) : (fast))
#define TSR_F2_REPAIR(name, fast, rest, slow) TSR_F2(name, (rest) ? (slow) : (fast))
// Questions: the answer is a byte.
#define TSR_Q1(name, ...)                                                                     \
  template <class T>                                                                          \
  struct F_##name {                                                                           \
    TSR_F_HEAD(1)                                                                             \
    static __device__ __forceinline__ uint8_t Run(const T* v) {                               \
      const T x = v[0];                                                                       \
      return (__VA_ARGS__) ? 1 : 0;                                                           \
    }                                                                                         \
  };
#define TSR_Q2(name, ...)                                                                     \
  template <class T>                                                                          \
  struct F_##name {                                                                           \
    TSR_F_HEAD(2)                                                                             \
    static __device__ __forceinline__ uint8_t Run(const T* v) {                               \
      const T a = v[0], b = v[1];                                                             \
      return (__VA_ARGS__) ? 1 : 0;                                                           \
    }                                                                                         \
  };

// The two kernels of an op, and those of one whose strided kernel takes packs: more code, so only what is short and
// often broadcasts.
#define TSR_EW_KERNELS_OF(name, dtype, S, R, packs)                                           \
  extern "C" __global__ void __launch_bounds__(256)                                           \
      ew_##name##_##dtype##_flat(const __grid_constant__ EwFlat a) {                          \
    EwFlatBody<F_##name<Computed<S>>, S, R>(a);                                               \
  }                                                                                           \
  extern "C" __global__ void __launch_bounds__(256)                                           \
      ew_##name##_##dtype##_strided(const __grid_constant__ EwStrided a) {                    \
    EwStridedBody<F_##name<Computed<S>>, S, R, packs>(a);                                     \
  }
#define TSR_EW_KERNELS(name, dtype, S, R) TSR_EW_KERNELS_OF(name, dtype, S, R, false)
#define TSR_EW_PACK_KERNELS(name, dtype, S, R) TSR_EW_KERNELS_OF(name, dtype, S, R, true)

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_EW_CUH_
