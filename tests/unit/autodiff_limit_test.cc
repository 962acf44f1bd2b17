// Tapes that may keep only so much: the gradients are the same, and the rest is computed again.
#include <cmath>
#include <functional>
#include <random>

#include "autodiff_testing.h"
#include "runtime/log.h"
#include "tiers_testing.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 64, kDim = 32, kHeads = 4;

Tensor Random(const Dims& dims, int64_t seed) {
  manual_seed(seed);
  return randn(dims, f32) * 0.3;
}

// A transformer block: products, views, a norm, attention, an activation, dropout.
Tensor Block(const Tensor& x, const Tensors& w, size_t first, bool dropout) {
  Tensor h = layer_norm(x, w[first], w[first + 1]);
  Tensors qkv = split(matmul(h, w[first + 2]), {kDim, kDim, kDim}, -1);
  for (Tensor& t : qkv) t = transpose(reshape(t, {kRows, kHeads, kDim / kHeads}), {1, 0, 2});
  Tensor a = reshape(transpose(attention(qkv[0], qkv[1], qkv[2]), {1, 0, 2}), {kRows, kDim});
  Tensor y = x + matmul(a, w[first + 3]);
  Tensor m = gelu(matmul(y, w[first + 4]));
  if (dropout) m = m * where(rand({kRows, 4 * kDim}, f32) < 0.9, Tensor::scalar(1.0f), Tensor::scalar(0.0f));
  return y + matmul(m, w[first + 5]);
}

Tensors Weights(int blocks) {
  Tensors w;
  for (int i = 0; i < blocks; ++i) {
    w.push_back(full({kDim}, 1.0));
    w.push_back(Random({kDim}, 10 * i + 1));
    w.push_back(Random({kDim, 3 * kDim}, 10 * i + 2));
    w.push_back(Random({kDim, kDim}, 10 * i + 3));
    w.push_back(Random({kDim, 4 * kDim}, 10 * i + 4));
    w.push_back(Random({4 * kDim, kDim}, 10 * i + 5));
  }
  return w;
}

Tensor Model(const Tensor& x, const Tensors& w, bool dropout) {
  Tensor h = x;
  for (size_t i = 0; i < w.size(); i += 6) h = Block(h, w, i, dropout);
  return mean(square(h));
}

struct Outcome {
  std::vector<std::vector<std::byte>> bytes;
  int64_t kept = 0;
};

Outcome Differentiate(int64_t limit, const std::function<Tensor(const Tensors&)>& f, const Tensors& w) {
  const int64_t before = Runtime::memory(Device::cpu()).bytes_in_use;
  manual_seed(77);
  Outcome outcome;
  Tape tape;
  tape.limit(limit);
  tape.watch(w);
  const Tensor y = f(w);
  outcome.kept = Runtime::memory(Device::cpu()).bytes_in_use - before;
  for (const Tensor& g : tape.gradient(y, w)) outcome.bytes.push_back(g.to_bytes());
  return outcome;
}

TEST(AutodiffLimit, GradientsAreTheSame) {
  OptionScope scope({{"tier", "1"}});
  const Tensors w = Weights(6);
  const Tensor x = Random({kRows, kDim}, 5);
  for (bool dropout : {false, true}) {
    const auto model = [&](const Tensors& v) { return Model(x, v, dropout); };
    const Outcome all = Differentiate(0, model, w);
    int64_t last = all.kept;
    for (const int64_t part : {75, 50, 25, 10}) {
      const int64_t limit = all.kept * part / 100;
      const Outcome some = Differentiate(limit, model, w);
      EXPECT_EQ(some.bytes, all.bytes) << part;
      // Masks of dropout do not follow from what is watched: they stay.
      EXPECT_LE(some.kept, dropout ? last : limit + (int64_t{64} << 10)) << part;
      last = some.kept;
    }
    // As little as can be: what was given, and nothing else.
    const Outcome none = Differentiate(1, model, w);
    EXPECT_EQ(none.bytes, all.bytes);
    if (!dropout) EXPECT_LT(none.kept, all.kept / 20);
  }
}

