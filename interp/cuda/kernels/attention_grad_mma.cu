// attention_grad of f16 and bf16 on tensor cores. Scores are never in memory, and nothing is added up in an order that
// may change: one kernel goes through the keys of its queries for dq, the other through the queries of its keys for dk
// and dv. Both compute the scores again; weights and their gradients go from one product to the next in registers.
//
// The first kernel needs no sum of weights beforehand: as in attention, what is summed so far is scaled whenever a
// larger score turns up. It leaves the logarithm of the sum, and the row's sum of g y, for the second.
//
// Of more than 128 columns the registers have room for one of dk and dv: some blocks of the second kernel are for the
// one, others for the other. There columns beyond the last that an operand has are left out, 64 at a time.
//
// Rows of all operands must be runs of memory that begin at multiples of 16 bytes.
#include "interp/cuda/attention_args.h"
#include "interp/cuda/kernels/attention_mask.cuh"
#include "interp/cuda/kernels/mma.cuh"

namespace tessera::cuda {
namespace {

constexpr float kLog2E = 0x1.715476p+0f;

/// Keys, or queries, that go through shared memory at a time; and of those, what a warp computes scores of at a time.
template <int kDim>
constexpr int kStepOf = kDim <= 64    ? kGradStep64
                        : kDim <= 128 ? kGradStep128
                                      : kGradStep256;
template <int kDim>
constexpr int kQueriesSub = kDim <= 128 ? 32 : 16;
template <int kDim>
constexpr int kKeysSub = kDim <= 64 || kDim > 128 ? 16 : 32;

/// Sums of one product: kTiles of 16 rows by kCols columns.
template <int kTiles, int kCols>
using Sums = float[kTiles][kCols / 8][4];

/// A warp's own rows of an operand. Where registers suffice (64 columns) they are read from shared memory once, which
/// is what limits the products otherwise.
template <int kDim, int kTiles>
struct OwnRows {
  static constexpr bool kHeld = kDim <= 64;
  static constexpr int kPitch = kDim * 2 + 16;
  uint32_t from;
  uint32_t held[kHeld ? kDim / 16 : 1][kTiles][4];

  /// Rows begin at `at`, as the lane reads them.
  __device__ __forceinline__ explicit OwnRows(uint32_t at) : from(at) {
    if constexpr (kHeld) {
#pragma unroll
      for (int d = 0; d < kDim / 16; ++d) Load(d, held[d]);
    }
  }
  __device__ __forceinline__ void Load(int d, uint32_t (&as)[kTiles][4]) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) LoadMatrices(as[t], from + t * 16 * kPitch + d * 32);
  }
  /// Columns 16 d to 16 d + 15.
  __device__ __forceinline__ void Get(int d, uint32_t (&as)[kTiles][4]) const {
    if constexpr (kHeld) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) as[t][i] = held[d][t][i];
    } else {
      Load(d, as);
    }
  }
};

/// sums += a b^T of columns kFrom to kTo - 1; b's rows are in shared memory and begin at `b`, as the lane reads them.
template <class Of, int kDim, int kTiles, int kCols, int kFrom = 0, int kTo = kDim>
__device__ __forceinline__ void MultiplyRows(Sums<kTiles, kCols>& sums, const OwnRows<kDim, kTiles>& a, uint32_t b) {
  constexpr int kPitch = kDim * 2 + 16;
#pragma unroll
  for (int d = kFrom / 16; d < kTo / 16; ++d) {
    uint32_t as[kTiles][4];
    a.Get(d, as);
#pragma unroll
    for (int n = 0; n < kCols / 16; ++n) {
      uint32_t bs[4];
      LoadMatrices(bs, b + n * 16 * kPitch + d * 32);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        Of::Multiply(sums[t][2 * n], as[t], bs[0], bs[1]);
        Of::Multiply(sums[t][2 * n + 1], as[t], bs[2], bs[3]);
      }
    }
  }
}

