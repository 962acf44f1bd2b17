// max_pool and avg_pool: a thread for each output, or a warp where windows are large. Taps are added in order, so that
// an average by one thread has the bits of the cpu's.
#include "interp/cuda/kernels/rows.cuh"
#include "interp/cuda/window_args.h"

namespace tessera::cuda {
namespace {

/// The taps [first, last) of output position o that read elements and not padding.
__device__ __forceinline__ void TapsAt(const SlideDim& d, int64_t o, int64_t* first, int64_t* last) {
  const int64_t start = o * d.stride - d.low;
  *first = start >= 0 ? 0 : (-start + d.dilation - 1) / d.dilation;
  *last = start >= d.in ? 0 : (d.in - start + d.dilation - 1) / d.dilation;
  if (*last > d.window) *last = d.window;
  if (*first > *last) *first = *last;
}

template <class C>
__device__ __forceinline__ C Lowest() {
  if constexpr (std::is_same_v<C, int64_t>)
    return INT64_MIN;
  else
    return -Inf(C(0));
}

/// What the window of one output reads: taps of three dims, `step` elements apart, from an element on.
struct Window {
  int64_t from, n[3], step[3];
};

__device__ __forceinline__ Window WindowOf(const Slide& s, int64_t i) {
  Window w;
  w.from = 0;
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    const SlideDim& dim = s.dim[d];
    int64_t q;
    if (i >> 31 == 0)
      q = static_cast<uint32_t>(i) / static_cast<uint32_t>(dim.out);
    else
      q = i / dim.out;
    const int64_t o = i - q * dim.out;
    i = q;
    int64_t first, last;
    TapsAt(dim, o, &first, &last);
    w.n[d] = last - first;
    w.step[d] = dim.dilation * dim.x_stride;
    w.from += (o * dim.stride + first * dim.dilation - dim.low) * dim.x_stride;
  }
  const int64_t image = i / s.channels;
  w.from += image * s.x_batch + (i - image * s.channels) * s.x_channel;
  return w;
}

template <class T, class C, bool kAverage>
__device__ __forceinline__ C Taps(const T* x, const Window& w, int lanes, int t) {
  C acc = kAverage ? C(0) : Lowest<C>();
  const auto add = [&](T v) {
    if constexpr (kAverage)
      acc = acc + Get<C>(v);
    else
      acc = Larger(acc, Get<C>(v));
  };
  if (lanes == 1) {
#pragma unroll 1
    for (int64_t z = 0; z < w.n[0]; ++z) {
#pragma unroll 1
      for (int64_t y = 0; y < w.n[1]; ++y) {
        const T* row = x + z * w.step[0] + y * w.step[1];
#pragma unroll 4
        for (int64_t k = 0; k < w.n[2]; ++k) add(row[k * w.step[2]]);
      }
    }
    return acc;
  }
  // Rows of the window over the warp in turn, or, where they are short, some rows at a time.
  const int width = w.n[2] >= 32 ? 32 : w.n[2] >= 8 ? 8 : 1;
#pragma unroll 1
  for (int64_t zy = t / width; zy < w.n[0] * w.n[1]; zy += 32 / width) {
    const int64_t z = zy / w.n[1];
    const T* row = x + z * w.step[0] + (zy - z * w.n[1]) * w.step[1];
#pragma unroll 1
    for (int64_t k = t % width; k < w.n[2]; k += width) add(row[k * w.step[2]]);
  }
  __syncwarp();
  return WarpReduce(acc, [](C u, C v) {
    if constexpr (kAverage)
      return u + v;
    else
      return Larger(u, v);
  });
}

template <class C, bool kAverage>
__device__ __forceinline__ void Pools(const PoolArgs& a) {
  const Slide& s = a.slide;
  const int64_t outputs = s.batch * s.channels * s.dim[0].out * s.dim[1].out * s.dim[2].out;
  const int t = a.lanes == 1 ? 0 : threadIdx.x % 32;
  const int64_t begin = a.lanes == 1 ? ThreadIndex() : ThreadIndex() / 32;
  const int64_t step = a.lanes == 1 ? ThreadCount() : ThreadCount() / 32;
#pragma unroll 1
  for (int64_t i = begin; i < outputs; i += step) {
    const Window w = WindowOf(s, i);
    WithStorage<C>(a.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!std::is_same_v<T, BoolByte>) {
        C acc = Taps<T, C, kAverage>(At<const T>(a.x) + w.from, w, a.lanes, t);
        if constexpr (kAverage) {
          const int64_t all = s.dim[0].window * s.dim[1].window * s.dim[2].window;
          acc = acc / static_cast<C>(a.count_padding ? all : w.n[0] * w.n[1] * w.n[2]);
        }
        if (t == 0) Put(acc, At<T>(a.y)[i]);
      }
    });
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) max_pool_f64(const __grid_constant__ PoolArgs a) {
  Pools<double, false>(a);
}
extern "C" __global__ void __launch_bounds__(256) max_pool_f32(const __grid_constant__ PoolArgs a) {
  Pools<float, false>(a);
}
extern "C" __global__ void __launch_bounds__(256) max_pool_int(const __grid_constant__ PoolArgs a) {
  Pools<int64_t, false>(a);
}
extern "C" __global__ void __launch_bounds__(256) avg_pool_f64(const __grid_constant__ PoolArgs a) {
  Pools<double, true>(a);
}
extern "C" __global__ void __launch_bounds__(256) avg_pool_f32(const __grid_constant__ PoolArgs a) {
  Pools<float, true>(a);
}

}  // namespace tessera::cuda
