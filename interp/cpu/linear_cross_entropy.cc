// The ops linear_cross_entropy and linear_cross_entropy_grad: the logits of some rows at a time, into scratch memory
// that stays in the cache. The gradient makes of them, in place, their own gradients, which give dx of those rows and
// are added to dw. Narrow types are computed in f32 throughout, and rounded once.
#include <cstring>

#include "interp/cpu/convert.h"
#include "interp/cpu/cross_entropy.h"
#include "interp/cpu/gemm.h"
#include "interp/cpu/gemm_narrow.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "interp/row_chunks.h"

namespace tessera::cpu {
namespace {

using interp::DenseRows;
using interp::RowsAt;
using interp::Turned;

// Fewer rows would read all of w, and of dw, for little work.
constexpr interp::ChunkLimits kChunk = {.bytes = int64_t{8} << 20, .least = 128, .multiple = 32};

absl::Status CastTo(const View& from, const View& to) {
  const View* in = &from;
  View y = to;
  View* out = &y;
  const ir::Attr dtype = to.dtype;
  return k_cast({ir::Info(ir::Op::k_cast), {&in, 1}, {&out, 1}, {&dtype, 1}});
}

/// v with all dims but the last `kept` as one, in `dtype` and, if it is a matrix, as BLAS takes it: where it lies, or a
/// copy in *copy.
absl::StatusOr<View> Flat(const View& v, int kept, DType dtype, Scratch* copy) {
  View flat;
  BlasMatrix form;
  if (v.dtype == dtype && interp::FlattenRows(v, kept, &flat) &&
      (kept == 0 || AsBlasMatrix(flat.dims[0], flat.dims[1], flat.strides[0], flat.strides[1], &form)))
    return flat;
  View dense = v;
  dense.dtype = dtype;
  dense.SetContiguousStrides();
  TSR_ASSIGN_OR_RETURN(*copy, Scratch::Make(static_cast<size_t>(v.size()) * SizeOf(dtype)));
  dense.data = copy->data();
  if (v.dtype == dtype)
    CopyStrided(dense, v);
  else
    TSR_RETURN_IF_ERROR(CastTo(v, dense));
  interp::FlattenRows(dense, kept, &flat);
  return flat;
}

GemmArgs ProductOf(const View& a, const View& b, const View& c) {
  GemmArgs p;
  p.dtype = c.dtype;
  p.m = a.dims[0];
  p.k = a.dims[1];
  p.n = b.dims[1];
  p.a = {.data = a.data, .row = a.strides[0], .col = a.strides[1]};
  p.b = {.data = b.data, .row = b.strides[0], .col = b.strides[1]};
  p.c = c.data;
  return p;
}

template <class T>
void AddBlas(const rt::Blas& blas, const GemmArgs& p, BlasMatrix fa, BlasMatrix fb) {
  BlasGemmThreaded(blas, p.m, p.n, p.k, T(1), static_cast<const T*>(p.a.data), fa, static_cast<const T*>(p.b.data), fb,
                   T(1), static_cast<T*>(p.c), p.n);
}

/// c += a b, of f32 or f64.
absl::Status AddProduct(const View& a, const View& b, const View& c) {
  const GemmArgs p = ProductOf(a, b, c);
  if (p.m * p.n * p.k == 0) return absl::OkStatus();
  BlasMatrix fa, fb;
  if (!AsBlasMatrix(p.m, p.k, p.a.row, p.a.col, &fa) || !AsBlasMatrix(p.k, p.n, p.b.row, p.b.col, &fb))
    return Internal("a chunk of rows that cannot be multiplied where it lies");
  TSR_RETURN_IF_ERROR(CheckFitsBlas(p, fa, fb));
  TSR_ASSIGN_OR_RETURN(const rt::Blas* blas, rt::GetBlas());
  if (c.dtype == DType::f64)
    AddBlas<double>(*blas, p, fa, fb);
  else
    AddBlas<float>(*blas, p, fa, fb);
  return absl::OkStatus();
}

/// What both ops begin with.
struct Rows {
  View x, w, targets;  // x [rows, features]
  View logits;         // of a chunk
  int64_t rows, classes, chunk;
  Scratch copies[3], scratch;

