// attention of few queries, as in decoding (f16 and bf16, no mask, up to 128 columns, sm_80 and newer): all there is to
// do is to read the keys and values once, as fast as memory gives them.
//
// A warp has 16 rows: queries of all heads that share their keys. It goes through a stretch of the keys, 16 at a time,
// and leaves the weighted sum of the values it saw, the largest score and the sum of weights. A second kernel puts
// stretches together. Where there is only one, the first writes the result.
//
// Keys and values go from memory to registers and into mma.m16n8k16 as they are, 16 bytes for each access. The tensor
// cores do not care which element of a sum stands where, as long as both factors agree, nor which columns a result has:
//
//   scores   thread t of four has columns 32 j + 8 t to + 7 of a key and of its rows of q. The first four are its part
//            of one step of the sum, the others of the next.
//   values   thread (g, t), g below 8, has columns 64 j + 8 g to + 7 of the keys 2 t, 2 t + 1, 2 t + 8 and 2 t + 9. An
//            element of two keys makes a register; element i of every thread is a block of columns i, 8 + i, 16 + i,
//            ...
//
// Rows of q, k and v must be runs of memory that begin at multiples of 16 bytes.
#include "interp/cuda/attention_args.h"
#include "interp/cuda/kernels/attention_few.cuh"
#include "interp/cuda/kernels/attention_mask.cuh"

namespace tessera::cuda {
namespace {

template <class Of, int kDim>
__device__ __forceinline__ void AttendFew(const AttentionFewArgs& few) {
  using T = typename Of::Element;
  constexpr int kChunks = kDim / 32, kHalves = kDim / 64;
  const AttentionArgs& a = few.a;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int64_t all = static_cast<int64_t>(few.groups) * few.tiles * few.stretches;
  if (item >= all) return;
  const int64_t group = item / few.stretches / few.tiles;
  const int tile = static_cast<int>(item / few.stretches % few.tiles);
  const int stretch = static_cast<int>(item % few.stretches);
  const int rows = static_cast<int>(a.share) * a.queries;
  const float scale = static_cast<float>(a.scale) * kLog2E;
  const T* const k = At<const T>(a.k.data) + OffsetOf(a.k.at, group) + t * 8;
  const T* const v = At<const T>(a.v.data) + OffsetOf(a.v.at, group) + g * 8;

  FewRows<Of, kDim> own;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = tile * 16 + g + h * 8;
    const bool is_row = row < rows;
    const int head = is_row ? row / a.queries : 0, query = is_row ? row % a.queries : 0;
    const T* row_at = At<const T>(a.q.data) + OffsetOf(a.q.at, group * a.share + head) + query * a.q.row + t * 8;
    own.seen[h] = is_row ? Seen(a, query) : 0;
    own.from[h] = First(a, query);
    own.ReadQuery(h, row_at, is_row, a.dim, t);
  }
  // The later a query, the later its last key.
  const int most = own.Most();
  const int begin = few.first + stretch * few.stretch;
  const int end = begin + few.stretch < most ? begin + few.stretch : most;

  uint4 keys[2][kChunks];
  const auto read_keys = [&](int key) {
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int j = 0; j < kChunks; ++j)
        keys[n][j] = Read(k + (key + n * 8 + g) * a.k.row + j * 32, key + n * 8 + g < end && j * 32 + t * 8 < a.dim);
  };
  read_keys(begin);
#pragma unroll 1
  for (int key = begin; key < end; key += kFewKeys) {
    uint4 values[kHalves][4];
#pragma unroll
    for (int j = 0; j < kHalves; ++j)
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int at = key + 2 * t + n % 2 + n / 2 * 8;
        values[j][n] = Read(v + at * a.v.row + j * 64, at < end && j * 64 + g * 8 < a.value_dim);
      }
    float s[2][4] = {};
    own.Score(keys, s);
    if (key + kFewKeys < end) read_keys(key + kFewKeys);
    own.Add(s, values, key, end, t, scale);
  }

  own.Leave(t, scale, [&](int h) {
    const int row = tile * 16 + g + h * 8;
    const bool is_whole = few.stretches == 1;
    const int64_t place = is_whole ? group * rows + row : (group * few.stretches + stretch) * rows + row;
    return FewPlace{a.y, few.sums, few.weights, row < rows ? place : -1, a.value_dim, is_whole};
  });
}

/// A block for each row of the result.
template <class Of>
__device__ __forceinline__ void JoinFew(const AttentionFewArgs& few) {
  const AttentionArgs& a = few.a;
  const int64_t rows = a.share * a.queries, group = blockIdx.x / rows;
  const int64_t first = group * few.stretches * rows + blockIdx.x % rows;
  JoinStretches<Of>(FewParts{few.sums, few.weights, first, rows, few.stretches, a.value_dim, a.y, int64_t{blockIdx.x}});
}

}  // namespace

#define TSR_FEW(name, of)                                                      \
  extern "C" __global__ void __launch_bounds__(kWarps * 32, 3)                 \
      attention_few_##name##_64(const __grid_constant__ AttentionFewArgs a) {  \
    AttendFew<of, 64>(a);                                                      \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kWarps * 32, 2)                 \
      attention_few_##name##_128(const __grid_constant__ AttentionFewArgs a) { \
    AttendFew<of, 128>(a);                                                     \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kWarps * 32)                    \
      attention_few_##name##_end(const __grid_constant__ AttentionFewArgs a) { \
    JoinFew<of>(a);                                                            \
  }
TSR_FEW(f16, OfF16)
TSR_FEW(bf16, OfBF16)

}  // namespace tessera::cuda
