// What cross_entropy_rows.cu and cross_entropy_rows_hopper.cu share: rows of f32, f16 and bf16 that lie dense and begin
// at multiples of 16 bytes. An access has 16 bytes, of V elements.
#ifndef TESSERA_INTERP_CUDA_KERNELS_CROSS_ENTROPY_ROWS_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_CROSS_ENTROPY_ROWS_CUH_

#include "interp/cuda/cross_entropy_args.h"
#include "interp/cuda/kernels/mma.cuh"
#include "interp/cuda/kernels/rows.cuh"

namespace tessera::cuda {

constexpr float kLog2E = 0x1.715476p+0f;

/// 2^x of the device (2^-22).
__device__ __forceinline__ float PowerOf2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// e^(x - base) for x <= base; 0 where that is no normal number. Where results have 11 bits or fewer it is within
/// 2^-16, otherwise within 2 ulp: what the product lacks is made good.
template <class T>
__device__ __forceinline__ float Weight(float x, float base) {
  if constexpr (sizeof(T) < 4) {
    return PowerOf2((x - base) * kLog2E);
  } else {
    const float c = Maximum(x - base, -88.0f), u = c * kLog2E;
    const float low = __fmaf_rn(c, 0x1.4ae0cp-26f, __fmaf_rn(c, kLog2E, -u)), e = PowerOf2(u);
    return __fmaf_rn(e, low * 0x1.62e43p-1f, e);
  }
}

template <class T>
constexpr int kOfAccess = 16 / static_cast<int>(sizeof(T));
template <class T>
using Access = Pack<T, kOfAccess<T>>;

/// The largest of n (a power of two) terms; v is used up.
template <int n, int size>
__device__ __forceinline__ float TreeMax(float (&v)[size]) {
  if constexpr (n == 1) {
    return v[0];
  } else {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) v[i] = Maximum(v[i], v[i + n / 2]);
    return TreeMax<n / 2>(v);
  }
}

/// The largest so far, and the sum of weights that are relative to it.
template <class T>
struct alignas(8) RunningRow {
  float max, sum;

  static __device__ __forceinline__ RunningRow Start() { return {-Inf(0.0f), 0.0f}; }
  // While all are -inf there is nothing to add, and -inf - -inf would make NaN of what comes.
  __device__ __forceinline__ float Base() const { return max == -Inf(0.0f) ? 0.0f : max; }
  __device__ __forceinline__ float From(float to) const { return max == -Inf(0.0f) ? 0.0f : sum * Weight<T>(max, to); }
  template <int n>
  __device__ __forceinline__ void Add(const float (&v)[n]) {
    float terms[n];
#pragma unroll
    for (int i = 0; i < n; ++i) terms[i] = v[i];
    const float m = TreeMax<n>(terms);
    if (!(m <= max)) {  // larger, or NaN
      sum = From(m);
      max = m;
    }
    const float base = Base();
#pragma unroll
    for (int i = 0; i < n; ++i) terms[i] = Weight<T>(v[i], base);
    sum += TreeSum<n>(terms);
  }
  __device__ __forceinline__ void Merge(const RunningRow& o) {
    const float m = Maximum(max, o.max);
    sum = From(m) + o.From(m);
    max = m;
  }
};

template <class T, int n>
__device__ __forceinline__ void AddAccesses(const Access<T> (&e)[n], RunningRow<T>& r) {
  constexpr int V = kOfAccess<T>;
  float v[n * V];
#pragma unroll
  for (int k = 0; k < n * V; ++k) v[k] = Get<float>(e[k / V].at[k % V]);
  r.Add(v);
}

/// An access all of whose elements count for nothing.
template <class T>
__device__ __forceinline__ Access<T> Nothing() {
  Access<T> e;
#pragma unroll
  for (int k = 0; k < kOfAccess<T>; ++k) Put(-Inf(0.0f), e.at[k]);
  return e;
}

/// The target of a row, and whether the row counts. A target that is no class is reported, by one thread.
struct TargetOfRow {
  int64_t target;
  bool counts;

  __device__ __forceinline__ TargetOfRow(const CrossEntropyArgs& a, int64_t row, bool reports) {
    target = At<const int64_t>(a.targets.data)[OffsetOf(a.targets.layout, row)];
    counts = target != a.ignore && target >= 0 && target < a.classes;
    if (!counts && target != a.ignore && reports) Report(a.error, a.op, target, a.classes);
  }
};

/// y = exp(x - max) * g / sum, less g at the target, of the elements at `index` and on.
template <class T>
__device__ __forceinline__ Access<T> GradOf(const Access<T>& x, const RunningRow<T>& r, float by, float g, int target,
                                            int index) {
  constexpr int V = kOfAccess<T>;
  const float base = r.Base();
  float v[V];
#pragma unroll
  for (int k = 0; k < V; ++k) v[k] = Weight<T>(Get<float>(x.at[k]), base) * by;
  if (static_cast<unsigned>(target - index) < V) {
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (k == target - index) v[k] = (Weight<T>(Get<float>(x.at[k]), base) / r.sum - 1.0f) * g;
  }
  Access<T> y;
  if constexpr (sizeof(T) == 2) {
    uint32_t words[V / 2];
#pragma unroll
    for (int k = 0; k < V / 2; ++k) {
      // The first operand goes to the upper half.
      if constexpr (std::is_same_v<T, BHalf>)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(words[k]) : "f"(v[2 * k + 1]), "f"(v[2 * k]));
      else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(words[k]) : "f"(v[2 * k + 1]), "f"(v[2 * k]));
    }
    memcpy(&y, words, sizeof y);
  } else {
#pragma unroll
    for (int k = 0; k < V; ++k) Put(v[k], y.at[k]);
  }
  return y;
}

template <class T>
__device__ __forceinline__ void BeginCopy(Access<T>* to, const Access<T>* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SharedAddress(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void WaitForOwnCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Adds up accesses first, first + step, ... before `last`, which this thread has in shared memory.
template <class T>
__device__ __forceinline__ void AddKept(const Access<T>* kept, int first, int last, int step, RunningRow<T>& r) {
  constexpr int U = 16 / kOfAccess<T>;
  int i = first;
#pragma unroll 1
  for (; i + (U - 1) * step < last; i += U * step) {
    Access<T> e[U];
#pragma unroll
    for (int u = 0; u < U; ++u) e[u] = kept[i + u * step];
    AddAccesses(e, r);
  }
#pragma unroll 1
  for (; i < last; i += step) {
    const Access<T> e[1] = {kept[i]};
    AddAccesses(e, r);
  }
}

/// Writes the gradient of the same accesses; y is where the row's begins.
template <class T>
__device__ __forceinline__ void WriteGrad(const CrossEntropyArgs& a, int64_t row, const Access<T>* kept, int first,
                                          int last, int step, const RunningRow<T>& r, int target) {
  const float g = Get<float>(At<const T>(a.g.data)[OffsetOf(a.g.layout, row)]), by = g / r.sum;
  auto* y = reinterpret_cast<Access<T>*>(At<T>(a.y) + row * a.classes);
#pragma unroll 2
  for (int i = first; i < last; i += step) y[i] = GradOf(kept[i], r, by, g, target, i * kOfAccess<T>);
}
template <class T>
__device__ __forceinline__ void WriteZeros(const CrossEntropyArgs& a, int64_t row, int first, int last, int step) {
  auto* y = reinterpret_cast<uint4*>(At<T>(a.y) + row * a.classes);
  for (int i = first; i < last; i += step) y[i] = uint4{0, 0, 0, 0};
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_CROSS_ENTROPY_ROWS_CUH_
