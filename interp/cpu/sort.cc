// Stable sort and top k along an axis. Every element becomes an unsigned key whose order is the wanted one, with its
// index beside it; (key, index) pairs are all different, so any sort of them is stable and its result is unique.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "interp/cpu/axis.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kWork = 8192;         // elements worth a call of the pool
constexpr int64_t kRadixRow = 512;      // from here counting beats comparing
constexpr int64_t kSplitRow = 1 << 17;  // from here one row is worth cutting
constexpr int64_t kHeapK = 256;         // up to here top k keeps a heap

template <class K>
struct Entry {
  K key;
  std::conditional_t<sizeof(K) == 8, int64_t, uint32_t> index;
  bool operator<(const Entry& o) const { return key != o.key ? key < o.key : index < o.index; }
};
/// Rows of more than 2^32 elements need wide indices, so wide keys.
template <class K>
constexpr bool Holds(int64_t n) {
  return sizeof(K) == 8 || n <= int64_t{UINT32_MAX};
}

/// Order-preserving keys of n elements. -0 and 0 have one key; every NaN has the largest.
template <class K, class Bits>
K FloatKey(Bits bits, Bits inf) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  const Bits magnitude = static_cast<Bits>(bits & ~kSign);
  if (magnitude > inf) return static_cast<K>(~K{0});
  if (magnitude == 0) return kSign;
  return static_cast<Bits>(bits & kSign ? ~bits : bits | kSign);
}

template <class K>
K KeyOf(const char* x, DType dtype, int64_t i) {
  const auto load = [&](auto zero) {
    std::memcpy(&zero, x + i * static_cast<int64_t>(sizeof(zero)), sizeof(zero));
    return zero;
  };
  switch (dtype) {
    case DType::f64: return static_cast<K>(FloatKey<uint64_t>(load(uint64_t{}), uint64_t{0x7ff0000000000000}));
    case DType::f32: return FloatKey<K>(load(uint32_t{}), uint32_t{0x7f800000});
    case DType::f16: return FloatKey<K>(load(uint16_t{}), uint16_t{0x7c00});
    case DType::bf16: return FloatKey<K>(load(uint16_t{}), uint16_t{0x7f80});
    case DType::f8e4m3: return FloatKey<K>(load(uint8_t{}), uint8_t{0x7e});  // no infinity: 0x7f alone is NaN
    case DType::f8e5m2: return FloatKey<K>(load(uint8_t{}), uint8_t{0x7c});
    case DType::i64: return static_cast<K>(load(uint64_t{}) ^ (uint64_t{1} << 63));
    case DType::i32: return load(uint32_t{}) ^ (uint32_t{1} << 31);
    case DType::i8: return load(uint8_t{}) ^ 0x80u;
    case DType::u8:
    case DType::boolean: return load(uint8_t{});
  }
  return 0;
}

/// How keys are turned for the wanted order: NaN stays last in a sort either way, and first in a descending top k.
enum class Order { ascending, descending, descending_nan_first };

template <class K>
void MakeEntries(const char* x, DType dtype, int64_t first, int64_t n, Order order, Entry<K>* out) {
  const bool is_float = IsFloat(dtype);
  const auto fill = [&](auto&& key) {
    for (int64_t i = 0; i < n; ++i) {
      K k = key(i);
      if (order != Order::ascending && !(order == Order::descending && is_float && k == static_cast<K>(~K{0})))
        k = static_cast<K>(~k);
      out[i] = {k, static_cast<decltype(Entry<K>::index)>(first + i)};
    }
  };
  // One loop a dtype, so that the switch is outside.
  switch (dtype) {
#define TSR_DTYPE(name, bytes, kind, rank, summary) \
  case DType::name: return fill([&](int64_t i) { return KeyOf<K>(x, DType::name, i); });
#include "tessera/dtypes.def"
  }
}

