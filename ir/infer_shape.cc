// Shape rules of the ops that rearrange, cut and join.
#include <string>

#include "ir/infer.h"
#include "ir/slice.h"

namespace tessera::ir {
namespace {

void SetDims(const TensorType& from, TensorType* to) {
  to->rank = from.rank;
  for (int i = 0; i < from.rank; ++i) to->dims[i] = from.dims[i];
}

absl::Status CheckRank(size_t rank) {
  if (rank <= kMaxRank) return absl::OkStatus();
  return InvalidArgument("the result would have rank ", rank, "; the rank is at most ", kMaxRank);
}

std::string DimNames(const SymbolTable* symbols, const Ints& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) absl::StrAppend(&s, i ? "," : "", DimName(symbols, dims[i]));
  return s + "]";
}

}  // namespace

absl::Status shape_reshape(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  const Ints& dims = args.ints(0);
  SymbolTable* t = args.symbols;
  TSR_RETURN_IF_ERROR(CheckRank(dims.size()));
  TensorType& y = out[0];
  y.rank = static_cast<uint8_t>(dims.size());
  int inferred = -1;
  bool symbolic = false, overflow = false;
  int64_t known = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t d = y.dims[i] = dims[i];
    if (d >= 0) {
      overflow |= __builtin_mul_overflow(known, d, &known);
    } else if (d == -1) {
      if (inferred >= 0) {
        return InvalidArgument("dims ", DimNames(t, dims), " has -1 at ", inferred, " and at ", i,
                               "; only one dim can be left to find");
      }
      inferred = static_cast<int>(i);
    } else if (IsSymbol(d)) {
      symbolic = true;
    } else {
      return InvalidArgument("dim ", i, " of ", DimNames(t, dims), " is ", d,
                             "; dims are at least 0, or -1 for the one to find");
    }
  }
  for (int i = 0; i < x.rank; ++i) symbolic |= x.dims[i] < 0;

  if (!symbolic) {
    const int64_t size = x.size();
    for (int64_t d : dims) {
      if (d != 0) continue;
      known = 0;
      overflow = false;
    }
    if (overflow) known = -1;  // equal to no size
    if (inferred < 0) {
      if (known == size) return absl::OkStatus();
      return InvalidArgument("cannot give ", size, " elements the dims ", DimNames(t, dims), ", which hold ",
                             overflow ? std::string("far more") : absl::StrCat(known),
                             "; the numbers of elements must be equal");
    }
    if (known == 0) {
      return InvalidArgument("cannot find the -1 in ", DimNames(t, dims),
                             ": any number would do where another dim is 0; write the number");
    }
    if (overflow || size % known != 0) {
      return InvalidArgument("cannot find the -1 in ", DimNames(t, dims), ": ", size,
                             " elements do not divide by the product of the other dims",
                             overflow ? std::string() : absl::StrCat(", ", known));
    }
    y.dims[inferred] = size / known;
    return absl::OkStatus();
  }

  int64_t size = 1, product = 1;
  for (int i = 0; i < x.rank; ++i) size = DimMul(t, size, x.dims[i]);
  for (int64_t d : dims)
    if (d != -1) product = DimMul(t, product, d);
  if (inferred >= 0) {
    if (product == 0) {
      return InvalidArgument("cannot find the -1 in ", DimNames(t, dims),
                             ": any number would do where another dim is 0; write the number");
    }
    y.dims[inferred] = DimFloorDiv(t, size, product);
    product = DimMul(t, product, y.dims[inferred]);
  }
  if (DimEqual(t, product, size)) return absl::OkStatus();
  if (inferred >= 0) {
    return InvalidArgument("cannot find the -1 in ", DimNames(t, dims), ": ", DimName(t, size),
                           " elements are not known to divide by the product of the other dims; state it with `where`");
  }
  return InvalidArgument("cannot give ", DimName(t, size), " elements the dims ", DimNames(t, dims), ", which hold ",
                         DimName(t, product), ": they are not known to be equal; state it with `where`");
}

