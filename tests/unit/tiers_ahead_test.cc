// Versions that run ahead of their branches: what a program sees is what it sees without, whatever the branches do.
#include <gtest/gtest.h>

#include "runtime/metrics.h"
#include "tests/unit/tiers_function_testing.h"

namespace tessera {
namespace {

using testing::Program;
using testing::WithOptions;
using Settings = std::vector<std::pair<std::string, std::string>>;

struct Counts {
  int64_t ahead, lost;
};
Counts Now() {
  const auto metrics = rt::SnapshotMetrics();
  return {metrics[static_cast<size_t>(rt::Metric::runs_ahead)],
          metrics[static_cast<size_t>(rt::Metric::runs_ahead_lost)]};
}

Tensor Number(int64_t n) { return Tensor::scalar(n); }
Tensor Ramp(int64_t n, double first = 1.0) { return iota({n}, 0, first, 0.5, f32); }

class RunAhead : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto device = rt::FindDevice(GetParam());
    if (!device.ok()) GTEST_SKIP() << device.status();
    device_ = *device;
  }
  bool on_gpu() const { return device_->kind() == rt::DeviceKind::cuda; }

  /// Runs the calls in tier 1 and with so many iterations ahead, with replays and with generated code, and compares
  /// everything that was seen. Returns what was counted over all of the latter.
  Counts Compare(const std::string& text, const std::vector<std::vector<Tensor>>& calls, const Settings& more = {}) {
    Program expected(text, *device_);
    {
      WithOptions options({{"tier", "1"}});
      for (const auto& call : calls) expected.Call(call);
    }
    const Counts before = Now();
    for (const char* ahead : {"1", "2", "5", "62"}) {
      for (const char* compile_after : {"-1", "0"}) {
        Settings settings = {{"tier", "3"},         {"background", "false"}, {"hot_loop", "2"},
                             {"hot_function", "2"}, {"hot_exit", "1000000"}, {"profit_gate", "false"},
                             {"deopt_every", "0"},  {"chaos_seed", "0"},     {"deopt_pin", "1000000"},
                             {"run_ahead", ahead},  {"bitwise", "true"}};
        if (compile_after[0] == '0') settings.push_back({"compile_after", "0"});
        settings.insert(settings.end(), more.begin(), more.end());
        WithOptions options(settings);
        Program program(text, *device_);
        for (const auto& call : calls) program.Call(call);
        EXPECT_EQ(program.seen().size(), expected.seen().size());
        for (size_t i = 0; i < expected.seen().size() && i < program.seen().size(); ++i)
          EXPECT_EQ(program.seen()[i], expected.seen()[i]) << "ahead " << ahead << ", seen " << i;
      }
    }
    const Counts after = Now();
    return {after.ahead - before.ahead, after.lost - before.lost};
  }

  rt::Device* device_ = nullptr;
};

std::vector<std::vector<Tensor>> Times(int n, const std::vector<Tensor>& args) {
  return {static_cast<size_t>(n), args};
}

// The state is carried, and what it was an iteration ago, too; the loop ends when it is small enough.
const char kUntilSmall[] =
    R"(func @f(%x: tensor<N x f32>, %limit: tensor<f32>) -> (tensor<N x f32>, tensor<N x f32>, tensor<i64>) {
    %n, %r, %before = while (%i = 0, %a = %x, %b = %x) -> (tensor<i64>, tensor<N x f32>, tensor<N x f32>) {
      %m = max %a {axes = [0]}
      %go = gt %m, %limit
      yield %go
    } do {
      %j = add %i, 1
      %c = mul %a, 0.75
      %d = sub %c, 0.01
      yield %j, %d, %a
    }
    return %r, %before, %n
  })";

TEST_P(RunAhead, ALoopEndsWhereItsConditionDoes) {
  std::vector<std::vector<Tensor>> calls = Times(5, {Ramp(7), Tensor::scalar(1e-3f)});
  for (float limit : {100.0f, 2.0f, 1.0f, 0.5f, 1e-2f, 0.0f}) calls.push_back({Ramp(7), Tensor::scalar(limit)});
  const Counts counts = Compare(kUntilSmall, calls);
  EXPECT_GT(counts.ahead, 200);
  EXPECT_GT(counts.lost, 8);
  EXPECT_LT(counts.lost, counts.ahead);
}

TEST_P(RunAhead, NaNEndsIt) {
  Tensor x = Ramp(4);
  x.write<float>()[2] = NAN;
  Compare(kUntilSmall, {{Ramp(4), Tensor::scalar(1e-3f)},
                        {Ramp(4), Tensor::scalar(1e-3f)},
                        {Ramp(4), Tensor::scalar(1e-3f)},
                        {x, Tensor::scalar(1e-3f)}});
}

