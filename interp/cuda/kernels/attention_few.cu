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
//            element of two keys makes a register; element i of every thread is a block of columns i, 8 + i, 16 + i, ...
//
// Rows of q, k and v must be runs of memory that begin at multiples of 16 bytes.
#include "interp/cuda/attention_args.h"
#include "interp/cuda/kernels/attention_mask.cuh"
#include "interp/cuda/kernels/mma.cuh"

namespace tessera::cuda {
namespace {

constexpr int kKeys = 16;  // of a step
constexpr float kLog2E = 0x1.715476p+0f;

/// 16 bytes that are read once, or zeros.
__device__ __forceinline__ uint4 Read(const void* p, bool is_there) {
  uint4 r = make_uint4(0, 0, 0, 0);
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
      : "+r"(r.x), "+r"(r.y), "+r"(r.z), "+r"(r.w)
      : "l"(p), "r"(static_cast<int>(is_there)));
  return r;
}

/// Element i of two runs of eight.
template <int i>
__device__ __forceinline__ uint32_t Both(const uint4& first, const uint4& second) {
  const uint32_t a = i < 2 ? first.x : i < 4 ? first.y : i < 6 ? first.z : first.w;
  const uint32_t b = i < 2 ? second.x : i < 4 ? second.y : i < 6 ? second.z : second.w;
  return __byte_perm(a, b, i % 2 == 0 ? 0x5410 : 0x7632);
}

template <class Of, int i, int kBlocks>
__device__ __forceinline__ void MultiplyColumns(float (&out)[kBlocks][4], int first, const uint32_t (&weights)[4],
                                                const uint4 (&v)[4]) {
  if constexpr (i < 8) {
    Of::Multiply(out[first + i], weights, Both<i>(v[0], v[1]), Both<i>(v[2], v[3]));
    MultiplyColumns<Of, i + 1>(out, first, weights, v);
  }
}

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

  uint4 q[2][kChunks];
  int seen[2], from[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = tile * 16 + g + h * 8;
    const bool is_row = row < rows;
    const int head = is_row ? row / a.queries : 0, query = is_row ? row % a.queries : 0;
    const T* row_at = At<const T>(a.q.data) + OffsetOf(a.q.at, group * a.share + head) + query * a.q.row + t * 8;
    seen[h] = is_row ? Seen(a, query) : 0;
    from[h] = First(a, query);
#pragma unroll
    for (int j = 0; j < kChunks; ++j) q[h][j] = Read(row_at + j * 32, is_row && j * 32 + t * 8 < a.dim);
  }
  // The later a query, the later its last key.
  int most = seen[0] > seen[1] ? seen[0] : seen[1];
#pragma unroll
  for (int w = 4; w < 32; w *= 2) {
    const int other = __shfl_xor_sync(kAllLanes, most, w);
    most = most > other ? most : other;
  }
  const int begin = few.first + stretch * few.stretch;
  const int end = begin + few.stretch < most ? begin + few.stretch : most;

  float out[kHalves * 8][4] = {};
  float max[2] = {-Inf(0.0f), -Inf(0.0f)}, sum[2] = {};
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
  for (int key = begin; key < end; key += kKeys) {
    uint4 values[kHalves][4];
#pragma unroll
    for (int j = 0; j < kHalves; ++j)
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int at = key + 2 * t + n % 2 + n / 2 * 8;
        values[j][n] = Read(v + at * a.v.row + j * 64, at < end && j * 64 + g * 8 < a.value_dim);
      }
    float s[2][4] = {};
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
      const uint32_t first[4] = {q[0][j].x, q[1][j].x, q[0][j].y, q[1][j].y};
      const uint32_t second[4] = {q[0][j].z, q[1][j].z, q[0][j].w, q[1][j].w};
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        Of::Multiply(s[n], first, keys[n][j].x, keys[n][j].y);
        Of::Multiply(s[n], second, keys[n][j].z, keys[n][j].w);
      }
    }
    if (key + kKeys < end) read_keys(key + kKeys);

#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int left = (seen[h] < end ? seen[h] : end) - key - 2 * t, before = from[h] - key - 2 * t;
      float m = max[h];
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (n * 8 + e >= left || n * 8 + e < before) s[n][2 * h + e] = -Inf(0.0f);
          m = fmaxf(m, s[n][2 * h + e]);
        }
      m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, 1));
      m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, 2));
      // Rows that have seen no key yet: all weights are 0.
      const float top = m == -Inf(0.0f) ? 0.0f : m * scale;
      const float alpha = Exp2(fmaf(max[h], scale, -top));
      max[h] = m;
      float part = 0;
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float w = Exp2(fmaf(s[n][2 * h + e], scale, -top));
          s[n][2 * h + e] = w;
          part += w;
        }
      sum[h] = fmaf(sum[h], alpha, part);
#pragma unroll
      for (int c = 0; c < kHalves * 8; ++c) {
        out[c][2 * h] *= alpha;
        out[c][2 * h + 1] *= alpha;
      }
    }
    const uint32_t weights[4] = {Of::Pack2(s[0][0], s[0][1]), Of::Pack2(s[0][2], s[0][3]), Of::Pack2(s[1][0], s[1][1]),
                                 Of::Pack2(s[1][2], s[1][3])};
