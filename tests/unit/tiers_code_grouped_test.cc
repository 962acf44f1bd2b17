// Attention with fewer heads of keys and values than of queries, generated: against tier 1.
#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

class TiersCodeGrouped : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
};

constexpr Way kTiers[] = {{2, true}, {3, true}};

struct Case {
  int64_t batch, heads, groups, queries, keys, depth, width;
};
std::string Describe(const Case& c) {
  return absl::StrCat(c.batch, " x ", c.heads, " heads of ", c.groups, ", ", c.queries, " queries, ", c.keys, " keys, ",
                      c.depth, " deep, ", c.width, " wide");
}

using Program = std::function<Tensor(const std::vector<Tensor>& in)>;
using Inputs = std::function<std::vector<Tensor>(uint64_t seed)>;

void ExpectSame(const Tensor& y, const std::vector<double>& want, double bound) {
  const std::vector<double> got = y.to_vector<double>();
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    if (std::isnan(want[k])) {
      ASSERT_TRUE(std::isnan(got[k])) << "element " << k << " is " << got[k];
    } else if (std::isinf(want[k])) {
      ASSERT_EQ(got[k], want[k]) << "element " << k;
    } else {
      ASSERT_NEAR(got[k], want[k], bound) << "element " << k;
    }
  }
}

/// In steps with other inputs each time, which are computed in tier 1 before.
void Rounds(const Settings& settings, const Program& program, const std::vector<std::vector<Tensor>>& inputs,
            double bound) {
  std::vector<std::vector<double>> want;
  {
    const OptionScope tier1({{"tier", "1"}});
    for (const std::vector<Tensor>& in : inputs) want.push_back(program(in).to_vector<double>());
  }
  Settings all = settings;
  all["hot_eager"] = "1000000";
  const OptionScope scope(all);
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  const int64_t failed = MetricNow("codes_failed");
  for (size_t i = 0; i < inputs.size() && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("round ", i));
    Tensor y;
    {
      const Step step;
      y = program(inputs[i]);
    }
    ExpectSame(y, want[i], bound);
  }
  EXPECT_EQ(MetricNow("codes_failed"), failed) << Runtime::explain();
}

/// `kernels`: some of it must have been generated.
void Check(Way way, const Program& program, const Inputs& inputs, double bound = 2e-5, bool kernels = true,
           const std::string& schedule = "") {
  SCOPED_TRACE(absl::StrCat(NameOf(way), " ", schedule));
  const int64_t before = MetricNow("kernels_generated");
  std::vector<std::vector<Tensor>> rounds;
  for (uint64_t i = 0; i < 8; ++i) rounds.push_back(inputs(i));
  Settings settings = CodeAtOnce(way, /*bitwise=*/false);
  settings["schedule"] = schedule;
  Rounds(settings, program, rounds, bound);
  if (kernels) EXPECT_GT(MetricNow("kernels_generated"), before) << Runtime::explain();
}

std::vector<Tensor> Plain(const Case& c, uint64_t seed, DType dtype = f32) {
  return {Uniform({c.batch, c.heads, c.queries, c.depth}, seed, -2, 2, dtype),
          Uniform({c.batch, c.groups, c.keys, c.depth}, seed + 100, -2, 2, dtype),
          Uniform({c.batch, c.groups, c.keys, c.width}, seed + 200, -2, 2, dtype),
          Uniform({c.queries, c.keys}, seed + 300)};
}

Tensor Attend(const std::string& kind, const std::vector<Tensor>& in) {
  const Tensor a = kind == "plain"    ? attention(in[0], in[1], in[2])
                   : kind == "causal" ? attention(in[0], in[1], in[2], {}, true)
                   : kind == "added"  ? attention(in[0], in[1], in[2], in[3])
                                      : attention(in[0], in[1], in[2], in[3] > 1.9, true, 0.2);
  return a + 0.0;
}

constexpr Case kCases[] = {{1, 4, 2, 17, 33, 8, 8},  {2, 6, 3, 64, 64, 16, 16}, {1, 6, 2, 5, 300, 40, 24},
                           {2, 8, 2, 1, 77, 64, 64}, {1, 9, 3, 40, 9, 7, 33},   {1, 12, 4, 3, 513, 33, 17},
                           {3, 5, 1, 19, 70, 16, 16}};

TEST_F(TiersCodeGrouped, Kinds) {
  for (const Way way : kTiers)
    for (const Case& c : kCases)
      for (const std::string kind : {"plain", "causal", "added", "bool"}) {
        SCOPED_TRACE(Describe(c) + ", " + kind);
        Check(way, [&](const auto& in) { return Attend(kind, in); }, [&](uint64_t seed) { return Plain(c, seed); });
        if (HasFailure()) return;
      }
}

TEST_F(TiersCodeGrouped, DTypes) {
  const Case c = {2, 6, 2, 11, 45, 24, 20};
  for (const Way way : kTiers)
    for (const DType dtype : {f64, bf16, f16}) {
      SCOPED_TRACE(std::string(Name(dtype)));
      Check(
          way, [](const auto& in) { return Attend("causal", in); },
          [&](uint64_t seed) { return Plain(c, seed, dtype); },
          dtype == f64    ? 1e-12
          : dtype == bf16 ? 0x1p-6
                          : 0x1p-9);
      if (HasFailure()) return;
    }
}

