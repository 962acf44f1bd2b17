// Shape rules of making and element-wise ops.
#include "ir/infer.h"

namespace tessera::ir {

absl::Status BroadcastDims(SymbolTable* symbols, const TensorType& a, const TensorType& b, TensorType* out) {
  const int rank = a.rank > b.rank ? a.rank : b.rank;
  TensorType result = *out;
  result.rank = static_cast<uint8_t>(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank), ib = i - (rank - b.rank);
    const int64_t da = ia < 0 ? 1 : a.dims[ia], db = ib < 0 ? 1 : b.dims[ib];
    if (da == db || db == 1) {
      result.dims[i] = da;
    } else if (da == 1) {
      result.dims[i] = db;
    } else if (DimEqual(symbols, da, db)) {
      result.dims[i] = da >= 0 ? da : db;
    } else {
      const bool symbolic = da < 0 || db < 0;
      return InvalidArgument(
          "cannot broadcast ", TypeName(symbols, a), " with ", TypeName(symbols, b), ": dim ", i - rank, " is ",
          DimName(symbols, da), " on the left and ", DimName(symbols, db), " on the right; ",
          symbolic ? "they are not known to be equal: state it with `where`" : "they must be equal, or one of them 1");
    }
  }
  *out = result;
  return absl::OkStatus();
}

absl::Status shape_none(const InferArgs&, absl::Span<TensorType>) { return absl::OkStatus(); }

absl::Status shape_same(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  out[0].rank = x.rank;
  for (int i = 0; i < x.rank; ++i) out[0].dims[i] = x.dims[i];
  return absl::OkStatus();
}

absl::Status shape_broadcast(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType* first = args.in[0];
  TensorType& y = out[0];
  y.rank = first->rank;
  for (int i = 0; i < first->rank; ++i) y.dims[i] = first->dims[i];
  for (size_t k = 1; k < args.in.size(); ++k) {
    const TensorType& x = *args.in[k];
    if (x.rank == 0 || y.SameDims(x)) continue;
    // The message shows the operand's own dtype where there are but two.
    TensorType left = y;
    left.dtype = first->dtype;
    TSR_RETURN_IF_ERROR(BroadcastDims(args.symbols, left, x, &y));
  }
  return absl::OkStatus();
}

absl::Status shape_dims(const InferArgs& args, absl::Span<TensorType> out) {
  const Ints& dims = args.ints(FindAttr(args.op, "dims"));
  if (dims.size() > kMaxRank)
    return InvalidArgument("dims has ", dims.size(), " entries; the rank is at most ", kMaxRank);
  for (const TensorType* in : args.in) {
    if (in->rank != 0) return InvalidArgument("its operands are scalars, not ", TypeName(args.symbols, *in));
  }
  if (int axis = FindAttr(args.op, "axis"); axis >= 0) {
    TSR_RETURN_IF_ERROR(CanonicalAxis(args.integer(axis), static_cast<int>(dims.size())).status());
  }
  if (args.op.op == Op::k_random_int) {
    if (args.integer(1) >= args.integer(2)) {
      return InvalidArgument("low (", args.integer(1), ") must be below high (", args.integer(2), ")");
    }
    if (!IsInt(out[0].dtype))
      return InvalidArgument("dtype must be an integer type, not ", std::string(Name(out[0].dtype)));
  } else if (args.op.op == Op::k_random_uniform || args.op.op == Op::k_random_normal) {
    if (!IsFloat(out[0].dtype))
      return InvalidArgument("dtype must be a floating type, not ", std::string(Name(out[0].dtype)));
  } else if (args.op.op == Op::k_iota && out[0].dtype == DType::boolean) {
    return InvalidArgument("dtype must be a number type, not bool");
  }
  out[0].rank = static_cast<uint8_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 && !IsSymbol(dims[i])) return InvalidArgument("dim ", i, " is ", dims[i], "; dims are at least 0");
    out[0].dims[i] = dims[i];
  }
  return absl::OkStatus();
}

absl::Status shape_constant(const InferArgs& args, absl::Span<TensorType> out) {
  const auto& value = std::get<rt::Ref<rt::TensorImpl>>(args.attrs[0]);
  if (!value) return InvalidArgument("attribute value holds no tensor");
  static_cast<TensorType&>(out[0]) = *value;
  out[0].weak = false;
  return absl::OkStatus();
}

absl::Status shape_buffer(const InferArgs&, absl::Span<TensorType>) { return absl::OkStatus(); }

}  // namespace tessera::ir
