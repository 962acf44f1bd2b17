// What functions say of how their products are cut, on traces through them: whose word counts, what the tuner may try,
// and which sizes a result of tuning depends on.
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "tests/unit/tiers_code_testing.h"
#include "tests/unit/tuner_testing.h"
#include "tiers/function_schedule.h"
#include "tiers/generate.h"

namespace tessera {
namespace {

using tiers::HasChoices;
using tiers::LimitSpace;
using tiers::RememberedSchedule;
using tiers::ScheduleOf;
using tiers::SizesOfKey;
using tiers::SpacesOf;

constexpr char kText[] = R"(
func @plain(%x: tensor<M x K x f32>, %w: tensor<K x N x f32>) -> tensor<M x N x f32> {
  %y = matmul %x, %w
  return %y
}
func @cut(%x: tensor<M x K x f32>, %w: tensor<K x N x f32>) -> tensor<M x N x f32> with {schedule = "rows=24,nr=8"} {
  %y = matmul %x, %w
  return %y
}
func @outer(%x: tensor<M x K x f32>, %w: tensor<K x N x f32>) -> tensor<M x N x f32> with {schedule = "depth=48", space = "rows=8 rows=16"} {
  %a = call @cut(%x, %w)
  %b = call @plain(%x, %w)
  %y = add %a, %b
  return %y
}
func @both(%x: tensor<M x K x f32>, %w: tensor<K x N x f32>) -> tensor<M x N x f32> {
  %a = call @cut(%x, %w)
  %b = call @plain(%x, %w)
  %y = add %a, %b
  return %y
}
func @keyed(%x: tensor<M x K x f32>, %w: tensor<K x N x f32>) -> tensor<M x N x f32> with {space = "rows=8 rows=16", key = "K,N"} {
  %y = matmul %x, %w
  %z = relu %y
  return %z
}
)";

/// Keeps the version that calls of a function got.
class Traced {
 public:
  Traced(const char* name, int64_t m, int64_t k, int64_t n) : f_(*Function::parse(kText, name)), name_(name) {
    const Tensor x = ones({m, k}), w = ones({k, n});
    for (int i = 0; i < 20 && !version_; ++i) {
      f_.call({x, w});
      Runtime::wait_for_builds();
      for (const auto& anchor : tiers::Manager::Get().anchors())
        for (const auto& v : anchor->versions())
          if (IsMine(*v)) version_ = v;
    }
  }
  bool ok() const { return static_cast<bool>(version_); }
  const tracer::Trace& trace() const { return version_->trace(); }
  const tracer::Trace& example() const { return *version_->example; }

