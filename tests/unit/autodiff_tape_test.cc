// Tapes: what a user sees of eager gradients beyond the rules.
#include <cstring>
#include <thread>

#include "autodiff_testing.h"
#include "tiers_testing.h"

namespace tessera {
namespace {

TEST(AutodiffTape, GivesTheGradientOfALoss) {
  const Tensor x = Line(3);
  Tape tape;
  tape.watch(x);
  const Tensor y = sum(x * x * x);
  EXPECT_TRUE(tape.watches(y));
  const Tensors g = tape.gradient(y, {x});
  ExpectNear(g[0].to_vector<double>(), (3.0 * x * x).to_vector<double>(), 1e-15, "3 x^2");
}

TEST(AutodiffTape, GradientsOfWhatLiesBetweenAndOfWhatIsNotUsed) {
  const Tensor x = Line(3), unused = Line(2);
  Tape tape;
  tape.watch({x, unused});
  const Tensor between = x * 2.0;
  const Tensor y = sum(square(between));
  const Tensors g = tape.gradient(y, {between, x, unused, y});
  ExpectNear(g[0].to_vector<double>(), (between * 2.0).to_vector<double>(), 1e-15, "between");
  ExpectNear(g[1].to_vector<double>(), (x * 8.0).to_vector<double>(), 1e-15, "x");
  ExpectNear(g[2].to_vector<double>(), {0, 0}, 0, "unused");
  ExpectNear(g[3].to_vector<double>(), {1}, 0, "the target itself");
}

TEST(AutodiffTape, ASeedWeighsElements) {
  const Tensor x = Line(3), seed = Tensor::from({1.0, -2.0, 0.5});
  Tape tape;
  tape.watch(x);
  const Tensors g = tape.gradient(exp(x), {x}, seed);
  ExpectNear(g[0].to_vector<double>(), (exp(x) * seed).to_vector<double>(), 1e-15, "seed");
}

TEST(AutodiffTape, OneThatIsUsedOftenKeepsItsValues) {
  const Tensor x = Line(3);
  Tape tape(Tape::Use::many);
  tape.watch(x);
  const Tensor a = sum(exp(x)), b = sum(x * x);
  for (int i = 0; i < 2; ++i) {
    ExpectNear(tape.gradient(a, {x})[0].to_vector<double>(), exp(x).to_vector<double>(), 1e-15, "a");
    ExpectNear(tape.gradient(b, {x})[0].to_vector<double>(), (x * 2.0).to_vector<double>(), 1e-15, "b");
  }
  // It goes on watching.
  const Tensor c = a * b;
  EXPECT_TRUE(tape.watches(c));
}

TEST(AutodiffTape, LetsGoOfValuesAsTheyAreUsed) {
  const int64_t before = Runtime::memory(Device::cpu()).bytes_in_use;
  const Tensor x = ones({1 << 18}, f64);  // 2 MiB
  Tape tape;
  tape.watch(x);
  Tensor h = x;
  for (int i = 0; i < 8; ++i) h = tanh(h) * 1.5;
  const Tensor y = sum(h);
  h = Tensor();
  // A value for each tanh; none for what a product with a number gives. Versions of earlier tests may go meanwhile.
  const int64_t kept = Runtime::memory(Device::cpu()).bytes_in_use - before;
  EXPECT_GE(kept, 9 * (2 << 20) - (64 << 10));
  EXPECT_LT(kept, 11 * (2 << 20));
  const Tensors g = tape.gradient(y, {x});
  const int64_t after = Runtime::memory(Device::cpu()).bytes_in_use - before;
  EXPECT_LT(after, 3 * (2 << 20)) << "x and its gradient";
}

TEST(AutodiffTape, IntegersAndComparisonsEndAGradient) {
  const Tensor x = Line(3);
  Tape tape;
  tape.watch(x);
  const Tensor n = cast(x * 4.0, i64);
  EXPECT_FALSE(tape.watches(n));
  EXPECT_FALSE(tape.watches(x > 0.6));
  EXPECT_FALSE(tape.watches(floor(x)));
  const Tensor y = sum(x * cast(n, f64) + floor(x));
  ExpectNear(tape.gradient(y, {x})[0].to_vector<double>(), n.to_vector<double>(), 1e-15, "x");
}

TEST(AutodiffTape, TapesNest) {
  // d^n/dx^n sin(2x), four times.
  const Tensor x = Tensor::scalar(0.7);
  Tape t1, t2, t3, t4;
  for (Tape* t : {&t1, &t2, &t3, &t4}) t->watch(x);
  const Tensor d1 = t4.gradient(sin(x * 2.0), {x})[0];
  const Tensor d2 = t3.gradient(d1, {x})[0];
  const Tensor d3 = t2.gradient(d2, {x})[0];
  const Tensor d4 = t1.gradient(d3, {x})[0];
  EXPECT_NEAR(d1.item<double>(), 2 * std::cos(1.4), 1e-14);
  EXPECT_NEAR(d2.item<double>(), -4 * std::sin(1.4), 1e-14);
  EXPECT_NEAR(d3.item<double>(), -8 * std::cos(1.4), 1e-13);
  EXPECT_NEAR(d4.item<double>(), 16 * std::sin(1.4), 1e-13);
}

TEST(AutodiffTape, ThreadsHaveTapesOfTheirOwn) {
  const Tensor x = Line(3);
  Tape tape;
  tape.watch(x);
  Tensor elsewhere;
  std::vector<double> slope;
  std::string message;
  std::thread([&] {
    elsewhere = x * 2.0;
    Tape own;
    own.watch(x);
    slope = own.gradient(sum(x * 5.0), {x})[0].to_vector<double>();
    message = MessageOf([&] { tape.gradient(elsewhere, {x}); });
  }).join();
  EXPECT_FALSE(tape.watches(elsewhere));
  EXPECT_EQ(slope, (std::vector<double>{5, 5, 5}));
  EXPECT_EQ(message, "gradient: the tape belongs to another thread; use it on the one that made it");
  ExpectNear(tape.gradient(sum(x * 3.0), {x})[0].to_vector<double>(), {3, 3, 3}, 0, "this thread");
}

TEST(AutodiffTape, NarrowTypesAddUpInF32) {
  // 1 + 512 times 2^-9: each alone is lost in bf16.
  const Tensor x = cast(ones({1}), bf16);
  Tape tape;
  tape.watch(x);
  Tensor y = cast(x, f32);
  for (int i = 0; i < 512; ++i) y = y + cast(x * (1.0 / 512), f32);
  const Tensor g = tape.gradient(sum(y), {x})[0];
  EXPECT_EQ(g.dtype(), bf16);
  EXPECT_EQ(cast(g, f32).item<float>(), 2.0f);
  // One row of a table that is read 600 times.
  const Tensor table = cast(ones({2, 1}), bf16);
  Tape rows;
  rows.watch(table);
  const Tensor read = embedding(table, zeros({600}, i64));
  const Tensors sums = rows.gradient(sum(cast(read, f32)), {table});
  EXPECT_EQ(cast(sums[0], f32).to_vector<float>(), (std::vector<float>{600, 0}));
}

TEST(AutodiffTape, MixedDTypes) {
  const Tensor a = cast(Line(3), f32), b = Line(3);
  Tape tape;
  tape.watch({a, b});
  const Tensors g = tape.gradient(sum(a * b * arange(3)), {a, b});
  EXPECT_EQ(g[0].dtype(), f32);
  EXPECT_EQ(g[1].dtype(), f64);
  ExpectNear(g[1].to_vector<double>(), (a * arange(3)).to_vector<double>(), 1e-7, "b");
}

TEST(AutodiffTape, StopGradient) {
  const Tensor x = Line(3);
  Tape tape;
  tape.watch(x);
  const Tensor held = stop_gradient(x * x);
  EXPECT_FALSE(tape.watches(held));
  const Tensors g = tape.gradient(sum(held * x), {x});
  ExpectNear(g[0].to_vector<double>(), (x * x).to_vector<double>(), 1e-15, "x");
}

TEST(AutodiffTape, CustomGradient) {
  const Tensor x = Line(3), w = Line(3) * 2.0;
  Tape outer, tape;
  outer.watch(x);
  tape.watch(x);
  // A product whose gradient of x is said to be w^2 g, and which has none for w.
  const Tensors y = custom_gradient(
      {x, w}, [](const Tensors& v) { return Tensors{v[0] * v[1], v[0]}; },
      [=](const Tensors& g) { return Tensors{g[0] * w * w * x + g[1] * 0.0, Tensor()}; });
  EXPECT_TRUE(tape.watches(y[1]));
  const Tensor g = tape.gradient(sum(y[0]), {x})[0];
  ExpectNear(g.to_vector<double>(), (w * w * x).to_vector<double>(), 1e-15, "x");
  // The ops of the backward function are ops like any other.
  ExpectNear(outer.gradient(sum(g), {x})[0].to_vector<double>(), (w * w).to_vector<double>(), 1e-15, "again");
}

TEST(AutodiffTape, CheckpointGivesTheSameGradientsWithoutKeeping) {
  manual_seed(5);
  const Tensor x = Uniform({64, 64}, -1, 1, 3), w = Uniform({64, 64}, -0.2, 0.2, 4);
  const TensorFunction layers = [](const Tensors& v) {
    Tensor h = v[0];
    for (int i = 0; i < 6; ++i) h = tanh(matmul(h, v[1])) * rand({64, 64}, f64);
    return h;
  };
  const auto run = [&](bool keep, int64_t* bytes) {
    manual_seed(9);
    const int64_t before = Runtime::memory(Device::cpu()).bytes_in_use;
    Tape tape;
    tape.watch({x, w});
    Tensor y = keep ? layers({x, w}) : checkpoint(layers, {x, w});
    *bytes = Runtime::memory(Device::cpu()).bytes_in_use - before;
    y = sum(y * rand({64, 64}, f64));
    Tensors g = tape.gradient(y, {x, w});
    g.push_back(rand({2}, f64));  // the stream of random numbers goes on from where it was
    return g;
  };
  int64_t kept = 0, again = 0;
  const Tensors a = run(true, &kept), b = run(false, &again);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].to_bytes(), b[i].to_bytes()) << i;
  EXPECT_LT(again * 4, kept);
}

