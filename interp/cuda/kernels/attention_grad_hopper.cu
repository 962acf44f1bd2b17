// attention_grad of f16 and bf16 without a mask, on the tensor cores of sm_90a: the two kernels of
// attention_grad_mma.cu with warpgroups in the place of warps. What goes through shared memory is read there by the
// products themselves.
//
// Rows of all operands must be runs of memory that begin at multiples of 16 bytes.
#include "interp/cuda/attention_args.h"
#include "interp/cuda/kernels/attention_mask.cuh"
#include "interp/cuda/kernels/wgmma.cuh"

namespace tessera::cuda {
namespace {

constexpr float kLog2E = 0x1.715476p+0f;
constexpr int kStep = kHopperStep;

/// The sum of g y over each of the group's rows, by the lanes that hold sums of the row.
template <class Of>
__device__ __forceinline__ void SumRows(const AttentionGradArgs& a, int64_t head, int row, float (&sums)[2]) {
  using T = typename Of::Element;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const T* y = At<const T>(a.y.data) + OffsetOf(a.y.at, head);
  const T* g = At<const T>(a.g.data) + OffsetOf(a.g.at, head);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = row + warp * 16 + lane / 4 + h * 8;
    float sum = 0;
    if (r < a.forward.queries) {
      for (int c = lane % 4 * 8; c < a.forward.value_dim; c += 32) {
        const auto ys = *reinterpret_cast<const Pack<T, 8>*>(y + r * a.y.row + c);
        const auto gs = *reinterpret_cast<const Pack<T, 8>*>(g + r * a.g.row + c);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum = fmaf(Get<float>(ys.at[i]), Get<float>(gs.at[i]), sum);
      }
    }
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    sums[h] = sum;
  }
}

/// dq, and what the other kernel needs.
template <class Of, class Products, int kDim, int kGroups>
__device__ __forceinline__ void GradOfQueries(const AttentionGradArgs& args) {
  using T = typename Of::Element;
  constexpr int kRows = 64 * kGroups, kThreads = kGroups * kGroupThreads, kTile = kStep * kDim * 2;
  constexpr int kOwn = kRows * kDim * 2;
  const AttentionArgs& a = args.forward;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t q_tile = SharedAddress(shared), g_tile = q_tile + kOwn, kv_tiles = g_tile + kOwn;
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
  TileCopier<T, kRows, kDim, kThreads>(At<const T>(args.g.data) + OffsetOf(args.g.at, head), args.g.row, q0, a.queries,
                                       a.value_dim)
      .Next(g_tile);
  copy(0);
  float less[2];
  SumRows<Of>(args, head, row0, less);
  GroupSums dq[kDim / 64] = {};
  float max[2] = {-Inf(0.0f), -Inf(0.0f)}, sum[2] = {};

#pragma unroll 1
  for (int k0 = first, stage = 0; k0 < keys; k0 += kStep, stage ^= 1) {
    WaitForCopies<0>();
    ShowStores();
    __syncthreads();  // the tile is there, and the other is used up
    if (k0 + kStep < keys) copy(stage ^ 1);
    if (k0 >= any_sees || (kGroups > 1 && k0 + kStep <= any_from)) continue;
    const uint32_t k_tile = kv_tiles + stage * 2 * kTile, v_tile = k_tile + kTile;
    GroupSums s, e;
    BeginProducts();
    MultiplyRows<Products, kDim, kRows>(s, q_tile + group * 64 * kRowBytes, k_tile);
    CommitProducts();
    MultiplyRows<Products, kDim, kRows>(e, g_tile + group * 64 * kRowBytes, v_tile);
    CommitProducts();
    WaitForProducts<1>(s);

    const bool is_edge = k0 + kStep > all_see || (a.window != 0 && k0 < First(a, row_end - 1));
    float alphas[2];
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
      const float top = m == -Inf(0.0f) ? 0.0f : m * scale;
      alphas[h] = Exp2(fmaf(max[h], scale, -top));
      max[h] = m;
      float part = 0;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& x = s[n * 4 + 2 * h + j];
          x = Exp2(fmaf(x, scale, -top));
          part += x;
        }
      }
      sum[h] = fmaf(sum[h], alphas[h], part);
    }
    WaitForProducts<0>(e);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) s[n * 4 + 2 * h + j] *= e[n * 4 + 2 * h + j] - less[h];
      // Mostly no row of the warp has found a larger score.
      if (__any_sync(kAllLanes, alphas[h] != 1.0f)) {
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          dq[n / 8][n % 8 * 4 + 2 * h] *= alphas[h];
          dq[n / 8][n % 8 * 4 + 2 * h + 1] *= alphas[h];
        }
      }
    }
    GroupRows weights[4];
    PackSums<Of>(s, weights);
    BeginProducts();
    AddProduct<Products, kDim>(dq, weights, k_tile);
    CommitProducts();
