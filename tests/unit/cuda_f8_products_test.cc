// Products of f8 on tensor cores: factors that are cast to bf16 or f16 for the product alone are read as they are.
// Without such a device there is nothing to run.
#include <gtest/gtest.h>

#include "cuda_kernels_testing.h"

namespace tessera {
namespace {

class CudaF8Products : public CudaKernels {
 protected:
  void SetUp() override {
    CudaKernels::SetUp();
    if (!IsSkipped() && (*rt::Cuda(0))->code_target() != "sm_90a") GTEST_SKIP() << "no tensor cores of sm_90a";
  }

  static float Off(const Tensor& got, const Tensor& want) {
    return max(abs(Here(got) - want) / (abs(want) + 1.0)).item<float>();
  }

  static Tensor Swapped(const Tensor& x) { return transpose(x, {1, 0}); }
};

struct Case {
  int64_t m, n, k;
  bool is_generated = true;
};

constexpr const char* kSchedules[] = {"",
                                      "*:form=tensor,rows=128,columns=192,stages=4,apart=0,cluster=2",
                                      "*:form=tensor,rows=128,columns=192,stages=3,apart=0,cluster=0",
                                      "*:form=tensor,rows=128,columns=128,stages=6,apart=0,cluster=2",
                                      "*:form=tensor,rows=128,columns=128,stages=2,apart=0,cluster=0",
                                      "*:form=tensor,rows=128,columns=64,stages=4,apart=0,cluster=0"};

TEST_F(CudaF8Products, WithScalesAndWhatFollows) {
  const Case cases[] = {{128, 256, 128}, {1000, 776, 1040}, {300, 264, 48}, {4000, 4096, 528}, {200, 264, 136, false}};
  const std::pair<DType, DType> pairs[] = {{f8e4m3, f8e4m3}, {f8e5m2, f8e4m3}, {f8e4m3, f8e5m2}, {f8e5m2, f8e5m2}};
  for (const char* schedule : kSchedules) {
    OptionScope cut({{"schedule", schedule}});
    for (const char* specialise_after : {"1000000000", "0"}) {
      OptionScope tier({{"specialise_after", specialise_after}});
      for (const auto& [left, right] : pairs) {
        for (const DType wide : {bf16, f16}) {
          if (wide == f16 && *schedule != 0) continue;
          const std::string t(Name(wide));
          auto module = Module::parse("func @f(%x: tensor<M x K x " + std::string(Name(left)) +
                                      ">, %w: tensor<N x K x " + std::string(Name(right)) +
                                      ">, %s: tensor<M x 1 x f32>, %t: tensor<N x f32>) -> tensor<M x N x " + t +
                                      "> {\n  %a = cast %x {dtype = " + t + "}\n  %b = cast %w {dtype = " + t +
                                      "}\n  %p = matmul %a, %b {transpose_b = true}\n  %q = mul %p, %s\n"
                                      "  %r = mul %q, %t\n  %g = gelu %r\n  %y = cast %g {dtype = " +
                                      t + "}\n  return %y\n}\n");
          ASSERT_TRUE(module.ok()) << module.status().message();
          const Function f = *module->function("f");
          for (const Case& c : cases) {
            const Tensor x = randn({c.m, c.k}).cast(left), w = (randn({c.n, c.k}) * 0.2).cast(right);
            const Tensor s = randn({c.m, 1}), scale = randn({c.n});
            const int64_t before = Generated();
            std::vector<Tensor> y;
            for (int i = 0; i < 8; ++i) y = f({x, w, s, scale});
            const std::string what = std::string(schedule) + " " + specialise_after + " " + std::string(Name(left)) +
                                     " " + std::string(Name(right)) + " " + t + " " + std::to_string(c.m) + "x" +
                                     std::to_string(c.n) + "x" + std::to_string(c.k);
            if (c.is_generated) EXPECT_GT(Generated(), before) << what;
            const Tensor want = gelu(matmul(Here(x), Swapped(Here(w))) * Here(s) * Here(scale));
            EXPECT_LT(Off(y[0], want), 0.03f) << what;
          }
        }
      }
    }
  }
}

// Tensor cores keep few bits of long sums of f8: pieces of them are added up in f32.
TEST_F(CudaF8Products, LongSumsKeepTheirBits) {
  OptionScope tier({{"specialise_after", "0"}});
  auto module = Module::parse(
      "func @f(%x: tensor<M x K x f8e4m3>, %w: tensor<N x K x f8e4m3>) -> tensor<M x N x f32> {\n"
      "  %a = cast %x {dtype = bf16}\n  %b = cast %w {dtype = bf16}\n  %p = matmul %a, %b {transpose_b = true}\n"
      "  %y = cast %p {dtype = f32}\n  return %y\n}\n");
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Function f = *module->function("f");
  for (const char* schedule : kSchedules) {
    OptionScope cut({{"schedule", schedule}});
    const Tensor x = (abs(randn({256, 32768})) + 0.5).cast(f8e4m3), w = (abs(randn({256, 32768})) + 0.5).cast(f8e4m3);
    const int64_t before = Generated();
    std::vector<Tensor> y;
    for (int i = 0; i < 8; ++i) y = f({x, w});
    EXPECT_GT(Generated(), before) << schedule;
    EXPECT_LT(Off(y[0], matmul(Here(x), Swapped(Here(w)))), 5e-4f) << schedule;
  }
}

// What cannot be read as it is: a factor that lies across the sum, one that others use, too. And one that is computed
// on the way.
TEST_F(CudaF8Products, OthersAreRightAsWell) {
  OptionScope tier({{"specialise_after", "0"}});
  const char* const types = "(%x: tensor<M x K x f8e4m3>, %w: tensor<";
  const std::pair<const char*, std::string> programs[] = {
      {"across", std::string("func @f") + types +
                     "K x N x f8e4m3>) -> tensor<M x N x bf16> {\n  %a = cast %x {dtype = bf16}\n" +
                     "  %b = cast %w {dtype = bf16}\n  %p = matmul %a, %b\n  %y = relu %p\n  return %y\n}\n"},
      {"used twice", std::string("func @f") + types +
                         "N x K x f8e4m3>) -> (tensor<M x N x bf16>, tensor<M x K x bf16>) {\n  %a = cast %x {dtype = "
                         "bf16}\n  %b = cast %w {dtype = bf16}\n  %p = matmul %a, %b {transpose_b = true}\n"
                         "  %y = relu %p\n  %z = neg %a\n  return %y, %z\n}\n"},
      {"computed", std::string("func @f") + types +
                       "N x K x f8e4m3>) -> tensor<M x N x bf16> {\n  %c = cast %x {dtype = f32}\n  %n = neg %c\n"
                       "  %d = neg %n\n  %e = cast %d {dtype = f8e4m3}\n  %a = cast %e {dtype = bf16}\n"
                       "  %b = cast %w {dtype = bf16}\n  %p = matmul %a, %b {transpose_b = true}\n  %y = relu %p\n"
                       "  return %y\n}\n"},
      {"f8 itself", std::string("func @f") + types +
                        "N x K x f8e4m3>) -> tensor<M x N x f8e4m3> {\n  %p = matmul %x, %w {transpose_b = true}\n"
                        "  %y = relu %p\n  return %y\n}\n"}};
  for (const auto& [name, text] : programs) {
    auto module = Module::parse(text);
    ASSERT_TRUE(module.ok()) << name << ": " << module.status().message();
    const Function f = *module->function("f");
    const bool across = std::string_view(name) == "across";
    const Tensor x = randn({272, 400}).cast(f8e4m3), w = (randn({304, 400}) * 0.2).cast(f8e4m3);
    const Tensor given = across ? copy(Swapped(w)) : w;
    std::vector<Tensor> y;
    for (int i = 0; i < 8; ++i) y = f({x, given});
    const Tensor want = relu(matmul(Here(x), Swapped(Here(w))));
    EXPECT_LT(Off(y[0], want), std::string_view(name) == "f8 itself" ? 0.07f : 0.03f) << name;
    if (y.size() > 1) EXPECT_EQ(max(abs(Here(y[1]) + Here(x))).item<float>(), 0.0f) << name;
  }
}

}  // namespace
}  // namespace tessera
