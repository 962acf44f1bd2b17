// Shape rules of products, windows, attention and losses.
#include <algorithm>
#include <string>

#include "ir/infer.h"

namespace tessera::ir {
namespace {

std::string Type(const InferArgs& args, int i) { return TypeName(args.symbols, *args.in[i]); }
std::string Dim(const InferArgs& args, int64_t dim) { return DimName(args.symbols, dim); }

/// What to add to a message when two dims differ of which one is a symbol.
std::string SymbolHint(int64_t a, int64_t b) {
  return IsSymbol(a) || IsSymbol(b) ? "; they are not known to be equal: state it with `where`" : "";
}

std::string List(absl::Span<const int64_t> values) {
  std::string s = "[";
  for (size_t i = 0; i < values.size(); ++i) absl::StrAppend(&s, i ? "," : "", values[i]);
  return s + "]";
}

/// The dim that da and db broadcast to, or false.
bool BroadcastDim(SymbolTable* t, int64_t da, int64_t db, int64_t* out) {
  if (da == 1 || db == 1) {
    *out = da == 1 ? db : da;
    return true;
  }
  if (!DimEqual(t, da, db)) return false;
  *out = da >= 0 ? da : db;
  return true;
}

/// False when it is known, or must be feared, that `dim` is no multiple of `by`.
bool Divides(SymbolTable* t, int64_t by, int64_t dim) {
  if (DimEqual(t, by, dim)) return true;
  if (by == 0) return dim == 0;
  if (!IsSymbol(dim) && !IsSymbol(by)) return dim % by == 0;
  return by == 1 || (t != nullptr && t->KnownDivisible(dim, by));
}

/// The attributes that a window of `n` spatial dims slides by, one number for each dim.
struct Slide {
  Ints stride, low, high, dilation;
};

absl::Status PerDim(std::string_view name, const Ints& given, int n, int64_t least, absl::Span<const int64_t> otherwise,
                    Ints* out) {
  const std::string what(name);
  if (given.empty()) {
    out->assign(otherwise.begin(), otherwise.end());
    return absl::OkStatus();
  }
  if (static_cast<int>(given.size()) != n) {
    return InvalidArgument(what, " ", List(given), " has ", given.size(), " numbers; it takes one for each of the ", n,
                           " spatial dims");
  }
  for (int64_t v : given) {
    if (v < least) return InvalidArgument(what, " ", List(given), " has ", v, "; each must be at least ", least);
  }
  *out = given;
  return absl::OkStatus();
}

/// padding is one number for each dim, used on both sides, or two: low and high of the first dim, then of the next.
absl::Status ReadSlide(const Ints& stride, absl::Span<const int64_t> default_stride, const Ints& padding,
                       const Ints& dilation, int n, Slide* out) {
  const Ints ones(n, 1);
  TSR_RETURN_IF_ERROR(
      PerDim("stride", stride, n, 1, default_stride.empty() ? absl::MakeSpan(ones) : default_stride, &out->stride));
  TSR_RETURN_IF_ERROR(PerDim("dilation", dilation, n, 1, absl::MakeSpan(ones), &out->dilation));
  const int given = static_cast<int>(padding.size());
  if (given != 0 && given != n && given != 2 * n) {
    return InvalidArgument("padding ", List(padding), " has ", given, " numbers; it takes ", n,
                           " (one for each spatial dim) or ", 2 * n, " (low and high of each spatial dim in turn)");
  }
  for (int i = 0; i < n; ++i) {
    out->low.push_back(given == 0 ? 0 : given == n ? padding[i] : padding[2 * i]);
    out->high.push_back(given == 0 ? 0 : given == n ? padding[i] : padding[2 * i + 1]);
    if (out->low[i] < 0 || out->high[i] < 0) {
      return InvalidArgument("padding ", List(padding), " has a negative number; use slice to cut the input");
    }
  }
  return absl::OkStatus();
}

/// out = (in + low + high - ((window - 1) * dilation + 1)) / stride + 1
absl::Status SlideDim(const InferArgs& args, const Slide& s, int i, int64_t in, int64_t window, int64_t* out) {
  SymbolTable* t = args.symbols;
  const int64_t padded = DimAdd(t, in, s.low[i] + s.high[i]);
  const int64_t span = DimAdd(t, DimMul(t, DimSub(t, window, 1), s.dilation[i]), 1);
  if (!IsSymbol(padded) && !IsSymbol(span) && padded < span) {
    return InvalidArgument("spatial dim ", i, " is ", Dim(args, in), ", with padding ", padded,
                           ", but the window needs ", span, " (size ", Dim(args, window), ", dilation ", s.dilation[i],
                           "); use a smaller window or more padding");
  }
  *out = DimAdd(t, DimFloorDiv(t, DimSub(t, padded, span), s.stride[i]), 1);
  return absl::OkStatus();
}

/// [N,C,spatial...] with 1 to 3 spatial dims.
absl::Status CheckImage(const InferArgs& args) {
  const TensorType& x = *args.in[0];
  if (x.rank >= 3 && x.rank <= 5) return absl::OkStatus();
  return InvalidArgument("x is ", Type(args, 0), "; it must be [N,C,spatial...] with 1, 2 or 3 spatial dims",
                         x.rank == 2 ? "; unsqueeze adds a batch dim" : "");
}

}  // namespace

absl::Status shape_matmul(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType &a = *args.in[0], &b = *args.in[1];
  const bool ta = args.flag(0), tb = args.flag(1);
  for (int i = 0; i < 2; ++i) {
    const TensorType& x = *args.in[i];
    const char* name = i == 0 ? "a" : "b";
    if (x.rank == 0) return InvalidArgument(name, " is the scalar ", Type(args, i), "; it must have a dim; use mul");
    if (x.rank == 1 && (i == 0 ? ta : tb)) {
      return InvalidArgument("transpose_", name, " needs a matrix, but ", name, " is ", Type(args, i),
                             "; a vector needs no transposition");
    }
  }
  const bool vector_a = a.rank == 1, vector_b = b.rank == 1;
  const int a_inner = vector_a ? 0 : ta ? a.rank - 2 : a.rank - 1;
  const int b_inner = vector_b ? 0 : tb ? b.rank - 1 : b.rank - 2;
  const int64_t ka = a.dims[a_inner], kb = b.dims[b_inner];
  if (!DimEqual(args.symbols, ka, kb)) {
    const auto place = [](bool vector, bool last) {
      return vector ? "only dim" : last ? "last dim" : "second to last dim";
    };
    return InvalidArgument("the inner dims differ: a is ", Type(args, 0), ta ? " (transposed)" : "", ", b is ",
                           Type(args, 1), tb ? " (transposed)" : "", "; a's ", place(vector_a, !ta), " (",
                           Dim(args, ka), ") must equal b's ", place(vector_b, tb), " (", Dim(args, kb), ")",
                           SymbolHint(ka, kb));
  }
  const int a_batch = vector_a ? 0 : a.rank - 2, b_batch = vector_b ? 0 : b.rank - 2;
  const int batch = std::max(a_batch, b_batch);
  TensorType& y = out[0];
  int64_t dims[kMaxRank];
  int rank = batch;
  for (int i = 0; i < batch; ++i) {
    const int ia = i - (batch - a_batch), ib = i - (batch - b_batch);
    const int64_t da = ia < 0 ? 1 : a.dims[ia], db = ib < 0 ? 1 : b.dims[ib];
    if (!BroadcastDim(args.symbols, da, db, &dims[i])) {
      return InvalidArgument("the batch dims differ: a is ", Type(args, 0), ", b is ", Type(args, 1), "; dim ",
                             i - batch - 2, " is ", Dim(args, da), " in a and ", Dim(args, db),
                             " in b; they must be equal, or one of them 1", SymbolHint(da, db));
    }
  }
  if (!vector_a) dims[rank++] = a.dims[ta ? a.rank - 1 : a.rank - 2];
  if (!vector_b) dims[rank++] = b.dims[tb ? b.rank - 2 : b.rank - 1];
  y.rank = static_cast<uint8_t>(rank);
  std::copy_n(dims, rank, y.dims);
  return absl::OkStatus();
}

absl::Status shape_dot_general(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType &a = *args.in[0], &b = *args.in[1];
  const Ints lists[4] = {args.ints(0), args.ints(1), args.ints(2), args.ints(3)};
  const char* names[4] = {"contract_a", "contract_b", "batch_a", "batch_b"};
  for (int pair = 0; pair < 4; pair += 2) {
    if (lists[pair].size() != lists[pair + 1].size()) {
      return InvalidArgument(names[pair], " ", List(lists[pair]), " and ", names[pair + 1], " ", List(lists[pair + 1]),
                             " pair up dims of a and b, so they must have as many numbers");
    }
  }
  Ints axes[4];
  uint32_t used[2] = {0, 0};
  for (int l = 0; l < 4; ++l) {
    const TensorType& x = l % 2 == 0 ? a : b;
    for (int64_t axis : lists[l]) {
      auto canonical = CanonicalAxis(axis, x.rank);
      if (!canonical.ok()) return InvalidArgument(names[l], " ", List(lists[l]), ": ", canonical.status().message());
      if (used[l % 2] >> *canonical & 1) {
        return InvalidArgument("dim ", *canonical, " of ", l % 2 == 0 ? "a" : "b",
                               " is named twice; each dim is contracted, batch, or neither");
      }
      used[l % 2] |= 1u << *canonical;
      axes[l].push_back(*canonical);
    }
  }
  for (int pair = 0; pair < 4; pair += 2) {
    for (size_t i = 0; i < axes[pair].size(); ++i) {
      const int64_t da = a.dims[axes[pair][i]], db = b.dims[axes[pair + 1][i]];
      if (DimEqual(args.symbols, da, db)) continue;
      return InvalidArgument("the ", pair == 0 ? "contracted" : "batch", " dims differ: a is ", Type(args, 0),
                             ", b is ", Type(args, 1), "; dim ", axes[pair][i], " of a (", Dim(args, da),
                             ") must equal dim ", axes[pair + 1][i], " of b (", Dim(args, db), ")", SymbolHint(da, db));
    }
  }
  absl::InlinedVector<int64_t, 16> dims;
  for (int64_t axis : axes[2]) dims.push_back(a.dims[axis]);
  for (int i = 0; i < a.rank; ++i) {
    if (!(used[0] >> i & 1)) dims.push_back(a.dims[i]);
  }
  for (int i = 0; i < b.rank; ++i) {
    if (!(used[1] >> i & 1)) dims.push_back(b.dims[i]);
  }
  if (dims.size() > kMaxRank) {
    return InvalidArgument("the result of ", Type(args, 0), " with ", Type(args, 1), " would have ", dims.size(),
                           " dims; the rank is at most ", kMaxRank, "; contract more dims or reshape first");
  }
  out[0].rank = static_cast<uint8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), out[0].dims);
  return absl::OkStatus();
}