TEST(AutodiffTape, CheckpointsDifferentiateTwice) {
  CheckGradients(
      [](const Tensors& v) {
        return checkpoint([](const Tensors& u) { return tanh(u[0] * u[1]) * u[0]; }, {v[0], v[1]}) * v[0];
      },
      {Line(3), Line(3) * 0.5}, "checkpoint");
}

TEST(AutodiffTape, ValueAndGrad) {
  const Tensor w = Line(4);
  const auto [value, grads] = value_and_grad([](const Tensors& p) { return sum(square(p[0]) * p[1]); }, {w, w * 2.0});
  EXPECT_NEAR(value.item<double>(), sum(w * w * w * 2.0).item<double>(), 1e-14);
  ExpectNear(grads[0].to_vector<double>(), (w * w * 4.0).to_vector<double>(), 1e-14, "first");
  ExpectNear(grads[1].to_vector<double>(), (w * w).to_vector<double>(), 1e-14, "second");
}

TEST(AutodiffTape, AFunctionOfGraphIrOnATape) {
  const Function f = Function::parse(R"(
func @f(%x: tensor<N x f64>, %n: tensor<i64>) -> (tensor<N x f64>, tensor<i64>) {
  %y = for %i in (0, %n, 1) (%a = %x) -> (tensor<N x f64>) {
    %b = sin %a
    %c = mul %b, %x
    yield %c
  }
  return %y, %n
}
)")
                         .value();
  const auto eager = [](const Tensors& v) {
    Tensor a = v[0];
    for (int i = 0; i < 3; ++i) a = sin(a) * v[0];
    return sum(square(a));
  };
  const Tensor x = Line(3), n = Tensor::scalar(int64_t{3});
  const Tensors want = grad(eager, {x});
  const Tensors got = grad([&](const Tensors& v) { return sum(square(f({v[0], n})[0])); }, {x});
  ExpectNear(got[0].to_vector<double>(), want[0].to_vector<double>(), 1e-13, "through a function");
}

