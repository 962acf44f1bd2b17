// Softmax and log_softmax. The largest element is subtracted first, so nothing overflows. As the formula has it, an
// infinite largest element (a row of -inf only, or any +inf) makes the row NaN, and so does a NaN.
#include "interp/cuda/kernels/row_regs.cuh"
#include "interp/cuda/softmax_args.h"

namespace tessera::cuda {
namespace {

template <class C>
__device__ __forceinline__ void Rows(const SoftmaxArgs& a) {
  constexpr int n = kHeld<C>;
  __shared__ C shared_max[32];
  __shared__ Total<C> shared_sum[32];
  const int lanes = a.lanes, groups = blockDim.x / lanes, t = threadIdx.x % lanes;
  const int64_t items = a.n_rows * a.chunks;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * groups + threadIdx.x / lanes;
  const bool valid = item < items;
  int64_t row = item, begin = 0;
  int count = static_cast<int>(a.chunks > 1 ? a.chunk : a.n);
  if (a.chunks > 1) {
    row = item / a.chunks;
    begin = (item - row * a.chunks) * a.chunk;
    if (a.n - begin < count) count = static_cast<int>(a.n - begin);
  }
  if (!valid) count = 0;
  const int64_t at = valid ? OffsetOf(a.rows, row) + begin : 0, to = valid ? row * a.n + begin : 0;

  C v[n];
  bool packs = false;
  WithStorage<C>(a.rows.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* x = At<const T>(a.x) + at;
    packs = PacksFit(x, count) && PacksFit<T>(At<T>(a.y) + to, count);
    LoadRow(x, count, t, lanes, packs, -Inf(C(0)), v);
  });

  C max = 0, factor = 0;
  if (a.mode == kSoftmaxApply) {
    if (valid) {
      const SoftmaxPart whole = At<const SoftmaxPart>(a.whole)[row];
      max = static_cast<C>(whole.max);
      factor = static_cast<C>(whole.sum);
    }
#pragma unroll
    for (int k = 0; k < n; ++k) v[k] = a.log ? v[k] - max : Exp(v[k] - max);
  } else {
    max = v[0];
#pragma unroll
    for (int k = 1; k < n; ++k) max = Larger(max, v[k]);
    max = GroupMerge(max, lanes, shared_max, -Inf(C(0)), [](C& x, C y) { x = Larger(x, y); });
    const bool log = a.log;
    Total<C> sum = {};
    sum.Add(ThreadSum(v, [&](C x, int k) {
      const C e = Exp(x - max);
      v[k] = log ? x - max : e;
      return e;
    }));
    sum = GroupMerge(sum, lanes, shared_sum, Total<C>{}, [](Total<C>& x, const Total<C>& y) { x.Merge(y); });
    if (a.mode == kSoftmaxParts) {
      if (valid && t == 0) At<SoftmaxPart>(a.parts)[item] = {static_cast<double>(max), sum.Value()};
      return;
    }
    factor = static_cast<C>(log ? Log(sum.Value()) : 1 / sum.Value());
  }
#pragma unroll
  for (int k = 0; k < n; ++k) v[k] = a.log ? v[k] - factor : v[k] * factor;
  WithStorage<C>(a.rows.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    StoreRow(At<T>(a.y) + to, count, t, lanes, packs, v);
  });
}

