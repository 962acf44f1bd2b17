// cross_entropy and cross_entropy_grad of f32, f16 and bf16 where rows lie dense: a part of a warp, a warp or a block
// for each row. The gradient has the whole row on its way to shared memory at once, and computes from there: memory is
// read once.
#include "interp/cuda/kernels/cross_entropy_rows.cuh"

namespace tessera::cuda {
namespace {

/// The loss of a row, of which `chosen` is the target's element.
template <class T>
__device__ __forceinline__ float LossOf(const RunningRow<T>& r, float chosen) {
  return (r.max - chosen) + logf(r.sum);
}

/// Adds up a row of memory, if it counts, which is asked for when the first accesses are on their way. An access is
/// sent for as soon as the one before it, U further up, is in registers as numbers.
template <class T, class Counts>
__device__ __forceinline__ void AddRow(const T* x, int n, int t, int lanes, RunningRow<T>& r, Counts counts) {
  constexpr int V = kOfAccess<T>, U = 4, G = 16 / V;
  const auto* p = reinterpret_cast<const Access*>(x) + t;
  const int count = n / V, mine = count - t, step = U * lanes;
  Access e[U / G][G];
  const auto load = [&](int from, Access(&to)[G]) {
    if (from + G * lanes <= count) {
#pragma unroll
      for (int k = 0; k < G; ++k) to[k] = p[from + k * lanes];
    } else {
#pragma unroll
      for (int k = 0; k < G; ++k) to[k] = from + k * lanes < mine ? p[from + k * lanes] : Nothing<T>();
    }
  };
#pragma unroll
  for (int u = 0; u < U / G; ++u) load(u * G * lanes, e[u]);
  if (!counts()) return;
#pragma unroll 1
  for (int from = 0; from < count; from += step) {
#pragma unroll
    for (int u = 0; u < U / G; ++u) {
      Access some[G];
#pragma unroll
      for (int k = 0; k < G; ++k) some[k] = e[u][k];
      if (from + step + u * G * lanes < count)
        load(from + step + u * G * lanes, e[u]);
      else
#pragma unroll
        for (int k = 0; k < G; ++k) e[u][k] = Nothing<T>();
      AddAccesses(some, r);
    }
  }
#pragma unroll 1
  for (int k = count * V + t; k < n; k += lanes) {
    const float v[1] = {Get<float>(x[k])};
    r.Add(v, v[0]);
  }
}

template <class T, bool kGrad>
__device__ __forceinline__ void Rows(const CrossEntropyArgs& a) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ RunningRow<T> shared[32];
  const int lanes = a.lanes, t = threadIdx.x % lanes, group = threadIdx.x / lanes;
  const int64_t own = static_cast<int64_t>(blockIdx.x) * (blockDim.x / lanes) + group;
  // All threads of a warp exchange numbers, those that have no row, too.
  const bool is_row = own < a.rows;
  const int64_t row = is_row ? own : a.rows - 1;
  const int n = static_cast<int>(a.classes), count = n / kOfAccess<T>;
  const T* x = At<const T>(a.logits.data) + OffsetOf(a.logits.layout, row);
  RunningRow<T> r = RunningRow<T>::Start();
  const auto merge = [](RunningRow<T>& p, const RunningRow<T>& q) { p.Merge(q); };
  // The row is on its way before its target is known: that would be another wait.
  if constexpr (kGrad) {
    auto* kept = reinterpret_cast<Access*>(memory) + group * count;
    for (int i = t; i < count; i += lanes) BeginCopy(kept + i, reinterpret_cast<const Access*>(x) + i);
    const float g = GradOfRow<T>(a, row);
    const TargetOfRow of(a, row, t == 0);
    WaitForOwnCopies();
    if (of.counts) AddKept(kept, t, count, lanes, r);
    r = GroupMerge(r, lanes, shared, RunningRow<T>::Start(), merge);
    if (!is_row) return;
    if (!of.counts) return WriteZeros<T>(a, row, t, count, lanes);
    WriteGrad(a, row, kept, t, count, lanes, r, static_cast<int>(of.target), g);
  } else {
    bool counts = false;
    float chosen = 0;
    AddRow(x, n, t, lanes, r, [&] {
      const TargetOfRow of(a, row, t == 0);
      counts = of.counts;
      if (counts) chosen = Get<float>(x[of.target]);
      return counts;
    });
    r = GroupMerge(r, lanes, shared, RunningRow<T>::Start(), merge);
    if (is_row && t == 0) Put(counts ? LossOf(r, chosen) : 0.0f, At<T>(a.y)[row]);
  }
}

}  // namespace

// Three blocks of a multiprocessor have registers for the accesses that are on their way. Rows in shared memory take
// few.
#define TSR_CROSS_ENTROPY(name, T)                                                 \
  extern "C" __global__ void __launch_bounds__(kRowThreads, 4)                     \
      cross_entropy_rows_##name(const __grid_constant__ CrossEntropyArgs a) {      \
    Rows<T, false>(a);                                                             \
  }                                                                                \
  extern "C" __global__ void __launch_bounds__(kRowThreads, 5)                     \
      cross_entropy_grad_rows_##name(const __grid_constant__ CrossEntropyArgs a) { \
    Rows<T, true>(a);                                                              \
  }
TSR_CROSS_ENTROPY(f32, float)
TSR_CROSS_ENTROPY(f16, Half)
TSR_CROSS_ENTROPY(bf16, BHalf)

}  // namespace tessera::cuda
