// paged_attention. Two kernels:
//
//   walk  f16 and bf16 of up to 128 columns, on tensor cores (sm_80 and newer), as attention_few.cu: a warp has 16 rows
//         of the queries that share a head of keys, and a part of a sequence. `end` puts parts together.
//   rows  one query a block, anything
//
// The host does not know the lengths, so every warp works out from all of them how sequences are cut: into parts that
// are as long for one as for another, enough of them for the device. A long sequence among short ones has many.
//
// Where pages are multiples of 16 positions, a step of keys lies in one page, and the addresses of its rows follow from
// each other. That matters: with a lookup for each position the same loop moves 0.6 of the bytes in a second.
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

/// Where the rows of a step of keys lie in the pool, in pages of any size. A lane has one position, and hands round
/// where its row begins, in units of 16 bytes.
template <class T>
class AnyPages {
 public:
  __device__ __forceinline__ AnyPages(const PagedAttentionArgs& a, const int64_t* table, int begin, int end)
      : a_(a), table_(table), end_(end) {
    Look(begin);
  }

  /// On to the step from `key` on. The table is read a step before.
  __device__ __forceinline__ void Advance(int key) {
    const bool is_there = place_ >= 0 && page_ >= 0 && page_ < a_.pages;
    const uint32_t page = static_cast<uint32_t>(page_), row = static_cast<uint32_t>(place_);
    k_ = is_there ? page * Units(a_.k, 0) + row * Units(a_.k, 1) : kNowhere;
    v_ = is_there ? page * Units(a_.v, 0) + row * Units(a_.v, 1) : kNowhere;
    if (place_ >= 0 && !is_there) Report(a_.error, a_.op, page_, a_.pages);
    Look(key + kFewKeys);
  }

  /// The row of position i of the step, which begins at `key`, counted from `first`; null: there is none.
  __device__ __forceinline__ const T* Key(const T* first, int, int i) const { return Row(first, k_, i); }
  __device__ __forceinline__ const T* Value(const T* first, int, int i) const { return Row(first, v_, i); }

 private:
  static __device__ __forceinline__ uint32_t Units(const Strided4& x, int dim) {
    return static_cast<uint32_t>(x.strides[dim] / 8);
  }
  static __device__ __forceinline__ const T* Row(const T* first, uint32_t mine, int i) {
    const uint32_t units = __shfl_sync(kAllLanes, mine, i);
    return units == kNowhere ? nullptr : first + units * uint64_t{8};
  }
  __device__ __forceinline__ void Look(int key) {
    const int at = key + static_cast<int>(threadIdx.x) % kFewKeys;
    place_ = -1;
    if (at >= end_) return;
    const int entry = at / a_.page;
    page_ = table_[entry * a_.table_strides[1]];
    place_ = at - entry * a_.page;
  }

  const PagedAttentionArgs& a_;
  const int64_t* const table_;
  const int end_;
  int64_t page_ = 0;  // of this lane's position in the next step
  int place_ = -1;    // there; below 0: there is none
  uint32_t k_ = kNowhere, v_ = kNowhere;
};

/// The same in pages of whole steps: all rows of a step lie in one page.
template <class T>
class StepPages {
 public:
  __device__ __forceinline__ StepPages(const PagedAttentionArgs& a, const int64_t* table, int begin, int end)
      : a_(a), table_(table), end_(end), entry_(begin / a.page), place_(begin - entry_ * a.page) {
    Look();
    page_ = next_;
    ++entry_;
    Look();
  }

  /// The table is read a page before.
  __device__ __forceinline__ void Advance(int key) {
    is_there_ = page_ >= 0 && page_ < a_.pages;
    k_ = page_ * a_.k.strides[0] + place_ * a_.k.strides[1];
    v_ = page_ * a_.v.strides[0] + place_ * a_.v.strides[1];
    if (!is_there_ && key < end_) Report(a_.error, a_.op, page_, a_.pages);
    place_ += kFewKeys;
    if (place_ < a_.page) return;
    place_ = 0;
    page_ = next_;
    ++entry_;
    Look();
  }

