// Gradient rules of products, attention and rotary embeddings.
#include <algorithm>
#include <cmath>

#include "ir/grad.h"

namespace tessera::ir {
namespace {

// The gradient of b in a b; both are matrices, or batches of them.
Expr GradOfRight(GradCall& c, const Expr& g, const Expr& a, int rank_a, int rank_b) {
  const bool ta = c.flag(0), tb = c.flag(1);
  if (rank_b == 2 && rank_a > 2 && !ta) {
    // One matrix for a batch of them: the batch is summed in the product, and no gradient for each is ever written.
    Ints rows;
    for (int i = 0; i < rank_a - 1; ++i) rows.push_back(i);
    return c.Emit(Op::k_dot_general, {tb ? g : a, tb ? a : g}, {rows, rows, Ints(), Ints()});
  }
  return tb ? c.Matmul(g, a, true, ta) : c.Matmul(a, g, !ta, false);
}

}  // namespace

void Grad_matmul(GradCall& c) {
  const TensorType a = c.InType(0), b = c.InType(1);
  Expr g = c.Grad();
  // A vector is a matrix of one row, or of one column; its dim is missing in the result.
  const int out = c.OutType().rank;
  if (b.rank == 1) g = c.Unsqueeze(g, {out});
  if (a.rank == 1) g = c.Unsqueeze(g, {b.rank == 1 ? out : out - 1});
  // That of the left factor last: what it goes to next can be part of its product.
  if (c.Wants(1)) {
    const Expr left = a.rank == 1 ? c.Unsqueeze(c.In(0), {0}) : c.In(0);
    Expr gb = GradOfRight(c, g, left, std::max(int{a.rank}, 2), std::max(int{b.rank}, 2));
    if (b.rank == 1) {  // [..., k, 1], where the batch was not summed in the product
      TensorType column = b;
      column.rank = 2;
      column.dims[1] = 1;
      gb = c.Reshape(c.SumTo(gb, column), {b.dims, 1});
    }
    c.Give(1, gb);
  }
  if (c.Wants(0)) {
    const Expr right = b.rank == 1 ? c.Unsqueeze(c.In(1), {1}) : c.In(1);
    Expr ga = c.flag(0) ? c.Matmul(right, g, c.flag(1), true) : c.Matmul(g, right, false, !c.flag(1));
    if (a.rank == 1) {  // [..., 1, k], with b's batch
      Ints batch;
      for (int i = 0; i < std::max(int{b.rank}, 2) - 1; ++i) batch.push_back(i);
      ga = c.Sum(ga, batch, false);
    }
    c.Give(0, ga);
  }
}

namespace {

Ints Canonical(const Ints& axes, int rank) {
  Ints out = axes;
  for (int64_t& a : out)
    if (a < 0) a += rank;
  return out;
}

Ints Rest(int rank, const Ints& contract, const Ints& batch) {
  Ints rest;
  for (int64_t i = 0; i < rank; ++i) {
    if (std::count(contract.begin(), contract.end(), i) == 0 && std::count(batch.begin(), batch.end(), i) == 0)
      rest.push_back(i);
  }
  return rest;
}

Ints Range(int64_t first, int64_t count) {
  Ints r;
  for (int64_t i = 0; i < count; ++i) r.push_back(first + i);
  return r;
}

}  // namespace

void Grad_dot_general(GradCall& c) {
  const int rank[2] = {c.InType(0).rank, c.InType(1).rank};
  Ints contract[2], batch[2], rest[2];
  for (int i = 0; i < 2; ++i) {
    contract[i] = Canonical(c.ints(i), rank[i]);
    batch[i] = Canonical(c.ints(2 + i), rank[i]);
    rest[i] = Rest(rank[i], contract[i], batch[i]);
  }
  const int64_t nb = static_cast<int64_t>(batch[0].size());
  const int64_t place[2] = {nb, nb + static_cast<int64_t>(rest[0].size())};  // of each one's other dims in the result
  for (int i = 0; i < 2; ++i) {
    if (!c.Wants(i)) continue;
    const int o = 1 - i;
    // Over the other's dims that are in the result: batch, this one's other dims, the other's contracted ones in order.
    const Ints in_g = Range(place[o], static_cast<int64_t>(rest[o].size()));
    const Expr d = c.Emit(Op::k_dot_general, {c.Grad(), c.In(o)}, {in_g, rest[o], Range(0, nb), batch[o]});
    Ints sorted = contract[o];
    std::sort(sorted.begin(), sorted.end());
    Ints perm(rank[i], 0);
    for (size_t k = 0; k < batch[i].size(); ++k) perm[batch[i][k]] = static_cast<int64_t>(k);
    for (size_t k = 0; k < rest[i].size(); ++k) perm[rest[i][k]] = nb + static_cast<int64_t>(k);
    for (size_t k = 0; k < contract[i].size(); ++k) {
      const auto at = std::find(sorted.begin(), sorted.end(), contract[o][k]) - sorted.begin();
      perm[contract[i][k]] = nb + static_cast<int64_t>(rest[i].size()) + at;
    }
    c.Give(i, perm == Range(0, rank[i]) ? d : c.Transpose(d, perm));
  }
}

namespace {

// What the rules of attention share: its operands with the heads that share keys in a dim of their own,
// [..., G, H/G, S, D] against [..., G, 1, T, D], and the probabilities, computed again, all S times T of them at once.
struct Attended {
  Attended(GradCall& call, size_t mask_at) : c(call), tq(c.InType(0)), tk(c.InType(1)), r(tq.rank), mask(mask_at) {
    SymbolTable* t = c.symbols();
    groups = tk.dims[r - 3];
    grouped = !DimEqual(t, tq.dims[r - 3], groups);
    q = Split(c.WideIn(0));
    k = Shared(c.WideIn(1));
    scale = c.number(1);
    if (c.number(1) == 0) {
      const Expr depth = c.Count({&tq.dims[r - 1], 1});
      scale = depth.is_number() ? Expr(1 / std::sqrt(std::get<double>(depth.arg.immediate)))
                                : Rsqrt(c.Cast(depth, c.TypeOf(q).dtype));
    }
    Expr scores = c.Matmul(q, k, false, true) * scale;
    // Masked scores are so low that they count for nothing; a row without any other is 0 in the end, not NaN.
    constexpr double kLow = -1e30;
    Expr kept;
    const bool masked = c.Given(mask), additive = masked && IsFloat(c.InType(mask).dtype);
    if (additive) scores = scores + SplitMask(c.WideIn(mask));
    if (masked && !additive) kept = SplitMask(c.In(mask));
    if (c.flag(0)) {
      // Counted from the end, a key may not come before its query.
      const Expr from_last_key = c.Emit(Op::k_flip, {c.Iota({&tk.dims[r - 2], 1}, 0)}, {Ints()});
      const Expr from_last_row = c.Unsqueeze(c.Emit(Op::k_flip, {c.Iota({&tq.dims[r - 2], 1}, 0)}, {Ints()}), {1});
      Expr seen = Ge(from_last_key, from_last_row);
      if (const int64_t window = c.integer(2); window > 0)
        seen = And(seen, Lt(from_last_key - from_last_row, Expr(nullptr, Arg(window))));
      kept = kept.given() ? And(kept, seen) : seen;
    }
    // An added mask of -inf must not make NaN of a whole row either.
    if (additive) scores = Maximum(scores, kLow);
    if (kept.given()) scores = Where(kept, scores, kLow);
    p = c.Emit(Op::k_softmax, {scores}, {int64_t{-1}});
    if (kept.given()) p = Where(kept, p, 0.0);
    if (additive) p = Where(Gt(scores, kLow), p, 0.0);
  }

