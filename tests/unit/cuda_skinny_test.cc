// Products of few rows on a CUDA device (interp/cuda/skinny.h) against f64 on the CPU. Without a device there is
// nothing to run.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/device.h"
#include "runtime/metrics.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

class CudaSkinny : public testing::Test {
 protected:
  void SetUp() override {
    if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
    before_ = Runtime::device();
    Runtime::set_device(*Device::find("cuda"));
  }
  void TearDown() override { Runtime::set_device(before_); }

  static int64_t Products() { return rt::SnapshotMetrics()[static_cast<int>(rt::Metric::products_run)]; }
  /// By how many steps of its dtype, at the size of the sum's terms, a result is off at most.
  static double Off(const Tensor& got, const Tensor& a, const Tensor& b) {
    const Tensor wide_a = a.to(Device::cpu()).cast(f64), wide_b = b.to(Device::cpu()).cast(f64);
    const Tensor want = matmul(wide_a, wide_b), size = abs(want) + sqrt(matmul(square(wide_a), square(wide_b))) * 1e-2;
    const double step = got.dtype() == bf16 ? 1.0 / 256 : 1.0 / 2048;
    return max(abs(got.to(Device::cpu()).cast(f64) - want) / (size * step)).item<double>();
  }

  Device before_ = Device::cpu();
};

TEST_F(CudaSkinny, AllRows) {
  for (const DType dtype : {bf16, f16}) {
    for (int64_t m = 1; m <= 16; ++m) {
      // The last block has all of its columns, some and few; k ends in the middle of a step and of a round.
      for (const auto& [k, n] : {std::pair<int64_t, int64_t>{4096, 16384}, {520, 16424}, {1032, 16392}}) {
        const Tensor a = randn({m, k}).cast(dtype), b = randn({k, n}).cast(dtype);
        const int64_t library = Products();
        const Tensor y = matmul(a, b);
        EXPECT_EQ(Products(), library) << "computed by cuBLASLt: " << m << "x" << k << "x" << n;
        EXPECT_LT(Off(y, a, b), 1) << m << "x" << k << "x" << n;
        EXPECT_TRUE(all(matmul(a, b) == y).item<bool>());
      }
    }
  }
}

TEST_F(CudaSkinny, RowsOfBatchesAndWindows) {
  const Tensor b = randn({1024, 16384}).cast(bf16), x = randn({2, 3, 1024}).cast(bf16);
  const Tensor y = matmul(x, b);
  EXPECT_LT(Off(reshape(y, {6, 16384}), reshape(x, {6, 1024}), b), 1);
  // Rows of a wider matrix, and a part of a wider one as the factor.
  const Tensor wide = randn({4, 2048}).cast(bf16), a = slice(wide, {0, 1024}, {4, 2048});
  EXPECT_LT(Off(matmul(a, b), a, b), 1);
  const Tensor part = slice(randn({1024, 16392}).cast(bf16), {0, 8}, {1024, 16392});
  EXPECT_LT(Off(matmul(a, part), a, part), 1);
  // cuBLASLt's: a window that does not begin at 16 bytes, and a matrix that lies by columns.
  const int64_t library = Products();
  const Tensor odd = slice(randn({1024, 16392}).cast(bf16), {0, 3}, {1024, 16387});
  EXPECT_LT(Off(matmul(a, odd), a, odd), 1.5);
  const Tensor t = randn({16384, 1024}).cast(bf16);
  EXPECT_LT(Off(matmul(a, t, false, true), a, transpose(t, {1, 0})), 1.5);
  EXPECT_EQ(Products(), library + 2);
}

TEST_F(CudaSkinny, NumbersThatAreNone) {
  Tensor a = zeros({3, 1024}, bf16), b = ones({1024, 16384}, bf16);
  Tensor row = full({1, 1024}, std::numeric_limits<double>::infinity(), bf16);
  const Tensor y = matmul(concat({row, a}, 0), b).to(Device::cpu()).cast(f32);
  EXPECT_TRUE(all(isinf(slice(y, {0, 0}, {1, 16384}))).item<bool>());
  EXPECT_TRUE(all(slice(y, {1, 0}, {4, 16384}) == 0.0).item<bool>());
  const Tensor none = matmul(full({2, 1024}, std::numeric_limits<double>::quiet_NaN(), bf16), b);
  EXPECT_TRUE(all(isnan(none.cast(f32))).item<bool>());
}

TEST_F(CudaSkinny, InGraphs) {
  // A loop whose products become part of a graph.
  const Tensor w = (randn({2048, 16384}) * 0.02).cast(bf16), v = (randn({16384, 2048}) * 0.01).cast(bf16),
               x = randn({5, 2048}).cast(bf16);
  std::vector<Tensor> results;
  for (int i = 0; i < 60; ++i) {
    Tensor h = x;
    for (int layer = 0; layer < 2; ++layer) h = tanh(matmul(tanh(matmul(h, w)), v));
    results.push_back(sum(h.cast(f32)));
  }
  const double first = results[0].item<double>();
  for (const Tensor& r : results) EXPECT_NEAR(r.item<double>(), first, 0.02 * std::abs(first) + 1);
}

}  // namespace
}  // namespace tessera
