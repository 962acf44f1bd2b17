// Stable sort and top k along an axis.
#include "interp/cpu/axis.h"
#include "interp/cuda/launch.h"
#include "interp/cuda/radix.h"
#include "interp/cuda/sort_args.h"

namespace tessera::cuda {

TSR_CUDA_IMAGE(sort);

namespace {

/// Up to here top k keeps the best of each tile, round after round; from there rows are sorted.
constexpr int64_t kSelectK = kSortTile / 4;
/// Elements that are sorted at once through global memory, if a row is not longer: it bounds what scratch memory takes.
constexpr int64_t kBatch = int64_t{1} << 26;

// By size of an element: 1, 2, 4, 8 bytes.
const Kernel kTileSort[] = {
    {kImage, "tile_sort_1"}, {kImage, "tile_sort_2"}, {kImage, "tile_sort_4"}, {kImage, "tile_sort_8"}};
/// By size of an element up to 4 bytes, and slots: 1024, 2048, 4096, 8192.
const Kernel kRowSort[3][4] = {
    {{kImage, "row_sort_1_1024"},
     {kImage, "row_sort_1_2048"},
     {kImage, "row_sort_1_4096"},
     {kImage, "row_sort_1_8192"}},
    {{kImage, "row_sort_2_1024"},
     {kImage, "row_sort_2_2048"},
     {kImage, "row_sort_2_4096"},
     {kImage, "row_sort_2_8192"}},
    {{kImage, "row_sort_4_1024"}, {kImage, "row_sort_4_2048"}, {kImage, "row_sort_4_4096"}, {nullptr, ""}}};
constexpr int64_t kRowSlots = 1024;  // of the first
/// Longer rows fill a block; shorter ones share it.
constexpr int64_t kShortRow = 256;
const Kernel kKeys[] = {{kImage, "sort_keys_1_4"}, {kImage, "sort_keys_2_4"}, {kImage, "sort_keys_4_4"}};
const Kernel kKeysWide[] = {
    {kImage, "sort_keys_1_8"}, {kImage, "sort_keys_2_8"}, {kImage, "sort_keys_4_8"}, {kImage, "sort_keys_8_8"}};
const Kernel kEmit[] = {
    {kImage, "sort_emit_1"}, {kImage, "sort_emit_2"}, {kImage, "sort_emit_4"}, {kImage, "sort_emit_8"}};
// By bytes of key and index: 4 and 4, 8 and 4, 8 and 8.
const Kernel kCount[] = {{kImage, "radix_count_4_4"}, {kImage, "radix_count_8_4"}, {kImage, "radix_count_8_8"}};
const Kernel kScan[] = {{kImage, "radix_scan_4"}, {kImage, "radix_scan_4"}, {kImage, "radix_scan_8"}};
const Kernel kMove[] = {{kImage, "radix_move_4_4"}, {kImage, "radix_move_8_4"}, {kImage, "radix_move_8_8"}};

int Log2(size_t size) { return std::countr_zero(size); }

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

Grid Blocks(int64_t n) { return {std::min<int64_t>(n, 1 << 20), kThreads}; }

KeyRule RuleOf(DType dtype, SortOrder order) {
  KeyRule r{};
  r.order = order;
  r.floating = IsFloat(dtype);
  switch (dtype) {
    case DType::f64: r.inf = 0x7ff0000000000000; break;
    case DType::f32: r.inf = 0x7f800000; break;
    case DType::f16: r.inf = 0x7c00; break;
    case DType::bf16: r.inf = 0x7f80; break;
    case DType::f8e4m3: r.inf = 0x7e; break;  // no infinity: 0x7f alone is NaN
    case DType::f8e5m2: r.inf = 0x7c; break;
    case DType::i64: r.flip = uint64_t{1} << 63; break;
    case DType::i32: r.flip = uint64_t{1} << 31; break;
    case DType::i8: r.flip = 0x80; break;
    case DType::u8:
    case DType::boolean: break;
  }
  return r;
}

/// The first k of each row, sorted in shared memory. Rows of more than a tile take several rounds, each of which keeps
/// k of a tile.
absl::Status OrderTiles(const interp::KernelArgs& args, const SortRows& rows, const cpu::AxisSplit& s, int64_t k) {
  const View& values = *args.out[0];
  const size_t size = SizeOf(values.dtype);
  TileSortArgs a{};
  a.rows = rows;
  a.count = s.outer * s.inner;
  a.length = s.extent;
  a.k = k;
  a.inner = s.inner;
  Scratch entries;
  for (;;) {
    a.tiles = CeilDiv(a.length, kSortTile);
    a.span = a.tiles > 1 ? kSortTile : static_cast<int32_t>(std::bit_ceil(std::max<uint64_t>(a.length, 2)));
    Scratch kept;
    if (a.tiles > 1) {
      TSR_ASSIGN_OR_RETURN(kept, Scratch::Make(*args.device, a.count * a.tiles * k * (size == 8 ? 16 : 8)));
      a.entries_out = kept.address();
    } else {
      a.entries_out = 0;
      a.values = AddressOf(values);
      a.indices = AddressOf(*args.out[1]);
    }
    const int64_t per_block = kSortTile / a.span;
    TSR_RETURN_IF_ERROR(Launch(args, kTileSort[Log2(size)], Blocks(CeilDiv(a.count * a.tiles, per_block)), a));
    if (a.tiles == 1) return absl::OkStatus();
    entries = std::move(kept);
    a.entries_in = entries.address();
    a.length = a.tiles * k;
  }
}

/// Rows that one block sorts in shared memory.
bool SuitsRowSort(size_t size, int64_t extent) {
  return size <= 4 && extent > kShortRow && extent <= kRowSlots * (size == 4 ? 4 : 8);
}

absl::Status OrderRows(const interp::KernelArgs& args, const SortRows& rows, const cpu::AxisSplit& s, int64_t k) {
  TileSortArgs a{};
  a.rows = rows;
  a.values = AddressOf(*args.out[0]);
  a.indices = AddressOf(*args.out[1]);
  a.count = s.outer * s.inner;
  a.length = s.extent;
  a.k = k;
  a.inner = s.inner;
  int which = 0;
  while (kRowSlots << which < s.extent) ++which;
  const int threads = which >= 2 ? 512 : 256;  // as kernels/sort.cu has them
  return Launch(args, kRowSort[Log2(SizeOf(args.out[0]->dtype))][which], {std::min<int64_t>(a.count, 1 << 20), threads},
                a);
}

absl::Status OrderRadix(const interp::KernelArgs& args, const SortRows& rows, const cpu::AxisSplit& s, int64_t k) {
  const View &values = *args.out[0], &indices = *args.out[1];
  const size_t size = SizeOf(values.dtype);
  const int64_t count = s.outer * s.inner, batch = std::clamp<int64_t>(kBatch / s.extent, 1, count);
  const int key_bytes = size == 8 || s.extent >> 32 != 0 ? 8 : 4;
  for (int64_t first = 0; first < count; first += batch) {
    const int64_t n = std::min(batch, count - first);
    TSR_ASSIGN_OR_RETURN(RadixSort sort, RadixSort::Make(args, n, s.extent, key_bytes));
    const SortKeysArgs keys = {rows, sort.keys(), first, n, s.extent};
    TSR_RETURN_IF_ERROR(Launch(args, (key_bytes == 4 ? kKeys : kKeysWide)[Log2(size)], GridFor(n * s.extent, 4), keys));
    TSR_RETURN_IF_ERROR(sort.Sort(args, n, static_cast<int>(size) * 8));
    const SortEmitArgs emit = {rows, sort.index(), AddressOf(values),      AddressOf(indices), first, n, s.extent,
                               k,    s.inner,      sort.index_bytes() == 8};
    TSR_RETURN_IF_ERROR(Launch(args, kEmit[Log2(size)], GridFor(n * k), emit));
  }
  return absl::OkStatus();
}

absl::Status Order(const interp::KernelArgs& args, const cpu::AxisSplit& s, int64_t k, SortOrder order) {
  const View& x = *args.in[0];
  if (x.size() == 0 || k == 0) return absl::OkStatus();
  View rest = x;
  rest.rank = static_cast<uint8_t>(x.rank - 1);
  for (int d = s.axis; d + 1 < x.rank; ++d) {
    rest.dims[d] = x.dims[d + 1];
    rest.strides[d] = x.strides[d + 1];
  }
  SortRows rows;
  rows.x = AddressOf(x);
  rows.rest = Merged(rest);
  rows.stride = x.strides[s.axis];
  rows.rule = RuleOf(x.dtype, order);
  if (SuitsRowSort(SizeOf(x.dtype), s.extent)) return OrderRows(args, rows, s, k);
  if (s.extent <= kSortTile || (k <= kSelectK && s.extent < UINT32_MAX)) return OrderTiles(args, rows, s, k);
  return OrderRadix(args, rows, s, k);
}

}  // namespace

absl::StatusOr<RadixSort> RadixSort::Make(const interp::KernelArgs& op, int64_t rows, int64_t length, int key_bytes) {
  RadixSort r;
  r.length_ = length;
  r.key_bytes_ = key_bytes;
  r.index_bytes_ = length >> 32 == 0 ? 4 : 8;
  if (r.index_bytes_ > r.key_bytes_) return Internal("narrow keys in rows of ", length);
  const int64_t n = rows * length, tiles = CeilDiv(length, kRadixTile);
  int64_t bytes = 0;
  const auto place = [&](int64_t size) {
    const int64_t at = bytes;
    bytes += (size + 255) / 256 * 256;
    return static_cast<Address>(at);
  };
  for (int i = 0; i < 2; ++i) {
    r.keys_[i] = place(n * key_bytes);
    r.index_[i] = place(n * r.index_bytes_);
  }
  r.counts_ = place(rows * kDigits * tiles * r.index_bytes_);
  r.totals_ = place(rows * kDigits * r.index_bytes_);
  TSR_ASSIGN_OR_RETURN(r.memory_, Scratch::Make(*op.device, static_cast<size_t>(bytes)));
  for (Address* a : {&r.keys_[0], &r.keys_[1], &r.index_[0], &r.index_[1], &r.counts_, &r.totals_})
    *a += r.memory_.address();
  return r;
}

absl::Status RadixSort::Sort(const interp::KernelArgs& op, int64_t rows, int bits) {
  const int types = key_bytes_ == 4 ? 0 : index_bytes_ == 4 ? 1 : 2;
  RadixArgs a{};
  a.counts = counts_;
  a.totals = totals_;
  a.rows = rows;
  a.length = length_;
  a.tiles = CeilDiv(length_, kRadixTile);
  // Without any bits, one pass makes the indices.
  for (a.shift = 0; a.shift == 0 || a.shift < bits; a.shift += 8) {
    a.keys_in = keys_[now_];
    a.index_in = a.shift == 0 ? 0 : index_[now_];
    now_ ^= 1;
    a.keys_out = keys_[now_];
    a.index_out = index_[now_];
    TSR_RETURN_IF_ERROR(Launch(op, kCount[types], Blocks(rows * a.tiles), a));
    TSR_RETURN_IF_ERROR(Launch(op, kScan[types], Blocks(rows * kDigits), a));
    TSR_RETURN_IF_ERROR(Launch(op, kMove[types], Blocks(rows * a.tiles), a));
  }
  return absl::OkStatus();
}

absl::Status k_sort(const interp::KernelArgs& args) {
  TSR_ASSIGN_OR_RETURN(const cpu::AxisSplit s, cpu::SplitAtAxis(*args.in[0], args.integer(0)));
  return Order(args, s, s.extent, args.flag(1) ? SortOrder::descending : SortOrder::ascending);
}

absl::Status k_topk(const interp::KernelArgs& args) {
  TSR_ASSIGN_OR_RETURN(const cpu::AxisSplit s, cpu::SplitAtAxis(*args.in[0], args.integer(1)));
  const int64_t k = args.integer(0);
  if (k < 0 || k > s.extent)
    return InvalidArgument("k = ", k, " is outside 0 to ", s.extent, ", the dim of axis ", s.axis);
  return Order(args, s, k, args.flag(2) ? SortOrder::descending_nan_first : SortOrder::ascending);
}

}  // namespace tessera::cuda
