// layer_norm and rms_norm of rows, and batch_norm with given statistics.
#include "interp/cuda/kernels/row_regs.cuh"
#include "interp/cuda/norm_args.h"

namespace tessera::cuda {
namespace {

template <class C>
__device__ __forceinline__ double GroupSum(C x, int lanes, Total<C>* shared) {
  Total<C> sum = {};
  sum.Add(x);
  return GroupMerge(sum, lanes, shared, Total<C>{}, [](Total<C>& a, const Total<C>& b) { a.Merge(b); }).Value();
}

template <class C>
__device__ __forceinline__ void Rows(const NormArgs& a) {
  constexpr int n = kHeld<C>;
  __shared__ Total<C> shared[32];
  const int lanes = a.lanes, groups = blockDim.x / lanes, t = threadIdx.x % lanes;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * groups + threadIdx.x / lanes;
  const bool valid = item < a.n_rows * a.chunks;
  int64_t row = item, begin = 0;
  int count = static_cast<int>(a.chunks > 1 ? a.chunk : a.n);
  if (a.chunks > 1) {
    row = item / a.chunks;
    begin = (item - row * a.chunks) * a.chunk;
    if (a.n - begin < count) count = static_cast<int>(a.n - begin);
  }
  if (!valid) count = 0, begin = 0;
  const int64_t at = valid ? OffsetOf(a.rows, row) + begin : 0, to = valid ? row * a.n + begin : 0;

  C v[n];
  bool packs = false;
  uint32_t mask = 0;
  WithStorage<C>(a.rows.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* x = At<const T>(a.x) + at;
    packs = PacksFit(x, count) && PacksFit<T>(At<T>(a.y) + to, count);
    if (a.weight) packs = packs && PacksFit(At<const T>(a.weight) + begin, count);
    if (a.bias) packs = packs && PacksFit(At<const T>(a.bias) + begin, count);
    mask = RowMask<T, n>(count, t, lanes, packs);
    LoadRow(x, count, t, lanes, packs, C(0), v);
  });

  C mean = 0, scale = 0;
  if (a.mode == kNormApply) {
    if (valid) {
      const NormWhole whole = At<const NormWhole>(a.whole)[row];
      mean = static_cast<C>(whole.mean);
      scale = static_cast<C>(whole.scale);
    }
  } else {
    double sum = 0;
    if (!a.rms) {
      sum = GroupSum(ThreadSum(v, [](C x, int) { return x; }), lanes, shared);
      mean = static_cast<C>(sum / count);
    }
    const double squares = GroupSum(ThreadSum(v,
                                              [&](C x, int k) {
                                                const C d = mask >> k & 1 ? x - mean : C(0);
                                                return d * d;
                                              }),
                                    lanes, shared);
    if (a.mode == kNormParts) {
      if (valid && t == 0) At<NormPart>(a.parts)[item] = {sum, static_cast<double>(mean), squares};
      return;
    }
    scale = static_cast<C>(1 / Sqrt(squares / count + a.eps));
  }
#pragma unroll
  for (int k = 0; k < n; ++k) v[k] = (v[k] - mean) * scale;
  WithStorage<C>(a.rows.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    C w[n];
    if (a.weight) {
      LoadRow(At<const T>(a.weight) + begin, count, t, lanes, packs, C(0), w);
#pragma unroll
      for (int k = 0; k < n; ++k) v[k] = v[k] * w[k];
    }
    if (a.bias) {
      LoadRow(At<const T>(a.bias) + begin, count, t, lanes, packs, C(0), w);
#pragma unroll
      for (int k = 0; k < n; ++k) v[k] = v[k] + w[k];
    }
    StoreRow(At<T>(a.y) + to, count, t, lanes, packs, v);
  });
}

/// A block for each row that was cut. Squares about the means of chunks become squares about that of the row.
template <class C>
__device__ __forceinline__ void Join(const NormArgs& a) {
  __shared__ Total<double> shared[32];
  for (int64_t row = blockIdx.x; row < a.n_rows; row += gridDim.x) {
    const NormPart* parts = At<const NormPart>(a.parts) + row * a.chunks;
    const double n = static_cast<double>(a.n);
    const auto merge = [](Total<double>& x, const Total<double>& y) { x.Merge(y); };
    Total<double> sum = {}, squares = {};
    for (int64_t c = threadIdx.x; c < a.chunks; c += blockDim.x) sum.Add(parts[c].sum);
    sum = GroupMerge(sum, blockDim.x, shared, Total<double>{}, merge);
    const double mean = a.rms ? 0 : static_cast<double>(static_cast<C>(sum.Value() / n));
    for (int64_t c = threadIdx.x; c < a.chunks; c += blockDim.x) {
      const NormPart part = parts[c];
      squares.Add(part.squares);
      if (!a.rms) {
        const int64_t left = a.n - c * a.chunk;
        const double count = static_cast<double>(left < a.chunk ? left : a.chunk);
        const double d = part.mean - mean;
        squares.Add(2 * d * (part.sum - count * part.mean));
        squares.Add(count * d * d);
      }
    }
    squares = GroupMerge(squares, blockDim.x, shared, Total<double>{}, merge);
    if (threadIdx.x == 0) At<NormWhole>(a.whole)[row] = {mean, 1 / Sqrt(squares.Value() / n + a.eps)};
  }
}

