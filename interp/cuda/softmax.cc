// Softmax along any axis: rows in registers, rows cut into chunks where they are too long, or columns.
#include "interp/cpu/axis.h"
#include "interp/cuda/launch.h"
#include "interp/cuda/row_plan.h"
#include "interp/cuda/softmax_args.h"

TSR_CUDA_IMAGE(softmax);

namespace tessera::cuda {
namespace {

const Kernel kRows[] = {{kImage, "softmax_rows_f32"}, {kImage, "softmax_rows_f64"}};
const Kernel kCols[] = {{kImage, "softmax_cols_f32"}, {kImage, "softmax_cols_f64"}};
const Kernel kJoin(kImage, "softmax_join");

/// x without its axis.
Layout Without(const View& x, int axis) {
  View v = x;
  v.rank = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (d == axis) continue;
    v.dims[v.rank] = x.dims[d];
    v.strides[v.rank++] = x.strides[d];
  }
  return Merged(v);
}

absl::Status Softmax(const interp::KernelArgs& args, bool log) {
  const View& y = *args.out[0];
  TSR_ASSIGN_OR_RETURN(const cpu::AxisSplit s, cpu::SplitAtAxis(*args.in[0], args.integer(0)));
  if (y.size() == 0) return absl::OkStatus();
  const bool rows = s.inner == 1;
  View x = *args.in[0];
  Scratch copy;
  if (rows && s.extent > 1 && x.strides[s.axis] != 1) {
    TSR_ASSIGN_OR_RETURN(x, MakeContiguous(args, x, &copy));
  }
  const int wide = x.dtype == DType::f64;
  SoftmaxArgs a = {};
  a.x = AddressOf(x);
  a.y = AddressOf(y);
  a.rows = Without(x, s.axis);
  a.rows.dtype = static_cast<int32_t>(x.dtype);
  a.n_rows = s.outer * s.inner;
  a.n = s.extent;
  a.inner = s.inner;
  a.step = x.strides[s.axis];
  a.log = log;
  a.chunks = 1;
  if (!rows) return Launch(args, kCols[wide], {std::min<int64_t>((a.n_rows + 31) / 32, 1 << 20), kThreads}, a);

  const RowPlan plan =
      PlanRows(a.n_rows, a.n, wide ? kRowDoubles : kRowFloats, wide ? kRowDoubleThreads : kRowFloatThreads);
  a.lanes = plan.lanes;
  a.chunk = plan.chunk;
  a.chunks = plan.chunks;
  if (a.chunks == 1) return Launch(args, kRows[wide], plan.grid, a);
  const size_t part = sizeof(SoftmaxPart), n_rows = static_cast<size_t>(a.n_rows);
  TSR_ASSIGN_OR_RETURN(const Scratch parts, Scratch::Make(*args.device, part * n_rows * (a.chunks + 1)));
  a.parts = parts.address();
  a.whole = a.parts + part * n_rows * a.chunks;
  a.mode = kSoftmaxParts;
  TSR_RETURN_IF_ERROR(Launch(args, kRows[wide], plan.grid, a));
  TSR_RETURN_IF_ERROR(Launch(args, kJoin, {std::min<int64_t>(a.n_rows, 1 << 20), kThreads}, a));
  a.mode = kSoftmaxApply;
  return Launch(args, kRows[wide], plan.grid, a);
}

}  // namespace

absl::Status k_softmax(const interp::KernelArgs& args) { return Softmax(args, false); }
absl::Status k_log_softmax(const interp::KernelArgs& args) { return Softmax(args, true); }

}  // namespace tessera::cuda
