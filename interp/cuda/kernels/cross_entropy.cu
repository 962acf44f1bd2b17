// cross_entropy: log(sum(exp(row))) - row[target], with one pass over each row. cross_entropy_grad reads each row again,
// mostly from the second-level cache, and writes (exp(row) / sum - one_hot(target)) * g. This is for any layout and
// dtype; rows that lie dense are those of cross_entropy_rows.cu.
#include "interp/cuda/cross_entropy_args.h"
#include "interp/cuda/kernels/rows.cuh"

namespace tessera::cuda {
namespace {

/// exp(x); where results are rounded to 11 bits or fewer, by the device's own power of two (2^-22).
template <bool kNarrow, class C>
__device__ __forceinline__ C ExpOf(C x) {
  if constexpr (kNarrow) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 0x1.715476p+0f));
    return y;
  } else {
    return Exp(x);
  }
}

/// The largest so far, and the sum of exponentials of distances from it.
template <class C>
struct alignas(8) Running {
  double sum;
  C max;

  // While all are -inf there is nothing to add, and -inf - -inf would make NaN of what comes.
  __device__ __forceinline__ double From(C to) const {
    return max == -Inf(C(0)) ? 0.0 : sum * Exp(static_cast<double>(max) - static_cast<double>(to));
  }
  template <bool kNarrow, int n>
  __device__ __forceinline__ void Add(const C (&v)[n]) {
    C m = v[0];
#pragma unroll
    for (int i = 1; i < n; ++i) m = Larger(m, v[i]);
    if (!(m <= max)) {  // larger, or NaN
      sum = From(m);
      max = m;
    }
    if (max == -Inf(C(0))) return;
    C terms[n];
#pragma unroll
    for (int i = 0; i < n; ++i) terms[i] = ExpOf<kNarrow>(v[i] - max);
    sum += TreeSum<n>(terms);
  }
  __device__ __forceinline__ void Merge(const Running& o) {
    const C m = Larger(max, o.max);
    sum = From(m) + o.From(m);
    max = m;
  }
};

template <class T, class C>
__device__ __forceinline__ void AddRow(const T* x, int64_t n, int64_t step, int t, int lanes, Running<C>& r) {
  constexpr int V = kPack<T>;
  constexpr bool kNarrow = sizeof(T) < 4;
  int64_t head = n, packs = 0;
  if (step == 1) {
    head = static_cast<int64_t>(-(reinterpret_cast<uint64_t>(x) / sizeof(T)) & (V - 1));
    head = head < n ? head : n;
    packs = (n - head) / V;
  }
  int64_t i = t, end = head;
#pragma unroll 1
  for (int part = 0;; ++part) {
#pragma unroll 1
    for (; i < end; i += lanes) {
      const C v[1] = {Get<C>(x[i * step])};
      r.template Add<kNarrow>(v);
    }
    if (part == 1 || head == n) break;
    const Pack<T, V>* p = reinterpret_cast<const Pack<T, V>*>(x + head);
    constexpr int U = V > 8 ? 1 : V < 4 ? 4 : 16 / V;
    int64_t done = 0;  // packs, by all threads
#pragma unroll 1
    for (; done + U * lanes <= packs; done += U * lanes) {
      Pack<T, V> e[U];
#pragma unroll
      for (int u = 0; u < U; ++u) e[u] = p[done + t + u * lanes];
      C v[U * V];
#pragma unroll
      for (int k = 0; k < U * V; ++k) v[k] = Get<C>(e[k / V].at[k % V]);
      r.template Add<kNarrow>(v);
    }
    i = head + done * V + t;
    end = n;
  }
}

