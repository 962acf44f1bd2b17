// attention of f16 and bf16 on the tensor cores of sm_90a: attention_hopper.cu with tiles that the copy engine brings,
// for operands it has maps of. attention_pieces_hopper.cu is without a mask, attention_pieces_mask_hopper.cu with one,
// attention_pieces_window_hopper.cu with and without one, under a window.
//
// A block stays on its multiprocessor and takes one part of the work after the other: 64 queries of a head for each of
// its groups. One warp only takes parts and starts copies: of queries, and of tiles of keys and values. In the groups
// the product of queries with the next tile of keys, be it of the next part, and the one of weights and values go on
// while the tile before is turned into weights. Groups take turns in starting products, so that one has the tensor
// cores while the others compute weights.
//
// Tiles come from the last to the first: only the first few of them can have keys that some query does not see. Under a
// window it is the last few, too, and those before are left out.
#ifndef TESSERA_INTERP_CUDA_KERNELS_ATTENTION_PIECES_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_ATTENTION_PIECES_CUH_

#include "interp/cuda/attention_args.h"
#include "interp/cuda/kernels/attention_mask.cuh"
#include "interp/cuda/kernels/pieces.cuh"
#include "interp/cuda/kernels/wgmma.cuh"

namespace tessera::cuda {
namespace {

constexpr float kLog2E = 0x1.715476p+0f;
constexpr uint32_t kNoPart = ~0u;

/// What a row's weights of one tile may sum up to in one thread before the row's largest score is looked for anew.
/// Weights are rounded to the dtype of values; their sums have the range of f32 in any case.
template <class Of>
constexpr float kMostWeight = std::is_same_v<Of, OfF16> ? 0x1p14f : 0x1p60f;

/// Parts that blocks have taken beyond their first. It is 0 between launches: all that a device runs is in order.
__device__ uint32_t taken;

/// The number of the next part. The last one who asks leaves everything as it was.
__device__ __forceinline__ uint32_t TakePart(uint32_t parts) {
  const uint32_t n = atomicAdd(&taken, 1);
  if (n == parts - 1) taken = 0;
  return n + gridDim.x < parts ? n + gridDim.x : kNoPart;
}

struct Part {
  uint32_t head;
  int q0;     // its first query
  int tiles;  // of keys that the last of its queries sees; -1: there is no part
};

/// Under a causal mask the longest parts come first, but only so many heads at a time as have their keys and values in
/// the cache. Where two parts are there at a time each has a tile, if only of keys that nobody sees: a group writes a
/// part when it knows the next one with tiles, and one without would be in the way of that.
template <int kRows, int kKeys, int kPartStages>
__device__ __forceinline__ Part PartAt(const AttentionPiecesArgs& m, uint32_t number) {
  const uint32_t blocks = (m.a.queries + kRows - 1) / kRows, heads = static_cast<uint32_t>(m.a.heads);
  const uint32_t together = static_cast<uint32_t>(m.together), first = number / (blocks * together) * together;
  const uint32_t rest = number - first * blocks, now = heads - first < together ? heads - first : together;
  const uint32_t block = rest / now;
  Part part;
  part.head = first + (rest - block * now);
  part.q0 = static_cast<int>(blocks - 1 - block) * kRows;
  const int last = part.q0 + kRows < m.a.queries ? part.q0 + kRows : m.a.queries;
  part.tiles = (Seen(m.a, last - 1) + kKeys - 1) / kKeys;
  if (kPartStages > 1 && part.tiles == 0) part.tiles = 1;
  return part;
}

/// The first tile of a part whose first query is q0. If the part has tiles, it is one of them.
template <bool kWindow, int kKeys>
__device__ __forceinline__ int FirstTile(const AttentionArgs& a, int q0) {
  return kWindow ? First(a, q0) / kKeys : 0;
}

/// Shared memory: queries of each group, then tiles of keys, then of values, then barriers, then the parts that the
/// queries are of.
template <int kDim, int kGroups, int kKeys, int kStages, int kPartStages>
struct Plan {
  static constexpr int kRows = 64 * kGroups, kTile = kKeys * kDim * 2, kOwn = 64 * kDim * 2;
  static constexpr int kK = kPartStages * kGroups * kOwn, kV = kK + kStages * kTile, kBarriers = kV + kStages * kTile;
  static constexpr int kParts = kBarriers + 2 * Ring<kStages>::kBytes + kGroups * Ring<kPartStages>::kBytes;
  static constexpr int kBytes = kParts + kGroups * kPartStages * 16;

