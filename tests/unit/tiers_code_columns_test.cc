// Generated sums along columns, of everything, and of integers: within the bounds of the op table where they round, to
// the bit where they do not, whatever the number of threads.
#include "tests/unit/cpu_rows_testing.h"
#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

using rows_testing::Epsilon;
using rows_testing::SmallestStep;

class TiersCodeColumns : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
};

using Program = std::function<std::vector<Tensor>(const std::vector<Tensor>& in)>;

/// What a result is where it is no number.
std::string Class(double v) { return std::isnan(v) ? "nan" : std::isinf(v) ? (v > 0 ? "inf" : "-inf") : "number"; }

/// The program on f64 operands says what is right, and on their absolute values how large the terms of sums are:
/// results are as far from tier 1's as both bounds allow.
void CheckSums(const Program& program, const std::vector<Tensor>& in, bool kernels = true) {
  std::vector<std::vector<double>> want, scale;
  {
    const OptionScope tier1({{"tier", "1"}});
    std::vector<Tensor> wide, absolute;
    for (const Tensor& x : in) {
      wide.push_back(IsFloat(x.dtype()) ? cast(x, f64) : x);
      absolute.push_back(IsFloat(x.dtype()) ? abs(cast(x, f64)) : x);
    }
    for (const Tensor& y : program(wide)) want.push_back(y.to_vector<double>());
    for (const Tensor& y : program(absolute)) scale.push_back(y.to_vector<double>());
  }
  const auto round = [&] {
    const std::vector<Tensor> out = program(in);
    ASSERT_EQ(out.size(), want.size());
    for (size_t k = 0; k < out.size(); ++k) {
      const std::vector<double> got = out[k].to_vector<double>();
      ASSERT_EQ(got.size(), want[k].size());
      for (size_t e = 0; e < got.size(); ++e) {
        ASSERT_EQ(Class(got[e]), Class(want[k][e])) << "result " << k << " element " << e;
        if (!std::isfinite(want[k][e])) continue;
        const double bound = 12 * std::max(Epsilon(out[k].dtype()), 0x1p-52) * std::abs(scale[k][e]);
        ASSERT_NEAR(got[e], want[k][e], bound + SmallestStep(out[k].dtype())) << "result " << k << " element " << e;
      }
    }
  };
  StepsEveryWay(round, [&](Way way) { return kernels && way.fuse; });
}

TEST_F(TiersCodeColumns, RowsAndColumnsOfManySizes) {
  for (const int64_t columns : {4, 15, 16, 17, 1025})
    for (const int64_t rows : {2, 9, 300}) {
      SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
      CheckSums(
          [](const std::vector<Tensor>& in) {
            const Tensor y = in[0] * in[1];
            return std::vector{sum(y, 0), mean(y, 0, true), y};
          },
          {Uniform({rows, columns}, 1), Uniform({rows, columns}, 2)});
      if (HasFailure()) return;
    }
}

TEST_F(TiersCodeColumns, FewElementsAlone) {
  for (const int64_t columns : {4, 16, 33})
    for (const int64_t rows : {1, 2, 8, 61}) {
      SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
      CheckSums(
          [](const std::vector<Tensor>& in) {
            return std::vector{sum(in[0], 0), mean(in[1], 0, true), tanh(sum(transpose(in[1]), 1))};
          },
          {Uniform({rows, columns}, 1), Uniform({rows, columns}, 2, -1, 1, f16)}, /*kernels=*/false);
      if (HasFailure()) return;
    }
}

TEST_F(TiersCodeColumns, SignsOfNarrowSums) {
  for (const DType dtype : {f16, bf16})
    CheckSums([](const std::vector<Tensor>& in) { return std::vector{tanh(mean(-in[0], 1)), abs(sum(in[0], 1))}; },
              {Uniform({40, 33}, 1, -1, 1, dtype)});
}

TEST_F(TiersCodeColumns, SumsOfManyParts) {
  // More rows than one task does, and an odd number of them.
  CheckSums([](const std::vector<Tensor>& in) { return std::vector{sum(square(in[0]), 0)}; }, {Uniform({3001, 40}, 1)});
  CheckSums([](const std::vector<Tensor>& in) { return std::vector{sum(square(in[0])), mean(in[0] * 2.0)}; },
            {Uniform({701, 333}, 2)});
}

TEST_F(TiersCodeColumns, MiddleDims) {
  CheckSums(
      [](const std::vector<Tensor>& in) {
        const Tensor y = in[0] + in[1];
        return std::vector{sum(y, {0, 1}), sum(y, 1), mean(y, {1}, true)};
      },
      {Uniform({3, 5, 24}, 1), Uniform({5, 24}, 2)});
  CheckSums(
      [](const std::vector<Tensor>& in) {
        const Tensor y = in[0] * in[1];
        return std::vector{sum(y, {1, 2}), y};
      },
      {Uniform({3, 4, 5, 19}, 3), Uniform({3, 1, 1, 1}, 4)});
  CheckSums([](const std::vector<Tensor>& in) { return std::vector{sum(exp(in[0]), {0, 1, 2})}; },
            {Uniform({2, 3, 4, 33}, 5)});
  // Dims of 1 among those that are summed.
  CheckSums([](const std::vector<Tensor>& in) { return std::vector{sum(exp(in[0]), {0, 1, 2}, true)}; },
            {Uniform({1, 6, 1, 33}, 6)});
}

