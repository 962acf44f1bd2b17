// attention_grad of f16 and bf16 without a mask, on the tensor cores of sm_90a: attention_grad_hopper.cu with tiles
// that the copy engine brings, for operands it has maps of. Three kernels: sums of rows of g y; dq, and the logarithms
// of weights' sums; dk and dv.
//
// A block has two groups, which share the tiles that come, and a warp that only starts copies. Of more than 128 columns
// the registers have room for one of dk and dv: some blocks are for the one, others for the other.
#include "interp/cuda/attention_args.h"
#include "interp/cuda/kernels/attention_mask.cuh"
#include "interp/cuda/kernels/pieces.cuh"
#include "interp/cuda/kernels/wgmma.cuh"

namespace tessera::cuda {
namespace {

constexpr float kLog2E = 0x1.715476p+0f;
constexpr int kGroups = 2, kOwnRows = 64 * kGroups;
/// Registers of a thread that computes, and of one that brings tiles.
constexpr int kTaken = 240, kLeft = 24;

/// A score may be larger than the one that is taken off by so many powers of two before that is chosen anew.
template <class Of>
constexpr float kSlack = std::is_same_v<Of, OfF16> ? 4 : 60;

/// Sums of g y, by half warps. Queries that are not there have the sum 0, and a logarithm that makes all weights 0.
template <class Of>
__device__ __forceinline__ void SumRows(const AttentionGradPiecesArgs& m) {
  using T = typename Of::Element;
  const AttentionArgs& a = m.a.forward;
  const int lane = threadIdx.x % 16;
  const int64_t at = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) / 16;
  const int64_t head = at / m.pitch, row = at - head * m.pitch;
  if (head >= a.heads) return;
  float sum = 0;
  if (row < a.queries) {
    const T* y = reinterpret_cast<const T*>(m.a.y.data) + OffsetOf(m.a.y.at, head) + row * m.a.y.row;
    const T* g = reinterpret_cast<const T*>(m.a.g.data) + OffsetOf(m.a.g.at, head) + row * m.a.g.row;
    for (int c = lane * 8; c < a.value_dim; c += 128) {
      const auto ys = *reinterpret_cast<const Pack<T, 8>*>(y + c);
      const auto gs = *reinterpret_cast<const Pack<T, 8>*>(g + c);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum = fmaf(Get<float>(ys.at[i]), Get<float>(gs.at[i]), sum);
    }
  }
#pragma unroll
  for (int lanes = 8; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
  if (lane != 0) return;
  reinterpret_cast<float*>(m.a.sums)[at] = sum;
  if (row >= a.queries) reinterpret_cast<float*>(m.a.logs)[at] = Inf(0.0f);
}

/// Where the matrix of a head begins in a map.
struct Place {
  int inner, outer;
  __device__ __forceinline__ Place(uint32_t matrix, int32_t inners)
      : inner(static_cast<int>(matrix % inners)), outer(static_cast<int>(matrix / inners)) {}
};

/// kRows rows of kDim columns, from `row` on.
template <int kDim, int kRows>
__device__ __forceinline__ void BringTile(uint32_t to, const TileMap& map, uint32_t barrier, int row, Place at) {
#pragma unroll
  for (int c = 0; c < kDim; c += 64) CopyPiece(to + c * kRows * 2, &map, barrier, c, row, at.inner, at.outer);
}

/// The head and the first row of a block. Those that take longest come first, but only so many heads at a time as have
/// what they share in the cache.
struct Part {
  uint32_t head;
  int row;
};
__device__ __forceinline__ Part PartOf(uint32_t number, uint32_t heads, int rows, uint32_t together, bool last_first) {
  const uint32_t blocks = (rows + kOwnRows - 1) / kOwnRows, first = number / (blocks * together) * together;
  const uint32_t rest = number - first * blocks, now = heads - first < together ? heads - first : together;
  const uint32_t block = rest / now;
  return {first + (rest - block * now), static_cast<int>(last_first ? blocks - 1 - block : block) * kOwnRows};
}

template <class Ring>
__device__ __forceinline__ void Release(Ring& ring) {
  if (threadIdx.x % 32 == 0) Arrive(ring.empty());
  ring.Next();
}

/// Rows of the group, through the tile of 64 rows there, which is not read any more.
template <class Of, int kDim>
__device__ __forceinline__ void WriteByPieces(const WideSums<kDim>& sums, const float (&by)[2], uint32_t tile,
                                              const TileMap& map, int row, int head, int cols, int group) {
  MeetAt(1 + group, kGroupThreads);
  StoreWide<Of, kDim>(sums, by, tile);
  ShowStores();
  MeetAt(1 + group, kGroupThreads);
  if (threadIdx.x % kGroupThreads != 0) return;
#pragma unroll
  for (int c = 0; c < kDim; c += 64)
    if (c < cols) StorePiece(&map, tile + c * kRowBytes, c, row, head, 0);
  CommitStores();
}

/// The weights are computed before what follows waits.
template <int kColumns>
__device__ __forceinline__ void PinSums(WideSums<kColumns>& s) {
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) asm volatile("" : "+f"(s[i]));
}

template <class Of, int kColumns>
__device__ __forceinline__ void PackWide(const WideSums<kColumns>& s, GroupRows (&rows)[kColumns / 16]) {
#pragma unroll
  for (int d = 0; d < kColumns / 16; ++d)
#pragma unroll
    for (int i = 0; i < 4; ++i) rows[d][i] = Of::Pack2(s[d * 8 + i * 2], s[d * 8 + i * 2 + 1]);
}

/// dq, and the logarithms.
template <class Of, class Products, bool kWindow, int kDim, int kKeys, int kStages, int kStages2>
__device__ __forceinline__ void GradOfQueries(const AttentionGradPiecesArgs& m) {
  constexpr int kOwn = 64 * kDim * 2, kTile = kKeys * kDim * 2;
  const AttentionArgs& a = m.a.forward;
  extern __shared__ __align__(1024) unsigned char memory[];
  // Queries of the groups, their gradients, tiles of keys, tiles of values, barriers.
  const uint32_t shared = SharedAddress(memory), g_tiles = shared + kGroups * kOwn, k_tiles = g_tiles + kGroups * kOwn;
  const uint32_t v_tiles = k_tiles + kStages * kTile, own_full = v_tiles + kStages2 * kTile;
  Ring<kStages> ks = {own_full + 16};
  Ring<kStages2> vs = {ks.barriers + Ring<kStages>::kBytes};
  if (threadIdx.x == 0) {
    InitBarrier(own_full, 1);
    ks.Init(4 * kGroups);
    vs.Init(4 * kGroups);
    ShowBarriers();
  }
  __syncthreads();
  const Part part = PartOf(blockIdx.x, static_cast<uint32_t>(a.heads), a.queries, m.together, true);
  const int last = part.row + kOwnRows < a.queries ? part.row + kOwnRows : a.queries;
  // If there are tiles, the first is one of them.
  const int tiles = (Seen(a, last - 1) + kKeys - 1) / kKeys, first = kWindow ? First(a, part.row) / kKeys : 0;
  if (threadIdx.x >= kGroups * kGroupThreads) {
    GiveRegisters<kLeft>();
    if (threadIdx.x != kGroups * kGroupThreads) return;
    const Place q_at(part.head, m.inner_q), g_at(part.head, m.inner_g);
    const uint32_t kv = part.head / static_cast<uint32_t>(a.share);
    const Place k_at(kv, m.inner_k), v_at(kv, m.inner_v);
    ArriveExpecting(own_full, 2 * kGroups * kOwn);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      BringTile<kDim, 64>(shared + g * kOwn, m.q, own_full, part.row + g * 64, q_at);
      BringTile<kDim, 64>(g_tiles + g * kOwn, m.g, own_full, part.row + g * 64, g_at);
    }
#pragma unroll 1
    for (int tile = tiles - 1; tile >= first; --tile) {
      WaitAt(ks.empty(), ks.parity ^ 1);
      ArriveExpecting(ks.full(), kTile);
      BringTile<kDim, kKeys>(k_tiles + ks.stage * kTile, m.k, ks.full(), tile * kKeys, k_at);
      ks.Next();
      WaitAt(vs.empty(), vs.parity ^ 1);
      ArriveExpecting(vs.full(), kTile);
      BringTile<kDim, kKeys>(v_tiles + vs.stage * kTile, m.v, vs.full(), tile * kKeys, v_at);
      vs.Next();
    }
    return;
  }
  TakeRegisters<kTaken>();
  using Scores = Wide<Products, kKeys>;
  using Outs = Wide<Products, kDim>;
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const float scale = static_cast<float>(a.scale) * kLog2E;
  const uint32_t q_tile = shared + group * kOwn, g_tile = g_tiles + group * kOwn;
  const int row0 = part.row + group * 64, row = row0 + warp * 16 + lane / 4;
  const int64_t numbers = int64_t{part.head} * m.pitch + row;
  float less[2], max[2] = {-Inf(0.0f), -Inf(0.0f)}, sum[2] = {};
#pragma unroll
  for (int h = 0; h < 2; ++h) less[h] = reinterpret_cast<const float*>(m.a.sums)[numbers + h * 8];
  // All queries of the group see the keys from `all_from` up to `all_see`.
  const int all_see = Seen(a, row0), all_from = kWindow ? First(a, row0 + 64 < last ? row0 + 63 : last - 1) : 0;
  WideSums<kDim> dq = {};
  WideSums<kKeys> s, e;
  GroupRows weights[kKeys / 16];
  Ring<kStages> old = ks;  // the tile of keys that `weights` are of

