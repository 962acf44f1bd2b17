// Stable sort and top k. (key, index) pairs are all different, so any sort of them is stable and its result is unique:
// short rows are sorted in shared memory by a bitonic network, many at once; those that fill a block by radix, least
// significant digit first, also there; longer ones by radix through global memory.
#include "interp/cuda/kernels/moves.cuh"
#include "interp/cuda/sort_args.h"

namespace tessera::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kBlockWarps = kBlock / 32;
constexpr int kItems = kRadixTile / kBlock;
static_assert(kBlock == kDigits);

/// -0 and 0 have one key; every NaN has the largest.
template <class B>
__device__ __forceinline__ B KeyOf(B bits, const KeyRule& rule) {
  constexpr B kAll = static_cast<B>(~B{0});
  B key;
  if (rule.floating) {
    constexpr B kSign = static_cast<B>(B{1} << (sizeof(B) * 8 - 1));
    const B magnitude = static_cast<B>(bits & ~kSign);
    if (magnitude > static_cast<B>(rule.inf)) {
      key = kAll;
    } else if (magnitude == 0) {
      key = kSign;
    } else {
      key = static_cast<B>((bits & kSign) != 0 ? ~bits : bits | kSign);
    }
    if (rule.order == SortOrder::descending && key == kAll) return key;
  } else {
    key = static_cast<B>(bits ^ static_cast<B>(rule.flip));
  }
  return rule.order == SortOrder::ascending ? key : static_cast<B>(~key);
}

/// The element of a key, where only one has it: not of zeros and NaNs.
template <class B>
__device__ __forceinline__ bool BitsOf(B key, const KeyRule& rule, B* bits) {
  constexpr B kAll = static_cast<B>(~B{0}), kSign = static_cast<B>(B{1} << (sizeof(B) * 8 - 1));
  if (rule.floating && rule.order == SortOrder::descending && key == kAll) return false;
  if (rule.order != SortOrder::ascending) key = static_cast<B>(~key);
  if (!rule.floating) {
    *bits = static_cast<B>(key ^ static_cast<B>(rule.flip));
    return true;
  }
  *bits = static_cast<B>((key & kSign) != 0 ? key & ~kSign : ~key);
  return key != kAll && key != kSign;
}

/// Keys of up to four bytes and indices below 2^32 - 1, as one number.
struct Entry32 {
  uint64_t both;
  __device__ static Entry32 Make(uint64_t key, int64_t index) { return {key << 32 | static_cast<uint64_t>(index)}; }
  __device__ static Entry32 Last() { return {~uint64_t{0}}; }
  __device__ int64_t index() const { return static_cast<int64_t>(both & 0xffffffffu); }
  __device__ bool operator<(const Entry32& o) const { return both < o.both; }
};
struct Entry64 {
  uint64_t key, at;
  __device__ static Entry64 Make(uint64_t key, int64_t index) { return {key, static_cast<uint64_t>(index)}; }
  __device__ static Entry64 Last() { return {~uint64_t{0}, ~uint64_t{0}}; }
  __device__ int64_t index() const { return static_cast<int64_t>(at); }
  __device__ bool operator<(const Entry64& o) const { return key != o.key ? key < o.key : at < o.at; }
};

/// Sorts each span of s. The caller has a barrier between its accesses of s and this, on both sides.
template <class E>
__device__ __forceinline__ void SortSpans(E* s, int span) {
  int before = 0;
  for (int size = 2; size <= span; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      // With steps of up to 32, a warp's pairs lie in 64 slots that are its own.
      if (step > 32 || before > 32)
        __syncthreads();
      else
        __syncwarp();
      before = step;
#pragma unroll
      for (int p = threadIdx.x; p < kSortTile / 2; p += kBlock) {
        const int i = (p & ~(step - 1)) << 1 | (p & (step - 1));
        const E a = s[i], b = s[i + step];
        const bool up = (i & (span - 1) & size) == 0;
        if ((b < a) == up) {
          s[i] = b;
          s[i + step] = a;
        }
      }
    }
  }
}