TEST(AutodiffTape, Errors) {
  const Tensor x = Line(3), y = Line(3);
  EXPECT_EQ(MessageOf([&] { Tape().watch(arange(3)); }),
            "watch: i64[3] has no gradient; only tensors of a floating type do");
  EXPECT_EQ(MessageOf([&] { Tape().watch(Tensor()); }), "watch: the Tensor handle is empty; give it a value first");
  Tape tape;
  tape.watch(x);
  EXPECT_EQ(MessageOf([&] { tape.gradient(y, {x}); }),
            "gradient: the target f64[3] does not follow from anything that the tape watches; watch() comes before the "
            "ops");
  EXPECT_EQ(MessageOf([&] { tape.gradient(sum(x), {y}); }),
            "gradient: source 0, f64[3], is not watched by the tape and does not follow from what is");
  EXPECT_EQ(MessageOf([&] { tape.gradient(x * 2.0, {x}); }),
            "gradient: the target is f64[3]; it must have one element: reduce it with sum or mean, or give a seed");
  EXPECT_EQ(MessageOf([&] { tape.gradient(x * 2.0, {x}, ones({2})); }),
            "gradient: the seed is f32[2]; it must have the dims of the target f64[3] and a floating type");
  (void)tape.gradient(sum(x), {x});
  EXPECT_EQ(MessageOf([&] { tape.gradient(sum(x), {x}); }),
            "gradient: the tape has given its gradient and let go of what it kept; make it one of Use::many to ask "
            "again");
  EXPECT_EQ(MessageOf([&] { tape.watch(y); }),
            "watch: the tape has given its gradient; make another one, or one of Use::many");
}

