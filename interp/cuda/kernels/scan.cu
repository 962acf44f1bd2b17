// Running sums. Floats run in f64 (f64 with what rounding lost kept beside), integers in wrapping i64. Place p of a
// line, in the order of the sum, is element p, or the p-th from the end.
//
//   rows   a warp or block goes through a line that is contiguous in the result, a tile at a time
//   lines  a thread goes through a line alone, its neighbours through the next
//
// Few long lines are cut into chunks: their sums first, then what comes before each chunk, then the chunks.
#include "interp/cuda/kernels/rows.cuh"
#include "interp/cuda/scan_args.h"

namespace tessera::cuda {
namespace {

constexpr int kEach = 4;  // places of a thread in a tile

template <class C, class T>
using Result = std::conditional_t<std::is_same_v<C, int64_t>, int64_t, T>;

template <class C>
__device__ __forceinline__ C ValueOf(const Total<C>& sum) {
  return static_cast<C>(sum.Value());
}

/// The sum of what the lanes of the warp below this one have.
template <class S>
__device__ __forceinline__ S WarpBefore(S own, S* all) {
  const int lane = threadIdx.x % 32;
  S sum = own;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    S before = FromLaneBelow(sum, d);
    if (lane >= d) {
      before.Merge(sum);
      sum = before;
    }
  }
  *all = FromLane(sum, 31);
  const S before = FromLaneBelow(sum, 1);
  return lane == 0 ? S{} : before;
}

template <class T, class C>
__device__ __forceinline__ void Row(const ScanArgs& a, int64_t line, int64_t p0, int64_t p1, int t, bool valid,
                                    Total<C>& carry, Total<C>* shared) {
  using R = Result<C, T>;
  using S = Total<C>;
  const T* x = At<const T>(a.x.data) + (valid ? OffsetOf(a.x.layout, line) : 0);
  R* y = At<R>(a.y) + (valid ? line * a.extent : 0);
  const int lanes = a.lanes;
  const bool writes = a.mode != kScanSums;
  for (int64_t tile = p0; tile < p1; tile += lanes * kEach) {
    const int64_t p = tile + t * kEach;
    const int live = !valid || p >= p1 ? 0 : p1 - p < kEach ? static_cast<int>(p1 - p) : kEach;
    const int64_t low = a.reverse ? a.extent - p - kEach : p;  // of the elements of this thread, if all are there
    C v[kEach];
    if (live == kEach && a.step == 1 && Aligned<T, kEach>(x + low)) {
      const Pack<T, kEach> pack = *reinterpret_cast<const Pack<T, kEach>*>(x + low);
#pragma unroll
      for (int k = 0; k < kEach; ++k) v[k] = Get<C>(a.reverse ? pack.at[kEach - 1 - k] : pack.at[k]);
    } else {
#pragma unroll
      for (int k = 0; k < kEach; ++k)
        v[k] = k < live ? Get<C>(x[(a.reverse ? a.extent - 1 - p - k : p + k) * a.step]) : C(0);
    }
    S own = {};
#pragma unroll
    for (int k = 0; k < kEach; ++k) own.Add(v[k]);
    S all;
    S before = WarpBefore(own, &all);
    if (lanes > 32) {
      const int warp = threadIdx.x / 32, warps = lanes / 32;
      __syncthreads();  // the tile before is through
      if (threadIdx.x % 32 == 0) shared[warp] = all;
      __syncthreads();
      S lower = {};
      all = S{};
      for (int w = 0; w < warps; ++w) {
        if (w == warp) lower = all;
        all.Merge(shared[w]);
      }
      lower.Merge(before);
      before = lower;
    }
    if (writes) {
      S sum = carry;
      sum.Merge(before);
      C out[kEach];
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        if (a.exclusive) out[k] = ValueOf(sum);
        sum.Add(v[k]);
        if (!a.exclusive) out[k] = ValueOf(sum);
      }
      if (live == kEach && Aligned<R, kEach>(y + low) && sizeof(R) * kEach <= 16) {
        Pack<R, kEach> pack;
#pragma unroll
        for (int k = 0; k < kEach; ++k) Put(a.reverse ? out[kEach - 1 - k] : out[k], pack.at[k]);
        *reinterpret_cast<Pack<R, kEach>*>(y + low) = pack;
      } else {
#pragma unroll
        for (int k = 0; k < kEach; ++k)
          if (k < live) Put(out[k], y[a.reverse ? a.extent - 1 - p - k : p + k]);
      }
    }
    carry.Merge(all);
  }
}

