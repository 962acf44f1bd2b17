// Every gradient rule against finite differences in f64, at odd shapes, with broadcasting, views and empty tensors; the
// gradients of gradients too.
#include <map>
#include <set>

#include "autodiff_testing.h"
#include "ir/grad.h"

namespace tessera {
namespace {

struct Case {
  std::string op;
  std::string what;
  Tensors inputs;
  std::function<Tensor(const Tensors&)> f;
  bool second = true;
};

Tensor Ids(std::initializer_list<int64_t> values, const Dims& dims) { return Tensor::from(values, dims); }

// Not near the corners of any function below.
Tensor U(const Dims& dims, uint64_t seed = 1, double low = 0.2, double high = 0.9) {
  return Uniform(dims, low, high, seed);
}
// Between -2 and 2, not within 0.1 of -1, 0 or 1 and so on.
Tensor S(const Dims& dims, uint64_t seed = 1) {
  const Tensor whole = cast(random_int(static_cast<int64_t>(seed), 0, dims, -2, 2), f64);
  return whole + Uniform(dims, 0.15, 0.85, seed + 100);
}

#define UNARY(name, input) {#name, "", {input}, [](const Tensors& v) { return name(v[0]); }}
#define BINARY(name, a, b)                                                                                      \
  {#name, "", {a, b}, [](const Tensors& v) { return name(v[0], v[1]); }},                                       \
      {#name, "broadcast", {U({3, 1}, 5), U({2, 1, 4}, 6)}, [](const Tensors& v) { return name(v[0], v[1]); }}, \
      {#name, "number on the right", {a}, [](const Tensors& v) { return name(v[0], 0.55); }},                   \
      {#name, "number on the left", {b}, [](const Tensors& v) { return name(0.55, v[0]); }},                    \
      {#name, "a view with itself", {a}, [](const Tensors& v) { return name(v[0].flip(), v[0] * 1.5); }}, {     \
    #name, "nothing", {U({0, 3})}, [](const Tensors& v) { return name(v[0], v[0] * 2.0); }                      \
  }

std::vector<Case> Elementwise() {
  const Tensor x = U({3, 5}), s = S({3, 5}), a = U({2, 3}, 2), b = U({2, 3}, 3);
  return {
      UNARY(neg, s),
      UNARY(abs, s),
      UNARY(square, s),
      UNARY(reciprocal, s),
      UNARY(sqrt, x),
      UNARY(rsqrt, x),
      UNARY(cbrt, x),
      UNARY(exp, s),
      UNARY(exp2, s),
      UNARY(expm1, s),
      UNARY(log, x),
      UNARY(log2, x),
      UNARY(log10, x),
      UNARY(log1p, x),
      UNARY(sin, s),
      UNARY(cos, s),
      UNARY(tan, x),
      UNARY(asin, x),
      UNARY(acos, x),
      UNARY(atan, s),
      UNARY(sinh, s),
      UNARY(cosh, s),
      UNARY(tanh, s),
      UNARY(asinh, s),
      UNARY(acosh, U({3, 5}, 1, 1.2, 3)),
      UNARY(atanh, x),
      UNARY(degrees, s),
      UNARY(radians, s),
      UNARY(erf, s),
      UNARY(erfc, s),
      UNARY(sigmoid, s),
      UNARY(softplus, s),
      UNARY(relu, s),
      UNARY(relu6, U({3, 5}, 4, -3.5, 12.3)),
      UNARY(gelu, s),
      UNARY(gelu_tanh, s),
      UNARY(silu, s),
      UNARY(mish, s),
      UNARY(selu, s),
      UNARY(hardswish, U({3, 7}, 4, -4.7, 4.6)),
      UNARY(copy, s),
      {"cast", "to f64", {x}, [](const Tensors& v) { return cast(v[0], f64); }},
      {"cast", "empty", {U({0})}, [](const Tensors& v) { return cast(v[0], f64) * 2.0; }},
      {"full", "", {U({})}, [](const Tensors& v) { return full({2, 3}, v[0], f64); }},
      {"exp", "a view", {s}, [](const Tensors& v) { return exp(v[0].transpose()[{{none, none, 2}}]); }},
      {"exp", "empty", {U({2, 0})}, [](const Tensors& v) { return exp(v[0]); }},
      BINARY(add, a, b),
      BINARY(sub, a, b),
      BINARY(mul, a, b),
      BINARY(div, a, b),
      BINARY(mod, a * 7.3, b),
      BINARY(fmod, a * -7.3, b),
      BINARY(pow, a, b * 3.0),
      BINARY(maximum, a, b),
      BINARY(minimum, a, b),
      BINARY(fmax, a, b),
      BINARY(fmin, a, b),
      BINARY(atan2, a, b),
      BINARY(hypot, a, b),
      BINARY(logaddexp, a, b),
      BINARY(logaddexp2, a, b),
      BINARY(copysign, a, S({2, 3}, 8)),
      BINARY(leaky_relu, S({2, 3}, 4), b),
      BINARY(elu, S({2, 3}, 4), b),
      {"pow", "whole powers of what may be negative", {S({2, 3})}, [](const Tensors& v) { return pow(v[0], 3); }},
      {"pow", "to the 0", {S({2, 3})}, [](const Tensors& v) { return pow(v[0], 0) * v[0]; }},
      {"where", "", {a, b}, [=](const Tensors& v) { return where(a > b, v[0], v[1]); }},
      {"where", "broadcast", {U({3, 1}), U({2, 1, 4})}, [](const Tensors& v) { return where(true, v[0], v[1]); }},
      {"where", "a number", {a}, [=](const Tensors& v) { return where(a > b, v[0], 0.0); }},
      {"clamp",
       "",
       {S({3, 4}), U({4}, 3, -0.6, -0.4), U({3, 1}, 5, 0.4, 0.6)},
       [](const Tensors& v) { return clamp(v[0], v[1], v[2]); }},
      {"clamp", "between numbers", {S({3, 4})}, [](const Tensors& v) { return clamp(v[0], -0.55, 0.55); }},
  };
}

#define REDUCTION(name, second)                                                                            \
  {#name, "all", {U({2, 3})}, [](const Tensors& v) { return name(v[0]); }, second},                        \
      {#name, "one axis", {U({2, 3, 2})}, [](const Tensors& v) { return name(v[0], 1); }, second},         \
      {#name, "kept", {U({2, 3, 2})}, [](const Tensors& v) { return name(v[0], {0, -1}, true); }, second}, \
      {#name,                                                                                              \
       "a view",                                                                                           \
       {U({4, 3})},                                                                                        \
       [](const Tensors& v) { return name(v[0].transpose()[{{}, {0, none, 2}}], 0); },                     \
       second},                                                                                            \
      {#name, "a scalar", {U({})}, [](const Tensors& v) { return name(v[0] * 1.0); }, second}, {           \
    #name, "no rows", {U({0, 3})}, [](const Tensors& v) { return name(v[0], 1); }, second                  \
  }

std::vector<Case> Reductions() {
  const Tensor rows = U({3, 4}), image = U({2, 3, 4});
  const Tensor targets = Ids({1, 3, -7, 0, 2, 1}, {2, 3});
  return {
      REDUCTION(sum, true),
      REDUCTION(prod, true),
      {"prod",
       "a zero",
       {Tensor::from<double>({0.5, 0, 0.7, 0.3, 0.4, 0.6}, {2, 3})},
       [](const Tensors& v) { return prod(v[0], 1); }},
      {"prod", "two zeros", {Tensor::from<double>({0, 0.8, 0, 0.3}, {4})}, [](const Tensors& v) { return prod(v[0]); }},
      REDUCTION(mean, true),
      REDUCTION(max, true),
      REDUCTION(min, true),
      REDUCTION(logsumexp, true),
      {"sum", "of nothing", {U({3, 0})}, [](const Tensors& v) { return sum(v[0], 1); }},
      {"var", "", {U({3, 4})}, [](const Tensors& v) { return var(v[0], 1, false, 1); }},
      {"var", "kept", {U({3, 2, 2})}, [](const Tensors& v) { return var(v[0], {0, 2}, true); }},
      {"cumsum", "", {rows}, [](const Tensors& v) { return cumsum(v[0], 1); }},
      {"cumsum", "exclusive, reversed", {rows}, [](const Tensors& v) { return cumsum(v[0], -2, true, true); }},
      {"softmax", "", {rows}, [](const Tensors& v) { return softmax(v[0] * 3.0); }},
      {"softmax", "axis", {image}, [](const Tensors& v) { return softmax(v[0], 1); }},
      {"log_softmax", "", {rows}, [](const Tensors& v) { return log_softmax(v[0] * 3.0); }},
      {"log_softmax", "axis", {image}, [](const Tensors& v) { return log_softmax(v[0], 0); }},
      {"layer_norm", "", {rows}, [](const Tensors& v) { return layer_norm(v[0]); }},
      {"layer_norm",
       "scaled",
       {image, U({3, 4}, 2), U({3, 4}, 3)},
       [](const Tensors& v) { return layer_norm(v[0], v[1], v[2], 2); }},
      {"layer_norm", "shifted", {image, U({4}, 3)}, [](const Tensors& v) { return layer_norm(v[0], {}, v[1]); }},
      {"layer_norm",
       "weights alone",
       {U({4}, 3)},
       [=](const Tensors& v) { return layer_norm(image, v[0], v[0] * 2.0); }},
      {"rms_norm", "", {rows}, [](const Tensors& v) { return rms_norm(v[0]); }},
      {"rms_norm", "scaled", {image, U({3, 4}, 2)}, [](const Tensors& v) { return rms_norm(v[0], v[1], 2); }},
      {"gelu_tanh_grad",
       "one row of gradients",
       {rows * 3.0, U({rows.dim(-1)}, 2)},
       [](const Tensors& v) { return gelu_tanh_grad(v[0], v[1]); }},
      {"gelu_tanh_grad",
       "",
       {rows * 3.0, U(rows.dims(), 2)},
       [](const Tensors& v) { return gelu_tanh_grad(v[0], v[1]); }},
      {"layer_norm_grad",
       "",
       {rows, U(rows.dims(), 2)},
       [](const Tensors& v) { return layer_norm_grad(v[0], v[1]).x; }},
      {"layer_norm_grad",
       "scaled, all results",
       {image, U(image.dims(), 2), U({3, 4}, 3)},
       [](const Tensors& v) {
         const LayerNormGrads d = layer_norm_grad(v[0], v[1], v[2], 2, 0.1);
         return concat({d.x.reshape({-1}), d.weight.reshape({-1}), d.bias.reshape({-1})});
       }},
      {"layer_norm_grad",
       "weights alone",
       {image, U(image.dims(), 2), U({4}, 3)},
       [](const Tensors& v) {
         const LayerNormGrads d = layer_norm_grad(v[0], v[1], v[2]);
         return concat({d.weight, d.bias});
       }},
      {"rms_norm_grad",
       "scaled, all results",
       {image, U(image.dims(), 2), U({4}, 3)},
       [](const Tensors& v) {
         const RmsNormGrads d = rms_norm_grad(v[0], v[1], v[2]);
         return concat({d.x.reshape({-1}), d.weight});
       }},
      {"rms_norm_grad",
       "two dims",
       {image, U(image.dims(), 2)},
       [](const Tensors& v) { return rms_norm_grad(v[0], v[1], {}, 2).x; }},
      {"batch_norm",
       "",
       {image, U({3}, 2), U({3}, 3), U({3}, 4), U({3}, 5)},
       [](const Tensors& v) { return batch_norm(v[0], v[1], v[2], v[3], v[4]); }},
      {"batch_norm",
       "last axis, no weights",
       {image, U({4}, 2), U({4}, 3)},
       [](const Tensors& v) { return batch_norm(v[0], v[1], v[2], {}, {}, -1); }},
      {"cross_entropy", "", {U({2, 3, 4})}, [=](const Tensors& v) { return cross_entropy(v[0] * 3.0, targets, -7); }},
      {"cross_entropy_grad",
       "",
       {U({2, 3, 4}), U({2, 3}, 2)},
       [=](const Tensors& v) { return cross_entropy_grad(v[0] * 3.0, targets, v[1], -7); }},
      {"cross_entropy", "no rows", {U({0, 4})}, [](const Tensors& v) { return cross_entropy(v[0], Ids({}, {0})); }},
      {"linear_cross_entropy",
       "",
       {U({2, 3, 5}), U({4, 5}, 2)},
       [=](const Tensors& v) { return linear_cross_entropy(v[0] * 3.0, v[1], targets, -7); }},
      {"linear_cross_entropy",
       "one row, w transposed",
       {U({5}), U({5, 4}, 2)},
       [](const Tensors& v) { return linear_cross_entropy(v[0], v[1].transpose(), Ids({2}, {})); }},
      {"linear_cross_entropy",
       "no rows",
       {U({0, 5}), U({4, 5}, 2)},
       [](const Tensors& v) { return linear_cross_entropy(v[0], v[1], Ids({}, {0})); }},
      {"linear_cross_entropy_grad",
       "",
       {U({2, 3, 5}), U({4, 5}, 2), U({2, 3}, 3)},
       [=](const Tensors& v) {
         const LinearCrossEntropyGrads d = linear_cross_entropy_grad(v[0] * 3.0, v[1], targets, v[2], -7);
         return concat({d.x.reshape({-1}), d.w.reshape({-1})});
       }},
      {"linear_cross_entropy_grad",
       "dx alone, one row",
       {U({5}), U({4, 5}, 2), U({}, 3)},
       [](const Tensors& v) { return linear_cross_entropy_grad(v[0], v[1], Ids({2}, {}), v[2]).x; }},
      {"linear_cross_entropy_grad",
       "dw alone",
       {U({3, 5}), U({4, 5}, 2), U({3}, 3)},
       [](const Tensors& v) { return linear_cross_entropy_grad(v[0], v[1], Ids({2, 0, 3}, {3}), v[2]).w; }},
  };
}

std::vector<Case> Products() {
  const Tensor mask = U({4, 5}, 9), keep = U({2, 1, 4, 5}, 9) > 0.4;
  const auto mm = [](bool ta, bool tb) { return [=](const Tensors& v) { return matmul(v[0], v[1], ta, tb); }; };
  return {
      {"matmul", "", {U({2, 3}), U({3, 4}, 2)}, mm(false, false)},
      {"matmul", "a transposed", {U({3, 2}), U({3, 4}, 2)}, mm(true, false)},
      {"matmul", "b transposed", {U({2, 3}), U({4, 3}, 2)}, mm(false, true)},
      {"matmul", "both transposed", {U({3, 2}), U({4, 3}, 2)}, mm(true, true)},
      {"matmul", "vectors", {U({3}), U({3}, 2)}, mm(false, false)},
      {"matmul", "matrix and vector", {U({2, 3}), U({3}, 2)}, mm(false, false)},
      {"matmul", "batch and vector", {U({2, 2, 3}), U({3}, 2)}, mm(false, false)},
      {"matmul", "transposed batch and vector", {U({2, 3, 2}), U({3}, 2)}, mm(true, false)},
      {"matmul", "vector and matrix", {U({3}), U({3, 2}, 2)}, mm(false, false)},
      {"matmul", "vector and transposed batch", {U({3}), U({2, 2, 3}, 2)}, mm(false, true)},
      {"matmul", "batch and matrix", {U({2, 2, 3}), U({3, 2}, 2)}, mm(false, false)},
      {"matmul", "batch and transposed matrix", {U({2, 2, 3}), U({2, 3}, 2)}, mm(false, true)},
      {"matmul", "transposed batch and matrix", {U({2, 3, 2}), U({3, 2}, 2)}, mm(true, false)},
      {"matmul", "batches that broadcast", {U({2, 1, 2, 3}), U({3, 3, 2}, 2)}, mm(false, false)},
      {"matmul", "nothing inside", {U({2, 0}), U({0, 3})}, mm(false, false)},
      {"dot_general",
       "",
       {U({2, 3, 4}), U({4, 2, 3}, 2)},
       [](const Tensors& v) { return dot_general(v[0], v[1], {2, 1}, {0, 2}, {0}, {1}); }},
      {"dot_general",
       "one dim",
       {U({2, 3, 2}), U({3, 2}, 2)},
       [](const Tensors& v) { return dot_general(v[0], v[1], {-2}, {0}); }},
      {"dot_general",
       "no contraction",
       {U({2}), U({3}, 2)},
       [](const Tensors& v) { return dot_general(v[0], v[1], {}, {}); }},
      {"attention",
       "",
       {U({2, 4, 3}), U({2, 5, 3}, 2), U({2, 5, 2}, 3)},
       [](const Tensors& v) { return attention(v[0], v[1], v[2]); }},
      {"attention",
       "causal, shared keys",
       {U({1, 4, 3, 2}), U({1, 2, 5, 2}, 2), U({1, 2, 5, 3}, 3)},
       [](const Tensors& v) { return attention(v[0], v[1], v[2], {}, true, 0.7); }},
      {"attention",
       "added mask",
       {U({2, 4, 3}), U({2, 5, 3}, 2), U({2, 5, 3}, 3), mask},
       [](const Tensors& v) { return attention(v[0], v[1], v[2], v[3]); }},
      {"attention",
       "mask that keeps",
       {U({2, 2, 4, 3}), U({2, 1, 5, 3}, 2), U({2, 1, 5, 3}, 3)},
       [=](const Tensors& v) { return attention(v[0], v[1], v[2], keep, true); }},
      {"attention",
       "window, shared keys",
       {U({1, 4, 4, 2}), U({1, 2, 6, 2}, 2), U({1, 2, 6, 3}, 3)},
       [](const Tensors& v) { return attention(v[0], v[1], v[2], {}, true, 0, 2); }},
      {"attention",
       "queries that see nothing",
       {U({1, 4, 2}), U({1, 2, 2}, 2), U({1, 2, 2}, 3)},
       [](const Tensors& v) { return attention(v[0], v[1], v[2], {}, true); }},
      {"attention_grad",
       "",
       {U({2, 4, 3}), U({2, 5, 3}, 2), U({2, 5, 2}, 3), U({2, 4, 2}, 4), U({2, 4, 2}, 5)},
       [](const Tensors& v) {
         const AttentionGrads d = attention_grad(v[0], v[1], v[2], v[3], v[4]);
         return concat({d.q.reshape({-1}), d.k.reshape({-1}), d.v.reshape({-1})});
       }},
      {"attention_grad",
       "causal, shared keys, added mask",
       {U({1, 4, 3, 2}), U({1, 2, 5, 2}, 2), U({1, 2, 5, 3}, 3), U({1, 4, 3, 3}, 4), U({1, 4, 3, 3}, 5), U({3, 5}, 6)},
       [](const Tensors& v) {
         const AttentionGrads d = attention_grad(v[0], v[1], v[2], v[3], v[4], v[5], true, 0.7);
         return concat({d.q.reshape({-1}), d.k.reshape({-1}), d.v.reshape({-1})});
       }},
      {"attention_grad",
       "window",
       {U({2, 4, 3}), U({2, 6, 3}, 2), U({2, 6, 2}, 3), U({2, 4, 2}, 4), U({2, 4, 2}, 5)},
       [](const Tensors& v) {
         const AttentionGrads d = attention_grad(v[0], v[1], v[2], v[3], v[4], {}, true, 0, 3);
         return concat({d.q.reshape({-1}), d.k.reshape({-1}), d.v.reshape({-1})});
       }},
      {"attention_grad",
       "dv alone, mask that keeps",
       {U({2, 2, 4, 3}), U({2, 1, 5, 3}, 2), U({2, 1, 5, 3}, 3), U({2, 2, 4, 3}, 4), U({2, 2, 4, 3}, 5)},
       [=](const Tensors& v) { return attention_grad(v[0], v[1], v[2], v[3], v[4], keep).v; }},
      {"rotary", "", {U({2, 3, 4})}, [](const Tensors& v) { return rotary(v[0], arange(3)); }},
      {"rotary",
       "interleaved",
       {U({2, 3, 4})},
       [](const Tensors& v) { return rotary(v[0], Ids({7}, {1}), 100, true); }},
  };
}

std::vector<Case> Windows() {
  return {
      {"conv",
       "1-d",
       {U({2, 3, 7}), U({4, 3, 3}, 2), U({4}, 3)},
       [](const Tensors& v) { return conv(v[0], v[1], v[2]); }},
      {"conv",
       "strides, padding, dilation",
       {U({2, 2, 8, 7}), U({3, 2, 3, 2}, 2)},
       [](const Tensors& v) { return conv(v[0], v[1], {}, {2, 3}, {1, 0, 2, 1}, {2, 1}); }},
      {"conv",
       "groups",
       {U({2, 4, 6}), U({6, 2, 3}, 2), U({6}, 3)},
       [](const Tensors& v) { return conv(v[0], v[1], v[2], {2}, {1}, {}, 2); }},
      {"conv",
       "more padding than window",
       {U({1, 1, 3}), U({1, 1, 2}, 2)},
       [](const Tensors& v) { return conv(v[0], v[1], {}, {}, {3}); }},
      {"conv",
       "3-d",
       {U({1, 2, 3, 2, 4}), U({2, 2, 2, 1, 2}, 2)},
       [](const Tensors& v) { return conv(v[0], v[1], {}, {1, 1, 2}); }},
      {"max_pool", "", {U({2, 2, 6})}, [](const Tensors& v) { return max_pool(v[0], {2}); }},
      {"max_pool",
       "overlapping",
       {U({1, 2, 7, 6})},
       [](const Tensors& v) { return max_pool(v[0], {3, 2}, {2, 1}, {1, 0}, {1, 2}); }},
      {"max_pool", "rest", {U({1, 1, 8})}, [](const Tensors& v) { return max_pool(v[0], {3}); }},
      {"avg_pool", "", {U({2, 2, 6})}, [](const Tensors& v) { return avg_pool(v[0], {2}); }},
      {"avg_pool",
       "padding counted",
       {U({2, 2, 7, 5})},
       [](const Tensors& v) { return avg_pool(v[0], {3, 2}, {2, 1}, {1, 1}); }},
      {"avg_pool",
       "padding not counted",
       {U({1, 3, 7, 5})},
       [](const Tensors& v) { return avg_pool(v[0], {3, 2}, {2, 1}, {1, 1}, {2, 1}, false); }},
  };
}

std::vector<Case> Shapes() {
  return {
      {"reshape", "", {U({2, 6})}, [](const Tensors& v) { return reshape(v[0].transpose(), {3, -1}); }},
      {"transpose", "", {U({2, 3, 4})}, [](const Tensors& v) { return transpose(v[0]); }},
      {"transpose", "perm", {U({2, 3, 4})}, [](const Tensors& v) { return transpose(v[0], {-1, 0, 1}); }},
      {"broadcast", "", {U({3, 1})}, [](const Tensors& v) { return broadcast(v[0], {2, -1, 4}); }},
      {"squeeze", "", {U({1, 3, 1})}, [](const Tensors& v) { return squeeze(v[0], 0); }},
      {"unsqueeze", "", {U({3, 2})}, [](const Tensors& v) { return unsqueeze(v[0], {0, 2}); }},
      {"slice", "", {U({5, 4})}, [](const Tensors& v) { return v[0][{{1, 4}, {-3, none}}]; }},
      {"slice", "steps", {U({5, 7})}, [](const Tensors& v) { return slice(v[0], {0, -1}, {9, -6}, {2, -2}); }},
      {"slice", "backwards", {U({5})}, [](const Tensors& v) { return v[0][{{none, none, -2}}]; }},
      {"slice", "nothing", {U({5})}, [](const Tensors& v) { return sum(v[0][{{3, 3}}]) + sum(v[0]); }},
      {"slice", "a row", {U({3, 2})}, [](const Tensors& v) { return v[0][-1] * v[0][0]; }},
      {"split",
       "",
       {U({2, 6})},
       [](const Tensors& v) {
         const Tensors p = split(v[0], {1, 3, 2}, 1);
         return concat({p[2], p[0] * p[0]}, -1);
       }},
      {"flip", "", {U({2, 3})}, [](const Tensors& v) { return flip(v[0], -1); }},
      {"flip", "all", {U({2, 3})}, [](const Tensors& v) { return flip(v[0]); }},
      {"concat",
       "",
       {U({2, 1}), U({2, 0}), U({2, 3}, 4)},
       [](const Tensors& v) { return concat({v[0], v[1], v[2], v[0]}, 1); }},
      {"concat", "many", {U({2})}, [](const Tensors& v) { return concat(Tensors(70, v[0])); }},
      {"stack", "", {U({2, 2}), U({2, 2}, 3)}, [](const Tensors& v) { return stack({v[0], v[1], v[0]}, -1); }},
      {"pad", "", {U({2, 3})}, [](const Tensors& v) { return pad(v[0], {1, -1}, {0, 2}, 0.5); }},
      {"tril", "", {U({2, 3, 3})}, [](const Tensors& v) { return tril(v[0], -1); }},
      {"triu", "", {U({3, 4})}, [](const Tensors& v) { return triu(v[0], 1); }},
  };
}

std::vector<Case> Indexing() {
  const Tensor some = Ids({2, 0, 2, -1}, {2, 2}), pairs = Ids({0, 1, 1, 0, 0, 1}, {3, 2});
  const Tensor along = Ids({0, 2, 2, 1, 1, 0}, {2, 3}), once = Ids({1, 0, 3}, {3, 1});
  std::vector<Case> cases = {
      {"embedding", "", {U({3, 2})}, [=](const Tensors& v) { return embedding(v[0], some); }},
      {"take", "", {U({3, 2})}, [=](const Tensors& v) { return take(v[0], some); }},
      {"take", "axis", {U({2, 3, 2})}, [=](const Tensors& v) { return take(v[0], some, 1); }},
      {"take", "last axis, one", {U({2, 3})}, [](const Tensors& v) { return take(v[0], 1, -1); }},
      {"take", "none", {U({2, 3})}, [](const Tensors& v) { return concat({take(v[0], Ids({}, {0})), v[0]}); }},
      {"take_along_axis",
       "",
       {U({3, 3})},
       [](const Tensors& v) { return take_along_axis(v[0], Ids({0, 2, 2}, {1, 3}), 0); }},
      {"gather", "", {U({2, 2, 3})}, [=](const Tensors& v) { return gather(v[0], pairs); }},
      {"update_slice",
       "",
       {U({4, 5}), U({2, 3}, 2)},
       [](const Tensors& v) { return update_slice(v[0], v[1], {1, -4}); }},
      {"update_slice",
       "steps",
       {U({4, 5}), U({2, 2}, 2)},
       [](const Tensors& v) { return update_slice(v[0], v[1], {3, 0}, {-2, 3}); }},
      {"update_slice",
       "nothing",
       {U({4, 5}), U({2, 0}, 2)},
       [](const Tensors& v) { return update_slice(v[0], v[1], {1, 2}); }},
      {"sort", "", {U({3, 4})}, [](const Tensors& v) { return sort(v[0], 0, true).values; }},
      {"topk", "", {U({3, 4})}, [](const Tensors& v) { return topk(v[0], 2).values; }},
  };
  for (const std::string mode : {"set", "add", "max", "min"}) {
    cases.push_back({"scatter", mode, {U({4, 2}), U({3, 2}, 2)}, [=](const Tensors& v) {
                       return scatter(v[0], once, v[1], mode);
                     }});
    cases.push_back({"scatter", mode + ", twice to one place", {U({2, 2, 2}), U({3, 2}, 2)}, [=](const Tensors& v) {
                       return scatter(v[0], pairs, v[1], mode);
                     }});
    cases.push_back({"put_along_axis", mode, {U({2, 4}), U({2, 3}, 2)}, [=](const Tensors& v) {
                       return put_along_axis(v[0], along, v[1], 1, mode);
                     }});
  }
  return cases;
}

void Check(const std::vector<Case>& cases) {
  for (const Case& c : cases) CheckGradients(c.f, c.inputs, c.op + (c.what.empty() ? "" : ": ") + c.what, c.second);
}

TEST(AutodiffRules, Elementwise) { Check(Elementwise()); }
TEST(AutodiffRules, Reductions) { Check(Reductions()); }
TEST(AutodiffRules, Products) { Check(Products()); }
TEST(AutodiffRules, Windows) { Check(Windows()); }
TEST(AutodiffRules, Shapes) { Check(Shapes()); }
TEST(AutodiffRules, Indexing) { Check(Indexing()); }

bool IsControl(const ir::OpInfo& op) { return op.impl == ir::Impl::control; }

TEST(AutodiffRules, EveryDifferentiableOpHasARuleAndACase) {
  std::set<std::string> tried;
  for (const auto& list : {Elementwise(), Reductions(), Products(), Windows(), Shapes(), Indexing()})
    for (const Case& c : list) tried.insert(c.op);
  for (const ir::OpInfo& op : ir::AllOps()) {
    const bool wanted = op.grad == ir::Grad::diff && !IsControl(op);
    EXPECT_EQ(ir::FindGradRule(op.op) != nullptr, wanted) << op.name;
    EXPECT_EQ(tried.contains(std::string(op.name)), wanted) << op.name;
  }
}

TEST(AutodiffRules, NeedsNameOperandsAndResults) {
  const std::map<std::string, std::string> rows = {
#define TSR_GRAD(op, needs) {#op, needs},
#include "ir/grads.def"
  };
  for (const auto& [name, needs] : rows) {
    const ir::OpInfo& op = ir::Info(*ir::FindOp(name));
    std::set<std::string> known(op.results.begin(), op.results.end());
    for (const ir::OperandSpec& o : op.operands) known.insert(o.name);
    std::string word;
    for (char c : needs + " ") {
      if (c != ' ' && c != ':' && c != ';') {
        word += c;
        continue;
      }
      EXPECT_TRUE(word.empty() || known.contains(word)) << name << ": " << word;
      word.clear();
    }
  }
}

}  // namespace
}  // namespace tessera
