// Gradient rules of reductions, norms, softmax and losses.
#include "ir/grad.h"

namespace tessera::ir {
namespace {

// A result or its gradient with the dims that the reduction dropped put back as 1, so that it broadcasts against x.
Expr Keep(GradCall& c, const Expr& y) { return c.flag(1) ? y : c.Unsqueeze(y, c.Axes(0)); }

Expr ReducedCount(GradCall& c) {
  const TensorType x = c.InType(0);
  Ints dims;
  for (int64_t axis : c.Axes(0)) dims.push_back(x.dims[axis]);
  return c.Count(dims);
}

// g of a reduction, repeated to the dims of x.
Expr Spread(GradCall& c, const Expr& g) {
  const TensorType x = c.InType(0);
  return c.BroadcastTo(Keep(c, g), {x.dims, x.rank});
}

// Those that equal the result share its gradient.
void GradOfChoice(GradCall& c) {
  const Expr chosen = Eq(c.In(0), Keep(c, c.Out()));
  const Expr count = c.Sum(c.Cast(chosen, c.TypeOf(c.WideGrad()).dtype), c.Axes(0), true);
  c.Give(0, Where(chosen, Keep(c, c.WideGrad()) / count, 0.0));
}

Ints LastAxes(const TensorType& x, int64_t n) {
  Ints axes;
  for (int64_t i = x.rank - n; i < x.rank; ++i) axes.push_back(i);
  return axes;
}

}  // namespace

void Grad_sum(GradCall& c) { c.Give(0, Spread(c, c.Grad())); }
void Grad_mean(GradCall& c) { c.Give(0, Spread(c, c.WideGrad() / ReducedCount(c))); }
void Grad_max(GradCall& c) { GradOfChoice(c); }
void Grad_min(GradCall& c) { GradOfChoice(c); }

void Grad_prod(GradCall& c) {
  // The product of the others. What is not 0 is divided out; the zeros stay factors, so that the gradient of the
  // gradient passes to them, too: with one, it alone has a gradient, with two, each is the other's.
  const Expr x = c.WideIn(0), zero = Eq(x, 0.0), safe = Where(zero, 1.0, x);
  const auto product_of = [&](Expr v) { return c.Axes(0).empty() ? v : c.Emit(Op::k_prod, {v}, {c.Axes(0), true}); };
  const Expr zeros = c.Sum(c.Cast(zero, c.TypeOf(x).dtype), c.Axes(0), true);
  const Expr product = product_of(safe);
  const Expr other_zero = c.Sum(Where(zero, x, 0.0), c.Axes(0), true) - x;
  const Expr of_zeros = Where(Eq(zeros, 1.0), product, Where(Eq(zeros, 2.0), product * other_zero, 0.0));
  c.Give(0, Keep(c, c.WideGrad()) * Where(zero, of_zeros, product / safe * product_of(Where(zero, x, 1.0))));
}

void Grad_var(GradCall& c) {
  const Expr x = c.WideIn(0), count = ReducedCount(c);
  const double correction = c.number(2);
  const Expr divisor = count.is_number() ? std::get<double>(count.arg.immediate) - correction : count - correction;
  c.Give(0, (x - c.Mean(x, c.Axes(0))) * (Keep(c, c.WideGrad()) * 2.0 / divisor));
}

void Grad_logsumexp(GradCall& c) { c.Give(0, Keep(c, c.WideGrad()) * Exp(c.WideIn(0) - Keep(c, c.WideOut()))); }

void Grad_cumsum(GradCall& c) { c.Give(0, c.Emit(Op::k_cumsum, {c.Grad()}, {c.integer(0), c.flag(1), !c.flag(2)})); }

void Grad_softmax(GradCall& c) {
  const Expr y = c.WideOut(), gy = c.WideGrad() * y;
  c.Give(0, gy - y * c.Sum(gy, {c.Axis(0)}, true));
}

void Grad_log_softmax(GradCall& c) {
  const Expr g = c.WideGrad();
  c.Give(0, g - Exp(c.WideOut()) * c.Sum(g, {c.Axis(0)}, true));
}

namespace {

// Narrow floats have a kernel that reads x and the gradient once. In wider ones the compiler's loops, which compute
// what else is at hand on the way, are as good.
bool GiveNormGrads(GradCall& c, Op op, size_t results) {
  if (!IsNarrowFloat(c.OutType().dtype) || !c.Wants(0)) return false;
  const Expr in[] = {c.In(0), c.Grad(), c.Given(1) ? c.In(1) : Expr()};
  const std::vector<Expr> grads = c.EmitMany(op, {in, c.Given(1) ? size_t{3} : size_t{2}}, {c.integer(0), c.number(1)});
  for (size_t i = 0; i < results; ++i)
    if (c.Wants(i)) c.Give(i, grads[i]);
  return true;
}

// dx = J (g weight) for each row, with the Jacobian J v = (v - mean(v) - n mean(v n)) / deviation of the normalised row
// n, which is symmetric; the gradients of weight and bias are sums of g n and g over rows. `centred`: with the mean.
void GradOfNormGrad(GradCall& c, bool centred) {
  const Ints axes = LastAxes(c.InType(0), c.integer(0));
  const auto less = [&](const Expr& v) { return centred ? v - c.Mean(v, axes) : v; };
  const Expr x = less(c.WideIn(0)), scale = Rsqrt(c.Mean(Square(x), axes) + c.number(1)), normed = x * scale;
  const auto jacobian = [&](const Expr& v) { return (less(v) - normed * c.Mean(v * normed, axes)) * scale; };
  const auto weighed = [&](const Expr& v) { return c.Given(2) ? v * c.WideIn(2) : v; };
  const bool of_x = c.HasGrad(0), of_weight = c.HasGrad(1), of_bias = centred && c.HasGrad(2);
  const auto add = [](Expr& sum, const Expr& v) { sum = sum.given() ? sum + v : v; };
  Expr back;  // J of the gradient of dx
  if (of_x && (c.Wants(1) || c.Wants(2))) back = jacobian(c.WideGrad(0));
  if (c.Wants(1)) {
    Expr sum;
    if (of_x) add(sum, weighed(back));
    if (of_weight) add(sum, c.WideGrad(1) * normed);
    if (of_bias) add(sum, c.WideGrad(2));
    const TensorType g = c.InType(1);
    c.Give(1, c.BroadcastTo(sum, {g.dims, g.rank}));
  }
  if (c.Wants(2) && of_x) c.Give(2, c.WideIn(1) * back);
  if (!c.Wants(0) || (!of_x && !of_weight)) return;
  Expr inner, sum;  // gradients of n, and of x through the deviation
  if (of_weight) add(inner, c.WideGrad(1) * c.WideIn(1));
  if (of_x) {
    const Expr a = c.WideGrad(0), h = weighed(c.WideIn(1));
    add(inner, -(a * c.Mean(h * normed, axes) + h * c.Mean(a * normed, axes)) * scale);
    sum = -(normed * c.Mean(a * jacobian(h), axes)) * scale;
  }
  add(sum, jacobian(inner));
  c.Give(0, sum);
}

}  // namespace

void Grad_layer_norm_grad(GradCall& c) { GradOfNormGrad(c, true); }
void Grad_rms_norm_grad(GradCall& c) { GradOfNormGrad(c, false); }

void Grad_layer_norm(GradCall& c) {
  if (GiveNormGrads(c, Op::k_layer_norm_grad, 3)) return;
  const TensorType type = c.InType(0);
  const Ints axes = LastAxes(type, c.integer(0));
  // A sum of narrow floats adds up wider ones itself, and needs no copy of them.
  if (c.Wants(2)) c.Give(2, c.Grad());
  if (!c.Wants(0) && !c.Wants(1)) return;
  const Expr g = c.WideGrad(), x = c.WideIn(0), centred = x - c.Mean(x, axes);
  const Expr scale = Rsqrt(c.Mean(Square(centred), axes) + c.number(1)), normed = centred * scale;
  if (c.Wants(1)) c.Give(1, g * normed);
  if (!c.Wants(0)) return;
  const Expr h = c.Given(1) ? g * c.WideIn(1) : g;
  c.Give(0, (h - c.Mean(h, axes) - normed * c.Mean(h * normed, axes)) * scale);
}

void Grad_rms_norm(GradCall& c) {
  if (GiveNormGrads(c, Op::k_rms_norm_grad, 2)) return;
  const Ints axes = LastAxes(c.InType(0), c.integer(0));
  const Expr g = c.WideGrad(), x = c.WideIn(0);
  const Expr scale = Rsqrt(c.Mean(Square(x), axes) + c.number(1)), normed = x * scale;
  if (c.Wants(1)) c.Give(1, g * normed);
  if (!c.Wants(0)) return;
  const Expr h = c.Given(1) ? g * c.WideIn(1) : g;
  c.Give(0, (h - normed * c.Mean(h * normed, axes)) * scale);
}

void Grad_batch_norm(GradCall& c) {
  const TensorType type = c.InType(0);
  const int axis = c.Axis(0);
  // A vector of channels, lined up with that axis of x.
  Ints after, others;
  for (int i = 1; i < type.rank - axis; ++i) after.push_back(i);
  for (int i = 0; i < type.rank; ++i)
    if (i != axis) others.push_back(i);
  const auto channels = [&](size_t i) { return c.Unsqueeze(c.WideIn(i), after); };
  const auto over_others = [&](const Expr& v) { return c.Sum(v, others, false); };
  const Expr g = c.WideGrad();
  if (c.Wants(4)) c.Give(4, over_others(g));
  if (!c.Wants(0) && !c.Wants(1) && !c.Wants(2) && !c.Wants(3)) return;
  const Expr scale = Rsqrt(channels(2) + c.number(1));
  if (c.Wants(3)) c.Give(3, over_others(g * (c.WideIn(0) - channels(1)) * scale));
  if (!c.Wants(0) && !c.Wants(1) && !c.Wants(2)) return;
  const Expr h = (c.Given(3) ? g * channels(3) : g) * scale;
  if (c.Wants(0)) c.Give(0, h);
  if (c.Wants(1)) c.Give(1, -over_others(h));
  if (c.Wants(2)) c.Give(2, over_others(h * (c.WideIn(0) - channels(1)) * Square(scale)) * -0.5);
}

void Grad_cross_entropy(GradCall& c) {
  c.Give(0, c.Emit(Op::k_cross_entropy_grad, {c.In(0), c.In(1), c.Grad()}, {c.integer(0)}));
}

namespace {

// What the gradients of the logits of cross entropy are made of, (p - hot) g, and how a gradient h of them goes on.
struct Entropy {
  Entropy(GradCall& call, const Expr& logits, size_t targets_at)
      : c(call), last(c.TypeOf(logits).rank - 1), classes(c.TypeOf(logits).dims[last]), targets(c.In(targets_at)) {
    ignored = Eq(targets, Expr(&c, Arg(c.integer(0))));
    p = c.Emit(Op::k_softmax, {logits}, {int64_t{-1}});
  }
  /// g, with 0 where the target is ignored, beside each class.
  Expr Kept(const Expr& g) { return c.Unsqueeze(Where(ignored, 0.0, g), {last}); }
  /// p - hot.
  Expr Less() {
    const Expr hot = Eq(c.Unsqueeze(targets, {last}), c.Iota({&classes, 1}, 0));
    return p - c.Cast(hot, c.TypeOf(p).dtype);
  }
  Expr OfLogits(const Expr& h, const Expr& g) {
    const Expr hp = h * p;
    return (hp - p * c.Sum(hp, {last}, true)) * Kept(g);
  }
  Expr OfG(const Expr& h) { return Where(ignored, 0.0, c.Sum(h * Less(), {last}, false)); }

