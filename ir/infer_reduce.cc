// Shape rules of reductions, scans, norms and sorting.
#include "ir/infer.h"

namespace tessera::ir {
namespace {

void CopyDims(const TensorType& x, TensorType* y) {
  y->rank = x.rank;
  for (int i = 0; i < x.rank; ++i) y->dims[i] = x.dims[i];
}

/// Dims of x without the axes of the mask, or with 1 in their place.
void DropAxes(const TensorType& x, uint32_t axes, bool keep, TensorType* y) {
  int rank = 0;
  for (int i = 0; i < x.rank; ++i) {
    if (!(axes >> i & 1))
      y->dims[rank++] = x.dims[i];
    else if (keep)
      y->dims[rank++] = 1;
  }
  y->rank = static_cast<uint8_t>(rank);
}

/// The ops that choose one of the elements have no answer for none.
absl::Status CheckNotEmpty(const InferArgs& args, uint32_t axes) {
  switch (args.op.op) {
    case Op::k_max:
    case Op::k_min:
    case Op::k_argmax:
    case Op::k_argmin: break;
    default: return absl::OkStatus();
  }
  const TensorType& x = *args.in[0];
  int empty = -1;
  for (int i = 0; i < x.rank; ++i) {
    if (x.dims[i] != 0) continue;
    if (!(axes >> i & 1)) return absl::OkStatus();  // no result to compute
    if (empty < 0) empty = i;
  }
  if (empty < 0) return absl::OkStatus();
  return InvalidArgument("axis ", empty, " of ", TypeName(args.symbols, x),
                         " has dim 0, so there is no element to choose; reduce over axes whose dims are at least 1");
}

/// An optional operand that must have exactly those dims.
absl::Status CheckDims(const InferArgs& args, size_t operand, const int64_t* dims, int rank, std::string_view wanted) {
  if (operand >= args.in.size() || args.in[operand] == nullptr) return absl::OkStatus();
  const TensorType& v = *args.in[operand];
  bool same = v.rank == rank;
  for (int i = 0; same && i < rank; ++i) same = DimEqual(args.symbols, v.dims[i], dims[i]);
  if (same) return absl::OkStatus();
  std::string want;
  for (int i = 0; i < rank; ++i) absl::StrAppend(&want, i > 0 ? "," : "", DimName(args.symbols, dims[i]));
  const std::string& name = operand < args.op.operands.size() ? args.op.operands[operand].name : "operand";
  return InvalidArgument(name, " is ", TypeName(args.symbols, v), " but must have dims [", want, "], ",
                         absl::string_view(wanted.data(), wanted.size()), " of x ",
                         TypeName(args.symbols, *args.in[0]));
}

}  // namespace

absl::Status shape_reduce(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  TSR_ASSIGN_OR_RETURN(const uint32_t axes, CanonicalAxes(args.ints(0), x.rank));
  TSR_RETURN_IF_ERROR(CheckNotEmpty(args, axes));
  DropAxes(x, axes, args.flag(1), &out[0]);
  return absl::OkStatus();
}

absl::Status shape_reduce1(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  TSR_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.integer(0), x.rank));
  TSR_RETURN_IF_ERROR(CheckNotEmpty(args, 1u << axis));
  DropAxes(x, 1u << axis, args.flag(1), &out[0]);
  return absl::OkStatus();
}

absl::Status shape_axis(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  TSR_RETURN_IF_ERROR(CanonicalAxis(args.integer(FindAttr(args.op, "axis")), x.rank).status());
  CopyDims(x, &out[0]);
  return absl::OkStatus();
}

absl::Status shape_axes(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  TSR_RETURN_IF_ERROR(CanonicalAxes(args.ints(FindAttr(args.op, "axes")), x.rank).status());
  CopyDims(x, &out[0]);
  return absl::OkStatus();
}

absl::Status shape_sort(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  TSR_RETURN_IF_ERROR(CanonicalAxis(args.integer(0), x.rank).status());
  for (int i = 0; i < 2; ++i) {
    CopyDims(x, &out[i]);
    out[i].weak = false;
  }
  out[0].dtype = x.dtype;
  out[1].dtype = DType::i64;
  return absl::OkStatus();
}

absl::Status shape_topk(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  const int64_t k = args.integer(0);
  TSR_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.integer(1), x.rank));
  // Against a symbol k is checked when the kernel runs.
  if (k < 0 || (x.dims[axis] >= 0 && k > x.dims[axis])) {
    return InvalidArgument("k = ", k, " along axis ", axis, " of ", TypeName(args.symbols, x), "; use 0 to ",
                           DimName(args.symbols, x.dims[axis]));
  }
  for (int i = 0; i < 2; ++i) {
    CopyDims(x, &out[i]);
    out[i].dims[axis] = k;
    out[i].weak = false;
  }
  out[0].dtype = x.dtype;
  out[1].dtype = DType::i64;
  return absl::OkStatus();
}

absl::Status shape_layer_norm(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  const int64_t dims = args.integer(0);
  if (x.rank == 0) return InvalidArgument("x is a scalar; it needs at least one dim to be normalised over");
  if (dims < 1 || dims > x.rank)
    return InvalidArgument("dims = ", dims, " for x ", TypeName(args.symbols, x), "; use 1 to ", int{x.rank});
  const std::string wanted = dims == 1 ? "the last" : absl::StrCat("the last ", dims);
  for (size_t i = 1; i <= 2; ++i)
    TSR_RETURN_IF_ERROR(CheckDims(args, i, x.dims + x.rank - dims, static_cast<int>(dims), wanted));
  CopyDims(x, &out[0]);
  return absl::OkStatus();
}

absl::Status shape_norm_grad(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  const int64_t dims = args.integer(0);
  if (x.rank == 0) return InvalidArgument("x is a scalar; it needs at least one dim to be normalised over");
  if (dims < 1 || dims > x.rank)
    return InvalidArgument("dims = ", dims, " for x ", TypeName(args.symbols, x), "; use 1 to ", int{x.rank});
  TSR_RETURN_IF_ERROR(CheckDims(args, 1, x.dims, x.rank, "all"));
  const std::string wanted = dims == 1 ? "the last" : absl::StrCat("the last ", dims);
  TSR_RETURN_IF_ERROR(CheckDims(args, 2, x.dims + x.rank - dims, static_cast<int>(dims), wanted));
  CopyDims(x, &out[0]);
  for (size_t i = 1; i < out.size(); ++i) {
    out[i].rank = static_cast<uint8_t>(dims);
    std::copy_n(x.dims + x.rank - dims, dims, out[i].dims);
  }
  return absl::OkStatus();
}

absl::Status shape_batch_norm(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  TSR_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.integer(0), x.rank));
  const std::string wanted = absl::StrCat("that of axis ", axis);
  for (size_t i = 1; i <= 4; ++i) TSR_RETURN_IF_ERROR(CheckDims(args, i, x.dims + axis, 1, wanted));
  CopyDims(x, &out[0]);
  return absl::OkStatus();
}

}  // namespace tessera::ir
