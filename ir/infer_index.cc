// Shape rules of indexing ops and of the storage formats.
#include <string>

#include "ir/formats.h"
#include "ir/infer.h"

namespace tessera::ir {
namespace {

void SetDims(const TensorType& from, TensorType* to) {
  to->rank = from.rank;
  for (int i = 0; i < from.rank; ++i) to->dims[i] = from.dims[i];
}

/// x[begin..end) appended to y's dims.
absl::Status Append(const TensorType& x, int begin, int end, TensorType* y) {
  if (y->rank + (end - begin) > kMaxRank) {
    return InvalidArgument("the result would have rank ", y->rank + (end - begin), " or more; the rank is at most ",
                           kMaxRank);
  }
  for (int i = begin; i < end; ++i) y->dims[y->rank++] = x.dims[i];
  return absl::OkStatus();
}

absl::Status CheckMode(const std::string& mode) {
  if (mode == "set" || mode == "add" || mode == "max" || mode == "min") return absl::OkStatus();
  return InvalidArgument("mode \"", mode, "\" is unknown; use set, add, max or min");
}

/// Dims of ids equal those of x, but along axis.
absl::Status CheckAlongAxis(const InferArgs& args, const TensorType& x, const TensorType& ids, int axis) {
  if (ids.rank != x.rank) {
    return InvalidArgument("ids has rank ", static_cast<int>(ids.rank), ", x rank ", static_cast<int>(x.rank),
                           "; the ranks must be equal");
  }
  for (int i = 0; i < x.rank; ++i) {
    if (i == axis || DimEqual(args.symbols, x.dims[i], ids.dims[i])) continue;
    return InvalidArgument("dim ", i, " of ids is ", DimName(args.symbols, ids.dims[i]), ", of x ",
                           DimName(args.symbols, x.dims[i]), "; dims other than axis ", axis, " must be equal");
  }
  return absl::OkStatus();
}

absl::Status CheckUpdates(const InferArgs& args, const TensorType& want, const TensorType& updates) {
  bool same = want.rank == updates.rank;
  for (int i = 0; i < want.rank && same; ++i) same = DimEqual(args.symbols, want.dims[i], updates.dims[i]);
  if (same) return absl::OkStatus();
  TensorType shown = want;
  shown.dtype = updates.dtype;
  return InvalidArgument("updates is ", TypeName(args.symbols, updates), ", but ids and x ask for ",
                         TypeName(args.symbols, shown), "; broadcast or reshape it");
}

/// Result dims of gather: ids[:-1] + x[K:].
absl::Status GatherDims(const InferArgs& args, TensorType* y) {
  const TensorType &x = *args.in[0], &ids = *args.in[1];
  if (ids.rank == 0) {
    return InvalidArgument("ids is a scalar; its last dim says how many dims of x are addressed: unsqueeze it");
  }
  const int64_t k = ids.dims[ids.rank - 1];
  if (k < 0) {
    return InvalidArgument("the last dim of ids is ", DimName(args.symbols, k),
                           "; it says how many dims of x are addressed and must be a number");
  }
  if (k > x.rank) {
    return InvalidArgument("the last dim of ids is ", k, ", but x has rank ", static_cast<int>(x.rank),
                           "; it says how many dims of x are addressed");
  }
  y->rank = 0;
  TSR_RETURN_IF_ERROR(Append(ids, 0, ids.rank - 1, y));
  return Append(x, static_cast<int>(k), x.rank, y);
}

}  // namespace

absl::Status shape_embedding(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType &table = *args.in[0], &ids = *args.in[1];
  if (table.rank == 0) return InvalidArgument("table is a scalar; it needs rows: rank 1 or more");
  out[0].rank = 0;
  TSR_RETURN_IF_ERROR(Append(ids, 0, ids.rank, &out[0]));
  return Append(table, 1, table.rank, &out[0]);
}

absl::Status shape_take(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType &x = *args.in[0], &ids = *args.in[1];
  TSR_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.integer(0), x.rank));
  out[0].rank = 0;
  TSR_RETURN_IF_ERROR(Append(x, 0, axis, &out[0]));
  TSR_RETURN_IF_ERROR(Append(ids, 0, ids.rank, &out[0]));
  return Append(x, axis + 1, x.rank, &out[0]);
}