#pragma unroll
    for (int n = 0; n < kDim / 64; ++n) WaitForProducts<0>(dq[n]);
  }
  WaitForCopies<0>();

  float by[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float total = sum[h];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    by[h] = total == 0.0f ? 0.0f : static_cast<float>(a.scale) / total;
    const int query = row0 + warp * 16 + lane / 4 + h * 8;
    if (query < a.queries && lane % 4 == 0) {
      const int64_t at = head * a.queries + query;
      // Of a query that sees nothing: so large that all its weights are 0.
      At<float>(args.logs)[at] = total == 0.0f ? Inf(0.0f) : fmaf(max[h], scale, log2f(total));
      At<float>(args.sums)[at] = less[h];
    }
  }
  WriteRows<Of, kDim>(dq, by, args.dq, head, row0, a.queries, a.dim);
}

/// dk and dv. Scores are computed the other way round: a row for each key.
template <class Of, class Products, int kDim, int kGroups>
__device__ __forceinline__ void GradOfKeys(const AttentionGradArgs& args) {
  using T = typename Of::Element;
  constexpr int kRows = 64 * kGroups, kThreads = kGroups * kGroupThreads, kTile = kStep * kDim * 2;
  constexpr int kOwn = kRows * kDim * 2;
  const AttentionArgs& a = args.forward;
  extern __shared__ __align__(1024) unsigned char shared[];
  // Keys, values, two stages of queries and gradients, and of each stage the logarithm and the sum of each query.
  const uint32_t k_tile = SharedAddress(shared), v_tile = k_tile + kOwn, stages = v_tile + kOwn;
  const uint32_t numbers = stages + 4 * kTile;
  const int group = kGroups == 1 ? 0 : threadIdx.x / kGroupThreads, warp = threadIdx.x / 32 % 4,
            lane = threadIdx.x % 32;
  const int64_t kv_heads = a.heads / a.share, kv = blockIdx.x % kv_heads;
  const int k0 = static_cast<int>(blockIdx.x / kv_heads) * kRows, row0 = k0 + group * 64;
  const float scale = static_cast<float>(a.scale) * kLog2E;
  // Queries that see a key of the block.
  const int first = FirstQuery(a, k0) / kStep * kStep, end = QueriesEnd(a, k0 + kRows - 1);
  // Over all heads that share the keys, one after the other.
  const int64_t head0 = kv * a.share, heads_end = first < end ? head0 + a.share : head0;
  using Copier = TileCopier<T, kStep, kDim, kThreads>;
  const auto queries_of = [&](int64_t head) {
    return Copier(At<const T>(a.q.data) + OffsetOf(a.q.at, head), a.q.row, first, a.queries, a.dim);
  };
  const auto grads_of = [&](int64_t head) {
    return Copier(At<const T>(args.g.data) + OffsetOf(args.g.at, head), args.g.row, first, a.queries, a.value_dim);
  };
  Copier qs = queries_of(head0), gs = grads_of(head0);
  int64_t next_head = head0;
  int next_q = first;
  /// The queries that come next. Those beyond the last are zeros, and so is then what they add.
  const auto copy = [&](int stage) {
    qs.Next(stages + stage * 2 * kTile);
    gs.Next(stages + stage * 2 * kTile + kTile);
    static_assert(kThreads >= 2 * kStep);
    if (threadIdx.x < 2 * kStep) {
      const int r = static_cast<int>(threadIdx.x) % kStep;
      const float* from = At<const float>(threadIdx.x < kStep ? args.logs : args.sums) + next_head * a.queries + next_q;
      CopyNumber(numbers + (stage * 2 * kStep + threadIdx.x) * 4, from + r, next_q + r < a.queries);
    }
    CommitCopies();
    next_q += kStep;
    if (next_q >= end) {
      next_q = first;
      if (++next_head < heads_end) qs = queries_of(next_head), gs = grads_of(next_head);
    }
  };

  TileCopier<T, kRows, kDim, kThreads>(At<const T>(a.k.data) + OffsetOf(a.k.at, kv), a.k.row, k0, a.keys, a.dim)
      .Next(k_tile);
  TileCopier<T, kRows, kDim, kThreads>(At<const T>(a.v.data) + OffsetOf(a.v.at, kv), a.v.row, k0, a.keys, a.value_dim)
      .Next(v_tile);
  if (head0 < heads_end)
    copy(0);
  else
    CommitCopies();
  GroupSums dk[kDim / 64] = {}, dv[kDim / 64] = {};

  int q0 = first;
  int64_t head = head0;
#pragma unroll 1
  for (int stage = 0; head < heads_end; stage ^= 1) {
    WaitForCopies<0>();
    ShowStores();
    __syncthreads();  // the tile is there, and the other is used up
    if (next_head < heads_end) copy(stage ^ 1);
    const int q = q0;
    q0 += kStep;
    if (q0 >= end) {
      q0 = first;
      ++head;
    }
    // None of these queries sees a key of the group.
    if (a.causal && (Seen(a, q + kStep - 1) <= row0 || First(a, q) >= row0 + 64)) continue;
    const uint32_t q_tile = stages + stage * 2 * kTile, g_tile = q_tile + kTile;
    const float* logs =
        reinterpret_cast<const float*>(shared + 2 * kOwn + 4 * kTile) + stage * 2 * kStep + lane % 4 * 2;
    GroupSums p, e;
    BeginProducts();
    MultiplyRows<Products, kDim, kRows>(p, k_tile + group * 64 * kRowBytes, q_tile);
    CommitProducts();
    MultiplyRows<Products, kDim, kRows>(e, v_tile + group * 64 * kRowBytes, g_tile);
    CommitProducts();
    WaitForProducts<1>(p);

    if (a.causal && (Seen(a, q) < row0 + 64 || First(a, q + kStep - 1) > row0)) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        // Query number c of the tile sees the key where c >= `from` and c < `to`.
        const int from = row0 + warp * 16 + lane / 4 + h * 8 - (a.keys - a.queries) - q - lane % 4 * 2;
        const int to = a.window == 0 ? kStep : from + static_cast<int>(a.window);
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
          for (int j = 0; j < 2; ++j)
            if (n * 8 + j < from || n * 8 + j >= to) p[n * 4 + 2 * h + j] = -Inf(0.0f);
      }
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float log = logs[n * 8 + j];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& x = p[n * 4 + 2 * h + j];
          x = Exp2(fmaf(x, scale, -log));
        }
      }
    }
    WaitForProducts<0>(e);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float less = logs[kStep + n * 8 + j];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& x = e[n * 4 + 2 * h + j];
          x = p[n * 4 + 2 * h + j] * (x - less);
        }
      }
    }
    GroupRows weights[4], grads[4];
    PackSums<Of>(p, weights);
    PackSums<Of>(e, grads);
    BeginProducts();
    AddProduct<Products, kDim>(dv, weights, g_tile);
    AddProduct<Products, kDim>(dk, grads, q_tile);
    CommitProducts();
