// The op rotary: a table of sines and cosines for the positions, then the turns.
#include "interp/cpu/strided.h"
#include "interp/cuda/launch.h"
#include "interp/cuda/rotary_args.h"

TSR_CUDA_IMAGE(rotary);

namespace tessera::cuda {

absl::Status k_rotary(const interp::KernelArgs& args) {
  static const Kernel table_kernels[] = {{kImage, "rotary_table_f32"}, {kImage, "rotary_table_f64"}};
  static const Kernel row_kernels[] = {{kImage, "rotary_rows_f32"}, {kImage, "rotary_rows_f64"}};
  const View &x = *args.in[0], &positions = *args.in[1], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  const int last = x.rank - 1, wide = x.dtype == DType::f64;
  // Rows of x, and the table's row numbers as a view with the same dims.
  View rows = x;
  rows.rank = static_cast<uint8_t>(last);
  View numbers = positions;
  numbers.SetContiguousStrides();
  numbers = cpu::BroadcastTo(numbers, rows);
  RotaryArgs a = {};
  a.positions = OperandOf(positions);
  a.x = OperandOf(rows);
  a.table_rows = OperandOf(numbers).layout;
  a.y = AddressOf(y);
  a.half = x.dims[last] / 2;
  a.rows = y.size() / x.dims[last];
  a.n_table = positions.size();
  a.step = x.strides[last];
  a.base = args.number(0);
  a.interleaved = args.flag(1);
  TSR_ASSIGN_OR_RETURN(const Scratch table, Scratch::Make(*args.device, static_cast<size_t>(2 * a.n_table * a.half) *
                                                                            (wide ? sizeof(double) : sizeof(float))));
  a.table = table.address();
  TSR_RETURN_IF_ERROR(Launch(args, table_kernels[wide], GridFor(a.n_table * a.half), a));
  const int64_t each = a.step == 1 && a.half % 4 == 0 ? (wide ? 2 : 4) : 1;
  return Launch(args, row_kernels[wide], GridFor(a.rows * a.half, each), a);
}

}  // namespace tessera::cuda
