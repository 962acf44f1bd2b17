// Generated variances and logsumexp along columns: against tier 1 in f64, and to the bit whatever the number of
// threads.
#include "tests/unit/cpu_rows_testing.h"
#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

using rows_testing::Epsilon;

class TiersCodeSpread : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
};

using Program = std::function<std::vector<Tensor>(const std::vector<Tensor>& in)>;

/// Tier 1 on the same operands in f64 says what is right. `kernels`: some of it must have been generated.
void Check(const Program& program, const std::vector<Tensor>& in, bool kernels = true) {
  std::vector<std::vector<double>> want;
  {
    const OptionScope tier1({{"tier", "1"}});
    std::vector<Tensor> wide;
    for (const Tensor& x : in) wide.push_back(cast(x, f64));
    for (const Tensor& y : program(wide)) want.push_back(y.to_vector<double>());
  }
  StepsEveryWay(
      [&] {
        const std::vector<Tensor> out = program(in);
        ASSERT_EQ(out.size(), want.size());
        for (size_t k = 0; k < out.size(); ++k) {
          const std::vector<double> got = out[k].to_vector<double>();
          ASSERT_EQ(got.size(), want[k].size());
          for (size_t e = 0; e < got.size(); ++e) {
            const double right = want[k][e];
            if (std::isnan(right)) {
              ASSERT_TRUE(std::isnan(got[e])) << "result " << k << " element " << e << " is " << got[e];
            } else if (std::isinf(right)) {
              ASSERT_EQ(got[e], right) << "result " << k << " element " << e;
            } else {
              // Thousands of elements in f64 are added up in f64; what is subtracted before an exponential is of the
              // size of the elements.
              const double units = out[k].dtype() == f64 ? 64 : 12;
              const double bound = units * std::max(Epsilon(out[k].dtype()), 0x1p-52) * (std::abs(right) + 0.25);
              ASSERT_NEAR(got[e], right, bound) << "result " << k << " element " << e;
            }
          }
        }
      },
      [&](Way way) { return kernels && way.fuse; });
}

TEST_F(TiersCodeSpread, RowsAndColumnsOfManySizes) {
  for (const int64_t columns : {4, 15, 64, 1025})
    for (const int64_t rows : {2, 9, 300}) {
      SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
      Check(
          [](const std::vector<Tensor>& in) {
            return std::vector{var(in[0], 0), var(in[0], 0, true, 1), logsumexp(in[0], 0)};
          },
          {Uniform({rows, columns}, 1)});
      if (HasFailure()) return;
    }
}

TEST_F(TiersCodeSpread, ManyParts) {
  // More rows than one task does, far from zero and from each other.
  const Tensor ramp = reshape(arange(0, 9001), {9001, 1}) * 0.01;
  const auto spread = [](const std::vector<Tensor>& in) {
    return std::vector{var(in[0], 0, false, 1), logsumexp(in[0], 0)};
  };
  Check(spread, {Uniform({9001, 40}, 1)});
  Check(spread, {Uniform({9001, 40}, 2) + 1000.0});
  Check(spread, {Uniform({9001, 40}, 3) + cast(ramp, f32)});
  Check(spread, {Uniform({9001, 40}, 4, -2, 2, f64) - 500.0});
}

TEST_F(TiersCodeSpread, WhatComesBeforeAndBeside) {
  Check(
      [](const std::vector<Tensor>& in) {
        const Tensor y = in[0] * in[1] + 0.5;
        return std::vector{var(y, 0), sum(y, 0, true), logsumexp(y, 0, true), y};
      },
      {Uniform({77, 50}, 1, 0.5, 2), Uniform({50}, 2, 0.5, 2)});
  // A standard deviation, and a norm over the batch.
  Check(
      [](const std::vector<Tensor>& in) {
        const Tensor deviation = sqrt(var(in[0], 0, true));
        return std::vector{deviation, in[0] / (deviation + 1.0)};
      },
      {Uniform({600, 33}, 3)});
}

