// Gradient rules of element-wise ops. y is the result and g its gradient; d/dx of one operand at a time. Where an op
// has a corner, the gradient is one of those beside it: ties of maximum and minimum are halved.
#include <cmath>
#include <numbers>

#include "ir/grad.h"

namespace tessera::ir {
namespace {

constexpr double kLn2 = std::numbers::ln2, kLn10 = std::numbers::ln10, kPi = std::numbers::pi;
const double kInvSqrtPi = 1 / std::sqrt(kPi);

}  // namespace

// ---- one operand. Rules of several steps use the wide forms: a narrow type is rounded once, at the end.
#define TSR_RULE(op, formula)    \
  void Grad_##op(GradCall& c) {  \
    const Expr g = c.WideGrad(); \
    c.Give(0, formula);          \
  }
#define TSR_RULE_X(op, formula)  \
  void Grad_##op(GradCall& c) {  \
    const Expr g = c.WideGrad(); \
    const Expr x = c.WideIn(0);  \
    c.Give(0, formula);          \
  }
#define TSR_RULE_Y(op, formula)  \
  void Grad_##op(GradCall& c) {  \
    const Expr g = c.WideGrad(); \
    const Expr y = c.WideOut();  \
    c.Give(0, formula);          \
  }

// clang-format off: it takes a product in an argument for a pointer
TSR_RULE(neg, -g)
TSR_RULE_X(abs, g * Sign(x))
TSR_RULE_X(square, g * (x * 2.0))
TSR_RULE_Y(reciprocal, -(g * Square(y)))
TSR_RULE_Y(sqrt, g * 0.5 / y)
TSR_RULE_Y(rsqrt, g * (y * Square(y) * -0.5))
TSR_RULE_Y(cbrt, g / (Square(y) * 3.0))
TSR_RULE_Y(exp, g * y)
TSR_RULE_Y(exp2, g * (y * kLn2))
TSR_RULE_Y(expm1, g * (y + 1.0))
TSR_RULE_X(log, g / x)
TSR_RULE_X(log2, g / (x * kLn2))
TSR_RULE_X(log10, g / (x * kLn10))
TSR_RULE_X(log1p, g / (x + 1.0))
TSR_RULE_X(sin, g * Cos(x))
TSR_RULE_X(cos, -(g * Sin(x)))
TSR_RULE_Y(tan, g * (Square(y) + 1.0))
TSR_RULE_X(asin, g * Rsqrt(1.0 - Square(x)))
TSR_RULE_X(acos, -(g * Rsqrt(1.0 - Square(x))))
TSR_RULE_X(atan, g / (Square(x) + 1.0))
TSR_RULE_X(sinh, g * Cosh(x))
TSR_RULE_X(cosh, g * Sinh(x))
TSR_RULE_Y(tanh, g * (1.0 - Square(y)))
TSR_RULE_X(asinh, g * Rsqrt(Square(x) + 1.0))
TSR_RULE_X(acosh, g * Rsqrt((x - 1.0) * (x + 1.0)))
TSR_RULE_X(atanh, g / ((1.0 - x) * (x + 1.0)))
TSR_RULE(degrees, g * (180 / kPi))
TSR_RULE(radians, g * (kPi / 180))
TSR_RULE_X(erf, g * (Exp(-Square(x)) * (2 * kInvSqrtPi)))
TSR_RULE_X(erfc, g * (Exp(-Square(x)) * (-2 * kInvSqrtPi)))
TSR_RULE_Y(sigmoid, g * (y * (1.0 - y)))
TSR_RULE_X(softplus, g * Sigmoid(x))
TSR_RULE_Y(relu, Where(Gt(y, 0.0), g, 0.0))
TSR_RULE_Y(relu6, Where(And(Gt(y, 0.0), Lt(y, 6.0)), g, 0.0))
// Phi(x) + x * phi(x)
TSR_RULE_X(gelu, g * (Erfc(x * -std::sqrt(0.5)) * 0.5 + x * Exp(Square(x) * -0.5) * (kInvSqrtPi * std::sqrt(0.5))))
TSR_RULE_X(hardswish, Where(Le(x, -3.0), 0.0, Where(Ge(x, 3.0), g, g * (x / 3.0 + 0.5))))
// y = scale * alpha * (exp(x) - 1) for x <= 0
TSR_RULE_Y(selu, g * Where(Gt(y, 0.0), 1.0507009873554805, y + 1.7580993408473766))
TSR_RULE(copy, g)
// clang-format on

