// Functions in generated kernels of a CUDA device, beside the same in tier 1. Without a device there is nothing to run.
#ifndef TESSERA_TESTS_UNIT_CUDA_KERNELS_TESTING_H_
#define TESSERA_TESTS_UNIT_CUDA_KERNELS_TESTING_H_

#include <bit>
#include <cmath>
#include <memory>

#include "runtime/device.h"
#include "runtime/metrics.h"
#include "tiers_testing.h"

namespace tessera {

class CudaKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
    before_ = Runtime::device();
    Runtime::set_device(*Device::find("cuda"));
    options_ = std::make_unique<OptionScope>(std::map<std::string, std::string>{{"background", "false"},
                                                                                {"hot_function", "1"},
                                                                                {"profit_gate", "false"},
                                                                                {"compile_after", "0"},
                                                                                {"tune_budget", "0"}});
  }
  void TearDown() override {
    options_.reset();
    Runtime::set_device(before_);
  }

  static int64_t Generated() { return rt::SnapshotMetrics()[static_cast<int>(rt::Metric::kernels_generated)]; }
  static Tensor Here(const Tensor& x) { return x.to(Device::cpu()).cast(f32); }

  /// A function twice: one of them is only called in tier 1.
  struct Program {
    Module module, other;
    Function hot, cold;
  };
  static Program Parse(const std::string& text) {
    auto one = Module::parse(text), two = Module::parse(text);
    EXPECT_TRUE(one.ok()) << one.status().message() << "\n" << text;
    EXPECT_TRUE(two.ok());
    return {*one, *two, *one->function("f"), *two->function("f")};
  }
  /// Called often enough to run in versions.
  static std::vector<Tensor> Hot(const Program& p, const std::vector<Tensor>& args) {
    std::vector<Tensor> y;
    for (int i = 0; i < 6; ++i) y = p.hot(args);
    return y;
  }
  static std::vector<Tensor> Cold(const Program& p, const std::vector<Tensor>& args) {
    OptionScope scope({{"tier", "1"}});
    return p.cold(args);
  }

  /// The same bits, or both NaN.
  static void ExpectSame(const Tensor& got, const Tensor& want, const std::string& what) {
    ASSERT_EQ(got.dims(), want.dims()) << what;
    const std::vector<float> x = got.to_vector<float>(), y = want.to_vector<float>();
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i]) && std::isnan(y[i])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(x[i]), std::bit_cast<uint32_t>(y[i]))
          << what << ": element " << i << " is " << x[i] << ", not " << y[i];
    }
  }
  /// Within `bound` of the numbers of `scale`. A NaN must be where one is wanted.
  static void ExpectWithin(const Tensor& got, const Tensor& want, const Tensor& scale, double bound,
                           const std::string& what) {
    ASSERT_EQ(got.dims(), want.dims()) << what;
    const std::vector<float> x = Here(got).to_vector<float>(), y = Here(want).to_vector<float>();
    const std::vector<float> s = Here(scale).to_vector<float>();
    ASSERT_EQ(s.size(), y.size()) << what;
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(y[i]) || std::isinf(y[i])) {
        ASSERT_TRUE(std::isnan(y[i]) ? std::isnan(x[i]) : x[i] == y[i])
            << what << ": element " << i << " is " << x[i] << ", not " << y[i];
        continue;
      }
      ASSERT_LE(std::abs(double{x[i]} - y[i]), bound * std::abs(double{s[i]}))
          << what << ": element " << i << " is " << x[i] << ", not " << y[i];
    }
  }

 private:
  Device before_ = Device::cpu();
  std::unique_ptr<OptionScope> options_;
};

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_CUDA_KERNELS_TESTING_H_