TEST_F(TiersCodeSpread, MiddleDimsAndLayouts) {
  const auto spread = [](const std::vector<Tensor>& in) {
    return std::vector{var(in[0], {1, 2}), logsumexp(in[0], {1, 2}, true), var(in[0], {0, 1, 2})};
  };
  Check(spread, {Uniform({3, 4, 5, 19}, 1)});
  Check(spread, {Uniform({3, 1, 7, 19}, 2)});
  const Tensor wide = Uniform({40, 90}, 3);
  for (const Tensor& x : {slice(wide, {3, 5}, {23, 35}, {1, 1}, {0, 1}), slice(wide, {0, 0}, {40, 90}, {2, 3}, {0, 1}),
                          transpose(Uniform({30, 20}, 4))}) {
    Check([](const std::vector<Tensor>& in) { return std::vector{var(in[0], 0), logsumexp(in[0], 0)}; }, {x});
    if (HasFailure()) return;
  }
}

TEST_F(TiersCodeSpread, OtherDTypes) {
  for (const DType dtype : {f64, bf16, f16})
    Check([](const std::vector<Tensor>& in) { return std::vector{var(in[0], 0), logsumexp(in[0], 0)}; },
          {Uniform({50, 35}, 1, -2, 2, dtype)});
}

TEST_F(TiersCodeSpread, InfinitiesAndNaNs) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  // Of many rows, so that other tasks have none of them.
  for (const int64_t rows : {20, 9000}) {
    constexpr size_t kColumns = 24;
    const size_t last = kColumns * static_cast<size_t>(rows - 1);
    std::vector<float> values(last + kColumns, -1000.0f);
    values[3] = kInf, values[kColumns * 7 + 4] = -kInf, values[kColumns * 9 + 5] = kNaN, values[last + 3] = -kInf;
    for (size_t at = 7; at < values.size(); at += kColumns) values[at] = -kInf;
    for (size_t at = 8; at < last; at += kColumns) values[at] = -kInf;
    Check([](const std::vector<Tensor>& in) { return std::vector{var(in[0], 0), logsumexp(in[0], 0)}; },
          {Tensor::from(values, {rows, static_cast<int64_t>(kColumns)})});
  }
}

TEST_F(TiersCodeSpread, FewRowsAndNothing) {
  // A divisor of nothing.
  Check([](const std::vector<Tensor>& in) { return std::vector{var(in[0], 0, false, 2), var(in[0], 0, false, 3)}; },
        {Uniform({2, 16}, 1)});
  for (const Dims& dims : {Dims{0, 16}, Dims{16, 0}, Dims{1, 16}, Dims{0, 3, 16}})
    Check([](const std::vector<Tensor>& in) { return std::vector{var(in[0], 0) + 1.0}; }, {Uniform(dims, 1)}, false);
}

TEST_F(TiersCodeSpread, OneCodeForAllSizes) {
  const int64_t made = MetricNow("codes_made"), kernels = MetricNow("kernels_generated");
  Settings settings = CodeAtOnce({2, true}, false);
  settings["hot_eager"] = "1000000";
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  for (int64_t i = 0; i < 40; ++i) {
    const Tensor x = Uniform({2 + i * 131 % 900, 16 + i * 61 % 300}, static_cast<uint64_t>(i));
    const Step step;
    const std::vector<double> got = (var(x, 0) + 0.0).to_vector<double>(), in = x.to_vector<double>();
    for (size_t c = 0; c < got.size(); ++c) {
      double mean = 0, squares = 0;
      const double rows = static_cast<double>(in.size() / got.size());
      for (size_t at = c; at < in.size(); at += got.size()) mean += in[at] / rows;
      for (size_t at = c; at < in.size(); at += got.size()) squares += (in[at] - mean) * (in[at] - mean) / rows;
      ASSERT_NEAR(got[c], squares, 10 * 0x1p-23 * (squares + 0x1p-10)) << "round " << i;
    }
  }
  EXPECT_LE(MetricNow("codes_made") - made, 6) << Runtime::explain();
  EXPECT_GT(MetricNow("kernels_generated"), kernels) << Runtime::explain();
}

TEST_F(TiersCodeSpread, ThreadsMakeNoDifference) {
  const Tensor x = Uniform({2000, 300}, 1);
  ExpectSameBitsWithAnyThreads([&] {
    const Tensor y = tanh(x), v = var(y, 0), l = logsumexp(y, 0);
    return Bits(v) + Bits(l);
  });
}

}  // namespace
}  // namespace tessera