/// Two such products: of the first `cols` columns, which are all but where kDim is over 128. kBoth: or the first alone.
template <class Of, int kDim, int kTiles, int kCols, bool kBoth = true>
__device__ __forceinline__ void MultiplyTwo(Sums<kTiles, kCols>& sums_0, const OwnRows<kDim, kTiles>& a_0, uint32_t b_0,
                                            Sums<kTiles, kCols>& sums_1, const OwnRows<kDim, kTiles>& a_1, uint32_t b_1,
                                            int cols) {
  if constexpr (kDim <= 128) {
    MultiplyRows<Of, kDim, kTiles, kCols>(sums_0, a_0, b_0);
    if constexpr (kBoth) MultiplyRows<Of, kDim, kTiles, kCols>(sums_1, a_1, b_1);
  } else {
    static_assert(kDim == 256);
    const auto multiply = [&](auto from) {
      constexpr int kFrom = decltype(from)::value;
      MultiplyRows<Of, kDim, kTiles, kCols, kFrom, kFrom + 64>(sums_0, a_0, b_0);
      if constexpr (kBoth) MultiplyRows<Of, kDim, kTiles, kCols, kFrom, kFrom + 64>(sums_1, a_1, b_1);
    };
    multiply(std::integral_constant<int, 0>());
    multiply(std::integral_constant<int, 64>());
    multiply(std::integral_constant<int, 128>());
    if (cols > 192) multiply(std::integral_constant<int, 192>());
  }
}

/// sums += a b: a is what sums of an earlier product were made into, b has rows in shared memory, of `cols` columns.
template <class Of, int kDim, int kTiles, int kCols>
__device__ __forceinline__ void MultiplySums(Sums<kTiles, kDim>& sums, const Sums<kTiles, kCols>& a, uint32_t b,
                                             int cols) {
  constexpr int kPitch = kDim * 2 + 16;
#pragma unroll
  for (int d = 0; d < kCols / 16; ++d) {
    uint32_t as[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        as[t][i] = Of::Pack2(a[t][2 * d + i / 2][i % 2 * 2], a[t][2 * d + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      if (kDim > 128 && n % 4 == 0 && n * 16 >= cols) break;
      uint32_t bs[4];
      LoadTransposed(bs, b + d * 16 * kPitch + n * 32);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        Of::Multiply(sums[t][2 * n], as[t], bs[0], bs[1]);
        Of::Multiply(sums[t][2 * n + 1], as[t], bs[2], bs[3]);
      }
    }
  }
}

/// Writes a warp's rows, times `by`, from `row` on, to a matrix without gaps.
template <class Of, int kDim, int kTiles>
__device__ __forceinline__ void WriteRows(const Sums<kTiles, kDim>& sums, const float (&by)[kTiles][2], Address to,
                                          int64_t matrix, int row, int rows, int cols) {
  using T = typename Of::Element;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row + t * 16 + lane / 4 + h * 8;
      if (r >= rows) continue;
      T* y = At<T>(to) + (matrix * rows + r) * cols;
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const int c = n * 8 + lane % 4 * 2;  // cols is a multiple of 8
        if (c < cols)
          *reinterpret_cast<uint32_t*>(y + c) =
              Of::Pack2(sums[t][n][2 * h] * by[t][h], sums[t][n][2 * h + 1] * by[t][h]);
      }
    }
  }
}

/// The sum of g y over each of a warp's rows, by the lanes that hold sums of the row.
template <class Of, int kTiles>
__device__ __forceinline__ void SumRows(const AttentionGradArgs& a, int64_t head, int row, float (&sums)[kTiles][2]) {
  using T = typename Of::Element;
  const int lane = threadIdx.x % 32;
  const T* y = At<const T>(a.y.data) + OffsetOf(a.y.at, head);
  const T* g = At<const T>(a.g.data) + OffsetOf(a.g.at, head);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row + t * 16 + lane / 4 + h * 8;
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
      sums[t][h] = sum;
    }
  }
}

