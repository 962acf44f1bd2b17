// attention of f16 and bf16 on tensor cores (sm_80 and newer: mma.m16n8k16 with sums in f32), in the manner of
// attention.cu: scores are never in memory.
//
// A block of four warps has kRows queries, a warp its own 16 or 32 of them. Keys come 64 at a time through shared
// memory. The copy of the values of a tile runs while its scores are computed, that of the next tile's keys while the
// weights meet the values. Weights go from one product to the next in registers. Rows in shared memory have 16 bytes
// more than they need, so that the eight rows which ldmatrix reads at a time lie in different banks.
//
// Rows of q, k and v must be runs of memory that begin at multiples of 16 bytes. Exponentials are powers of two by the
// device's own approximation (2^-22): results are rounded to 8 or 11 bits.
#include "interp/cuda/attention_args.h"
#include "interp/cuda/kernels/attention_mask.cuh"
#include "interp/cuda/kernels/mma.cuh"

namespace tessera::cuda {
namespace {

constexpr int kTileKeys = 64;

/// What the mask adds to the scores of `kRows` queries and a tile of keys, as far as there are such.
template <int kRows>
__device__ __forceinline__ void LoadMask(const AttentionArgs& a, int64_t at, int query, int key, float* to) {
#pragma unroll 1
  for (int i = threadIdx.x; i < kRows * kTileKeys; i += kWarps * 32) {
    const int q = query + i / kTileKeys, k = key + i % kTileKeys;
    if (q < a.queries && k < a.keys) to[i] = MaskAt<float>(a, at + q * a.mask.row + k * a.mask.col);
  }
}

/// kDim: columns of q, k and v, rounded up. kTiles: of 16 queries, for a warp.
template <class Of, int kDim, int kTiles, bool kMask>
__device__ __forceinline__ void Attend(const AttentionArgs& a) {
  using T = typename Of::Element;
  constexpr int kRows = kWarps * 16 * kTiles, kPitch = kDim * 2 + 16;
  constexpr float kLog2E = 0x1.715476p+0f;
  extern __shared__ __align__(16) unsigned char shared[];
  const float* mask = reinterpret_cast<float*>(shared + (kRows + 2 * kTileKeys) * kPitch);
  const uint32_t q_tile = SharedAddress(shared), k_tile = q_tile + kRows * kPitch, v_tile = k_tile + kTileKeys * kPitch;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t blocks = (a.queries + kRows - 1) / kRows;
  const int64_t head = blockIdx.x % a.heads;
  // Later blocks see more keys under a causal mask: they go first.
  const int q0 = static_cast<int>(blocks - 1 - blockIdx.x / a.heads) * kRows;
  const int64_t kv = head / a.share;
  const T* q = At<const T>(a.q.data) + OffsetOf(a.q.at, head);
  const T* k = At<const T>(a.k.data) + OffsetOf(a.k.at, kv);
  const T* v = At<const T>(a.v.data) + OffsetOf(a.v.at, kv);
  const int64_t mask_at = kMask ? OffsetOf(a.mask.at, head) : 0;
  const float scale = static_cast<float>(a.scale) * kLog2E;
  const int last = q0 + kRows < a.queries ? q0 + kRows : a.queries;
  const int keys = Seen(a, last - 1), first = First(a, q0) / kTileKeys * kTileKeys;
  // All queries of the block see the keys from `all_from` up to `all_see`.
  const int all_see = kMask ? 0 : Seen(a, q0), all_from = First(a, last - 1);

  CopyRows<T, kRows, kDim>(q, a.q.row, q0, a.queries, a.dim, q_tile);
  CopyRows<T, kTileKeys, kDim>(k, a.k.row, first, a.keys, a.dim, k_tile);
  CommitCopies();

  float out[kTiles][kDim / 8][4] = {};
  float max[kTiles][2], sum[kTiles][2];
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int h = 0; h < 2; ++h) max[t][h] = -Inf(0.0f), sum[t][h] = 0;

