// Host numbers of eager ops that are always the same: code of tier 3 has them built in, behind a guard.
#include <cmath>
#include <limits>

#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

class TiersNumbers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
  static Settings Tier3() { return CodeAtOnce({3, true}); }

  struct Numbers {
    int fixed = 0, varying = 0;
  };
  /// Of the traces of all versions of tier 3 that are live.
  static Numbers Live() {
    Numbers numbers;
    for (const auto& anchor : tiers::Manager::Get().anchors()) {
      for (const auto& version : anchor->versions()) {
        if (version->tier < 3) continue;
        for (const tracer::TraceValue& v : version->trace().values) numbers.fixed += v.is_fixed;
        numbers.varying += static_cast<int>(version->VaryingNumbers().size());
      }
    }
    return numbers;
  }
  static int64_t Guards() { return deopt::Ledger::Get().count(deopt::GuardKind::scalar_value); }
};

TEST_F(TiersNumbers, AreBuiltInUntilOneChanges) {
  int64_t guards = 0, at_first_change = -1, at_second_change = -1;
  Numbers before, after;
  RunBoth(
      [&](Log& log) {
        Tensor x = arange(0, 19) * 0.37;
        const bool engine = rt::options().tier() > 1;
        for (int i = 0; i < 90; ++i) {
          if (engine && i == 30) {
            before = Live();
            at_first_change = Guards();
          }
          if (engine && i == 60) at_second_change = Guards();
          // 1/4 is exact, so that x / n is a product in code that knows n.
          const double n = i < 30 ? 4 : i < 60 ? 8 : 16;
          const Tensor y = (tanh(x / n) + 1.5) * 0.25 - x;
          log.Add(y);
          x = y * 0.5;
        }
        if (!engine) return;
        guards = Guards();
        after = Live();
        const std::string explained = Runtime::explain();
        EXPECT_NE(explained.find("scalar_value"), std::string::npos) << explained;
      },
      Tier3());
  EXPECT_GE(before.fixed, 4) << "x / n, + 1.5, * 0.25, * 0.5";
  EXPECT_EQ(before.varying, 0);
  EXPECT_EQ(at_first_change, 0);
  EXPECT_GE(at_second_change, 1) << "it was another one";
  EXPECT_EQ(guards, at_second_change) << "what has changed once is read";
  EXPECT_GE(after.fixed, 3) << "the others are built in as before";
  EXPECT_GE(after.varying, 1);
}

TEST_F(TiersNumbers, ThatChangeAllTheTimeAreRead) {
  RunBoth(
      [&](Log& log) {
        Tensor w = arange(0, 21) * 0.25;
        for (int i = 0; i < 40; ++i) {
          const double rate = 1 / (3.0 + i);
          w = w - tanh(w) * rate;
          log.Add(w);
        }
        if (rt::options().tier() == 1) return;
        EXPECT_EQ(Guards(), 0);
        EXPECT_GE(Live().varying, 1);
      },
      Tier3());
}

// A number is its bits: -0 is not 0, and NaN is NaN.
TEST_F(TiersNumbers, OfAllKinds) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  for (const auto& [first, second] :
       {std::pair{-0.0, 0.0}, {0.0, -0.0}, {1.0, nan}, {nan, 1.0}, {1.0, inf}, {2.0, 0.5}}) {
    SCOPED_TRACE(absl::StrCat(first, " to ", second));
    RunBoth(
        [&, first = first, second = second](Log& log) {
          const Tensor x = Tensor::from<float>({-0.0f, 0.0f, 1.5f, -2.25f, std::nanf(""), HUGE_VALF});
          for (int i = 0; i < 24; ++i) {
            const double n = i < 14 ? first : second;
            log.Add((x + n) * 1.0);
            log.Add((x - n) / n);
            log.Add(maximum(x * n, n));
          }
        },
        Tier3());
  }
  RunBoth(
      [&](Log& log) {
        const Tensor ids = arange(0, 17), on = ids > 4;
        for (int i = 0; i < 24; ++i) {
          const int64_t n = i < 14 ? 3 : 5;
          log.Add((ids + n) * n);
          log.Add(logical_and(on, i < 19) == true);
        }
      },
      Tier3());
}

// The recording that follows on a change may come when the number is back at what it was.
TEST_F(TiersNumbers, ThatComeAndGo) {
  RunBoth(
      [&](Log& log) {
        const Tensor x = arange(0, 33) * 0.125;
        for (int i = 0; i < 200; ++i) {
          const double n = i > 20 && i % 7 == 0 ? 0.75 : 0.5;
          log.Add(exp(x * n) - n);
        }
      },
      Tier3());
}

}  // namespace
}  // namespace tessera
