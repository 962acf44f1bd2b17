// attention of few queries by warps of 16 rows, each of which goes through a stretch of the keys: what attention_few.cu
// and paged_attention.cu share. How rows, keys and values lie in registers is written in attention_few.cu.
#ifndef TESSERA_INTERP_CUDA_KERNELS_ATTENTION_FEW_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_ATTENTION_FEW_CUH_

#include "interp/cuda/kernels/mma.cuh"

namespace tessera::cuda {

constexpr int kFewKeys = 16;  // of a step
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

/// What a row of a stretch leaves: its result, or a part of it.
struct FewPlace {
  Address y;        // of results, where the stretch is the only one
  Address sums;     // otherwise weighted sums of values, in f32,
  Address weights;  // and two f32: the largest score as a power of two, the sum of weights
  int64_t row;      // of those; -1: none
  int32_t value_dim;
  bool is_whole;
};

/// 16 rows, and what has been summed up for them. Thread (g, t) has rows g and g + 8.
template <class Of, int kDim>
struct FewRows {
  using T = typename Of::Element;
  static constexpr int kChunks = kDim / 32, kHalves = kDim / 64;

  uint4 q[2][kChunks];
  int seen[2], from[2] = {};  // keys before the one, from the other on
  float out[kHalves * 8][4] = {};
  float max[2] = {-Inf(0.0f), -Inf(0.0f)}, sum[2] = {};

  /// Row h of this thread.
  __device__ __forceinline__ void ReadQuery(int h, const T* from, bool is_row, int dim, int t) {
#pragma unroll
    for (int j = 0; j < kChunks; ++j) q[h][j] = Read(from + j * 32, is_row && j * 32 + t * 8 < dim);
  }

  /// The end of the keys that any of the rows sees.
  __device__ __forceinline__ int Most() const {
    int most = seen[0] > seen[1] ? seen[0] : seen[1];
#pragma unroll
    for (int w = 4; w < 32; w *= 2) {
      const int other = __shfl_xor_sync(kAllLanes, most, w);
      most = most > other ? most : other;
    }
    return most;
  }

  __device__ __forceinline__ void Score(const uint4 (&keys)[2][kChunks], float (&s)[2][4]) const {
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
  }

  /// Takes the scores of the keys from `key` on, up to `end`, and their values.
  __device__ __forceinline__ void Add(float (&s)[2][4], const uint4 (&values)[kHalves][4], int key, int end, int t,
                                      float scale) {
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

  /// place(h): where row h of this thread goes.
  template <class Place>
  __device__ __forceinline__ void Leave(int t, float scale, Place place) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float total = sum[h];
      total += __shfl_xor_sync(kAllLanes, total, 1);
      total += __shfl_xor_sync(kAllLanes, total, 2);
      const FewPlace to = place(h);
      if (to.row < 0) continue;
      const float by = !to.is_whole ? 1.0f : total == 0.0f ? 0.0f : 1.0f / total;
#pragma unroll
      for (int j = 0; j < kHalves; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = j * 64 + (2 * t + e) * 8;
          if (column >= to.value_dim) continue;
          float x[8];
#pragma unroll
          for (int i = 0; i < 8; ++i) x[i] = out[j * 8 + i][2 * h + e] * by;
          if (to.is_whole) {
            *reinterpret_cast<uint4*>(At<T>(to.y) + to.row * to.value_dim + column) =
                make_uint4(Of::Pack2(x[0], x[1]), Of::Pack2(x[2], x[3]), Of::Pack2(x[4], x[5]), Of::Pack2(x[6], x[7]));
          } else {
            float4* part = reinterpret_cast<float4*>(At<float>(to.sums) + to.row * to.value_dim + column);
            part[0] = make_float4(x[0], x[1], x[2], x[3]);
            part[1] = make_float4(x[4], x[5], x[6], x[7]);
          }
        }
      if (!to.is_whole && t == 0) {
        const float top = max[h] == -Inf(0.0f) ? 0.0f : max[h] * scale;
        At<float2>(to.weights)[to.row] = make_float2(total == 0.0f ? -Inf(0.0f) : top, total);
      }
    }
  }
};

/// What a row of the result is put together from.
struct FewParts {
  Address sums, weights;  // as in FewPlace
  int64_t first, step;    // rows of those: the first, and from one to the next
  int32_t count;
  int32_t value_dim;
  Address y;
  int64_t row;  // of y
};

/// A block. A warp has every fourth stretch, a thread of it four columns.
template <class Of>
__device__ __forceinline__ void JoinStretches(const FewParts& parts) {
  __shared__ float tops[kWarps], totals[kWarps], sums[kWarps][128];
  using T = typename Of::Element;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t step = parts.step;
  const float2* weights = At<const float2>(parts.weights) + parts.first;

  float top = -Inf(0.0f);
  for (int s = threadIdx.x; s < parts.count; s += kWarps * 32) top = fmaxf(top, weights[s * step].x);
#pragma unroll
  for (int w = 1; w < 32; w *= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, w));
  if (lane == 0) tops[warp] = top;
  __syncthreads();
  top = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));

  const bool is_there = lane * 4 < parts.value_dim;
  const float* from = At<const float>(parts.sums) + parts.first * parts.value_dim + (is_there ? lane * 4 : 0);
  const int mine = (parts.count - warp + kWarps - 1) / kWarps;  // this warp's
  float x[4] = {}, total = 0;
  for (int begin = 0; begin < mine; begin += 32) {
    // Each thread weighs one stretch; all need them one by one.
    float factor = 0;
    if (begin + lane < mine) {
      const float2 w = weights[(warp + (begin + lane) * kWarps) * step];
      factor = top == -Inf(0.0f) ? 0.0f : Exp2(w.x - top);
      total = fmaf(w.y, factor, total);
    }
    const int count = mine - begin < 32 ? mine - begin : 32;
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
      const float by = __shfl_sync(kAllLanes, factor, i);
      const float4 part =
          *reinterpret_cast<const float4*>(from + (warp + (begin + i) * kWarps) * step * parts.value_dim);
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
  if (column >= parts.value_dim) return;
  total = 0;
  float y[2] = {};
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    total += totals[w];
    y[0] += sums[w][column];
    y[1] += sums[w][column + 1];
  }
  const float by = total == 0.0f ? 0.0f : 1.0f / total;
  *reinterpret_cast<uint32_t*>(At<T>(parts.y) + parts.row * parts.value_dim + column) = Of::Pack2(y[0] * by, y[1] * by);
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_ATTENTION_FEW_CUH_
