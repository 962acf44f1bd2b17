// Matrix products on tensor cores, with what follows them in the same kernel. Without such a device there is nothing to
// run.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/device.h"
#include "runtime/metrics.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

class CudaProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
    before_ = Runtime::device();
    Runtime::set_device(*Device::find("cuda"));
    if ((*rt::Cuda(0))->code_target() != "sm_90a") GTEST_SKIP() << "no tensor cores of sm_90a";
    Set("background", "false");
    Set("hot_function", "1");
    Set("profit_gate", "false");
    Set("compile_after", "0");
    Set("tune_budget", "0");
  }
  void TearDown() override {
    for (const auto& [name, value] : old_) EXPECT_TRUE(Runtime::set_option(name, value).ok());
    Runtime::set_device(before_);
  }
  void Set(const std::string& name, const std::string& value) {
    old_.emplace_back(name, *Runtime::option(name));
    ASSERT_TRUE(Runtime::set_option(name, value).ok());
  }
  static int64_t Kernels() { return rt::SnapshotMetrics()[static_cast<int>(rt::Metric::kernels_generated)]; }

  Device before_ = Device::cpu();
  std::vector<std::pair<std::string, std::string>> old_;
};

Tensor Swapped(const Tensor& x) {
  std::vector<int64_t> perm;
  for (int d = 0; d < x.rank(); ++d) perm.push_back(d);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return transpose(x, perm);
}

// Relative to the size of what was added up, in f32 on the cpu.
void ExpectNear(const Tensor& got, const Tensor& want, const std::string& what) {
  const Tensor y = got.to(Device::cpu()).cast(f32);
  ASSERT_EQ(y.dims(), want.dims()) << what;
  const float off = max(abs(y - want) / (abs(want) + 1.0)).item<float>();
  EXPECT_LT(off, 0.03f) << what;
}

struct Case {
  int64_t batch, m, n, k;
  bool transpose_a = false, transpose_b = false;
  bool is_generated = true;  // rows can be copied and written by vectors
};

TEST_F(CudaProducts, WhatFollowsIsPartOfTheKernel) {
  const Case cases[] = {
      {0, 128, 256, 64},
      {0, 1000, 776, 1032},
      {0, 1000, 776, 1032, true, false},
      {0, 1000, 776, 1032, false, true},
      {0, 1000, 776, 1032, true, true},
      {3, 200, 264, 136},
      {3, 200, 264, 136, false, true},
      {0, 200, 300, 136, false, true, false},  // rows of 600 bytes
      {0, 200, 304, 130, false, false, false},
      {0, 4000, 4096, 520},
  };
  for (const char* schedule : {"", "*:form=tensor,rows=128,columns=256,stages=4,apart=0,cluster=0",
                               "*:form=tensor,rows=128,columns=256,stages=3,apart=0,cluster=0",
                               "*:form=tensor,rows=128,columns=256,stages=3,apart=0,cluster=2",
                               "*:form=tensor,rows=128,columns=128,stages=5,apart=1,cluster=0",
                               "*:form=tensor,rows=128,columns=128,stages=4,apart=1,cluster=2",
                               "*:form=tensor,rows=64,columns=256,stages=4,apart=1,cluster=2",
                               "*:form=tensor,rows=256,columns=128,stages=2,apart=0,cluster=2",
                               "*:form=tensor,rows=128,columns=64,stages=6,apart=0,cluster=0",
                               // As on other devices than sm_90a.
                               "*:form=tensor,rows=256,columns=128,stages=3,apart=0,cluster=0,warps=1",
                               "*:form=tensor,rows=128,columns=128,stages=2,apart=0,cluster=0,warps=1",
                               "*:form=tensor,rows=128,columns=64,stages=3,apart=0,cluster=0,warps=1"}) {
    Set("schedule", schedule);
    for (const char* specialise_after : {"1000000000", "0"}) {
      Set("specialise_after", specialise_after);
      for (const DType dtype : {bf16, f16}) {
        const std::string t(Name(dtype));
        for (const Case& c : cases) {
          const std::string b = c.batch > 0 ? "B x " : "";
          const std::string x_type = "tensor<" + b + (c.transpose_a ? "K x M x " : "M x K x ") + t + ">";
          const std::string w_type = "tensor<" + b + (c.transpose_b ? "N x K x " : "K x N x ") + t + ">";
          const std::string y_type = "tensor<" + b + "M x N x " + t + ">";
          const std::string attrs = std::string(" {transpose_a = ") + (c.transpose_a ? "true" : "false") +
                                    ", transpose_b = " + (c.transpose_b ? "true" : "false") + "}";
          auto module = Module::parse(
              "func @f(%x: " + x_type + ", %w: " + w_type + ", %b: tensor<N x " + t + ">, %r: " + y_type + ") -> " +
              y_type + " {\n  %p = matmul %x, %w" + attrs + " : " + y_type + "\n  %q = add %p, %b : " + y_type +
              "\n  %g = relu %q : " + y_type + "\n  %y = add %g, %r : " + y_type + "\n  return %y\n}\n");
          ASSERT_TRUE(module.ok()) << module.status().message();
          const Function f = *module->function("f");
          auto shape = [&](int64_t rows, int64_t columns) {
            std::vector<int64_t> dims = {rows, columns};
            if (c.batch > 0) dims.insert(dims.begin(), c.batch);
            return dims;
          };
          const Tensor x = randn(c.transpose_a ? shape(c.k, c.m) : shape(c.m, c.k)).cast(dtype);
          const Tensor w = (randn(c.transpose_b ? shape(c.n, c.k) : shape(c.k, c.n)) * 0.1).cast(dtype);
          const Tensor bias = randn({c.n}).cast(dtype), r = randn(shape(c.m, c.n)).cast(dtype);
          const int64_t before = Kernels();
          std::vector<Tensor> y;
          for (int i = 0; i < 8; ++i) y = f({x, w, bias, r});
          const std::string what = std::string(schedule) + " " + specialise_after + " " + t + " " +
                                   std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k);
          if (c.is_generated && *schedule != 0) EXPECT_GT(Kernels(), before) << what;
          auto here = [](const Tensor& z) { return z.to(Device::cpu()).cast(f32); };
          const Tensor p =
              matmul(c.transpose_a ? Swapped(here(x)) : here(x), c.transpose_b ? Swapped(here(w)) : here(w));
          ExpectNear(y[0], relu(p + here(bias)) + here(r), what);
        }
      }
    }
  }
}

