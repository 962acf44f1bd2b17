// Gradient rules of the ops that rearrange, cut and join.
#include "ir/grad.h"
#include "ir/slice.h"

namespace tessera::ir {
namespace {

void GiveReshaped(GradCall& c) {
  const TensorType x = c.InType(0);
  c.Give(0, c.Reshape(c.Grad(), {x.dims, x.rank}));
}

}  // namespace

void Grad_reshape(GradCall& c) { GiveReshaped(c); }
void Grad_squeeze(GradCall& c) { GiveReshaped(c); }
void Grad_unsqueeze(GradCall& c) { GiveReshaped(c); }
void Grad_broadcast(GradCall& c) { c.Give(0, c.Grad()); }
void Grad_flip(GradCall& c) { c.Give(0, c.Emit(Op::k_flip, {c.Grad()}, {c.ints(0)})); }
void Grad_tril(GradCall& c) { c.Give(0, c.Emit(Op::k_tril, {c.Grad()}, {c.integer(0)})); }
void Grad_triu(GradCall& c) { c.Give(0, c.Emit(Op::k_triu, {c.Grad()}, {c.integer(0)})); }

void Grad_transpose(GradCall& c) {
  const int rank = c.InType(0).rank;
  const Ints& perm = c.ints(0);
  Ints inverse;
  if (!perm.empty()) inverse.assign(rank, 0);
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i] < 0 ? perm[i] + rank : perm[i]] = static_cast<int64_t>(i);
  c.Give(0, c.Transpose(c.Grad(), inverse));
}

// g at its place in zeros.
void Grad_slice(GradCall& c) {
  const TensorType x = c.InType(0), y = c.OutType();
  const Ints &starts = c.ints(0), &stops = c.ints(1), &steps = c.ints(2), &axes = c.ints(3);
  SymbolTable* t = c.symbols();
  Ints first(x.rank, 0), by(x.rank, 1);
  bool dense = true;
  for (size_t k = 0; k < starts.size(); ++k) {
    const int64_t axis = axes.empty() ? static_cast<int64_t>(k) : axes[k] < 0 ? axes[k] + x.rank : axes[k];
    const int64_t dim = x.dims[axis];
    by[axis] = steps.empty() ? 1 : steps[k];
    dense &= by[axis] == 1;
    if (!IsSymbol(dim)) {
      const SliceRange range = ResolveSlice(dim, starts[k], stops[k], by[axis]);
      first[axis] = range.first;
      if (range.count <= 1) by[axis] = 1;
    } else if (by[axis] < 0) {
      first[axis] = DimSub(t, dim, 1);  // the only start there is along a symbol
    } else {
      first[axis] = starts[k] < 0 ? DimAdd(t, dim, starts[k]) : starts[k];
    }
  }
  if (dense) {
    Ints high;
    for (int i = 0; i < x.rank; ++i) high.push_back(DimSub(t, DimSub(t, x.dims[i], first[i]), y.dims[i]));
    c.Give(0, c.Emit(Op::k_pad, {c.Grad()}, {first, high, 0.0}));
    return;
  }
  TensorType zeros = x;
  zeros.dtype = y.dtype;
  c.Give(0, c.Emit(Op::k_update_slice, {c.Zeros(zeros), c.Grad()}, {first, by}));
}

void Grad_split(GradCall& c) {
  std::vector<Expr> parts;
  for (size_t i = 0; i < c.ints(0).size(); ++i) parts.push_back(c.HasGrad(i) ? c.Grad(i) : c.Zeros(c.OutType(i)));
  c.Give(0, c.EmitMany(Op::k_concat, parts, {int64_t{c.Axis(1)}})[0]);
}

namespace {

/// The op split gives at most this many results at once.
constexpr size_t kMostParts = 64;

std::vector<Expr> SplitGrad(GradCall& c, const Ints& sizes, int axis) {
  if (sizes.size() <= kMostParts) {
    const Expr g = c.Grad();
    return c.EmitMany(Op::k_split, {&g, 1}, {sizes, int64_t{axis}});
  }
  std::vector<Expr> parts;
  int64_t at = 0;
  for (int64_t size : sizes) {
    const int64_t end = DimAdd(c.symbols(), at, size);
    parts.push_back(c.Emit(Op::k_slice, {c.Grad()}, {Ints{at}, Ints{end}, Ints(), Ints{axis}}));
    at = end;
  }
  return parts;
}

}  // namespace

void Grad_concat(GradCall& c) {
  const int axis = c.Axis(0);
  Ints sizes;
  for (size_t i = 0; i < c.num_operands(); ++i) sizes.push_back(c.InType(i).dims[axis]);
  const std::vector<Expr> parts = SplitGrad(c, sizes, axis);
  for (size_t i = 0; i < parts.size(); ++i)
    if (c.Wants(i)) c.Give(i, parts[i]);
}

void Grad_stack(GradCall& c) {
  const int64_t rank = c.OutType().rank, axis = c.integer(0) < 0 ? c.integer(0) + rank : c.integer(0);
  const std::vector<Expr> parts = SplitGrad(c, Ints(c.num_operands(), 1), static_cast<int>(axis));
  for (size_t i = 0; i < parts.size(); ++i)
    if (c.Wants(i)) c.Give(i, c.Emit(Op::k_squeeze, {parts[i]}, {Ints{axis}}));
}

void Grad_pad(GradCall& c) {
  Ints low, high;
  for (int64_t n : c.ints(0)) low.push_back(DimSub(c.symbols(), 0, n));
  for (int64_t n : c.ints(1)) high.push_back(DimSub(c.symbols(), 0, n));
  c.Give(0, c.Emit(Op::k_pad, {c.Grad()}, {low, high, 0.0}));
}

}  // namespace tessera::ir