/// Where place `at` along the axis of a row is in a result.
__device__ __forceinline__ int64_t PlaceOf(int64_t row, int64_t at, int64_t k, int64_t inner) {
  const Parts p = Divide(row, inner);
  return (p.quotient * k + at) * inner + p.rest;
}

template <class B, class E>
__device__ __forceinline__ void TileSort(const TileSortArgs& a) {
  __shared__ E s[kSortTile];
  const B* x = At<const B>(a.rows.x);
  const E* in = a.entries_in == 0 ? nullptr : At<const E>(a.entries_in);
  const int shift = 31 - __clz(a.span), per_block = kSortTile >> shift;
  const int64_t all = a.count * a.tiles;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * per_block; first < all;
       first += static_cast<int64_t>(gridDim.x) * per_block) {
    __syncthreads();
    for (int slot = threadIdx.x; slot < kSortTile; slot += kBlock) {
      const int64_t tile = first + (slot >> shift);
      E e = E::Last();
      if (tile < all) {
        const Parts p = Divide(tile, a.tiles);
        const int64_t at = p.rest * a.span + (slot & (a.span - 1));
        if (at < a.length) {
          if (in != nullptr) {
            e = in[p.quotient * a.length + at];
          } else {
            e = E::Make(KeyOf(x[OffsetOf(a.rows.rest, p.quotient) + at * a.rows.stride], a.rows.rule), at);
          }
        }
      }
      s[slot] = e;
    }
    __syncthreads();
    SortSpans(s, a.span);
    __syncthreads();
    for (int slot = threadIdx.x; slot < kSortTile; slot += kBlock) {
      const int64_t tile = first + (slot >> shift);
      const int64_t at = slot & (a.span - 1);
      if (tile >= all || at >= a.k) continue;
      if (a.entries_out != 0) {
        At<E>(a.entries_out)[tile * a.k + at] = s[slot];
      } else {
        // One tile a row.
        const int64_t index = s[slot].index(), place = PlaceOf(tile, at, a.k, a.inner);
        At<B>(a.values)[place] = x[OffsetOf(a.rows.rest, tile) + index * a.rows.stride];
        At<int64_t>(a.indices)[place] = index;
      }
    }
  }
}

template <class B, class K>
__device__ __forceinline__ void SortKeys(const SortKeysArgs& a) {
  const B* x = At<const B>(a.rows.x);
  K* keys = At<K>(a.keys);
  const int64_t n = a.count * a.length;
  for (int64_t i = ThreadIndex(); i < n; i += ThreadCount()) {
    const Parts p = Divide(i, a.length);
    keys[i] = KeyOf(x[OffsetOf(a.rows.rest, a.first + p.quotient) + p.rest * a.rows.stride], a.rows.rule);
  }
}

template <class B>
__device__ __forceinline__ void SortEmit(const SortEmitArgs& a) {
  const B* x = At<const B>(a.rows.x);
  const void* sorted = At<const void>(a.index);
  B* values = At<B>(a.values);
  int64_t* indices = At<int64_t>(a.indices);
  const int64_t n = a.count * a.k;
  for (int64_t i = ThreadIndex(); i < n; i += ThreadCount()) {
    // Neighbouring threads write neighbouring elements.
    int64_t row, at;
    if (a.inner == 1) {
      const Parts p = Divide(i, a.k);
      row = p.quotient;
      at = p.rest;
    } else {
      const Parts p = Divide(i, a.count);
      row = p.rest;
      at = p.quotient;
    }
    const int64_t from = row * a.length + at;
    const int64_t index = a.wide ? static_cast<const int64_t*>(sorted)[from]
                                 : static_cast<int64_t>(static_cast<const uint32_t*>(sorted)[from]);
    row += a.first;
    const int64_t place = PlaceOf(row, at, a.k, a.inner);
    values[place] = x[OffsetOf(a.rows.rest, row) + index * a.rows.stride];
    indices[place] = index;
  }
}

