// attention of f16 and bf16 without a mask, on the tensor cores of sm_90a: attention_mma.cu with warpgroups in the
// place of warps. Keys and values of a tile are read from shared memory by the products themselves.
//
// Rows of q, k and v must be runs of memory that begin at multiples of 16 bytes.
#include "interp/cuda/attention_args.h"
#include "interp/cuda/kernels/attention_mask.cuh"
#include "interp/cuda/kernels/wgmma.cuh"

namespace tessera::cuda {
namespace {

constexpr float kLog2E = 0x1.715476p+0f;
constexpr int kStep = kHopperStep;

template <class Of, class Products, int kDim, int kGroups>
__device__ __forceinline__ void Attend(const AttentionArgs& a) {
  using T = typename Of::Element;
  constexpr int kRows = 64 * kGroups, kThreads = kGroups * kGroupThreads, kTile = kStep * kDim * 2;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t q_tile = SharedAddress(shared), kv_tiles = q_tile + kRows * kDim * 2;
  const int group = kGroups == 1 ? 0 : threadIdx.x / kGroupThreads, warp = threadIdx.x / 32 % 4,
            lane = threadIdx.x % 32;
  const int64_t blocks = (a.queries + kRows - 1) / kRows;
  const int64_t head = blockIdx.x % a.heads, kv = head / a.share;
  // Later blocks see more keys under a causal mask: they go first.
  const int q0 = static_cast<int>(blocks - 1 - blockIdx.x / a.heads) * kRows, row0 = q0 + group * 64;
  const float scale = static_cast<float>(a.scale) * kLog2E;
  const int last = q0 + kRows < a.queries ? q0 + kRows : a.queries;
  const int keys = Seen(a, last - 1), first = First(a, q0) / kStep * kStep;
  // The end of keys that all queries of the group see; any of them sees those from `any_from` up to `any_sees`.
  const int all_see = Seen(a, row0), any_from = First(a, row0);
  const int row_end = row0 + 64 < a.queries ? row0 + 64 : a.queries;
  const int any_sees = row0 < row_end ? Seen(a, row_end - 1) : 0;
  TileCopier<T, kStep, kDim, kThreads> ks(At<const T>(a.k.data) + OffsetOf(a.k.at, kv), a.k.row, first, a.keys, a.dim);
  TileCopier<T, kStep, kDim, kThreads> vs(At<const T>(a.v.data) + OffsetOf(a.v.at, kv), a.v.row, first, a.keys,
                                          a.value_dim);
  const auto copy = [&](int stage) {
    ks.Next(kv_tiles + stage * 2 * kTile);
    vs.Next(kv_tiles + stage * 2 * kTile + kTile);
    CommitCopies();
  };

  TileCopier<T, kRows, kDim, kThreads>(At<const T>(a.q.data) + OffsetOf(a.q.at, head), a.q.row, q0, a.queries, a.dim)
      .Next(q_tile);
  copy(0);
  GroupSums out[kDim / 64] = {};
  float max[2] = {-Inf(0.0f), -Inf(0.0f)}, sum[2] = {};

#pragma unroll 1
  for (int k0 = first, stage = 0; k0 < keys; k0 += kStep, stage ^= 1) {
    WaitForCopies<0>();
    ShowStores();
    __syncthreads();  // the tile is there, and the other is used up
    if (k0 + kStep < keys) copy(stage ^ 1);
    if (k0 >= any_sees || (kGroups > 1 && k0 + kStep <= any_from)) continue;
    const uint32_t k_tile = kv_tiles + stage * 2 * kTile, v_tile = k_tile + kTile;
    GroupSums s;
    BeginProducts();
    MultiplyRows<Products, kDim, kRows>(s, q_tile + group * 64 * kRowBytes, k_tile);
    CommitProducts();
    WaitForProducts<0>(s);

    const bool is_edge = k0 + kStep > all_see || (a.window != 0 && k0 < First(a, row_end - 1));
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float m = max[h];
      if (is_edge) {
        const int query = row0 + warp * 16 + lane / 4 + h * 8;
        const int seen = (query < a.queries ? Seen(a, query) : 0) - k0 - lane % 4 * 2;
        const int from = First(a, query) - k0 - lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
          for (int j = 0; j < 2; ++j)
            if (n * 8 + j >= seen || n * 8 + j < from) s[n * 4 + 2 * h + j] = -Inf(0.0f);
      }
#pragma unroll
      for (int n = 0; n < 8; ++n) m = fmaxf(m, fmaxf(s[n * 4 + 2 * h], s[n * 4 + 2 * h + 1]));
      m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, 1));
      m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, 2));
      // Rows that have seen no key yet: all weights are 0.
      const float top = m == -Inf(0.0f) ? 0.0f : m * scale;
      const float alpha = Exp2(fmaf(max[h], scale, -top));
      max[h] = m;
      float part = 0;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float w = Exp2(fmaf(s[n * 4 + 2 * h + j], scale, -top));
          s[n * 4 + 2 * h + j] = w;
          part += w;
        }
      }
      sum[h] = fmaf(sum[h], alpha, part);
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        out[n / 8][n % 8 * 4 + 2 * h] *= alpha;
        out[n / 8][n % 8 * 4 + 2 * h + 1] *= alpha;
      }
    }
    GroupRows weights[4];
    PackSums<Of>(s, weights);
    BeginProducts();
    AddProduct<Products, kDim>(out, weights, v_tile);
    CommitProducts();
#pragma unroll
    for (int n = 0; n < kDim / 64; ++n) WaitForProducts<0>(out[n]);
  }
  WaitForCopies<0>();

  float by[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float total = sum[h];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    by[h] = total == 0.0f ? 0.0f : 1.0f / total;
  }
  WriteRows<Of, kDim>(out, by, a.y, head, row0, a.queries, a.value_dim);
}

}  // namespace

// attention_hopper_bf16_64, ...
#define TSR_ATTENTION(name, of, products, dim, groups, blocks)                   \
  extern "C" __global__ void __launch_bounds__(groups* kGroupThreads, blocks)    \
      attention_hopper_##name##_##dim(const __grid_constant__ AttentionArgs a) { \
    Attend<of, products, dim, groups>(a);                                        \
  }
TSR_ATTENTION(f16, OfF16, GroupOfF16, 64, kHopperGroups64, 5)
TSR_ATTENTION(f16, OfF16, GroupOfF16, 128, kHopperGroups128, 2)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, 64, kHopperGroups64, 5)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, 128, kHopperGroups128, 2)

}  // namespace tessera::cuda