  GradCall& c;
  const int last;
  const int64_t classes;
  Expr targets, ignored, p;
};

}  // namespace

void Grad_cross_entropy_grad(GradCall& c) {
  Entropy e(c, c.WideIn(0), 1);
  if (c.Wants(0)) c.Give(0, e.OfLogits(c.WideGrad(), c.WideIn(2)));
  if (c.Wants(2)) c.Give(2, e.OfG(c.WideGrad()));
}

void Grad_linear_cross_entropy(GradCall& c) {
  const Expr in[] = {c.In(0), c.In(1), c.In(2), c.Grad()};
  const std::vector<Expr> grads = c.EmitMany(Op::k_linear_cross_entropy_grad, in, {c.integer(0)});
  for (size_t i = 0; i < 2; ++i)
    if (c.Wants(i)) c.Give(i, grads[i]);
}

// dx = d w and dw = d^T x, where d = (p - hot) g are the gradients of the logits x w^T: all of those at once.
void Grad_linear_cross_entropy_grad(GradCall& c) {
  const Expr x = c.WideIn(0), w = c.WideIn(1), g = c.WideIn(3);
  Entropy e(c, c.Matmul(x, w, false, true), 2);
  Ints rows;
  for (int i = 0; i < e.last; ++i) rows.push_back(i);
  const auto over_rows = [&](const Expr& a, const Expr& b) {
    return c.Emit(Op::k_dot_general, {a, b}, {rows, rows, Ints(), Ints()});
  };
  const auto add = [](Expr& sum, const Expr& v) { sum = sum.given() ? sum + v : v; };
  Expr h;  // the gradient of d
  if (c.HasGrad(0)) add(h, c.Matmul(c.WideGrad(0), w, false, true));
  if (c.HasGrad(1)) add(h, c.Matmul(x, c.WideGrad(1), false, true));
  if (c.Wants(3)) c.Give(3, e.OfG(h));
  if (!c.Wants(0) && !c.Wants(1)) return;
  const Expr back = e.OfLogits(h, g), d = e.Less() * e.Kept(g);
  if (c.Wants(0)) {
    Expr sum = c.Matmul(back, w, false, false);
    if (c.HasGrad(1)) add(sum, c.Matmul(d, c.WideGrad(1), false, false));
    c.Give(0, sum);
  }
  if (c.Wants(1)) {
    Expr sum = over_rows(back, x);
    if (c.HasGrad(0)) add(sum, over_rows(d, c.WideGrad(0)));
    c.Give(1, sum);
  }
}

}  // namespace tessera::ir