// ---- radix sort. A pass counts digits in every tile, adds the counts up, and moves each tile's elements.

/// The sum of x over the block's threads before this one; *total is that of all. `shared` has room for its warps.
template <int kWarps = kBlock / 32, class T>
__device__ __forceinline__ T SumBefore(T x, T* shared, T* total) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  T sum = x;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const T other = __shfl_up_sync(kAllLanes, sum, d);
    if (lane >= d) sum += other;
  }
  __syncthreads();  // whoever used `shared` before is through
  if (lane == 31) shared[warp] = sum;
  __syncthreads();
  T before = 0, all = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) before = all;
    all += shared[w];
  }
  *total = all;
  return before + sum - x;
}

template <class K>
__device__ __forceinline__ int DigitOf(K key, int shift) {
  return static_cast<int>(key >> shift) & (kDigits - 1);
}

/// The lanes among `of` that have the same digit.
__device__ __forceinline__ unsigned PeersOf(int digit, unsigned of) {
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    // Lanes that have the bit, or those that have it not: in PTX, because ptxas makes twice as much of the C++.
    unsigned same;
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\nvote.sync.ballot.b32 %0, p, 0xffffffff;\n@!p not.b32 %0, %0;\n}"
        : "=r"(same)
        : "r"(digit & 1 << b));
    of &= same;
  }
  return of;
}

/// A row in shared memory: so many items for each thread. Keys of up to two bytes and their indices are one number of
/// four bytes, those of four bytes one of eight.
template <class B, int kRowItems, int kRowThreads>
__device__ __forceinline__ void RowSort(const TileSortArgs& a) {
  using E = std::conditional_t<sizeof(B) <= 2, uint32_t, uint64_t>;
  constexpr int kRowWarps = kRowThreads / 32, kIndexBits = sizeof(E) * 4;
  constexpr E kIndexMask = (E{1} << kIndexBits) - 1;
  __shared__ E s[kRowItems * kRowThreads];
  __shared__ uint16_t counts[kRowWarps][kDigits];  // of a warp's digits; then: where it puts the first one
  __shared__ uint32_t sums[kRowWarps];
  const B* x = At<const B>(a.rows.x);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned lower = (1u << lane) - 1;
  // A warp has a contiguous part, of which it goes through 32 items at a time: in order.
  const int part = warp * (kRowItems * 32) + lane, length = static_cast<int>(a.length);
  for (int64_t row = blockIdx.x; row < a.count; row += gridDim.x) {
    const B* from = x + OffsetOf(a.rows.rest, row);
    E e[kRowItems];
#pragma unroll
    for (int j = 0; j < kRowItems; ++j) {
      const int at = part + j * 32;
      e[j] = ~E{0};  // after all others, being last
      if (at < length) e[j] = static_cast<E>(KeyOf(from[at * a.rows.stride], a.rows.rule)) << kIndexBits | E(at);
    }
#pragma unroll 1
    for (int shift = kIndexBits; shift < kIndexBits + static_cast<int>(sizeof(B)) * 8; shift += 8) {
      if (shift > kIndexBits) {
#pragma unroll
        for (int j = 0; j < kRowItems; ++j) e[j] = s[part + j * 32];
      }
      for (int i = threadIdx.x; i < kRowWarps * kDigits; i += kRowThreads) (&counts[0][0])[i] = 0;
      __syncthreads();
      uint32_t rank[kRowItems];  // equal digits before it in the part
#pragma unroll
      for (int j = 0; j < kRowItems; ++j) {
        const int digit = DigitOf(e[j], shift);
        const unsigned peers = PeersOf(digit, kAllLanes);
        const uint32_t seen = counts[warp][digit];
        __syncwarp();
        counts[warp][digit] = static_cast<uint16_t>(seen + __popc(peers));  // peers write the same
        __syncwarp();
        rank[j] = seen + __popc(peers & lower);
      }
      __syncthreads();
      uint32_t all = 0, ignored;
      if (threadIdx.x < kDigits) {
#pragma unroll
        for (int w = 0; w < kRowWarps; ++w) all += counts[w][threadIdx.x];
      }
      uint32_t start = SumBefore<kRowWarps>(all, sums, &ignored);
      if (threadIdx.x < kDigits) {
#pragma unroll
        for (int w = 0; w < kRowWarps; ++w) {
          const uint32_t c = counts[w][threadIdx.x];
          counts[w][threadIdx.x] = static_cast<uint16_t>(start);
          start += c;
        }
      }
      __syncthreads();
#pragma unroll
      for (int j = 0; j < kRowItems; ++j) s[counts[warp][DigitOf(e[j], shift)] + rank[j]] = e[j];
      __syncthreads();
    }
    for (int at = threadIdx.x; at < a.k; at += kRowThreads) {
      const E entry = s[at];
      const int64_t index = static_cast<int64_t>(entry & kIndexMask), place = PlaceOf(row, at, a.k, a.inner);
      B value;
      if (!BitsOf(static_cast<B>(entry >> kIndexBits), a.rows.rule, &value)) value = from[index * a.rows.stride];
      At<B>(a.values)[place] = value;
      At<int64_t>(a.indices)[place] = index;
    }
    __syncthreads();  // the next row overwrites s
  }
}