/// Least significant digit first, skipping digits that all keys share. Entries come in the order of their indices;
/// sorted ones end up in `a`.
template <class K>
void RadixSort(Entry<K>* a, Entry<K>* b, int64_t n) {
  constexpr int kBits = 8, kDigits = sizeof(K) * 8 / kBits, kBuckets = 1 << kBits;
  int64_t counts[kDigits][kBuckets] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int d = 0; d < kDigits; ++d) ++counts[d][a[i].key >> (d * kBits) & (kBuckets - 1)];
  Entry<K>* from = a;
  Entry<K>* to = b;
  for (int d = 0; d < kDigits; ++d) {
    int64_t* count = counts[d];
    if (count[a[0].key >> (d * kBits) & (kBuckets - 1)] == n) continue;
    int64_t at = 0;
    for (int i = 0; i < kBuckets; ++i) at += std::exchange(count[i], at);
    for (int64_t i = 0; i < n; ++i) to[count[from[i].key >> (d * kBits) & (kBuckets - 1)]++] = from[i];
    std::swap(from, to);
  }
  if (from != a) std::copy(from, from + n, a);
}

/// Entries come in the order of their indices.
template <class K>
void SortEntries(Entry<K>* a, Entry<K>* b, int64_t n) {
  if (n < kRadixRow)
    std::sort(a, a + n);
  else
    RadixSort(a, b, n);
}

/// One long row: pieces sorted side by side, then merged pairwise.
template <class K>
void SortLong(Entry<K>* a, Entry<K>* b, int64_t n) {
  int64_t piece = std::max<int64_t>(kSplitRow / 2, (n + 31) / 32);
  rt::ParallelFor((n + piece - 1) / piece, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * piece; i < std::min(end * piece, n); i += piece)
      RadixSort(a + i, b + i, std::min(piece, n - i));
  });
  Entry<K>* from = a;
  Entry<K>* to = b;
  for (; piece < n; piece *= 2) {
    rt::ParallelFor((n + 2 * piece - 1) / (2 * piece), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * 2 * piece; i < std::min(end * 2 * piece, n); i += 2 * piece) {
        const int64_t middle = std::min(i + piece, n), last = std::min(i + 2 * piece, n);
        std::merge(from + i, from + middle, from + middle, from + last, to + i);
      }
    });
    std::swap(from, to);
  }
  if (from != a) std::copy(from, from + n, a);
}

/// The k smallest entries of n, sorted, to the front of a.
template <class K>
void SelectEntries(Entry<K>* a, Entry<K>* b, int64_t n, int64_t k) {
  if (k == 0) return;
  if (k > n / 4) return SortEntries(a, b, n);
  if (k <= kHeapK) {
    // A heap of the best k so far with the worst of them on top; most elements fail the one comparison.
    std::make_heap(a, a + k);
    for (int64_t i = k; i < n; ++i) {
      if (!(a[i] < a[0])) continue;
      std::pop_heap(a, a + k);
      a[k - 1] = a[i];
      std::push_heap(a, a + k);
    }
    std::sort_heap(a, a + k);
    return;
  }
  // Leaves the indices in no order, which counting by keys alone relies on.
  std::nth_element(a, a + k, a + n);
  std::sort(a, a + k);
}

/// Writes row `row` of both outputs from k sorted entries.
template <class K>
void Emit(const Entry<K>* a, const char* x, const View& values, const View& indices, int64_t row, int64_t k,
          char* value_buffer, int64_t* index_buffer) {
  const auto copy = [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    for (int64_t i = 0; i < k; ++i) {
      std::memcpy(&out[i], x + static_cast<int64_t>(a[i].index) * static_cast<int64_t>(sizeof(T)), sizeof(T));
      index_buffer[i] = static_cast<int64_t>(a[i].index);
    }
  };
  switch (SizeOf(values.dtype)) {
    case 8: copy(reinterpret_cast<uint64_t*>(value_buffer)); break;
    case 4: copy(reinterpret_cast<uint32_t*>(value_buffer)); break;
    case 2: copy(reinterpret_cast<uint16_t*>(value_buffer)); break;
    default: copy(reinterpret_cast<uint8_t*>(value_buffer)); break;
  }
  ScatterBlock(values, row * k, k, value_buffer);
  ScatterBlock(indices, row * k, k, index_buffer);
}

