// What versions with generated kernels hold: values that fusion removed are in no memory, until their steps run after
// all.
#include <gtest/gtest.h>

#include "runtime/fault.h"
#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 512, kColumns = 1024, kBytes = kRows * kColumns * 4;

constexpr char kChain[] = R"(func @f(%x: tensor<512 x 1024 x f32>) -> tensor<512 x 1024 x f32> {
    %a = mul %x, 0.5
    %b = tanh %a
    %c = add %b, %x
    %d = exp %c
    %e = sub %d, %x
    return %e
  })";
constexpr char kSoftmax[] = R"(func @f(%x: tensor<512 x 1024 x f32>) -> tensor<512 x 1024 x f32> {
    %a = max %x {axes = [1], keepdims = true}
    %b = sub %x, %a
    %c = exp %b
    %d = sum %c {axes = [1], keepdims = true}
    %e = div %c, %d
    return %e
  })";

// The most that the pool had in use in a call once all is built, beyond the argument.
int64_t PeakOf(const char* text, const Tensor& x, const Settings& settings) {
  OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  const Function f = Function::parse(text).value();
  for (int i = 0; i < 12; ++i) f.call({x}).to_bytes();
  Runtime::trim_memory(Device::cpu());
  const int64_t before = Runtime::memory(Device::cpu()).bytes_in_use;
  // What the version holds between calls counts too.
  int64_t held = 0;
  for (const auto& a : tiers::Manager::Get().anchors())
    for (const auto& v : a->versions()) held += v->bytes();
  Runtime::reset_peak_memory(Device::cpu());
  f.call({x});
  return Runtime::memory(Device::cpu()).peak_bytes - before + held;
}

TEST(TiersMemory, WhatFusionRemovedTakesNone) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  const Tensor x = Uniform({kRows, kColumns}, 1);
  for (const char* text : {kChain, kSoftmax}) {
    for (const Way way : {Way{2, true}, Way{3, true}}) {
      SCOPED_TRACE(NameOf(way));
      const int64_t before = MetricNow("kernels_generated");
      const int64_t tier1 = PeakOf(text, x, {{"tier", "1"}}),
                    code = PeakOf(text, x, CodeAtOnce(way, /*bitwise=*/false));
      EXPECT_GT(MetricNow("kernels_generated"), before) << Runtime::explain();
      EXPECT_LT(code, tier1) << text;
      EXPECT_LT(code, 2 * kBytes) << "the result, and nothing else of its size: " << text;
    }
  }
}

// Large values and small ones in turns: a small one does not keep a place for itself that a large one then takes over.
TEST(TiersMemory, ValuesShareBySize) {
  std::string text = "func @f(%v0: tensor<512 x 1024 x f32>) -> tensor<f32> {\n";
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    text += "  %s" + n + " = max %v" + n + " {axes = [0, 1]}\n  %w" + n + " = sub %v" + n + ", %s" + n + "\n  %t" + n +
            " = exp %s" + n + "\n  %v" + next + " = mul %w" + n + ", %t" + n + "\n";
  }
  text += "  %y = max %v8 {axes = [0, 1]}\n  return %y\n}";
  OptionScope scope({{"tier", "3"},
                     {"background", "false"},
                     {"profit_gate", "false"},
                     {"hot_function", "3"},
                     {"compile_after", "1000000000"}});
  tiers::Manager::Get().Reset();
  const Tensor x = Uniform({kRows, kColumns}, 1);
  const Function f = Function::parse(text).value();
  for (int i = 0; i < 12; ++i) f.call({x}).to_bytes();
  int64_t held = 0;
  for (const auto& a : tiers::Manager::Get().anchors())
    for (const auto& v : a->versions()) held += v->bytes();
  EXPECT_GT(held, 0) << Runtime::explain();
  EXPECT_LT(held, 2 * kBytes + kBytes / 2) << "two that live at a time, and numbers";
}

// An eager chain that is read in the middle now and then: the steps of a kernel run up to there.
TEST(TiersMemory, StepsRunInPlaceOfTheKernelAllTheSame) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  RunEveryWay([](Log& log) {
    const Tensor x = Uniform({64, 256}, 1);
    Tensor held;
    for (int i = 0; i < 60; ++i) {
      const Tensor a = x * 0.5;
      const Tensor b = tanh(a) + x;
      if (i % 16 == 15) log.Add(b);
      const Tensor c = exp(b) - a;
      if (i % 16 == 7) held = b;
      log.Add(c);
    }
    log.Add(held);
  });
  Settings deopts = CodeAtOnce({2, true});
  deopts["deopt_every"] = "3";
  const std::string text = kSoftmax;
  RunBoth(
      [&](Log& log) {
        const Function f = Function::parse(text).value();
        for (int i = 0; i < 20; ++i) log.Add(f.call({Uniform({kRows, kColumns}, 7)}));
      },
      deopts);
}

TEST(TiersMemory, NoneForThemIsAnErrorLikeAnyOther) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  OptionScope scope(CodeAtOnce({2, true}));
  tiers::Manager::Get().Reset();
  const Tensor x = Uniform({64, 4096}, 1);
  const auto middle = [&](bool read) {
    const Tensor a = x * 0.5;
    const Tensor b = tanh(a) + x;
    if (read) return b.to_bytes();
    return (exp(b) - a).to_bytes();
  };
  for (int i = 0; i < 20; ++i) middle(false);
  const int64_t kernels = MetricNow("kernels_generated");
  middle(false);
  EXPECT_GT(MetricNow("kernels_generated"), kernels) << Runtime::explain();
  Runtime::trim_memory(Device::cpu());
  rt::ArmFault(rt::Fault::allocation, 1, -1);
  EXPECT_THROW(middle(true), Error);
  rt::DisarmFaults();
  EXPECT_EQ(middle(true).size(), size_t{64 * 4096 * 4});
}

}  // namespace
}  // namespace tessera
