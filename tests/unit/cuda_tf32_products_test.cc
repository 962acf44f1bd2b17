// Products of f32 on tensor cores, in tf32, where the option says so. Without such a device there is nothing to run.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "cuda_kernels_testing.h"

namespace tessera {
namespace {

class CudaTf32Products : public CudaKernels {
 protected:
  void SetUp() override {
    CudaKernels::SetUp();
    if (IsSkipped()) return;
    if ((*rt::Cuda(0))->code_target() != "sm_90a") GTEST_SKIP() << "no tensor cores of sm_90a";
    tf32_ = std::make_unique<OptionScope>(std::map<std::string, std::string>{{"tf32", "true"}});
  }
  void TearDown() override {
    tf32_.reset();
    CudaKernels::TearDown();
  }

  static Tensor Wide(const Tensor& x) { return x.to(Device::cpu()).cast(f64); }
  /// Half a unit of 10 bits for each factor, and what f32 loses of the sum.
  static double BoundOf(int64_t k) { return 0x1p-10 * 1.01 + static_cast<double>(k) * 0x1p-22; }
  /// f(args), called until it runs in a generated kernel.
  static std::vector<Tensor> RunAll(const Function& f, const std::vector<Tensor>& args, const std::string& what) {
    const int64_t before = Generated();
    std::vector<Tensor> y;
    for (int i = 0; i < 8; ++i) y = f(args);
    EXPECT_GT(Generated(), before) << what;
    return y;
  }
  static Tensor Run(const Function& f, const std::vector<Tensor>& args, const std::string& what) {
    return RunAll(f, args, what)[0];
  }