  uint32_t shared;
  __device__ __forceinline__ uint32_t q_tile(int group, int stage) const {
    return shared + (group * kPartStages + stage) * kOwn;
  }
  __device__ __forceinline__ uint32_t k_tile(int stage) const { return shared + kK + stage * kTile; }
  __device__ __forceinline__ uint32_t v_tile(int stage) const { return shared + kV + stage * kTile; }
  __device__ __forceinline__ uint32_t part(int group, int stage) const {
    return shared + kParts + (group * kPartStages + stage) * 16;
  }
  __device__ __forceinline__ Ring<kStages> keys() const { return {shared + kBarriers}; }
  __device__ __forceinline__ Ring<kStages> values() const { return {shared + kBarriers + Ring<kStages>::kBytes}; }
  __device__ __forceinline__ Ring<kPartStages> queries(int group) const {
    return {shared + kBarriers + 2 * Ring<kStages>::kBytes + group * Ring<kPartStages>::kBytes};
  }
};

template <int kWhich>
using PlanOf = Plan<kPiecesBlocks[kWhich].columns, kPiecesBlocks[kWhich].groups, kPiecesBlocks[kWhich].keys,
                    kPiecesBlocks[kWhich].stages, kPiecesBlocks[kWhich].parts>;

/// What the thread does that starts the copies.
template <bool kWindow, int kDim, int kGroups, int kKeys, int kStages, int kPartStages>
__device__ __forceinline__ void Bring(const AttentionPiecesArgs& m,
                                      Plan<kDim, kGroups, kKeys, kStages, kPartStages> plan) {
  using P = decltype(plan);
  const uint32_t blocks = (m.a.queries + P::kRows - 1) / P::kRows, parts = blocks * static_cast<uint32_t>(m.a.heads);
  Ring<kStages> ks = plan.keys(), vs = plan.values();
  Ring<kPartStages> qs = plan.queries(0);  // of all groups alike
  const auto part_at = [&](uint32_t number) {
    return number == kNoPart ? Part{0, 0, -1} : PartAt<P::kRows, kKeys, kPartStages>(m, number);
  };
  const auto bring_queries = [&](const Part& part) {
    const uint32_t q1 = part.head / m.inner_q, q0 = part.head - q1 * m.inner_q;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const uint32_t full = qs.full() + g * Ring<kPartStages>::kBytes;
      WaitAt(qs.empty() + g * Ring<kPartStages>::kBytes, qs.parity ^ 1);
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, 0};" ::"r"(plan.part(g, qs.stage)), "r"(part.head),
                   "r"(part.q0), "r"(part.tiles)
                   : "memory");
      if (part.tiles <= 0) {
        Arrive(full);
        continue;
      }
      ArriveExpecting(full, P::kOwn);
#pragma unroll
      for (int c = 0; c < kDim; c += 64)
        CopyPiece(plan.q_tile(g, qs.stage) + c * kRowBytes, &m.q, full, c, part.q0 + g * 64, q0, q1);
    }
    qs.Next();
  };
  Part part = part_at(blockIdx.x);
  if constexpr (kPartStages > 1) bring_queries(part);
