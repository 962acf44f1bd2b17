// Places whole operands in a result. All of these write 16 bytes at a time; they read as many where addresses allow it.
#include "interp/cuda/join_args.h"
#include "interp/cuda/kernels/moves.cuh"

namespace tessera::cuda {
namespace {

__device__ __forceinline__ const JoinPart& PartOf(const JoinArgs& a, int64_t unit) {
  int k = 0;
  while (k + 1 < a.parts && unit >= a.part[k + 1].first) ++k;
  return a.part[k];
}

template <class T>
__device__ __forceinline__ void JoinElements(const JoinArgs& a) {
  T* out = At<T>(a.out);
  for (int64_t i = ThreadIndex(); i < a.count; i += ThreadCount()) {
    const JoinPart& part = PartOf(a, i);
    const int64_t at = i - part.first;
    const Parts p = Divide(at, part.row);
    out[p.quotient * a.pitch + part.place + p.rest] = At<const T>(part.x.data)[OffsetOf(part.x.layout, at)];
  }
}

template <class T>
__device__ __forceinline__ void PadUnits(const PadArgs& a) {
  constexpr int n = kUnit<T>;
  const T* x = At<const T>(a.x);
  T* out = At<T>(a.out);
  const T value = static_cast<T>(a.value);
  const int last = a.rank - 1;
  const int64_t cols = a.dims[last], x_cols = a.x_dims[last], stride = a.x_strides[last];
  for (int64_t first = ThreadIndex() * n; first < a.count; first += ThreadCount() * n) {
    Pack<T, n> r;
    int64_t done = 0;
    // Row by row: nearly always one.
    while (done < n) {
      const Parts p = Divide(first + done, cols);
      int64_t rest = p.quotient, offset = 0;
      bool inside = true;
      for (int d = last - 1; d >= 0; --d) {
        const Parts q = Divide(rest, a.dims[d]);
        const int64_t at = q.rest - a.low[d];
        inside = inside && at >= 0 && at < a.x_dims[d];
        offset += at * a.x_strides[d];
        rest = q.quotient;
      }
      const int64_t at = p.rest - a.low[last];
      if (done == 0 && p.rest + n <= cols && inside && at >= 0 && at + n <= x_cols) {
        r = LoadPack<T, n>(x + offset + at * stride, stride);
        break;
      }
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const int64_t column = at + i - done;  // in x
        if (i < done || p.rest + i - done >= cols) continue;
        r.at[i] = inside && column >= 0 && column < x_cols ? x[offset + column * stride] : value;
      }
      done += cols - p.rest;
      if (first + done >= a.count) break;
    }
    StorePack(out, first, a.count, r);
  }
}

template <class T>
__device__ __forceinline__ void BandUnits(const BandArgs& a) {
  constexpr int n = kUnit<T>;
  const T* x = At<const T>(a.x);
  T* out = At<T>(a.out);
  const int64_t stride = a.layout.strides[a.layout.rank - 1];
  for (int64_t first = ThreadIndex() * n; first < a.count; first += ThreadCount() * n) {
    const Parts p = Divide(first, a.cols);
    int64_t row = Divide(p.quotient, a.rows).rest, column = p.rest;
    Pack<T, n> r;
    if (column + n <= a.cols) {
      const int64_t diagonal = column - row;
      if (diagonal >= a.high || diagonal + n <= a.low) {
#pragma unroll
        for (int i = 0; i < n; ++i) r.at[i] = 0;
      } else {
        r = LoadPack<T, n>(x + OffsetOf(a.layout, first), stride);
#pragma unroll
        for (int i = 0; i < n; ++i)
          if (diagonal + i < a.low || diagonal + i >= a.high) r.at[i] = 0;
      }
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const int64_t diagonal = column - row;
        const bool kept = diagonal >= a.low && diagonal < a.high && first + i < a.count;
        r.at[i] = kept ? x[OffsetOf(a.layout, first + i)] : T{0};
        if (++column == a.cols) {
          column = 0;
          if (++row == a.rows) row = 0;
        }
      }
    }
    StorePack(out, first, a.count, r);
  }
}

}  // namespace

#define TSR_KERNELS(bytes, T)                                                                         \
  extern "C" __global__ void join_##bytes(const __grid_constant__ JoinArgs a) { JoinElements<T>(a); } \
  extern "C" __global__ void pad_##bytes(const __grid_constant__ PadArgs a) { PadUnits<T>(a); }       \
  extern "C" __global__ void band_##bytes(const __grid_constant__ BandArgs a) { BandUnits<T>(a); }
TSR_KERNELS(1, uint8_t)
TSR_KERNELS(2, uint16_t)
TSR_KERNELS(4, uint32_t)
TSR_KERNELS(8, uint64_t)
#undef TSR_KERNELS

extern "C" __global__ void join_16(const __grid_constant__ JoinArgs a) {
  char* out = At<char>(a.out);
  for (int64_t i = ThreadIndex(); i < a.count; i += ThreadCount()) {
    const JoinPart& part = PartOf(a, i);
    const int64_t at = i - part.first;
    const Parts p = Divide(at, part.row);
    CopyUnit(out + (p.quotient * a.pitch + part.place + p.rest) * 16,
             At<const char>(part.x.data) + OffsetOf(part.x.layout, at) * 16, a.size);
  }
}

}  // namespace tessera::cuda