template <class C>
__device__ __forceinline__ C ChannelOf(const Operand& v, int64_t c) {
  return GetAt<C>(v.data, v.layout.dtype, c * v.layout.strides[0]);
}

/// Mean, scale and shift of each channel.
template <class C>
__device__ __forceinline__ void Table(const BatchNormArgs& a) {
  C* table = At<C>(a.table);
  for (int64_t c = ThreadIndex(); c < a.channels; c += ThreadCount()) {
    const double w = a.has_weight ? static_cast<double>(ChannelOf<C>(a.weight, c)) : 1.0;
    table[c] = ChannelOf<C>(a.mean, c);
    table[a.channels + c] = static_cast<C>(w / Sqrt(static_cast<double>(ChannelOf<C>(a.var, c)) + a.eps));
    table[2 * a.channels + c] = a.has_bias ? ChannelOf<C>(a.bias, c) : C(0);
  }
}

__device__ __forceinline__ int64_t ChannelAt(const BatchNormArgs& a, int64_t i) {
  if (a.size >> 31 == 0) {
    const uint32_t plane = static_cast<uint32_t>(i) / static_cast<uint32_t>(a.inner);
    return plane % static_cast<uint32_t>(a.channels);
  }
  return i / a.inner % a.channels;
}

template <class C>
__device__ __forceinline__ void Apply(const BatchNormArgs& a) {
  const C* table = At<const C>(a.table);
  WithStorage<C>(a.x.layout.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int V = kPack<T>;
    const T* x = At<const T>(a.x.data);
    T* y = At<T>(a.y);
    const bool dense = a.x.layout.rank == 0 || (a.x.layout.rank == 1 && a.x.layout.strides[0] == 1);
    if (dense && a.inner % V == 0 && Aligned<T, V>(x) && Aligned<T, V>(y)) {
      for (int64_t i = ThreadIndex() * V; i < a.size; i += ThreadCount() * V) {
        const int64_t c = ChannelAt(a, i);
        const C mean = table[c], scale = table[a.channels + c], shift = table[2 * a.channels + c];
        Pack<T, V> p = *reinterpret_cast<const Pack<T, V>*>(x + i);
#pragma unroll
        for (int k = 0; k < V; ++k) Put((Get<C>(p.at[k]) - mean) * scale + shift, p.at[k]);
        *reinterpret_cast<Pack<T, V>*>(y + i) = p;
      }
      return;
    }
#pragma unroll 1
    for (int64_t i = ThreadIndex(); i < a.size; i += ThreadCount()) {
      const int64_t c = ChannelAt(a, i);
      const C v = Get<C>(x[OffsetOf(a.x.layout, i)]);
      Put((v - table[c]) * table[a.channels + c] + table[2 * a.channels + c], y[i]);
    }
  });
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kNormThreads, 1) norm_rows_f32(const __grid_constant__ NormArgs a) {
  Rows<float>(a);
}
extern "C" __global__ void __launch_bounds__(kNormThreads, 1) norm_rows_f64(const __grid_constant__ NormArgs a) {
  Rows<double>(a);
}
extern "C" __global__ void __launch_bounds__(256) norm_join_f32(const __grid_constant__ NormArgs a) { Join<float>(a); }
extern "C" __global__ void __launch_bounds__(256) norm_join_f64(const __grid_constant__ NormArgs a) { Join<double>(a); }
extern "C" __global__ void __launch_bounds__(256) batch_norm_table_f32(const __grid_constant__ BatchNormArgs a) {
  Table<float>(a);
}
extern "C" __global__ void __launch_bounds__(256) batch_norm_table_f64(const __grid_constant__ BatchNormArgs a) {
  Table<double>(a);
}
extern "C" __global__ void __launch_bounds__(256) batch_norm_apply_f32(const __grid_constant__ BatchNormArgs a) {
  Apply<float>(a);
}
extern "C" __global__ void __launch_bounds__(256) batch_norm_apply_f64(const __grid_constant__ BatchNormArgs a) {
  Apply<double>(a);
}

}  // namespace tessera::cuda
