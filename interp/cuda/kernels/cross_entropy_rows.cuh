// What cross_entropy_rows.cu and cross_entropy_rows_hopper.cu share: rows of f32, f16 and bf16 that lie dense and begin
// at multiples of 16 bytes. An access has 16 bytes, of V elements. Each thread writes the gradient of what it has read
// itself: the result may be where the logits are.
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

/// 16 bytes of memory: V elements, two in a word where they have two bytes.
struct alignas(16) Access {
  uint32_t words[4];
};
template <class T>
constexpr int kOfAccess = 16 / static_cast<int>(sizeof(T));

/// Element k of some accesses.
template <class T>
__device__ __forceinline__ float ElementOf(const Access* e, int k) {
  constexpr int V = kOfAccess<T>;
  const uint32_t word = e[k / V].words[k % V * static_cast<int>(sizeof(T)) / 4];
  if constexpr (sizeof(T) == 4) return __uint_as_float(word);
  if constexpr (std::is_same_v<T, BHalf>) return __uint_as_float(k % 2 == 0 ? word << 16 : word & 0xffff0000u);
  return Get<float>(Half{static_cast<uint16_t>(k % 2 == 0 ? word : word >> 16)});
}

/// An access all of whose elements count for nothing.
template <class T>
__device__ __forceinline__ Access Nothing() {
  constexpr uint32_t kMinusInf = sizeof(T) == 4 ? 0xff800000u : std::is_same_v<T, BHalf> ? 0xff80ff80u : 0xfc00fc00u;
  return {{kMinusInf, kMinusInf, kMinusInf, kMinusInf}};
}

/// The larger ones of two pairs of elements.
template <class T>
__device__ __forceinline__ uint32_t LargerPair(uint32_t a, uint32_t b) {
  uint32_t y;
  if constexpr (std::is_same_v<T, BHalf>)
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  else
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}

/// The largest element of n accesses.
template <class T, int n>
__device__ __forceinline__ float LargestOf(const Access (&e)[n]) {
  if constexpr (sizeof(T) == 2) {
    uint32_t most[2] = {e[0].words[0], e[0].words[1]};
#pragma unroll
    for (int i = 2; i < n * 4; ++i) most[i % 2] = LargerPair<T>(most[i % 2], e[i / 4].words[i % 4]);
    const Access pair[1] = {{{LargerPair<T>(most[0], most[1])}}};
    return Maximum(ElementOf<T>(pair, 0), ElementOf<T>(pair, 1));
  } else {
    float m = ElementOf<T>(e, 0);
#pragma unroll
    for (int k = 1; k < n * 4; ++k) m = Maximum(m, ElementOf<T>(e, k));
    return m;
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
  /// m: the largest of them.
  template <int n>
  __device__ __forceinline__ void Add(const float (&v)[n], float m) {
    if (!(m <= max)) {  // larger, or NaN
      sum = From(m);
      max = m;
    }
    const float base = Base();
    float terms[n];
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
__device__ __forceinline__ void AddAccesses(const Access (&e)[n], RunningRow<T>& r) {
  float v[n * kOfAccess<T>];
#pragma unroll
  for (int k = 0; k < n * kOfAccess<T>; ++k) v[k] = ElementOf<T>(e, k);
  r.Add(v, LargestOf<T>(e));
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
__device__ __forceinline__ Access GradOf(const Access x, const RunningRow<T>& r, float by, float g, int target,
                                         int index) {
  constexpr int V = kOfAccess<T>;
  const float base = r.Base();
  float v[V];
#pragma unroll
  for (int k = 0; k < V; ++k) v[k] = Weight<T>(ElementOf<T>(&x, k), base) * by;
  if (static_cast<unsigned>(target - index) < static_cast<unsigned>(V)) {
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (k == target - index) v[k] = (Weight<T>(ElementOf<T>(&x, k), base) / r.sum - 1.0f) * g;
  }
  Access y;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    // The first operand goes to the upper half.
    if constexpr (sizeof(T) == 4)
      y.words[k] = __float_as_uint(v[k]);
    else if constexpr (std::is_same_v<T, BHalf>)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y.words[k]) : "f"(v[2 * k + 1]), "f"(v[2 * k]));
    else
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y.words[k]) : "f"(v[2 * k + 1]), "f"(v[2 * k]));
  }
  return y;
}

__device__ __forceinline__ void BeginCopy(Access* to, const Access* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SharedAddress(to)), "l"(from) : "memory");
}

/// Adds up accesses first, first + step, ... before `last`, which this thread has in shared memory.
template <class T>
__device__ __forceinline__ void AddKept(const Access* kept, int first, int last, int step, RunningRow<T>& r) {
  constexpr int U = 16 / kOfAccess<T>;
  int i = first;
#pragma unroll 1
  for (; i + (U - 1) * step < last; i += U * step) {
    Access e[U];
#pragma unroll
    for (int u = 0; u < U; ++u) e[u] = kept[i + u * step];
    AddAccesses(e, r);
  }
#pragma unroll 1
  for (; i < last; i += step) {
    const Access e[1] = {kept[i]};
    AddAccesses(e, r);
  }
}

template <class T>
__device__ __forceinline__ float GradOfRow(const CrossEntropyArgs& a, int64_t row) {
  return Get<float>(At<const T>(a.g.data)[OffsetOf(a.g.layout, row)]);
}
/// Writes the gradient of the same accesses.
template <class T>
__device__ __forceinline__ void WriteGrad(const CrossEntropyArgs& a, int64_t row, const Access* kept, int first,
                                          int last, int step, const RunningRow<T>& r, int target, float g) {
  const float by = g / r.sum;
  auto* y = reinterpret_cast<Access*>(At<T>(a.y) + row * a.classes);
#pragma unroll 2
  for (int i = first; i < last; i += step) {
    const uint4 x = *reinterpret_cast<const uint4*>(kept + i);  // one access, whatever becomes of its words
    y[i] = GradOf<T>({{x.x, x.y, x.z, x.w}}, r, by, g, target, i * kOfAccess<T>);
  }
}
template <class T>
__device__ __forceinline__ void WriteZeros(const CrossEntropyArgs& a, int64_t row, int first, int last, int step) {
  auto* y = reinterpret_cast<Access*>(At<T>(a.y) + row * a.classes);
  for (int i = first; i < last; i += step) y[i] = Access{};
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_CROSS_ENTROPY_ROWS_CUH_