template <class C>
__device__ __forceinline__ void Rows(const ScanArgs& a) {
  using S = Total<C>;
  __shared__ S shared[32];
  const int groups = blockDim.x / a.lanes, t = threadIdx.x % a.lanes;
  const int64_t items = a.lines * a.chunks;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < items;
       first += static_cast<int64_t>(gridDim.x) * groups) {
    const int64_t item = first + threadIdx.x / a.lanes;
    const bool valid = item < items;
    const int64_t chunk = a.chunks > 1 && valid ? item / a.lines : 0, line = item - chunk * a.lines;
    const int64_t p0 = chunk * a.chunk, p1 = p0 + a.chunk < a.extent ? p0 + a.chunk : a.extent;
    S carry = {};
    if (a.mode == kScanApply && valid) carry = At<const S>(a.sums)[item];
    WithStorage<C>(a.x.layout.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      Row<T, C>(a, line, p0, p1, t, valid, carry, shared);
    });
    if (a.mode == kScanSums && valid && t == 0) At<S>(a.sums)[item] = carry;
  }
}

template <class T, class C>
__device__ __forceinline__ void Line(const ScanArgs& a, int64_t line, int64_t p0, int64_t p1, Total<C>& sum) {
  using R = Result<C, T>;
  const T* x = At<const T>(a.x.data) + OffsetOf(a.x.layout, line);
  R* y = At<R>(a.y) + line / a.inner * a.inner * a.extent + line % a.inner;
  const int64_t begin = a.reverse ? a.extent - 1 - p0 : p0, dir = a.reverse ? -1 : 1;
  const int64_t n = p1 - p0, x_step = dir * a.step, y_step = dir * a.inner;
  const bool writes = a.mode != kScanSums;
  x += begin * a.step;
  y += begin * a.inner;
  const auto one = [&](C v, int64_t i) {
    const C before = ValueOf(sum);
    sum.Add(v);
    if (writes) Put(a.exclusive ? before : ValueOf(sum), y[i * y_step]);
  };
  int64_t i = 0;
  constexpr int U = 8;
#pragma unroll 1
  for (; i + U <= n; i += U) {
    T e[U];
#pragma unroll
    for (int u = 0; u < U; ++u) e[u] = x[(i + u) * x_step];
#pragma unroll
    for (int u = 0; u < U; ++u) one(Get<C>(e[u]), i + u);
  }
#pragma unroll 1
  for (; i < n; ++i) one(Get<C>(x[i * x_step]), i);
}

template <class C>
__device__ __forceinline__ void Lines(const ScanArgs& a) {
  using S = Total<C>;
  for (int64_t item = ThreadIndex(); item < a.lines * a.chunks; item += ThreadCount()) {
    const int64_t chunk = a.chunks > 1 ? item / a.lines : 0, line = item - chunk * a.lines;
    const int64_t p0 = chunk * a.chunk, p1 = p0 + a.chunk < a.extent ? p0 + a.chunk : a.extent;
    S sum = {};
    if (a.mode == kScanApply) sum = At<const S>(a.sums)[item];
    WithStorage<C>(a.x.layout.dtype, [&](auto tag) { Line<typename decltype(tag)::Type, C>(a, line, p0, p1, sum); });
    if (a.mode == kScanSums) At<S>(a.sums)[item] = sum;
  }
}

/// The sums of chunks become the sums of all chunks before: a warp for each line.
template <class C>
__device__ __forceinline__ void Join(const ScanArgs& a) {
  using S = Total<C>;
  S* sums = At<S>(a.sums);
  for (int64_t line = ThreadIndex() / 32; line < a.lines; line += ThreadCount() / 32) {
    S carry = {};
    for (int64_t c0 = 0; c0 < a.chunks; c0 += 32) {
      const int64_t c = c0 + threadIdx.x % 32;
      S own = {}, all;
      if (c < a.chunks) own = sums[c * a.lines + line];
      S before = carry;
      before.Merge(WarpBefore(own, &all));
      if (c < a.chunks) sums[c * a.lines + line] = before;
      carry.Merge(all);
    }
  }
}

}  // namespace

#define TSR_SCAN(name, C)                                                                               \
  extern "C" __global__ void __launch_bounds__(256) scan_rows_##name(const __grid_constant__ ScanArgs a) {  \
    Rows<C>(a);                                                                                         \
  }                                                                                                     \
  extern "C" __global__ void __launch_bounds__(256) scan_lines_##name(const __grid_constant__ ScanArgs a) { \
    Lines<C>(a);                                                                                        \
  }                                                                                                     \
  extern "C" __global__ void __launch_bounds__(256) scan_join_##name(const __grid_constant__ ScanArgs a) {  \
    Join<C>(a);                                                                                         \
  }
TSR_SCAN(f64, double)
TSR_SCAN(f32, float)
TSR_SCAN(int, int64_t)

}  // namespace tessera::cuda