TEST_P(RunAhead, BranchesInsideACountedLoop) {
  const Counts counts =
      Compare(R"(func @f(%x: tensor<N x f32>, %n: tensor<i64>, %turn: tensor<i64>) -> (tensor<N x f32>, tensor<i64>) {
    %r, %turns = for %i in (0, %n, 1) (%a = %x, %t = 0) -> (tensor<N x f32>, tensor<i64>) {
      %k = mod %i, %turn
      %odd = eq %k, 3
      %b, %u = if %odd -> (tensor<N x f32>, tensor<i64>) {
        %c = neg %a
        %v = add %t, 1
        yield %c, %v
      } else {
        %d = add %a, 0.25
        yield %d, %t
      }
      yield %b, %u
    }
    return %r, %turns
  })",
              {{Ramp(3), Number(40), Number(17)},
               {Ramp(3), Number(40), Number(17)},
               {Ramp(3), Number(40), Number(5)},
               {Ramp(3), Number(40), Number(100)},
               {Ramp(3), Number(0), Number(5)},
               {Ramp(3), Number(1), Number(5)}});
  EXPECT_GT(counts.ahead, 40);
}

// The last round of the counter meets branches that nobody has looked at.
TEST_P(RunAhead, ACountedLoopEndsWhileABranchIsAhead) {
  std::vector<std::vector<Tensor>> calls;
  for (int64_t n : {9, 9, 9, 4, 5, 6, 7, 8, 9, 10, 3, 2, 1}) calls.push_back({Ramp(3), Number(n), Number(n - 2)});
  for (int64_t n : {4, 5, 6, 7, 8, 9, 10}) calls.push_back({Ramp(3), Number(n), Number(n - 1)});
  const char text[] = R"(func @f(%x: tensor<N x f32>, %n: tensor<i64>, %turn: tensor<i64>) -> tensor<N x f32> {
    %r = for %i in (0, %n, 1) (%a = %x) -> (tensor<N x f32>) {
      %late = eq %i, %turn
      %b = if %late -> (tensor<N x f32>) {
        %c = neg %a
        yield %c
      } else {
        %d = add %a, 0.25
        yield %d
      }
      yield %b
    }
    return %r
  })";
  Compare(text, calls);
  // With bridges, which go past the counter and do not go round themselves.
  Compare(text, calls, {{"hot_exit", "1"}});
}

TEST_P(RunAhead, AFunctionThatBranches) {
  std::vector<std::vector<Tensor>> calls = Times(20, {Ramp(5)});
  calls.push_back({Ramp(5, -9)});
  calls.insert(calls.end(), 20, {Ramp(5)});
  calls.push_back({Ramp(5, -9)});
  calls.push_back({Ramp(5, 50)});
  const Counts counts = Compare(R"(func @f(%x: tensor<N x f32>) -> tensor<N x f32> {
    %y = mul %x, 2.0
    %s = sum %y {axes = [0]}
    %positive = gt %s, 0.0
    %z = if %positive -> (tensor<N x f32>) {
      %a = sqrt %y
      yield %a
    } else {
      %c = neg %y
      yield %c
    }
    %t = sum %z {axes = [0]}
    %small = lt %t, 30.0
    %w = if %small -> (tensor<N x f32>) {
      %b = add %z, %t
      yield %b
    } else {
      yield %z
    }
    return %w
  })",
                                calls);
  EXPECT_GT(counts.ahead, 8);
  EXPECT_GT(counts.lost, 0);
}

// Of an iteration that should not have been nobody hears.
TEST_P(RunAhead, ErrorsOfIterationsThatNeverWere) {
  const char text[] = R"(func @f(%x: tensor<N x f32>, %n: tensor<i64>) -> tensor<f32> {
    %last, %r = while (%i = 0, %s = 0.0) -> (tensor<i64>, tensor<f32>) {
      %go = lt %i, %n
      yield %go
    } do {
      %id = reshape %i {dims = [1]}
      %t = take %x, %id {axis = 0}
      %u = reshape %t {dims = []}
      %v = add %s, %u
      %j = add %i, 1
      yield %j, %v
    }
    return %r
  })";
  const Counts counts = Compare(text, Times(5, {Ramp(30), Number(30)}));
  // Kernels of GPUs find such an error when they run, so those loops read their branches.
  if (on_gpu())
    EXPECT_EQ(counts.ahead, 0);
  else
    EXPECT_GT(counts.lost, 0);
  // One that was to be is met.
  if (!on_gpu())
    Compare(text, {{Ramp(30), Number(30)}, {Ramp(30), Number(30)}, {Ramp(30), Number(31)}, {Ramp(30), Number(9)}});
}

TEST_P(RunAhead, ForcedExitsInBetween) {
  for (const char* every : {"1", "2", "5", "13"})
    Compare(kUntilSmall, Times(6, {Ramp(6), Tensor::scalar(1e-3f)}), {{"deopt_every", every}});
  for (const char* seed : {"1", "2", "3"})
    Compare(kUntilSmall, Times(6, {Ramp(6), Tensor::scalar(1e-3f)}), {{"chaos_seed", seed}});
}

TEST_P(RunAhead, NothingLeaks) {
  rt::Device& device = *device_;
  const auto in_use = [&] {
    EXPECT_TRUE(device.Synchronize().ok());
    return device.memory_stats().bytes_in_use;
  };
  Compare(kUntilSmall, Times(3, {Ramp(1000), Tensor::scalar(1e-3f)}));
  const int64_t before = in_use();
  for (int i = 0; i < 3; ++i) Compare(kUntilSmall, Times(3, {Ramp(1000), Tensor::scalar(1e-3f)}));
  EXPECT_EQ(in_use(), before);
}

INSTANTIATE_TEST_SUITE_P(Devices, RunAhead, ::testing::Values("cpu", "cuda"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace tessera