template <class K, class I>
__device__ __forceinline__ void RadixCount(const RadixArgs& a) {
  __shared__ uint32_t counts[kDigits];
  const K* all = At<const K>(a.keys_in);
  I* out = At<I>(a.counts);
  for (int64_t block = blockIdx.x; block < a.rows * a.tiles; block += gridDim.x) {
    const Parts p = Divide(block, a.tiles);
    const int64_t begin = p.rest * kRadixTile;
    const int64_t left = a.length - begin;
    const int count = left < kRadixTile ? static_cast<int>(left) : kRadixTile;
    const K* keys = all + p.quotient * a.length + begin;
    __syncthreads();
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += kBlock) atomicAdd(&counts[DigitOf(keys[i], a.shift)], 1u);
    __syncthreads();
    out[(p.quotient * kDigits + threadIdx.x) * a.tiles + p.rest] = counts[threadIdx.x];
  }
}

/// A block for each digit of each row.
template <class I>
__device__ __forceinline__ void RadixScan(const RadixArgs& a) {
  __shared__ I shared[kBlockWarps];
  for (int64_t block = blockIdx.x; block < a.rows * kDigits; block += gridDim.x) {
    I* counts = At<I>(a.counts) + block * a.tiles;
    I carry = 0;
    for (int64_t begin = 0; begin < a.tiles; begin += kBlock) {
      const int64_t i = begin + threadIdx.x;
      const I x = i < a.tiles ? counts[i] : I{0};
      I total;
      const I before = SumBefore(x, shared, &total);
      if (i < a.tiles) counts[i] = carry + before;
      carry += total;
    }
    if (threadIdx.x == 0) At<I>(a.totals)[block] = carry;
  }
}