#pragma unroll
    for (int j = 0; j < kHalves; ++j) MultiplyColumns<Of, 0>(out, j * 8, weights, values[j]);
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float total = sum[h];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    const int row = tile * 16 + g + h * 8;
    if (row >= rows) continue;
    const bool is_whole = few.stretches == 1;
    const int64_t place = is_whole ? group * rows + row : (group * few.stretches + stretch) * rows + row;
    const float by = !is_whole ? 1.0f : total == 0.0f ? 0.0f : 1.0f / total;
#pragma unroll
    for (int j = 0; j < kHalves; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = j * 64 + (2 * t + e) * 8;
        if (column >= a.value_dim) continue;
        float x[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = out[j * 8 + i][2 * h + e] * by;
        if (is_whole) {
          *reinterpret_cast<uint4*>(At<T>(a.y) + place * a.value_dim + column) =
              make_uint4(Of::Pack2(x[0], x[1]), Of::Pack2(x[2], x[3]), Of::Pack2(x[4], x[5]), Of::Pack2(x[6], x[7]));
        } else {
          float4* to = reinterpret_cast<float4*>(At<float>(few.sums) + place * a.value_dim + column);
          to[0] = make_float4(x[0], x[1], x[2], x[3]);
          to[1] = make_float4(x[4], x[5], x[6], x[7]);
        }
      }
    if (!is_whole && t == 0) {
      const float top = max[h] == -Inf(0.0f) ? 0.0f : max[h] * scale;
      At<float2>(few.weights)[place] = make_float2(total == 0.0f ? -Inf(0.0f) : top, total);
    }
  }
}

/// A block for each row of the result. A warp has every fourth stretch, a thread of it four columns.
template <class Of>
__device__ __forceinline__ void JoinStretches(const AttentionFewArgs& few) {
  __shared__ float tops[kWarps], totals[kWarps], sums[kWarps][128];
  using T = typename Of::Element;
  const AttentionArgs& a = few.a;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t rows = a.share * a.queries, group = blockIdx.x / rows;
  const int64_t first = group * few.stretches * rows + blockIdx.x % rows;
  const float2* weights = At<const float2>(few.weights) + first;

  float top = -Inf(0.0f);
  for (int s = threadIdx.x; s < few.stretches; s += kWarps * 32) top = fmaxf(top, weights[s * rows].x);
#pragma unroll
  for (int w = 1; w < 32; w *= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, w));
  if (lane == 0) tops[warp] = top;
  __syncthreads();
  top = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));

  const bool is_there = lane * 4 < a.value_dim;
  const float* from = At<const float>(few.sums) + first * a.value_dim + (is_there ? lane * 4 : 0);
  const int mine = (few.stretches - warp + kWarps - 1) / kWarps;  // this warp's
  float x[4] = {}, total = 0;
  for (int begin = 0; begin < mine; begin += 32) {
    // Each thread weighs one stretch; all need them one by one.
    float factor = 0;
    if (begin + lane < mine) {
      const float2 w = weights[(warp + (begin + lane) * kWarps) * rows];
      factor = top == -Inf(0.0f) ? 0.0f : Exp2(w.x - top);
      total = fmaf(w.y, factor, total);
    }
    const int count = mine - begin < 32 ? mine - begin : 32;
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
      const float by = __shfl_sync(kAllLanes, factor, i);
      const float4 part = *reinterpret_cast<const float4*>(from + (warp + (begin + i) * kWarps) * rows * a.value_dim);
      x[0] = fmaf(part.x, by, x[0]);
      x[1] = fmaf(part.y, by, x[1]);
      x[2] = fmaf(part.z, by, x[2]);
      x[3] = fmaf(part.w, by, x[3]);
    }
  }
#pragma unroll
  for (int w = 1; w < 32; w *= 2) total += __shfl_xor_sync(kAllLanes, total, w);
  if (lane == 0) totals[warp] = total;
  *reinterpret_cast<float4*>(&sums[warp][lane * 4]) = make_float4(x[0], x[1], x[2], x[3]);
  __syncthreads();
  const int column = threadIdx.x * 2;
  if (column >= a.value_dim) return;
  total = 0;
  float y[2] = {};
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    total += totals[w];
    y[0] += sums[w][column];
    y[1] += sums[w][column + 1];
  }
  const float by = total == 0.0f ? 0.0f : 1.0f / total;
  *reinterpret_cast<uint32_t*>(At<T>(a.y) + int64_t{blockIdx.x} * a.value_dim + column) =
      Of::Pack2(y[0] * by, y[1] * by);
}

}  // namespace

#define TSR_FEW(name, of)                                                                                            \
  extern "C" __global__ void __launch_bounds__(kWarps * 32, 3) attention_few_##name##_64(                            \
      const __grid_constant__ AttentionFewArgs a) {                                                                  \
    AttendFew<of, 64>(a);                                                                                            \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(kWarps * 32, 2) attention_few_##name##_128(                           \
      const __grid_constant__ AttentionFewArgs a) {                                                                  \
    AttendFew<of, 128>(a);                                                                                           \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(kWarps * 32) attention_few_##name##_end(                              \
      const __grid_constant__ AttentionFewArgs a) {                                                                  \
    JoinStretches<of>(a);                                                                                            \
  }
TSR_FEW(f16, OfF16)
TSR_FEW(bf16, OfBF16)

}  // namespace tessera::cuda
