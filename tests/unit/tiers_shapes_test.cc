// Versions that get another shape in every run: all that follows from it is worked out anew, and nothing of the last
// one is left.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/tiers_code_testing.h"
#include "tests/unit/tiers_testing.h"

namespace tessera {
namespace {

/// From the host, so that no op of a trace makes it.
Tensor Values(const Dims& dims, int seed) {
  int64_t size = 1;
  for (int64_t dim : dims) size *= dim;
  std::vector<float> values(static_cast<size_t>(size));
  uint32_t state = static_cast<uint32_t>(seed) * 2654435761u + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return Tensor::from(values, dims);
}

/// Sizes without a pattern, from 2 to 300: with rows of 16, small results and such as are larger than what is repeated
/// for a loop.
int64_t SizeAt(int i) { return 2 + i * 131 % 299; }

/// Ops of all kinds that are bound in different ways: loops, numbers, rows and elements that are repeated, products,
/// sums.
Tensor Layer(const Tensor& x, const Tensor& w, const Tensor& bias, double rate) {
  const Tensor h = relu(matmul(x, w) + bias);
  const Tensor scale = sum(square(h)) * 1e-3;
  return where(h > 0.25, h * rate, 0.5) + x / (scale + 1.0) - bias * 0.5;
}

/// Runs it in tier 1 and in versions; gives the part of its ops that ran in these.
double PartInVersions(const TestProgram& program) {
  int64_t version_ops = 0, executed = 0;
  bool is_second = false;
  RunBoth([&](Log& log) {
    if (is_second) {
      version_ops = -MetricNow("version_ops");
      executed = -MetricNow("ops_executed");
    }
    program(log);
    is_second = true;
  });
  version_ops += MetricNow("version_ops");
  executed += MetricNow("ops_executed");
  return static_cast<double>(version_ops) / static_cast<double>(version_ops + executed);
}

/// Versions are built while others run, made ready for their first run on the thread that builds, and evicted.
TEST(TiersShapes, TwoThreadsWhileVersionsAreBuiltAndEvicted) {
  auto program = [](Log& log) {
    constexpr int kThreads = 2, kRounds = 150;
    std::vector<std::vector<Tensor>> results(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t, &results] {
        const Tensor w = Values({16, 16}, t), bias = Values({16}, t + 1);
        for (int i = 0; i < kRounds; ++i) {
          const Tensor y = Layer(Values({SizeAt(i), 16}, i), w, bias, 0.1 * i);
          // Two more places, so that there are more versions than may stay.
          const Tensor z = tanh(y * 0.5) + y;
          if (i % 10 == 0) results[static_cast<size_t>(t)].push_back(sum(z));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<Tensor>& list : results)
      for (const Tensor& result : list) log.Add(result);
  };
  const int64_t recorded = MetricNow("traces_recorded");
  auto options = HotAtOnce();
  options["background"] = "true";
  options["version_count"] = "1";
  RunBoth(program, options);
  tiers::Manager::Get().Drain();
  EXPECT_LE(tiers::Manager::Get().num_versions(), 1);
  EXPECT_GT(MetricNow("traces_recorded"), recorded);
}

TEST(TiersShapes, AnotherOneInEveryRound) {
  const double part = PartInVersions([](Log& log) {
    const Tensor w = Values({16, 16}, 1), bias = Values({16}, 2);
    for (int i = 0; i < 120; ++i)
      log.Add(Layer(Values({SizeAt(i), 16}, 10 + i), w, bias, 1.0 / static_cast<double>(1 + i)));
  });
  EXPECT_GT(part, 0.5);
}

constexpr const char* kFunction = R"(
buffer @calls : tensor<f32>
func @f(%x: tensor<B x S x 16 x f32>, %w: tensor<16 x 16 x f32>, %b: tensor<16 x f32>) -> tensor<B x S x 16 x f32> {
  %n = buffer_read {buffer = "calls"}
  %more = add %n, 1.0
  buffer_write %more {buffer = "calls"}
  %p = matmul %x, %w
  %h = add %p, %b
  %g = mul %h, 0.5
  %keep = gt %g, 0.25
  %y = where %keep, %g, %more
  %s = sum %y {axes = [0, 1]}
  %z = sub %y, %s
  return %z
}
)";

TEST(TiersShapes, OfFunctions) {
  const double part = PartInVersions([](Log& log) {
    const Function f = Function::parse(kFunction).value();
    ASSERT_TRUE(f.module().set_buffer("calls", Tensor::scalar(0.0f)).ok());
    const Tensor w = Values({16, 16}, 1), b = Values({16}, 2);
    for (int i = 0; i < 120; ++i) log.Add(f.call({Values({2 + i % 3, SizeAt(i), 16}, i), w, b}));
  });
  EXPECT_GT(part, 0.3);
}

/// Token numbers below 16 from the host.
Tensor Numbers(const Dims& dims, int seed) {
  std::vector<int64_t> numbers(static_cast<size_t>(dims[0] * dims[1]));
  for (size_t k = 0; k < numbers.size(); ++k)
    numbers[k] = static_cast<int64_t>((k * 7 + static_cast<size_t>(seed)) % 16);
  return Tensor::from(numbers, dims);
}

// The shape rule of a slice does not promise that a stop lies within the dim. It always did, so the result has the dim
// that the stop says, which later ops agree with: code is generated for all of them.
TEST(TiersShapes, BatchesThatAreCutOff) {
  RunEveryWay(
      [](Log& log) {
        const Tensor table = Values({16, 8}, 1), positions = Values({64, 8}, 2), bias = Values({8}, 3);
        for (int i = 0; i < 40; ++i) {
          const int64_t length = 2 + i * 37 % 61;
          const Tensor x = slice(Numbers({4, 64}, i), {0, 0}, {4, length});
          const Tensor h = embedding(table, x) + embedding(positions, arange(length));
          log.Add(softmax(h * 0.5 + bias));
        }
      },
      /*kernels=*/true, {}, kTwoWays);
}

// The same until stops lie beyond the end.
TEST(TiersShapes, StopsBeyondTheEnd) {
  RunEveryWay(
      [](Log& log) {
        const Tensor bias = Values({8}, 3);
        for (int i = 0; i < 60; ++i) {
          const int64_t stop = i < 30 ? 3 + i * 37 % 61 : 60 + i * 5 % 17;
          const Tensor x = slice(Values({64, 8}, i), {0}, {stop});
          const Tensor y = tanh(x * 2.0 + bias);
          log.Add(absl::StrJoin(y.dims(), ","));
          log.Add(y);
          log.Add(arange(stop) * 3);
        }
      },
      /*kernels=*/true, {}, kTwoWays);
}

// A step that makes a dim is not asked again where nothing before it has changed; what comes after it may disagree.
TEST(TiersShapes, DimsThatAgreeForAWhile) {
  for (const bool by_input : {false, true}) {
    SCOPED_TRACE(by_input);
    RunEveryWay(
        [by_input](Log& log) {
          const Tensor data = Values({64, 8}, 1);
          for (int i = 0; i < 80; ++i) {
            const int64_t start = i < 30 ? i * 37 % 61 : 5;
            const int64_t count = i < 50 ? 64 - start : 3 + i * 11 % 29;
            const Tensor x = slice(data, {start, 0}, {64, 8});
            const Tensor y = tanh(x * 2.0) + 1.0;
            const Tensor z = by_input ? Values({count, 8}, i) * 3.0 - 1.0 : cast(arange(count), f32) * 3.0 - 1.0;
            log.Add(sum(y, 0));
            log.Add(y);
            log.Add(z);
          }
        },
        /*kernels=*/true, {}, kTwoWays);
  }
}

// Handles can be asked for dims and strides before anything is computed, and windows have those of what they look at.
TEST(TiersShapes, OfHandlesThatWait) {
  const double part = PartInVersions([](Log& log) {
    const Tensor bias = Values({16}, 2);
    for (int i = 0; i < 80; ++i) {
      const int64_t n = SizeAt(i);
      const Tensor x = Values({n, 16}, i), y = x * 2.0 + bias;
      const Tensor t = transpose(y), half = reshape(y, {n, 2, 8}), z = t + 1.0;
      const auto describe = [&](const Tensor& v) {
        log.Add(absl::StrCat(absl::StrJoin(v.dims(), ","), " by ", absl::StrJoin(v.strides(), ",")));
      };
      for (const Tensor& v : {y, t, half, z}) describe(v);
      log.Add(sum(half, 1));
      log.Add(z);
    }
  });
  EXPECT_GT(part, 0.3);
}

// One symbol is known from the first op on, the other one only when its input comes.
TEST(TiersShapes, SymbolsThatComeLater) {
  const double part = PartInVersions([](Log& log) {
    for (int i = 0; i < 120; ++i) {
      const Tensor x = Values({SizeAt(i / 3), 4}, i), y = Values({SizeAt(i % 3 == 0 ? i : 7), 4}, 500 + i);
      const Tensor a = x * 0.5 + 1.0, b = y * 0.25 - 1.0;
      log.Add(sum(a, 0) + sum(b, 0));
      log.Add(matmul(a, b, false, true) * 2.0);
    }
  });
  EXPECT_GT(part, 0.3);
}

// What the program holds from earlier rounds stays as it is, whoever drops it and whenever.
TEST(TiersShapes, HandlesFromEarlierRounds) {
  PartInVersions([](Log& log) {
    const Tensor w = Values({16, 16}, 1), bias = Values({16}, 2);
    std::deque<Tensor> held;
    for (int i = 0; i < 90; ++i) {
      const Tensor x = Values({SizeAt(i), 16}, i), a = x * 0.5, b = a + bias;
      Tensor c = matmul(b, w);
      if (i % 5 == 2) held.push_back(b);
      if (i % 7 == 3) std::thread([gone = std::move(c)] {}).join();
      log.Add(tanh(b) - a);
      if (held.size() > 3) {
        log.Add(held.front());
        held.pop_front();
      }
    }
    for (const Tensor& h : held) log.Add(h);
  });
}

// A version has the memory of its first run before that comes.
TEST(TiersShapes, VersionsAreReadyBeforeTheyRun) {
  OptionScope scope(HotAtOnce());
  tiers::Manager::Get().Reset();
  const Tensor w = Values({16, 16}, 1), bias = Values({16}, 2);
  const int64_t made = MetricNow("versions_made"), runs = MetricNow("version_runs");
  for (int i = 0; i < 60 && MetricNow("versions_made") == made; ++i)
    Layer(Values({SizeAt(i), 16}, i), w, bias, 0.5).to_vector<float>();
  ASSERT_GT(MetricNow("versions_made"), made);
  ASSERT_EQ(MetricNow("version_runs"), runs);
  bool found = false;
  for (const auto& anchor : tiers::Manager::Get().anchors()) {
    for (const auto& version : anchor->versions()) {
      found = true;
      EXPECT_EQ(version->handles(), 1);
      EXPECT_GT(version->bytes(), 0);
    }
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace tessera
