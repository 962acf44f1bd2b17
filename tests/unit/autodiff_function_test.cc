// Gradients of functions: the transform of Graph IR against finite differences of what the functions compute.
#include "autodiff_testing.h"
#include "tiers_testing.h"

namespace tessera {
namespace {

Function Parse(const std::string& text) { return Function::parse(text).value(); }

Tensor U(const Dims& dims, uint64_t seed = 1, double low = 0.2, double high = 0.9) {
  return Uniform(dims, low, high, seed);
}

/// The gradient of f, whose first result is an f64 scalar, with respect to the floating arguments; then that of a sum
/// of the gradient.
void CheckFunction(const std::string& text, const Tensors& args, bool second = true) {
  const Function f = Parse(text);
  std::vector<int> wrt;
  for (size_t i = 0; i < args.size(); ++i)
    if (IsFloat(args[i].dtype())) wrt.push_back(static_cast<int>(i));
  auto made = value_and_grad(f, wrt);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const Function g = *made;
  const Tensors got = g(args);
  ASSERT_EQ(got.size(), f.num_results() + wrt.size());
  EXPECT_EQ(got[0].to_bytes(), f(args)[0].to_bytes());
  const auto value = [&](const Tensors& x) { return f(x)[0].item<double>(); };
  for (size_t k = 0; k < wrt.size(); ++k) {
    const Tensor& d = got[f.num_results() + k];
    EXPECT_EQ(d.dims(), args[wrt[k]].dims());
    ExpectNear(d.to_vector<double>(), FiniteDifferences(value, args, wrt[k]), 1e-6,
               f.name() + ", gradient of argument " + std::to_string(wrt[k]) + "\n" + g.module().to_string());
  }
  // What is printed reads back.
  EXPECT_TRUE(Module::parse(g.module().to_string()).ok());
  if (!second) return;
  // On a tape the gradient is a function like any other.
  const Function first = grad(f, wrt).value();
  Tensors sources;
  for (int i : wrt) sources.push_back(args[i]);
  const auto with = [&](const Tensors& x) {
    Tensors all = args;
    for (size_t k = 0; k < wrt.size(); ++k) all[wrt[k]] = x[k];
    return all;
  };
  const auto slope = [&](const Tensors& x) {
    Tensor total;
    for (const Tensor& d : first(with(x))) total = total.defined() ? total + Weighted(d, 7) : Weighted(d, 7);
    return total;
  };
  const Tensors again = grad(slope, sources);
  for (size_t k = 0; k < wrt.size(); ++k) {
    ExpectNear(again[k].to_vector<double>(),
               FiniteDifferences([&](const Tensors& x) { return slope(x).item<double>(); }, sources, k, 1e-4), 1e-4,
               f.name() + ", second derivative of argument " + std::to_string(wrt[k]));
  }
}

TEST(AutodiffFunction, StraightLines) {
  CheckFunction(R"(
func @f(%x: tensor<B x 3 x f64>, %w: tensor<3 x 4 x f64>, %b: tensor<4 x f64>) -> tensor<f64> {
  %0 = matmul %x, %w
  %1 = add %0, %b
  %2 = tanh %1
  %3 = mul %2, %2
  %4 = div %3, 0.7
  %5 = mean %4
  return %5
}
)",
                {U({2, 3}), U({3, 4}, 2), U({4}, 3)});
}

TEST(AutodiffFunction, SymbolicShapes) {
  CheckFunction(R"(
func @reductions(%x: tensor<B x S x f64>, %y: tensor<S x f64>) -> tensor<f64> where S % 2 == 0 {
  %m = mean %x {axes = [1], keepdims = true}
  %v = var %x {axes = [0], correction = 1.0}
  %n = layer_norm %x, %y
  %s = sub %n, %m
  %t = mul %s, %v
  %r = reshape %t {dims = [B, S/2, 2]}
  %l = logsumexp %r {axes = [1, 2]}
  %p = softmax %x {axis = 0}
  %q = mul %p, %x
  %a = sum %l
  %b = sum %q
  %c = add %a, %b
  return %c
}
)",
                {U({3, 4}), U({4}, 2)});
  CheckFunction(R"(
func @shapes(%x: tensor<B x S x f64>, %y: tensor<S x f64>) -> tensor<f64> {
  %a = slice %x {starts = [0, 1], stops = [B, S]}
  %b = slice %x {starts = [1], stops = [S], steps = [2], axes = [1]}
  %c = concat %x, %a {axis = 1}
  %d = pad %c {low = [0, 1], high = [1, -1], value = 0.5}
  %e = transpose %d
  %f = flip %e {axes = [0]}
  %g = broadcast %y {dims = [B, S]}
  %h = mul %g, %x
  %i = stack %h, %x {axis = 1}
  %j = update_slice %x, %a {starts = [0, 1]}
  %k = cumsum %j {axis = 1}
  %s0 = square %f
  %s1 = sum %s0
  %s2 = square %b
  %s3 = sum %s2
  %s4 = square %i
  %s5 = sum %s4
  %s6 = square %k
  %s7 = sum %s6
  %t0 = add %s1, %s3
  %t1 = add %s5, %s7
  %t2 = add %t0, %t1
  return %t2
}
)",
                {U({2, 5}), U({5}, 2)});
  CheckFunction(R"(
func @windows(%x: tensor<N x 2 x L x f64>, %w: tensor<4 x 1 x 3 x f64>) -> tensor<f64> where L % 3 == 0 {
  %a = conv %x, %w {stride = [2], padding = [1], groups = 2}
  %b = max_pool %x {window = [3], padding = [1], stride = [2]}
  %c = avg_pool %x {window = [2], stride = [1], padding = [1], count_padding = false}
  %d = square %a
  %e = square %b
  %f = square %c
  %g = sum %d
  %h = sum %e
  %i = sum %f
  %j = add %g, %h
  %k = add %j, %i
  return %k
}
)",
                {U({2, 2, 9}), U({4, 1, 3}, 2)});
  CheckFunction(
      R"(
func @attend(%q: tensor<B x 4 x S x D x f64>, %k: tensor<B x 2 x T x D x f64>, %t: tensor<V x D x f64>, %ids: tensor<S x i64>) -> tensor<f64> where D % 2 == 0 {
  %r = rotary %q, %ids
  %a = attention %r, %k, %k {causal = true}
  %e = embedding %t, %ids
  %b = add %a, %e
  %l = sum %b {axes = [0, 1]}
  %c = cross_entropy %l, %ids
  %d = mean %c
  return %d
}
)",
      {U({2, 4, 3, 4}), U({2, 2, 5, 4}, 2), U({4, 4}, 3), Tensor::from({int64_t{0}, int64_t{2}, int64_t{1}})});
}

