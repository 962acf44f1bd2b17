// Inputs of eager versions that are the same tensors run after run: nothing of them is checked, and nothing may be
// missed for that.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/tiers_testing.h"

namespace tessera {
namespace {

Tensor Filled(int64_t n, float value) { return full({n}, value); }

// A step over all parameters.
Tensor Step(const Tensor& x, const std::vector<Tensor>& parameters) {
  Tensor v = x;
  for (const Tensor& p : parameters) v = v * 0.5 + p;
  return v;
}

int64_t RunsOf(const TestProgram& program) {
  const int64_t before = MetricNow("version_runs");
  RunBoth(program);
  return MetricNow("version_runs") - before;
}

TEST(TiersInputs, TheSameTensorsEachTime) {
  const auto program = [](Log& log) {
    std::vector<Tensor> parameters;
    for (int i = 0; i < 5; ++i) parameters.push_back(Filled(8, static_cast<float>(i)));
    Tensor x = Filled(8, 1);
    for (int i = 0; i < 60; ++i) {
      x = Step(x, parameters);
      if (i % 4 == 3) log.Add(x);
    }
  };
  EXPECT_GT(RunsOf(program), 20);
}

TEST(TiersInputs, AnotherTensorInTheirPlace) {
  const auto program = [](Log& log) {
    std::vector<Tensor> parameters;
    for (int i = 0; i < 4; ++i) parameters.push_back(Filled(8, static_cast<float>(i)));
    const Tensor x = Filled(8, 1);
    for (int i = 0; i < 120; ++i) {
      log.Add(Step(x, parameters));
      // Dropped first, so that the next one may lie where it was.
      if (i % 9 == 8) {
        Tensor& p = parameters[static_cast<size_t>(i / 9 % 4)];
        p = Tensor();
        p = Filled(8, static_cast<float>(i));
      }
      if (i % 31 == 30) std::swap(parameters[0], parameters[3]);
    }
  };
  EXPECT_GT(RunsOf(program), 40);
}

TEST(TiersInputs, AnotherTypeInTheirPlace) {
  const auto program = [](Log& log) {
    std::vector<Tensor> parameters = {Filled(8, 1), Filled(8, 2), Filled(8, 3)};
    const Tensor x = Filled(8, 1);
    for (int i = 0; i < 80; ++i) {
      if (i == 40) parameters[1] = Filled(1, 5);
      if (i == 50) parameters[1] = full({8}, 6, DType::f64);
      if (i == 60) parameters[1] = Filled(16, 7)[{{0, 16, 2}}];
      if (i == 70) parameters[1] = parameters[0];
      log.Add(Step(x, parameters));
    }
  };
  EXPECT_GT(RunsOf(program), 20);
}

TEST(TiersInputs, WrittenByTheHost) {
  const auto program = [](Log& log) {
    std::vector<Tensor> parameters = {Filled(8, 1), Filled(8, 2), Filled(8, 3)};
    const Tensor x = Filled(8, 1), other = parameters[2];
    for (int i = 0; i < 80; ++i) {
      log.Add(Step(x, parameters));
      if (i % 7 != 6) continue;
      auto view = parameters[1].write<float>();
      for (size_t k = 0; k < 8; ++k) view[k] = static_cast<float>(i) + static_cast<float>(k);
      parameters[2].write<float>()[0] = static_cast<float>(i);
      log.Add(other);
    }
  };
  EXPECT_GT(RunsOf(program), 30);
}

TEST(TiersInputs, WritingCopiesNothing) {
  OptionScope scope(HotAtOnce());
  tiers::Manager::Get().Reset();
  const Tensor x = Filled(8, 1);
  std::vector<Tensor> parameters = {Filled(8, 1), Filled(8, 2), Filled(8, 3)};
  for (int i = 0; i < 40; ++i) Step(x, parameters).read<float>();
  // A version that keeps it lets go of it.
  const float* before = parameters[1].read<float>().data();
  parameters[1].write<float>()[0] = 4;
  EXPECT_EQ(parameters[1].read<float>().data(), before);
}

TEST(TiersInputs, TheyBecomeResults) {
  // Parameters that stay for a while and are then replaced by what was computed from them.
  const auto program = [](Log& log) {
    std::vector<Tensor> parameters = {Filled(256, 1), Filled(256, 2), Filled(256, 3)};
    const Tensor x = Filled(256, 1);
    for (int i = 0; i < 90; ++i) {
      Tensor y = Step(x, parameters);
      if (i % 6 == 5) parameters[static_cast<size_t>(i % 3)] = y;
      log.Add(sum(y));
    }
    for (const Tensor& p : parameters) log.Add(p);
  };
  EXPECT_GT(RunsOf(program), 20);
}

TEST(TiersInputs, OnlySmallOnesLiveOn) {
  OptionScope scope(HotAtOnce());
  tiers::Manager::Get().Reset();
  const auto in_use = [] { return Runtime::memory(Device::cpu()).bytes_in_use; };
  constexpr int64_t kMany = 1 << 18;
  const Tensor x = Filled(kMany, 1);
  std::vector<Tensor> parameters = {Filled(kMany, 1), Filled(kMany, 2)};
  for (int i = 0; i < 40; ++i) Step(x, parameters).read<float>();
  const int64_t before = in_use();
  parameters.clear();
  EXPECT_LE(in_use(), before - 2 * kMany * static_cast<int64_t>(sizeof(float)));
}

}  // namespace
}  // namespace tessera