  const auto step = [&](int tile, auto is_first) {
    constexpr bool kFirst = decltype(is_first)::value;
    uint32_t own_q = q_tile, own_g = g_tile;
    // Where each of their columns begins is computed anew: there are no registers to remember it.
    if constexpr (kDim > 128) asm volatile("" : "+r"(own_q), "+r"(own_g));
    WaitAt(ks.full(), ks.parity);
    MeetAt(3 + group, 2 * kGroupThreads);  // groups start products in turns
    BeginProducts();
    MultiplyRows<Products, kDim, 64, kKeys>(s, own_q, k_tiles + ks.stage * kTile);
    CommitProducts();
    ks.Next();
    WaitAt(vs.full(), vs.parity);
    BeginProducts();
    MultiplyRows<Products, kDim, 64, kKeys>(e, own_g, v_tiles + vs.stage * kTile);
    CommitProducts();
    if constexpr (!kFirst) {
      AddWide<Products, kDim, kKeys>(dq, weights, k_tiles + old.stage * kTile);
      CommitProducts();
    }
    PassBy(4 - group, 2 * kGroupThreads);
    Scores::template Wait<kFirst ? 1 : 2>(s);
    const int k0 = tile * kKeys;
    if (k0 + kKeys > all_see || (kWindow && k0 < all_from)) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int seen = Seen(a, row + h * 8) - k0 - lane % 4 * 2;
        const int from = kWindow ? First(a, row + h * 8) - k0 - lane % 4 * 2 : 0;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int j = 0; j < 2; ++j)
            if (n * 8 + j >= seen || (kWindow && n * 8 + j < from)) s[n * 4 + 2 * h + j] = -Inf(0.0f);
      }
    }
    float most[2], alphas[2] = {1.0f, 1.0f};
    bool fits = true;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float top[2] = {s[2 * h], s[2 * h + 1]};
