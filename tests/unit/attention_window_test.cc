// Attention under a window against the same with a mask of all that the window hides, in f64; the errors.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "autodiff_testing.h"

namespace tessera {
namespace {

/// What a window lets through, as a mask.
Tensor Band(int64_t queries, int64_t keys, int64_t window) {
  const Tensor at = arange(queries).reshape({queries, 1}) + (keys - queries), key = arange(keys);
  return logical_and(key <= at, key > at - window);
}

struct Shape {
  int64_t heads, kv, queries, keys, window;
};
// Odd sizes, more queries than keys and fewer, shared keys; windows of one key, of as many as there are, and of more.
constexpr Shape kShapes[] = {{2, 2, 7, 7, 3},     {4, 2, 33, 65, 1},       {4, 2, 65, 33, 5}, {3, 1, 130, 131, 17},
                             {2, 2, 200, 77, 40}, {1, 1, 77, 200, 64},     {2, 1, 1, 50, 7},  {2, 1, 9, 9, 9},
                             {2, 2, 9, 9, 8},     {2, 2, 9, 9, INT64_MAX}, {2, 2, 40, 3, 2},  {6, 2, 150, 300, 299}};

struct Operands {
  explicit Operands(const Shape& s)
      : q(Uniform({2, s.heads, s.queries, 5}, -2, 2, 1)),
        k(Uniform({2, s.kv, s.keys, 5}, -2, 2, 2)),
        v(Uniform({2, s.kv, s.keys, 3}, -2, 2, 3)),
        g(Uniform({2, s.heads, s.queries, 3}, -2, 2, 4)),
        band(Band(s.queries, s.keys, std::min(s.window, s.keys))) {}
  Tensor q, k, v, g, band;
};

std::string Name(const Shape& s) {
  std::string name;
  for (const int64_t n : {s.heads, s.kv, s.queries, s.keys, s.window}) name += std::to_string(n) + " ";
  return name;
}

TEST(AttentionWindow, IsABandOfTheMask) {
  for (const Shape& s : kShapes) {
    const Operands x(s);
    const Tensor y = attention(x.q, x.k, x.v, {}, true, 0.3, s.window);
    const Tensor want = attention(x.q, x.k, x.v, x.band, false, 0.3);
    ExpectNear(y.to_vector<double>(), want.to_vector<double>(), 1e-13, Name(s));
    // With a mask beside it, one that keeps and one that is added.
    const Tensor other = Uniform({s.queries, s.keys}, -1, 1, 5);
    const Tensor kept = attention(x.q, x.k, x.v, other > -0.5, true, 0, s.window);
    const Tensor want_kept = attention(x.q, x.k, x.v, logical_and(other > -0.5, x.band));
    ExpectNear(kept.to_vector<double>(), want_kept.to_vector<double>(), 1e-13, Name(s) + "kept");
    const Tensor added = attention(x.q, x.k, x.v, other, true, 0, s.window);
    const Tensor want_added = attention(x.q, x.k, x.v, where(x.band, other, -INFINITY));
    ExpectNear(added.to_vector<double>(), want_added.to_vector<double>(), 1e-13, Name(s) + "added");
  }
}

TEST(AttentionWindow, GradientsAreThoseOfTheMask) {
  for (const Shape& s : kShapes) {
    const Operands x(s);
    const Tensor y = attention(x.q, x.k, x.v, x.band);
    const AttentionGrads d = attention_grad(x.q, x.k, x.v, y, x.g, {}, true, 0, s.window);
    const AttentionGrads want = attention_grad(x.q, x.k, x.v, y, x.g, x.band);
    const auto near = [&](const Tensor& a, const Tensor& b, const char* what) {
      ExpectNear(a.to_vector<double>(), b.to_vector<double>(), 1e-11, Name(s) + what);
    };
    near(d.q, want.q, "dq");
    near(d.k, want.k, "dk");
    near(d.v, want.v, "dv");
    const Tensor other = Uniform({s.queries, s.keys}, -1, 1, 5) > -0.5;
    const AttentionGrads kept = attention_grad(x.q, x.k, x.v, y, x.g, other, true, 0, s.window);
    const AttentionGrads want_kept = attention_grad(x.q, x.k, x.v, y, x.g, logical_and(other, x.band));
    near(kept.q, want_kept.q, "dq, kept");
    near(kept.k, want_kept.k, "dk, kept");
    near(kept.v, want_kept.v, "dv, kept");
    // As a tape makes them, of wide floats by other ops, and of narrow ones by attention_grad.
    for (const DType dtype : {f64, bf16}) {
      const Tensors in = {x.q.cast(dtype), x.k.cast(dtype), x.v.cast(dtype)};
      const auto grads = [&](const TensorFunction& f) {
        return grad([&](const Tensors& t) { return sum(f(t) * x.g.cast(dtype)); }, in);
      };
      const Tensors a = grads([&](const Tensors& t) { return attention(t[0], t[1], t[2], {}, true, 0, s.window); });
      const Tensors b = grads([&](const Tensors& t) { return attention(t[0], t[1], t[2], x.band); });
      for (size_t i = 0; i < 3; ++i) {
        const std::string what = Name(s) + "of a tape, operand " + std::to_string(i);
        ExpectNear(a[i].cast(f64).to_vector<double>(), b[i].cast(f64).to_vector<double>(), dtype == f64 ? 1e-11 : 0.05,
                   what);
      }
    }
  }
}

TEST(AttentionWindow, ErrorsSayWhatItNeeds) {
  const Tensor x = zeros({1, 4, 8});
  EXPECT_NE(MessageOf([&] { attention(x, x, x, {}, false, 0, 2); }).find("so it needs causal = true"),
            std::string::npos);
  EXPECT_NE(MessageOf([&] { attention(x, x, x, {}, true, 0, -2); }).find("window is -2; it must be"),
            std::string::npos);
  EXPECT_NE(MessageOf([&] { attention_grad(x, x, x, x, x, {}, false, 0, 2); }).find("so it needs causal = true"),
            std::string::npos);
  const auto parse = [](const std::string& attrs) {
    return Function::parse(
        "func @f(%x: tensor<1 x 4 x 8 x f32>) -> tensor<1 x 4 x 8 x f32> {\n  %y = attention %x, %x, "
        "%x {" +
        attrs + "}\n  return %y\n}\n");
  };
  EXPECT_TRUE(parse("causal = true, window = 2").ok());
  EXPECT_NE(parse("window = 2").status().message().find("so it needs causal = true"), std::string::npos);
  EXPECT_NE(parse("causal = true, window = -2").status().message().find("window is -2; it must be"), std::string::npos);
}

}  // namespace
}  // namespace tessera