 private:
  bool IsMine(const tiers::Version& v) const {
    return !v.trace().is_eager && !v.trace().frames.empty() && v.trace().frames[0].code->name == name_;
  }
  Function f_;
  std::string name_;
  rt::Ref<tiers::Version> version_;
};

class TiersFunctionSchedule : public ::testing::Test {
 protected:
  void SetUp() override { Reset(); }
  void TearDown() override { Reset(); }
  static void Reset() {
    tiers::Manager::Get().Reset();
    deopt::Ledger::Get().Clear();
  }
  OptionScope scope_{HotAtOnce()};
};

TEST_F(TiersFunctionSchedule, TheNearestFunctionSpeaks) {
  const Traced cut("cut", 8, 6, 4), plain("plain", 8, 6, 4);
  ASSERT_TRUE(cut.ok() && plain.ok());
  EXPECT_EQ(ScheduleOf(cut.trace(), ""), "p0:rows=24,nr=8");
  EXPECT_EQ(ScheduleOf(cut.trace(), "p0:rows=8+p7:nr=4"), "p0:rows=24,nr=8,rows=8+p7:nr=4");
  EXPECT_EQ(ScheduleOf(plain.trace(), ""), "");
  EXPECT_EQ(ScheduleOf(plain.trace(), "p0:rows=8"), "p0:rows=8");
  const Traced outer("outer", 8, 6, 4), both("both", 8, 6, 4);
  ASSERT_TRUE(outer.ok() && both.ok());
  EXPECT_EQ(ScheduleOf(outer.trace(), ""), "p0:rows=24,nr=8+p1:depth=48");
  EXPECT_EQ(ScheduleOf(both.trace(), ""), "p0:rows=24,nr=8");
}

TEST_F(TiersFunctionSchedule, SpacesTakeThePlaceOfTheCompilers) {
  const Traced cut("cut", 8, 6, 4), plain("plain", 8, 6, 4), outer("outer", 8, 6, 4), both("both", 8, 6, 4);
  ASSERT_TRUE(cut.ok() && plain.ok() && outer.ok() && both.ok());
  EXPECT_FALSE(HasChoices(cut.trace())) << "its schedule is said";
  EXPECT_TRUE(HasChoices(plain.trace()));
  EXPECT_TRUE(HasChoices(outer.trace()));
  const std::string space = "p0 form=library rows=64\np1 form=library nr=8\n";
  EXPECT_EQ(LimitSpace(plain.trace(), space), space);
  EXPECT_EQ(LimitSpace(both.trace(), space), "p1 form=library nr=8\n");
  EXPECT_EQ(LimitSpace(outer.trace(), space), "p1 rows=8 rows=16\n");
  EXPECT_EQ(SpacesOf(outer.trace()), "p1 rows=8 rows=16\n");
}

TEST_F(TiersFunctionSchedule, TheKeyNamesSizes) {
  const Traced keyed("keyed", 8, 6, 4), plain("plain", 8, 6, 4);
  ASSERT_TRUE(keyed.ok() && plain.ok());
  EXPECT_EQ(SizesOfKey(keyed.trace(), keyed.example()), "0.K=6,0.N=4");
  EXPECT_FALSE(SizesOfKey(plain.trace(), plain.example()));
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  Reset();
  const Traced other("keyed", 16, 6, 4);
  Reset();
  const Traced deeper("keyed", 8, 12, 4);
  ASSERT_TRUE(other.ok() && deeper.ok());
  EXPECT_FALSE(RememberedSchedule(keyed.trace(), keyed.example()));
  tiers::RememberSchedule(keyed.trace(), keyed.example(), "p0:rows=16");
  EXPECT_EQ(RememberedSchedule(keyed.trace(), keyed.example()), "p0:rows=16");
  EXPECT_EQ(RememberedSchedule(other.trace(), other.example()), "p0:rows=16") << "M is not in the key";
  EXPECT_FALSE(RememberedSchedule(deeper.trace(), deeper.example())) << "K is";
}

/// The tuner goes through the function's own space and nothing else.
TEST_F(TiersFunctionSchedule, TunesWithinTheSpace) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  Settings settings = CodeAtOnce({3, true}, /*bitwise=*/false);
  settings["tune_after"] = "0";
  settings["tune_budget"] = "60000";  // a busy machine takes its time for all three
  const OptionScope scope(settings);
  Reset();
  const Function f = *Function::parse(kText, "keyed");
  const Tensor x = ones({96, 80}), w = ones({80, 112});
  const int64_t start = rt::NowNs();
  while (Runtime::explain().find("tuned: ") == std::string::npos && rt::NowNs() - start < 60'000'000'000) {
    for (int i = 0; i < 50; ++i) {
      const std::vector<float> y = f.call({x, w}).to_vector<float>();
      ASSERT_EQ(y[7], 80);
    }
  }
  EXPECT_NE(Runtime::explain().find("tuned: 3 schedules tried"), std::string::npos) << Runtime::explain();
}

/// The compiler fails for the last one that is tried: what was the fastest until then is kept, and not compiled again.
TEST_F(TiersFunctionSchedule, AScheduleThatDoesNotCompileIsNotKept) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  Settings settings = CodeAtOnce({3, true}, /*bitwise=*/false);
  settings["tune_after"] = "0";
  settings["tune_budget"] = "60000";
  settings["cache"] = "false";
  const OptionScope scope(settings);
  Reset();
  tiers::ForgetTunings();
  const Function f = *Function::parse(kText, "keyed");
  const Tensor x = ones({96, 80}), w = ones({80, 112});
  const int64_t start = rt::NowNs(), made = MetricNow("codes_made");
  // The compiler's own choice is made, and the first of the two.
  rt::ArmFault(rt::Fault::compile, 3);
  while (Runtime::explain().find("tuned: ") == std::string::npos && rt::NowNs() - start < 60'000'000'000) {
    for (int i = 0; i < 50; ++i) ASSERT_EQ(f.call({x, w}).to_vector<float>()[7], 80);
  }
  rt::ArmFault(rt::Fault::compile, 0);
  const Tuned tuned = TunedIn(Runtime::explain());
  ASSERT_EQ(tuned.times.size(), 3u) << Runtime::explain();
  EXPECT_EQ(tuned.times.at("p0:rows=16"), -1);
  EXPECT_GT(tuned.times.at("the first"), 0);
  EXPECT_GT(tuned.times.at("p0:rows=8"), 0);
  EXPECT_NE(tuned.best, "p0:rows=16");
  EXPECT_EQ(MetricNow("codes_made"), made + 2);
}

}  // namespace
}  // namespace tessera