#pragma unroll 1
  while (part.tiles >= 0) {
    const uint32_t kv = part.head / static_cast<uint32_t>(m.a.share);
    const uint32_t k1 = kv / m.inner_k, k0 = kv - k1 * m.inner_k, v1 = kv / m.inner_v, v0 = kv - v1 * m.inner_v;
    const int tiles = part.tiles, first = FirstTile<kWindow, kKeys>(m.a, part.q0);
    bool is_next_known = false;
    // Keys are a tile ahead of values.
#pragma unroll 1
    for (int tile = tiles - 1; tile >= first - 1; --tile) {
      if (tile >= first) {
        WaitAt(ks.empty(), ks.parity ^ 1);
        ArriveExpecting(ks.full(), P::kTile);
#pragma unroll
        for (int c = 0; c < kDim; c += 64)
          CopyPiece(plan.k_tile(ks.stage) + c * kKeys * 2, &m.k, ks.full(), c, tile * kKeys, k0, k1);
        ks.Next();
      }
      // The only memory of queries is free once all tiles of the part before are used. All of them are on their way.
      if (kPartStages == 1 && tile == tiles - 1) bring_queries(part);
      if (tile < tiles - 1) {
        WaitAt(vs.empty(), vs.parity ^ 1);
        ArriveExpecting(vs.full(), P::kTile);
#pragma unroll
        for (int c = 0; c < kDim; c += 64)
          CopyPiece(plan.v_tile(vs.stage) + c * kKeys * 2, &m.v, vs.full(), c, (tile + 1) * kKeys, v0, v1);
        vs.Next();
      }
      // The queries of the next part come long before they are needed, but not before the first tiles of this one.
      if (kPartStages > 1 && !is_next_known && tile <= tiles - 3) {
        part = part_at(TakePart(parts));
        bring_queries(part);
        is_next_known = true;
      }
    }
    if (!is_next_known) {
      part = part_at(TakePart(parts));
      if constexpr (kPartStages > 1) bring_queries(part);
    }
  }
  if constexpr (kPartStages == 1) bring_queries(part);
}

/// Of the thread's two rows: the score that is taken off all others, and the sum of its own weights.
struct Rows {
  float max[2] = {-Inf(0.0f), -Inf(0.0f)};
  float sum[2] = {};
};

/// Keys from `seen` on get -inf. It is counted from the thread's first column.
template <int kKeys>
__device__ __forceinline__ void Hide(WideSums<kKeys>& s, const int (&seen)[2]) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        if (n * 8 + j >= seen[h]) s[n * 4 + 2 * h + j] = -Inf(0.0f);
}

/// The same for keys before `from`.
template <int kKeys>
__device__ __forceinline__ void HideBefore(WideSums<kKeys>& s, const int (&from)[2]) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        if (n * 8 + j < from[h]) s[n * 4 + 2 * h + j] = -Inf(0.0f);
}

/// What the mask adds to a thread's scores: two neighbours of a row at a time, in the order of the scores. It is asked
/// for before the scores are there, as far as it needs no more registers than the weights later on: of f32 that is for
/// the first half of the keys.
template <class Of, int kKeys>
class MaskWords {
 public:
  static_assert(kKeys % 16 == 0);
  /// `row`: the thread's first one.
  __device__ __forceinline__ void BeginPart(const AttentionArgs& a, uint32_t head, int row) {
    const int64_t at = OffsetOf(a.mask.at, head) + OwnColumn();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row + h * 8 < a.queries ? row + h * 8 : a.queries - 1;
      rows_[h] = a.mask.data + static_cast<Address>(at + r * a.mask.row) * Bytes(a);
    }
  }
  __device__ __forceinline__ void Ask(const AttentionArgs& a, int key) {
    if (Bytes(a) == 1)
      Read<1, 0, kKeys>(a, key);
    else if (Bytes(a) == 2)
      Read<2, 0, kKeys>(a, key);
    else
      Read<4, 0, kKeys / 2>(a, key);
  }
  /// `by`: what a score of 1 was before it was scaled, as these are.
  __device__ __forceinline__ void Apply(const AttentionArgs& a, int key, float by, WideSums<kKeys>& s) {
    if (Bytes(a) == 1) {
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          if ((words_[i] & (0xffu << (8 * j))) == 0) s[i * 2 + j] = -Inf(0.0f);
    } else if (Bytes(a) == 2) {
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i) {
        using T = typename Of::Element;
        s[i * 2] = fmaf(Get<float>(T{static_cast<uint16_t>(words_[i])}), by, s[i * 2]);
        s[i * 2 + 1] = fmaf(Get<float>(T{static_cast<uint16_t>(words_[i] >> 16)}), by, s[i * 2 + 1]);
      }
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (half == 1) Read<4, kKeys / 2, kKeys>(a, key);
#pragma unroll
        for (int i = 0; i < kKeys / 4; ++i) {
          float& x = s[half * (kKeys / 4) + i];
          x = fmaf(__uint_as_float(words_[i]), by, x);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ int OwnColumn() { return threadIdx.x % 4 * 2; }
  static __device__ __forceinline__ int Bytes(const AttentionArgs& a) {
    const DType dtype = static_cast<DType>(a.mask_dtype);
    return dtype == DType::boolean ? 1 : dtype == DType::f32 ? 4 : 2;
  }
  /// Elements of kBytes bytes of the keys from `key` + kFirst to `key` + kEnd; 0 where there are none.
  template <int kBytes, int kFirst, int kEnd>
  __device__ __forceinline__ void Read(const AttentionArgs& a, int key) {
    const int left = a.keys - key - OwnColumn();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const Address at = rows_[h] + static_cast<Address>(key) * kBytes;
#pragma unroll
      for (int n = kFirst; n < kEnd; n += 8) {
        constexpr int kWords = kBytes == 4 ? 2 : 1;
        uint32_t* to = &words_[((n - kFirst) / 4 + h) * kWords];
#pragma unroll
        for (int i = 0; i < kWords; ++i) to[i] = 0;
        ReadPair<kBytes>(at + n * kBytes, n < left, to);
      }
    }
  }
  /// The compiler leaves it where it is: before the wait for the scores.
  template <int kBytes>
  static __device__ __forceinline__ void ReadPair(Address at, bool inside, uint32_t* to) {
    const int there = inside;
    if constexpr (kBytes == 1)
      asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p ld.global.u16 %0, [%1];\n}"
                   : "+r"(to[0])
                   : "l"(at), "r"(there));
    else if constexpr (kBytes == 2)
      asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p ld.global.u32 %0, [%1];\n}"
                   : "+r"(to[0])
                   : "l"(at), "r"(there));
    else
      asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %3, 0;\n@p ld.global.v2.u32 {%0, %1}, [%2];\n}"
                   : "+r"(to[0]), "+r"(to[1])
                   : "l"(at), "r"(there));
  }

  Address rows_[2];
  uint32_t words_[kKeys / 4];
};

