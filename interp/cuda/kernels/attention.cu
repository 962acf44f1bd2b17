// attention, without the matrix of scores in memory: keys come a tile at a time, and the largest score, the sum of
// weights and the result are carried from tile to tile. Two kernels:
//
//   tiles  64 queries by 64 keys a block, results in registers: f32 and narrower, up to 256 columns of v
//   rows   one query a block, anything: f64, more columns, and few queries
//
// A query all of whose keys are masked gives zeros.
#include "interp/cuda/attention_args.h"
#include "interp/cuda/kernels/attention_mask.cuh"

namespace tessera::cuda {
namespace {

// ---- tiles

constexpr int kQueries = 64, kKeys = 64, kDepth = 32, kColumns = 64;
constexpr int kWide = 68;  // floats of a row of 64 in shared memory

/// Every eighth of 64 rows of one column of a matrix, from row r on; 0 from row `rows` on.
template <class T>
__device__ __forceinline__ void LoadEighths(const T* from, int64_t step, int r, int rows, bool inside, float (&v)[8]) {
  T e[8];
#pragma unroll
  for (int i = 0; i < 8; ++i, from += step)
    if (inside && r + 8 * i < rows) e[i] = *from;
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = inside && r + 8 * i < rows ? Get<float>(e[i]) : 0.0f;
}

/// Rows [row, row + 64) and columns [col, col + 32) of a matrix, transposed; 0 outside of it. A warp moves 8 columns of
/// 4 rows at a time, which go to different banks.
__device__ __forceinline__ void LoadTransposed(int dtype, const Matrices& m, int64_t at, int row, int rows, int col,
                                               int cols, float (*to)[kWide]) {
  int t = threadIdx.x;
  asm volatile("" : "+r"(t));  // or addresses of all tiles would be kept from one to the next
  const int warp = t / 32, lane = t % 32;
  const int c = warp % 4 * 8 + lane % 8, r = warp / 4 * 4 + lane / 8;
  const int64_t first = at + (row + r) * m.row + (col + c) * m.col;
  float v[8];
  WithStorage<float>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    LoadEighths(At<const T>(m.data) + first, 8 * m.row, row + r, rows, col + c < cols, v);
  });
#pragma unroll
  for (int i = 0; i < 8; ++i) to[c][r + 8 * i] = v[i];
}

/// Rows [row, row + 64) and columns [col, col + 64), as they are; 0 outside.
__device__ __forceinline__ void LoadPlain(int dtype, const Matrices& m, int64_t at, int row, int rows, int col,
                                          int cols, float (*to)[kColumns]) {
  int t = threadIdx.x;
  asm volatile("" : "+r"(t));
  const int r = t / 32;
#pragma unroll 1
  for (int c = t % 32; c < kColumns; c += 32) {
    const int64_t first = at + (row + r) * m.row + (col + c) * m.col;
    float v[8];
    WithStorage<float>(dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      LoadEighths(At<const T>(m.data) + first, 8 * m.row, row + r, rows, col + c < cols, v);
    });
#pragma unroll
    for (int i = 0; i < 8; ++i) to[r + 8 * i][c] = v[i];
  }
}

/// c += a b^T for vectors of 4.
__device__ __forceinline__ void Outer(const float* a, const float* b, float (&c)[4][4]) {
  const Pack<float, 4> x = *reinterpret_cast<const Pack<float, 4>*>(a);
  const Pack<float, 4> y = *reinterpret_cast<const Pack<float, 4>*>(b);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) c[i][j] = Fma(x.at[i], y.at[j], c[i][j]);
  }
}

/// fn over the 16 threads that share rows of a tile.
template <class Fn>
__device__ __forceinline__ float HalfWarpReduce(float x, Fn fn) {
#pragma unroll
  for (int lanes = 8; lanes > 0; lanes /= 2) x = fn(x, __shfl_xor_sync(kAllLanes, x, lanes));
  return x;
}