const char* kBranches = R"(
func @branches(%x: tensor<3 x f64>, %c: tensor<f64>) -> tensor<f64> {
  %p = gt %c, 0.5
  %y, %z = if %p -> (tensor<3 x f64>, tensor<f64>) {
    %a = sin %x
    %q = gt %c, 0.75
    %b = if %q -> (tensor<3 x f64>) {
      %d = mul %a, %c
      yield %d
    } else {
      yield %a
    }
    yield %b, 2.0
  } else {
    %e = mul %x, %x
    %f = square %c
    yield %e, %f
  }
  %s = sum %y
  %t = mul %s, %z
  return %t
}
)";

TEST(AutodiffFunction, Branches) {
  for (double c : {0.2, 0.6, 0.9}) CheckFunction(kBranches, {U({3}), Tensor::scalar(c)});
}

TEST(AutodiffFunction, Loops) {
  const std::string counted = R"(
func @counted(%x: tensor<3 x f64>, %w: tensor<3 x f64>, %n: tensor<i64>) -> tensor<f64> {
  %y, %k = for %i in (1, %n, 2) (%a = %x, %s = 0.5) -> (tensor<3 x f64>, tensor<f64>) {
    %f = cast %i {dtype = f64}
    %b = mul %a, %w
    %c = sin %b
    %d = add %c, %f
    %e = sum %b
    %q = cos %e
    %t = mul %s, %q
    yield %d, %t
  }
  %z = sum %y
  %r = add %z, %k
  return %r
}
)";
  // 0, 1, 3 and 11 rounds: the last in stretches of 4, 4 and 3.
  for (int64_t n : {0, 2, 6, 22}) CheckFunction(counted, {U({3}), U({3}, 2), Tensor::scalar(n)}, n < 6);
  CheckFunction(R"(
func @down(%x: tensor<2 x f64>) -> tensor<f64> {
  %y = for %i in (5, 0, -2) (%a = %x) -> (tensor<2 x f64>) {
    %f = cast %i {dtype = f64}
    %b = exp %a
    %g = mul %b, %x
    %c = div %g, %f
    yield %c
  }
  %z = sum %y
  return %z
}
)",
                {U({2}, 3, 0.1, 0.3)});
  CheckFunction(R"(
func @until(%x: tensor<2 x f64>, %w: tensor<2 x f64>) -> tensor<f64> {
  %y, %n = while (%a = %x, %k = 0) -> (tensor<2 x f64>, tensor<i64>) {
    %s = sum %a
    %p = lt %s, 4.0
    yield %p
  } do {
    %b = mul %a, %w
    %c = add %b, %a
    %m = add %k, 1
    yield %c, %m
  }
  %z = square %y
  %r = sum %z
  return %r
}
)",
                {U({2}), U({2}, 2)});
  // A known number of rounds.
  CheckFunction(R"(
func @known(%x: tensor<2 x f64>) -> tensor<f64> {
  %y = for %i in (0, 10) (%a = %x) -> (tensor<2 x f64>) {
    %b = mul %a, %x
    %c = add %b, 0.5
    yield %c
  }
  %z = sum %y
  return %z
}
)",
                {U({2})}, false);
  // A loop in a loop, with a branch in it.
  CheckFunction(R"(
func @nested(%x: tensor<2 x f64>, %w: tensor<2 x f64>) -> tensor<f64> {
  %y = for %i in (0, 3) (%a = %x) -> (tensor<2 x f64>) {
    %b = for %j in (0, %i) (%c = %a) -> (tensor<2 x f64>) {
      %p = eq %j, 1
      %d = if %p -> (tensor<2 x f64>) {
        %e = mul %c, %w
        yield %e
      } else {
        %f = tanh %c
        yield %f
      }
      yield %d
    }
    %g = add %b, %w
    yield %g
  }
  %s = sum %y
  return %s
}
)",
                {U({2}), U({2}, 2)}, false);
}