  absl::Status Make(const interp::KernelArgs& args) {
    const View& given = *args.in[1];
    classes = given.dims[0];
    TSR_RETURN_IF_ERROR(CheckTargets(*args.in[2], args.integer(0), classes, "w", given));
    const DType dtype = ComputeDType(args.in[0]->dtype);
    TSR_ASSIGN_OR_RETURN(x, Flat(*args.in[0], 1, dtype, &copies[0]));
    TSR_ASSIGN_OR_RETURN(w, Flat(given, 1, dtype, &copies[1]));
    TSR_ASSIGN_OR_RETURN(targets, Flat(*args.in[2], 0, DType::i64, &copies[2]));
    rows = x.dims[0];
    const auto bytes = static_cast<int64_t>(SizeOf(dtype));
    chunk = interp::RowsOfChunk(rows, classes * bytes, kChunk);
    TSR_ASSIGN_OR_RETURN(scratch, Scratch::Make(static_cast<size_t>(chunk * classes * bytes)));
    logits = DenseRows(scratch.data(), dtype, chunk, classes);
    return absl::OkStatus();
  }

  /// The logits of rows [first, first + n).
  absl::StatusOr<View> LogitsAt(int64_t first, int64_t n) {
    const View y = RowsAt(logits, 0, n);
    TSR_RETURN_IF_ERROR(Gemm(ProductOf(RowsAt(x, first, n), Turned(w), y)));
    return y;
  }
};

}  // namespace

absl::Status k_linear_cross_entropy(const interp::KernelArgs& args) {
  Rows r;
  TSR_RETURN_IF_ERROR(r.Make(args));
  const View y = DenseRows(args.out[0]->data, args.out[0]->dtype, r.rows, 1);
  for (int64_t first = 0; first < r.rows; first += r.chunk) {
    const int64_t n = std::min(r.chunk, r.rows - first);
    TSR_ASSIGN_OR_RETURN(const View logits, r.LogitsAt(first, n));
    CrossEntropyRows(logits, RowsAt(r.targets, first, n), RowsAt(y, first, n), args.integer(0));
  }
  return absl::OkStatus();
}

absl::Status k_linear_cross_entropy_grad(const interp::KernelArgs& args) {
  Rows r;
  TSR_RETURN_IF_ERROR(r.Make(args));
  const DType dtype = r.logits.dtype;
  const int64_t features = r.x.dims[1], bytes = static_cast<int64_t>(SizeOf(dtype));
  Scratch g_copy, dx_scratch, dw_scratch;
  TSR_ASSIGN_OR_RETURN(const View g, Flat(*args.in[3], 0, args.in[3]->dtype, &g_copy));
  const View dx = DenseRows(args.out[0]->data, args.out[0]->dtype, r.rows, features);
  const View dw = DenseRows(args.out[1]->data, args.out[1]->dtype, r.classes, features);
  if (r.rows == 0) {
    std::memset(dw.data, 0, static_cast<size_t>(dw.size()) * SizeOf(dw.dtype));
    return absl::OkStatus();
  }
  View wide_dx, wide_dw = dw;
  if (dx.dtype != dtype) {
    TSR_ASSIGN_OR_RETURN(dx_scratch, Scratch::Make(static_cast<size_t>(r.chunk * features * bytes)));
    TSR_ASSIGN_OR_RETURN(dw_scratch, Scratch::Make(static_cast<size_t>(dw.size() * bytes)));
    wide_dx = DenseRows(dx_scratch.data(), dtype, r.chunk, features);
    wide_dw = DenseRows(dw_scratch.data(), dtype, r.classes, features);
  }
  for (int64_t first = 0; first < r.rows; first += r.chunk) {
    const int64_t n = std::min(r.chunk, r.rows - first);
    TSR_ASSIGN_OR_RETURN(const View d, r.LogitsAt(first, n));
    CrossEntropyGradRows(d, RowsAt(r.targets, first, n), RowsAt(g, first, n), d, args.integer(0));
    const View to = RowsAt(dx, first, n), product = dx.dtype == dtype ? to : RowsAt(wide_dx, 0, n);
    TSR_RETURN_IF_ERROR(Gemm(ProductOf(d, r.w, product)));
    if (dx.dtype != dtype) TSR_RETURN_IF_ERROR(CastTo(product, to));
    const View x = RowsAt(r.x, first, n);
    TSR_RETURN_IF_ERROR(first == 0 ? Gemm(ProductOf(Turned(d), x, wide_dw)) : AddProduct(Turned(d), x, wide_dw));
  }
  return dw.dtype == dtype ? absl::OkStatus() : CastTo(wide_dw, dw);
}

}  // namespace tessera::cpu