  // ldmatrix: lanes 0 to 15 name the rows of the two matrices on the left, the others those on the right.
  const uint32_t q_from = q_tile + (warp * 16 * kTiles + lane % 16) * kPitch + lane / 16 * 16;
  const uint32_t k_from = k_tile + (lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 16;
  const uint32_t v_from = v_tile + (lane % 16) * kPitch + lane / 16 * 16;

  // Of 64 columns, the warp's queries stay in registers.
  constexpr bool kHeld = kDim <= 64;
  uint32_t held[kHeld ? kDim / 16 : 1][kTiles][4];

#pragma unroll 1
  for (int k0 = first; k0 < keys; k0 += kTileKeys) {
    WaitForCopies<0>();
    __syncthreads();  // keys are there, and the values before are used up
    if (kHeld && k0 == first) {
#pragma unroll
      for (int d = 0; d < (kHeld ? kDim / 16 : 1); ++d)
#pragma unroll
        for (int t = 0; t < kTiles; ++t) LoadMatrices(held[d][t], q_from + t * 16 * kPitch + d * 32);
    }
    CopyRows<T, kTileKeys, kDim>(v, a.v.row, k0, a.keys, a.value_dim, v_tile);
    CommitCopies();
    if constexpr (kMask) {
      LoadMask<kRows>(a, mask_at, q0, k0, const_cast<float*>(mask));
      __syncthreads();
    }

    float s[kTiles][kTileKeys / 8][4] = {};
#pragma unroll
    for (int d = 0; d < kDim / 16; ++d) {
      uint32_t qs[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        if constexpr (kHeld) {
#pragma unroll
          for (int i = 0; i < 4; ++i) qs[t][i] = held[d][t][i];
        } else {
          LoadMatrices(qs[t], q_from + t * 16 * kPitch + d * 32);
        }
      }
#pragma unroll
      for (int n = 0; n < kTileKeys / 16; ++n) {
        uint32_t ks[4];
        LoadMatrices(ks, k_from + n * 16 * kPitch + d * 32);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          Of::Multiply(s[t][2 * n], qs[t], ks[0], ks[1]);
          Of::Multiply(s[t][2 * n + 1], qs[t], ks[2], ks[3]);
        }
      }
    }

    const bool is_edge = kMask || k0 + kTileKeys > all_see || k0 < all_from;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float m = max[t][h];
        if (is_edge) {
          const int row = (warp * kTiles + t) * 16 + lane / 4 + h * 8, query = q0 + row;
          const int from = First(a, query), seen = query < a.queries ? Seen(a, query) : 0;
#pragma unroll
          for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              const int key = n * 8 + lane % 4 * 2 + j;
              float& x = s[t][n][2 * h + j];
              if (k0 + key >= seen || k0 + key < from) {
                x = -Inf(0.0f);
              } else if constexpr (kMask) {
                // In powers of two, as the scores will be.
                x = Masked(a, x * scale, mask[row * kTileKeys + key] * kLog2E);
              }
            }
          }
        }
#pragma unroll
        for (int n = 0; n < kTileKeys / 8; ++n) m = fmaxf(m, fmaxf(s[t][n][2 * h], s[t][n][2 * h + 1]));
        m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, 1));
        m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, 2));
        const float by = kMask ? 1.0f : scale;
        // Rows that have seen no key yet: all weights are 0.
        const float top = m == -Inf(0.0f) ? 0.0f : m * by;
        const float alpha = Exp2(max[t][h] * by - top);
        max[t][h] = m;
        float part = 0;
#pragma unroll
        for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const float w = Exp2(fmaf(s[t][n][2 * h + j], by, -top));
            s[t][n][2 * h + j] = w;
            part += w;
          }
        }
        sum[t][h] = sum[t][h] * alpha + part;
        // Mostly no row of the warp has found a larger score.
        if (__any_sync(kAllLanes, alpha != 1.0f)) {
#pragma unroll
          for (int n = 0; n < kDim / 8; ++n) {
            out[t][n][2 * h] *= alpha;
            out[t][n][2 * h + 1] *= alpha;
          }
        }
      }
    }

    WaitForCopies<0>();
    __syncthreads();  // values are there, and the keys are used up
    if (k0 + kTileKeys < keys) CopyRows<T, kTileKeys, kDim>(k, a.k.row, k0 + kTileKeys, a.keys, a.dim, k_tile);
    CommitCopies();
#pragma unroll
    for (int d = 0; d < kTileKeys / 16; ++d) {
      uint32_t weights[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          weights[t][i] = Of::Pack2(s[t][2 * d + i / 2][i % 2 * 2], s[t][2 * d + i / 2][i % 2 * 2 + 1]);
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        uint32_t vs[4];
        LoadTransposed(vs, v_from + d * 16 * kPitch + n * 32);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          Of::Multiply(out[t][2 * n], weights[t], vs[0], vs[1]);
          Of::Multiply(out[t][2 * n + 1], weights[t], vs[2], vs[3]);
        }
      }
    }
  }
  WaitForCopies<0>();

#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float total = sum[t][h];
      total += __shfl_xor_sync(kAllLanes, total, 1);
      total += __shfl_xor_sync(kAllLanes, total, 2);
      const float by = total == 0.0f ? 0.0f : 1.0f / total;
      const int query = q0 + (warp * kTiles + t) * 16 + lane / 4 + h * 8;
      if (query >= a.queries) continue;
      T* y = At<T>(a.y) + (head * a.queries + query) * a.value_dim;
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const int c = n * 8 + lane % 4 * 2;
        const float x0 = out[t][n][2 * h] * by, x1 = out[t][n][2 * h + 1] * by;
        if (c + 1 < a.value_dim && a.value_dim % 2 == 0)
          *reinterpret_cast<uint32_t*>(y + c) = Of::Pack2(x0, x1);
        else {
          if (c < a.value_dim) Put(x0, y[c]);
          if (c + 1 < a.value_dim) Put(x1, y[c + 1]);
        }
      }
    }
  }
}

}  // namespace

// attention_f16_128, attention_bf16_128_mask, ...
#define TSR_ATTENTION(name, of, dim, tiles, blocks)                              \
  extern "C" __global__ void __launch_bounds__(kWarps * 32, blocks)              \
      attention_##name##_##dim(const __grid_constant__ AttentionArgs a) {        \
    Attend<of, dim, tiles, false>(a);                                            \
  }                                                                              \
  extern "C" __global__ void __launch_bounds__(kWarps * 32, blocks)              \
      attention_##name##_##dim##_mask(const __grid_constant__ AttentionArgs a) { \
    Attend<of, dim, tiles, true>(a);                                             \
  }
#define TSR_ATTENTION_DIMS(name, of) \
  TSR_ATTENTION(name, of, 64, 2, 2)  \
  TSR_ATTENTION(name, of, 128, 2, 2) \
  TSR_ATTENTION(name, of, 256, 1, 1)
TSR_ATTENTION_DIMS(f16, OfF16)
TSR_ATTENTION_DIMS(bf16, OfBF16)

}  // namespace tessera::cuda