#pragma unroll
    for (int n = 0; n < kDim / 64; ++n) {
      WaitForProducts<0>(dk[n]);
      WaitForProducts<0>(dv[n]);
    }
  }
  WaitForCopies<0>();

  const float by[2] = {static_cast<float>(a.scale), static_cast<float>(a.scale)}, one[2] = {1.0f, 1.0f};
  WriteRows<Of, kDim>(dk, by, args.dk, kv, row0, a.keys, a.dim);
  WriteRows<Of, kDim>(dv, one, args.dv, kv, row0, a.keys, a.value_dim);
}

}  // namespace

// attention_grad_hopper_queries_bf16_64, attention_grad_hopper_keys_f16_128, ...
#define TSR_GRAD_KERNEL(part, fn, name, of, products, dim, blocks)                                 \
  extern "C" __global__ void __launch_bounds__(kGroupThreads, blocks)                              \
      attention_grad_hopper_##part##_##name##_##dim(const __grid_constant__ AttentionGradArgs a) { \
    fn<of, products, dim, 1>(a);                                                                   \
  }
TSR_GRAD_KERNEL(queries, GradOfQueries, f16, OfF16, GroupOfF16, 64, 4)
TSR_GRAD_KERNEL(keys, GradOfKeys, f16, OfF16, GroupOfF16, 64, 3)
TSR_GRAD_KERNEL(queries, GradOfQueries, f16, OfF16, GroupOfF16, 128, 2)
TSR_GRAD_KERNEL(keys, GradOfKeys, f16, OfF16, GroupOfF16, 128, 2)
TSR_GRAD_KERNEL(queries, GradOfQueries, bf16, OfBF16, GroupOfBF16, 64, 4)
TSR_GRAD_KERNEL(keys, GradOfKeys, bf16, OfBF16, GroupOfBF16, 64, 3)
TSR_GRAD_KERNEL(queries, GradOfQueries, bf16, OfBF16, GroupOfBF16, 128, 2)
TSR_GRAD_KERNEL(keys, GradOfKeys, bf16, OfBF16, GroupOfBF16, 128, 2)

}  // namespace tessera::cuda
