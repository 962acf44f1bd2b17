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

// The probabilities are computed again, all S times T of them at once.
void Grad_attention(GradCall& c) {
  const TensorType tq = c.InType(0), tk = c.InType(1);
  const int r = tq.rank;
  SymbolTable* t = c.symbols();
  const int64_t heads = tq.dims[r - 3], groups = tk.dims[r - 3], keys = tk.dims[r - 2], rows = tq.dims[r - 2];
  // Heads that share keys become a dim of their own: [..., G, H/G, S, D] against [..., G, 1, T, D].
  const bool grouped = !DimEqual(t, heads, groups);
  const auto split = [&](const Expr& x, const TensorType& type) {
    if (!grouped) return x;
    Ints dims(type.dims, type.dims + type.rank);
    const int at = type.rank - 3;
    dims[at] = groups;
    dims.insert(dims.begin() + at + 1, DimFloorDiv(t, type.dims[at], groups));
    return c.Reshape(x, dims);
  };
  const auto shared = [&](const Expr& x) { return grouped ? c.Unsqueeze(x, {r - 2}) : x; };
  // A mask may have fewer dims, and 1 in place of the heads.
  const auto split_mask = [&](const Expr& x, const TensorType& type) {
    if (!grouped || type.rank < 3) return x;
    if (type.dims[type.rank - 3] == 1) return c.Unsqueeze(x, {type.rank - 2});
    return split(x, type);
  };

  const Expr q = split(c.WideIn(0), tq), k = shared(c.WideIn(1)), g = split(c.WideGrad(), c.OutType());
  Expr scale = c.number(1);
  if (c.number(1) == 0) {
    const Expr depth = c.Count({&tq.dims[r - 1], 1});
    scale = depth.is_number() ? Expr(1 / std::sqrt(std::get<double>(depth.arg.immediate)))
                              : Rsqrt(c.Cast(depth, c.TypeOf(q).dtype));
  }
  Expr scores = c.Matmul(q, k, false, true) * scale;
  // Masked scores are so low that they count for nothing; a row without any other is 0 in the end, not NaN.
  constexpr double kLow = -1e30;
  Expr kept;
  const bool masked = c.Given(3), additive = masked && IsFloat(c.InType(3).dtype);
  if (additive) scores = scores + split_mask(c.WideIn(3), c.InType(3));
  if (masked && !additive) kept = split_mask(c.In(3), c.InType(3));
  if (c.flag(0)) {
    // Counted from the end, a key may not come before its query.
    const Expr from_last_key = c.Emit(Op::k_flip, {c.Iota({&keys, 1}, 0)}, {Ints()});
    const Expr from_last_row = c.Unsqueeze(c.Emit(Op::k_flip, {c.Iota({&rows, 1}, 0)}, {Ints()}), {1});
    const Expr causal = Ge(from_last_key, from_last_row);
    kept = kept.given() ? And(kept, causal) : causal;
  }
  // An added mask of -inf must not make NaN of a whole row either.
  if (additive) scores = Maximum(scores, kLow);
  if (kept.given()) scores = Where(kept, scores, kLow);
  Expr p = c.Emit(Op::k_softmax, {scores}, {int64_t{-1}});
  if (kept.given()) p = Where(kept, p, 0.0);
  if (additive) p = Where(Gt(scores, kLow), p, 0.0);

  const auto drop_group = [&](const Expr& x) { return grouped ? c.Sum(x, {r - 2}, false) : x; };
  if (c.Wants(2)) c.Give(2, drop_group(c.Matmul(p, g, true, false)));
  if (!c.Wants(0) && !c.Wants(1) && !c.Wants(3)) return;
  const Expr gp = c.Matmul(g, shared(c.WideIn(2)), false, true) * p;
  const Expr gs = gp - p * c.Sum(gp, {grouped ? r : r - 1}, true);
  if (c.Wants(0)) c.Give(0, c.Reshape(c.Matmul(gs, k, false, false) * scale, {tq.dims, tq.rank}));
  if (c.Wants(1)) c.Give(1, drop_group(c.Matmul(gs, q, true, false) * scale));
  if (c.Wants(3)) {
    Ints full(tq.dims, tq.dims + r);
    full[r - 1] = keys;
    c.Give(3, c.Reshape(gs, full));
  }
}

// Turning back by the same angle.
void Grad_rotary(GradCall& c) {
  const Expr back = -c.Index(1);
  c.Give(0, c.Emit(Op::k_rotary, {c.Grad(), back}, {c.number(0), c.flag(1)}));
}

}  // namespace tessera::ir
