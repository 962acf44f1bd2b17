// paged_attention. Two kernels:
//
//   walk  f16 and bf16 of up to 128 columns, on tensor cores (sm_80 and newer), as attention_few.cu: a warp has 16 rows
//         of the queries that share a head of keys, and a part of a sequence. `end` puts parts together.
//   rows  one query a block, anything
//
// The host does not know the lengths, so every warp works out from all of them how sequences are cut: into parts that
// are as long for one as for another, enough of them for the device. A long sequence among short ones has many.
//
// The table is read two steps of keys ahead of the keys themselves, by the first 16 lanes and once more by the others:
// a lane has one position, and hands round where its row begins, in units of 16 bytes.
#include "interp/cuda/kernels/attention_few.cuh"
#include "interp/cuda/paged_attention_args.h"

namespace tessera::cuda {
namespace {

/// How many positions sequence s has; 0 where that cannot be.
__device__ __forceinline__ int LengthOf(const PagedAttentionArgs& a, int s, bool reports) {
  if (s >= a.batch) return 0;
  const int64_t given = At<const int64_t>(a.lengths)[s * a.lengths_stride];
  const int64_t most = static_cast<int64_t>(a.entries) * a.page;
  if (given >= 0 && given <= most) return static_cast<int>(given);
  if (reports) Report(a.error, a.op, given, ~most);
  return 0;
}

/// Positions that query number i sees.
__device__ __forceinline__ int SeenOf(const PagedAttentionArgs& a, int length, int i) {
  const int seen = length - a.queries + i + 1;
  return seen < 0 ? 0 : seen;
}

// ---- walk

constexpr uint32_t kNowhere = 0xffffffffu;

struct Part {
  int sequence, length;
  int first, count;  // of the sequence's parts
};

/// Part number `number` of all; false: there are fewer. All lanes of a warp.
__device__ __forceinline__ bool FindPart(const PagedAttentionArgs& a, int number, Part* part) {
  const int lane = threadIdx.x % 32;
  int64_t total = 0;
  for (int s = lane; s < a.batch; s += 32) total += LengthOf(a, s, number == 0);
  total = WarpReduce(total, [](int64_t x, int64_t y) { return x + y; });
  const int64_t wanted = (total + a.parts - 1) / a.parts;
  const int longest = wanted < kShortestPart ? kShortestPart
                      : wanted > INT32_MAX   ? INT32_MAX
                                             : static_cast<int>(wanted);
  int before = 0;
  for (int s = 0; s < a.batch; s += 32) {
    const int length = LengthOf(a, s + lane, false);
    const int mine = s + lane >= a.batch ? 0 : length <= longest || !a.divides ? 1 : (length - 1) / longest + 1;
    int upto = mine;
#pragma unroll
    for (int w = 1; w < 32; w *= 2) {
      const int other = __shfl_up_sync(kAllLanes, upto, w);
      if (lane >= w) upto += other;
    }
    const int all = __shfl_sync(kAllLanes, upto, 31);
    if (number < before + all) {
      const int owner = __ffs(__ballot_sync(kAllLanes, number < before + upto)) - 1;
      part->sequence = s + owner;
      part->length = __shfl_sync(kAllLanes, length, owner);
      part->count = __shfl_sync(kAllLanes, mine, owner);
      part->first = before + __shfl_sync(kAllLanes, upto, owner) - part->count;
      return true;
    }
    before += all;
  }
  return false;
}

/// An entry of the table on its way, and the place of a position in that page; below 0: there is none.
struct Entry {
  int64_t page;
  int place;
};

template <class Of, int kDim>
__device__ __forceinline__ void Walk(const PagedAttentionArgs& a) {
  using T = typename Of::Element;
  constexpr int kChunks = kDim / 32, kHalves = kDim / 64;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int item = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  // Rows of all heads of a position lie side by side: warps of one block read them.
  const int group = item % a.groups, tile = item / a.groups % a.tiles, number = item / a.groups / a.tiles;
  Part part;
  if (!FindPart(a, number, &part)) return;
  const int rows = a.share * a.queries;
  const float scale = static_cast<float>(a.scale) * kLog2E;

  FewRows<Of, kDim> own;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = tile * 16 + g + h * 8;
    const bool is_row = row < rows;
    const int head = is_row ? row / a.queries : 0, query = is_row ? row % a.queries : 0;
    const T* from = At<const T>(a.q.data) + part.sequence * a.q.strides[0] + (group * a.share + head) * a.q.strides[1] +
                    query * a.q.strides[2] + t * 8;
    own.seen[h] = is_row ? SeenOf(a, part.length, query) : 0;
    own.ReadQuery(h, from, is_row, a.dim, t);
  }
  const int most = own.Most();
  const int stretch = ((part.length - 1) / part.count / kFewKeys + 1) * kFewKeys;
  const int begin = (number - part.first) * stretch;
  const int end = begin + stretch < most ? begin + stretch : most;

