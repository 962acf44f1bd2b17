// Kernels that write at indices: scatter, put_along_axis; and update_slice.
#include <string>

#include "interp/cuda/number.h"
#include "interp/cuda/radix.h"
#include "interp/cuda/scatter_args.h"

namespace tessera::cuda {

TSR_CUDA_IMAGE(scatter);

namespace {

// By dtype.
const Kernel kLines[] = {
#define TSR_DTYPE(name, bytes, kind, rank, summary) {kImage, "scatter_lines_" #name},
#include "tessera/dtypes.def"
};
const Kernel kRuns[] = {
#define TSR_DTYPE(name, bytes, kind, rank, summary) {kImage, "scatter_runs_" #name},
#include "tessera/dtypes.def"
};
const Kernel kKeys4(kImage, "scatter_keys_4");
const Kernel kKeys8(kImage, "scatter_keys_8");
// By size of an element: 1, 2, 4, 8 bytes; then units of 16.
const Kernel kUpdateSlice[] = {{kImage, "update_slice_1"},
                               {kImage, "update_slice_2"},
                               {kImage, "update_slice_4"},
                               {kImage, "update_slice_8"},
                               {kImage, "update_slice_16"}};

/// Up to here a thread goes through a line; more updates are sorted by their places first.
constexpr int64_t kShortLine = 64;
/// So many lines keep the device busy, whatever their length.
constexpr int64_t kManyLines = 1 << 16;

ScatterMode ModeOf(const std::string& name) {
  return name == "add"   ? ScatterMode::add
         : name == "max" ? ScatterMode::max
         : name == "min" ? ScatterMode::min
                         : ScatterMode::set;
}

/// x to where the result is. A version may have put that where x is (tiers/memory_plan.h).
absl::Status CopyTo(const interp::KernelArgs& args, const View& x) {
  if (x.size() == 0 || AddressOf(x) == AddressOf(*args.out[0])) return absl::OkStatus();
  const View* in = &x;
  return k_copy({ir::Info(ir::Op::k_copy), {&in, 1}, args.out, {}, args.device});
}

/// Every line by a thread of its own.
absl::Status ByLines(const interp::KernelArgs& args, const ScatterPlaces& places, const View& updates, int64_t lines,
                     ScatterMode mode) {
  const View& y = *args.out[0];
  const ScatterLinesArgs a = {places, AddressOf(updates), AddressOf(y), lines, mode};
  return Launch(args, kLines[static_cast<int>(y.dtype)], GridFor(lines), a);
}

/// Sorted by place: `rows` updates of `length` elements.
absl::Status BySorting(const interp::KernelArgs& args, const ScatterPlaces& places, const View& updates, int64_t rows,
                       int64_t length, ScatterMode mode) {
  const View& y = *args.out[0];
  const int64_t none = y.size() / length;
  const int key_bytes = (none | rows) >> 32 == 0 ? 4 : 8;
  TSR_ASSIGN_OR_RETURN(RadixSort sort, RadixSort::Make(args, 1, rows, key_bytes));
  const ScatterKeysArgs keys = {places, sort.keys(), rows, none};
  TSR_RETURN_IF_ERROR(Launch(args, key_bytes == 4 ? kKeys4 : kKeys8, GridFor(rows), keys));
  TSR_RETURN_IF_ERROR(sort.Sort(args, 1, std::bit_width(static_cast<uint64_t>(none))));
  const ScatterRunsArgs a = {sort.keys(), sort.index(),   AddressOf(updates),      AddressOf(y), rows, length,
                             none,        key_bytes == 8, sort.index_bytes() == 8, mode};
  return Launch(args, kRuns[static_cast<int>(y.dtype)], GridFor(rows * length), a);
}

ScatterPlaces PlacesOf(const interp::KernelArgs& args, const View& ids) {
  ScatterPlaces p{};
  p.ids = AddressOf(ids);
  p.error = DeviceOf(*args.device).error();
  p.op = static_cast<int32_t>(args.op.op);
  return p;
}

}  // namespace

absl::Status k_scatter(const interp::KernelArgs& args) {
  const View &ids = *args.in[1], &y = *args.out[0];
  Scratch numbers[2], copy;
  TSR_ASSIGN_OR_RETURN(const View x, OnDevice(args, *args.in[0], y.dtype, &numbers[0]));
  TSR_ASSIGN_OR_RETURN(View updates, OnDevice(args, *args.in[2], y.dtype, &numbers[1]));
  TSR_RETURN_IF_ERROR(CopyTo(args, x));
  const int64_t total = updates.size();
  if (total == 0) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(updates, MakeContiguous(args, updates, &copy));
  ScatterPlaces p = PlacesOf(args, ids);
  View rows = ids;
  --rows.rank;
  p.ids_layout = Merged(rows);
  p.k = static_cast<int32_t>(ids.dims[rows.rank]);
  p.k_stride = ids.strides[rows.rank];
  for (int i = 0; i < p.k; ++i) {
    p.bounds[i] = x.dims[i];
    p.strides[i] = y.strides[i];
  }
  p.inner = 1;
  for (int i = p.k; i < x.rank; ++i) p.inner *= x.dims[i];
  p.count = total / p.inner;
  const ScatterMode mode = ModeOf(args.str(0));
  if (p.count <= kShortLine) return ByLines(args, p, updates, p.inner, mode);
  return BySorting(args, p, updates, p.count, p.inner, mode);
}

absl::Status k_put_along_axis(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &ids = *args.in[1], &y = *args.out[0];
  const int axis = static_cast<int>(args.integer(0) < 0 ? args.integer(0) + x.rank : args.integer(0));
  TSR_RETURN_IF_ERROR(CopyTo(args, x));
  if (ids.size() == 0) return absl::OkStatus();
  Scratch copy;
  TSR_ASSIGN_OR_RETURN(const View updates, MakeContiguous(args, *args.in[2], &copy));
  ScatterPlaces p = PlacesOf(args, ids);
  p.ids_layout = Merged(ids);
  p.k = -1;
  p.bounds[0] = y.dims[axis];
  p.count = ids.dims[axis];
  p.inner = 1;
  for (int i = axis + 1; i < x.rank; ++i) p.inner *= x.dims[i];
  const ScatterMode mode = ModeOf(args.str(1));
  const int64_t lines = updates.size() / p.count;
  if (p.count <= kShortLine || lines >= kManyLines) return ByLines(args, p, updates, lines, mode);
  return BySorting(args, p, updates, updates.size(), 1, mode);
}

absl::Status k_update_slice(const interp::KernelArgs& args) {
  const View& y = *args.out[0];
  const ir::Ints &starts = args.ints(0), &steps = args.ints(1);
  Scratch numbers[2];
  TSR_ASSIGN_OR_RETURN(const View x, OnDevice(args, *args.in[0], y.dtype, &numbers[0]));
  TSR_ASSIGN_OR_RETURN(const View updates, OnDevice(args, *args.in[1], y.dtype, &numbers[1]));
  TSR_RETURN_IF_ERROR(CopyTo(args, x));
  if (updates.size() == 0) return absl::OkStatus();
  const int64_t size = static_cast<int64_t>(SizeOf(y.dtype));
  UpdateSliceArgs a{};
  a.updates = AddressOf(updates);
  a.out = AddressOf(y);
  a.count = updates.size();
  a.row = 1;
  a.size = static_cast<int32_t>(size);
  int rank = 0;
  for (int i = 0; i < y.rank; ++i) {
    a.first += (starts[i] < 0 ? starts[i] + y.dims[i] : starts[i]) * y.strides[i];
    const int64_t n = updates.dims[i];
    // A single element is not stepped from; its step may be of any size.
    if (n == 1) continue;
    const int64_t from = updates.strides[i], to = y.strides[i] * (steps.empty() ? 1 : steps[i]);
    // Dims that both walk as one are one.
    if (rank > 0 && a.from.strides[rank - 1] == n * from && a.strides[rank - 1] == n * to) {
      a.from.dims[rank - 1] *= n;
      a.from.strides[rank - 1] = from;
      a.strides[rank - 1] = to;
    } else {
      a.from.dims[rank] = n;
      a.from.strides[rank] = from;
      a.strides[rank++] = to;
    }
  }
  int kernel = std::countr_zero(SizeOf(y.dtype));
  if (rank > 0 && a.from.strides[rank - 1] == 1 && a.strides[rank - 1] == 1 && a.from.dims[rank - 1] * size % 16 == 0) {
    a.row = a.from.dims[--rank] * size / 16;
    a.count = a.count * size / 16;
    kernel = 4;
  }
  a.from.rank = rank;
  return Launch(args, kUpdateSlice[kernel], GridFor(a.count), a);
}

}  // namespace tessera::cuda
