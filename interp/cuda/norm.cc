// Normalisation of rows (layer_norm, rms_norm) and of channels with given statistics (batch_norm).
#include "interp/cpu/axis.h"
#include "interp/cuda/launch.h"
#include "interp/cuda/norm_args.h"
#include "interp/cuda/row_plan.h"

TSR_CUDA_IMAGE(norm);

namespace tessera::cuda {
namespace {

const Kernel kRows[] = {{kImage, "norm_rows_f32"}, {kImage, "norm_rows_f64"}};
const Kernel kJoin[] = {{kImage, "norm_join_f32"}, {kImage, "norm_join_f64"}};
const Kernel kTable[] = {{kImage, "batch_norm_table_f32"}, {kImage, "batch_norm_table_f64"}};
const Kernel kApply[] = {{kImage, "batch_norm_apply_f32"}, {kImage, "batch_norm_apply_f64"}};

const View* OperandOrNull(const interp::KernelArgs& args, size_t i) {
  return i < args.in.size() ? args.in[i] : nullptr;
}

absl::Status NormRows(const interp::KernelArgs& args, bool rms) {
  View x = *args.in[0];
  if (x.size() == 0) return absl::OkStatus();
  const int first = static_cast<int>(x.rank - args.integer(0));
  const int wide = x.dtype == DType::f64;
  Scratch x_copy, weight_copy, bias_copy;
  if (!cpu::ContiguousFrom(x, first)) {
    TSR_ASSIGN_OR_RETURN(x, MakeContiguous(args, x, &x_copy));
  }
  NormArgs a = {};
  if (const View* weight = OperandOrNull(args, 1)) {
    TSR_ASSIGN_OR_RETURN(const View dense, MakeContiguous(args, *weight, &weight_copy));
    a.weight = AddressOf(dense);
  }
  if (const View* bias = rms ? nullptr : OperandOrNull(args, 2)) {
    TSR_ASSIGN_OR_RETURN(const View dense, MakeContiguous(args, *bias, &bias_copy));
    a.bias = AddressOf(dense);
  }
  a.x = AddressOf(x);
  a.y = AddressOf(*args.out[0]);
  a.n_rows = a.n = 1;
  for (int d = 0; d < x.rank; ++d) (d < first ? a.n_rows : a.n) *= x.dims[d];
  View rows = x;
  rows.rank = static_cast<uint8_t>(first);
  a.rows = Merged(rows);
  a.rows.dtype = static_cast<int32_t>(x.dtype);
  a.eps = args.number(1);
  a.rms = rms;
  const RowPlan plan = PlanRows(a.n_rows, a.n, wide ? kRowDoubles : kRowFloats, kNormThreads);
  a.lanes = plan.lanes;
  a.chunk = plan.chunk;
  a.chunks = plan.chunks;
  if (a.chunks == 1) return Launch(args, kRows[wide], plan.grid, a);
  const size_t n_rows = static_cast<size_t>(a.n_rows), parts_bytes = sizeof(NormPart) * n_rows * a.chunks;
  TSR_ASSIGN_OR_RETURN(const Scratch parts, Scratch::Make(*args.device, parts_bytes + sizeof(NormWhole) * n_rows));
  a.parts = parts.address();
  a.whole = a.parts + parts_bytes;
  a.mode = kNormParts;
  TSR_RETURN_IF_ERROR(Launch(args, kRows[wide], plan.grid, a));
  TSR_RETURN_IF_ERROR(Launch(args, kJoin[wide], {std::min<int64_t>(a.n_rows, 1 << 20), kThreads}, a));
  a.mode = kNormApply;
  return Launch(args, kRows[wide], plan.grid, a);
}

}  // namespace

absl::Status k_layer_norm(const interp::KernelArgs& args) { return NormRows(args, false); }
absl::Status k_rms_norm(const interp::KernelArgs& args) { return NormRows(args, true); }

absl::Status k_batch_norm(const interp::KernelArgs& args) {
  const View& x = *args.in[0];
  TSR_ASSIGN_OR_RETURN(const cpu::AxisSplit s, cpu::SplitAtAxis(x, args.integer(0)));
  if (x.size() == 0) return absl::OkStatus();
  const int wide = x.dtype == DType::f64;
  BatchNormArgs a = {};
  a.x.data = AddressOf(x);
  a.x.layout = Merged(x);
  a.x.layout.dtype = static_cast<int32_t>(x.dtype);
  a.mean = OperandOf(*args.in[1]);
  a.var = OperandOf(*args.in[2]);
  if (const View* weight = OperandOrNull(args, 3)) {
    a.weight = OperandOf(*weight);
    a.has_weight = 1;
  }
  if (const View* bias = OperandOrNull(args, 4)) {
    a.bias = OperandOf(*bias);
    a.has_bias = 1;
  }
  a.y = AddressOf(*args.out[0]);
  a.size = x.size();
  a.channels = s.extent;
  a.inner = s.inner;
  a.eps = args.number(1);
  TSR_ASSIGN_OR_RETURN(const Scratch table, Scratch::Make(*args.device, static_cast<size_t>(3 * 8 * a.channels)));
  a.table = table.address();
  TSR_RETURN_IF_ERROR(Launch(args, kTable[wide], GridFor(a.channels), a));
  const int64_t each = std::max<int64_t>(1, 16 / static_cast<int64_t>(SizeOf(x.dtype)));
  return Launch(args, kApply[wide], GridFor(a.size, a.inner % 8 == 0 ? each : 1), a);
}

}  // namespace tessera::cuda