/// dq, and what the other kernel needs: a block has kWarps * kTiles * 16 queries.
template <class Of, int kDim, int kTiles, bool kMask>
__device__ __forceinline__ void GradOfQueries(const AttentionGradArgs& args) {
  using T = typename Of::Element;
  constexpr int kRows = kWarps * 16 * kTiles, kPitch = kDim * 2 + 16, kStep = kStepOf<kDim>, kTile = kStep * kPitch;
  constexpr int kSub = kQueriesSub<kDim>;
  const AttentionArgs& a = args.forward;
  extern __shared__ __align__(16) unsigned char shared[];
  const uint32_t q_tile = SharedAddress(shared), g_tile = q_tile + kRows * kPitch, kv_tiles = g_tile + kRows * kPitch;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t blocks = (a.queries + kRows - 1) / kRows;
  const int64_t head = blockIdx.x % a.heads, kv = head / a.share;
  // Later blocks see more keys under a causal mask: they go first.
  const int q0 = static_cast<int>(blocks - 1 - blockIdx.x / a.heads) * kRows;
  const int row0 = q0 + warp * 16 * kTiles;
  const T* k = At<const T>(a.k.data) + OffsetOf(a.k.at, kv);
  const T* v = At<const T>(a.v.data) + OffsetOf(a.v.at, kv);
  const int64_t mask_at = kMask ? OffsetOf(a.mask.at, head) : 0;
  const float scale = static_cast<float>(a.scale) * kLog2E;
  const int last = q0 + kRows < a.queries ? q0 + kRows : a.queries;
  const int keys = Seen(a, last - 1), cols = a.dim > a.value_dim ? a.dim : a.value_dim;
  const int first = First(a, q0) / kStep * kStep;
  // Any query of the warp sees keys from `any_from` up to `any_sees`, all of them those from `all_from` up to
  // `all_see`.
  const int all_see = kMask ? 0 : Seen(a, row0), any_from = First(a, row0);
  const int row_end = row0 + 16 * kTiles < a.queries ? row0 + 16 * kTiles : a.queries;
  const int any_sees = row0 < row_end ? Seen(a, row_end - 1) : 0, all_from = First(a, row_end - 1);
  const auto copy = [&](int k0, int stage) {
    const uint32_t to = kv_tiles + stage * 2 * kTile;
    CopyRows<T, kStep, kDim>(k, a.k.row, k0, a.keys, a.dim, to);
    CopyRows<T, kStep, kDim>(v, a.v.row, k0, a.keys, a.value_dim, to + kTile);
    CommitCopies();
  };

  CopyRows<T, kRows, kDim>(At<const T>(a.q.data) + OffsetOf(a.q.at, head), a.q.row, q0, a.queries, a.dim, q_tile);
  CopyRows<T, kRows, kDim>(At<const T>(args.g.data) + OffsetOf(args.g.at, head), args.g.row, q0, a.queries, a.value_dim,
                           g_tile);
  copy(first, 0);
  float less[kTiles][2];
  SumRows<Of>(args, head, row0, less);

  Sums<kTiles, kDim> dq = {};
  float max[kTiles][2], sum[kTiles][2];
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int h = 0; h < 2; ++h) max[t][h] = -Inf(0.0f), sum[t][h] = 0;

  // ldmatrix: lanes 0 to 15 name the rows of the two matrices on the left, the others those on the right.
  const uint32_t left = (warp * 16 * kTiles + lane % 16) * kPitch + lane / 16 * 16;
  const uint32_t right = (lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 16;
  const uint32_t turned = (lane % 16) * kPitch + lane / 16 * 16;
  WaitForCopies<0>();
  __syncthreads();
  const OwnRows<kDim, kTiles> qs(q_tile + left), gs(g_tile + left);

#pragma unroll 1
  for (int i0 = first, stage = 0; i0 < keys; i0 += kStep, stage ^= 1) {
    __syncthreads();  // the other stage is used up
    if (i0 + kStep < keys) {
      copy(i0 + kStep, stage ^ 1);
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();
#pragma unroll 1
    for (int sub = 0; sub < kStep; sub += kSub) {
      const int k0 = i0 + sub;
      if (kSub < kStep && k0 >= any_sees) break;
      if (kSub < kStep && k0 + kSub <= any_from) continue;
      const uint32_t k_tile = kv_tiles + stage * 2 * kTile + sub * kPitch, v_tile = k_tile + kTile;
      Sums<kTiles, kSub> s = {}, e = {};
      MultiplyTwo<Of, kDim, kTiles, kSub>(s, qs, k_tile + right, e, gs, v_tile + right, cols);

      const bool is_edge = kMask || k0 + kSub > all_see || k0 < all_from;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float m = max[t][h];
          if (is_edge) {
            const int query = row0 + t * 16 + lane / 4 + h * 8;
            const int from = First(a, query), seen = query < a.queries ? Seen(a, query) : 0;
#pragma unroll
            for (int n = 0; n < kSub / 8; ++n) {
#pragma unroll
              for (int j = 0; j < 2; ++j) {
                const int key = k0 + n * 8 + lane % 4 * 2 + j;
                float& x = s[t][n][2 * h + j];
                if (key >= seen || key < from)
                  x = -Inf(0.0f);
                else if constexpr (kMask)
                  x = Masked(a, x * scale, MaskAt<float>(a, mask_at + query * a.mask.row + key * a.mask.col) * kLog2E);
              }
            }
          }
#pragma unroll
          for (int n = 0; n < kSub / 8; ++n) m = fmaxf(m, fmaxf(s[t][n][2 * h], s[t][n][2 * h + 1]));
          m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, 1));
          m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, 2));
          const float by = kMask ? 1.0f : scale;
          const float top = m == -Inf(0.0f) ? 0.0f : m * by;
          const float alpha = Exp2(max[t][h] * by - top);
          max[t][h] = m;
          float part = 0;