  const int64_t* const table = At<const int64_t>(a.table) + part.sequence * a.table_strides[0];
  const auto look = [&](int key) {
    const int at = key + lane % kFewKeys;
    if (at >= end) return Entry{0, -1};
    const int entry = at / a.page;
    return Entry{table[entry * a.table_strides[1]], at - entry * a.page};
  };
  const uint32_t k_page = static_cast<uint32_t>(a.k.strides[0] / 8), k_row = static_cast<uint32_t>(a.k.strides[1] / 8);
  const uint32_t v_page = static_cast<uint32_t>(a.v.strides[0] / 8), v_row = static_cast<uint32_t>(a.v.strides[1] / 8);
  uint32_t k_at, v_at, v_next;
  const auto place = [&](const Entry& e) {
    const bool is_there = e.place >= 0 && e.page >= 0 && e.page < a.pages;
    const uint32_t page = static_cast<uint32_t>(e.page), row = static_cast<uint32_t>(e.place);
    k_at = is_there ? page * k_page + row * k_row : kNowhere;
    v_next = is_there ? page * v_page + row * v_row : kNowhere;
    if (e.place >= 0 && !is_there) Report(a.error, a.op, e.page, a.pages);
  };
  const T* const k = At<const T>(a.k.data) + group * a.k.strides[2] + t * 8;
  const T* const v = At<const T>(a.v.data) + group * a.v.strides[2] + g * 8;

  uint4 keys[2][kChunks];
  const auto read_keys = [&] {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const uint32_t at = __shfl_sync(kAllLanes, k_at, n * 8 + g);
#pragma unroll
      for (int j = 0; j < kChunks; ++j)
        keys[n][j] = Read(k + at * uint64_t{8} + j * 32, at != kNowhere && j * 32 + t * 8 < a.dim);
    }
  };
  place(look(begin));
  v_at = v_next;
  read_keys();
  Entry ahead = look(begin + kFewKeys);
#pragma unroll 1
  for (int key = begin; key < end; key += kFewKeys) {
    uint4 values[kHalves][4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const uint32_t at = __shfl_sync(kAllLanes, v_at, 2 * t + n % 2 + n / 2 * 8);
#pragma unroll
      for (int j = 0; j < kHalves; ++j)
        values[j][n] = Read(v + at * uint64_t{8} + j * 64, at != kNowhere && j * 64 + g * 8 < a.value_dim);
    }
    place(ahead);
    ahead = look(key + 2 * kFewKeys);
    float s[2][4] = {};
    own.Score(keys, s);
    if (key + kFewKeys < end) read_keys();
    own.Add(s, values, key, end, t, scale);
    v_at = v_next;
  }

  const bool is_whole = part.count == 1;
  own.Leave(t, scale, [&](int h) {
    const int row = tile * 16 + g + h * 8;
    const int64_t first = static_cast<int64_t>(is_whole ? part.sequence : number) * a.groups + group;
    return FewPlace{a.y, a.sums, a.weights, row < rows ? first * rows + row : -1, a.value_dim, is_whole};
  });
  if (a.divides && number == part.first && group == 0 && tile == 0 && lane == 0)
    At<int2>(a.plan)[part.sequence] = make_int2(part.first, part.count);
}

/// A block for each row of the result.
template <class Of>
__device__ __forceinline__ void End(const PagedAttentionArgs& a) {
  const int64_t rows = a.share * a.queries, group = blockIdx.x / rows;
  const int2 plan = At<const int2>(a.plan)[group / a.groups];
  if (plan.y == 1) return;
  const int64_t first = (static_cast<int64_t>(plan.x) * a.groups + group % a.groups) * rows + blockIdx.x % rows;
  JoinStretches<Of>(FewParts{a.sums, a.weights, first, a.groups * rows, plan.y, a.value_dim, a.y, int64_t{blockIdx.x}});
}

// ---- rows

constexpr int kRowKeys = 256;  // keys of a tile, and threads of a block

/// Where the row of a position begins in k or v, for all columns of one head; null: nowhere, which is reported.
template <class T>
__device__ __forceinline__ const T* RowAt(const PagedAttentionArgs& a, const Strided4& pool, const int64_t* table,
                                          int group, int at, bool reports) {
  const int entry = at / a.page;
  const int64_t page = table[entry * a.table_strides[1]];
  if (page < 0 || page >= a.pages) {
    if (reports) Report(a.error, a.op, page, a.pages);
    return nullptr;
  }
  return At<const T>(pool.data) + page * pool.strides[0] + (at - entry * a.page) * pool.strides[1] +
         group * pool.strides[2];
}