/// A block for each row that was cut.
__device__ __forceinline__ void Join(const SoftmaxArgs& a) {
  __shared__ double shared[32];
  for (int64_t row = blockIdx.x; row < a.n_rows; row += gridDim.x) {
    const SoftmaxPart* parts = At<const SoftmaxPart>(a.parts) + row * a.chunks;
    double max = -Inf(0.0), sum = 0;
    for (int64_t c = threadIdx.x; c < a.chunks; c += blockDim.x) max = Larger(max, parts[c].max);
    max = GroupMerge(max, blockDim.x, shared, -Inf(0.0), [](double& x, double y) { x = Larger(x, y); });
    for (int64_t c = threadIdx.x; c < a.chunks; c += blockDim.x) {
      const SoftmaxPart part = parts[c];
      // A chunk of -inf only adds nothing, unless the row is like that.
      if (part.max != -Inf(0.0)) sum += part.sum * Exp(part.max - max);
    }
    sum = GroupMerge(sum, blockDim.x, shared, 0.0, [](double& x, double y) { x += y; });
    if (max - max != 0) sum = NaN(0.0);
    if (threadIdx.x == 0) At<SoftmaxPart>(a.whole)[row] = {max, a.log ? Log(sum) : 1 / sum};
  }
}

constexpr int kDown = 8;  // threads of a column

/// 32 columns a block, each by kDown threads, in three passes.
template <class T, class C>
__device__ __forceinline__ void Cols(const SoftmaxArgs& a, C (&shared_max)[kDown][32],
                                     Total<C> (&shared_sum)[kDown][32]) {
  const int lane = threadIdx.x % 32, y = threadIdx.x / 32;
  for (int64_t tile = blockIdx.x; tile * 32 < a.n_rows; tile += gridDim.x) {
    const int64_t col = tile * 32 + lane;
    const bool valid = col < a.n_rows;
    const int64_t n = valid ? a.n : 0;
    const T* x = At<const T>(a.x) + (valid ? OffsetOf(a.rows, col) : 0);
    C max = -Inf(C(0));
#pragma unroll 4
    for (int64_t i = y; i < n; i += kDown) max = Larger(max, Get<C>(x[i * a.step]));
    __syncthreads();  // the tile before is through
    shared_max[y][lane] = max;
    __syncthreads();
    max = shared_max[0][lane];
#pragma unroll
    for (int k = 1; k < kDown; ++k) max = Larger(max, shared_max[k][lane]);

    Total<C> sum = {};
#pragma unroll 2
    for (int64_t i = y; i < n; i += kDown) sum.Add(Exp(Get<C>(x[i * a.step]) - max));
    shared_sum[y][lane] = sum;
    __syncthreads();
    sum = shared_sum[0][lane];
#pragma unroll
    for (int k = 1; k < kDown; ++k) sum.Merge(shared_sum[k][lane]);
    const C factor = static_cast<C>(a.log ? Log(sum.Value()) : 1 / sum.Value());

    T* to = At<T>(a.y);
    if (valid) to += col / a.inner * a.n * a.inner + col % a.inner;
#pragma unroll 2
    for (int64_t i = y; i < n; i += kDown) {
      const C d = Get<C>(x[i * a.step]) - max;
      Put(a.log ? d - factor : Exp(d) * factor, to[i * a.inner]);
    }
  }
}

template <class C>
__device__ __forceinline__ void AllCols(const SoftmaxArgs& a) {
  __shared__ C shared_max[kDown][32];
  __shared__ Total<C> shared_sum[kDown][32];
  WithStorage<C>(a.rows.dtype, [&](auto tag) { Cols<typename decltype(tag)::Type>(a, shared_max, shared_sum); });
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kRowFloatThreads, 1)
    softmax_rows_f32(const __grid_constant__ SoftmaxArgs a) {
  Rows<float>(a);
}
extern "C" __global__ void __launch_bounds__(kRowDoubleThreads, 1)
    softmax_rows_f64(const __grid_constant__ SoftmaxArgs a) {
  Rows<double>(a);
}
extern "C" __global__ void __launch_bounds__(256) softmax_join(const __grid_constant__ SoftmaxArgs a) { Join(a); }
extern "C" __global__ void __launch_bounds__(256) softmax_cols_f32(const __grid_constant__ SoftmaxArgs a) {
  AllCols<float>(a);
}
extern "C" __global__ void __launch_bounds__(256) softmax_cols_f64(const __grid_constant__ SoftmaxArgs a) {
  AllCols<double>(a);
}

}  // namespace tessera::cuda