#pragma unroll
      for (int n = 1; n < kKeys / 8; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) top[j] = fmaxf(top[j], s[n * 4 + 2 * h + j]);
      most[h] = fmaxf(top[0], top[1]);
      fits &= most[h] * scale <= (max[h] == -Inf(0.0f) ? max[h] : fmaf(max[h], scale, kSlack<Of>));
    }
    const bool is_larger = !__all_sync(kAllLanes, fits);
    if (is_larger) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        most[h] = fmaxf(most[h], __shfl_xor_sync(kAllLanes, most[h], 1));
        most[h] = fmaxf(most[h], __shfl_xor_sync(kAllLanes, most[h], 2));
        most[h] = fmaxf(most[h], max[h]);
        alphas[h] = most[h] == -Inf(0.0f) ? 1.0f : Exp2((max[h] - most[h]) * scale);
        max[h] = most[h];
        sum[h] *= alphas[h];
      }
    }
    const float top[2] = {max[0] == -Inf(0.0f) ? 0.0f : max[0] * scale, max[1] == -Inf(0.0f) ? 0.0f : max[1] * scale};
    float sums[2][2] = {};
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& x = s[n * 4 + i];
        x = Exp2(fmaf(x, scale, -top[i / 2]));
        sums[i / 2][i % 2] += x;
      }
    }
    sum[0] += sums[0][0] + sums[0][1];
    sum[1] += sums[1][0] + sums[1][1];
    PinSums<kKeys>(s);
    // A wait follows where a block of instructions begins: within one the assembler would put it before the weights.
    // That of the first queries is over.
    WaitAt(own_full, 0);
    Scores::template Wait<kFirst ? 0 : 1>(e);
    Release(vs);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n * 4 + i] *= e[n * 4 + i] - less[i / 2];
    if constexpr (!kFirst) {
      PinSums<kKeys>(s);
      // As above. It is not in the branch: that each warp takes for itself, and all of a group have to wait at the same
      // instruction.
      WaitAt(own_full, 0);
      Outs::template Wait<0>(dq);
      if (is_larger) {
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) dq[n * 4 + i] *= alphas[i / 2];
      }
      Release(old);
    }
    PackWide<Of, kKeys>(s, weights);
  };
  WaitAt(own_full, 0);
  if (group == 1) PassBy(3, 2 * kGroupThreads);
  if (tiles > 0) {
    step(tiles - 1, std::true_type());
#pragma unroll 1
    for (int tile = tiles - 2; tile >= first; --tile) step(tile, std::false_type());
    BeginProducts();
    AddWide<Products, kDim, kKeys>(dq, weights, k_tiles + old.stage * kTile);
    CommitProducts();
    Outs::template Wait<0>(dq);
  }
  float by[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float total = sum[h];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    by[h] = total == 0.0f ? 0.0f : static_cast<float>(a.scale) / total;
    // Of a query that sees nothing: so large that all its weights are 0.
    if (row + h * 8 < a.queries && lane % 4 == 0)
      reinterpret_cast<float*>(m.a.logs)[numbers + h * 8] =
          total == 0.0f ? Inf(0.0f) : fmaf(max[h], scale, log2f(total));
  }
  WriteByPieces<Of, kDim>(dq, by, q_tile, m.results[0], row0, part.head, a.dim, group);
  if (threadIdx.x % kGroupThreads == 0) WaitForStores();
}

