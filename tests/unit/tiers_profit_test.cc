// The profit gate: like is compared with like. No time is measured here: the gate is told times.
#include <gtest/gtest.h>

#include "runtime/clock.h"
#include "tests/unit/tiers_function_testing.h"
#include "tests/unit/tiers_testing.h"
#include "tiers/costs.h"

namespace tessera {
namespace {

using tiers::Costs;

TEST(TiersCosts, TimesAreOfOneSize) {
  Costs costs;
  EXPECT_EQ(costs.Of(100), 0);
  costs.Add(100, 1000);
  EXPECT_EQ(costs.Of(100), 1000);
  EXPECT_DOUBLE_EQ(costs.Of(64), 820);  // half of it grows
  EXPECT_EQ(costs.Of(128), 0);
  EXPECT_EQ(costs.Of(63), 0);
  costs.Add(100, 1500);
  EXPECT_EQ(costs.Of(100), 1000) << "the best counts";
  costs.Add(120, 1050);
  EXPECT_EQ(costs.Of(120), 1050) << "better, for its size";
  EXPECT_EQ(costs.Count(100), 3);
  EXPECT_EQ(costs.Count(1000), 0);
  costs.Add(0, 7);
  EXPECT_EQ(costs.Of(0), 7);
}

TEST(TiersCosts, OnlyWhatBothKnowIsCompared) {
  Costs a, b;
  EXPECT_EQ(Costs::Compare(a, b).a, 0);
  a.Add(10, 50);
  b.Add(1000, 700);
  EXPECT_EQ(Costs::Compare(a, b).a, 0);
  EXPECT_EQ(Costs::Compare(a, b).b, 0);
  a.Add(1000, 600);
  EXPECT_EQ(Costs::Compare(a, b).a, 600);
  EXPECT_EQ(Costs::Compare(a, b).b, 700);
  b.Merge(a);
  EXPECT_EQ(Costs::Compare(a, b).a, 650);
  EXPECT_EQ(Costs::Compare(a, b).b, 650);
  EXPECT_EQ(b.Count(1000), 2);
}

constexpr char kProgram[] = R"(func @f(%x: tensor<N x 8 x f32>) -> tensor<N x 8 x f32> {
  %a = mul %x, 0.5
  %b = tanh %a
  %c = add %b, %x
  return %c
})";

// A function whose version serves any number of rows.
class ProfitGate : public ::testing::Test {
 protected:
  ProfitGate()
      : options_({{"tier", "2"},
                  {"background", "false"},
                  {"hot_function", "2"},
                  {"compile_after", "1000000000"},
                  {"profit_gate", "false"},
                  {"deopt_generalise", "1"}}) {
    tiers::Manager::Get().Reset();
    deopt::Ledger::Get().Clear();
    for (int64_t rows : {2, 4, 3, 40, 50, 60, 70}) Call(rows);
    for (const auto& a : tiers::Manager::Get().anchors())
      for (const auto& v : a->versions()) {
        anchor_ = a;
        version_ = v;
      }
    EXPECT_NE(anchor_, nullptr) << Runtime::explain();
    if (version_) EXPECT_NE(version_->rung(), deopt::Rung::exact);
  }
  void Call(int64_t rows) { program_.Call({iota({rows, 8}, 0, 0.5, 1.0, f32)}); }
  // Two rounds of sixteen: the first may have been under way.
  void AddRuns(int64_t ns, int64_t size) {
    for (int i = 0; i < 32; ++i) tiers::Manager::Get().AddRun(*anchor_, *version_, ns, 1, size);
  }
  // Elements of all values: an argument and three results.
  static int64_t SizeOf(int64_t rows) { return 4 * rows * 8; }

  OptionScope options_;
  testing::Program program_{kProgram};
  std::shared_ptr<tiers::Anchor> anchor_;
  rt::Ref<tiers::Version> version_;
};