TEST(AutodiffFunction, CallsAndRecursion) {
  CheckFunction(R"(
func @main(%x: tensor<4 x B x f64>, %w: tensor<f64>) -> tensor<f64> {
  %0 = call @scale(%x, %w) : tensor<(4*B) x f64>
  %1, %2 = call @scale2(%0, 2.0)
  %n = full 3 {dims = [], dtype = i64}
  %p = call @power(%w, %n)
  %3 = sum %1
  %4 = mul %3, %p
  return %4
}
func @scale(%a: tensor<N x M x f64>, %s: tensor<f64>) -> tensor<(N*M) x f64> {
  %0 = reshape %a {dims = [-1]}
  %1 = mul %0, %s
  %2 = mul %1, %0
  return %2
}
func @scale2(%a: tensor<N x f64>, %s: tensor<f64>) -> (tensor<N x f64>, tensor<i64>) {
  %0 = mul %a, %s
  %1 = sin %0
  %2 = full 1 {dims = [], dtype = i64}
  return %1, %2
}
func @power(%x: tensor<f64>, %n: tensor<i64>) -> tensor<f64> {
  %p = gt %n, 0
  %y = if %p -> (tensor<f64>) {
    %m = sub %n, 1
    %r = call @power(%x, %m)
    %s = mul %r, %x
    yield %s
  } else {
    yield 1.0
  }
  return %y
}
)",
                {U({4, 2}), Tensor::scalar(0.8)});
}