  __device__ __forceinline__ const T* Key(const T* first, int key, int i) const {
    return is_there_ && key + i < end_ ? first + k_ + i * a_.k.strides[1] : nullptr;
  }
  __device__ __forceinline__ const T* Value(const T* first, int key, int i) const {
    return is_there_ && key + i < end_ ? first + v_ + i * a_.v.strides[1] : nullptr;
  }

 private:
  __device__ __forceinline__ void Look() {
    if (int64_t{entry_} * a_.page < end_) next_ = table_[entry_ * a_.table_strides[1]];
  }

  const PagedAttentionArgs& a_;
  const int64_t* const table_;
  const int end_;
  int entry_, place_;  // of the page after this one in the table; of the next step in its page
  int64_t page_, next_ = 0;
  int64_t k_, v_;
  bool is_there_;
};

template <class Of, int kDim, template <class> class Pages>
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

  const T* const k = At<const T>(a.k.data) + group * a.k.strides[2] + t * 8;
  const T* const v = At<const T>(a.v.data) + group * a.v.strides[2] + g * 8;
  Pages<T> pages(a, At<const int64_t>(a.table) + part.sequence * a.table_strides[0], begin, end);
  uint4 keys[2][kChunks];
  const auto read_keys = [&](int key) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const T* const row = pages.Key(k, key, n * 8 + g);
#pragma unroll
      for (int j = 0; j < kChunks; ++j) keys[n][j] = Read(row + j * 32, row != nullptr && j * 32 + t * 8 < a.dim);
    }
  };
  pages.Advance(begin);
  read_keys(begin);
#pragma unroll 1
  for (int key = begin; key < end; key += kFewKeys) {
    uint4 values[kHalves][4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const T* const row = pages.Value(v, key, 2 * t + n % 2 + n / 2 * 8);
#pragma unroll
      for (int j = 0; j < kHalves; ++j)
        values[j][n] = Read(row + j * 64, row != nullptr && j * 64 + g * 8 < a.value_dim);
    }
    pages.Advance(key + kFewKeys);
    float s[2][4] = {};
    own.Score(keys, s);
    if (key + kFewKeys < end) read_keys(key + kFewKeys);
    own.Add(s, values, key, end, t, scale);
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

#define TSR_PAGED_WALK(name, of, columns, blocks, pages)                     \
  extern "C" __global__ void __launch_bounds__(kWarps * 32, blocks)          \
      paged_attention_##name(const __grid_constant__ PagedAttentionArgs a) { \
    Walk<of, columns, pages>(a);                                             \
  }
#define TSR_PAGED(name, of)                                                        \
  TSR_PAGED_WALK(name##_64, of, 64, 3, StepPages)                                  \
  TSR_PAGED_WALK(name##_128, of, 128, 2, StepPages)                                \
  TSR_PAGED_WALK(name##_64_any, of, 64, 3, AnyPages)                               \
  TSR_PAGED_WALK(name##_128_any, of, 128, 2, AnyPages)                             \
  extern "C" __global__ void __launch_bounds__(kWarps * 32)                        \
      paged_attention_##name##_end(const __grid_constant__ PagedAttentionArgs a) { \
    End<of>(a);                                                                    \
  }
TSR_PAGED(f16, OfF16)
TSR_PAGED(bf16, OfBF16)
#undef TSR_PAGED
#undef TSR_PAGED_WALK

extern "C" __global__ void __launch_bounds__(256, 3)
    paged_attention_rows_f32(const __grid_constant__ PagedAttentionArgs a) {
  Rows<float>(a);
}
extern "C" __global__ void __launch_bounds__(256, 3)
    paged_attention_rows_f64(const __grid_constant__ PagedAttentionArgs a) {
  Rows<double>(a);
}

}  // namespace tessera::cuda