absl::Status shape_conv(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType &x = *args.in[0], &w = *args.in[1];
  const TensorType* bias = args.in.size() > 2 ? args.in[2] : nullptr;
  TSR_RETURN_IF_ERROR(CheckImage(args));
  const int n = x.rank - 2;
  if (w.rank != x.rank) {
    return InvalidArgument("weight is ", Type(args, 1), ", x is ", Type(args, 0),
                           "; weight must be [O,C/groups,window...] with as many dims as x");
  }
  const int64_t groups = args.integer(3);
  if (groups < 1) return InvalidArgument("groups is ", groups, "; it must be at least 1");
  SymbolTable* t = args.symbols;
  if (!DimEqual(t, x.dims[1], DimMul(t, w.dims[1], groups))) {
    return InvalidArgument("the channels differ: x is ", Type(args, 0), ", weight is ", Type(args, 1), ", groups is ",
                           groups, "; x's dim 1 (", Dim(args, x.dims[1]), ") must equal weight's dim 1 times groups (",
                           Dim(args, DimMul(t, w.dims[1], groups)), ")");
  }
  if (!Divides(t, groups, w.dims[0])) {
    return InvalidArgument("weight ", Type(args, 1), " has ", Dim(args, w.dims[0]), " output channels, which groups (",
                           groups, ") must divide");
  }
  if (bias != nullptr && (bias->rank != 1 || !DimEqual(t, bias->dims[0], w.dims[0]))) {
    return InvalidArgument("bias is ", Type(args, 2), "; it must have one dim of weight's output channels (",
                           Dim(args, w.dims[0]), ")");
  }
  Slide slide;
  TSR_RETURN_IF_ERROR(ReadSlide(args.ints(0), {}, args.ints(1), args.ints(2), n, &slide));
  TensorType& y = out[0];
  y.rank = x.rank;
  y.dims[0] = x.dims[0];
  y.dims[1] = w.dims[0];
  for (int i = 0; i < n; ++i) {
    if (w.dims[2 + i] == 0) return InvalidArgument("weight is ", Type(args, 1), "; its window must not be empty");
    TSR_RETURN_IF_ERROR(SlideDim(args, slide, i, x.dims[2 + i], w.dims[2 + i], &y.dims[2 + i]));
  }
  return absl::OkStatus();
}

