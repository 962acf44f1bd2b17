// Calls that go from the program straight into a version, without a frame of the interpreter: that they are made, and
// that nobody can tell.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "interp/interrupt.h"
#include "runtime/metrics.h"
#include "tests/unit/tiers_function_testing.h"

namespace tessera {
namespace {

using testing::Program;
using testing::WithOptions;
using Settings = std::vector<std::pair<std::string, std::string>>;

const Settings kHot = {{"tier", "3"},         {"background", "false"}, {"hot_loop", "2"},
                       {"hot_function", "2"}, {"hot_exit", "2"},       {"profit_gate", "false"},
                       {"deopt_every", "0"},  {"chaos_seed", "0"},     {"deopt_pin", "1000"}};

// Those of the first runs that are timed go the usual way.
constexpr int kUsual = 24;

Tensor Ramp(int64_t n, double from) { return iota({n}, 0, from, 0.25, f32); }

struct Case {
  const char* name;
  const char* text;
  bool is_at_once;                                         // in the end
  std::function<std::vector<Tensor>(int turn)> arguments;  // of each call
};

const Case kCases[] = {
    {"chain", R"(func @f(%x: tensor<5 x f32>, %y: tensor<5 x f32>) -> tensor<5 x f32> {
      %a = mul %x, %y
      %b = add %a, %y
      return %b
    })",
     true, [](int i) { return std::vector<Tensor>{Ramp(5, i), Ramp(5, -i)}; }},
    {"one_tensor_twice", R"(func @f(%x: tensor<5 x f32>, %y: tensor<5 x f32>) -> tensor<5 x f32> {
      %a = mul %x, %y
      %b = sub %a, %y
      return %b
    })",
     true,
     [](int i) {
       const Tensor x = Ramp(5, i);
       return std::vector<Tensor>{x, i % 3 == 0 ? Ramp(5, 2) : x};
     }},
    {"results_of_all_kinds", R"(func @f(%x: tensor<4 x 3 x f32>) -> (tensor<4 x 3 x f32>, tensor<3 x 4 x f32>,
        tensor<4 x 3 x f32>, tensor<4 x 3 x f32>, tensor<4 x f32>) {
      %a = mul %x, 2.0
      %t = transpose %a {perm = [1, 0]}
      %s = sum %a {axes = [1]}
      return %a, %t, %a, %x, %s
    })",
     true, [](int i) { return std::vector<Tensor>{reshape(Ramp(12, i), {4, 3})}; }},
    {"buffers", R"(buffer @w : tensor<5 x f32>
    func @f(%x: tensor<5 x f32>) -> tensor<5 x f32> {
      %w = buffer_read {buffer = "w"} : tensor<5 x f32>
      %a = mul %x, %w
      %b = add %a, 1.0
      return %b
    })",
     true, [](int i) { return std::vector<Tensor>{Ramp(5, i)}; }},
    {"an_op_that_fails", R"(func @f(%w: tensor<4 x 3 x f32>, %i: tensor<2 x i64>) -> tensor<2 x 3 x f32> {
      %a = mul %w, 2.0
      %e = embedding %a, %i
      %b = add %e, 1.0
      return %b
    })",
     true,
     [](int i) {
       return std::vector<Tensor>{reshape(Ramp(12, i), {4, 3}),
                                  Tensor::from(std::vector<int64_t>{i % 4, i % 7 == 5 ? 4 : 0})};
     }},
    {"arguments_that_are_wrong", R"(func @f(%x: tensor<5 x f32>, %y: tensor<5 x f32>) -> tensor<5 x f32> {
      %a = mul %x, %y
      %b = add %a, %y
      return %b
    })",
     true,
     [](int i) {
       const std::vector<Tensor> all[] = {{Ramp(5, i), Ramp(5, 1)},
                                          {Ramp(5, i), Ramp(6, 1)},
                                          {Ramp(5, i)},
                                          {Ramp(5, i), Ramp(5, 1).cast(f64)},
                                          {Ramp(5, i), reshape(Ramp(5, 1), {5, 1})},
                                          {Ramp(5, i), Ramp(5, 1), Ramp(5, 2)}};
       return i % 5 == 4 ? all[static_cast<size_t>(i / 5) % std::size(all)] : all[0];
     }},
    {"a_parameter_that_nobody_reads", R"(func @f(%x: tensor<5 x f32>, %y: tensor<5 x f32>) -> tensor<5 x f32> {
      %a = mul %x, %x
      %b = add %a, 1.0
      return %b
    })",
     false, [](int i) { return std::vector<Tensor>{Ramp(5, i), i % 5 == 4 ? Ramp(7, 1) : Ramp(5, 1)}; }},
    {"memory_that_is_no_row", R"(func @f(%x: tensor<4 x 3 x f32>, %y: tensor<4 x 3 x f32>) -> tensor<4 x 3 x f32> {
      %a = mul %x, %y
      %b = add %a, %y
      return %b
    })",
     true,
     [](int i) {
       const Tensor x = reshape(Ramp(12, i), {4, 3}), t = transpose(reshape(Ramp(12, 1), {3, 4}), {1, 0});
       return std::vector<Tensor>{x, i % 6 == 5 ? t : x};
     }},
    {"symbols", R"(func @f(%x: tensor<N x f32>, %y: tensor<N x f32>) -> tensor<N x f32> {
      %a = mul %x, %y
      %b = add %a, %y
      return %b
    })",
     true, [](int i) { return std::vector<Tensor>{Ramp(i % 9 == 8 ? 6 : 5, i), Ramp(i % 9 == 8 ? 6 : 5, -i)}; }},
    {"a_branch", R"(func @f(%x: tensor<5 x f32>, %p: tensor<bool>) -> tensor<5 x f32> {
      %r = if %p -> (tensor<5 x f32>) {
        %a = add %x, 1.0
        yield %a
      } else {
        %b = sub %x, 1.0
        yield %b
      }
      return %r
    })",
     false, [](int i) { return std::vector<Tensor>{Ramp(5, i), Tensor::scalar(i % 6 != 5)}; }},
};