TEST(AutodiffTape, AnOpWithoutAGradientIsNamedWithItsPlace) {
  const Tensor x = cast(Line(32), f32);
  Tape tape;
  tape.watch(x);
  const int line = __LINE__ + 1;
  const Quantized q = quantize(x, "f4e2m1");
  const Tensor y = sum(x * q.scale);
  EXPECT_EQ(MessageOf([&] { tape.gradient(y, {x}); }),
            "gradient: quantize (at autodiff_tape_test.cc:" + std::to_string(line) +
                ") has no gradient, and one would have to pass through it; put stop_gradient around its operand");
  // Where none would, it is no error.
  Tape other;
  other.watch(x);
  const Quantized unused = quantize(x, "f4e2m1");
  EXPECT_EQ(other.gradient(sum(x), {x})[0].size(), 32);
}

TEST(AutodiffTape, ErrorsOfCustomGradientsAndCheckpoints) {
  const Tensor x = Line(3), w = Line(3);
  const auto same = [](const Tensors& v) { return Tensors{v[0] * 1.0}; };
  {
    Tape tape;
    tape.watch(x);
    const Tensor y = custom_gradient({x}, same, [](const Tensors&) { return Tensors(); })[0];
    EXPECT_EQ(MessageOf([&] { tape.gradient(sum(y), {x}); }),
              "custom_gradient: its backward function gave 0 gradients for 1 inputs; give one for each, or an empty "
              "handle");
  }
  {
    Tape tape;
    tape.watch(x);
    const Tensor y = custom_gradient({x}, same, [](const Tensors&) { return Tensors{ones({2}, f64)}; })[0];
    EXPECT_EQ(MessageOf([&] { tape.gradient(sum(y), {x}); }),
              "custom_gradient: its backward function gave f64[2] for input 0, f64[3]; a gradient has the dims of its "
              "input and a floating type");
  }
  Tape tape;
  tape.watch({x, w});
  const int line = __LINE__ + 1;
  const auto uses_w = [&](const Tensors& v) { return mul(v[0], w); };
  EXPECT_EQ(MessageOf([&] { checkpoint(uses_w, {x}); }),
            "checkpoint: operand 1 of mul (at autodiff_tape_test.cc:" + std::to_string(line) +
                ") is watched by a tape and not one of the inputs, so its gradient would be lost; make it one of them");
  // Everything works on.
  EXPECT_EQ(tape.gradient(sum(x * w), {x})[0].to_bytes(), w.to_bytes());
}

// ---- with the tracer