/// The first k in order of each row of n; all views have the axis last.
template <class K>
absl::Status OrderRows(const View& x, const View& values, const View& indices, int64_t rows, int64_t n, int64_t k,
                       Order order) {
  const auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  const int64_t element = static_cast<int64_t>(SizeOf(x.dtype));
  const int64_t entries = aligned(n * static_cast<int64_t>(sizeof(Entry<K>)));
  const int64_t total = 2 * entries + aligned(n * element) + aligned(k * element) + k * 8;
  const bool split = rows < 16 && n >= kSplitRow;
  const auto run = [&](char* memory, int64_t row) {
    Entry<K>* a = reinterpret_cast<Entry<K>*>(memory);
    Entry<K>* b = reinterpret_cast<Entry<K>*>(memory + entries);
    char* raw = memory + 2 * entries;
    char* value_buffer = raw + aligned(n * element);
    int64_t* index_buffer = reinterpret_cast<int64_t*>(value_buffer + aligned(k * element));
    const auto load = [&](int64_t begin, int64_t end) {
      GatherBlock(x, row * n + begin, end - begin, raw + begin * element);
      MakeEntries(raw + begin * element, x.dtype, begin, end - begin, order, a + begin);
    };
    if (split)
      rt::ParallelFor(n, kSplitRow / 4, load);
    else
      load(0, n);
    if (k < n)
      SelectEntries(a, b, n, k);
    else if (split)
      SortLong(a, b, n);
    else
      SortEntries(a, b, n);
    Emit(a, raw, values, indices, row, k, value_buffer, index_buffer);
  };
  std::atomic<bool> failed = false;
  const auto rows_of = [&](int64_t begin, int64_t end) {
    auto memory = Scratch::Make(static_cast<size_t>(total));
    if (!memory.ok()) {
      failed = true;
      return;
    }
    for (int64_t row = begin; row < end; ++row) run(memory->as<char>(), row);
  };
  if (split)
    rows_of(0, rows);
  else
    rt::ParallelFor(rows, std::max<int64_t>(kWork / n, 1), rows_of);
  if (failed) return ResourceExhausted("no memory to order rows of ", n, " elements (", total, " bytes each)");
  return absl::OkStatus();
}

absl::Status OrderAlong(const interp::KernelArgs& args, const AxisSplit& s, int64_t k, Order order) {
  const View& x = *args.in[0];
  if (x.size() == 0 || k == 0) return absl::OkStatus();
  const View xp = AxisLast(x, s.axis), values = AxisLast(*args.out[0], s.axis),
             indices = AxisLast(*args.out[1], s.axis);
  const int64_t rows = s.outer * s.inner;
  if (SizeOf(x.dtype) <= 4 && Holds<uint32_t>(s.extent))
    return OrderRows<uint32_t>(xp, values, indices, rows, s.extent, k, order);
  return OrderRows<uint64_t>(xp, values, indices, rows, s.extent, k, order);
}

}  // namespace

absl::Status k_sort(const interp::KernelArgs& args) {
  TSR_ASSIGN_OR_RETURN(const AxisSplit s, SplitAtAxis(*args.in[0], args.integer(0)));
  return OrderAlong(args, s, s.extent, args.flag(1) ? Order::descending : Order::ascending);
}

absl::Status k_topk(const interp::KernelArgs& args) {
  TSR_ASSIGN_OR_RETURN(const AxisSplit s, SplitAtAxis(*args.in[0], args.integer(1)));
  const int64_t k = args.integer(0);
  if (k < 0 || k > s.extent)
    return InvalidArgument("k = ", k, " is outside 0 to ", s.extent, ", the dim of axis ", s.axis);
  return OrderAlong(args, s, k, args.flag(2) ? Order::descending_nan_first : Order::ascending);
}

}  // namespace tessera::cpu