absl::Status shape_take_along_axis(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType &x = *args.in[0], &ids = *args.in[1];
  TSR_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.integer(0), x.rank));
  TSR_RETURN_IF_ERROR(CheckAlongAxis(args, x, ids, axis));
  SetDims(ids, &out[0]);
  return absl::OkStatus();
}

absl::Status shape_gather(const InferArgs& args, absl::Span<TensorType> out) { return GatherDims(args, &out[0]); }

absl::Status shape_scatter(const InferArgs& args, absl::Span<TensorType> out) {
  TSR_RETURN_IF_ERROR(CheckMode(args.str(0)));
  TensorType want;
  TSR_RETURN_IF_ERROR(GatherDims(args, &want));
  TSR_RETURN_IF_ERROR(CheckUpdates(args, want, *args.in[2]));
  SetDims(*args.in[0], &out[0]);
  return absl::OkStatus();
}

absl::Status shape_put_along_axis(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType &x = *args.in[0], &ids = *args.in[1];
  TSR_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.integer(0), x.rank));
  TSR_RETURN_IF_ERROR(CheckMode(args.str(1)));
  TSR_RETURN_IF_ERROR(CheckAlongAxis(args, x, ids, axis));
  TSR_RETURN_IF_ERROR(CheckUpdates(args, ids, *args.in[2]));
  SetDims(x, &out[0]);
  return absl::OkStatus();
}

absl::Status shape_update_slice(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType &x = *args.in[0], &u = *args.in[1];
  const Ints &starts = args.ints(0), &steps = args.ints(1);
  if (u.rank != x.rank) {
    return InvalidArgument("updates has rank ", static_cast<int>(u.rank), ", x rank ", static_cast<int>(x.rank),
                           "; the ranks must be equal");
  }
  if (starts.size() != x.rank || (!steps.empty() && steps.size() != x.rank)) {
    return InvalidArgument("starts has ", starts.size(), " entries and steps ", steps.size(), " for rank ",
                           static_cast<int>(x.rank), "; give one for each dim (steps may be left out)");
  }
  for (int i = 0; i < x.rank; ++i) {
    const int64_t dim = x.dims[i], n = u.dims[i], step = steps.empty() ? 1 : steps[i];
    if (step == 0) return InvalidArgument("step ", i, " is 0; use 1, -1, 2, ...");
    // Along a dim that is a symbol only execution can tell; the op is checked again there, with numbers.
    if (dim < 0 || n < 0 || n == 0 || (args.symbols != nullptr && IsSymbol(starts[i]))) continue;
    const int64_t first = starts[i] < 0 ? starts[i] + dim : starts[i];
    int64_t last;
    const bool fits = first >= 0 && first < dim && !__builtin_mul_overflow(n - 1, step, &last) &&
                      !__builtin_add_overflow(last, first, &last) && last >= 0 && last < dim;
    if (!fits) {
      return InvalidArgument("updates does not fit along dim ", i, ": ", n, " elements from ", starts[i],
                             step == 1 ? std::string() : absl::StrCat(" by steps of ", step), " in a dim of ", dim);
    }
  }
  SetDims(x, &out[0]);
  return absl::OkStatus();
}

absl::Status shape_one_hot(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& ids = *args.in[0];
  const int64_t depth = args.integer(0);
  if (depth < 0) return InvalidArgument("depth is ", depth, "; it is at least 0");
  TensorType last;
  last.rank = 1;
  last.dims[0] = depth;
  out[0].rank = 0;
  TSR_RETURN_IF_ERROR(Append(ids, 0, ids.rank, &out[0]));
  return Append(last, 0, 1, &out[0]);
}