/// dk and dv, or one of them. Scores are computed the other way round: a row for each key.
template <class Of, class Products, bool kWindow, int kDim, int kQueries, int kStages, bool kKeys = true,
          bool kValues = true>
__device__ __forceinline__ void GradOfKeys(const AttentionGradPiecesArgs& m, uint32_t number) {
  constexpr int kOwn = 64 * kDim * 2, kTile = kQueries * kDim * 2, kNumbers = kQueries * 4;
  const AttentionArgs& a = m.a.forward;
  extern __shared__ __align__(1024) unsigned char memory[];
  // Keys of the groups, their values, tiles of queries, of gradients, the logarithms and sums of each tile, barriers.
  const uint32_t shared = SharedAddress(memory), v_tiles = shared + kGroups * kOwn, q_tiles = v_tiles + kGroups * kOwn;
  const uint32_t g_tiles = q_tiles + kStages * kTile, numbers = g_tiles + kStages * kTile;
  const uint32_t own_full = numbers + kStages * 2 * kNumbers;
  Ring<kStages> ring = {own_full + 16};
  if (threadIdx.x == 0) {
    InitBarrier(own_full, 1);
    ring.Init(4 * kGroups);
    ShowBarriers();
  }
  __syncthreads();
  const Part part = PartOf(number, static_cast<uint32_t>(a.heads / a.share), a.keys, m.together, false);
  // The tiles of queries that see a key of the block.
  int first = a.causal ? part.row + a.queries - a.keys : 0;
  first = first < 0 ? 0 : first / kQueries;
  const int end = kWindow ? QueriesEnd(a, part.row + kOwnRows - 1) : a.queries;
  const int tiles = (end + kQueries - 1) / kQueries;
  const uint32_t head0 = part.head * static_cast<uint32_t>(a.share), heads_end = head0 + static_cast<uint32_t>(a.share);
  if (threadIdx.x >= kGroups * kGroupThreads) {
    GiveRegisters<kLeft>();
    if (threadIdx.x != kGroups * kGroupThreads) return;
    const Place k_at(part.head, m.inner_k), v_at(part.head, m.inner_v);
    ArriveExpecting(own_full, (kKeys ? 2 : 1) * kGroups * kOwn);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      BringTile<kDim, 64>(shared + g * kOwn, m.k, own_full, part.row + g * 64, k_at);
      if (kKeys) BringTile<kDim, 64>(v_tiles + g * kOwn, m.v, own_full, part.row + g * 64, v_at);
    }
#pragma unroll 1
    for (uint32_t head = head0; head < heads_end; ++head) {
      const Place q_at(head, m.inner_q), g_at(head, m.inner_g);
#pragma unroll 1
      for (int tile = first; tile < tiles; ++tile) {
        WaitAt(ring.empty(), ring.parity ^ 1);
        ArriveExpecting(ring.full(), 2 * kTile + 2 * kNumbers);
        BringTile<kDim, kQueries>(q_tiles + ring.stage * kTile, m.q, ring.full(), tile * kQueries, q_at);
        BringTile<kDim, kQueries>(g_tiles + ring.stage * kTile, m.g, ring.full(), tile * kQueries, g_at);
        const uint32_t to = numbers + ring.stage * 2 * kNumbers;
        const uint64_t from = (uint64_t{head} * m.pitch + tile * kQueries) * 4;
        CopyRun(to, m.a.logs + from, kNumbers, ring.full());
        CopyRun(to + kNumbers, m.a.sums + from, kNumbers, ring.full());
        ring.Next();
      }
    }
    return;
  }
  TakeRegisters<kTaken>();
  using Scores = Wide<Products, kQueries>;
  using Outs = Wide<Products, kDim>;
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const float scale = static_cast<float>(a.scale) * kLog2E;
  const uint32_t k_tile = shared + group * kOwn, v_tile = v_tiles + group * kOwn;
  const int row0 = part.row + group * 64;
  WideSums<kDim> dk = {}, dv = {};
  WideSums<kQueries> p, e;
  GroupRows weights[kQueries / 16], grads[kQueries / 16];

  WaitAt(own_full, 0);
  int left = first < tiles ? (tiles - first) * static_cast<int>(a.share) : 0, tile = first;
