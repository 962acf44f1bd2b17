// Shapes that are new all the time on a CUDA device: what cuBLASLt is asked, and what memory is asked of the driver.
// Without a device there is nothing to run.
#include <gtest/gtest.h>

#include "runtime/device.h"
#include "runtime/metrics.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

class CudaChurn : public testing::Test {
 protected:
  void SetUp() override {
    if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
    before_ = Runtime::device();
    Runtime::set_device(*Device::find("cuda"));
    tier_ = *Runtime::option("tier");
    ASSERT_TRUE(Runtime::set_option("tier", "1").ok());
  }
  void TearDown() override {
    if (!tier_.empty()) EXPECT_TRUE(Runtime::set_option("tier", tier_).ok());
    Runtime::set_device(before_);
  }
  static int64_t Asked() { return rt::SnapshotMetrics()[static_cast<int>(rt::Metric::products_chosen)]; }

  Device before_ = Device::cpu();
  std::string tier_;
};

TEST_F(CudaChurn, ProductsThatDifferInSizeShareAChoice) {
  // In f32 a program of few shapes has each asked about.
  for (int64_t n = 1; n <= 64; ++n) matmul(ones({3, 8}), ones({8, n}));
  // Sizes that no other test has.
  constexpr int64_t kInner = 3 * 136, kColumns = 5 * 136, kFirst = 10 * 256, kCount = 24;
  const auto near = [](const Tensor& got, const Tensor& a, const Tensor& b) {
    const Tensor want = matmul(a.to(Device::cpu()).cast(f32), b.to(Device::cpu()).cast(f32));
    const Tensor off = max(abs(got.to(Device::cpu()).cast(f32) - want) / (abs(want) + 8.0));
    return off.item<float>();
  };
  for (const DType dtype : {f32, bf16}) {
    const Tensor b = randn({kInner, kColumns}).cast(dtype);
    const int64_t start = Asked();
    for (int64_t i = 0; i < kCount; ++i) {
      const Tensor a = randn({kFirst + 8 * i, kInner}).cast(dtype);
      ASSERT_LT(near(matmul(a, b), a, b), 0.02f) << i;
    }
    const int64_t asked = Asked() - start;
    EXPECT_LE(asked, 1) << "sizes were asked about";
    // One that comes back often is worth a question of its own, once.
    const Tensor last = randn({kFirst + 8 * (kCount - 1), kInner}).cast(dtype);
    const int64_t again = Asked();
    for (int i = 0; i < 8; ++i) ASSERT_LT(near(matmul(last, b), last, b), 0.02f);
    EXPECT_EQ(Asked() - again, 1);
    const int64_t known = Asked();
    for (int i = 0; i < 3; ++i) matmul(last, b);
    EXPECT_EQ(Asked(), known);
    // So is one whose rows do not lie as the others': it must not get a kernel for what is aligned.
    const Tensor odd = randn({kFirst + 8, kInner - 3}).cast(dtype), short_b = randn({kInner - 3, kColumns}).cast(dtype);
    // Parts of such a sum may be added in bf16.
    ASSERT_LT(near(matmul(odd, short_b), odd, short_b), dtype == bf16 ? 0.05f : 0.02f);
  }
}

TEST_F(CudaChurn, ProductsThatTakeAsLongAsLoadingAKernelAreAskedAbout) {
  const Tensor b = zeros({8192, 8192}, bf16);
  for (const int64_t rows : {7 * 1024, 8 * 1024}) {
    const Tensor a = zeros({rows, 8192}, bf16);
    const int64_t start = Asked();
    matmul(a, b);
    EXPECT_EQ(Asked() - start, 1) << rows;
  }
}

TEST_F(CudaChurn, BlocksServeSizesALittleSmaller) {
  rt::Device& cuda = **rt::Cuda(0);
  cuda.Trim();
  const int64_t in_use = cuda.memory_stats().bytes_in_use;
  constexpr size_t kBytes = size_t{40} << 20;
  void* const first = *cuda.Allocate(kBytes);
  cuda.Free(first, kBytes);
  const int64_t taken = cuda.memory_stats().system_allocations;
  for (size_t less = 0; less < kBytes / 9; less += size_t{1} << 19) {
    void* const p = *cuda.Allocate(kBytes - less);
    EXPECT_EQ(p, first) << less;
    EXPECT_GE(cuda.memory_stats().bytes_in_use, in_use + static_cast<int64_t>(kBytes));
    cuda.Free(p, kBytes - less);
    EXPECT_EQ(cuda.memory_stats().bytes_in_use, in_use);
  }
  EXPECT_EQ(cuda.memory_stats().system_allocations, taken);
  // Half of it would be wasted here.
  void* const half = *cuda.Allocate(kBytes / 2);
  EXPECT_NE(half, first);
  cuda.Free(half, kBytes / 2);
  void* const same = *cuda.Allocate(kBytes);
  EXPECT_EQ(same, first);
  cuda.Free(same, kBytes);
}

TEST_F(CudaChurn, SizesThatDoNotComeBackDoNotPileUp) {
  rt::Device& cuda = **rt::Cuda(0);
  cuda.Trim();
  cuda.ResetPeak();
  constexpr size_t kMost = size_t{256} << 20;
  // Sizes of all magnitudes, one after the other: together many times what is in use at once.
  size_t all = 0;
  for (size_t bytes = size_t{2} << 20; bytes <= kMost; bytes += bytes / 7) {
    void* const p = *cuda.Allocate(bytes);
    cuda.Free(p, bytes);
    all += bytes;
  }
  const rt::MemoryStats stats = cuda.memory_stats();
  EXPECT_GT(all, size_t{3} << 29);
  EXPECT_LE(stats.bytes_cached + stats.bytes_in_use, 2 * stats.peak_bytes + (int64_t{1} << 30) + (int64_t{64} << 20));
  cuda.Trim();
}

}  // namespace
}  // namespace tessera