  /// A tensor [..., H, ., .] with the heads of a group in a dim of their own.
  Expr Split(const Expr& x) {
    if (!grouped) return x;
    const TensorType type = c.TypeOf(x);
    Ints dims(type.dims, type.dims + type.rank);
    const int at = type.rank - 3;
    dims[at] = groups;
    dims.insert(dims.begin() + at + 1, DimFloorDiv(c.symbols(), type.dims[at], groups));
    return c.Reshape(x, dims);
  }
  /// A tensor [..., G, ., .] as all heads of a group see it, and the sum over those.
  Expr Shared(const Expr& x) { return grouped ? c.Unsqueeze(x, {r - 2}) : x; }
  Expr OverGroup(const Expr& x) { return grouped ? c.Sum(x, {r - 2}, false) : x; }
  Expr SumOfRow(const Expr& x) { return c.Sum(x, {grouped ? r : r - 1}, true); }
  /// The gradient of the scores from that of the probabilities.
  Expr BackThroughSoftmax(const Expr& gp) {
    const Expr weighed = gp * p;
    return weighed - p * SumOfRow(weighed);
  }
  void Give(size_t i, const Expr& x) {
    const TensorType type = c.InType(i);
    c.Give(i, c.Reshape(x, {type.dims, type.rank}));
  }
  void GiveMask(const Expr& gs) {
    Ints full(tq.dims, tq.dims + r);
    full[r - 1] = tk.dims[r - 2];
    c.Give(mask, c.Reshape(gs, full));
  }

