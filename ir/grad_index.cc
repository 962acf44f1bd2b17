// Gradient rules of the ops that read and write at indices. What is read often adds up: in f32 for narrow types.
#include <functional>

#include "ir/grad.h"

namespace tessera::ir {
namespace {

TensorType WithDType(TensorType type, DType dtype) {
  type.dtype = dtype;
  return type;
}

Expr ScatterAdd(GradCall& c, const TensorType& type, const Expr& ids, const Expr& updates) {
  const Expr zeros = c.Zeros(WithDType(type, c.TypeOf(updates).dtype));
  return c.Emit(Op::k_scatter, {zeros, ids, updates}, {std::string("add")});
}

Expr PutAdd(GradCall& c, const TensorType& type, const Expr& ids, const Expr& updates, int64_t axis) {
  const Expr zeros = c.Zeros(WithDType(type, c.TypeOf(updates).dtype));
  return c.Emit(Op::k_put_along_axis, {zeros, ids, updates}, {axis, std::string("add")});
}

// ids with a last dim of 1: each addresses one dim.
Expr AsRows(GradCall& c, const Expr& ids) { return c.Unsqueeze(ids, {c.TypeOf(ids).rank}); }

}  // namespace

void Grad_embedding(GradCall& c) { c.Give(0, ScatterAdd(c, c.InType(0), AsRows(c, c.Index(1)), c.WideGrad())); }

void Grad_take(GradCall& c) {
  const TensorType x = c.InType(0);
  const int axis = c.Axis(0), n = c.InType(1).rank;
  const Expr ids = AsRows(c, c.Index(1));
  if (axis == 0) return c.Give(0, ScatterAdd(c, x, ids, c.WideGrad()));
  // The dims of ids go first, for scatter addresses leading dims; so does the axis, and back again.
  Ints forth, back;
  for (int i = 0; i < n; ++i) forth.push_back(axis + i);
  for (int i = 0; i < axis; ++i) forth.push_back(i);
  for (int i = axis + n; i < x.rank - 1 + n; ++i) forth.push_back(i);
  TensorType turned = x;
  turned.dims[0] = x.dims[axis];
  for (int i = 0; i < axis; ++i) turned.dims[i + 1] = x.dims[i];
  for (int i = 0; i < x.rank; ++i) back.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
  c.Give(0, c.Transpose(ScatterAdd(c, turned, ids, c.Transpose(c.WideGrad(), forth)), back));
}

void Grad_take_along_axis(GradCall& c) { c.Give(0, PutAdd(c, c.InType(0), c.Index(1), c.WideGrad(), c.Axis(0))); }

void Grad_gather(GradCall& c) { c.Give(0, ScatterAdd(c, c.InType(0), c.Index(1), c.WideGrad())); }

void Grad_sort(GradCall& c) { c.Give(0, PutAdd(c, c.InType(0), c.Out(1), c.Grad(), c.Axis(0))); }
void Grad_topk(GradCall& c) { c.Give(0, PutAdd(c, c.InType(0), c.Out(1), c.Grad(), c.Axis(1))); }

namespace {

struct Places {
  std::function<Expr(const Expr& x)> get;  // what the ids point at
  std::function<Expr(const Expr& x, const Expr& updates, const char* mode)> put;
  std::function<Expr()> numbers;  // of the updates, such that those that can meet in one element differ
};

// y = x with updates placed; operands x, ids, updates.
void GradOfPlacing(GradCall& c, const std::string& mode, const Places& at) {
  const TensorType x = c.InType(0), updates = c.InType(2);
  const Expr g = c.Grad();
  if (mode == "add") {
    if (c.Wants(0)) c.Give(0, g);
    if (c.Wants(2)) c.Give(2, at.get(g));
    return;
  }
  if (mode == "set") {
    if (c.Wants(0)) c.Give(0, at.put(g, c.Zeros(WithDType(updates, c.OutType().dtype)), "set"));
    if (!c.Wants(2)) return;
    // Of updates that meet the last one stays, and has the gradient.
    const Expr numbers = at.numbers();
    const Expr last = at.get(at.put(c.Zeros(WithDType(x, DType::i64)), numbers, "set"));
    c.Give(2, Where(Eq(last, numbers), at.get(g), 0.0));
    return;
  }
  // max and min: all that equal the result share its gradient.
  const Expr wide = c.WideGrad();
  const DType dtype = c.TypeOf(wide).dtype;
  const Expr mine = Eq(c.In(0), c.Out()), theirs = Eq(c.In(2), at.get(c.Out()));
  const Expr share = wide / at.put(c.Cast(mine, dtype), c.Cast(theirs, dtype), "add");
  if (c.Wants(0)) c.Give(0, Where(mine, share, 0.0));
  if (c.Wants(2)) c.Give(2, Where(theirs, at.get(share), 0.0));
}

}  // namespace

void Grad_scatter(GradCall& c) {
  const Expr ids = c.Index(1);
  const TensorType type = c.InType(1), updates = c.InType(2);
  Places at;
  at.get = [&](const Expr& x) { return c.Emit(Op::k_gather, {x, ids}); };
  at.put = [&](const Expr& x, const Expr& u, const char* mode) {
    return c.Emit(Op::k_scatter, {x, ids, u}, {std::string(mode)});
  };
  at.numbers = [&] {
    int64_t rows = 1;
    Ints dims;
    for (int i = 0; i < type.rank - 1; ++i) {
      rows = DimMul(c.symbols(), rows, type.dims[i]);
      dims.push_back(type.dims[i]);
    }
    dims.resize(updates.rank, 1);
    return c.BroadcastTo(c.Reshape(c.Iota({&rows, 1}, 0), dims), {updates.dims, updates.rank});
  };
  GradOfPlacing(c, c.str(0), at);
}

void Grad_put_along_axis(GradCall& c) {
  const Expr ids = c.Index(1);
  const TensorType type = c.InType(1);
  const int64_t axis = c.Axis(0);
  Places at;
  at.get = [&](const Expr& x) { return c.Emit(Op::k_take_along_axis, {x, ids}, {axis}); };
  at.put = [&](const Expr& x, const Expr& u, const char* mode) {
    return c.Emit(Op::k_put_along_axis, {x, ids, u}, {axis, std::string(mode)});
  };
  at.numbers = [&] { return c.Iota({type.dims, type.rank}, static_cast<int>(axis)); };
  GradOfPlacing(c, c.str(1), at);
}

void Grad_update_slice(GradCall& c) {
  const TensorType x = c.InType(0), updates = c.InType(1);
  SymbolTable* t = c.symbols();
  const Ints &starts = c.ints(0), &steps = c.ints(1);
  if (c.Wants(0)) {
    const Expr zeros = c.Zeros(WithDType(updates, c.OutType().dtype));
    c.Give(0, c.Emit(Op::k_update_slice, {c.Grad(), zeros}, {starts, steps}));
  }
  if (!c.Wants(1)) return;
  // Cut to the part from the first element to the last, then every step-th of it; backwards where the step is negative.
  Ints low, high, zero(x.rank, 0), lengths, by, turned;
  bool whole = true;
  for (int i = 0; i < x.rank; ++i) {
    const int64_t step = steps.empty() ? 1 : steps[i], n = updates.dims[i], size = step < 0 ? -step : step;
    const int64_t start = !IsSymbol(starts[i]) && starts[i] < 0 ? DimAdd(t, x.dims[i], starts[i]) : starts[i];
    const int64_t span = n == 0 ? 0 : DimMul(t, DimSub(t, n, 1), size);  // from the first to the last
    const int64_t length = n == 0 ? 0 : DimAdd(t, span, 1);
    const int64_t first = n == 0 ? 0 : step < 0 ? DimSub(t, start, span) : start;
    low.push_back(DimSub(t, 0, first));
    high.push_back(DimSub(t, DimAdd(t, first, length), x.dims[i]));
    lengths.push_back(length);
    by.push_back(size);
    if (step < 0) turned.push_back(i);
    whole &= size == 1;
  }
  Expr part = c.Emit(Op::k_pad, {c.Grad()}, {low, high, 0.0});
  if (!turned.empty()) part = c.Emit(Op::k_flip, {part}, {turned});
  c.Give(1, whole ? part : c.Emit(Op::k_slice, {part}, {zero, lengths, by, Ints()}));
}

}  // namespace tessera::ir