#pragma unroll 1
  for (; left > 0; --left) {
    const uint32_t q_tile = q_tiles + ring.stage * kTile, g_tile = g_tiles + ring.stage * kTile;
    const float* logs =
        reinterpret_cast<const float*>(memory + (numbers - shared)) + ring.stage * 2 * kQueries + lane % 4 * 2;
    WaitAt(ring.full(), ring.parity);
    BeginProducts();
    MultiplyRows<Products, kDim, 64, kQueries>(p, k_tile, q_tile);
    CommitProducts();
    if constexpr (kKeys) {
      MultiplyRows<Products, kDim, 64, kQueries>(e, v_tile, g_tile);
      CommitProducts();
    }
    Scores::template Wait<kKeys ? 1 : 0>(p);
    const int q0 = tile * kQueries;
    if (++tile == tiles) tile = first;
    if (a.causal && (Seen(a, q0) < row0 + 64 || (kWindow && First(a, q0 + kQueries - 1) > row0))) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        // Query number c of the tile sees the key where c >= `from`, and c < `to`.
        const int from = row0 + warp * 16 + lane / 4 + h * 8 - (a.keys - a.queries) - q0 - lane % 4 * 2;
        const int to = kWindow ? from + static_cast<int>(a.window) : 0;
#pragma unroll
        for (int n = 0; n < kQueries / 8; ++n)
#pragma unroll
          for (int j = 0; j < 2; ++j)
            if (n * 8 + j < from || (kWindow && n * 8 + j >= to)) p[n * 4 + 2 * h + j] = -Inf(0.0f);
      }
    }
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n) {
      const float2 log = *reinterpret_cast<const float2*>(logs + n * 8);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        p[n * 4 + 2 * h] = Exp2(fmaf(p[n * 4 + 2 * h], scale, -log.x));
        p[n * 4 + 2 * h + 1] = Exp2(fmaf(p[n * 4 + 2 * h + 1], scale, -log.y));
      }
    }
    PinSums<kQueries>(p);
    // A wait follows where a block of instructions begins: within one the assembler would put it before the weights.
    // That for the keys is over.
    WaitAt(own_full, 0);
    if constexpr (kKeys) Scores::template Wait<0>(e);
    if constexpr (kValues) {
      PackWide<Of, kQueries>(p, weights);
      BeginProducts();
      AddWide<Products, kDim, kQueries>(dv, weights, g_tile);
      CommitProducts();
    }
    if constexpr (kKeys) {
#pragma unroll
      for (int n = 0; n < kQueries / 8; ++n) {
        const float2 less = *reinterpret_cast<const float2*>(logs + kQueries + n * 8);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          e[n * 4 + 2 * h] = p[n * 4 + 2 * h] * (e[n * 4 + 2 * h] - less.x);
          e[n * 4 + 2 * h + 1] = p[n * 4 + 2 * h + 1] * (e[n * 4 + 2 * h + 1] - less.y);
        }
      }
      PackWide<Of, kQueries>(e, grads);
      BeginProducts();
      AddWide<Products, kDim, kQueries>(dk, grads, q_tile);
      CommitProducts();
    }
    if constexpr (kValues) Outs::template Wait<0>(dv);
    if constexpr (kKeys) Outs::template Wait<0>(dk);
    Release(ring);
  }
  const float by[2] = {static_cast<float>(a.scale), static_cast<float>(a.scale)}, one[2] = {1.0f, 1.0f};
  if constexpr (kKeys) WriteByPieces<Of, kDim>(dk, by, k_tile, m.results[0], row0, part.head, a.dim, group);
  if constexpr (kValues) WriteByPieces<Of, kDim>(dv, one, v_tile, m.results[1], row0, part.head, a.value_dim, group);
  if (threadIdx.x % kGroupThreads == 0) WaitForStores();
}