absl::Status shape_transpose(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  const Ints& perm = args.ints(0);
  TensorType& y = out[0];
  y.rank = x.rank;
  if (perm.empty()) {
    for (int i = 0; i < x.rank; ++i) y.dims[i] = x.dims[x.rank - 1 - i];
    return absl::OkStatus();
  }
  if (perm.size() != x.rank) {
    return InvalidArgument("perm ", DimNames(nullptr, perm), " has ", perm.size(), " entries for rank ",
                           static_cast<int>(x.rank), "; give one for each dim");
  }
  uint32_t seen = 0;
  for (int i = 0; i < x.rank; ++i) {
    TSR_ASSIGN_OR_RETURN(const int from, CanonicalAxis(perm[i], x.rank));
    if (seen & (1u << from)) {
      return InvalidArgument("perm ", DimNames(nullptr, perm), " names dim ", from, " twice; name each dim once");
    }
    seen |= 1u << from;
    y.dims[i] = x.dims[from];
  }
  return absl::OkStatus();
}

absl::Status shape_broadcast_to(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  const Ints& dims = args.ints(0);
  TSR_RETURN_IF_ERROR(CheckRank(dims.size()));
  if (dims.size() < x.rank) {
    return InvalidArgument("dims ", DimNames(args.symbols, dims), " has ", dims.size(),
                           " entries, fewer than the rank ", static_cast<int>(x.rank),
                           " of its operand; give at least as many");
  }
  TensorType& y = out[0];
  y.rank = static_cast<uint8_t>(dims.size());
  const int missing = y.rank - x.rank;
  for (int i = 0; i < y.rank; ++i) {
    const int64_t from = i < missing ? 1 : x.dims[i - missing];
    const int64_t to = dims[i];
    if (to == -1) {
      if (i < missing) {
        return InvalidArgument("dim ", i, " of ", DimNames(args.symbols, dims),
                               " is -1, which keeps a dim, but its operand has none there; write a number");
      }
      y.dims[i] = from;
    } else if (to < 0 && !IsSymbol(to)) {
      return InvalidArgument("dim ", i, " of ", DimNames(args.symbols, dims), " is ", to,
                             "; dims are at least 0, or -1 to keep one");
    } else if (from == 1 || DimEqual(args.symbols, from, to)) {
      y.dims[i] = to;
    } else {
      return InvalidArgument("cannot repeat dim ", i - missing, " of its operand, ", DimName(args.symbols, from),
                             ", to ", DimName(args.symbols, to), " for dims ", DimNames(args.symbols, dims),
                             "; it must be 1 or ", from < 0 || to < 0 ? "known to be equal" : "equal");
    }
  }
  return absl::OkStatus();
}

absl::Status shape_squeeze(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  TensorType& y = out[0];
  const bool all = args.ints(0).empty();
  TSR_ASSIGN_OR_RETURN(const uint32_t mask, CanonicalAxes(args.ints(0), x.rank));
  int rank = 0;
  for (int i = 0; i < x.rank; ++i) {
    if ((mask & (1u << i)) && x.dims[i] == 1) continue;
    if (!all && (mask & (1u << i))) {
      return InvalidArgument("cannot remove dim ", i, ": it is ", DimName(args.symbols, x.dims[i]),
                             "; only dims of 1 can be removed");
    }
    y.dims[rank++] = x.dims[i];
  }
  y.rank = static_cast<uint8_t>(rank);
  return absl::OkStatus();
}

absl::Status shape_unsqueeze(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  const Ints& axes = args.ints(0);
  TensorType& y = out[0];
  const size_t rank = x.rank + axes.size();
  TSR_RETURN_IF_ERROR(CheckRank(rank));
  uint32_t mask = 0;
  if (!axes.empty()) {
    TSR_ASSIGN_OR_RETURN(mask, CanonicalAxes(axes, static_cast<int>(rank)));
  }
  y.rank = static_cast<uint8_t>(rank);
  for (int i = 0, from = 0; i < y.rank; ++i) y.dims[i] = mask & (1u << i) ? 1 : x.dims[from++];
  return absl::OkStatus();
}