TEST(AutodiffLimit, CheapValuesGoFirst) {
  OptionScope scope({{"tier", "1"}});
  const Tensor w = Random({kDim, kDim}, 1), x = Random({4096, kDim}, 2);
  const auto chain = [&](const Tensors& v) { return sum(tanh(exp(matmul(x, v[0])))); };
  // The results of exp and of tanh are kept, 512 KiB each, and not that of the product.
  const int64_t one = 4096 * kDim * 4;
  std::string log;
  OptionScope debug({{"debug", "2"}});
  rt::SetLogSink([&](int, std::string_view line) { log += std::string(line) + "\n"; });
  const Outcome all = Differentiate(0, chain, {w}), some = Differentiate(one, chain, {w});
  rt::SetLogSink({});
  EXPECT_EQ(all.bytes, some.bytes);
  // To compute exp again takes the product, too: tanh goes.
  EXPECT_NE(log.find("kept " + std::to_string(one) + " of " + std::to_string(2 * one) + " bytes and ran 1 ops again"),
            std::string::npos)
      << log;
}

// 100 values of which nothing was kept are computed about sqrt(100) times, and take the memory of about so many.
TEST(AutodiffLimit, AChainOfWhichNothingWasKept) {
  OptionScope scope({{"tier", "1"}, {"debug", "2"}});
  const Tensor x = Random({1 << 16}, 1);
  const auto chain = [](const Tensors& v) {
    Tensor h = v[0];
    for (int i = 0; i < 100; ++i) h = tanh(h);
    return sum(h);
  };
  std::string log;
  rt::SetLogSink([&](int, std::string_view line) { log += std::string(line) + "\n"; });
  const auto peak = [&](int64_t limit, Outcome* outcome) {
    const int64_t before = Runtime::memory(Device::cpu()).bytes_in_use;
    Runtime::reset_peak_memory(Device::cpu());
    *outcome = Differentiate(limit, chain, {x});
    return Runtime::memory(Device::cpu()).peak_bytes - before;
  };
  Outcome all, none;
  const int64_t most = peak(0, &all), least = peak(1, &none);
  rt::SetLogSink({});
  EXPECT_EQ(all.bytes, none.bytes);
  EXPECT_LT(least, most / 4);
  const size_t at = log.find("bytes and ran ");
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_LT(std::stoi(log.substr(at + 14)), 100 * 15) << log;
}

TEST(AutodiffLimit, HigherOrder) {
  for (const int64_t limit : {0, 1, 100}) {
    OptionScope scope({{"tape_bytes", std::to_string(limit)}});
    CheckGradients(
        [](const Tensors& v) {
          Tape inner;
          inner.watch(v[0]);
          const Tensor y = sum(tanh(v[0] * v[1]) * exp(v[0]));
          return sum(inner.gradient(y, {v[0]})[0] * v[1]);
        },
        {Line(3), Line(3) * 0.5}, "limit " + std::to_string(limit));
  }
}

TEST(AutodiffLimit, CustomGradientsCheckpointsAndViews) {
  const Tensor x = Random({24, 8}, 3), w = Random({8, 8}, 4);
  const auto f = [&](const Tensors& v) {
    Tensor h = matmul(v[0], v[1]);
    h = custom_gradient(
        {h}, [](const Tensors& u) { return Tensors{u[0] * 2.0}; }, [](const Tensors& g) { return Tensors{g[0] * 2.0}; })[0];
    h = checkpoint([](const Tensors& u) { return tanh(matmul(u[0], u[1])); }, {h + 1.0, v[1]});
    Tensor t = transpose(h) * 0.5 + 1.0;               // a result that no op of the tape can make again, read later
    Tensor u = exp(reshape(t, {4, 48})) * flip(reshape(t, {4, 48}), {0});
    Tensor s = concat({slice(u, {0, 0}, {2, 48}), slice(u, {2, 0}, {4, 48}) * 2.0}, 0);
    return sum(square(s)) + sum(max(s, 1));
  };
  const Outcome all = Differentiate(0, f, {x, w});
  for (const int64_t limit : {1, 500, 1000, 2000, 4000}) EXPECT_EQ(Differentiate(limit, f, {x, w}).bytes, all.bytes) << limit;
}

TEST(AutodiffLimit, ATapeThatIsAskedOften) {
  const Tensor x = Line(64);
  Tape tape(Tape::Use::many);
  tape.limit(600);  // one value of 512 bytes
  tape.watch(x);
  const Tensor a = sum(exp(tanh(x))), b = sum(sin(x) * exp(x));
  for (int i = 0; i < 3; ++i) {
    const Tensor t = tanh(x);
    ExpectNear(tape.gradient(a, {x})[0].to_vector<double>(), (exp(t) * (1.0 - t * t)).to_vector<double>(), 1e-14, "a");
    ExpectNear(tape.gradient(b, {x})[0].to_vector<double>(), ((sin(x) + cos(x)) * exp(x)).to_vector<double>(), 1e-13, "b");
  }
}