/// Results of up to 64 * kParts columns. Thread (y, x) of 16 by 16 has rows 4y to 4y + 3 and, of each 64, columns 4x to
/// 4x + 3.
template <int kParts>
__device__ __forceinline__ void Tiles(const AttentionArgs& a) {
  struct Slices {
    float q[kDepth][kWide], k[kDepth][kWide];
  };
  union Shared {
    Slices slices;
    float v[kKeys][kColumns];
  };
  __shared__ alignas(16) Shared shared;
  __shared__ alignas(16) float weights[kKeys][kWide];  // [key][query]
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int64_t blocks = (a.queries + kQueries - 1) / kQueries;
  const float scale = static_cast<float>(a.scale);
  const int64_t head = blockIdx.x / blocks;
  // Later blocks see more keys under a causal mask: they go first.
  const int q0 = static_cast<int>(blocks - 1 - (blockIdx.x - head * blocks)) * kQueries;
  const int64_t kv = head / a.share;
  const int64_t q_at = OffsetOf(a.q.at, head), k_at = OffsetOf(a.k.at, kv), v_at = OffsetOf(a.v.at, kv);
  const int64_t mask_at = a.has_mask ? OffsetOf(a.mask.at, head) : 0;
  const int last = q0 + kQueries < a.queries ? q0 + kQueries : a.queries;
  const int keys = Seen(a, last - 1), first = First(a, q0) / kKeys * kKeys;

  float out[kParts][4][4] = {};
  float max[4], sum[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) max[i] = -Inf(0.0f), sum[i] = 0;

#pragma unroll 1
  for (int k0 = first; k0 < keys; k0 += kKeys) {
    if (a.has_mask) {
      // Where the weights will be; a thread reads only what it has written.
#pragma unroll 1
      for (int e = 0; e < 16; ++e) {
        const int query = q0 + 4 * ty + e / 4, key = k0 + 4 * tx + e % 4;
        if (query < a.queries && key < a.keys)
          weights[4 * tx + e % 4][4 * ty + e / 4] =
              MaskAt<float>(a, mask_at + query * a.mask.row + key * a.mask.col);
      }
    }
    float s[4][4] = {};
#pragma unroll 1
    for (int d0 = 0; d0 < a.dim; d0 += kDepth) {
      __syncthreads();  // whoever reads `shared` is through
      LoadTransposed(a.dtype, a.q, q_at, q0, a.queries, d0, a.dim, shared.slices.q);
      LoadTransposed(a.dtype, a.k, k_at, k0, a.keys, d0, a.dim, shared.slices.k);
      __syncthreads();
#pragma unroll 4
      for (int d = 0; d < kDepth; ++d) Outer(&shared.slices.q[d][4 * ty], &shared.slices.k[d][4 * tx], s);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = q0 + 4 * ty + i;
      const int from = First(a, query), seen = query < a.queries ? Seen(a, query) : 0;
      float m = max[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int key = k0 + 4 * tx + j;
        float x = s[i][j] * scale;
        if (key >= seen || key < from)
          x = -Inf(0.0f);
        else if (a.has_mask)
          x = Masked(a, x, weights[4 * tx + j][4 * ty + i]);
        s[i][j] = x;
        m = Larger(m, x);
      }
      m = HalfWarpReduce(m, [](float x, float y) { return Larger(x, y); });
      const bool none = m == -Inf(0.0f);
      const float alpha = none ? 1.0f : Exp(max[i] - m);
      max[i] = m;
#pragma unroll
      for (int j = 0; j < 4; ++j) s[i][j] = none ? 0.0f : Exp(s[i][j] - m);
      const float part = (s[i][0] + s[i][1]) + (s[i][2] + s[i][3]);
      sum[i] = sum[i] * alpha + HalfWarpReduce(part, [](float x, float y) { return x + y; });
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
#pragma unroll
        for (int j = 0; j < 4; ++j) out[p][i][j] *= alpha;
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      Pack<float, 4> column;
#pragma unroll
      for (int i = 0; i < 4; ++i) column.at[i] = s[i][j];
      *reinterpret_cast<Pack<float, 4>*>(&weights[4 * tx + j][4 * ty]) = column;
    }
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      __syncthreads();  // weights are there, and whoever reads `shared` is through
      if (p * kColumns >= a.value_dim) continue;
      LoadPlain(a.dtype, a.v, v_at, k0, a.keys, p * kColumns, a.value_dim, shared.v);
      __syncthreads();
#pragma unroll 4
      for (int k = 0; k < kKeys; ++k) Outer(&weights[k][4 * ty], &shared.v[k][4 * tx], out[p]);
    }
    __syncthreads();  // the weights are used up
  }

#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int query = q0 + 4 * ty + i;
    const bool zero = max[i] == -Inf(0.0f) || sum[i] == 0.0f;
    const float by = 1.0f / sum[i];
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
#pragma unroll
      for (int j = 0; j < 4; ++j) out[p][i][j] = zero ? 0.0f : out[p][i][j] * by;
    }
    if (query >= a.queries) continue;
    WithStorage<float>(a.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      T* y = At<T>(a.y) + (head * a.queries + query) * a.value_dim;
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int c = p * kColumns + 4 * tx + j;
          if (c < a.value_dim) Put(out[p][i][j], y[c]);
        }
      }
    });
  }
}

// ---- rows

constexpr int kRowKeys = 256;  // keys of a tile, and threads of a block

