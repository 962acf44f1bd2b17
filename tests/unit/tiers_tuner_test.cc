// The tuner: what it tries, what it keeps, and that a program's results stay within their bounds while it tries.
#include "runtime/clock.h"
#include "temp_folder.h"
#include "tests/unit/tiers_code_testing.h"
#include "tests/unit/tuner_testing.h"
#include "tiers/generate.h"
#include "tiers/profile.h"
#include "tiers/tuner.h"

namespace tessera {
namespace {

using tiers::Tuner;

/// Runs the tuner to its end with these times for schedules (those that are not named take `otherwise`).
std::vector<std::string> Tried(Tuner& tuner, const std::map<std::string, int64_t>& times, int64_t otherwise,
                               int64_t compile_ns = 1) {
  std::vector<std::string> tried;
  std::string schedule;  // the first is the compiler's own choice
  for (int i = 0; i < 100; ++i) {
    tried.push_back(schedule);
    const auto it = times.find(schedule);
    tuner.Measured(it == times.end() ? otherwise : it->second, compile_ns);
    if (tuner.done()) break;
    schedule = tuner.Next();
  }
  return tried;
}

TEST(TiersTuner, KeepsWhatWasFastest) {
  Tuner tuner("p0 rows=8 rows=16 form=library\np3 nr=4 nr=8\n", 1000);
  const auto tried = Tried(tuner, {{"", 100}, {"p0:rows=16", 80}, {"p0:rows=16+p3:nr=4", 60}}, 120);
  EXPECT_EQ(tried, (std::vector<std::string>{"", "p0:rows=8", "p0:rows=16", "p0:form=library", "p0:rows=16+p3:nr=4",
                                             "p0:rows=16+p3:nr=8"}));
  EXPECT_EQ(tuner.best(), "p0:rows=16+p3:nr=4");
  EXPECT_TRUE(tuner.times().starts_with("the first 0.1 us, p0:rows=8 0.1 us, ")) << tuner.times();
  EXPECT_EQ(tuner.Next(), tuner.best());
}

TEST(TiersTuner, TheFirstMayBeTheBest) {
  Tuner tuner("p0 rows=8 rows=16\n", 1000);
  // A little faster may be chance.
  Tried(tuner, {{"", 100}, {"p0:rows=8", 99}}, 101);
  EXPECT_EQ(tuner.best(), "");
}

TEST(TiersTuner, EndsWithItsBudget) {
  Tuner tuner("p0 rows=8 rows=16 rows=32 rows=64\n", 30);
  EXPECT_EQ(Tried(tuner, {}, 100, 10).size(), 3u);
}

TEST(TiersTuner, NothingToChoose) {
  EXPECT_TRUE(Tuner("", 1000).empty());
  EXPECT_TRUE(Tuner("p0\n", 1000).empty());
  EXPECT_TRUE(Tuner("\n\n", 1000).done());
}

TEST(TiersTuner, TriesOnRunsOfTheProgramAndRemembers) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  Settings settings = CodeAtOnce({3, true}, /*bitwise=*/false);
  settings["tune_after"] = "0";
  settings["hot_eager"] = "1000000";
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  const Tensor a = Uniform({96, 80}, 1), b = Uniform({80, 112}, 2);
  const std::vector<double> x = a.to_vector<double>(), z = b.to_vector<double>();
  const int64_t start = rt::NowNs();
  int64_t calls = 0;
  while (Runtime::explain().find("tuned: ") == std::string::npos && rt::NowNs() - start < 60'000'000'000) {
    for (int i = 0; i < 50; ++i, ++calls) {
      Tensor y;
      {
        const Step step;
        y = relu(matmul(a, b));
      }
      if (i > 0) {
        (void)y.impl();
        continue;
      }
      const std::vector<double> got = y.to_vector<double>();
      for (size_t r = 0; r < 96; r += 19)
        for (size_t c = 0; c < 112; c += 7) {
          double sum = 0;
          for (size_t k = 0; k < 80; ++k) sum += x[r * 80 + k] * z[k * 112 + c];
          ASSERT_NEAR(got[r * 112 + c], std::max(sum, 0.0), 1e-3);
        }
    }
  }
  EXPECT_NE(Runtime::explain().find("schedules tried"), std::string::npos) << calls << "\n" << Runtime::explain();
  ExpectTheFastest(Runtime::explain(), 3);
}

TEST(TiersTuner, AProfileHasWhatItChose) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  Settings settings = CodeAtOnce({3, true}, /*bitwise=*/false);
  settings["tune_after"] = "0";
  settings["tune_budget"] = "300";  // a few of them will do
  settings["hot_eager"] = "1000000";
  settings["cache"] = "false";
  const OptionScope scope(settings);
  const Tensor a = Uniform({64, 72}, 1), b = Uniform({72, 88}, 2);
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const Step step;
      (void)relu(matmul(a, b)).impl();
    }
  };
  const auto begin = [] {
    tiers::Manager::Get().Reset();
    deopt::Ledger::Get().Clear();
    tiers::ForgetTunings();
  };
  begin();
  const int64_t start = rt::NowNs();
  while (Runtime::explain().find("tuned: ") == std::string::npos && rt::NowNs() - start < 60'000'000'000) run(50);
  ASSERT_NE(Runtime::explain().find("schedules tried"), std::string::npos) << Runtime::explain();
  const tracer::TunedChoices chosen = tiers::TuningsInUse();
  ASSERT_EQ(chosen.size(), 1u);
  const TempFolder folder;
  const std::string path = (folder.path() / "profile").string();
  ASSERT_TRUE(Runtime::save_profile(path).ok());

  // Another process: nothing is tried again.
  begin();
  EXPECT_TRUE(tiers::TuningsInUse().empty());
  ASSERT_TRUE(Runtime::load_profile(path).ok());
  const int64_t codes = MetricNow("codes_made");
  run(400);
  EXPECT_GE(MetricNow("codes_made"), codes + 1);
  EXPECT_LE(MetricNow("codes_made"), codes + 2) << Runtime::explain();
  EXPECT_EQ(Runtime::explain().find("tuned: "), std::string::npos) << Runtime::explain();
  EXPECT_EQ(tiers::TuningsInUse(), chosen);
  const std::string& schedule = chosen.begin()->second;
  if (!schedule.empty()) {
    EXPECT_NE(Runtime::explain().find("cut as " + schedule), std::string::npos) << Runtime::explain();
  }
  tiers::Profile::Get().Clear();
  EXPECT_EQ(tiers::TuningsInUse(), chosen) << "they were used";
  begin();
}

}  // namespace
}  // namespace tessera