namespace {

absl::StatusOr<const StorageFormat*> CheckFormat(const InferArgs& args) {
  const StorageFormat* format = FindStorageFormat(args.str(0));
  if (format == nullptr) {
    return InvalidArgument("format \"", args.str(0), "\" is unknown; use ", std::string(kStorageFormatNames));
  }
  const int64_t block = args.integer(1);
  // The upper bound keeps all arithmetic on lengths far from overflow.
  if (block < 1 || block > (int64_t{1} << 30) || block % format->block_multiple != 0) {
    return InvalidArgument("block is ", block, "; for ", args.str(0), " it must be a positive multiple of ",
                           format->block_multiple, ", so that a block is whole bytes");
  }
  return format;
}

}  // namespace

absl::Status shape_quantize(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  TSR_ASSIGN_OR_RETURN(const StorageFormat* format, CheckFormat(args));
  if (x.rank == 0) return InvalidArgument("x is a scalar; blocks run along its last dim: rank 1 or more");
  const int64_t block = args.integer(1);
  TensorType &data = out[0], &scale = out[1];
  SetDims(x, &data);
  SetDims(x, &scale);
  data.dtype = DType::u8;
  scale.dtype = DType::f32;
  const int64_t n = x.dims[x.rank - 1];
  const int64_t blocks = DimFloorDiv(args.symbols, DimAdd(args.symbols, n, block - 1), block);
  scale.dims[x.rank - 1] = blocks;
  data.dims[x.rank - 1] = DimMul(args.symbols, blocks, block * format->bits / 8);
  return absl::OkStatus();
}

absl::Status shape_dequantize(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType &data = *args.in[0], &scale = *args.in[1];
  TSR_ASSIGN_OR_RETURN(const StorageFormat* format, CheckFormat(args));
  if (data.dtype != DType::u8 || scale.dtype != DType::f32) {
    return InvalidArgument("data must be u8 and scale f32, as quantize makes them, not ", TypeName(args.symbols, data),
                           " and ", TypeName(args.symbols, scale));
  }
  if (!IsFloat(out[0].dtype)) {
    return InvalidArgument("dtype must be a floating type, not ", std::string(Name(out[0].dtype)));
  }
  if (data.rank == 0 || data.rank != scale.rank) {
    return InvalidArgument("data has rank ", static_cast<int>(data.rank), " and scale ", static_cast<int>(scale.rank),
                           "; they must be equal, 1 or more");
  }
  const int last = data.rank - 1;
  for (int i = 0; i < last; ++i) {
    if (DimEqual(args.symbols, data.dims[i], scale.dims[i])) continue;
    return InvalidArgument("dim ", i, " of data is ", DimName(args.symbols, data.dims[i]), ", of scale ",
                           DimName(args.symbols, scale.dims[i]), "; all but the last must be equal");
  }
  const int64_t block_bytes = args.integer(1) * format->bits / 8;
  const int64_t blocks = scale.dims[last];
  int64_t want;
  if (blocks < 0) {
    want = DimMul(args.symbols, blocks, block_bytes);
  } else if (__builtin_mul_overflow(blocks, block_bytes, &want)) {
    return ResourceExhausted("the result is too large");
  }
  if (!DimEqual(args.symbols, want, data.dims[last])) {
    return InvalidArgument("the last dim of scale is ", DimName(args.symbols, blocks), ", of data ",
                           DimName(args.symbols, data.dims[last]), "; with blocks of ", args.integer(1), " ",
                           args.str(0), " elements it must be ", DimName(args.symbols, want));
  }
  SetDims(data, &out[0]);
  out[0].dims[last] = DimMul(args.symbols, blocks, args.integer(1));
  return absl::OkStatus();
}

}  // namespace tessera::ir