TEST_F(ProfitGate, LargeShapesAreNotHeldAgainstTimesOfSmallOnes) {
  ASSERT_NE(anchor_, nullptr);
  OptionScope gate({{"profit_gate", "true"}});
  EXPECT_GT(version_->tier1_costs->Of(SizeOf(50)), 0);
  // A thousand times as large, a thousand times as long.
  version_->tier1_costs->Add(SizeOf(50'000), 40'000'000);
  AddRuns(30'000'000, SizeOf(50'000));
  EXPECT_FALSE(version_->dead) << Runtime::explain();
  AddRuns(90'000'000, SizeOf(50'000));
  EXPECT_TRUE(version_->dead) << Runtime::explain();
  EXPECT_NE(Runtime::explain().find("for shapes of that size"), std::string::npos) << Runtime::explain();
}

// A replay that looks a little slower than tier 1 waits for its code; the code has to be faster.
TEST_F(ProfitGate, AReplayIsNotDroppedWhileItsCodeIsToCome) {
  ASSERT_NE(anchor_, nullptr);
  OptionScope gate({{"profit_gate", "true"}});
  const int64_t size = SizeOf(50'000);
  version_->tier1_costs->Add(size, 40'000'000);
  ASSERT_EQ(version_->code(), nullptr);
  AddRuns(50'000'000, size);
  EXPECT_FALSE(version_->dead) << Runtime::explain();
  version_->awaits_code.store(false);  // as where there is no compiler
  AddRuns(50'000'000, size);
  EXPECT_TRUE(version_->dead) << Runtime::explain();
}

// A function with code of tier 2, which was timed at 4 us.
class ProfitGateCode : public ::testing::Test {
 protected:
  ProfitGateCode()
      : options_({{"tier", "3"},
                  {"background", "false"},
                  {"hot_function", "2"},
                  {"compile_after", "0"},
                  {"specialise_after", "1000"},
                  {"tune_budget", "0"},
                  {"profit_gate", "false"}}) {
    manager_.Reset();
    deopt::Ledger::Get().Clear();
    for (int i = 0; i < 4; ++i) program_.Call({iota({8, 8}, 0, 0.5, 1.0, f32)});
    for (const auto& a : manager_.anchors())
      if (!a->versions().empty()) anchor_ = a;
  }
  void SetUp() override {
    ASSERT_NE(anchor_, nullptr) << Runtime::explain();
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
    Run(4'000, 1);
    ASSERT_EQ(Live()->tier, 2) << Runtime::explain();
    ASSERT_TRUE(rt::options().Set("profit_gate", "true").ok());
    Live()->tier1_costs->Clear();
  }
  rt::Ref<tiers::Version> Live() { return anchor_->versions().at(0); }
  // What it replaced took that long.
  void SetReplaced(int64_t ns) {
    Live()->replaced.costs->Clear();
    Live()->replaced.costs->Add(kSize, ns);
  }
  void Run(int64_t ns, int n) {
    for (int i = 0; i < n; ++i) manager_.AddRun(*anchor_, *Live(), ns, 1, kSize);
  }

  static constexpr int64_t kSize = 256;
  OptionScope options_;
  tiers::Manager& manager_ = tiers::Manager::Get();
  testing::Program program_{kProgram};
  std::shared_ptr<tiers::Anchor> anchor_;
};

TEST_F(ProfitGateCode, TierThreeGivesWayToTierTwo) {
  while (Live()->tier == 2) Run(4'000, 1);
  ASSERT_EQ(Live()->tier, 3) << Runtime::explain();
  SetReplaced(4'000);
  // A little slower: it takes a while until that is believed.
  Run(4'500, 32);
  ASSERT_EQ(Live()->tier, 3) << Runtime::explain();
  Run(4'500, 64);
  ASSERT_EQ(Live()->tier, 2) << Runtime::explain();
  EXPECT_NE(Live()->code(), nullptr);
  EXPECT_NE(Runtime::explain().find("code of tier 3 took"), std::string::npos) << Runtime::explain();
  // It is there to stay.
  Run(4'500, 256);
  EXPECT_EQ(Live()->tier, 2) << Runtime::explain();
}

TEST_F(ProfitGateCode, WhereTierTwoIsSlowTierThreeIsTried) {
  SetReplaced(4'000);
  Run(9'000, 16);
  ASSERT_EQ(Live()->tier, 1) << Runtime::explain();
  EXPECT_EQ(Live()->code(), nullptr);
  EXPECT_NE(Runtime::explain().find("replay 4000 ns"), std::string::npos) << Runtime::explain();
  for (int i = 0; i < 1000 && Live()->tier == 1; ++i) Run(4'000, 1);
  ASSERT_EQ(Live()->tier, 3) << Runtime::explain();
  // And where that is slow as well, replay is the end.
  Run(9'000, 16);
  ASSERT_EQ(Live()->tier, 1) << Runtime::explain();
  Run(4'000, 1000);
  EXPECT_EQ(Live()->tier, 1) << Runtime::explain();
}

// Nothing is put off for ever, however short the calls are.
TEST(ProfitGateHot, ShortFunctionsAreRecordedInTheEnd) {
  OptionScope options({{"tier", "2"}, {"background", "false"}, {"profit_gate", "true"}});
  tiers::Manager::Get().Reset();
  testing::Program program(kProgram);
  const int64_t hot = rt::options().hot_function(), recorded = MetricNow("traces_recorded");
  for (int64_t i = 0; i < hot - 1; ++i) program.Call({iota({8, 8}, 0, 0.5, 1.0, f32)});
  EXPECT_EQ(MetricNow("traces_recorded"), recorded);
  for (int64_t i = 0; i < 3 * hot; ++i) program.Call({iota({8, 8}, 0, 0.5, 1.0, f32)});
  EXPECT_GT(MetricNow("traces_recorded"), recorded);
}

TEST_F(ProfitGate, TierOneIsTimedAgainForShapesOfAnotherSize) {
  ASSERT_NE(anchor_, nullptr);
  OptionScope gate({{"profit_gate", "true"}});
  // The options of a trace are those under which it was recorded: a version of this configuration.
  for (int64_t rows : {2, 4, 3, 40, 50, 60, 70}) Call(rows);
  for (const auto& v : anchor_->versions()) version_ = v;
  ASSERT_NE(version_->rung(), deopt::Rung::exact);
  const int64_t size = SizeOf(5000);
  ASSERT_EQ(version_->tier1_costs->Count(size), 0);
  AddRuns(1'000'000'000, size);
  EXPECT_FALSE(version_->dead) << "nothing is known of tier 1 for this size";
  const int64_t recorded = MetricNow("traces_recorded"), runs = MetricNow("version_runs");
  Call(5000);
  EXPECT_EQ(MetricNow("traces_recorded"), recorded + 1);
  EXPECT_EQ(MetricNow("version_runs"), runs);
  EXPECT_EQ(version_->tier1_costs->Count(size), 1);
  AddRuns(int64_t{1} << 50, size);
  EXPECT_TRUE(version_->dead) << Runtime::explain();
}

// Whole stretches of eager ops, made as long as the test likes. Those of the larger shape fail a guard of the version
// and are made long then, which says nothing of the version.
TEST(ProfitGateEager, WhatNoVersionServesIsNotHeldAgainstIt) {
  OptionScope options({{"tier", "2"},
                       {"background", "false"},
                       {"hot_eager", "4"},
                       {"compile_after", "1000000000"},
                       {"deopt_generalise", "1000"},
                       {"profit_gate", "true"}});
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  const Tensor small = iota({8, 8}, 0, 0.5, 1.0, f32), large = iota({64, 8}, 0, 0.5, 1.0, f32);
  const auto step = [](const Tensor& x) {
    const int64_t deopts = MetricNow("deopts");
    Tensor y = tanh(x * 0.5) + x;
    for (int k = 0; k < 8; ++k) y = y * 0.5 + x;  // so much that the version itself pays on any machine
    sum(y).item<float>();
    const int64_t end = rt::NowNs() + (MetricNow("deopts") > deopts ? 3'000'000 : 200'000);
    while (rt::NowNs() < end) {
    }
  };
  for (int i = 0; i < 12; ++i) step(small);
  const int64_t runs = MetricNow("version_runs"), deopts = MetricNow("deopts");
  for (int i = 0; i < 120; ++i) step(i % 3 == 0 ? large : small);
  EXPECT_GE(MetricNow("version_runs"), runs + 40) << Runtime::explain();
  EXPECT_GE(MetricNow("deopts"), deopts + 20) << Runtime::explain();
  EXPECT_EQ(Runtime::explain().find("stays in tier 1"), std::string::npos) << Runtime::explain();
}

}  // namespace
}  // namespace tessera