/// Scores to weights, which sum up to `sums`.
template <class Of, int kKeys>
__device__ __forceinline__ void Weigh(const WideSums<kKeys>& s, float scale, const float (&top)[2],
                                      GroupRows (&weights)[kKeys / 16], float (&sums)[2]) {
  float part[2][2] = {};
#pragma unroll
  for (int d = 0; d < kKeys / 16; ++d) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i % 2;
      float x[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        x[j] = Exp2(fmaf(s[d * 8 + i * 2 + j], scale, -top[h]));
        part[h][j] += x[j];
      }
      weights[d][i] = Of::Pack2(x[0], x[1]);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) sums[h] = part[h][0] + part[h][1];
}

/// With the largest score of each row. `alphas`: by what all that was summed up before is to be multiplied.
template <class Of, int kKeys>
__device__ __forceinline__ void WeighAnew(const WideSums<kKeys>& s, float scale, Rows& rows,
                                          GroupRows (&weights)[kKeys / 16], float (&alphas)[2]) {
  float top[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float m[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) m[i] = s[i / 2 * 4 + 2 * h + i % 2];
#pragma unroll
    for (int n = 2; n < kKeys / 8; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) m[n % 2 * 2 + j] = fmaxf(m[n % 2 * 2 + j], s[n * 4 + 2 * h + j]);
    float most = fmaxf(fmaxf(m[0], m[1]), fmaxf(m[2], m[3]));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    most = fmaxf(most, rows.max[h]);
    // Rows that have seen no key yet: all weights are 0.
    top[h] = most == -Inf(0.0f) ? 0.0f : most * scale;
    alphas[h] = Exp2(fmaf(rows.max[h], scale, -top[h]));
    rows.max[h] = most;
  }
  float sums[2];
  Weigh<Of, kKeys>(s, scale, top, weights, sums);
#pragma unroll
  for (int h = 0; h < 2; ++h) rows.sum[h] = fmaf(rows.sum[h], alphas[h], sums[h]);
}

/// The weights are computed before what follows waits.
template <int kSteps>
__device__ __forceinline__ void Pin(GroupRows (&weights)[kSteps]) {
#pragma unroll
  for (int d = 0; d < kSteps; ++d)
    asm volatile("" : "+r"(weights[d][0]), "+r"(weights[d][1]), "+r"(weights[d][2]), "+r"(weights[d][3]));
}

template <class Of, class Products, bool kMask, bool kWindow, int kDim, int kGroups, int kKeys, int kStages,
          int kPartStages>