/// Blocks of fewer rows than there are heads in a group, and rows that do not come out even.
TEST_F(TiersCodeGrouped, Blocks) {
  const Case c = {2, 10, 2, 13, 90, 20, 20};
#if defined(__x86_64__)
  constexpr const char* kSchedules[] = {"*:rows=4,mr=4,nr=16", "*:rows=3,mr=3,nr=32,depth=7", "*:rows=36,mr=12,nr=16"};
#else
  constexpr const char* kSchedules[] = {"*:rows=4,mr=4,nr=16", "*:rows=3,mr=3,nr=8,depth=7", "*:rows=36,mr=12,nr=4"};
#endif
  for (const Way way : kTiers)
    for (const char* schedule : kSchedules)
      Check(
          way, [](const auto& in) { return Attend("causal", in); }, [&](uint64_t seed) { return Plain(c, seed); }, 2e-5,
          true, schedule);
}

/// Heads that lie between queries, as a layer's product leaves them, keys that were permuted, a part of a mask.
TEST_F(TiersCodeGrouped, Views) {
  const Case c = {2, 6, 2, 11, 45, 24, 20};
  const auto inputs = [&](uint64_t seed) -> std::vector<Tensor> {
    return {transpose(Uniform({c.batch, c.queries, c.heads, c.depth}, seed), {0, 2, 1, 3}),
            transpose(Uniform({c.batch, c.groups, c.depth, c.keys}, seed + 1), {0, 1, 3, 2}),
            slice(Uniform({c.batch, c.groups, c.keys, 2 * c.width}, seed + 2), {3}, {3 + c.width}, {1}, {3}),
            slice(Uniform({c.batch, c.heads, c.queries, 2 * c.keys}, seed + 3), {0}, {2 * c.keys}, {2}, {3})};
  };
  for (const Way way : kTiers)
    for (const std::string kind : {"plain", "causal", "added", "bool"})
      Check(way, [&](const auto& in) { return Attend(kind, in); }, inputs);
}

TEST_F(TiersCodeGrouped, NaNsAndEmptyDims) {
  Case c = {1, 6, 2, 9, 20, 8, 8};
  for (const Way way : kTiers) {
    for (const size_t operand : {0, 1, 2})
      Check(
          way, [](const auto& in) { return Attend("plain", in); },
          [&](uint64_t seed) {
            std::vector<Tensor> in = Plain(c, seed);
            std::vector<float> values = in[operand].to_vector<float>();
            values[seed * 11] = std::numeric_limits<float>::quiet_NaN();
            values[seed * 17] = std::numeric_limits<float>::infinity();
            in[operand] = Tensor::from(values, in[operand].dims());
            return in;
          });
    for (int64_t Case::* dim : {&Case::batch, &Case::queries, &Case::keys, &Case::depth, &Case::width}) {
      Case none = c;
      none.*dim = 0;
      SCOPED_TRACE(Describe(none));
      Check(
          way, [](const auto& in) { return Attend("plain", in); }, [&](uint64_t seed) { return Plain(none, seed); },
          2e-5, false);
    }
  }
}

/// One code for all sizes, among them other numbers of heads in a group; sizes that do not fit are refused as in
/// tier 1.
TEST_F(TiersCodeGrouped, OneCodeForAllShapes) {
  const int64_t made = MetricNow("codes_made"), kernels = MetricNow("kernels_generated");
  const auto program = [](const std::vector<Tensor>& in) { return Attend("causal", in); };
  std::vector<std::vector<Tensor>> rounds;
  for (int64_t i = 0; i < 60; ++i) {
    const int64_t groups = 2 + i % 3;
    const Case c = {2 + i % 2, groups * (2 + i * 7 % 5), groups, 2 + i * 13 % 40, 2 + i * 29 % 90, 2 + i % 30,
                    3 + i % 7};
    rounds.push_back(Plain(c, static_cast<uint64_t>(i)));
  }
  const Settings settings = CodeAtOnce({2, true}, /*bitwise=*/false);
  Rounds(settings, program, rounds, 2e-5);
  EXPECT_LE(MetricNow("codes_made") - made, 6) << Runtime::explain();
  EXPECT_GT(MetricNow("kernels_generated"), kernels) << Runtime::explain();
  const OptionScope scope(settings);
  const std::vector<Tensor> in = Plain({2, 7, 3, 4, 5, 6, 7}, 1);
  EXPECT_THROW((void)program(in).to_vector<float>(), Error);
}

/// Written by hand: a dim for the heads of a group, along which keys and values are the same.
TEST_F(TiersCodeGrouped, ByHand) {
  for (const Way way : kTiers)
    for (const Case& c : kCases) {
      SCOPED_TRACE(Describe(c));
      const int64_t share = c.heads / c.groups;
      Check(
          way,
          [](const auto& in) {
            return matmul(softmax(matmul(in[0], in[1], false, true) * 0.3 + in[3], -1), in[2]) + 0.0;
          },
          [&](uint64_t seed) -> std::vector<Tensor> {
            return {Uniform({c.batch, c.groups, share, c.queries, c.depth}, seed),
                    Uniform({c.batch, c.groups, 1, c.keys, c.depth}, seed + 1),
                    Uniform({c.batch, c.groups, 1, c.keys, c.width}, seed + 2), Uniform({c.queries, c.keys}, seed + 3)};
          });
      if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace tessera