template <class K, class I>
__device__ __forceinline__ void RadixMove(const RadixArgs& a) {
  __shared__ K staged_keys[kRadixTile];
  __shared__ I staged_index[kRadixTile];
  __shared__ uint32_t warp_counts[kBlockWarps][kDigits];  // then: elements of that digit in the warps before
  __shared__ uint32_t starts[kDigits];                    // where a digit begins in the tile
  __shared__ I bases[kDigits];                            // a tile's slot + base is the place in the row
  __shared__ I shared[kBlockWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned lower = (1u << lane) - 1;
  for (int64_t block = blockIdx.x; block < a.rows * a.tiles; block += gridDim.x) {
    const Parts p = Divide(block, a.tiles);
    const int64_t row = p.quotient * a.length, begin = p.rest * kRadixTile;
    const int64_t left = a.length - begin;
    const int count = left < kRadixTile ? static_cast<int>(left) : kRadixTile;
    const K* keys = At<const K>(a.keys_in) + row + begin;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < kBlockWarps; ++w) warp_counts[w][threadIdx.x] = 0;
    __syncthreads();

    // A warp goes through a contiguous part in order, 32 elements at a time. rank: equal digits before it in the part.
    const int part = warp * (kRadixTile / kBlockWarps) + lane;
    K key[kItems];
    uint32_t rank[kItems];
#pragma unroll
    for (int j = 0; j < kItems; ++j) key[j] = part + j * 32 < count ? keys[part + j * 32] : K{0};
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      const bool valid = part + j * 32 < count;
      const int digit = DigitOf(key[j], a.shift);
      const unsigned peers = PeersOf(digit, __ballot_sync(kAllLanes, valid));
      uint32_t seen = 0;
      if (valid) seen = warp_counts[warp][digit];
      __syncwarp();
      if (valid && (peers & lower) == 0) warp_counts[warp][digit] = seen + __popc(peers);
      __syncwarp();
      rank[j] = seen + __popc(peers & lower);
    }
    __syncthreads();

    const int digit = threadIdx.x;
    uint32_t in_tile = 0;
#pragma unroll
    for (int w = 0; w < kBlockWarps; ++w) {
      const uint32_t c = warp_counts[w][digit];
      warp_counts[w][digit] = in_tile;
      in_tile += c;
    }
    I ignored;
    const I start = SumBefore(static_cast<I>(in_tile), shared, &ignored);
    const I base = SumBefore(At<const I>(a.totals)[p.quotient * kDigits + digit], shared, &ignored);
    starts[digit] = static_cast<uint32_t>(start);
    bases[digit] = base + At<const I>(a.counts)[(p.quotient * kDigits + digit) * a.tiles + p.rest] - start;
    __syncthreads();

    // Sorted in shared memory first, so that neighbouring threads write to neighbouring places.
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      const int at = part + j * 32;
      if (at >= count) continue;
      const int d = DigitOf(key[j], a.shift);
      const uint32_t slot = rank[j] + starts[d] + warp_counts[warp][d];
      staged_keys[slot] = key[j];
      staged_index[slot] = a.index_in == 0 ? static_cast<I>(begin + at) : At<const I>(a.index_in)[row + begin + at];
    }
    __syncthreads();
    K* keys_out = At<K>(a.keys_out) + row;
    I* index_out = At<I>(a.index_out) + row;
    for (int slot = threadIdx.x; slot < count; slot += kBlock) {
      const K k = staged_keys[slot];
      const I to = bases[DigitOf(k, a.shift)] + static_cast<I>(slot);
      keys_out[to] = k;
      index_out[to] = staged_index[slot];
    }
  }
}

}  // namespace

// Registers for at least three blocks of a multiprocessor.
#define TSR_KERNEL(name, Args, call) \
  extern "C" __global__ void __launch_bounds__(kBlock, 3) name(const __grid_constant__ Args a) { call(a); }
#define TSR_TYPED(...) __VA_ARGS__

TSR_KERNEL(tile_sort_1, TileSortArgs, TSR_TYPED(TileSort<uint8_t, Entry32>))
TSR_KERNEL(tile_sort_2, TileSortArgs, TSR_TYPED(TileSort<uint16_t, Entry32>))
TSR_KERNEL(tile_sort_4, TileSortArgs, TSR_TYPED(TileSort<uint32_t, Entry32>))
TSR_KERNEL(tile_sort_8, TileSortArgs, TSR_TYPED(TileSort<uint64_t, Entry64>))

