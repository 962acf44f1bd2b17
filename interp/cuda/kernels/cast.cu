// cast, copy, and the conversions before other ops: elements of any layout brought to another dtype, or moved as they
// are.
//
//   cast_<dtype>   to that dtype; the dtype of the operand is known at run time
//   copy_<bytes>   elements of that size, any strides; of 16 bytes, for runs of smaller ones
//   copy_tiles_<bytes>  the same for an operand whose memory runs along another dim than the result's: through tiles in
//                       shared memory, so that both sides are read and written in whole lines
#include <type_traits>

#include "interp/cuda/copy_args.h"
#include "interp/cuda/ew_args.h"
#include "interp/cuda/kernels/device.cuh"

namespace tessera::cuda {

/// Element i of the operand as a D, through another dtype where that matters (a number rounded to f16 before it is an
/// f32).
template <class D>
__device__ __forceinline__ D Converted(const void* p, int64_t i, int dtype) {
  D y;
  switch (static_cast<DType>(dtype)) {
#define TSR_CASE(name, S) \
  case DType::name: Store(Load(static_cast<const S*>(p)[i]), y); break;
    TSR_FOR_EACH_STORAGE(TSR_CASE)
#undef TSR_CASE
  }
  return y;
}

/// Four at a time, of which a thread has one group after the other.
template <class S, class D>
__device__ __forceinline__ void CastPacks(const void* in, D* out, int64_t size) {
  const auto* from = static_cast<const Pack<S, 4>*>(in);
  auto* to = reinterpret_cast<Pack<D, 4>*>(out);
  for (int64_t i = ThreadIndex(); i < size / 4; i += ThreadCount()) {
    const Pack<S, 4> x = from[i];
    Pack<D, 4> y;
#pragma unroll
    for (int k = 0; k < 4; ++k) Store(Load(x.at[k]), y.at[k]);
    to[i] = y;
  }
}

template <class D>
__device__ __forceinline__ void CastBody(const CastArgs& a) {
  D* const out = At<D>(a.out);
  const void* const in = a.kind == OperandKind::immediate ? static_cast<const void*>(&a.in) : At<const void>(a.in);
  constexpr bool kByte = std::is_same_v<D, E4M3> || std::is_same_v<D, E5M2>;
  constexpr bool kOften = std::is_same_v<D, float> || std::is_same_v<D, Half> || std::is_same_v<D, BHalf> || kByte;
  if constexpr (kOften) {
    const bool is_run = a.kind == OperandKind::elements && a.through < 0 && a.size % 4 == 0 && a.from.rank <= 1 &&
                        (a.from.rank == 0 || a.from.strides[0] == 1);
    if (is_run && (reinterpret_cast<uint64_t>(in) | reinterpret_cast<uint64_t>(out)) % 16 == 0) {
      switch (static_cast<DType>(a.from.dtype)) {
        case DType::f32: return CastPacks<float>(in, out, a.size);
        case DType::f16: return CastPacks<Half>(in, out, a.size);
        case DType::bf16: return CastPacks<BHalf>(in, out, a.size);
        case DType::f8e4m3: return CastPacks<E4M3>(in, out, a.size);
        case DType::f8e5m2: return CastPacks<E5M2>(in, out, a.size);
        default: break;
      }
    }
  }
  for (int64_t i = ThreadIndex(); i < a.size; i += ThreadCount()) {
    const int64_t at = a.kind == OperandKind::elements ? OffsetOf(a.from, i) : 0;
    if (a.through < 0) {
      out[i] = Converted<D>(in, at, a.from.dtype);
      continue;
    }
    // Only narrow floats are rounded to on the way.
    uint16_t half;
    uint8_t byte;
    switch (static_cast<DType>(a.through)) {
      case DType::f16:
        half = Converted<Half>(in, at, a.from.dtype).bits;
        out[i] = Converted<D>(&half, 0, a.through);
        break;
      case DType::bf16:
        half = Converted<BHalf>(in, at, a.from.dtype).bits;
        out[i] = Converted<D>(&half, 0, a.through);
        break;
      case DType::f8e4m3:
        byte = Converted<E4M3>(in, at, a.from.dtype).bits;
        out[i] = Converted<D>(&byte, 0, a.through);
        break;
      default:
        byte = Converted<E5M2>(in, at, a.from.dtype).bits;
        out[i] = Converted<D>(&byte, 0, a.through);
        break;
    }
  }
}
#define TSR_CAST(name, D)                                                                              \
  extern "C" __global__ void __launch_bounds__(256) cast_##name(const __grid_constant__ CastArgs a) { \
    CastBody<D>(a);                                                                                    \
  }