 private:
  std::unique_ptr<OptionScope> tf32_;
};

constexpr const char* kSchedules[] = {"*:form=tensor", "*:form=tensor,rows=128,columns=256,stages=4,apart=0,cluster=0",
                                      "*:form=tensor,rows=128,columns=256,stages=3,apart=0,cluster=2",
                                      "*:form=tensor,rows=128,columns=128,stages=5,apart=1,cluster=0",
                                      "*:form=tensor,rows=128,columns=128,stages=4,apart=1,cluster=2",
                                      "*:form=tensor,rows=64,columns=256,stages=4,apart=1,cluster=2",
                                      "*:form=tensor,rows=256,columns=128,stages=2,apart=0,cluster=2",
                                      "*:form=tensor,rows=128,columns=64,stages=6,apart=0,cluster=2",
                                      "*:form=tensor,rows=128,columns=256,stages=3,apart=0,cluster=0,source=1",
                                      // As on other devices than sm_90a.
                                      "*:form=tensor,rows=256,columns=128,stages=3,apart=0,cluster=0,warps=1",
                                      "*:form=tensor,rows=128,columns=128,stages=2,apart=0,cluster=0,warps=1",
                                      "*:form=tensor,rows=128,columns=64,stages=3,apart=0,cluster=0,warps=1"};

struct Case {
  int64_t batch, m, n, k;
};

std::vector<Case> Cases() {
  std::vector<Case> cases = {{0, 128, 256, 64}, {0, 1000, 776, 1032}, {0, 4000, 1024, 520}, {3, 200, 264, 136}};
  std::mt19937 rng(32);
  auto pick = [&](int64_t low, int64_t high) { return low + static_cast<int64_t>(rng()) % (high - low + 1); };
  for (int i = 0; i < 4; ++i) cases.push_back({i == 3 ? 2 : 0, pick(128, 700), 8 * pick(8, 90), 8 * pick(8, 150)});
  return cases;
}

// With a matrix that is read, which goes through registers, and without, where results go through shared memory.
TEST_F(CudaTf32Products, WhatFollowsIsPartOfTheKernel) {
  for (const Case& c : Cases()) {
    const std::string b = c.batch > 0 ? "B x " : "", y_type = "tensor<" + b + "M x N x f32>";
    auto shape = [&](int64_t rows, int64_t columns) {
      std::vector<int64_t> dims = {rows, columns};
      if (c.batch > 0) dims.insert(dims.begin(), c.batch);
      return dims;
    };
    const Tensor x = randn(shape(c.m, c.k)), w = randn(shape(c.n, c.k));
    const Tensor bias = randn({c.n}), r = randn(shape(c.m, c.n));
    const Tensor want = relu(matmul(Wide(x), Wide(w), false, true) + Wide(bias));
    const Tensor terms = matmul(abs(Wide(x)), abs(Wide(w)), false, true) + abs(Wide(bias));
    for (const bool has_matrix : {false, true}) {
      const std::string text = "func @f(%x: tensor<" + b + "M x K x f32>, %w: tensor<" + b +
                               "N x K x f32>, %b: tensor<N x f32>, %r: " + y_type + ") -> " + y_type +
                               " {\n  %p = matmul %x, %w {transpose_b = true}\n  %q = add %p, %b\n  %g = relu %q\n" +
                               (has_matrix ? "  %y = add %g, %r\n  return %y\n}\n" : "  return %g\n}\n");
      for (const char* schedule : kSchedules) {
        for (const char* specialise_after : {"1000000000", "0"}) {
          OptionScope options({{"schedule", schedule}, {"specialise_after", specialise_after}});
          auto module = Module::parse(text);
          ASSERT_TRUE(module.ok()) << module.status().message();
          const std::string what = std::string(schedule) + " " + specialise_after + " " + std::to_string(c.batch) +
                                   " of " + std::to_string(c.m) + "x" + std::to_string(c.n) + "x" +
                                   std::to_string(c.k) + (has_matrix ? " and a matrix" : "");
          const Tensor y = Run(*module->function("f"), {x, w, bias, r}, what);
          ExpectWithin(y, has_matrix ? want + Wide(r) : want, has_matrix ? terms + abs(Wide(r)) : terms, BoundOf(c.k),
                       what);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(CudaTf32Products, ResultsOfManyKinds) {
  auto module = Module::parse(
      "func @f(%x: tensor<M x K x f32>, %w: tensor<N x K x f32>, %s: tensor<M x 1 x f32>, %c: tensor<f32>) ->"
      " (tensor<M x N x bf16>, tensor<M x N x f32>) {\n  %p = matmul %x, %w {transpose_b = true}\n  %a = mul %p, %s\n"
      "  %y = cast %a {dtype = bf16}\n  %z = mul %a, %c\n  return %y, %z\n}\n");
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Function f = *module->function("f");
  OptionScope tier({{"specialise_after", "0"}});
  for (const char* schedule : kSchedules) {
    OptionScope cut({{"schedule", schedule}});
    const Tensor x = randn({264, 192}), w = randn({320, 192}), s = randn({264, 1}), c = full({}, 1.5);
    const std::vector<Tensor> y = RunAll(f, {x, w, s, c}, schedule);
    const Tensor want = matmul(Wide(x), Wide(w), false, true) * Wide(s);
    const Tensor terms = matmul(abs(Wide(x)), abs(Wide(w)), false, true) * abs(Wide(s));
    ExpectWithin(y[0], want, terms, BoundOf(192) + 0x1p-8, std::string("bf16 ") + schedule);
    ExpectWithin(y[1], want * 1.5, terms * 1.5, BoundOf(192), std::string("f32 ") + schedule);
  }
}

// Were factors cut off, not rounded, sums of what is positive would all be too small, by more than 2^-11.
TEST_F(CudaTf32Products, FactorsAreRoundedToNearest) {
  auto module = Module::parse(
      "func @f(%x: tensor<M x K x f32>, %w: tensor<N x K x f32>) -> tensor<M x N x f32> {\n"
      "  %p = matmul %x, %w {transpose_b = true}\n  %y = relu %p\n  return %y\n}\n");
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Function f = *module->function("f");
  OptionScope tier({{"specialise_after", "0"}});
  for (const char* schedule : kSchedules) {
    OptionScope cut({{"schedule", schedule}});
    const Tensor x = abs(randn({256, 4096})) + 0.5, w = abs(randn({256, 4096})) + 0.5;
    const Tensor y = Run(f, {x, w}, schedule);
    const Tensor want = matmul(Wide(x), Wide(w), false, true);
    ExpectWithin(y, want, want, 0x1p-13, schedule);
  }
}

// A NaN and an infinity stay in their row and column.
TEST_F(CudaTf32Products, WhatIsNoNumber) {
  auto module = Module::parse(
      "func @f(%x: tensor<M x K x f32>, %w: tensor<N x K x f32>) -> tensor<M x N x f32> {\n"
      "  %p = matmul %x, %w {transpose_b = true}\n  %y = neg %p\n  return %y\n}\n");
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Function f = *module->function("f");
  OptionScope tier({{"specialise_after", "0"}});
  for (const char* schedule : kSchedules) {
    OptionScope cut({{"schedule", schedule}});
    std::vector<float> left(256 * 192, 1.0f), right(320 * 192, 1.0f);
    left[17 * 192 + 5] = std::numeric_limits<float>::quiet_NaN();
    right[33 * 192 + 191] = std::numeric_limits<float>::infinity();
    const Tensor y = Run(f, {Tensor::from<float>(left, {256, 192}), Tensor::from<float>(right, {320, 192})}, schedule);
    const std::vector<float> got = Here(y).to_vector<float>();
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t row = i / 320, column = i % 320;
      if (row == 17)
        ASSERT_TRUE(std::isnan(got[i])) << schedule << " " << row << " " << column;
      else
        ASSERT_EQ(got[i], column == 33 ? -std::numeric_limits<float>::infinity() : -192.0f)
            << schedule << " " << row << " " << column;
    }
  }
}

// The option is asked for in each call: the same function is in f32 when it is off again.
TEST_F(CudaTf32Products, OnlyWithTheOption) {
  auto module = Module::parse(
      "func @f(%x: tensor<M x K x f32>, %w: tensor<N x K x f32>, %b: tensor<N x f32>) -> tensor<M x N x f32> {\n"
      "  %p = matmul %x, %w {transpose_b = true}\n  %q = add %p, %b\n  %y = relu %q\n  return %y\n}\n");
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Function f = *module->function("f");
  OptionScope tier({{"specialise_after", "0"}});
  const Tensor x = randn({512, 256}), w = randn({384, 256}), b = randn({384});
  const Tensor want = relu(matmul(Wide(x), Wide(w), false, true) + Wide(b));
  const Tensor terms = matmul(abs(Wide(x)), abs(Wide(w)), false, true) + abs(Wide(b));
  for (const bool tf32 : {true, false, true, false}) {
    OptionScope option({{"tf32", tf32 ? "true" : "false"}});
    std::vector<Tensor> y;
    for (int i = 0; i < 8; ++i) y = f({x, w, b});
    ExpectWithin(y[0], want, terms, tf32 ? BoundOf(256) : 256 * 0x1p-23, tf32 ? "tf32" : "f32");
    if (tf32) {
      const double off = max(abs(Wide(y[0]) - want) / terms).item<double>();
      EXPECT_GT(off, 1e-5) << "it did not multiply in tf32";
    }
  }
}

// What tensor cores cannot read: a factor across the sum, rows that are no multiples of 16 bytes. The library has them,
// whatever the schedule says.
// Who multiplies is said in tests/compiler; that it is right, here.
TEST_F(CudaTf32Products, OthersAreRightToo) {
  OptionScope options({{"specialise_after", "0"}, {"schedule", "*:form=tensor"}});
  for (const bool across : {true, false}) {
    auto module = Module::parse(
        "func @f(%x: tensor<M x K x f32>, %w: tensor<" + std::string(across ? "K x N" : "N x K") +
        " x f32>) -> tensor<M x N x f32> {\n  %p = matmul %x, %w {transpose_b = " + (across ? "false" : "true") +
        "}\n  %y = relu %p\n  return %y\n}\n");
    ASSERT_TRUE(module.ok()) << module.status().message();
    const Function f = *module->function("f");
    const int64_t k = across ? 256 : 253;
    const Tensor x = randn({272, k}), w = randn({304, k});
    const Tensor given = across ? copy(transpose(w, {1, 0})) : w;
    std::vector<Tensor> y;
    for (int i = 0; i < 8; ++i) y = f({x, given});
    const Tensor want = relu(matmul(Wide(x), Wide(w), false, true));
    const Tensor terms = matmul(abs(Wide(x)), abs(Wide(w)), false, true);
    // Whether the library rounds factors or cuts them off is its own affair.
    ExpectWithin(y[0], want, terms, 2 * BoundOf(k), across ? "across" : "odd rows");
  }
}

}  // namespace
}  // namespace tessera