/// Column `col` of the result of one query, for key group `group` of `groups`: all threads of a block take part.
template <class T, class C>
__device__ __forceinline__ void Row(const AttentionArgs& a, int64_t head, int query, int col, int group, int groups,
                                    C* scores, C* shared_max, Total<C>* shared_sum, C* parts) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t kv = head / a.share;
  const T* q = At<const T>(a.q.data) + OffsetOf(a.q.at, head) + query * a.q.row;
  const T* k = At<const T>(a.k.data) + OffsetOf(a.k.at, kv);
  const T* v = At<const T>(a.v.data) + OffsetOf(a.v.at, kv) + col * a.v.col;
  const int64_t mask_at = a.has_mask ? OffsetOf(a.mask.at, head) + query * a.mask.row : 0;
  const int keys = Seen(a, query);
  const C scale = static_cast<C>(a.scale);
  C max = -Inf(C(0)), out = 0;
  double sum = 0;
#pragma unroll 1
  for (int k0 = First(a, query); k0 < keys; k0 += kRowKeys) {
    const int count = keys - k0 < kRowKeys ? keys - k0 : kRowKeys;
    __syncthreads();  // the scores of the tile before are used up
#pragma unroll 1
    for (int j = warp; j < count; j += kRowKeys / 32) {
      const T* row = k + (k0 + j) * a.k.row;
      C dot = 0;
#pragma unroll 4
      for (int d = lane; d < a.dim; d += 32) dot = Fma(Get<C>(q[d * a.q.col]), Get<C>(row[d * a.k.col]), dot);
      dot = WarpReduce(dot, [](C x, C y) { return x + y; }) * scale;
      if (lane == 0) scores[j] = a.has_mask ? Masked(a, dot, MaskAt<C>(a, mask_at + (k0 + j) * a.mask.col)) : dot;
    }
    __syncthreads();
    const int own = threadIdx.x;
    C m = own < count ? scores[own] : -Inf(C(0));
    m = GroupMerge(m, kRowKeys, shared_max, -Inf(C(0)), [](C& x, C y) { x = Larger(x, y); });
    m = Larger(max, m);
    if (m == -Inf(C(0))) continue;  // for all threads
    const C alpha = Exp(max - m);
    const C weight = own < count ? Exp(scores[own] - m) : C(0);
    max = m;
    scores[own] = weight;
    Total<C> total = {};
    total.Add(weight);
    total = GroupMerge(total, kRowKeys, shared_sum, Total<C>{}, [](Total<C>& x, const Total<C>& y) { x.Merge(y); });
    sum = sum * alpha + total.Value();
    __syncthreads();
    out *= alpha;
    if (col < a.value_dim) {
#pragma unroll 4
      for (int j = group; j < count; j += groups) out = Fma(scores[j], Get<C>(v[(k0 + j) * a.v.row]), out);
    }
  }
  __syncthreads();
  parts[threadIdx.x] = out;
  __syncthreads();
  if (group == 0 && col < a.value_dim) {
    const int wide = kRowKeys / groups;
    for (int g = 1; g < groups; ++g) out += parts[threadIdx.x + g * wide];
    const bool zero = max == -Inf(C(0)) || sum == 0;
    const C result = zero ? C(0) : out * static_cast<C>(1 / sum);
    Put(result, At<T>(a.y)[(head * a.queries + query) * a.value_dim + col]);
  }
}

template <class C>
__device__ __forceinline__ void Rows(const AttentionArgs& a) {
  __shared__ C scores[kRowKeys], parts[kRowKeys], shared_max[32];
  __shared__ Total<C> shared_sum[32];
  int wide = 32;  // columns side by side
  while (wide < kRowKeys && wide < a.value_dim) wide *= 2;
  for (int64_t item = blockIdx.x; item < a.heads * a.queries; item += gridDim.x) {
    const int64_t head = item / a.queries;
    const int query = static_cast<int>(item - head * a.queries);
    for (int first = 0; first < a.value_dim; first += wide) {
      WithStorage<C>(a.dtype, [&](auto tag) {
        using T = typename decltype(tag)::Type;
        Row<T, C>(a, head, query, first + threadIdx.x % wide, threadIdx.x / wide, kRowKeys / wide, scores, shared_max,
                  shared_sum, parts);
      });
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256, 2) attention_tiles_64(const __grid_constant__ AttentionArgs a) {
  Tiles<1>(a);
}
extern "C" __global__ void __launch_bounds__(256, 2) attention_tiles_128(const __grid_constant__ AttentionArgs a) {
  Tiles<2>(a);
}
extern "C" __global__ void __launch_bounds__(256, 1) attention_tiles_256(const __grid_constant__ AttentionArgs a) {
  Tiles<4>(a);
}
extern "C" __global__ void __launch_bounds__(256, 3) attention_rows_f32(const __grid_constant__ AttentionArgs a) {
  Rows<float>(a);
}
extern "C" __global__ void __launch_bounds__(256, 3) attention_rows_f64(const __grid_constant__ AttentionArgs a) {
  Rows<double>(a);
}

}  // namespace tessera::cuda