TEST_F(TiersCodeColumns, Layouts) {
  const Tensor wide = Uniform({40, 90}, 1);
  const auto body = [](const std::vector<Tensor>& in) { return std::vector{sum(in[0] * in[1], 0)}; };
  const Tensor row = Uniform({30}, 2), number = Uniform({20, 1}, 3);
  for (const Tensor& x : {slice(wide, {3, 5}, {23, 35}, {1, 1}, {0, 1}), slice(wide, {0, 0}, {40, 90}, {2, 3}, {0, 1}),
                          transpose(Uniform({30, 20}, 4)), broadcast(Uniform({1, 30}, 5), {20, 30})}) {
    CheckSums(body, {x, row});
    CheckSums(body, {x, number});
    if (HasFailure()) return;
  }
}

TEST_F(TiersCodeColumns, OtherDTypes) {
  for (const DType dtype : {f64, bf16, f16})
    CheckSums(
        [](const std::vector<Tensor>& in) {
          const Tensor y = in[0] * 1.0;
          return std::vector{sum(y, 0), sum(y), mean(y, 0)};
        },
        {Uniform({50, 35}, 1, -2, 2, dtype)});
}

TEST_F(TiersCodeColumns, InfinitiesAndNaNs) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values(static_cast<size_t>(20 * 24), 1.5f);
  values[3] = kInf, values[24 * 7 + 4] = -kInf, values[24 * 9 + 5] = kNaN, values[24 * 19 + 3] = -kInf;
  const Tensor x = Tensor::from(values, {20, 24});
  CheckSums(
      [](const std::vector<Tensor>& in) {
        const Tensor y = in[0] * 2.0;
        return std::vector{sum(y, 0), max(y, 0), min(y, 0), max(y)};
      },
      {x});
}

TEST_F(TiersCodeColumns, ExactOnes) {
  // Maxima of anything and sums of integers are those of tier 1, to the bit: in bitwise mode, too.
  for (const DType dtype : {f32, f64, bf16, i64, i32, i8, u8})
    RunBodyEveryWay(
        [](const std::vector<Tensor>& in) {
          const Tensor y = maximum(in[0], in[1]);
          return std::vector{max(y, 0), min(y, 0, true), max(y), max(y, -1)};
        },
        {AnyTensor(dtype, {37, 50}, 1), AnyTensor(dtype, {50}, 2)});
  for (const DType dtype : {i64, i32, i8, u8, boolean})
    RunBodyEveryWay(
        [](const std::vector<Tensor>& in) {
          const Tensor y = maximum(in[0], in[1]);
          return std::vector{sum(y, 0), sum(y, -1), sum(y), sum(y, {0, 1}, true)};
        },
        {AnyTensor(dtype, {37, 50}, 3), AnyTensor(dtype, {50}, 4)});
}

TEST_F(TiersCodeColumns, NothingThere) {
  for (const Dims& dims : {Dims{0, 16}, Dims{16, 0}, Dims{3, 0, 16}, Dims{0, 3, 16}})
    CheckSums(
        [](const std::vector<Tensor>& in) {
          const Tensor y = in[0] * 2.0;
          return std::vector{sum(y, 0), sum(y), mean(y, 0)};
        },
        {Uniform(dims, 1)}, false);
}

TEST_F(TiersCodeColumns, OneCodeForAllSizes) {
  const int64_t made = MetricNow("codes_made");
  Settings settings = CodeAtOnce({2, true}, false);
  settings["hot_eager"] = "1000000";
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  for (int64_t i = 0; i < 40; ++i) {
    const Tensor x = Uniform({2 + i * 131 % 900, 16 + i * 61 % 300}, static_cast<uint64_t>(i));
    const Step step;
    const Tensor y = x * x;
    const std::vector<double> got = sum(y, 0).to_vector<double>(), in = x.to_vector<double>();
    for (size_t c = 0; c < got.size(); ++c) {
      double want = 0;
      for (size_t at = c; at < in.size(); at += got.size()) want += in[at] * in[at];
      ASSERT_NEAR(got[c], want, 10 * 0x1p-23 * want) << "round " << i;
    }
  }
  EXPECT_LE(MetricNow("codes_made") - made, 6) << Runtime::explain();
}

TEST_F(TiersCodeColumns, PartsCutForOtherShapes) {
  // Code for few columns meets many: what one thread would do alone is left to tier 1, and is right.
  Settings settings = CodeAtOnce({2, true}, false);
  settings["hot_eager"] = "1000000";
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  for (int i = 0; i < 20; ++i) {
    const Tensor x = i < 16 ? Uniform({40, 17}, static_cast<uint64_t>(i)) : Uniform({40, 20000}, 1);
    const Step step;
    const double got = sum(x * x).to_vector<double>()[0];
    double want = 0;
    for (const double v : x.to_vector<double>()) want += v * v;
    ASSERT_NEAR(got, want, 10 * 0x1p-23 * want) << "round " << i;
  }
}

TEST_F(TiersCodeColumns, ThreadsMakeNoDifference) {
  const Tensor x = Uniform({2000, 300}, 1);
  for (const bool columns : {true, false}) {
    ExpectSameBitsWithAnyThreads([&] {
      const Tensor y = tanh(x);
      return Bits(columns ? sum(y, 0) : sum(y));
    });
  }
}

}  // namespace
}  // namespace tessera