#pragma unroll
          for (int n = 0; n < kSub / 8; ++n) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              const float w = Exp2(fmaf(s[t][n][2 * h + j], by, -top));
              part += w;
              e[t][n][2 * h + j] = w * (e[t][n][2 * h + j] - less[t][h]);
            }
          }
          sum[t][h] = sum[t][h] * alpha + part;
          // Mostly no row of the warp has found a larger score.
          if (__any_sync(kAllLanes, alpha != 1.0f)) {
#pragma unroll
            for (int n = 0; n < kDim / 8; ++n) {
              dq[t][n][2 * h] *= alpha;
              dq[t][n][2 * h + 1] *= alpha;
            }
          }
        }
      }
      MultiplySums<Of, kDim, kTiles, kSub>(dq, e, k_tile + turned, a.dim);
    }
  }
  WaitForCopies<0>();

  float by[kTiles][2];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float total = sum[t][h];
      total += __shfl_xor_sync(kAllLanes, total, 1);
      total += __shfl_xor_sync(kAllLanes, total, 2);
      by[t][h] = total == 0.0f ? 0.0f : static_cast<float>(a.scale) / total;
      const int query = row0 + t * 16 + lane / 4 + h * 8;
      if (query < a.queries && lane % 4 == 0) {
        const int64_t at = head * a.queries + query;
        // Of a query that sees nothing: so large that all its weights are 0.
        At<float>(args.logs)[at] = total == 0.0f ? Inf(0.0f) : max[t][h] * (kMask ? 1.0f : scale) + log2f(total);
        At<float>(args.sums)[at] = less[t][h];
      }
    }
  }
  WriteRows<Of, kDim, kTiles>(dq, by, args.dq, head, row0, a.queries, a.dim);
}

