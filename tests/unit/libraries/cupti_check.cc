// What becomes of records of CUPTI, with a library that stands in for it (cupti.cc, found by LD_LIBRARY_PATH): a
// program of its own, because CUPTI is opened once in a process. No GPU is needed.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/activity.h"
#include "runtime/cuda/cupti.h"

namespace tessera {
namespace {

TEST(CuptiOfAnotherVersion, IsNotUsedAndThatIsSaid) {
  if (std::getenv("STAND_IN_VERSION") == nullptr) GTEST_SKIP() << "run in a process of its own";
  const absl::Status started = rt::ActivityRecorder::Start([](absl::Span<const rt::Activity>) {});
  EXPECT_TRUE(absl::IsNotFound(started)) << started;
  EXPECT_THAT(std::string(started.message()), testing::HasSubstr("CUPTI is version 110000, and this was built for"));
  EXPECT_FALSE(rt::ActivityRecorder::is_on());
  EXPECT_FALSE(cuda::PushOwner(7));
}

class CuptiStandIn : public testing::Test {
 protected:
  absl::Status Start() {
    return rt::ActivityRecorder::Start(
        [this](absl::Span<const rt::Activity> some) { all_.insert(all_.end(), some.begin(), some.end()); },
        [this](const rt::GpuLink& link) { links_.push_back(link); });
  }
  void TearDown() override {
    rt::ActivityRecorder::Stop();
    unsetenv("STAND_IN_WITHOUT_NVLINK");
  }
  static void Launch(uint64_t start, uint64_t end) {
    void* library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    const auto launch = reinterpret_cast<void (*)(uint64_t, uint64_t)>(dlsym(library, "StandInLaunch"));
    ASSERT_NE(launch, nullptr) << "this is another CUPTI";
    launch(start, end);
  }

  std::vector<rt::Activity> all_;
  std::vector<rt::GpuLink> links_;
};

TEST_F(CuptiStandIn, LinksAreTold) {
  ASSERT_TRUE(Start().ok());
  rt::ActivityRecorder::Stop();
  ASSERT_EQ(links_.size(), 2u);
  EXPECT_EQ(links_[0].ends[0].name, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_EQ(links_[0].ends[1].name, "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
  EXPECT_EQ(links_[0].ends[0].gpu, -1) << "no device has that name";
  EXPECT_EQ(links_[0].links, 18);
  EXPECT_EQ(links_[0].bytes_per_s, 450'000'000'000);
  EXPECT_EQ(links_[0].version, 4);
  EXPECT_TRUE(links_[0].by_switch);
  EXPECT_EQ(links_[1].ends[1].name, "processor 2");
  EXPECT_FALSE(links_[1].by_switch);
  EXPECT_TRUE(all_.empty());
}

TEST_F(CuptiStandIn, WithoutLinksEverythingElseIsThere) {
  setenv("STAND_IN_WITHOUT_NVLINK", "1", 1);
  ASSERT_TRUE(Start().ok());
  const int64_t owner = rt::ActivityOwner{rt::ActivityOwner::Kind::step, 3, 7}.Pack();
  ASSERT_TRUE(cuda::PushOwner(owner));
  Launch(100, 130);
  cuda::PopOwner();
  Launch(140, 150);
  rt::ActivityRecorder::Stop();
  EXPECT_TRUE(links_.empty());
  ASSERT_EQ(all_.size(), 2u);
  EXPECT_EQ(all_[0].owner, owner) << "it was told in the buffer after that of the kernel";
  EXPECT_EQ(all_[0].launched_ns, 95);
  EXPECT_EQ(all_[0].name, "k0");
  EXPECT_EQ(all_[0].blocks, 26u);
  EXPECT_EQ(all_[1].owner, 0);
  EXPECT_EQ(all_[1].launched_ns, 135);
  EXPECT_GT(rt::ActivityRecorder::lost(), 0) << "the stand-in drops some";
}

TEST_F(CuptiStandIn, OneAtATimeAndAgain) {
  ASSERT_TRUE(Start().ok());
  EXPECT_FALSE(Start().ok());
  rt::ActivityRecorder::Stop();
  ASSERT_TRUE(Start().ok());
  rt::ActivityRecorder::Stop();
  EXPECT_EQ(links_.size(), 4u);
}

}  // namespace
}  // namespace tessera