/// Column `col` of the result of one query, for part `part` of `parts` of the keys: all threads of a block take part.
template <class T, class C>
__device__ __forceinline__ void Row(const PagedAttentionArgs& a, int64_t item, int col, int part, int parts, C* scores,
                                    C* shared_max, Total<C>* shared_sum, C* shared_out) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int query = static_cast<int>(item % a.queries), head = static_cast<int>(item / a.queries % a.heads);
  const int sequence = static_cast<int>(item / a.queries / a.heads), group = head / a.share;
  const T* q = At<const T>(a.q.data) + sequence * a.q.strides[0] + head * a.q.strides[1] + query * a.q.strides[2];
  const int64_t* table = At<const int64_t>(a.table) + sequence * a.table_strides[0];
  const int keys = SeenOf(a, LengthOf(a, sequence, threadIdx.x == 0), query);
  const C scale = static_cast<C>(a.scale);
  C max = -Inf(C(0)), out = 0;
  double sum = 0;
#pragma unroll 1
  for (int k0 = 0; k0 < keys; k0 += kRowKeys) {
    const int count = keys - k0 < kRowKeys ? keys - k0 : kRowKeys;
    __syncthreads();  // the scores of the tile before are used up
#pragma unroll 1
    for (int j = warp; j < count; j += kRowKeys / 32) {
      const T* row = RowAt<T>(a, a.k, table, group, k0 + j, lane == 0);
      C dot = 0;
      if (row != nullptr) {
#pragma unroll 4
        for (int d = lane; d < a.dim; d += 32)
          dot = Fma(Get<C>(q[d * a.q.strides[3]]), Get<C>(row[d * a.k.strides[3]]), dot);
      }
      dot = WarpReduce(dot, [](C x, C y) { return x + y; }) * scale;
      if (lane == 0) scores[j] = dot;
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
      for (int j = part; j < count; j += parts) {
        const T* row = RowAt<T>(a, a.v, table, group, k0 + j, false);
        if (row != nullptr) out = Fma(scores[j], Get<C>(row[col * a.v.strides[3]]), out);
      }
    }
  }
  __syncthreads();
  shared_out[threadIdx.x] = out;
  __syncthreads();
  if (part == 0 && col < a.value_dim) {
    const int wide = kRowKeys / parts;
    for (int p = 1; p < parts; ++p) out += shared_out[threadIdx.x + p * wide];
    const bool zero = max == -Inf(C(0)) || sum == 0;
    Put(zero ? C(0) : out * static_cast<C>(1 / sum), At<T>(a.y)[item * a.value_dim + col]);
  }
}

template <class C>
__device__ __forceinline__ void Rows(const PagedAttentionArgs& a) {
  __shared__ C scores[kRowKeys], shared_out[kRowKeys], shared_max[32];
  __shared__ Total<C> shared_sum[32];
  int wide = 32;  // columns side by side
  while (wide < kRowKeys && wide < a.value_dim) wide *= 2;
  const int64_t items = static_cast<int64_t>(a.batch) * a.heads * a.queries;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    for (int first = 0; first < a.value_dim; first += wide) {
      WithStorage<C>(a.dtype, [&](auto tag) {
        using T = typename decltype(tag)::Type;
        Row<T, C>(a, item, first + threadIdx.x % wide, threadIdx.x / wide, kRowKeys / wide, scores, shared_max,
                  shared_sum, shared_out);
      });
    }
  }
}

}  // namespace

#define TSR_PAGED(name, of)                                                        \
  extern "C" __global__ void __launch_bounds__(kWarps * 32, 3)                     \
      paged_attention_##name##_64(const __grid_constant__ PagedAttentionArgs a) {  \
    Walk<of, 64>(a);                                                               \
  }                                                                                \
  extern "C" __global__ void __launch_bounds__(kWarps * 32, 2)                     \
      paged_attention_##name##_128(const __grid_constant__ PagedAttentionArgs a) { \
    Walk<of, 128>(a);                                                              \
  }                                                                                \
  extern "C" __global__ void __launch_bounds__(kWarps * 32)                        \
      paged_attention_##name##_end(const __grid_constant__ PagedAttentionArgs a) { \
    End<of>(a);                                                                    \
  }
TSR_PAGED(f16, OfF16)
TSR_PAGED(bf16, OfBF16)
#undef TSR_PAGED

extern "C" __global__ void __launch_bounds__(256, 3)
    paged_attention_rows_f32(const __grid_constant__ PagedAttentionArgs a) {
  Rows<float>(a);
}
extern "C" __global__ void __launch_bounds__(256, 3)
    paged_attention_rows_f64(const __grid_constant__ PagedAttentionArgs a) {
  Rows<double>(a);
}

}  // namespace tessera::cuda
