// Kernels that read at indices: take, embedding, take_along_axis, gather; and one_hot.
#include "interp/cpu/convert.h"
#include "interp/cuda/index_args.h"
#include "interp/cuda/number.h"

namespace tessera::cuda {

TSR_CUDA_IMAGE(index);

namespace {

// By size of an element: 1, 2, 4, 8 bytes; then units of 16.
const Kernel kTake[] = {
    {kImage, "take_1"}, {kImage, "take_2"}, {kImage, "take_4"}, {kImage, "take_8"}, {kImage, "take_16"}};
const Kernel kTakeLong = {kImage, "take_long"};
const Kernel kGather[] = {
    {kImage, "gather_1"}, {kImage, "gather_2"}, {kImage, "gather_4"}, {kImage, "gather_8"}, {kImage, "gather_16"}};
const Kernel kTakeAlongAxis[] = {{kImage, "take_along_axis_1"},
                                 {kImage, "take_along_axis_2"},
                                 {kImage, "take_along_axis_4"},
                                 {kImage, "take_along_axis_8"}};
const Kernel kOneHot[] = {{kImage, "one_hot_1"}, {kImage, "one_hot_2"}, {kImage, "one_hot_4"}, {kImage, "one_hot_8"}};

int Axis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

int Log2(size_t size) { return std::countr_zero(size); }

/// Dims [begin, end) of v.
View Dims(const View& v, int begin, int end) {
  View r = v;
  r.rank = static_cast<uint8_t>(end - begin);
  for (int i = begin; i < end; ++i) {
    r.dims[i - begin] = v.dims[i];
    r.strides[i - begin] = v.strides[i];
  }
  return r;
}

/// Sets a.row and a.count for rows that are x's dims `inner`, and says which of the kernels it is: rows that are whole
/// units, one after the other in memory, are copied by units.
template <class Args>
int Plan(const View& inner, const View& y, Args* a) {
  const int64_t size = static_cast<int64_t>(SizeOf(y.dtype));
  a->size = static_cast<int32_t>(size);
  a->inner = Merged(inner);
  a->row = inner.size();
  a->count = y.size();
  if (a->row * size % 16 != 0 || !inner.IsContiguous()) return Log2(SizeOf(y.dtype));
  a->row = a->row * size / 16;
  a->count = a->count * size / 16;
  return 4;
}

/// Rows that begin at multiples of 16 bytes and are multiples of what a warp takes at a time.
bool HasLongRows(const TakeArgs& a) {
  int64_t steps = a.axis_stride;
  for (int d = 0; d < a.outer.rank; ++d) steps |= a.outer.strides[d];
  return a.row % 128 == 0 && steps * a.size % 16 == 0 && (a.x | a.out) % 16 == 0;
}

absl::Status TakeAlong(const interp::KernelArgs& args, int axis) {
  const View &x = *args.in[0], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  Scratch number;
  TSR_ASSIGN_OR_RETURN(const View ids, OnDevice(args, *args.in[1], DType::i64, &number));
  TakeArgs a;
  a.x = AddressOf(x);
  a.ids = AddressOf(ids);
  a.out = AddressOf(y);
  a.error = DeviceOf(*args.device).error();
  a.op = static_cast<int32_t>(args.op.op);
  a.ids_count = ids.size();
  a.ids_layout = Merged(ids);
  a.bound = x.dims[axis];
  a.axis_stride = x.strides[axis];
  a.outer = Merged(Dims(x, 0, axis));
  const int kernel = Plan(Dims(x, axis + 1, x.rank), y, &a);
  if (kernel == 4 && HasLongRows(a)) return Launch(args, kTakeLong, GridFor(a.count / 4), a);
  return Launch(args, kTake[kernel], GridFor(a.count), a);
}

}  // namespace

absl::Status k_take(const interp::KernelArgs& args) { return TakeAlong(args, Axis(args.integer(0), args.in[0]->rank)); }

absl::Status k_embedding(const interp::KernelArgs& args) { return TakeAlong(args, 0); }

absl::Status k_gather(const interp::KernelArgs& args) {
  const View &ids = *args.in[1], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  Scratch number;
  TSR_ASSIGN_OR_RETURN(const View x, OnDevice(args, *args.in[0], y.dtype, &number));
  GatherArgs a;
  a.x = AddressOf(x);
  a.ids = AddressOf(ids);
  a.out = AddressOf(y);
  a.error = DeviceOf(*args.device).error();
  a.op = static_cast<int32_t>(args.op.op);
  const int last = ids.rank - 1;
  a.k = static_cast<int32_t>(ids.dims[last]);
  a.k_stride = ids.strides[last];
  a.ids_layout = Merged(Dims(ids, 0, last));
  for (int i = 0; i < a.k; ++i) {
    a.bounds[i] = x.dims[i];
    a.strides[i] = x.strides[i];
  }
  const int kernel = Plan(Dims(x, a.k, x.rank), y, &a);
  return Launch(args, kGather[kernel], GridFor(a.count), a);
}

absl::Status k_take_along_axis(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &ids = *args.in[1], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  const int axis = Axis(args.integer(0), x.rank);
  // x with ids' dims and no step along axis: the index makes that step.
  View walk = x;
  walk.dims[axis] = ids.dims[axis];
  walk.strides[axis] = 0;
  AlongArgs a;
  a.x = AddressOf(x);
  a.ids = AddressOf(ids);
  a.out = AddressOf(y);
  a.error = DeviceOf(*args.device).error();
  a.op = static_cast<int32_t>(args.op.op);
  a.count = y.size();
  a.bound = x.dims[axis];
  a.axis_stride = x.strides[axis];
  a.walk = Merged(walk);
  a.ids_layout = Merged(ids);
  return Launch(args, kTakeAlongAxis[Log2(SizeOf(y.dtype))], GridFor(a.count), a);
}

absl::Status k_one_hot(const interp::KernelArgs& args) {
  const View& y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  Scratch number;
  TSR_ASSIGN_OR_RETURN(const View ids, OnDevice(args, *args.in[0], DType::i64, &number));
  OneHotArgs a;
  a.ids = AddressOf(ids);
  a.out = AddressOf(y);
  a.count = y.size();
  a.depth = args.integer(0);
  a.one = 0;
  cpu::FromInt64(1, &a.one, y.dtype);
  a.ids_layout = Merged(ids);
  return Launch(args, kOneHot[Log2(SizeOf(y.dtype))], GridFor(a.count, 16 / static_cast<int64_t>(SizeOf(y.dtype))), a);
}

}  // namespace tessera::cuda