__device__ __forceinline__ void Consume(const AttentionPiecesArgs& m,
                                        Plan<kDim, kGroups, kKeys, kStages, kPartStages> plan) {
  using Scores = Wide<Products, kKeys>;
  using Outs = Wide<Products, kDim>;
  using Weights = GroupRows[kKeys / 16];
  const AttentionArgs& a = m.a;
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const float scale = static_cast<float>(a.scale) * kLog2E;
  Ring<kStages> ks = plan.keys(), vs = plan.values();
  Ring<kPartStages> qs = plan.queries(group);
  const auto release = [&](auto& ring) {
    if (lane == 0) Arrive(ring.empty());
    ring.Next();
  };
  const auto take_turn = [&] { MeetAt(1 + group, 2 * kGroupThreads); };
  const auto end_turn = [&] { PassBy(group == kGroups - 1 ? 1 : 2 + group, 2 * kGroupThreads); };
  const auto meet_group = [&] { MeetAt(1 + kGroups + group, kGroupThreads); };

  WideSums<kKeys> s;
  WideSums<kDim> out = {};
  Weights weights, others;
  Rows rows;
  Part part;
  float alphas[2];
  MaskWords<Of, kKeys> mask;
  const float unscaled = 1 / static_cast<float>(a.scale);
  const auto ask_mask = [&](int tile) {
    if constexpr (kMask) mask.Ask(a, tile * kKeys);
  };
  const auto apply_mask = [&](int tile) {
    if constexpr (kMask) mask.Apply(a, tile * kKeys, unscaled, s);
  };

  // The next part that has tiles; results of others are 0. False: there is none.
  const auto next_part = [&] {
    while (true) {
      WaitAt(qs.full(), qs.parity);
      // Read by the lane that says when it may be written again: then nobody has to wait for what the others have read.
      uint32_t head, q0, tiles;
      asm volatile(
          "{\n"
          ".reg .pred own;\n"
          "setp.eq.s32 own, %4, 0;\n"
          "@own ld.shared.v2.u32 {%0, %1}, [%3];\n"
          "@own ld.shared.u32 %2, [%3 + 8];\n"
          "}\n"
          : "=r"(head), "=r"(q0), "=r"(tiles)
          : "r"(plan.part(group, qs.stage)), "r"(lane)
          : "memory");
      part.head = __shfl_sync(kAllLanes, head, 0);
      part.q0 = static_cast<int>(__shfl_sync(kAllLanes, q0, 0));
      part.tiles = static_cast<int>(__shfl_sync(kAllLanes, tiles, 0));
      if (part.tiles != 0) {
        if constexpr (kMask) {
          if (part.tiles > 0) {
            mask.BeginPart(a, part.head, part.q0 + group * 64 + warp * 16 + lane / 4);
            ask_mask(part.tiles - 1);
          }
        }
        return part.tiles > 0;
      }
      const int row0 = part.q0 + group * 64, row_end = row0 + 64 < a.queries ? row0 + 64 : a.queries;
      using Eight = Pack<typename Of::Element, 8>;
      Eight* y = reinterpret_cast<Eight*>(a.y) + (int64_t{part.head} * a.queries + row0) * a.value_dim / 8;
      for (int i = warp * 32 + lane; i < (row_end - row0) * a.value_dim / 8; i += kGroupThreads) y[i] = Eight{};
      release(qs);
    }
  };
  const auto multiply_keys = [&] {
    WaitAt(ks.full(), ks.parity);
    take_turn();
    uint32_t q_tile = plan.q_tile(group, qs.stage);
    // Where each of its columns begins is computed anew: there are no registers to remember it.
    if constexpr (kDim > 128 || kMask) asm volatile("" : "+r"(q_tile));
    BeginProducts();
    MultiplyRows<Products, kDim, 64, kKeys>(s, q_tile, plan.k_tile(ks.stage));
    CommitProducts();
  };
  const auto multiply_values = [&](const Weights& by) {
    WaitAt(vs.full(), vs.parity);
    BeginProducts();
    AddWide<Products, kDim, kKeys>(out, by, plan.v_tile(vs.stage));
    CommitProducts();
  };
  const auto hide_before = [&](int tile) {
    const int row = part.q0 + group * 64 + warp * 16 + lane / 4, k0 = tile * kKeys + lane % 4 * 2;
    const int from[2] = {First(a, row) - k0, First(a, row + 8) - k0};
    HideBefore<kKeys>(s, from);
  };
  const auto hide = [&](int tile) {
    const int row = part.q0 + group * 64 + warp * 16 + lane / 4, k0 = tile * kKeys + lane % 4 * 2;
    const int seen[2] = {Seen(a, row) - k0, Seen(a, row + 8) - k0};
    Hide<kKeys>(s, seen);
    if constexpr (kWindow) hide_before(tile);
  };
  // The first tile of a part. From tile `edge` on some query of the group sees none or not all of the keys, or has seen
  // none before. In those before `whole` some query sees none or not all of the keys again.
  int edge = 0, whole = 0;
  const auto begin_rows = [&](Weights& to) {
    apply_mask(part.tiles - 1);
    const int seen = Seen(a, part.q0 + group * 64);
    edge = seen > 0 ? (seen - 1) / kKeys : 0;
    if constexpr (kWindow) {
      const int row_end = part.q0 + group * 64 + 64, last = row_end < a.queries ? row_end - 1 : a.queries - 1;
      whole = (First(a, last) + kKeys - 1) / kKeys;
    }
    if (kWindow || part.tiles * kKeys > seen) hide(part.tiles - 1);
    rows = Rows();
    WeighAnew<Of, kKeys>(s, scale, rows, to, alphas);
  };
  // What is written goes through the memory of the part's queries, which is released when it is done.
  uint32_t stored = 0;
  const auto finish_store = [&] {
    if (stored == 0) return;
    if (lane == 0) {
      if (warp == 0) WaitForStores();
      Arrive(stored);
    }
    stored = 0;
  };
  const auto write = [&](const Part& done, const float (&sums)[2], const Ring<kPartStages>& at) {
    float by[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float total = sums[h];
      total += __shfl_xor_sync(kAllLanes, total, 1);
      total += __shfl_xor_sync(kAllLanes, total, 2);
      by[h] = total == 0.0f ? 0.0f : __frcp_rn(total);
    }
    const uint32_t tile = plan.q_tile(group, at.stage);
    meet_group();
    StoreWide<Of, kDim>(out, by, tile);
    ShowStores();
    meet_group();
    if (warp == 0 && lane == 0) {
#pragma unroll
      for (int c = 0; c < kDim; c += 64)
        if (c < a.value_dim) StorePiece(&m.y, tile + c * kRowBytes, c, done.q0 + group * 64, done.head, 0);
      CommitStores();
    }
    stored = at.empty();
  };
  const auto step = [&](int tile, auto is_edge, const Weights& from, Weights& to) {
    ask_mask(tile);
    multiply_keys();
    multiply_values(from);
    end_turn();
    finish_store();
    Scores::template Wait<1>(s);
    release(ks);
    apply_mask(tile);
    bool anew = true;
    float sums[2] = {};
    if constexpr (decltype(is_edge)::value) {
      hide(tile);
    } else {
      if (kWindow && tile < whole) hide_before(tile);
      const float top[2] = {rows.max[0] * scale, rows.max[1] * scale};
      Weigh<Of, kKeys>(s, scale, top, to, sums);
      Pin(to);
      anew = !__all_sync(kAllLanes, sums[0] <= kMostWeight<Of> && sums[1] <= kMostWeight<Of>);
    }
    if (anew) {
      WeighAnew<Of, kKeys>(s, scale, rows, to, alphas);
      Pin(to);
    } else {
      rows.sum[0] += sums[0];
      rows.sum[1] += sums[1];
    }
    // Here a block of instructions begins: within one the assembler would put the wait before the weights. It is one
    // wait for both branches, because each warp takes its own and all of a group have to wait at the same instruction.
    Outs::template Wait<0>(out);
    if (anew) {
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) out[n * 4 + i] *= alphas[i / 2];
    }
    release(vs);
  };
  // By an instruction that is none for a copy: those may be put before the wait, where weights are still read. It is
  // not known here that the number is 0.
  const auto copy_weights = [&] {
    const int none = kMask ? a.has_mask - 1 : a.has_mask;
#pragma unroll
    for (int d = 0; d < kKeys / 16; ++d)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        asm volatile("or.b32 %0, %1, %2;" : "=r"(weights[d][i]) : "r"(others[d][i]), "r"(none));
  };

  // All tiles of the part but the first.
  const auto walk_tiles = [&] {
    int tile = part.tiles - 2;
    const int first = FirstTile<kWindow, kKeys>(a, part.q0);
#pragma unroll 1
    for (; tile >= edge; --tile) {
      step(tile, std::true_type(), weights, others);
      copy_weights();
    }
    // Two steps with a mask would be more instructions than are at hand.
#pragma unroll 1
    for (; !kMask && tile > first; tile -= 2) {
      step(tile, std::false_type(), weights, others);
      step(tile - 1, std::false_type(), others, weights);
    }
#pragma unroll 1
    for (; kMask ? tile >= first : tile == first; --tile) {
      step(tile, std::false_type(), weights, others);
      copy_weights();
    }
    finish_store();
  };
  const auto begin_part = [&] {
    multiply_keys();
    end_turn();
    Scores::template Wait<0>(s);
    release(ks);
    begin_rows(weights);
  };
  const auto clear = [&] {
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) out[i] = 0;
  };

  if (group == kGroups - 1) end_turn();
  if constexpr (kPartStages == 1) {
    // Nothing of the next part is there before this one is written.
#pragma unroll 1
    while (next_part()) {
      begin_part();
      walk_tiles();
      multiply_values(weights);
      Outs::template Wait<0>(out);
      release(vs);
      write(part, rows.sum, qs);
      finish_store();
      qs.Next();
      clear();
    }
    return;
  }
  if (!next_part()) return;
  begin_part();