  GradCall& c;
  const TensorType tq, tk;
  const int r;
  const size_t mask;
  int64_t groups;
  bool grouped;
  Expr q, k, p, scale;

 private:
  /// A mask may have fewer dims, and 1 in place of the heads.
  Expr SplitMask(const Expr& x) {
    const TensorType type = c.TypeOf(x);
    if (!grouped || type.rank < 3) return x;
    if (type.dims[type.rank - 3] == 1) return c.Unsqueeze(x, {type.rank - 2});
    return Split(x);
  }
};

}  // namespace

void Grad_attention(GradCall& c) {
  // Narrow floats have a kernel that never has all scores in memory.
  if (IsNarrowFloat(c.OutType().dtype) && !c.Wants(3)) {
    const Expr in[] = {c.In(0), c.In(1), c.In(2), c.Out(), c.Grad(), c.Given(3) ? c.In(3) : Expr()};
    const std::vector<Expr> grads = c.EmitMany(Op::k_attention_grad, {in, c.Given(3) ? size_t{6} : size_t{5}},
                                               {c.flag(0), c.number(1), c.integer(2)});
    for (size_t i = 0; i < 3; ++i)
      if (c.Wants(i)) c.Give(i, grads[i]);
    return;
  }
  Attended a(c, 3);
  const Expr g = a.Split(c.WideGrad());
  if (c.Wants(2)) c.Give(2, a.OverGroup(c.Matmul(a.p, g, true, false)));
  if (!c.Wants(0) && !c.Wants(1) && !c.Wants(3)) return;
  const Expr gs = a.BackThroughSoftmax(c.Matmul(g, a.Shared(c.WideIn(2)), false, true));
  if (c.Wants(0)) a.Give(0, c.Matmul(gs, a.k, false, false) * a.scale);
  if (c.Wants(1)) c.Give(1, a.OverGroup(c.Matmul(gs, a.q, true, false) * a.scale));
  if (c.Wants(3)) a.GiveMask(gs);
}

// dq = scale e k and so on, where e = p (g v^T - rows of g y): each of them a product, and y a value of its own.
void Grad_attention_grad(GradCall& c) {
  Attended a(c, 5);
  const Expr v = a.Shared(c.WideIn(2)), y = a.Split(c.WideIn(3)), g = a.Split(c.WideIn(4));
  const Expr centred = c.Matmul(g, v, false, true) - a.SumOfRow(g * y), e = a.p * centred;
  Expr ge, gp;  // gradients of e and p
  const auto add = [](Expr& sum, const Expr& x) { sum = sum.given() ? sum + x : x; };
  if (c.HasGrad(0)) add(ge, c.Matmul(a.Split(c.WideGrad(0)), a.k, false, true) * a.scale);
  if (c.HasGrad(1)) add(ge, c.Matmul(a.q, a.Shared(c.WideGrad(1)), false, true) * a.scale);
  if (c.HasGrad(2)) add(gp, c.Matmul(g, a.Shared(c.WideGrad(2)), false, true));
  Expr weighed;  // the gradient of what p weighs
  if (ge.given()) {
    add(gp, ge * centred);
    weighed = ge * a.p;
  }
  const Expr gs = a.BackThroughSoftmax(gp);
  if (c.Wants(0)) {
    Expr x = c.Matmul(gs, a.k, false, false) * a.scale;
    if (c.HasGrad(1)) add(x, c.Matmul(e, a.Shared(c.WideGrad(1)), false, false) * a.scale);
    a.Give(0, x);
  }
  if (c.Wants(1)) {
    Expr x = c.Matmul(gs, a.q, true, false) * a.scale;
    if (c.HasGrad(0)) add(x, c.Matmul(e, a.Split(c.WideGrad(0)), true, false) * a.scale);
    c.Give(1, a.OverGroup(x));
  }
  if (c.Wants(2) && weighed.given()) c.Give(2, a.OverGroup(c.Matmul(weighed, g, true, false)));
  if (c.Wants(3) && weighed.given()) a.Give(3, -(a.SumOfRow(weighed) * g));
  if (c.Wants(4)) {
    Expr x;
    if (weighed.given()) x = c.Matmul(weighed, v, false, false) - a.SumOfRow(weighed) * y;
    if (c.HasGrad(2)) add(x, c.Matmul(a.p, a.Shared(c.WideGrad(2)), false, false));
    a.Give(4, x);
  }
  if (c.Wants(5)) a.GiveMask(gs);
}

// Turning back by the same angle.
void Grad_rotary(GradCall& c) {
  const Expr back = -c.Index(1);
  c.Give(0, c.Emit(Op::k_rotary, {c.Grad(), back}, {c.number(0), c.flag(1)}));
}

}  // namespace tessera::ir