class CudaProductsOf : public CudaProducts, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Schedules, CudaProductsOf,
                         testing::Values("*:form=tensor", "*:form=tensor,stages=2,cluster=2",
                                         "*:form=tensor,rows=128,columns=128,stages=3,apart=0,cluster=0,warps=1"));

// Operands that are views, numbers of rows and of the host, a second result, NaN and infinity.
TEST_P(CudaProductsOf, OperandsOfManyKinds) {
  Set("schedule", GetParam());
  Set("specialise_after", "0");
  auto module = Module::parse(
      "func @f(%x: tensor<M x K x bf16>, %w: tensor<K x N x bf16>, %s: tensor<M x 1 x f32>, %c: tensor<f32>,"
      " %t: tensor<N x M x bf16>) -> (tensor<M x N x f32>, tensor<M x N x bf16>) {\n"
      "  %p = matmul %x, %w : tensor<M x N x bf16>\n"
      "  %q = cast %p {dtype = f32} : tensor<M x N x f32>\n"
      "  %a = mul %q, %s : tensor<M x N x f32>\n"
      "  %b = mul %a, %c : tensor<M x N x f32>\n"
      "  %u = transpose %t : tensor<M x N x bf16>\n"
      "  %v = add %p, %u : tensor<M x N x bf16>\n"
      "  return %b, %v\n"
      "}\n");
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Function f = *module->function("f");
  for (const int64_t m : {256, 264, 1000}) {
    const Tensor x = randn({m, 192}).cast(bf16), s = randn({m, 1}), c = full({}, 1.5);
    const Tensor w = randn({192, 320}).cast(bf16) * 0.1, t = randn({320, m}).cast(bf16);
    std::vector<Tensor> y;
    for (int i = 0; i < 8; ++i) y = f({x, w, s, c, t});
    auto here = [](const Tensor& z) { return z.to(Device::cpu()).cast(f32); };
    const Tensor p = matmul(here(x), here(w));
    ExpectNear(y[0], p * here(s) * 1.5, "numbers of rows");
    ExpectNear(y[1], p + Swapped(here(t)), "a transposed operand");
  }
  // A NaN and an infinity stay in their row.
  const Tensor one = full({256, 192}, 1.0).cast(bf16), w = full({192, 320}, 1.0).cast(bf16);
  const Tensor bad = full({1, 192}, std::numeric_limits<float>::quiet_NaN()).cast(bf16);
  const Tensor x = concat({slice(one, {0, 0}, {17, 192}), bad, slice(one, {18, 0}, {256, 192})}, 0);
  std::vector<Tensor> y;
  for (int i = 0; i < 8; ++i) y = f({x, w, full({256, 1}, 1.0), full({}, 1.0), full({320, 256}, 0.0).cast(bf16)});
  const std::vector<float> got = y[0].to(Device::cpu()).to_vector<float>();
  for (size_t row : {size_t{0}, size_t{16}, size_t{17}, size_t{18}, size_t{255}})
    for (size_t column : {size_t{0}, size_t{200}, size_t{319}})
      EXPECT_EQ(std::isnan(got[row * 320 + column]), row == 17) << row << " " << column;
  EXPECT_EQ(got[0], 192.0f);
}