absl::Status shape_pool(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType& x = *args.in[0];
  TSR_RETURN_IF_ERROR(CheckImage(args));
  const int n = x.rank - 2;
  const Ints& window = args.ints(0);
  if (static_cast<int>(window.size()) != n) {
    return InvalidArgument("window ", List(window), " has ", window.size(), " numbers; x is ", Type(args, 0),
                           ", so it takes one for each of the ", n, " spatial dims");
  }
  for (int64_t v : window) {
    if (v < 1) return InvalidArgument("window ", List(window), " has ", v, "; each must be at least 1");
  }
  // Without a stride, windows lie side by side.
  Slide slide;
  TSR_RETURN_IF_ERROR(ReadSlide(args.ints(1), absl::MakeSpan(window), args.ints(2), args.ints(3), n, &slide));
  TensorType& y = out[0];
  y.rank = x.rank;
  y.dims[0] = x.dims[0];
  y.dims[1] = x.dims[1];
  for (int i = 0; i < n; ++i) {
    const int64_t span = (window[i] - 1) * slide.dilation[i] + 1;
    if (std::max(slide.low[i], slide.high[i]) > span / 2) {
      return InvalidArgument("padding of spatial dim ", i, " is ", std::max(slide.low[i], slide.high[i]),
                             "; it may be at most half the window, which spans ", span, " (so at most ", span / 2, ")");
    }
    TSR_RETURN_IF_ERROR(SlideDim(args, slide, i, x.dims[2 + i], window[i], &y.dims[2 + i]));
  }
  return absl::OkStatus();
}