namespace {

// tanh(u) with u = k x (1 + c x^2), and u's first two derivatives.
struct GeluTanhParts {
  explicit GeluTanhParts(const Expr& wide) : x(wide) {
    const double k = std::sqrt(2 / kPi), cubic = 0.044715;
    const Expr x2 = Square(x);
    t = Tanh(x * (x2 * (k * cubic) + k));
    slope = x2 * (3 * k * cubic) + k;
    bend = x * (6 * k * cubic);
    rest = 1.0 - Square(t);
  }
  Expr x, t, slope, bend, rest;
};

}  // namespace

void Grad_gelu_tanh(GradCall& c) { c.Give(0, c.Emit(Op::k_gelu_tanh_grad, {c.In(0), c.Grad()})); }

// The slope of gelu is (1 + t + x (1 - t^2) u') / 2, its own (1 - t^2) (u' + x u'' / 2 - x t u'^2).
void Grad_gelu_tanh_grad(GradCall& c) {
  if (c.Wants(1)) c.Give(1, c.Emit(Op::k_gelu_tanh_grad, {c.In(0), c.Grad()}));
  if (!c.Wants(0)) return;
  const GeluTanhParts p(c.WideIn(0));
  const Expr bent = p.rest * (p.slope + p.x * (p.bend * 0.5 - p.t * Square(p.slope)));
  c.Give(0, c.WideGrad() * c.WideIn(1) * bent);
}

void Grad_silu(GradCall& c) {
  const Expr x = c.WideIn(0), s = Sigmoid(x);
  c.Give(0, c.WideGrad() * (s * (x * (1.0 - s) + 1.0)));
}

void Grad_mish(GradCall& c) {
  const Expr x = c.WideIn(0), t = Tanh(Softplus(x));
  c.Give(0, c.WideGrad() * (t + x * (1.0 - Square(t)) * Sigmoid(x)));
}

void Grad_cast(GradCall& c) { c.Give(0, c.Cast(c.Grad(), c.InType(0).dtype)); }

void Grad_full(GradCall& c) {
  Ints all;
  for (int i = 0; i < c.OutType().rank; ++i) all.push_back(i);
  c.Give(0, c.Sum(c.WideGrad(), all, false));
}

// ---- two operands
void Grad_add(GradCall& c) {
  for (size_t i = 0; i < 2; ++i)
    if (c.Wants(i)) c.Give(i, c.Grad());
}

void Grad_sub(GradCall& c) {
  if (c.Wants(0)) c.Give(0, c.Grad());
  if (c.Wants(1)) c.Give(1, -c.Grad());
}

void Grad_mul(GradCall& c) {
  if (c.Wants(0)) c.Give(0, c.Grad() * c.In(1));
  if (c.Wants(1)) c.Give(1, c.Grad() * c.In(0));
}

void Grad_div(GradCall& c) {
  if (c.Wants(0)) c.Give(0, c.Grad() / c.In(1));
  if (c.Wants(1)) c.Give(1, -(c.WideGrad() * c.WideOut() / c.WideIn(1)));
}

void Grad_mod(GradCall& c) {
  if (c.Wants(0)) c.Give(0, c.Grad());
  if (c.Wants(1)) c.Give(1, -(c.WideGrad() * FloorDiv(c.WideIn(0), c.WideIn(1))));
}

void Grad_fmod(GradCall& c) {
  if (c.Wants(0)) c.Give(0, c.Grad());
  if (c.Wants(1)) c.Give(1, -(c.WideGrad() * Trunc(c.WideIn(0) / c.WideIn(1))));
}

void Grad_pow(GradCall& c) {
  const Expr g = c.WideGrad(), a = c.WideIn(0);
  if (c.Wants(0)) {
    const Expr b = c.WideIn(1);
    if (b.is_number()) {
      const Immediate& i = b.arg.immediate;
      const double power = std::holds_alternative<double>(i)    ? std::get<double>(i)
                           : std::holds_alternative<int64_t>(i) ? static_cast<double>(std::get<int64_t>(i))
                                                                : static_cast<double>(std::get<bool>(i));
      // a^0 is 1 everywhere, also where a^-1 is infinite.
      c.Give(0, power == 0 ? g * 0.0 : g * (Pow(a, power - 1) * power));
    } else {
      const Expr none = Eq(b, 0.0);
      c.Give(0, g * Where(none, 0.0, b * Pow(a, Where(none, 1.0, b - 1.0))));
    }
  }
  if (c.Wants(1)) {
    // 0^b has slope 0; NaN below 0, where it is no real number.
    const Expr base = c.Value(a);
    c.Give(1, g * c.WideOut() * Log(Where(Eq(base, 0.0), 1.0, base)));
  }
}