// Where the data begins at an odd place the steps run instead of the kernel, and the result is the same.
TEST_P(CudaProductsOf, OddAddresses) {
  Set("schedule", GetParam());
  auto module = Module::parse(
      "func @f(%x: tensor<M x K x bf16>, %w: tensor<K x N x bf16>, %b: tensor<N x bf16>) -> tensor<M x N x bf16> {\n"
      "  %p = matmul %x, %w : tensor<M x N x bf16>\n"
      "  %q = add %p, %b : tensor<M x N x bf16>\n"
      "  %y = relu %q : tensor<M x N x bf16>\n"
      "  return %y\n"
      "}\n");
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Function f = *module->function("f");
  const Tensor all = randn({256 * 128 + 8}).cast(bf16), w = (randn({128, 256}) * 0.1).cast(bf16);
  const Tensor b = randn({256}).cast(bf16);
  for (const int64_t at : {0, 8, 1, 3, 0, 4}) {
    const Tensor x = reshape(slice(all, {at}, {at + 256 * 128}), {256, 128});
    std::vector<Tensor> y;
    for (int i = 0; i < 8; ++i) y = f({x, w, b});
    auto here = [](const Tensor& z) { return z.to(Device::cpu()).cast(f32); };
    ExpectNear(y[0], relu(matmul(here(x), here(w)) + here(b)), "at " + std::to_string(at));
  }
}

// More rows than find room in shared memory, a matrix that is a factor too, and two of them.
TEST_P(CudaProductsOf, ManyRowsAndMatrices) {
  Set("schedule", GetParam());
  for (const int rows : {1, 2, 3, 6}) {
    for (const int matrices : {0, 1, 2}) {
      std::string parameters = "%x: tensor<M x M x bf16>", steps = "  %y0 = matmul %x, %x : tensor<M x M x bf16>\n";
      const Tensor x = (randn({320, 320}) * 0.3).cast(bf16);
      std::vector<Tensor> args = {x};
      auto here = [](const Tensor& z) { return z.to(Device::cpu()).cast(f32); };
      Tensor want = matmul(here(x), here(x));
      int n = 0;
      const auto add = [&](const std::string& value) {
        const std::string y = "%y" + std::to_string(n + 1);
        steps += "  " + y + " = add %y" + std::to_string(n++) + ", " + value + " : tensor<M x M x bf16>\n";
      };
      for (int k = 0; k < rows; ++k) {
        parameters += ", %r" + std::to_string(k) + ": tensor<M x bf16>";
        args.push_back(randn({320}).cast(bf16));
        want = want + here(args.back());
        add("%r" + std::to_string(k));
      }
      if (matrices > 0) {
        want = want + here(x);
        add("%x");
      }
      if (matrices > 1) {
        parameters += ", %m: tensor<M x M x bf16>";
        args.push_back(randn({320, 320}).cast(bf16));
        want = want + here(args.back());
        add("%m");
      }
      auto module = Module::parse("func @f(" + parameters + ") -> tensor<M x M x bf16> {\n" + steps + "  return %y" +
                                  std::to_string(n) + "\n}\n");
      ASSERT_TRUE(module.ok()) << module.status().message();
      const Function f = *module->function("f");
      const int64_t before = Kernels();
      std::vector<Tensor> y;
      for (int i = 0; i < 8; ++i) y = f(args);
      const std::string what = std::to_string(rows) + " rows, " + std::to_string(matrices) + " matrices";
      EXPECT_GT(Kernels(), before) << what;
      ExpectNear(y[0], want, what);
    }
  }
}

}  // namespace
}  // namespace tessera