/// dk and dv, or one of them: a block has kWarps * kTiles * 16 keys. Scores are computed the other way round: a row for
/// each key.
template <class Of, int kDim, int kTiles, bool kMask, bool kKeys = true, bool kValues = true>
__device__ __forceinline__ void GradOfKeys(const AttentionGradArgs& args, uint32_t block) {
  using T = typename Of::Element;
  constexpr int kRows = kWarps * 16 * kTiles, kPitch = kDim * 2 + 16, kStep = kStepOf<kDim>, kTile = kStep * kPitch;
  constexpr int kSub = kKeysSub<kDim>;
  constexpr int kStage = 2 * kTile + 2 * kStep * 4;  // queries, gradients, logarithms, sums
  const AttentionArgs& a = args.forward;
  extern __shared__ __align__(16) unsigned char shared[];
  const uint32_t k_tile = SharedAddress(shared), v_tile = k_tile + kRows * kPitch, stages = v_tile + kRows * kPitch;
  unsigned char* const stage_bytes = shared + 2 * kRows * kPitch;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t kv_heads = a.heads / a.share, kv = block % kv_heads;
  const int k0 = static_cast<int>(block / kv_heads) * kRows;
  const int row0 = k0 + warp * 16 * kTiles, cols = a.dim > a.value_dim ? a.dim : a.value_dim;
  const float scale = static_cast<float>(a.scale) * kLog2E;
  // Queries that see a key of the block.
  const int first = FirstQuery(a, k0) / kStep * kStep, end = QueriesEnd(a, k0 + kRows - 1);
  // Over all heads that share the keys, one after the other.
  const int64_t head0 = kv * a.share, heads_end = first < end ? head0 + a.share : head0;
  int64_t next_head = head0;
  int next_q = first;
  /// The queries that come next.
  const auto copy = [&](int stage) {
    const uint32_t to = stages + stage * kStage;
    CopyRows<T, kStep, kDim>(At<const T>(a.q.data) + OffsetOf(a.q.at, next_head), a.q.row, next_q, a.queries, a.dim,
                             to);
    CopyRows<T, kStep, kDim>(At<const T>(args.g.data) + OffsetOf(args.g.at, next_head), args.g.row, next_q, a.queries,
                             a.value_dim, to + kTile);
    CommitCopies();
    if (threadIdx.x < 2 * kStep) {
      const int r = threadIdx.x % kStep;
      const bool is_log = threadIdx.x < kStep, inside = next_q + r < a.queries;
      const int64_t at = next_head * a.queries + next_q + r;
      float* numbers = reinterpret_cast<float*>(stage_bytes + stage * kStage + 2 * kTile);
      numbers[threadIdx.x] =
          !inside ? (is_log ? Inf(0.0f) : 0.0f) : At<const float>(is_log ? args.logs : args.sums)[at];
    }
    next_q += kStep;
    if (next_q >= end) {
      next_q = first;
      ++next_head;
    }
  };

  CopyRows<T, kRows, kDim>(At<const T>(a.k.data) + OffsetOf(a.k.at, kv), a.k.row, k0, a.keys, a.dim, k_tile);
  CopyRows<T, kRows, kDim>(At<const T>(a.v.data) + OffsetOf(a.v.at, kv), a.v.row, k0, a.keys, a.value_dim, v_tile);
  if (head0 < heads_end)
    copy(0);
  else
    CommitCopies();

  Sums<kTiles, kDim> dk = {}, dv = {};
  const uint32_t left = (warp * 16 * kTiles + lane % 16) * kPitch + lane / 16 * 16;
  const uint32_t right = (lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 16;
  const uint32_t turned = (lane % 16) * kPitch + lane / 16 * 16;

  WaitForCopies<0>();
  __syncthreads();
  const OwnRows<kDim, kTiles> ks(k_tile + left), vs(v_tile + left);

  int64_t head = head0;
  int stage = 0, q_first = first;
#pragma unroll 1
  while (head < heads_end) {
    __syncthreads();  // the other stage is used up
    if (next_head < heads_end) {
      copy(stage ^ 1);
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();
    const int64_t mask_at = kMask ? OffsetOf(a.mask.at, head) : 0;
#pragma unroll 1
    for (int sub = 0; sub < kStep; sub += kSub) {
      const uint32_t q_tile = stages + stage * kStage + sub * kPitch, g_tile = q_tile + kTile;
      const float* logs = reinterpret_cast<const float*>(stage_bytes + stage * kStage + 2 * kTile) + sub;
      const float* sums = logs + kStep;
      const int q0 = q_first + sub;
      if constexpr (kSub < kStep) {
        if (q0 >= end) break;
        // None of these queries sees a key of the warp.
        if (a.causal && (Seen(a, q0 + kSub - 1) <= row0 || First(a, q0) >= row0 + 16 * kTiles)) continue;
      }

      Sums<kTiles, kSub> p = {}, e = {};
      MultiplyTwo<Of, kDim, kTiles, kSub, kKeys>(p, ks, q_tile + right, e, vs, g_tile + right, cols);

      const bool is_edge = kMask || (a.causal && (Seen(a, q0) < row0 + 16 * kTiles || First(a, q0 + kSub - 1) > row0));
#pragma unroll
      for (int n = 0; n < kSub / 8; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int c = n * 8 + lane % 4 * 2 + j, query = q0 + c;
          const float log = logs[c], less = sums[c];
          const int seen = is_edge ? Seen(a, query) : a.keys, from = is_edge ? First(a, query) : 0;
#pragma unroll
          for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              float& x = p[t][n][2 * h + j];
              float score = x * scale;
              if (is_edge) {
                const int key = row0 + t * 16 + lane / 4 + h * 8;
                if (key >= seen || key < from)
                  score = -Inf(0.0f);
                else if constexpr (kMask) {
                  if (query < a.queries)
                    score =
                        Masked(a, score, MaskAt<float>(a, mask_at + query * a.mask.row + key * a.mask.col) * kLog2E);
                }
              }
              x = Exp2(score - log);
              e[t][n][2 * h + j] = x * (e[t][n][2 * h + j] - less);
            }
          }
        }
      }
      if constexpr (kValues) MultiplySums<Of, kDim, kTiles, kSub>(dv, p, g_tile + turned, a.value_dim);
      if constexpr (kKeys) MultiplySums<Of, kDim, kTiles, kSub>(dk, e, q_tile + turned, a.dim);
    }
    stage ^= 1;
    q_first += kStep;
    if (q_first >= end) {
      q_first = first;
      ++head;
    }
  }
  WaitForCopies<0>();

  float by[kTiles][2], one[kTiles][2];
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int h = 0; h < 2; ++h) by[t][h] = static_cast<float>(a.scale), one[t][h] = 1.0f;
  if constexpr (kKeys) WriteRows<Of, kDim, kTiles>(dk, by, args.dk, kv, row0, a.keys, a.dim);
  if constexpr (kValues) WriteRows<Of, kDim, kTiles>(dv, one, args.dv, kv, row0, a.keys, a.value_dim);
}