TSR_FOR_EACH_STORAGE(TSR_CAST)

template <class T>
__device__ __forceinline__ void CopyBody(const CopyArgs& a) {
  T* const out = At<T>(a.out);
  const T* const in = At<const T>(a.in);
  for (int64_t i = ThreadIndex(); i < a.size; i += ThreadCount()) out[i] = in[OffsetOf(a.from, i)];
}

/// Batches of matrices [rows, cols] whose elements are row_stride and 1 apart in the operand's columns: element (r, c)
/// is at batch + r * row + c * col. A block moves tiles of 32 x 32.
template <class T>
__device__ __forceinline__ void CopyTilesBody(const CopyTilesArgs& a) {
  __shared__ T tile[32][33];
  T* const out = At<T>(a.out);
  const T* const in = At<const T>(a.in);
  const int64_t tiles_r = (a.rows + 31) / 32, tiles_c = (a.cols + 31) / 32;
  const int64_t tiles = a.batches * tiles_r * tiles_c;
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t tc = t % tiles_c, tr = t / tiles_c % tiles_r, batch = t / tiles_c / tiles_r;
    const T* const from = in + OffsetOf(a.batch, batch);
    __syncthreads();
    for (int i = y; i < 32; i += 8) {
      const int64_t r = tr * 32 + x, c = tc * 32 + i;
      if (r < a.rows && c < a.cols) tile[i][x] = from[r * a.row + c * a.col];
    }
    __syncthreads();
    for (int i = y; i < 32; i += 8) {
      const int64_t r = tr * 32 + i, c = tc * 32 + x;
      if (r < a.rows && c < a.cols) out[(batch * a.rows + r) * a.cols + c] = tile[x][i];
    }
  }
}

/// The same by words of four bytes: a tile has 32 of them each way, and a thread turns as many as a word has elements.
template <class T>
__device__ __forceinline__ void CopyTilesByWords(const CopyTilesArgs& a) {
  constexpr int V = 4 / static_cast<int>(sizeof(T)), kSide = 32 * V;
  using Word = Pack<T, V>;
  __shared__ Word tile[kSide][33];
  const int64_t tiles_r = (a.rows + kSide - 1) / kSide, tiles_c = (a.cols + kSide - 1) / kSide;
  const int64_t tiles = a.batches * tiles_r * tiles_c;
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t tc = t % tiles_c, tr = t / tiles_c % tiles_r, batch = t / tiles_c / tiles_r;
    const int64_t r0 = tr * kSide, c0 = tc * kSide;
    const T* const from = At<const T>(a.in) + OffsetOf(a.batch, batch) + r0 + x * V;
    T* const to = At<T>(a.out) + (batch * a.rows + r0) * a.cols + c0 + x * V;
    __syncthreads();
    if (r0 + x * V < a.rows) {
#pragma unroll
      for (int i = y; i < kSide; i += 8)
        if (c0 + i < a.cols) tile[i][x] = *reinterpret_cast<const Word*>(from + (c0 + i) * a.col);
    }
    __syncthreads();
    if (c0 + x * V >= a.cols) continue;
#pragma unroll
    for (int i = y; i < 32; i += 8) {
      Word in[V];
#pragma unroll
      for (int v = 0; v < V; ++v) in[v] = tile[x * V + v][i];
#pragma unroll
      for (int v = 0; v < V; ++v) {
        Word out;
#pragma unroll
        for (int k = 0; k < V; ++k) out.at[k] = in[k].at[v];
        if (r0 + i * V + v < a.rows) *reinterpret_cast<Word*>(to + (i * V + v) * a.cols) = out;
      }
    }
  }
}
#define TSR_COPY(bytes, T)                                                                                      \
  extern "C" __global__ void __launch_bounds__(256) copy_##bytes(const __grid_constant__ CopyArgs a) {         \
    CopyBody<T>(a);                                                                                             \
  }                                                                                                             \
  extern "C" __global__ void __launch_bounds__(256) copy_tiles_##bytes(const __grid_constant__ CopyTilesArgs a) { \
    if constexpr (sizeof(T) <= 4) {                                                                             \
      if (a.in_words) return CopyTilesByWords<T>(a);                                                            \
    }                                                                                                           \
    CopyTilesBody<T>(a);                                                                                        \
  }
TSR_COPY(1, uint8_t)
TSR_COPY(2, uint16_t)
TSR_COPY(4, uint32_t)
TSR_COPY(8, uint64_t)
extern "C" __global__ void __launch_bounds__(256) copy_16(const __grid_constant__ CopyArgs a) {
  CopyBody<Pack<uint64_t, 2>>(a);
}

}  // namespace tessera::cuda