// By bytes of an element and items of a row.
#define TSR_ROW_SORT(bytes, slots, B, items, threads)                                   \
  extern "C" __global__ void __launch_bounds__(threads, items > 8 ? 1 : 1024 / threads) \
      row_sort_##bytes##_##slots(const __grid_constant__ TileSortArgs a) {              \
    RowSort<B, items, threads>(a);                                                      \
  }
TSR_ROW_SORT(1, 1024, uint8_t, 4, 256)
TSR_ROW_SORT(1, 2048, uint8_t, 8, 256)
TSR_ROW_SORT(1, 4096, uint8_t, 8, 512)
TSR_ROW_SORT(1, 8192, uint8_t, 16, 512)
TSR_ROW_SORT(2, 1024, uint16_t, 4, 256)
TSR_ROW_SORT(2, 2048, uint16_t, 8, 256)
TSR_ROW_SORT(2, 4096, uint16_t, 8, 512)
TSR_ROW_SORT(2, 8192, uint16_t, 16, 512)
TSR_ROW_SORT(4, 1024, uint32_t, 4, 256)
TSR_ROW_SORT(4, 2048, uint32_t, 8, 256)
TSR_ROW_SORT(4, 4096, uint32_t, 8, 512)

// By bytes of an element and of a key.
TSR_KERNEL(sort_keys_1_4, SortKeysArgs, TSR_TYPED(SortKeys<uint8_t, uint32_t>))
TSR_KERNEL(sort_keys_2_4, SortKeysArgs, TSR_TYPED(SortKeys<uint16_t, uint32_t>))
TSR_KERNEL(sort_keys_4_4, SortKeysArgs, TSR_TYPED(SortKeys<uint32_t, uint32_t>))
TSR_KERNEL(sort_keys_1_8, SortKeysArgs, TSR_TYPED(SortKeys<uint8_t, uint64_t>))
TSR_KERNEL(sort_keys_2_8, SortKeysArgs, TSR_TYPED(SortKeys<uint16_t, uint64_t>))
TSR_KERNEL(sort_keys_4_8, SortKeysArgs, TSR_TYPED(SortKeys<uint32_t, uint64_t>))
TSR_KERNEL(sort_keys_8_8, SortKeysArgs, TSR_TYPED(SortKeys<uint64_t, uint64_t>))

TSR_KERNEL(sort_emit_1, SortEmitArgs, SortEmit<uint8_t>)
TSR_KERNEL(sort_emit_2, SortEmitArgs, SortEmit<uint16_t>)
TSR_KERNEL(sort_emit_4, SortEmitArgs, SortEmit<uint32_t>)
TSR_KERNEL(sort_emit_8, SortEmitArgs, SortEmit<uint64_t>)

// By bytes of a key and of an index.
TSR_KERNEL(radix_count_4_4, RadixArgs, TSR_TYPED(RadixCount<uint32_t, uint32_t>))
TSR_KERNEL(radix_count_8_4, RadixArgs, TSR_TYPED(RadixCount<uint64_t, uint32_t>))
TSR_KERNEL(radix_count_8_8, RadixArgs, TSR_TYPED(RadixCount<uint64_t, uint64_t>))
TSR_KERNEL(radix_scan_4, RadixArgs, RadixScan<uint32_t>)
TSR_KERNEL(radix_scan_8, RadixArgs, RadixScan<uint64_t>)
TSR_KERNEL(radix_move_4_4, RadixArgs, TSR_TYPED(RadixMove<uint32_t, uint32_t>))
TSR_KERNEL(radix_move_8_4, RadixArgs, TSR_TYPED(RadixMove<uint64_t, uint32_t>))
TSR_KERNEL(radix_move_8_8, RadixArgs, TSR_TYPED(RadixMove<uint64_t, uint64_t>))

}  // namespace tessera::cuda
