// What CUPTI says of what ran on a GPU. Without one, or without CUPTI, there is nothing to run.
#include <gtest/gtest.h>

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
  /// Everything that is finished, of one kind.
  std::vector<rt::Activity> Take(rt::ActivityKind kind) {
    EXPECT_TRUE(Runtime::synchronize(Runtime::device()).ok());
    rt::ActivityRecorder::Stop();
    EXPECT_EQ(rt::ActivityRecorder::lost(), 0);
    const std::lock_guard lock(mutex_);
    std::vector<rt::Activity> some;
    for (const rt::Activity& a : all_)
      if (a.kind == kind) some.push_back(a);
    return some;
  }

  Device before_ = Device::cpu();
  int64_t begin_ = 0;
  std::mutex mutex_;
  std::vector<rt::Activity> all_;
};

TEST_F(CudaActivity, EveryKernelIsThereWithItsOwnerAndItsTime) {
  ASSERT_TRUE(Runtime::set_option("tier", "1").ok());
  Tensor x = full({1 << 20}, 0.5);
  EXPECT_TRUE(Runtime::synchronize(Runtime::device()).ok());
  for (int64_t owner : {7, 8}) {
    const rt::ActivityScope scope(**rt::Cuda(0), {rt::ActivityOwner::Kind::step, 3, owner});
    for (int i = 0; i < 10; ++i) x = exp(-x);
  }
  x = exp(x);
  const int64_t end = rt::NowNs() + int64_t{1'000'000'000};
  ASSERT_TRUE(Runtime::set_option("tier", "3").ok());
  const std::vector<rt::Activity> kernels = Take(rt::ActivityKind::kernel);
  int64_t of[3] = {};
  for (const rt::Activity& k : kernels) {
    EXPECT_GE(k.start_ns, begin_);
    EXPECT_LT(k.start_ns, k.end_ns);
    EXPECT_LT(k.end_ns, end);
    EXPECT_FALSE(k.name.empty());
    EXPECT_GT(k.blocks, 0u);
    EXPECT_GT(k.registers, 0u);
    const rt::ActivityOwner owner = rt::ActivityOwner::Unpack(k.owner);
    EXPECT_EQ(owner.part, owner.number == 0 ? 0 : 3);
    ++of[owner.number == 7 ? 0 : owner.number == 8 ? 1 : 2];
  }
  EXPECT_EQ(of[0], 20);
  EXPECT_EQ(of[1], 20);
  EXPECT_GE(of[2], 1);
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

}  // namespace
}  // namespace tessera