TEST(AutodiffFunction, HigherOrders) {
  Function f = Parse(R"(
func @f(%x: tensor<f64>) -> tensor<f64> {
  %0 = mul %x, 2.0
  %1 = sin %0
  return %1
}
)");
  const double want[] = {2 * std::cos(1.4), -4 * std::sin(1.4), -8 * std::cos(1.4), 16 * std::sin(1.4)};
  for (double d : want) {
    f = grad(f).value();
    EXPECT_NEAR(f.call({Tensor::scalar(0.7)}).item<double>(), d, 1e-13) << f.to_string();
  }
}

TEST(AutodiffFunction, VjpTakesGradientsOfResults) {
  const Function f = Parse(R"(
func @f(%x: tensor<N x f64>, %y: tensor<N x f64>) -> (tensor<N x f64>, tensor<i64>, tensor<f64>) {
  %0 = mul %x, %y
  %1 = argmax %0 {axis = 0}
  %2 = sum %x
  return %0, %1, %2
}
)");
  const Function v = vjp(f, {0, 1}).value();
  const Tensor x = U({3}), y = U({3}, 2), g = U({3}, 3), h = Tensor::scalar(0.25);
  const Tensors d = v({x, y, g, h});
  ExpectNear(d[0].to_vector<double>(), (g * y + h).to_vector<double>(), 1e-15, "x");
  ExpectNear(d[1].to_vector<double>(), (g * x).to_vector<double>(), 1e-15, "y");
}

TEST(AutodiffFunction, EffectsHappenOnce) {
  const Function f = Parse(R"(
buffer @count : tensor<i64>
buffer @scale : tensor<f64>
func @f(%x: tensor<f64>) -> tensor<f64> {
  buffer_add 1 {buffer = "count"}
  %s = buffer_read {buffer = "scale"}
  %p = gt %x, 0.0
  %y = if %p -> (tensor<f64>) {
    print %x {label = "x"}
    %0 = mul %x, %s
    yield %0
  } else {
    yield %x
  }
  return %y
}
)");
  ASSERT_TRUE(f.module().set_buffer("scale", Tensor::scalar(3.0)).ok());
  std::string printed;
  Runtime::set_print_sink([&](std::string_view text) { printed += text; });
  const Function g = grad(f).value();
  EXPECT_EQ(g.call({Tensor::scalar(0.5)}).item<double>(), 3.0);
  Runtime::set_print_sink(nullptr);
  EXPECT_EQ(printed, "x: 0.5 f64[]");
  EXPECT_EQ(g.module().buffer("count")->item<int64_t>(), 1);
  EXPECT_EQ(f.module().buffer("count")->item<int64_t>(), 0) << "its buffers are its own";
}

TEST(AutodiffFunction, ThroughBuffers) {
  // What is written first and then added to is read twice.
  const Function f = Parse(R"(
buffer @b : tensor<2 x f64>
func @f(%x: tensor<2 x f64>, %y: tensor<2 x f64>) -> tensor<f64> {
  %old = buffer_read {buffer = "b"}
  buffer_write %x {buffer = "b"}
  %r = buffer_read {buffer = "b"}
  buffer_add %y {buffer = "b"}
  %s = buffer_read {buffer = "b"}
  %0 = mul %r, %s
  %1 = add %0, %old
  %2 = sum %1
  return %2
}
)");
  const Tensor x = U({2}), y = U({2}, 2);
  const Tensors g = grad(f, {0, 1}).value()({x, y});
  ExpectNear(g[0].to_vector<double>(), (2.0 * x + y).to_vector<double>(), 1e-15, "x");
  ExpectNear(g[1].to_vector<double>(), x.to_vector<double>(), 1e-15, "y");
}