#pragma unroll 1
  while (true) {
    walk_tiles();
    const Part done = part;
    const Ring<kPartStages> at = qs;
    const float sums[2] = {rows.sum[0], rows.sum[1]};
    qs.Next();
    if (!next_part()) {
      multiply_values(weights);
      Outs::template Wait<0>(out);
      write(done, sums, at);
      if (warp == 0 && lane == 0) WaitForStores();
      return;
    }
    multiply_keys();
    multiply_values(weights);
    end_turn();
    Scores::template Wait<1>(s);
    release(ks);
    begin_rows(others);
    Pin(others);
    WaitAt(qs.full(), qs.parity);  // it is over: so a block of instructions ends here
    Outs::template Wait<0>(out);
    release(vs);
    copy_weights();
    write(done, sums, at);
    clear();
  }
}

template <class Of, class Products, int kWhich, bool kMask, bool kWindow>
__device__ __forceinline__ void Attend(const AttentionPiecesArgs& m) {
  constexpr int kGroups = kPiecesBlocks[kWhich].groups;
  // Sums of so many columns leave no register unused.
  constexpr bool kIsWide = kPiecesBlocks[kWhich].columns == 256;
  using P = PlanOf<kWhich>;
  extern __shared__ __align__(1024) unsigned char memory[];
  const P plan = {SharedAddress(memory)};
  if (threadIdx.x == 0) {
    plan.keys().Init(4 * kGroups);
    plan.values().Init(4 * kGroups);
    for (int g = 0; g < kGroups; ++g) plan.queries(g).Init(4);
    ShowBarriers();
  }
  __syncthreads();
  if (threadIdx.x >= kGroups * kGroupThreads) {
    GiveRegisters<kGroups == 3 ? 32 : kIsWide ? 24 : 40>();
    if (threadIdx.x == kGroups * kGroupThreads) Bring<kWindow>(m, plan);
  } else {
    TakeRegisters<kGroups == 3 ? 160 : kIsWide ? 240 : 232>();
    Consume<Of, Products, kMask, kWindow>(m, plan);
  }
}

}  // namespace
}  // namespace tessera::cuda

// attention_pieces_bf16_64, attention_pieces_f16_64_few, attention_pieces_bf16_128_mask, ...
#define TSR_ATTENTION(name, of, products, which, suffix, mask, window)                    \
  static_assert(PlanOf<which>::kBytes == kPiecesBlocks[which].shared());                  \
  extern "C" __global__ void __launch_bounds__(kPiecesBlocks[which].threads(), 1)         \
      attention_pieces_##name##_##suffix(const __grid_constant__ AttentionPiecesArgs m) { \
    Attend<of, products, which, mask, window>(m);                                         \
  }

#endif  // TESSERA_INTERP_CUDA_KERNELS_ATTENTION_PIECES_CUH_
