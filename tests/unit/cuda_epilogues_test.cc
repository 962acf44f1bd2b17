// Products of cuBLASLt that take along what follows them, in versions. Without a device there is nothing to run.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/device.h"
#include "runtime/metrics.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

class CudaEpilogues : public testing::Test {
 protected:
  void SetUp() override {
    if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
    before_ = Runtime::device();
    Runtime::set_device(*Device::find("cuda"));
    Set("background", "false");
    Set("hot_function", "1");
    Set("profit_gate", "false");
    Set("compile_after", "0");
    Set("tune_budget", "0");
    Set("schedule", "*:form=library");
  }
  void TearDown() override {
    for (const auto& [name, value] : old_) EXPECT_TRUE(Runtime::set_option(name, value).ok());
    Runtime::set_device(before_);
  }
  void Set(const std::string& name, const std::string& value) {
    old_.emplace_back(name, *Runtime::option(name));
    ASSERT_TRUE(Runtime::set_option(name, value).ok());
  }
  static int64_t Fused() { return rt::SnapshotMetrics()[static_cast<int>(rt::Metric::products_fused)]; }
  static Tensor Here(const Tensor& x) { return x.to(Device::cpu()).cast(f32); }

  Device before_ = Device::cpu();
  std::vector<std::pair<std::string, std::string>> old_;
};

struct Program {
  const char* name;
  const char* steps;  // from %p to %y
  bool narrow_only;
};
constexpr Program kPrograms[] = {
    {"bias", "  %y = add %p, %b : Y\n", false},
    {"residual", "  %y = add %r, %p : Y\n", false},
    {"bias and residual", "  %q = add %p, %b : Y\n  %y = add %q, %r : Y\n", false},
    {"bias and gelu", "  %q = add %p, %b : Y\n  %y = gelu_tanh %q : Y\n", true},
    {"gelu", "  %y = gelu_tanh %p : Y\n", true},
};

TEST_F(CudaEpilogues, AsTierOneHasIt) {
  for (const DType dtype : {f32, bf16, f16}) {
    for (const Program& program : kPrograms) {
      if (program.narrow_only && dtype == f32) continue;
      for (const int64_t batch : {0, 3}) {
        for (const bool transposed : {false, true}) {
          const std::string t(Name(dtype)), rows = batch > 0 ? "B x M x " : "M x ";
          const std::string y_type = "tensor<" + rows + "N x " + t + ">";
          std::string text = "func @f(%x: tensor<" + rows + "K x " + t + ">, %w: tensor<" +
                             (transposed ? "N x K x " : "K x N x ") + t + ">, %b: tensor<N x " + t +
                             ">, %r: " + y_type + ") -> " + y_type +
                             " {\n  %p = matmul %x, %w {transpose_b = " + (transposed ? "true" : "false") +
                             "} : " + y_type + "\n" + program.steps + "  return %y\n}\n";
          for (size_t at = text.find(": Y\n"); at != std::string::npos; at = text.find(": Y\n"))
            text.replace(at, 3, ": " + y_type);
          auto module = Module::parse(text);
          ASSERT_TRUE(module.ok()) << module.status().message();
          const Function f = *module->function("f");
          const std::string what = t + " " + program.name + (batch > 0 ? " in batches" : "");
          // Shapes that cuBLASLt takes so, and one whose rows are no multiples of 16 bytes.
          const int64_t before = Fused();
          for (const auto& [m, n, k] : {std::array<int64_t, 3>{200, 264, 136}, {64, 128, 72}, {50, 33, 17}}) {
            auto shape = [&](int64_t r, int64_t c) {
              return batch > 0 ? std::vector<int64_t>{batch, r, c} : std::vector<int64_t>{r, c};
            };
            const Tensor x = randn(shape(m, k)).cast(dtype);
            const Tensor w = (randn(transposed ? Dims{n, k} : Dims{k, n}) * 0.1).cast(dtype);
            const Tensor b = randn({n}).cast(dtype), r = randn(shape(m, n)).cast(dtype);
            std::vector<Tensor> y;
            for (int i = 0; i < 6; ++i) y = f({x, w, b, r});
            const Tensor p = matmul(Here(x), Here(w), false, transposed);
            const std::string name(program.name);
            Tensor want = p;
            if (name.find("bias") != std::string::npos) want = want + Here(b);
            if (name.find("residual") != std::string::npos) want = want + Here(r);
            if (name.find("gelu") != std::string::npos) want = gelu_tanh(want);
            const Tensor off = max(abs(Here(y[0]) - want) / (abs(want) + 1.0));
            EXPECT_LT(off.item<float>(), dtype == f32 ? 1e-4f : 0.03f) << what << " " << m << "x" << n << "x" << k;
          }
          EXPECT_GT(Fused(), before) << what;
        }
      }
    }
  }
}

// The result of one step is what the next one reads, also where the runs are graphs and a NaN is among the numbers.
TEST_F(CudaEpilogues, InALoopOfEagerOps) {
  Set("hot_eager", "2");
  const Tensor w = (randn({64, 64}) * 0.05).cast(bf16), b = randn({64}).cast(bf16);
  Tensor x = randn({128, 64}).cast(bf16), want = Here(x);
  const int64_t before = Fused();
  for (int i = 0; i < 60; ++i) {
    x = matmul(x, w) + b;
    Step next;
  }
  const Tensor here_w = Here(w), here_b = Here(b);
  for (int i = 0; i < 60; ++i) want = (matmul(want, here_w) + here_b).cast(bf16).cast(f32);
  EXPECT_GT(Fused(), before);
  EXPECT_LT(max(abs(Here(x) - want)).item<float>(), 0.1f);
  auto module = Module::parse(
      "func @f(%x: tensor<M x K x f32>, %w: tensor<K x N x f32>, %b: tensor<N x f32>) -> tensor<M x N x f32> {\n"
      "  %p = matmul %x, %w : tensor<M x N x f32>\n  %y = add %p, %b : tensor<M x N x f32>\n  return %y\n}\n");
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Function f = *module->function("f");
  std::vector<float> bias(64, 1.0f);
  bias[3] = std::numeric_limits<float>::quiet_NaN();
  bias[5] = std::numeric_limits<float>::infinity();
  const Tensor odd = Tensor::from<float>(bias, {64});
  std::vector<Tensor> y;
  for (int i = 0; i < 8; ++i) y = f({ones({32, 64}), ones({64, 64}), odd});
  const std::vector<float> got = y[0].to_vector<float>();
  for (size_t i = 0; i < got.size(); ++i) {
    if (i % 64 == 3)
      EXPECT_TRUE(std::isnan(got[i]));
    else if (i % 64 == 5)
      EXPECT_TRUE(std::isinf(got[i]));
    else
      EXPECT_EQ(got[i], 65.0f);
  }
}

}  // namespace
}  // namespace tessera