template <class Of, int kDim, int kTiles, bool kMask>
__device__ __forceinline__ void GradOfBlock(const AttentionGradArgs& args) {
  if constexpr (kDim <= 128) {
    GradOfKeys<Of, kDim, kTiles, kMask>(args, blockIdx.x);
  } else {
    // Those of keys have more to do: they go first.
    const uint32_t half = gridDim.x / 2;
    if (blockIdx.x < half)
      GradOfKeys<Of, kDim, kTiles, kMask, true, false>(args, blockIdx.x);
    else
      GradOfKeys<Of, kDim, kTiles, kMask, false, true>(args, blockIdx.x - half);
  }
}

}  // namespace

// attention_grad_queries_bf16_64, attention_grad_keys_f16_128_mask, ...
#define TSR_GRAD_KERNEL(part, fn, name, of, dim, tiles, blocks, suffix, mask)                       \
  extern "C" __global__ void __launch_bounds__(kWarps * 32, blocks)                                 \
      attention_grad_##part##_##name##_##dim##suffix(const __grid_constant__ AttentionGradArgs a) { \
    fn<of, dim, tiles, mask>(a);                                                                    \
  }
#define TSR_GRAD_KERNELS(name, of, dim, query_tiles, key_tiles)                       \
  TSR_GRAD_KERNEL(queries, GradOfQueries, name, of, dim, query_tiles, 2, , false)     \
  TSR_GRAD_KERNEL(queries, GradOfQueries, name, of, dim, query_tiles, 2, _mask, true) \
  TSR_GRAD_KERNEL(keys, GradOfBlock, name, of, dim, key_tiles, 2, , false)            \
  TSR_GRAD_KERNEL(keys, GradOfBlock, name, of, dim, key_tiles, 2, _mask, true)
TSR_GRAD_KERNELS(f16, OfF16, 64, 2, 2)
TSR_GRAD_KERNELS(f16, OfF16, 128, 2, 1)
TSR_GRAD_KERNELS(f16, OfF16, 256, 1, 1)
TSR_GRAD_KERNELS(bf16, OfBF16, 64, 2, 2)
TSR_GRAD_KERNELS(bf16, OfBF16, 128, 2, 1)
TSR_GRAD_KERNELS(bf16, OfBF16, 256, 1, 1)

}  // namespace tessera::cuda
