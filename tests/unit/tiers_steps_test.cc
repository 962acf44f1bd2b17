// Training steps that become one trace, whatever loops lie in them.
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/tiers_testing.h"

namespace tessera {
namespace {

// A step of which the longer part are rounds of two kinds, whose pattern comes twice. Where exploring begins in these,
// it finds that pattern, or none; the step is found all the same.
enum class Ending { nothing, read };
template <int kSite>
void ExpectOneTrace(int hot, bool marked, Ending ending) {
  SCOPED_TRACE(absl::StrCat("hot after ", hot, marked ? ", marked" : "", ending == Ending::read ? ", read" : ""));
  constexpr int kKinds[] = {0, 1, 1, 0, 0, 1, 1, 0}, kSteps = 120;
  int64_t in_versions = 0, in_tier1 = 0;  // in the later half
  auto program = [&](Log& log) {
    std::vector<Tensor> weights(std::size(kKinds));
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] = Tensor::from(std::vector<float>(8, 0.1f + 0.01f * static_cast<float>(i)));
    for (int n = 0; n < kSteps; ++n) {
      if (n == kSteps / 2) {
        in_versions = MetricNow("version_ops");
        in_tier1 = MetricNow("ops_executed");
      }
      std::optional<Step> step;
      if (marked) step.emplace();
      Tensor h = weights[0] * 0.5;
      h = tanh(h) * weights[1];
      h = sin(h) + 0.25;
      h = cos(h) * weights[2];
      h = square(h) - 0.125;
      for (size_t i = 0; i < weights.size(); ++i) {
        Tensor& w = weights[i];
        Tensor mean = h * 0.01 + w * 0.001;
        // The path of an op is that of the 16 ops up to it.
        mean = tanh(mean) + sin(mean) * 0.5 + cos(mean) * 0.25 - square(mean) + sqrt(square(w) + 1.0) * 0.01;
        if (kKinds[i] == 1) mean = mean / (sqrt(square(mean) + 1e-3) + 0.5);
        w = w - mean * 0.01 + square(mean) * 0.001;
      }
      if (ending == Ending::read) log.Add(weights.back());
    }
    for (const Tensor& w : weights) log.Add(w);
    in_versions = MetricNow("version_ops") - in_versions;
    in_tier1 = MetricNow("ops_executed") - in_tier1;
  };
  auto options = HotAtOnce();
  options["hot_eager"] = std::to_string(hot);
  RunBoth(program, options);
  int64_t longest = 0;
  for (const auto& v : deopt::Ledger::Get().versions())
    if (v.counters->runs.load() > 10) longest = std::max(longest, v.steps);
  EXPECT_EQ(longest, 9 + 8 * 22 + 4 * 5);
  EXPECT_GT(in_versions, 19 * in_tier1);
}

// Each has ops of its own: where loops begin is remembered.
template <int... kSites>
void ExpectOneTraceOfAll(std::integer_sequence<int, kSites...>, bool marked, Ending ending) {
  (ExpectOneTrace<kSites>(kSites + 2, marked, ending), ...);
}

TEST(TiersSteps, AStepAroundRoundsOfTwoKinds) {
  ExpectOneTraceOfAll(std::make_integer_sequence<int, 24>(), false, Ending::nothing);
}

TEST(TiersSteps, AMarkedStepAroundRoundsOfTwoKinds) {
  ExpectOneTrace<100>(2, true, Ending::nothing);
  ExpectOneTrace<101>(3, true, Ending::nothing);
  ExpectOneTrace<102>(8, true, Ending::nothing);
  ExpectOneTrace<103>(16, true, Ending::nothing);
  ExpectOneTrace<104>(2, true, Ending::read);
  ExpectOneTrace<105>(8, true, Ending::read);
  ExpectOneTrace<106>(16, true, Ending::read);
}

}  // namespace
}  // namespace tessera
