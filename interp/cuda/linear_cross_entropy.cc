// The ops linear_cross_entropy and linear_cross_entropy_grad: products of some rows at a time into scratch memory, and
// over it the kernels of cross_entropy. The gradients of logits take the logits' place; each chunk's are added to dw by
// the product, in f32 where the op is of f16 or bf16. f8 is computed in f32.
#include "interp/cuda/copy.h"
#include "interp/cuda/launch.h"
#include "interp/cuda/library_product.h"
#include "interp/product.h"
#include "interp/row_chunks.h"

namespace tessera::cuda {
namespace {

using interp::DenseRows;
using interp::RowsAt;
using interp::Turned;

// Each chunk reads and writes dw, and products of fewer rows do not fill a device.
constexpr interp::ChunkLimits kChunk = {.bytes = int64_t{256} << 20, .least = 1024, .multiple = 128};

DType ComputeDType(DType dtype) { return SizeOf(dtype) == 1 ? DType::f32 : dtype; }

/// v with all dims but the last `kept` as one, in `dtype` and, if it is a matrix, as cuBLASLt takes it: where it lies,
/// or a copy in *copy.
absl::StatusOr<View> Flat(const interp::KernelArgs& args, const View& v, int kept, DType dtype, Scratch* copy) {
  View flat;
  interp::BlasMatrix form;
  if (v.dtype == dtype && interp::FlattenRows(v, kept, &flat) &&
      (kept == 0 || interp::AsBlasMatrix(flat.dims[0], flat.dims[1], flat.strides[0], flat.strides[1], &form)))
    return flat;
  View dense;
  TSR_RETURN_IF_ERROR(CastTo(args, v, dtype, dtype, &dense, copy));
  interp::FlattenRows(dense, kept, &flat);
  return flat;
}

/// What both ops begin with.
struct Rows {
  View x, w, targets;  // x [rows, features]
  View logits;         // of a chunk
  int64_t rows, classes, chunk;
  Scratch copies[3], scratch;

  absl::Status Make(const interp::KernelArgs& args) {
    const DType dtype = ComputeDType(args.in[0]->dtype);
    TSR_ASSIGN_OR_RETURN(x, Flat(args, *args.in[0], 1, dtype, &copies[0]));
    TSR_ASSIGN_OR_RETURN(w, Flat(args, *args.in[1], 1, dtype, &copies[1]));
    TSR_ASSIGN_OR_RETURN(targets, Flat(args, *args.in[2], 0, DType::i64, &copies[2]));
    rows = x.dims[0];
    classes = w.dims[0];
    const auto bytes = static_cast<int64_t>(SizeOf(dtype));
    chunk = interp::RowsOfChunk(rows, classes * bytes, kChunk);
    TSR_ASSIGN_OR_RETURN(scratch, Scratch::Make(*args.device, static_cast<size_t>(chunk * classes * bytes)));
    logits = DenseRows(scratch.data(), dtype, chunk, classes);
    return absl::OkStatus();
  }

  /// The logits of rows [first, first + n).
  absl::StatusOr<View> LogitsAt(const interp::KernelArgs& args, int64_t first, int64_t n) {
    const View y = RowsAt(logits, 0, n);
    TSR_RETURN_IF_ERROR(ProductInto(args, RowsAt(x, first, n), Turned(w), y, /*add=*/false));
    return y;
  }
};

/// A result in the dtype that the op computes in: where it is to be, or in *scratch, of which it is cast in the end.
absl::StatusOr<View> Wide(const interp::KernelArgs& args, const View& y, DType dtype, Scratch* scratch) {
  if (y.dtype == dtype) return y;
  View wide = y;
  wide.dtype = dtype;
  TSR_ASSIGN_OR_RETURN(*scratch, Scratch::Make(*args.device, static_cast<size_t>(y.size()) * SizeOf(dtype)));
  wide.data = scratch->data();
  return wide;
}
absl::Status CastBack(const interp::KernelArgs& args, const View& wide, const View& y) {
  return wide.dtype == y.dtype ? absl::OkStatus() : Cast(args, wide, y);
}

}  // namespace

absl::Status k_linear_cross_entropy(const interp::KernelArgs& args) {
  Rows r;
  TSR_RETURN_IF_ERROR(r.Make(args));
  Scratch y_scratch;
  View y = DenseRows(args.out[0]->data, args.out[0]->dtype, r.rows, 1);
  y.rank = 1;
  TSR_ASSIGN_OR_RETURN(const View wide, Wide(args, y, r.logits.dtype, &y_scratch));
  for (int64_t first = 0; first < r.rows; first += r.chunk) {
    const int64_t n = std::min(r.chunk, r.rows - first);
    TSR_ASSIGN_OR_RETURN(const View logits, r.LogitsAt(args, first, n));
    const View targets = RowsAt(r.targets, first, n);
    View losses = RowsAt(wide, first, n);
    const View* in[] = {&logits, &targets};
    View* out = &losses;
    TSR_RETURN_IF_ERROR(k_cross_entropy({args.op, in, {&out, 1}, args.attrs, args.device}));
  }
  return CastBack(args, wide, y);
}

absl::Status k_linear_cross_entropy_grad(const interp::KernelArgs& args) {
  Rows r;
  TSR_RETURN_IF_ERROR(r.Make(args));
  const DType dtype = r.logits.dtype;
  const int64_t features = r.x.dims[1];
  Scratch g_copy, dx_scratch, dw_scratch;
  TSR_ASSIGN_OR_RETURN(const View g, Flat(args, *args.in[3], 0, dtype, &g_copy));
  const View dx = DenseRows(args.out[0]->data, args.out[0]->dtype, r.rows, features);
  const View dw = DenseRows(args.out[1]->data, args.out[1]->dtype, r.classes, features);
  if (r.rows == 0) return args.device->Zero(dw.data, static_cast<size_t>(dw.size()) * SizeOf(dw.dtype));
  TSR_ASSIGN_OR_RETURN(const View wide_dx, Wide(args, dx, dtype, &dx_scratch));
  // One product alone rounds as it stores.
  const DType sums = r.chunk < r.rows && IsNarrowFloat(dtype) ? DType::f32 : dtype;
  TSR_ASSIGN_OR_RETURN(const View wide_dw, Wide(args, dw, sums, &dw_scratch));
  for (int64_t first = 0; first < r.rows; first += r.chunk) {
    const int64_t n = std::min(r.chunk, r.rows - first);
    TSR_ASSIGN_OR_RETURN(View d, r.LogitsAt(args, first, n));
    const View targets = RowsAt(r.targets, first, n), grads = RowsAt(g, first, n);
    const View* in[] = {&d, &targets, &grads};
    View* out = &d;
    TSR_RETURN_IF_ERROR(k_cross_entropy_grad({args.op, in, {&out, 1}, args.attrs, args.device}));
    TSR_RETURN_IF_ERROR(ProductInto(args, d, r.w, RowsAt(wide_dx, first, n), /*add=*/false));
    TSR_RETURN_IF_ERROR(ProductInto(args, Turned(d), RowsAt(r.x, first, n), wide_dw, /*add=*/first > 0));
  }
  TSR_RETURN_IF_ERROR(CastBack(args, wide_dx, dx));
  return CastBack(args, wide_dw, dw);
}

}  // namespace tessera::cuda