namespace {

// `first` says where the result is operand 0; ties are halved.
void Choose(GradCall& c, const Expr& first) {
  const Expr g = c.Grad(), tie = Eq(c.In(0), c.In(1)), half = g * 0.5;
  if (c.Wants(0)) c.Give(0, Where(tie, half, Where(first, g, 0.0)));
  if (c.Wants(1)) c.Give(1, Where(tie, half, Where(first, 0.0, g)));
}

}  // namespace

void Grad_maximum(GradCall& c) { Choose(c, Gt(c.In(0), c.In(1))); }
void Grad_minimum(GradCall& c) { Choose(c, Lt(c.In(0), c.In(1))); }
// The result may be operand 0 because the other one is NaN.
void Grad_fmax(GradCall& c) { Choose(c, Eq(c.In(0), c.Out())); }
void Grad_fmin(GradCall& c) { Choose(c, Eq(c.In(0), c.Out())); }

void Grad_atan2(GradCall& c) {
  const Expr g = c.WideGrad(), a = c.WideIn(0), b = c.WideIn(1);
  const Expr sum = Square(c.Value(a)) + Square(c.Value(b));
  if (c.Wants(0)) c.Give(0, g * b / sum);
  if (c.Wants(1)) c.Give(1, -(g * a / sum));
}

void Grad_hypot(GradCall& c) {
  const Expr g = c.WideGrad(), y = c.WideOut();
  const Expr safe = Where(Eq(y, 0.0), 1.0, y);  // at the origin the gradient is taken to be 0
  for (size_t i = 0; i < 2; ++i)
    if (c.Wants(i)) c.Give(i, g * c.WideIn(i) / safe);
}

void Grad_logaddexp(GradCall& c) {
  for (size_t i = 0; i < 2; ++i)
    if (c.Wants(i)) c.Give(i, c.WideGrad() * Exp(c.WideIn(i) - c.WideOut()));
}

void Grad_logaddexp2(GradCall& c) {
  for (size_t i = 0; i < 2; ++i)
    if (c.Wants(i)) c.Give(i, c.WideGrad() * Exp2(c.WideIn(i) - c.WideOut()));
}

void Grad_copysign(GradCall& c) {
  const Expr g = c.Grad();
  if (c.Wants(0)) c.Give(0, Where(Eq(Signbit(c.In(0)), Signbit(c.Value(c.In(1)))), g, -g));
  if (c.Wants(1)) c.Give(1, g * 0.0);
}

void Grad_leaky_relu(GradCall& c) {
  const Expr g = c.WideGrad(), x = c.WideIn(0);
  const Expr above = Gt(c.Value(x), 0.0);
  if (c.Wants(0)) c.Give(0, Where(above, g, g * c.WideIn(1)));
  if (c.Wants(1)) c.Give(1, Where(above, 0.0, g * x));
}

void Grad_elu(GradCall& c) {
  const Expr g = c.WideGrad(), x = c.Value(c.WideIn(0));
  const Expr above = Gt(x, 0.0);
  // exp(x) is infinite for large x, where it is not used; 0 times it would be NaN in a second derivative.
  const Expr low = Where(above, 0.0, x);
  if (c.Wants(0)) c.Give(0, Where(above, g, g * (Exp(low) * c.WideIn(1))));
  if (c.Wants(1)) c.Give(1, Where(above, 0.0, g * Expm1(low)));
}

// ---- three operands
void Grad_where(GradCall& c) {
  if (c.Wants(1)) c.Give(1, Where(c.In(0), c.Grad(), 0.0));
  if (c.Wants(2)) c.Give(2, Where(c.In(0), 0.0, c.Grad()));
}

void Grad_clamp(GradCall& c) {
  const Expr g = c.Grad(), x = c.Value(c.In(0)), lo = c.In(1), hi = c.In(2);
  if (c.Wants(0)) c.Give(0, Where(And(Ge(x, lo), Le(x, hi)), g, 0.0));
  if (c.Wants(1)) c.Give(1, Where(And(Lt(x, lo), Le(lo, hi)), g, 0.0));
  if (c.Wants(2)) c.Give(2, Where(Gt(Maximum(x, lo), hi), g, 0.0));
}

}  // namespace tessera::ir