// Chains, products, views and values that are used twice, with limits of all sizes.
TEST(AutodiffLimit, RandomPrograms) {
  for (int seed = 0; seed < 60; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    std::vector<std::array<size_t, 3>> program;
    for (int i = 0; i < 30; ++i) program.push_back({pick(9), pick(1000), pick(1000)});
    const auto f = [&](const Tensors& v) {
      Tensors values = v;
      for (const auto& [what, a, b] : program) {
        const Tensor &x = values[values.size() - 1 - a % std::min<size_t>(values.size(), 6)], &y = values[b % values.size()];
        switch (what) {
          case 0: values.push_back(tanh(x)); break;
          case 1: values.push_back(x * y * 0.5); break;
          case 2: values.push_back(tanh(matmul(x, y))); break;
          case 3: values.push_back(transpose(x)); break;
          case 4: values.push_back(reshape(reshape(x, {4, 16}) * 1.5, {8, 8})); break;
          case 5: values.push_back(softmax(x, -1)); break;
          case 6: values.push_back(maximum(x, y)); break;
          case 7: values.push_back(x - mean(y, {0}, true)); break;
          default: values.push_back(sin(x) + y); break;
        }
      }
      Tensor total = sum(values.back());
      for (size_t i = 3; i < values.size(); i += 4) total = total + mean(values[i]);
      return total;
    };
    const Tensors w = {Random({8, 8}, seed), Random({8, 8}, seed + 100)};
    const Outcome all = Differentiate(0, f, w);
    for (const int64_t limit : {1, 300, 1000, 3000}) ASSERT_EQ(Differentiate(limit, f, w).bytes, all.bytes) << seed << " " << limit;
  }
}

// The op stream is the same each time round, so a loop under a limit gets hot and is one version, which takes less too.
TEST(AutodiffLimit, VersionsTakeLessToo) {
  constexpr int kLayers = 8;
  Tensors first;
  for (int i = 0; i < kLayers; ++i) first.push_back(Random({16, 16}, i));
  const Tensor x = Random({2048, 16}, 99);  // 128 KiB, as each value of a layer
  const auto model = [&](const Tensors& v) {
    Tensor h = x;
    for (const Tensor& w : v) h = h + tanh(sin(matmul(h, w)));
    return mean(square(h));
  };
  const auto train = [&](int64_t limit, int64_t* peak) {
    auto options = HotAtOnce();
    options["hot_eager"] = "16";  // not a layer, before the step has come back
    options["bitwise"] = "true";
    options["tape_bytes"] = std::to_string(limit);
    OptionScope scope(options);
    tiers::Manager::Get().Reset();
    Tensors w = first;
    const int64_t ran = MetricNow("version_runs");
    for (int i = 0; i < 60; ++i) {
      if (i == 50) {
        tiers::Manager::Get().Drain();
        Runtime::reset_peak_memory(Device::cpu());
      }
      const Tensors g = grad(model, w);
      for (size_t k = 0; k < w.size(); ++k) w[k] = w[k] - g[k] * 0.1;
    }
    std::vector<std::vector<std::byte>> bytes;
    for (const Tensor& t : w) bytes.push_back(t.to_bytes());
    *peak = Runtime::memory(Device::cpu()).peak_bytes;
    EXPECT_GT(MetricNow("version_runs"), ran) << Runtime::explain();
    tiers::Manager::Get().Reset();
    return bytes;
  };
  int64_t all = 0, some = 0;
  const auto want = train(0, &all);
  EXPECT_TRUE(train(9 * 128 << 10, &some) == want);
  EXPECT_LT(some, all * 3 / 4);
}

TEST(AutodiffLimit, Errors) {
  const Tensor x = Line(3);
  Tape tape;
  EXPECT_EQ(MessageOf([&] { tape.limit(-1); }), "limit: -1 bytes; 0 is no limit");
  tape.watch(x);
  EXPECT_EQ(MessageOf([&] { tape.limit(100); }), "limit: the tape knows values already; say it before watch()");
}

}  // namespace
}  // namespace tessera
