// What CUPTI says of what ran on a GPU. Without one, or without CUPTI, there is nothing to run.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <vector>

#include "runtime/activity.h"
#include "runtime/clock.h"
#include "runtime/device.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

class CudaActivity : public testing::Test {
 protected:
  void SetUp() override {
    if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
    before_ = Runtime::device();
    Runtime::set_device(*Device::find("cuda"));
    begin_ = rt::NowNs();
    const absl::Status started = rt::ActivityRecorder::Start([this](absl::Span<const rt::Activity> some) {
      const std::lock_guard lock(mutex_);
      all_.insert(all_.end(), some.begin(), some.end());
    });
    if (absl::IsNotFound(started)) GTEST_SKIP() << started;
    ASSERT_TRUE(started.ok()) << started;
  }
  void TearDown() override {
    rt::ActivityRecorder::Stop();
    Runtime::set_device(before_);
  }
  /// Everything that is finished.
  std::vector<rt::Activity> Take() {
    EXPECT_TRUE(Runtime::synchronize(Runtime::device()).ok());
    rt::ActivityRecorder::Stop();
    EXPECT_EQ(rt::ActivityRecorder::lost(), 0);
    const std::lock_guard lock(mutex_);
    return all_;
  }

  Device before_ = Device::cpu();
  int64_t begin_ = 0;
  std::mutex mutex_;
  std::vector<rt::Activity> all_;
};

TEST_F(CudaActivity, EverythingIsThereWithItsOwnerAndItsTime) {
  ASSERT_TRUE(Runtime::set_option("tier", "1").ok());
  rt::Device& device = **rt::Cuda(0);
  Tensor x = full({1 << 20}, 0.5);
  constexpr size_t kBytes = 1 << 20;
  const auto memory = device.Allocate(kBytes);
  ASSERT_TRUE(memory.ok());
  EXPECT_TRUE(device.Synchronize().ok());
  for (const int64_t owner : {7, 8}) {
    const rt::ActivityScope scope(device, {rt::ActivityOwner::Kind::step, 3, owner});
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(device.Zero(*memory, kBytes).ok());
    x = exp(x);  // an op is the owner of what it launches
  }
  EXPECT_TRUE(device.Zero(*memory, kBytes).ok());
  const std::vector<rt::Activity> all = Take();
  const int64_t end = rt::NowNs();
  device.Free(*memory, kBytes);
  ASSERT_TRUE(Runtime::set_option("tier", "3").ok());
  std::map<int64_t, int> sets;
  int kernels = 0;
  for (const rt::Activity& a : all) {
    const rt::ActivityOwner owner = rt::ActivityOwner::Unpack(a.owner);
    if (a.kind != rt::ActivityKind::kernel && a.kind != rt::ActivityKind::set) continue;
    EXPECT_GE(a.start_ns, begin_);
    EXPECT_LT(a.start_ns, a.end_ns);
    EXPECT_LE(a.end_ns, end);
    if (a.kind == rt::ActivityKind::set) {
      if (a.bytes != kBytes) continue;
      ++sets[owner.number];
      EXPECT_EQ(owner.part, owner.number == 0 ? 0 : 3);
      continue;
    }
    EXPECT_FALSE(a.name.empty());
    EXPECT_GT(a.blocks, 0u);
    EXPECT_GT(a.registers, 0u);
    EXPECT_EQ(owner.kind, rt::ActivityOwner::Kind::op);
    ++kernels;
  }
  EXPECT_EQ(sets[7], 10);
  EXPECT_EQ(sets[8], 10);
  EXPECT_EQ(sets[0], 1);
  EXPECT_GE(kernels, 2);
}

TEST_F(CudaActivity, OneAtATimeAndAgain) {
  const absl::Status twice = rt::ActivityRecorder::Start([](absl::Span<const rt::Activity>) {});
  EXPECT_FALSE(twice.ok());
  rt::ActivityRecorder::Stop();
  int64_t seen = 0;
  ASSERT_TRUE(rt::ActivityRecorder::Start([&](absl::Span<const rt::Activity> some) {
                seen += static_cast<int64_t>(some.size());
              }).ok());
  const Tensor x = full({1000}, 0.5);
  EXPECT_EQ(sum(x).item<float>(), 500.0f);
  rt::ActivityRecorder::Stop();
  EXPECT_GE(seen, 2);
}

TEST(CudaProgramCounters, AreSampled) {
  if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  const Device before = Runtime::device();
  Runtime::set_device(*Device::find("cuda"));
  ASSERT_TRUE(Runtime::set_option("tier", "1").ok());
  rt::Device& device = **rt::Cuda(0);
  const Tensor x = full({1 << 26}, 0.5);
  const auto work = [&] {
    for (int i = 0; i < 5; ++i) exp(x);
    return device.Synchronize();
  };
  ASSERT_TRUE(work().ok());
  absl::Status status;
  const auto samples = rt::SamplePcs(device, work, &status);
  EXPECT_TRUE(status.ok()) << status;
  if (!samples.ok()) GTEST_SKIP() << samples.status();
  int64_t count = 0;
  for (const rt::PcSample& sample : *samples) {
    EXPECT_FALSE(sample.function.empty());
    for (const auto& [reason, n] : sample.stalls) count += n;
  }
  EXPECT_GT(count, 100);
  ASSERT_TRUE(Runtime::set_option("tier", "3").ok());
  Runtime::set_device(before);
}

}  // namespace
}  // namespace tessera
