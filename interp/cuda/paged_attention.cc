// The op paged_attention: on tensor cores, or one query by one. Lengths and pages that cannot be are found by the
// kernels: the host hears of them when it next waits for the device.
#include <algorithm>
#include <cmath>

#include "interp/cuda/launch.h"
#include "interp/cuda/paged_attention_args.h"

TSR_CUDA_IMAGE(paged_attention);

namespace tessera::cuda {
namespace {

/// By dtype and whether pages are whole steps of keys: 64 and 128 columns.
const Kernel kWalk[2][2][2] = {{{{kImage, "paged_attention_f16_64_any"}, {kImage, "paged_attention_f16_128_any"}},
                                {{kImage, "paged_attention_f16_64"}, {kImage, "paged_attention_f16_128"}}},
                               {{{kImage, "paged_attention_bf16_64_any"}, {kImage, "paged_attention_bf16_128_any"}},
                                {{kImage, "paged_attention_bf16_64"}, {kImage, "paged_attention_bf16_128"}}}};
const Kernel kEnd[2] = {{kImage, "paged_attention_f16_end"}, {kImage, "paged_attention_bf16_end"}};
const Kernel kRows[] = {{kImage, "paged_attention_rows_f32"}, {kImage, "paged_attention_rows_f64"}};

constexpr int64_t kTileRows = 16, kStepKeys = 16, kWarps = 4, kWalkColumns = 128;
constexpr int64_t kWaves = 4;  // of warps: with fewer, some would run alone at the end

Strided4 Strided4Of(const View& v) { return {AddressOf(v), {v.strides[0], v.strides[1], v.strides[2], v.strides[3]}}; }

/// Rows are runs that begin at multiples of 16 bytes.
bool HasAlignedRows(const Strided4& x, int64_t cols) {
  return x.strides[3] == 1 && (x.strides[0] | x.strides[1] | x.strides[2] | cols) % 8 == 0 && x.data % 16 == 0;
}

/// Kernels on tensor cores count in units of 16 bytes, in 32 bits.
bool HasNearRows(const Strided4& x, const PagedAttentionArgs& a) {
  const auto [page, row, head, col] = x.strides;
  return page >= 0 && row >= 0 && page / 8 < int64_t{1} << 32 && row / 8 < int64_t{1} << 32 &&
         static_cast<double>(page) * a.pages + static_cast<double>(row) * a.page < 8.0 * 0xffffffff;
}

bool SuitsTensorCores(const PagedAttentionArgs& a) {
  const auto dtype = static_cast<DType>(a.dtype);
  return (dtype == DType::f16 || dtype == DType::bf16) && a.scale > 0 &&
         int64_t{a.batch} * a.heads * a.queries < int64_t{1} << 30 && std::max(a.dim, a.value_dim) <= kWalkColumns &&
         HasAlignedRows(a.q, a.dim) && HasAlignedRows(a.k, a.dim) && HasAlignedRows(a.v, a.value_dim) &&
         HasNearRows(a.k, a) && HasNearRows(a.v, a);
}

absl::Status OnTensorCores(const interp::KernelArgs& args, PagedAttentionArgs a) {
  const int64_t units = DeviceOf(*args.device).properties().multiprocessors;
  const int64_t rows = int64_t{a.share} * a.queries, groups = int64_t{a.batch} * a.groups;
  const bool is_wide = std::max(a.dim, a.value_dim) > 64;
  const int64_t resident = units * kWarps * (is_wide ? 2 : 3);
  a.tiles = static_cast<int32_t>((rows + kTileRows - 1) / kTileRows);
  a.parts = static_cast<int32_t>(std::max<int64_t>(1, kWaves * resident / (int64_t{a.groups} * a.tiles)));
  a.divides = int64_t{a.entries} * a.page > kShortestPart;
  const int64_t parts = a.batch + (a.divides ? a.parts : 0), places = parts * a.groups * rows;
  const bool is_bf16 = static_cast<DType>(a.dtype) == DType::bf16;
  const Kernel& walk = kWalk[is_bf16][a.page % kStepKeys == 0][is_wide];
  const Grid grid = {(parts * a.groups * a.tiles + kWarps - 1) / kWarps, kWarps * 32};
  if (!a.divides) return Launch(args, walk, grid, a);
  TSR_ASSIGN_OR_RETURN(
      const Scratch scratch,
      Scratch::Make(*args.device, static_cast<size_t>(places * (a.value_dim + 2) * 4 + int64_t{a.batch} * 8)));
  a.sums = scratch.address();
  a.weights = a.sums + static_cast<Address>(places * a.value_dim * 4);
  a.plan = a.weights + static_cast<Address>(places * 8);
  TSR_RETURN_IF_ERROR(Launch(args, walk, grid, a));
  return Launch(args, kEnd[is_bf16], {groups * rows, kWarps * 32}, a);
}

}  // namespace

absl::Status k_paged_attention(const interp::KernelArgs& args) {
  const View &q = *args.in[0], &k = *args.in[1], &v = *args.in[2], &table = *args.in[3], &lengths = *args.in[4];
  const View& y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  constexpr int64_t kMost = int64_t{1} << 31;
  const int64_t rows = q.dims[0] * q.dims[1] * q.dims[2];
  if (std::max({rows, q.dims[3], v.dims[3], k.dims[0], k.dims[1], table.dims[1]}) >= kMost ||
      table.dims[1] * k.dims[1] >= kMost) {
    return Unsupported("q ", ToString(q), " with k ", ToString(k), " and table ", ToString(table),
                       ": dims, rows of q, and the positions of a sequence, must be below 2^31");
  }
  PagedAttentionArgs a = {};
  a.q = Strided4Of(q);
  a.k = Strided4Of(k);
  a.v = Strided4Of(v);
  a.table = AddressOf(table);
  a.table_strides[0] = table.strides[0];
  a.table_strides[1] = table.strides[1];
  a.lengths = AddressOf(lengths);
  a.lengths_stride = lengths.strides[0];
  a.y = AddressOf(y);
  a.error = DeviceOf(*args.device).error();
  a.batch = static_cast<int32_t>(q.dims[0]);
  a.heads = static_cast<int32_t>(q.dims[1]);
  a.queries = static_cast<int32_t>(q.dims[2]);
  a.dim = static_cast<int32_t>(q.dims[3]);
  a.value_dim = static_cast<int32_t>(v.dims[3]);
  a.groups = static_cast<int32_t>(k.dims[2]);
  a.share = a.heads / a.groups;
  a.pages = static_cast<int32_t>(k.dims[0]);
  a.page = static_cast<int32_t>(k.dims[1]);
  a.entries = static_cast<int32_t>(table.dims[1]);
  a.dtype = static_cast<int32_t>(y.dtype);
  a.op = static_cast<int32_t>(args.op.op);
  a.scale = args.number(0);
  if (a.scale == 0) a.scale = a.dim > 0 ? 1 / std::sqrt(static_cast<double>(a.dim)) : 1;
  if (SuitsTensorCores(a)) return OnTensorCores(args, a);
  return Launch(args, kRows[y.dtype == DType::f64], {std::min<int64_t>(rows, 1 << 20), kThreads}, a);
}

}  // namespace tessera::cuda