template <class Of, class Products, bool kWindow, int kWhich>
__device__ __forceinline__ void GradOfBlock(const AttentionGradPiecesArgs& m) {
  constexpr GradPiecesBlock kBlock = kGradKeysBlocks[kWhich];
  constexpr int kDim = kBlock.columns, kQueries = kBlock.rows, kStages = kBlock.stages;
  if constexpr (kDim <= 128) {
    GradOfKeys<Of, Products, kWindow, kDim, kQueries, kStages>(m, blockIdx.x);
  } else {
    // Those of keys have more to do: they go first.
    const uint32_t half = gridDim.x / 2;
    if (blockIdx.x < half)
      GradOfKeys<Of, Products, kWindow, kDim, kQueries, kStages, true, false>(m, blockIdx.x);
    else
      GradOfKeys<Of, Products, kWindow, kDim, kQueries, kStages, false, true>(m, blockIdx.x - half);
  }
}

}  // namespace

// attention_grad_pieces_sums_bf16, attention_grad_pieces_queries_bf16_64, attention_grad_pieces_keys_f16_128_window,
// ...
#define TSR_GRAD_KERNELS(name, of, products, which, suffix, window)                                        \
  extern "C" __global__ void __launch_bounds__(GradPiecesBlock::threads(), 1)                              \
      attention_grad_pieces_queries_##name##_##suffix(const __grid_constant__ AttentionGradPiecesArgs m) { \
    GradOfQueries<of, products, window, kGradQueriesBlocks[which].columns, kGradQueriesBlocks[which].rows, \
                  kGradQueriesBlocks[which].stages, kGradQueriesBlocks[which].stages_2>(m);                \
  }                                                                                                        \
  extern "C" __global__ void __launch_bounds__(GradPiecesBlock::threads(), 1)                              \
      attention_grad_pieces_keys_##name##_##suffix(const __grid_constant__ AttentionGradPiecesArgs m) {    \
    GradOfBlock<of, products, window, which>(m);                                                           \
  }
#define TSR_GRAD(name, of, products, which, dim)          \
  TSR_GRAD_KERNELS(name, of, products, which, dim, false) \
  TSR_GRAD_KERNELS(name, of, products, which, dim##_window, true)
TSR_GRAD(f16, OfF16, GroupOfF16, 0, 64)
TSR_GRAD(f16, OfF16, GroupOfF16, 1, 128)
TSR_GRAD(f16, OfF16, GroupOfF16, 2, 192)
TSR_GRAD(f16, OfF16, GroupOfF16, 3, 256)
TSR_GRAD(bf16, OfBF16, GroupOfBF16, 0, 64)
TSR_GRAD(bf16, OfBF16, GroupOfBF16, 1, 128)
TSR_GRAD(bf16, OfBF16, GroupOfBF16, 2, 192)
TSR_GRAD(bf16, OfBF16, GroupOfBF16, 3, 256)
extern "C" __global__ void attention_grad_pieces_sums_f16(const __grid_constant__ AttentionGradPiecesArgs m) {
  SumRows<OfF16>(m);
}
extern "C" __global__ void attention_grad_pieces_sums_bf16(const __grid_constant__ AttentionGradPiecesArgs m) {
  SumRows<OfBF16>(m);
}

}  // namespace tessera::cuda