class CallsAtOnceCase : public ::testing::TestWithParam<Case> {};

TEST_P(CallsAtOnceCase, AreLikeThoseOfTheInterpreter) {
  const Case& c = GetParam();
  constexpr int kCalls = 100;
  const auto seen = [&](const Settings& settings, bool* is_at_once) {
    WithOptions options(settings);
    Program program(c.text);
    for (int i = 0; i < kUsual; ++i) program.Call(c.arguments(0));
    for (int i = 0; i < kCalls; ++i) {
      program.Call(c.arguments(i));
      if (i == 0) *is_at_once = program.instance().program->functions[0]->anchors.front().at_once.load();
    }
    return program.seen();
  };
  bool is_at_once = false, never = false;
  const std::vector<std::string> expected = seen({{"tier", "1"}}, &never);
  EXPECT_EQ(seen(kHot, &is_at_once), expected);
  EXPECT_EQ(is_at_once, c.is_at_once);
  EXPECT_FALSE(never);
}

INSTANTIATE_TEST_SUITE_P(All, CallsAtOnceCase, ::testing::ValuesIn(kCases), [](const auto& p) { return p.param.name; });

const char* const kChain = kCases[0].text;

TEST(CallsAtOnce, AreCounted) {
  WithOptions options(kHot);
  Program program(kChain);
  for (int i = 0; i < kUsual; ++i) program.Call({Ramp(5, 0), Ramp(5, 1)});
  const auto metric = [](rt::Metric m) { return rt::SnapshotMetrics()[static_cast<size_t>(m)]; };
  const int64_t calls = metric(rt::Metric::functions_called), runs = metric(rt::Metric::version_runs),
                instructions = metric(rt::Metric::instructions_run);
  for (int i = 0; i < 50; ++i) program.Call({Ramp(5, i), Ramp(5, 1)});
  EXPECT_EQ(metric(rt::Metric::functions_called) - calls, 50);
  EXPECT_EQ(metric(rt::Metric::version_runs) - runs, 50);
  EXPECT_EQ(metric(rt::Metric::instructions_run), instructions);
}

TEST(CallsAtOnce, EndWhenOptionsChange) {
  WithOptions options(kHot);
  Program program(kChain);
  for (int i = 0; i < kUsual; ++i) program.Call({Ramp(5, 0), Ramp(5, 1)});
  const auto runs = [] { return rt::SnapshotMetrics()[static_cast<size_t>(rt::Metric::version_runs)]; };
  WithOptions interpreter({{"tier", "1"}});
  const int64_t before = runs();
  for (int i = 0; i < 10; ++i) program.Call({Ramp(5, 0), Ramp(5, 1)});
  EXPECT_EQ(runs(), before);
  EXPECT_EQ(program.seen().back(), program.seen().front());
}

TEST(CallsAtOnce, AreInterrupted) {
  WithOptions options(kHot);
  Program program(kChain);
  for (int i = 0; i < kUsual; ++i) program.Call({Ramp(5, 0), Ramp(5, 1)});
  interp::RequestInterrupt();
  program.Call({Ramp(5, 0), Ramp(5, 1)});
  interp::ClearInterrupt();
  EXPECT_EQ(program.seen().back(), "error interrupted");
  program.Call({Ramp(5, 0), Ramp(5, 1)});
  EXPECT_EQ(program.seen().back(), program.seen().front());
}

// While others call, options change, so that versions are dropped and made anew.
TEST(CallsAtOnce, ThreadsShareVersions) {
  WithOptions options(kHot);
  const Function f = Function::parse(kChain).value();
  std::vector<std::thread> threads;
  std::atomic<bool> failed{false};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const Tensor x = Ramp(5, t), y = Ramp(5, 1);
      const std::vector<float> first = f.call({x, y}).to_vector<float>();
      for (int i = 0; i < 3000; ++i)
        if (f.call({x, y}).to_vector<float>() != first) failed = true;
    });
  }
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    Runtime::set_option("fast_math", i % 2 == 0 ? "true" : "false").ok();
  }
  for (std::thread& t : threads) t.join();
  EXPECT_FALSE(failed);
}

}  // namespace
}  // namespace tessera