namespace {

/// The length of x[start:stop:step] along a dim that is a symbol (at least 2). What Python cuts off at the ends cannot
/// be known, so that either no cutting can happen, or the slice runs to the end: S - start, which the caller promises
/// not to be negative.
absl::StatusOr<int64_t> SymbolicSlice(SymbolTable* t, int64_t dim, int64_t start, int64_t stop, int64_t step) {
  constexpr int64_t kLeast = 2;
  const auto unknown = [&] {
    return InvalidArgument("the length of ", DimName(t, start), ":", stop == kSliceEnd ? "" : DimName(t, stop), ":",
                           step, " along dim ", DimName(t, dim),
                           " depends on its value; that dim must be a number, or the "
                           "slice must run to the end");
  };
  if (DimEqual(t, stop, dim)) stop = kSliceEnd;
  if (IsSymbol(start) || IsSymbol(stop)) return unknown();
  int64_t length;
  if (step < 0) {
    if ((start != kSliceEnd && start != -1) || stop > kSliceThroughFirst) return unknown();
    length = dim;
  } else if (start >= 0 && start != kSliceEnd && stop == kSliceEnd) {
    length = t->Sub(dim, start);
  } else if (start >= 0 && stop < 0 && stop >= -kLeast && start - stop <= kLeast) {
    length = t->Sub(dim, start - stop);
  } else if (start >= 0 && stop >= 0 && stop <= kLeast) {
    length = start < stop ? stop - start : 0;
  } else if (start < 0 && start >= -kLeast && (stop == kSliceEnd || (stop < 0 && stop >= -kLeast))) {
    const int64_t end = stop == kSliceEnd ? 0 : stop;
    length = start < end ? end - start : 0;
  } else {
    return unknown();
  }
  const int64_t by = step < 0 ? -step : step;
  return by == 1 ? length : DimFloorDiv(t, DimAdd(t, length, by - 1), by);
}

}  // namespace

absl::Status shape_slice(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  const Ints &starts = args.ints(0), &stops = args.ints(1), &steps = args.ints(2), &axes = args.ints(3);
  const size_t n = starts.size();
  if (stops.size() != n || (!steps.empty() && steps.size() != n) || (!axes.empty() && axes.size() != n)) {
    return InvalidArgument("starts has ", n, " entries, stops ", stops.size(), ", steps ", steps.size(), " and axes ",
                           axes.size(), "; all need the same number (steps and axes may be left out)");
  }
  if (n > x.rank) {
    return InvalidArgument("starts has ", n, " entries for rank ", static_cast<int>(x.rank),
                           "; give at most one for each dim");
  }
  TensorType& y = out[0];
  SetDims(x, &y);
  uint32_t seen = 0;
  for (size_t k = 0; k < n; ++k) {
    int axis = static_cast<int>(k);
    if (!axes.empty()) {
      TSR_ASSIGN_OR_RETURN(axis, CanonicalAxis(axes[k], x.rank));
    }
    if (seen & (1u << axis)) return InvalidArgument("axis ", axes[k], " is named twice");
    seen |= 1u << axis;
    const int64_t step = steps.empty() ? 1 : steps[k];
    if (step == 0 || step == kSymbolBase)
      return InvalidArgument("step ", k, " is ", step == 0 ? "0" : "out of range", "; use 1, -1, 2, ...");
    const int64_t dim = x.dims[axis];
    if (dim < 0) {
      TSR_ASSIGN_OR_RETURN(y.dims[axis], SymbolicSlice(args.symbols, dim, starts[k], stops[k], step));
    } else if (args.symbols != nullptr && (IsSymbol(starts[k]) || IsSymbol(stops[k]))) {
      return InvalidArgument("slices dim ", axis, ", ", dim, ", from ", DimName(args.symbols, starts[k]), " to ",
                             DimName(args.symbols, stops[k]), "; along a dim that is a number, both must be numbers");
    } else {
      y.dims[axis] = ResolveSlice(dim, starts[k], stops[k], step).count;
    }
  }
  return absl::OkStatus();
}

absl::Status shape_split(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  const Ints& sizes = args.ints(0);
  TSR_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.integer(1), x.rank));
  if (sizes.empty()) return InvalidArgument("sizes is empty; give at least one size");
  int64_t total = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] < 0 && !IsSymbol(sizes[k])) {
      return InvalidArgument("size ", k, " of ", DimNames(args.symbols, sizes), " is ", sizes[k],
                             "; sizes are at least 0");
    }
    if ((total | sizes[k]) >= 0) {
      // More than an address can count equals no dim.
      if (__builtin_add_overflow(total, sizes[k], &total)) total = kSliceEnd;
    } else {
      total = DimAdd(args.symbols, total, sizes[k]);
    }
    SetDims(x, &out[k]);
    out[k].dims[axis] = sizes[k];
  }
  if (!DimEqual(args.symbols, total, x.dims[axis])) {
    return InvalidArgument("sizes ", DimNames(args.symbols, sizes), " sum to ", DimName(args.symbols, total),
                           ", but dim ", axis, " is ", DimName(args.symbols, x.dims[axis]),
                           total < 0 || x.dims[axis] < 0 ? "; they must be known to be equal" : "; they must be equal");
  }
  return absl::OkStatus();
}