/// y = (exp(x - max) * by - (1 at the target)) * g.
template <class T, class C>
__device__ __forceinline__ void WriteGrad(const T* x, int64_t n, int64_t step, int t, int lanes, C max, C by,
                                          int64_t target, C g, T* y) {
  constexpr int V = kPack<T>;
  const auto grad = [&](T e, int64_t i) { return (ExpOf<sizeof(T) < 4>(Get<C>(e) - max) * by - (i == target ? C(1) : C(0))) * g; };
  int64_t done = 0;
  if (step == 1 && Aligned<T, V>(x) && Aligned<T, V>(y)) {
    done = n / V * V;
#pragma unroll 2
    for (int64_t i = static_cast<int64_t>(t) * V; i < done; i += static_cast<int64_t>(lanes) * V) {
      const Pack<T, V> e = *reinterpret_cast<const Pack<T, V>*>(x + i);
      Pack<T, V> out;
#pragma unroll
      for (int k = 0; k < V; ++k) Put(grad(e.at[k], i + k), out.at[k]);
      *reinterpret_cast<Pack<T, V>*>(y + i) = out;
    }
  }
  for (int64_t i = done + t; i < n; i += lanes) Put(grad(x[i * step], i), y[i]);
}

template <class C, bool kGrad>
__device__ __forceinline__ void Rows(const CrossEntropyArgs& a) {
  __shared__ Running<C> shared[32];
  const int lanes = a.lanes, groups = blockDim.x / lanes, t = threadIdx.x % lanes;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < a.rows;
       first += static_cast<int64_t>(gridDim.x) * groups) {
    const int64_t row = first + threadIdx.x / lanes;
    int64_t target = a.ignore;
    if (row < a.rows) target = At<const int64_t>(a.targets.data)[OffsetOf(a.targets.layout, row)];
    const bool counts = row < a.rows && target != a.ignore && target >= 0 && target < a.classes;
    const int64_t at = counts ? OffsetOf(a.logits.layout, row) : 0;
    Running<C> r = {0, -Inf(C(0))};
    C chosen = 0;
    if (counts) {
      WithStorage<C>(a.logits.layout.dtype, [&](auto tag) {
        using T = typename decltype(tag)::Type;
        const T* x = At<const T>(a.logits.data) + at;
        AddRow(x, a.classes, a.step, t, lanes, r);
        if (t == 0) chosen = Get<C>(x[target * a.step]);
      });
    }
    __syncwarp();
    r = GroupMerge(r, lanes, shared, Running<C>{0, -Inf(C(0))},
                   [](Running<C>& x, const Running<C>& y) { x.Merge(y); });
    if (row < a.rows && t == 0 && !counts && target != a.ignore) Report(a.error, a.op, target, a.classes);
    if constexpr (kGrad) {
      if (row >= a.rows) continue;
      WithStorage<C>(a.logits.layout.dtype, [&](auto tag) {
        using T = typename decltype(tag)::Type;
        T* y = At<T>(a.y) + row * a.classes;
        if (counts) {
          const C g = Get<C>(At<const T>(a.g.data)[OffsetOf(a.g.layout, row)]);
          WriteGrad(At<const T>(a.logits.data) + at, a.classes, a.step, t, lanes, r.max, static_cast<C>(1 / r.sum),
                    target, g, y);
        } else {
          for (int64_t i = t; i < a.classes; i += lanes) Put(C(0), y[i]);
        }
      });
      continue;
    }
    if (row >= a.rows || t != 0) continue;
    double loss = 0;
    if (counts) loss = (static_cast<double>(r.max) - static_cast<double>(chosen)) + Log(r.sum);
    WithStorage<C>(a.logits.layout.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      Put(loss, At<T>(a.y)[row]);
    });
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256, 3) cross_entropy_f32(const __grid_constant__ CrossEntropyArgs a) {
  Rows<float, false>(a);
}
extern "C" __global__ void __launch_bounds__(256, 2) cross_entropy_f64(const __grid_constant__ CrossEntropyArgs a) {
  Rows<double, false>(a);
}
extern "C" __global__ void __launch_bounds__(256, 3) cross_entropy_grad_f32(const __grid_constant__ CrossEntropyArgs a) {
  Rows<float, true>(a);
}
extern "C" __global__ void __launch_bounds__(256, 2) cross_entropy_grad_f64(const __grid_constant__ CrossEntropyArgs a) {
  Rows<double, true>(a);
}

}  // namespace tessera::cuda