namespace {

/// What attention asks of q, k, v, a mask, which is operand number `mask_at`, and the attributes.
absl::Status CheckAttention(const InferArgs& args, size_t mask_at) {
  const TensorType &q = *args.in[0], &k = *args.in[1], &v = *args.in[2];
  const TensorType* mask = args.in.size() > mask_at ? args.in[mask_at] : nullptr;
  SymbolTable* t = args.symbols;
  if (const int64_t window = args.integer(2); window != 0) {
    if (window < 0)
      return InvalidArgument("window is ", window, "; it must be the number of keys that a query sees, or 0 for all");
    if (!args.flag(0))
      return InvalidArgument("window is ", window,
                             ", but causal is false; a window ends at the query's own position, "
                             "so it needs causal = true");
  }
  if (q.rank < 3 || k.rank != q.rank || v.rank != q.rank) {
    return InvalidArgument("q is ", Type(args, 0), ", k is ", Type(args, 1), ", v is ", Type(args, 2),
                           "; they must be q [...,H,S,D], k [...,G,T,D] and v [...,G,T,E] of one rank, at least 3");
  }
  const int r = q.rank;
  for (int i = 0; i < r - 3; ++i) {
    if (DimEqual(t, q.dims[i], k.dims[i]) && DimEqual(t, q.dims[i], v.dims[i])) continue;
    return InvalidArgument("the batch dims differ: q is ", Type(args, 0), ", k is ", Type(args, 1), ", v is ",
                           Type(args, 2), "; dim ", i, " must be the same in all");
  }
  if (!DimEqual(t, k.dims[r - 3], v.dims[r - 3]) || !DimEqual(t, k.dims[r - 2], v.dims[r - 2])) {
    return InvalidArgument("k and v differ: k is ", Type(args, 1), ", v is ", Type(args, 2),
                           "; they must have the same number of heads (third to last dim) and of keys (second to "
                           "last)");
  }
  if (!DimEqual(t, q.dims[r - 1], k.dims[r - 1])) {
    return InvalidArgument("the last dims of q and k differ: q is ", Type(args, 0), ", k is ", Type(args, 1), "; ",
                           Dim(args, q.dims[r - 1]), " must equal ", Dim(args, k.dims[r - 1]),
                           SymbolHint(q.dims[r - 1], k.dims[r - 1]));
  }
  if (!Divides(t, k.dims[r - 3], q.dims[r - 3])) {
    return InvalidArgument("q is ", Type(args, 0), ", k is ", Type(args, 1), "; the heads of q (",
                           Dim(args, q.dims[r - 3]), ") must be a multiple of those of k and v (",
                           Dim(args, k.dims[r - 3]), ")");
  }
  if (mask != nullptr) {
    TensorType full = q;
    full.dtype = mask->dtype;
    full.dims[r - 1] = k.dims[r - 2];
    bool fits = mask->rank <= r;
    for (int i = 1; fits && i <= mask->rank; ++i) {
      const int64_t have = mask->dims[mask->rank - i];
      fits = have == 1 || DimEqual(t, have, full.dims[r - i]);
    }
    if (!fits) {
      return InvalidArgument("mask is ", Type(args, static_cast<int>(mask_at)), "; it must broadcast to ",
                             TypeName(t, full), " ([...,H,S,T]): each dim the same or 1");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status shape_attention(const InferArgs& args, absl::Span<TensorType> out) {
  TSR_RETURN_IF_ERROR(CheckAttention(args, 3));
  const TensorType &q = *args.in[0], &v = *args.in[2];
  TensorType& y = out[0];
  y.rank = q.rank;
  std::copy_n(q.dims, q.rank - 1, y.dims);
  y.dims[q.rank - 1] = v.dims[q.rank - 1];
  return absl::OkStatus();
}

absl::Status shape_attention_grad(const InferArgs& args, absl::Span<TensorType> out) {
  TSR_RETURN_IF_ERROR(CheckAttention(args, 5));
  const TensorType &q = *args.in[0], &v = *args.in[2];
  TensorType full = q;
  full.dims[q.rank - 1] = v.dims[q.rank - 1];
  for (const int i : {3, 4}) {
    const TensorType& given = *args.in[i];
    bool same = given.rank == q.rank;
    for (int d = 0; same && d < q.rank; ++d) same = DimEqual(args.symbols, given.dims[d], full.dims[d]);
    if (!same)
      return InvalidArgument(i == 3 ? "y" : "g", " is ", Type(args, i), "; it must be like the result of attention, ",
                             TypeName(args.symbols, full));
  }
  for (int i = 0; i < 3; ++i) {
    out[i].rank = q.rank;
    std::copy_n(args.in[i]->dims, q.rank, out[i].dims);
  }
  return absl::OkStatus();
}

absl::Status shape_paged_attention(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType &q = *args.in[0], &k = *args.in[1], &v = *args.in[2], &table = *args.in[3], &lengths = *args.in[4];
  SymbolTable* t = args.symbols;
  if (q.rank != 4 || k.rank != 4 || v.rank != 4) {
    return InvalidArgument("q is ", Type(args, 0), ", k is ", Type(args, 1), ", v is ", Type(args, 2),
                           "; they must be q [B,H,S,D], k [P,N,G,D] and v [P,N,G,E]");
  }
  for (int i = 0; i < 3; ++i) {
    if (DimEqual(t, k.dims[i], v.dims[i])) continue;
    return InvalidArgument("k and v differ: k is ", Type(args, 1), ", v is ", Type(args, 2),
                           "; they must have the same number of pages, of positions in a page and of heads (the first "
                           "three dims)");
  }
  if (!DimEqual(t, q.dims[3], k.dims[3])) {
    return InvalidArgument("the last dims of q and k differ: q is ", Type(args, 0), ", k is ", Type(args, 1), "; ",
                           Dim(args, q.dims[3]), " must equal ", Dim(args, k.dims[3]),
                           SymbolHint(q.dims[3], k.dims[3]));
  }
  if (!Divides(t, k.dims[2], q.dims[1])) {
    return InvalidArgument("q is ", Type(args, 0), ", k is ", Type(args, 1), "; the heads of q (", Dim(args, q.dims[1]),
                           ") must be a multiple of those of k and v (", Dim(args, k.dims[2]), ")");
  }
  if (table.rank != 2 || !DimEqual(t, table.dims[0], q.dims[0])) {
    return InvalidArgument("table is ", Type(args, 3), ", q is ", Type(args, 0),
                           "; table must be [B,T], a row of pages for each of the ", Dim(args, q.dims[0]),
                           " sequences");
  }
  if (lengths.rank != 1 || !DimEqual(t, lengths.dims[0], q.dims[0])) {
    return InvalidArgument("lengths is ", Type(args, 4), ", q is ", Type(args, 0),
                           "; lengths must be [B], a number for each of the ", Dim(args, q.dims[0]), " sequences");
  }
  out[0].rank = 4;
  std::copy_n(q.dims, 3, out[0].dims);
  out[0].dims[3] = v.dims[3];
  return absl::OkStatus();
}

absl::Status shape_rotary(const InferArgs& args, absl::Span<TensorType> out) {
  const TensorType &x = *args.in[0], &positions = *args.in[1];
  SymbolTable* t = args.symbols;
  if (x.rank < 1) return InvalidArgument("x is the scalar ", Type(args, 0), "; it must be [...,S,D]");
  if (!Divides(t, 2, x.dims[x.rank - 1])) {
    return InvalidArgument("x is ", Type(args, 0), "; its last dim (", Dim(args, x.dims[x.rank - 1]),
                           ") must be even, because pairs are turned");
  }
  bool fits = positions.rank < x.rank;
  for (int i = 1; fits && i <= positions.rank; ++i) {
    const int64_t have = positions.dims[positions.rank - i];
    fits = have == 1 || DimEqual(t, have, x.dims[x.rank - 1 - i]);
  }
  if (!fits) {
    TensorType full = x;
    --full.rank;
    full.dtype = positions.dtype;
    return InvalidArgument("positions is ", Type(args, 1), ", x is ", Type(args, 0), "; positions must broadcast to ",
                           TypeName(t, full), ", the dims of x without the last");
  }
  if (const double base = args.number(0); !(base > 0)) {
    return InvalidArgument("base is ", base, "; it must be above 0");
  }
  out[0].rank = x.rank;
  std::copy_n(x.dims, x.rank, out[0].dims);
  return absl::OkStatus();
}

namespace {

/// targets, operand 1, must have the dims of logits without the last.
absl::Status CheckTargets(const InferArgs& args) {
  const TensorType &x = *args.in[0], &targets = *args.in[1];
  if (x.rank < 1) return InvalidArgument("logits is the scalar ", Type(args, 0), "; it must be [...,classes]");
  bool fits = targets.rank == x.rank - 1;
  for (int i = 0; fits && i < targets.rank; ++i) fits = DimEqual(args.symbols, targets.dims[i], x.dims[i]);
  if (!fits) {
    TensorType want = x;
    --want.rank;
    want.dtype = targets.dtype;
    return InvalidArgument("logits is ", Type(args, 0), ", targets is ", Type(args, 1), "; targets must be ",
                           TypeName(args.symbols, want), ", the dims of logits without the last (the classes)");
  }
  return absl::OkStatus();
}

/// g, the operand at `g_at`, must have the dims of targets, the one at `targets_at`.
absl::Status CheckLossGradients(const InferArgs& args, int targets_at, int g_at) {
  const TensorType &targets = *args.in[targets_at], &g = *args.in[g_at];
  bool fits = g.rank == targets.rank;
  for (int i = 0; fits && i < g.rank; ++i) fits = DimEqual(args.symbols, g.dims[i], targets.dims[i]);
  if (!fits)
    return InvalidArgument("targets is ", Type(args, targets_at), ", g is ", Type(args, g_at),
                           "; g must have the dims of targets, one gradient for each loss");
  return absl::OkStatus();
}

}  // namespace

absl::Status shape_cross_entropy(const InferArgs& args, absl::Span<TensorType> out) {
  TSR_RETURN_IF_ERROR(CheckTargets(args));
  const TensorType& targets = *args.in[1];
  out[0].rank = targets.rank;
  std::copy_n(args.in[0]->dims, targets.rank, out[0].dims);
  return absl::OkStatus();
}

absl::Status shape_cross_entropy_grad(const InferArgs& args, absl::Span<TensorType> out) {
  TSR_RETURN_IF_ERROR(CheckTargets(args));
  TSR_RETURN_IF_ERROR(CheckLossGradients(args, 1, 2));
  const TensorType& x = *args.in[0];
  out[0].rank = x.rank;
  std::copy_n(x.dims, x.rank, out[0].dims);
  return absl::OkStatus();
}

namespace {

/// x [...,features], w [classes,features], and targets, operand 2, with the dims of x without the last.
absl::Status CheckLinearTargets(const InferArgs& args) {
  const TensorType &x = *args.in[0], &w = *args.in[1], &targets = *args.in[2];
  SymbolTable* t = args.symbols;
  if (x.rank < 1 || w.rank != 2) {
    return InvalidArgument("x is ", Type(args, 0), ", w is ", Type(args, 1),
                           "; they must be x [...,features] and w [classes,features]");
  }
  const int64_t features = x.dims[x.rank - 1];
  if (!DimEqual(t, features, w.dims[1])) {
    return InvalidArgument("the last dims of x and w differ: x is ", Type(args, 0), ", w is ", Type(args, 1), "; ",
                           Dim(args, features), " must equal ", Dim(args, w.dims[1]), SymbolHint(features, w.dims[1]));
  }
  bool fits = targets.rank == x.rank - 1;
  for (int i = 0; fits && i < targets.rank; ++i) fits = DimEqual(t, targets.dims[i], x.dims[i]);
  if (!fits) {
    TensorType want = x;
    --want.rank;
    want.dtype = targets.dtype;
    return InvalidArgument("x is ", Type(args, 0), ", targets is ", Type(args, 2), "; targets must be ",
                           TypeName(t, want), ", the dims of x without the last (the features)");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status shape_linear_cross_entropy(const InferArgs& args, absl::Span<TensorType> out) {
  TSR_RETURN_IF_ERROR(CheckLinearTargets(args));
  out[0].rank = args.in[2]->rank;
  std::copy_n(args.in[0]->dims, out[0].rank, out[0].dims);
  return absl::OkStatus();
}

absl::Status shape_linear_cross_entropy_grad(const InferArgs& args, absl::Span<TensorType> out) {
  TSR_RETURN_IF_ERROR(CheckLinearTargets(args));
  TSR_RETURN_IF_ERROR(CheckLossGradients(args, 2, 3));
  for (int i = 0; i < 2; ++i) {
    out[i].rank = args.in[i]->rank;
    std::copy_n(args.in[i]->dims, out[i].rank, out[i].dims);
  }
  return absl::OkStatus();
}

}  // namespace tessera::ir