struct Network {
  Tensors weights, biases;
  Network() {
    for (uint64_t i = 0; i < 3; ++i) {
      weights.push_back(cast(Uniform({6, 6}, -0.3, 0.3, i), f32));
      biases.push_back(zeros({6}));
    }
  }
  Tensor Loss(const Tensor& x, const Tensor& y) const {
    Tensor h = x;
    for (size_t i = 0; i < weights.size(); ++i) h = h + relu(matmul(h, weights[i]) + biases[i]) * 0.5;
    return mean(square(h - y));
  }
  Tensors Parameters() const {
    Tensors all = weights;
    all.insert(all.end(), biases.begin(), biases.end());
    return all;
  }
  void Update(const Tensors& grads, double rate) {
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = weights[i] - grads[i] * rate;
    for (size_t i = 0; i < biases.size(); ++i) biases[i] = biases[i] - grads[weights.size() + i] * rate;
  }
  // As one writes it by hand.
  Tensors GradientsByHand(const Tensor& x, const Tensor& y) const {
    Tensors inputs, actives;
    Tensor h = x;
    for (size_t i = 0; i < weights.size(); ++i) {
      inputs.push_back(h);
      actives.push_back(relu(matmul(h, weights[i]) + biases[i]));
      h = h + actives[i] * 0.5;
    }
    const Tensor difference = h - y;
    Tensor g = difference * (2.0 / static_cast<double>(difference.size()));
    Tensors dw(weights.size()), db(weights.size());
    for (size_t i = weights.size(); i-- > 0;) {
      const Tensor dz = where(actives[i] > 0.0, g * 0.5, 0.0);
      dw[i] = matmul(inputs[i], dz, true);
      db[i] = sum(dz, 0);
      g = g + matmul(dz, weights[i], false, true);
    }
    dw.insert(dw.end(), db.begin(), db.end());
    return dw;
  }
};

TEST(AutodiffTape, TheGradientsOfANetworkAreThoseByHand) {
  Network net;
  for (int step = 0; step < 20; ++step) {
    const Tensor x = cast(Uniform({5, 6}, -1, 1, 100 + step), f32), y = tanh(x);
    Tape tape;
    tape.watch(net.Parameters());
    const Tensors g = tape.gradient(net.Loss(x, y), net.Parameters()), hand = net.GradientsByHand(x, y);
    for (size_t i = 0; i < g.size(); ++i) {
      ExpectNear(g[i].to_vector<double>(), hand[i].to_vector<double>(), 1e-6, "parameter " + std::to_string(i));
    }
    net.Update(g, 0.1);
  }
}

void Train(Log& log, int steps, bool read) {
  Network net;
  for (int step = 0; step < steps; ++step) {
    const Tensor x = cast(Uniform({5, 6}, -1, 1, 100 + step % 7), f32), y = tanh(x);
    Tape tape;
    tape.watch(net.Parameters());
    const Tensor loss = net.Loss(x, y);
    net.Update(tape.gradient(loss, net.Parameters()), 0.1 / (1 + step));
    if (read) log.Add(loss);
  }
  for (const Tensor& p : net.Parameters()) log.Add(p);
}

TEST(AutodiffTape, ATrainingStepBecomesOneTrace) {
  for (bool read : {false, true}) {
    const int64_t before = MetricNow("version_runs");
    const std::vector<std::string> lines = RunBoth([&](Log& log) { Train(log, 60, read); });
    EXPECT_GT(MetricNow("version_runs") - before, 30) << Runtime::explain();
    int64_t longest = 0;
    for (const auto& v : deopt::Ledger::Get().versions())
      if (v.counters->runs.load() > 20) longest = std::max(longest, v.steps);
    // Three ops make the data, 18 the loss, 25 the gradients and 12 the update: all in one.
    EXPECT_EQ(longest, 58) << Runtime::explain();
  }
}

TEST(AutodiffTape, TheSameUnderDeopts) {
  for (const char* every : {"1", "2", "7"}) {
    auto options = HotAtOnce();
    options["deopt_every"] = every;
    RunBoth([&](Log& log) { Train(log, 25, true); }, options);
  }
}

TEST(AutodiffTape, WithoutATapeNothingIsNumbered) {
  const Tensor x = Line(3);
  const Tensor y = x * 2.0;
  EXPECT_EQ(y.waiting_impl()->number(), 0u);
  {
    Tape tape;
    EXPECT_EQ((x * 2.0).waiting_impl()->number(), 0u) << "nothing is watched";
    tape.watch(x);
    EXPECT_NE((x * 2.0).waiting_impl()->number(), 0u);
  }
  EXPECT_EQ((x * 2.0).waiting_impl()->number(), 0u) << "the tape is gone";
}

}  // namespace
}  // namespace tessera