TEST(AutodiffFunction, NarrowTypes) {
  const Function f = Parse(R"(
func @f(%x: tensor<N x bf16>) -> tensor<f32> {
  %y = for %i in (0, 4) (%a = %x) -> (tensor<N x bf16>) {
    %b = mul %a, %x
    yield %b
  }
  %z = cast %y {dtype = f32}
  %s = sum %z
  return %s
}
)");
  const Tensor x = cast(U({3}), bf16);
  const Tensor g = grad(f).value().call({x});
  EXPECT_EQ(g.dtype(), bf16);
  ExpectNear(g.to_vector<double>(), (pow(cast(x, f64), 4) * 5.0).to_vector<double>(), 0.03, "5 x^4");
}

TEST(AutodiffFunction, UnderTheTiers) {
  RunBoth([](Log& log) {
    const Function g = value_and_grad(Parse(kBranches), {0, 1}).value();
    Tensor x = U({3});
    for (int i = 0; i < 40; ++i) {
      const Tensors r = g({x, Tensor::scalar(0.1 + 0.02 * i)});
      x = x - r[1] * 0.01;
      log.Add(r[0]);
    }
    log.Add(x);
  });
}

std::string ErrorOf(const std::string& text, const std::vector<int>& wrt = {0}) {
  const auto made = grad(Parse(text), wrt);
  return made.ok() ? "no error" : made.status().message();
}

TEST(AutodiffFunction, Errors) {
  const std::string f = "func @f(%x: tensor<3 x f64>, %n: tensor<i64>) -> tensor<3 x f64> {\n  return %x\n}\n";
  EXPECT_EQ(ErrorOf(f),
            "grad of @f: its first result must be a floating scalar, and tensor<3 x f64> is it; reduce it "
            "with sum or mean");
  const std::string g = "func @g(%x: tensor<f64>, %n: tensor<i64>) -> tensor<f64> {\n  return %x\n}\n";
  EXPECT_EQ(ErrorOf(g, {}), "grad of @g: wrt is empty; name at least one parameter by its number");
  EXPECT_EQ(ErrorOf(g, {2}), "grad of @g: there is no parameter 2; it has 2");
  EXPECT_EQ(ErrorOf(g, {1}), "grad of @g: parameter 1 is tensor<i64>; only those of a floating type have a gradient");
  EXPECT_EQ(ErrorOf(g, {0, 0}), "grad of @g: parameter 0 is named twice");
  EXPECT_EQ(ErrorOf("func @f(%x: tensor<32 x f32>) -> tensor<f32> {\n"
                    "  %d, %s = quantize %x {format = \"f4e2m1\"}\n  %y = sum %s\n  return %y\n}\n"),
            "2:12: in @f: quantize: has no gradient, and one would have to pass through it");
  EXPECT_EQ(
      ErrorOf("buffer @b : tensor<f64>\nfunc @f(%x: tensor<f64>) -> tensor<f64> {\n  %y = for %i in (0, 3) (%a = "
              "%x) -> (tensor<f64>) {\n    buffer_write %a {buffer = \"b\"}\n    %r = buffer_read {buffer = "
              "\"b\"}\n    %c = mul %a, %r\n    yield %c\n  }\n  return %y\n}\n"),
      "5:10: in @f: buffer_read: buffer @b would have to be read again on the way back, and the module writes it");
  EXPECT_EQ(
      ErrorOf("func @f(%x: tensor<f64>) -> tensor<f64> {\n  %p = gt %x, 0.0\n  %y = if %p -> (tensor<f64>) {\n    "
              "%z = call @g(%x)\n    yield %z\n  } else {\n    yield %x\n  }\n  return %y\n}\nfunc @g(%x: "
              "tensor<f64>) -> tensor<f64> {\n  print %x\n  return %x\n}\n"),
      "4:10: in @f: call: @g has effects and would have to be called again on the way back");
}

}  // namespace
}  // namespace tessera
