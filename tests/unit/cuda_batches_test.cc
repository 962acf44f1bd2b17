// Kernels that share a function, in one launch. Without a GPU there is nothing to run.
#include <gtest/gtest.h>

#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

class CudaBatches : public ::testing::Test {
 protected:
  void SetUp() override {
    if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
    before_ = Runtime::device();
    Runtime::set_device(*Device::find("cuda"));
  }
  void TearDown() override { Runtime::set_device(before_); }

  Device before_ = Device::cpu();
};

/// An update of many tensors: of odd sizes, some empty, one large, and more of one kind than a launch has room for.
struct Updates {
  std::vector<Tensor> w, m, v;
  Updates() {
    std::vector<Dims> dims = {{1030, 517}, {0}, {3, 0}, {65536}};
    for (int i = 0; i < 70; ++i) dims.push_back({7});
    for (int i = 0; i < 9; ++i) dims.push_back({33, 5});
    for (int i = 0; i < 5; ++i) dims.push_back({259});
    for (size_t i = 0; i < dims.size(); ++i) {
      w.push_back(Make(dims[i], 3 * i));
      m.push_back(Make(dims[i], 3 * i + 1));
      v.push_back(Make(dims[i], 3 * i + 2));
    }
  }
  static Tensor Make(const Dims& dims, size_t seed) {
    return random_uniform(static_cast<int64_t>(seed), 0, dims, 0.5, 1.5);
  }
  void Step(double rate) {
    for (size_t i = 0; i < w.size(); ++i) {
      const Tensor g = w[i] * 0.25 - 0.125;
      m[i] = m[i] * 0.9 + g * 0.1;
      v[i] = v[i] * 0.99 + square(g) * 0.01;
      w[i] = w[i] - m[i] / (sqrt(v[i]) + 1e-3) * rate;
    }
  }
};

void Update(Log& log) {
  Updates updates;
  Tensor held;
  for (int i = 0; i < 24; ++i) {
    // All updates are one trace from the start; found out by itself, the trace of one comes first.
    const tessera::Step step;
    updates.Step(0.01 * (i + 1));
    if (i % 9 == 4) held = updates.m[10];
    if (i % 5 == 3) log.Add(updates.w[20]);
  }
  log.Add(held);
  for (const auto& list : {updates.w, updates.m, updates.v})
    for (const Tensor& x : list) log.Add(sum(x.cast(DType::f64)));
  for (size_t i : {0, 3, 4, 30, 73, 80, 87}) log.Add(updates.w[i]);
}

TEST_F(CudaBatches, ValuesAreThoseOfTier1) {
  for (const Way way : {Way{2, true}, Way{3, true}}) {
    SCOPED_TRACE(NameOf(way));
    const int64_t before = MetricNow("kernels_batched");
    RunBoth(Update, CodeAtOnce(way));
    EXPECT_GT(MetricNow("kernels_batched"), before) << Runtime::explain();
  }
}

TEST_F(CudaBatches, RunsThatEndInTheMiddle) {
  for (const char* every : {"2", "7"}) {
    Settings settings = CodeAtOnce({2, true});
    settings["deopt_every"] = every;
    RunBoth(Update, settings);
  }
}

// Sums, whose teams share memory of their block; the last one needs all the others.
TEST_F(CudaBatches, SumsOfManyTensors) {
  const auto norms = [](int rounds) {
    std::vector<Tensor> xs;
    for (int i = 0; i < 40; ++i) xs.push_back(Updates::Make(i % 3 == 0 ? Dims{1000} : Dims{17, 700}, 100 + i));
    Tensor all;
    for (int round = 0; round < rounds; ++round) {
      std::vector<Tensor> parts;
      for (const Tensor& x : xs) parts.push_back(sum(square(x), {-1}).reshape({-1}));
      all = concat(parts);
      (void)all.to_bytes();
    }
    return all.to(Device::cpu()).to_vector<float>();
  };
  std::vector<float> want;
  {
    OptionScope scope({{"tier", "1"}});
    want = norms(1);
  }
  OptionScope scope(CodeAtOnce({3, true}, /*bitwise=*/false));
  tiers::Manager::Get().Reset();
  const int64_t before = MetricNow("kernels_batched");
  const std::vector<float> got = norms(20);
  EXPECT_GT(MetricNow("kernels_batched"), before) << Runtime::explain();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5f * want[i]) << i;
}

}  // namespace
}  // namespace tessera