absl::Status shape_concat(const InferArgs& args, absl::Span<TensorType> out) {
  if (args.in.empty()) return InvalidArgument("needs at least one operand");
  const TensorType& x = *args.in[0];
  if (x.rank == 0) return InvalidArgument("cannot join scalars along an axis; use stack");
  TSR_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.integer(0), x.rank));
  TensorType& y = out[0];
  SetDims(x, &y);
  for (size_t k = 1; k < args.in.size(); ++k) {
    const TensorType& next = *args.in[k];
    if (next.rank != x.rank) {
      return InvalidArgument("operand ", k, " has rank ", static_cast<int>(next.rank), ", operand 0 rank ",
                             static_cast<int>(x.rank), "; the ranks must be equal");
    }
    for (int i = 0; i < x.rank; ++i) {
      if (i == axis) {
        if ((y.dims[i] | next.dims[i]) >= 0 && __builtin_add_overflow(y.dims[i], next.dims[i], &y.dims[i]))
          return ResourceExhausted("the result is too large along axis ", axis);
        if ((y.dims[i] | next.dims[i]) < 0) y.dims[i] = DimAdd(args.symbols, y.dims[i], next.dims[i]);
      } else if (DimEqual(args.symbols, y.dims[i], next.dims[i])) {
        if (y.dims[i] < 0) y.dims[i] = next.dims[i];
      } else {
        return InvalidArgument("dim ", i, " of operand ", k, " is ", DimName(args.symbols, next.dims[i]),
                               ", of operand 0 ", DimName(args.symbols, x.dims[i]), "; dims other than axis ", axis,
                               " must be equal");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status shape_stack(const InferArgs& args, absl::Span<TensorType> out) {
  if (args.in.empty()) return InvalidArgument("needs at least one operand");
  TensorType x = *args.in[0];
  TSR_RETURN_IF_ERROR(CheckRank(x.rank + 1));
  TSR_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.integer(0), x.rank + 1));
  for (size_t k = 1; k < args.in.size(); ++k) {
    const TensorType& next = *args.in[k];
    bool same = next.rank == x.rank;
    for (int i = 0; i < x.rank && same; ++i) {
      same = DimEqual(args.symbols, x.dims[i], next.dims[i]);
      if (x.dims[i] < 0) x.dims[i] = next.dims[i];
    }
    if (!same) {
      return InvalidArgument("operand ", k, " is ", TypeName(args.symbols, next), ", operand 0 ",
                             TypeName(args.symbols, *args.in[0]), "; their dims must be equal");
    }
  }
  TensorType& y = out[0];
  y.rank = static_cast<uint8_t>(x.rank + 1);
  for (int i = 0, from = 0; i < y.rank; ++i)
    y.dims[i] = i == axis ? static_cast<int64_t>(args.in.size()) : x.dims[from++];
  return absl::OkStatus();
}

absl::Status shape_pad(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  const Ints &low = args.ints(0), &high = args.ints(1);
  if (low.size() != x.rank || high.size() != x.rank) {
    return InvalidArgument("low has ", low.size(), " entries and high ", high.size(), " for rank ",
                           static_cast<int>(x.rank), "; give one for each dim");
  }
  TensorType& y = out[0];
  y.rank = x.rank;
  for (int i = 0; i < x.rank; ++i) {
    const int64_t dim = x.dims[i];
    int64_t& to = y.dims[i];
    if ((dim | low[i] | high[i]) < 0 && (IsSymbol(dim) || IsSymbol(low[i]) || IsSymbol(high[i])) &&
        args.symbols != nullptr) {
      to = args.symbols->Add(args.symbols->Add(dim, low[i]), high[i]);
      if (to >= 0 || IsSymbol(to)) continue;
    } else if (__builtin_add_overflow(dim, low[i], &to) || __builtin_add_overflow(to, high[i], &to)) {
      return InvalidArgument("low ", low[i], " and high ", high[i], " of dim ", i, " are out of range");
    }
    if (to < 0) {
      return InvalidArgument("low ", low[i], " and high ", high[i], " cut more than dim ", i, " has, ",
                             DimName(args.symbols, dim));
    }
  }
  return absl::OkStatus();
}

absl::Status shape_matrix(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  if (x.rank < 2) return InvalidArgument("needs a matrix or a batch of them, not ", TypeName(args.symbols, x));
  SetDims(x, &out[0]);
  return absl::OkStatus();
}

}  // namespace tessera::ir
