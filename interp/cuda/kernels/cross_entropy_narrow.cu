// cross_entropy and cross_entropy_grad of f16 and bf16 with many classes: a block for each row, 16 bytes an access. The
// gradient keeps the row in shared memory while it adds it up, so that the device's memory is read once.
#include "interp/cuda/cross_entropy_args.h"
#include "interp/cuda/kernels/rows.cuh"

namespace tessera::cuda {
namespace {

constexpr float kLog2E = 0x1.715476p+0f;
constexpr int V = 8;  // elements of an access

/// 2^x of the device (2^-22): results have 11 bits or fewer.
__device__ __forceinline__ float PowerOf2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

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

/// Two elements in a word, the first in its lower half.
template <class T>
__device__ __forceinline__ uint32_t Words(float first, float second) {
  uint32_t y;
  if constexpr (std::is_same_v<T, BHalf>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  return y;
}

/// The largest so far, and the sum of exponentials of distances from it.
struct Running {
  float max, sum;

  // While all are -inf there is nothing to add, and -inf - -inf would make NaN of what comes.
  __device__ __forceinline__ float Base() const { return max == -Inf(0.0f) ? 0.0f : max; }
  __device__ __forceinline__ float From(float to) const {
    return max == -Inf(0.0f) ? 0.0f : sum * PowerOf2((max - to) * kLog2E);
  }
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
    for (int i = 0; i < n; ++i) terms[i] = PowerOf2((v[i] - base) * kLog2E);
    sum += TreeSum<n>(terms);
  }
  __device__ __forceinline__ void Merge(const Running& o) {
    const float m = Maximum(max, o.max);
    sum = From(m) + o.From(m);
    max = m;
  }
};

template <class T>
using Block = Pack<T, V>;

template <int U, class T>
__device__ __forceinline__ void AddPacks(const Block<T> (&e)[U], Running& r) {
  float v[U * V];
#pragma unroll
  for (int k = 0; k < U * V; ++k) v[k] = Get<float>(e[k / V].at[k % V]);
  r.Add(v);
}

/// Adds up a row; kept, where not null, gets a copy of it.
template <class T>
__device__ __forceinline__ void AddRow(const T* x, int64_t n, T* kept, Running& r) {
  constexpr int U = 4;
  const int t = threadIdx.x, step = blockDim.x;
  const auto* p = reinterpret_cast<const Block<T>*>(x);
  auto* copy = reinterpret_cast<Block<T>*>(kept);
  const int packs = static_cast<int>(n / V);
  int i = t;
#pragma unroll 1
  for (; i + (U - 1) * step < packs; i += U * step) {
    Block<T> e[U];
#pragma unroll
    for (int u = 0; u < U; ++u) e[u] = p[i + u * step];
    if (kept) {
#pragma unroll
      for (int u = 0; u < U; ++u) copy[i + u * step] = e[u];
    }
    AddPacks(e, r);
  }
#pragma unroll 1
  for (; i < packs; i += step) {
    const Block<T> e[1] = {p[i]};
    if (kept) copy[i] = e[0];
    AddPacks(e, r);
  }
#pragma unroll 1
  for (int k = packs * V + t; k < n; k += step) {
    if (kept) kept[k] = x[k];
    const float v[1] = {Get<float>(x[k])};
    r.Add(v);
  }
}

/// y = exp(x - max) * g / sum, less g at the target.
template <class T>
__device__ __forceinline__ void WriteGrad(const T* x, int64_t n, const Running& r, int target, float g, T* y) {
  const int t = threadIdx.x, step = blockDim.x;
  const float base = r.Base(), by = g / r.sum;
  const auto grad = [&](T e) { return PowerOf2((Get<float>(e) - base) * kLog2E) * by; };
  const int packs = static_cast<int>(n / V);
#pragma unroll 2
  for (int i = t; i < packs; i += step) {
    const Block<T> e = reinterpret_cast<const Block<T>*>(x)[i];
    float v[V];
#pragma unroll
    for (int k = 0; k < V; ++k) v[k] = grad(e.at[k]);
    if (target / V == i) {
#pragma unroll
      for (int k = 0; k < V; ++k) v[k] -= k == target % V ? g : 0.0f;
    }
    uint4 out;
    out.x = Words<T>(v[0], v[1]);
    out.y = Words<T>(v[2], v[3]);
    out.z = Words<T>(v[4], v[5]);
    out.w = Words<T>(v[6], v[7]);
    reinterpret_cast<uint4*>(y)[i] = out;
  }
  for (int k = packs * V + t; k < n; k += step) Put(grad(x[k]) - (k == target ? g : 0.0f), y[k]);
}

template <class T, bool kGrad>
__device__ __forceinline__ void Rows(const CrossEntropyArgs& a) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ Running shared[32];
  T* kept = kGrad ? reinterpret_cast<T*>(memory) : nullptr;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const int64_t target = At<const int64_t>(a.targets.data)[OffsetOf(a.targets.layout, row)];
    const bool counts = target != a.ignore && target >= 0 && target < a.classes;
    if (!counts && target != a.ignore && threadIdx.x == 0) Report(a.error, a.op, target, a.classes);
    T* y = At<T>(a.y) + (kGrad ? row * a.classes : row);
    if (!counts) {  // the same for the whole block
      if (kGrad || threadIdx.x == 0)
        for (int64_t i = threadIdx.x; i < (kGrad ? a.classes : 1); i += blockDim.x) Put(0.0f, y[i]);
      continue;
    }
    const T* x = At<const T>(a.logits.data) + OffsetOf(a.logits.layout, row);
    Running r = {-Inf(0.0f), 0};
    AddRow(x, a.classes, kept, r);
    // Waits for the whole block, so that what each thread keeps may be read; and for those that still read the last row.
    r = GroupMerge(r, blockDim.x, shared, Running{-Inf(0.0f), 0}, [](Running& p, const Running& q) { p.Merge(q); });
    if constexpr (kGrad) {
      const float g = Get<float>(At<const T>(a.g.data)[OffsetOf(a.g.layout, row)]);
      WriteGrad(kept, a.classes, r, static_cast<int>(target), g, y);
      __syncthreads();
    } else if (threadIdx.x == 0) {
      Put((r.max - Get<float>(x[target])) + static_cast<float>(Log(static_cast<double>(r.sum))), y[0]);
    }
  }
}

}  // namespace

#define TSR_CROSS_ENTROPY(name, T)                                                                          \
  extern "C" __global__ void __launch_bounds__(kClassThreads, 4)                                            \
      cross_entropy_##name(const __grid_constant__ CrossEntropyArgs a) {                                    \
    Rows<T, false>(a);                                                                                      \
  }                                                                                                         \
  extern "C" __global__ void __launch_bounds__(kClassGradThreads, 2)                                        \
      cross_entropy_grad_##name(const __grid_constant__ CrossEntropyArgs a) {                               \
    Rows<T, true>(a);                                                                                       \
  }
TSR_CROSS_ENTROPY(f16, Half)
TSR_CROSS_ENTROPY(bf16, BHalf)

}  // namespace tessera::cuda
