// grad and value_and_grad of the language: against finite differences, within functions, of gradients, and what comes
// out for which arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/tessera.h"

namespace tessera {
namespace {

using testing::HasSubstr;

std::string Value(Session& session, std::string_view text) {
  const Evaluation e = session.evaluate(text);
  return e.ok ? e.value : e.text();
}

// f(x) of the session for these numbers of x.
double At(const Function& f, const std::vector<double>& x, const Dims& dims) {
  return f.call({Tensor::from(x, dims)}).to_vector<double>()[0];
}

// `text` defines f, a function of one f64 tensor of those dims to a scalar.
void Check(const std::string& text, const Dims& dims) {
  SCOPED_TRACE(text);
  Session s;
  const Evaluation e =
      s.evaluate(text + "\ng = grad(f)\ndef inside(x):\n    v, d = value_and_grad(f)(x)\n    return d\n");
  ASSERT_TRUE(e.ok) << e.text();
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  std::vector<double> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.3 + 0.17 * std::sin(3.0 * static_cast<double>(i) + 1);
  const std::vector<Tensor> args = {Tensor::from(x, dims)};
  Result<Function> f = s.function("f", args), g = s.function("g", args), inside = s.function("inside", args);
  ASSERT_TRUE(f.ok() && g.ok() && inside.ok())
      << f.status().message() << g.status().message() << inside.status().message();
  const std::vector<double> got = g.value().call(args).to_vector<double>();
  EXPECT_EQ(inside.value().call(args).to_vector<double>(), got);
  ASSERT_EQ(got.size(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double step = 1e-5;
    std::vector<double> above = x, below = x;
    above[i] += step, below[i] -= step;
    const double want = (At(f.value(), above, dims) - At(f.value(), below, dims)) / (2 * step);
    EXPECT_NEAR(got[i], want, 1e-6 * (1 + std::fabs(want))) << "element " << i;
  }
}

TEST(LangGradTest, AgreesWithFiniteDifferences) {
  Check("def f(x):\n    return sum(sin(x) * x)\n", {5});
  Check("def f(x):\n    return mean(square(x @ x.T) / (1 + x.sum()))\n", {3, 3});
  Check("def f(x):\n    return sum(softmax(x)[..., 0] * log(x[:, 1]))\n", {4, 3});
  Check("def f(x):\n    y = x\n    for i in range(5):\n        y = y * 0.7 + sin(x)\n    return sum(y)\n", {4});
  Check("def f(x):\n    if x.sum() > 0.5:\n        return sum(x * x * x)\n    return sum(exp(x))\n", {3});
  Check("def h(x, k):\n    return tanh(x * k)\ndef f(x):\n    return sum(h(x, 2.0)) + sum(h(x, 0.5) ** 2)\n", {4});
  Check("def f(x):\n    i = 0\n    while sum(x) < 6:\n        x = x * 1.5\n        i += 1\n    return sum(x) * i\n",
        {3});
}

/// The gradient of a gradient is a gradient again, in the language and in a function.
TEST(LangGradTest, OfGradients) {
  Check("def h(x):\n    return sum(x * x * x * x)\ndef f(x):\n    return sum(grad(h)(x) * x)\n", {3});
  Session s;
  ASSERT_TRUE(s.evaluate("def f(x):\n    return x ** 4\ng = grad(f)\nh = grad(grad(g))\n").ok);
  EXPECT_EQ(Value(s, "f(2.0)"), "16.0");
  EXPECT_EQ(Value(s, "g(2.0)"), "32.0");
  EXPECT_EQ(Value(s, "grad(g)(2.0)"), "48.0");
  EXPECT_EQ(Value(s, "h(2.0)"), "48.0");
  EXPECT_EQ(Value(s, "h(3.0)"), "72.0");
  EXPECT_EQ(Value(s, "h"), "<function grad(grad(grad(f)))>");
  EXPECT_EQ(Value(s, "grad(f) == g"), "True") << "the same question has the same answer";
}

TEST(LangGradTest, GradientsHaveTheStructureOfTheirArguments) {
  Session s;
  const Evaluation e = s.evaluate(R"(
def loss(params, x, scale=1.0):
    w, b = params
    return mean(square(x @ w + b)) * scale

params = (ones(3, 2), zeros(2))
x = arange(6.0).reshape(2, 3)
value, grads = value_and_grad(loss)(params, x)
both = grad(loss, wrt=("x", 0))(params, x, scale=2.0)
rate = grad(loss, wrt="scale")(params, x, 3.0)
)");
  ASSERT_TRUE(e.ok) << e.text();
  EXPECT_EQ(Value(s, "(value == loss(params, x)).item()"), "True");
  EXPECT_EQ(Value(s, "(len(grads), grads[0].shape, grads[1].shape)"), "(2, (3, 2), (2,))");
  EXPECT_EQ(Value(s, "grads[1]"), "[7.5, 7.5] f32[2]");
  EXPECT_EQ(Value(s, "(both[0].shape, len(both[1]))"), "((2, 3), 2)");
  EXPECT_EQ(Value(s, "both[1][1]"), "[15., 15.] f32[2]") << "in the order that was asked for";
  EXPECT_EQ(Value(s, "abs(rate - value.item()) < 1e-4"), "True") << "a float has a float for its gradient";
}

/// Globals go along, and a function for other types is another instance.
TEST(LangGradTest, GlobalsAndInstances) {
  Session s;
  const Evaluation e = s.evaluate("w = array([1.0, 2.0])\ndef f(x):\n    return sum(x * w) + sum(w)\ng = grad(f)\n");
  ASSERT_TRUE(e.ok) << e.text();
  EXPECT_EQ(Value(s, "g(zeros(2))"), "[1., 2.] f32[2]");
  ASSERT_TRUE(s.evaluate("w = array([3.0, 4.0, 5.0])").ok);
  EXPECT_EQ(Value(s, "g(zeros(3))"), "[3., 4., 5.] f32[3]");
  EXPECT_EQ(Value(s, "g(zeros(3, dtype=f64)).dtype"), "f64");
  EXPECT_EQ(Value(s, "g(zeros(2, 3)).shape"), "(2, 3)");
}

TEST(LangGradTest, StopsWhereItIsTold) {
  Session s;
  const Evaluation e = s.evaluate(R"(
def f(x):
    return sum(x * stop_gradient(x * x))

def g(x, target):
    centre = stop_gradient(x.mean(axis=0, keepdims=True))
    return sum(square(x - centre)) + sum(stop_gradient(target) * x)

x = array([1.0, 2.0, 3.0])
)");
  ASSERT_TRUE(e.ok) << e.text();
  EXPECT_EQ(Value(s, "f(x)"), "36. f32[]");
  EXPECT_EQ(Value(s, "grad(f)(x)"), "[1., 4., 9.] f32[3]");
  EXPECT_EQ(Value(s, "grad(f)(3.0)"), "9.0");
  EXPECT_EQ(Value(s, "grad(g, wrt=(0, 1))(x, x)"), "([-1.,  2.,  5.] f32[3], [0., 0., 0.] f32[3])");
  EXPECT_EQ(Value(s, "stop_gradient(x)"), "[1., 2., 3.] f32[3]");
  EXPECT_THAT(Value(s, "stop_gradient(\"x\")"), HasSubstr("must be a tensor or a number"));
}

/// The same program with its gradient, as a loop of the language that learns.
TEST(LangGradTest, Learns) {
  Session s;
  const Evaluation e = s.evaluate(R"(
seed(3)
def loss(w, x, y):
    return mean(square(x @ w - y))

def step(w, x, y):
    value, g = value_and_grad(loss)(w, x, y)
    return w - 0.1 * g, value

x = randn(64, 4)
target = array([1.0, -2.0, 3.0, 0.5])
w = zeros(4)
for i in range(200):
    w, value = step(w, x, x @ target)
)");
  ASSERT_TRUE(e.ok) << e.text();
  EXPECT_EQ(Value(s, "all(abs(w - target) < 1e-3).item()"), "True");
}

}  // namespace
}  // namespace tessera
