// Products whose factors are narrow floats in f32: generated code widens them where it reads.
#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

class TiersCodePrologue : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
};

using Program = std::function<Tensor(const std::vector<Tensor>& in)>;

/// Within the bound of a product of tier 1's result, which is computed from the same numbers. `depth`: terms of a sum.
void Check(const Program& program, const std::vector<Tensor>& in, int64_t depth) {
  std::vector<double> want, scale;
  {
    const OptionScope tier1({{"tier", "1"}});
    want = program(in).to_vector<double>();
    std::vector<Tensor> absolute;
    for (const Tensor& x : in) absolute.push_back(abs(x));
    scale = program(absolute).to_vector<double>();
  }
  StepsEveryWay([&] {
    const std::vector<double> got = program(in).to_vector<double>();
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k) {
      if (std::isnan(want[k])) {
        ASSERT_TRUE(std::isnan(got[k])) << "element " << k;
        continue;
      }
      ASSERT_NEAR(got[k], want[k], (16 + static_cast<double>(depth)) * 0x1p-23 * scale[k]) << "element " << k;
    }
  });
}

TEST_F(TiersCodePrologue, ShapesAndDTypes) {
  uint64_t seed = 0;
  for (const DType dtype : {bf16, f8e4m3})
    for (const int64_t m : {1, 66})
      for (const int64_t n : {5, 130}) {
        const int64_t k = 19 + static_cast<int64_t>(seed++ % 5) * 31;
        SCOPED_TRACE(absl::StrCat(std::string(Name(dtype)), " ", m, " x ", n, " x ", k));
        Check([](const std::vector<Tensor>& in) { return relu(matmul(in[0], cast(in[1], f32)) + 1.0); },
              {Uniform({m, k}, seed), Uniform({k, n}, seed + 1, -2, 2, dtype)}, k);
        if (HasFailure()) return;
      }
}

TEST_F(TiersCodePrologue, BothFactorsAndLayouts) {
  Check([](const std::vector<Tensor>& in) { return matmul(cast(in[0], f32), cast(in[1], f32)) * 2.0; },
        {Uniform({20, 70}, 1, -2, 2, f16), Uniform({70, 40}, 2, -2, 2, bf16)}, 70);
  Check([](const std::vector<Tensor>& in) { return matmul(in[0], cast(in[1], f32), false, true) * 2.0; },
        {Uniform({9, 70}, 3), Uniform({40, 70}, 4, -2, 2, bf16)}, 70);
  Check([](const std::vector<Tensor>& in) { return matmul(cast(in[0], f32), in[1], true, false) * 2.0; },
        {Uniform({70, 9}, 5, -2, 2, bf16), Uniform({70, 40}, 6)}, 70);
  Check([](const std::vector<Tensor>& in) { return matmul(in[0], cast(in[1], f32)) * 2.0; },
        {Uniform({3, 9, 21}, 7), Uniform({3, 21, 40}, 8, -2, 2, bf16)}, 21);
  // Views: a part of the columns, a transposed matrix.
  Check([](const std::vector<Tensor>& in) { return matmul(in[0], cast(in[1], f32)) * 2.0; },
        {Uniform({9, 33}, 9), slice(Uniform({33, 90}, 10, -2, 2, bf16), {5}, {45}, {1}, {1})}, 33);
  Check([](const std::vector<Tensor>& in) { return matmul(in[0], cast(in[1], f32)) * 2.0; },
        {Uniform({9, 33}, 11), transpose(Uniform({40, 33}, 12, -2, 2, bf16))}, 33);
}

TEST_F(TiersCodePrologue, NaNs) {
  std::vector<float> values(static_cast<size_t>(16 * 24), 0.5f);
  values[30] = std::numeric_limits<float>::quiet_NaN();
  const Tensor w = cast(Tensor::from(values, {16, 24}), bf16);
  Check([](const std::vector<Tensor>& in) { return matmul(in[0], cast(in[1], f32)) * 2.0; }, {Uniform({4, 16}, 1), w},
        16);
}

TEST_F(TiersCodePrologue, HeldByTheProgram) {
  // Sometimes the program keeps what was widened: then it is there.
  Settings settings = CodeAtOnce({2, true}, /*bitwise=*/false);
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  const Tensor x = Uniform({6, 24}, 1), w = Uniform({24, 32}, 2, -2, 2, bf16);
  const std::vector<float> right = cast(w, f32).to_vector<float>();
  Tensor kept;
  for (int i = 0; i < 40; ++i) {
    const Tensor wide = cast(w, f32);
    const Tensor y = matmul(x, wide) * 2.0;
    if (i % 5 == 4) kept = wide;
    (void)y.to_vector<float>();
    if (i % 5 == 4) EXPECT_EQ(kept.to_vector<float>(), right);
  }
}

}  // namespace
}  // namespace tessera
