#include "interp/product.h"

namespace tessera::interp {
namespace {

/// Dims of v, in the given order, seen as one dim.
struct Group {
  int64_t dim = 1;
  int64_t stride = 1;
};

/// False when no single stride walks those dims in order. The dim is right in any case: strides of a view without
/// elements say nothing, also when it counts as contiguous.
bool Collapse(const View& v, absl::Span<const int> axes, Group* out) {
  *out = Group();
  bool first = true, walks = true;
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t dim = v.dims[axes[i]], stride = v.strides[axes[i]];
    if (dim == 1) continue;
    if (first) {
      out->stride = stride;
      first = false;
    } else if (stride != out->stride * out->dim) {
      walks = false;
    }
    out->dim *= dim;
  }
  return walks;
}

using Axes = absl::InlinedVector<int, kMaxRank>;

Axes AxesOf(const ir::Ints& axes, int rank) {
  Axes out;
  for (int64_t a : axes) out.push_back(static_cast<int>(a < 0 ? a + rank : a));
  return out;
}

struct Grouped {
  View v;
  Axes batch;
  Group free, contract;
};

/// Sorts v's dims into batch, free and contracted ones, with a copy in that order when strides do not allow it.
absl::Status GroupDims(const View& v, const ir::Ints& batch, const ir::Ints& contract,
                       absl::FunctionRef<absl::StatusOr<View>(const View&)> contiguous, Grouped* out) {
  Axes b = AxesOf(batch, v.rank), c = AxesOf(contract, v.rank), f;
  uint32_t used = 0;
  for (int a : b) used |= 1u << a;
  for (int a : c) used |= 1u << a;
  for (int i = 0; i < v.rank; ++i) {
    if (!(used >> i & 1)) f.push_back(i);
  }
  out->v = v;
  out->batch = b;
  if (Collapse(v, f, &out->free) && Collapse(v, c, &out->contract)) return absl::OkStatus();
  View permuted = v;
  int n = 0;
  for (const Axes* axes : {&b, &f, &c}) {
    for (int a : *axes) {
      permuted.dims[n] = v.dims[a];
      permuted.strides[n++] = v.strides[a];
    }
  }
  TSR_ASSIGN_OR_RETURN(out->v, contiguous(permuted));
  n = 0;
  for (int& a : out->batch) a = n++;
  for (int& a : f) a = n++;
  for (int& a : c) a = n++;
  Collapse(out->v, f, &out->free);
  Collapse(out->v, c, &out->contract);
  return absl::OkStatus();
}

}  // namespace

GemmArgs DescribeMatmul(const KernelArgs& args) {
  const View &a = *args.in[0], &b = *args.in[1], &y = *args.out[0];
  const Matrix ma = MatrixOf(a, args.flag(0), true), mb = MatrixOf(b, args.flag(1), false);
  GemmArgs p;
  p.dtype = y.dtype;
  p.c = y.data;
  p.m = ma.rows;
  p.n = mb.cols;
  p.k = ma.cols;
  p.a.data = a.data;
  p.a.row = ma.row;
  p.a.col = ma.col;
  p.b.data = b.data;
  p.b.row = mb.row;
  p.b.col = mb.col;
  const int a_batch = a.rank > 2 ? a.rank - 2 : 0, b_batch = b.rank > 2 ? b.rank - 2 : 0;
  p.batch_rank = a_batch > b_batch ? a_batch : b_batch;
  for (int d = 0; d < p.batch_rank; ++d) {
    const int ia = d - (p.batch_rank - a_batch), ib = d - (p.batch_rank - b_batch);
    const int64_t da = ia < 0 ? 1 : a.dims[ia], db = ib < 0 ? 1 : b.dims[ib];
    p.batch_dims[d] = da == 1 ? db : da;
    p.a.batch[d] = da == 1 ? 0 : a.strides[ia];
    p.b.batch[d] = db == 1 ? 0 : b.strides[ib];
  }
  return p;
}

absl::StatusOr<GemmArgs> DescribeDotGeneral(const KernelArgs& args,
                                            absl::FunctionRef<absl::StatusOr<View>(const View& v, int i)> contiguous) {
  Grouped a, b;
  TSR_RETURN_IF_ERROR(
      GroupDims(*args.in[0], args.ints(2), args.ints(0), [&](const View& v) { return contiguous(v, 0); }, &a));
  TSR_RETURN_IF_ERROR(
      GroupDims(*args.in[1], args.ints(3), args.ints(1), [&](const View& v) { return contiguous(v, 1); }, &b));
  GemmArgs p;
  p.dtype = args.out[0]->dtype;
  p.c = args.out[0]->data;
  p.m = a.free.dim;
  p.n = b.free.dim;
  p.k = a.contract.dim;
  p.a.data = a.v.data;
  p.a.row = a.free.stride;
  p.a.col = a.contract.stride;
  p.b.data = b.v.data;
  p.b.row = b.contract.stride;
  p.b.col = b.free.stride;
  p.batch_rank = static_cast<int>(a.batch.size());
  for (int d = 0; d < p.batch_rank; ++d) {
    p.batch_dims[d] = a.v.dims[a.batch[d]];
    p.a.batch[d] = p.batch_dims[d] == 1 ? 0 : a.v.strides[a.batch[d]];
    p.b.batch[d] = p.batch_dims[d] == 1 ? 0 : b.v.strides[b.batch[d]];
  }
  return p;
}

bool AsBlasMatrix(int64_t rows, int64_t cols, int64_t row, int64_t col, BlasMatrix* out) {
  if ((col == 1 || cols == 1) && (rows == 1 || row >= cols)) {
    *out = {false, rows == 1 ? std::max<int64_t>(1, cols) : row};
    return true;
  }
  if ((row == 1 || rows == 1) && (cols == 1 || col >= rows)) {
    *out = {true, cols == 1 ? std::max<int64_t>(1, rows) : col};
    return true;
  }
  return false;
}

}  // namespace tessera::interp
