// Eager loops that do not go the same way in every round: the ways that come again run in versions all the same.
#include "tiers/rounds.h"
#include "tiers_testing.h"

namespace tessera {
namespace {

using tiers::FindDelimiter;
using tiers::PlaceOf;

// A recording in which each letter is an op at a place of its own.
tracer::Trace Recording(const std::string& letters) {
  tracer::Trace trace;
  for (const char c : letters) {
    tracer::TraceStep& step = trace.steps.emplace_back();
    step.op = ir::Op::k_add;
    step.site = reinterpret_cast<const void*>(static_cast<uintptr_t>(c));
  }
  return trace;
}

uint64_t PlaceOfLetter(char c) {
  return PlaceOf(reinterpret_cast<const void*>(static_cast<uintptr_t>(c)), ir::Op::k_add);
}

uint64_t DelimiterOf(const std::string& letters, char fewest_alive = 0) {
  std::vector<int> live;
  for (const char c : letters) live.push_back(c == fewest_alive ? 1 : 5);
  live.push_back(5);
  return FindDelimiter(Recording(letters), live);
}

TEST(TiersRounds, TwoWaysInAnyOrder) {
  const std::string one = "abcdefghij", other = "abcdefxyzw";
  std::string letters;
  uint32_t state = 7;
  for (int i = 0; i < 40; ++i) letters += ((state = state * 1664525u + 1013904223u) >> 24 & 1) != 0 ? one : other;
  // Any of "abcdef" would do; the one before which the fewest values are alive is taken.
  EXPECT_EQ(DelimiterOf(letters, 'c'), PlaceOfLetter('c'));
  EXPECT_EQ(DelimiterOf(letters, 'e'), PlaceOfLetter('e'));
  // A place of one of the ways cuts nothing into stretches that come again.
  EXPECT_NE(DelimiterOf(letters, 'x'), PlaceOfLetter('x'));
}

TEST(TiersRounds, AsManyLayersAsItTakes) {
  std::string letters;
  uint32_t state = 1;
  for (int i = 0; i < 60; ++i) {
    letters += "abcdefgh";
    for (uint32_t k = (state = state * 1664525u + 1013904223u) >> 16 & 3; k-- > 0;) letters += "mno";
  }
  // "mno" comes more often, in stretches that are too short.
  EXPECT_EQ(DelimiterOf(letters, 'b'), PlaceOfLetter('b'));
}

TEST(TiersRounds, NothingComesAgain) {
  std::string letters;
  uint32_t state = 3;
  for (int i = 0; i < 400; ++i)
    letters += static_cast<char>('a' + ((state = state * 1664525u + 1013904223u) >> 16) % 26);
  EXPECT_EQ(DelimiterOf(letters), 0u);
  EXPECT_EQ(DelimiterOf("abcabcabcabcabcabc"), 0u) << "too short to be worth it";
  EXPECT_EQ(DelimiterOf(""), 0u);
}

Tensor Start(int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(0.25f + 0.125f * static_cast<float>(i));
  return Tensor::from(values);
}

/// The part of the ops of the second half of the steps that ran in versions. `step(i, log)` is one step.
template <class Step>
double PartInVersions(int steps, Step make) {
  double part = 0;
  RunBoth([&](Log& log) {
    auto step = make();
    double executed = 0, versions = 0;
    for (int i = 0; i < steps; ++i) {
      if (i == steps / 2) {
        executed = static_cast<double>(MetricNow("ops_executed"));
        versions = static_cast<double>(MetricNow("version_ops"));
      }
      step(i, log);
    }
    executed = static_cast<double>(MetricNow("ops_executed")) - executed;
    versions = static_cast<double>(MetricNow("version_ops")) - versions;
    part = versions / (executed + versions);
  });
  return part;
}

// The usual step, and after every tenth one another one which begins like it.
TEST(TiersRounds, AnotherWayNowAndThenBecomesABridge) {
  for (const bool reads : {false, true}) {
    const auto make = [reads] {
      return [reads, w = Start(8), x = Start(8) * 0.5, sum = zeros({})](int i, Log& log) mutable {
        Tensor h;
        for (int pass = 0; pass < (i % 10 == 9 ? 2 : 1); ++pass) {
          h = tanh(x * w);
          h = relu(h + 0.25) * 0.5;
          h = exp(h) - 1.0;
          if (pass == 1) break;
          Tensor d = h - x;
          w = w - d * 0.01;
          w = w * 0.999 + 0.0005;
        }
        if (i % 10 == 9) {
          Tensor e = abs(h - x);
          e = sqrt(e + 1.0) * 2.0;
          sum = sum + mean(e);
          if (reads) log.Add(sum);
        }
        if (i % 50 == 49) log.Add(w);
      };
    };
    EXPECT_GT(PartInVersions(600, make), 0.9) << (reads ? "with reads\n" : "without reads\n") << Runtime::explain();
  }
}

TEST(TiersRounds, AsManyLayersAsTheInputAsksFor) {
  const auto make = [] {
    return [w = Start(8), x = Start(8), state = uint32_t{1}](int i, Log& log) mutable {
      Tensor h = x;
      state = state * 1664525u + 1013904223u;
      for (uint32_t layer = 0; layer <= (state >> 16) % 4; ++layer) {
        h = tanh(h * w);
        h = h + 0.125;
      }
      Tensor d = h - x;
      d = d * 0.5 + abs(d) * 0.125;
      d = square(d) - exp(d) * 0.01;
      w = w - d * 0.001;
      w = w * 0.999;
      if (i % 100 == 99) log.Add(w);
    };
  };
  EXPECT_GT(PartInVersions(6000, make), 0.8) << Runtime::explain();
}

}  // namespace
}  // namespace tessera
