// What every device must do. A new device only has to appear in AllDevices().
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "runtime/fault.h"

namespace tessera::rt {
namespace {

class DeviceCts : public testing::TestWithParam<Device*> {
 protected:
  Device& device() { return *GetParam(); }
  int64_t in_use() { return device().memory_stats().bytes_in_use; }
  void* Take(size_t bytes) {
    auto p = device().Allocate(bytes);
    EXPECT_TRUE(p.ok()) << p.status();
    return p.ok() ? *p : nullptr;
  }
  void TearDown() override {
    DisarmFaults();
    device().SetMemoryLimit(0);
  }
};

TEST_P(DeviceCts, IsFoundByName) {
  auto found = FindDevice(device().name());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, &device());
}

TEST_P(DeviceCts, MemoryIsAlignedAndDistinct) {
  std::set<void*> seen;
  std::vector<std::pair<void*, size_t>> blocks;
  for (const size_t bytes : {0, 0, 1, 1, 63, 64, 65, 4096, 100000, 5000000}) {
    void* p = Take(bytes);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
    EXPECT_TRUE(seen.insert(p).second) << bytes;
    blocks.emplace_back(p, bytes);
  }
  for (auto [p, bytes] : blocks) device().Free(p, bytes);
}

TEST_P(DeviceCts, CountsWhatIsInUse) {
  const int64_t before = in_use();
  device().ResetPeak();
  const int64_t allocations = device().memory_stats().allocations;
  void* a = Take(1000);
  void* b = Take(3000000);
  EXPECT_GE(in_use(), before + 3001000);
  device().Free(b, 3000000);
  EXPECT_GE(in_use(), before + 1000);
  EXPECT_LT(in_use(), before + 3000000);
  device().Free(a, 1000);
  EXPECT_EQ(in_use(), before);
  const MemoryStats stats = device().memory_stats();
  EXPECT_EQ(stats.allocations, allocations + 2);
  EXPECT_GE(stats.peak_bytes, before + 3001000);
  device().ResetPeak();
  EXPECT_EQ(device().memory_stats().peak_bytes, before);
  device().Trim();
  EXPECT_EQ(in_use(), before);
}

TEST_P(DeviceCts, LimitRefusesAndNamesTheNumbers) {
  device().Trim();
  const MemoryStats now = device().memory_stats();
  const int64_t limit = now.bytes_in_use + now.bytes_cached + (4 << 20);
  device().SetMemoryLimit(limit);
  EXPECT_EQ(device().memory_stats().limit_bytes, limit);
  void* p = Take(4 << 20);
  auto refused = device().Allocate(1 << 20);
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string message(refused.status().message());
  EXPECT_NE(message.find("1048576 bytes"), std::string::npos) << message;
  EXPECT_NE(message.find(std::to_string(limit)), std::string::npos) << message;
  EXPECT_NE(message.find(device().name()), std::string::npos) << message;
  device().Free(p, 4 << 20);
  device().Free(Take(1 << 20), 1 << 20);
  device().SetMemoryLimit(0);
  EXPECT_EQ(device().memory_stats().limit_bytes, 0);
  device().Free(Take(8 << 20), 8 << 20);
}

TEST_P(DeviceCts, ImpossibleRequestsAreRefused) {
  const int64_t before = in_use();
  EXPECT_EQ(device().Allocate(SIZE_MAX).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device().Allocate(SIZE_MAX / 2).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(in_use(), before);
}

TEST_P(DeviceCts, AllocationFaultIsAnErrorAndLosesNothing) {
  const int64_t before = in_use();
  ArmFault(Fault::allocation, 1);
  EXPECT_EQ(device().Allocate(256).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(in_use(), before);
  device().Free(Take(256), 256);
}

TEST_P(DeviceCts, ReadsComeAfterWhatWasSubmittedBefore) {
  if (!device().executes()) GTEST_SKIP() << "nothing to read";
  // Of several pieces. Each thread fills its block anew, by copies on the device, right before it reads it.
  constexpr int kNumbers = 5 << 18;
  constexpr size_t kBytes = kNumbers * sizeof(int32_t);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::vector<int32_t> sent[2], back(kNumbers);
      void* from[2];
      for (int k = 0; k < 2; ++k) {
        sent[k].resize(kNumbers);
        std::iota(sent[k].begin(), sent[k].end(), (2 * t + k) * 10'000'000);
        from[k] = Take(kBytes);
        ASSERT_TRUE(device().CopyFromHost(from[k], sent[k].data(), kBytes).ok());
      }
      void* p = Take(kBytes);
      for (int round = 0; round < 6; ++round) {
        for (int n = 0; n < 10; ++n) ASSERT_TRUE(device().CopyWithin(p, from[(round + n + 1) % 2], kBytes).ok());
        ASSERT_TRUE(device().CopyToHost(back.data(), p, kBytes).ok());
        EXPECT_EQ(back, sent[round % 2]) << round;
      }
      for (void* block : {from[0], from[1], p}) device().Free(block, kBytes);
    });
  for (std::thread& t : threads) t.join();
}

TEST_P(DeviceCts, UploadsComeBeforeWhatFollowsTheirJoin) {
  // Memory that was used a moment ago is written from aside, again and again; copies are larger than one piece.
  std::vector<std::vector<int32_t>> values;
  for (int i = 0; i < 8; ++i) {
    values.emplace_back((700 << 10) + i * 1000);
    std::iota(values.back().begin(), values.back().end(), i * 1'000'000);
  }
  for (int round = 0; round < 3; ++round) {
    for (const std::vector<int32_t>& sent : values) {
      const size_t bytes = sent.size() * sizeof(int32_t);
      void* p = Take(bytes);
      ASSERT_TRUE(device().Zero(p, bytes).ok());
      std::vector<int32_t> source = sent;
      auto upload = device().StartUpload(p, source.data(), bytes);
      ASSERT_TRUE(upload.ok()) << upload.status();
      std::fill(source.begin(), source.end(), -1);  // it may change by now
      if (*upload != nullptr) {
        EXPECT_TRUE((*upload)->Join().ok());
        EXPECT_TRUE((*upload)->Join().ok()) << "twice is as good as once";
      }
      upload->reset();
      if (device().executes()) {
        std::vector<int32_t> back(sent.size());
        ASSERT_TRUE(device().CopyToHost(back.data(), p, bytes).ok());
        EXPECT_EQ(back, sent);
      }
      device().Free(p, bytes);
    }
  }
  // One that nobody joins: whoever gets its memory next comes after it all the same.
  const size_t bytes = 1 << 20;
  void* p = Take(bytes);
  ASSERT_TRUE(device().StartUpload(p, values[0].data(), bytes).ok());
  ASSERT_TRUE(device().Zero(p, bytes).ok());
  if (device().executes()) {
    std::vector<char> back(bytes, 1);
    ASSERT_TRUE(device().CopyToHost(back.data(), p, bytes).ok());
    EXPECT_EQ(std::count(back.begin(), back.end(), 0), static_cast<ptrdiff_t>(bytes));
  }
  device().Free(p, bytes);
  ASSERT_TRUE(device().StartUpload(nullptr, nullptr, 0).ok());
}

TEST_P(DeviceCts, CopiesRoundTripOrAreRefused) {
  std::vector<int32_t> out(50000), back(50000, -1);
  std::iota(out.begin(), out.end(), 0);
  const size_t bytes = out.size() * sizeof(int32_t);
  void* p = Take(bytes);
  ASSERT_TRUE(device().CopyFromHost(p, out.data(), bytes).ok());
  ASSERT_TRUE(device().Synchronize().ok());
  const absl::Status read = device().CopyToHost(back.data(), p, bytes);
  if (device().executes()) {
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_EQ(back, out);
  } else {
    EXPECT_EQ(read.code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(read.message().find(std::string(device().name())), std::string::npos) << read;
    EXPECT_EQ(back.front(), -1);
  }
  EXPECT_TRUE(device().CopyFromHost(p, nullptr, 0).ok());
  device().Free(p, bytes);
}

TEST_P(DeviceCts, WorksFromManyThreads) {
  const int64_t before = in_use();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const size_t bytes = static_cast<size_t>((i * 37 + t * 101) % 150000);
        auto p = device().Allocate(bytes);
        ASSERT_TRUE(p.ok());
        device().Free(*p, bytes);
        if (i % 500 == 0) {
          ASSERT_GE(device().memory_stats().peak_bytes, 0);
        }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(in_use(), before);
}

TEST(Devices, UnknownNameListsThem) {
  const absl::Status status = FindDevice("tpu").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(std::string(status.message()).starts_with("no device is called 'tpu'; the devices are cpu, null"))
      << status;
}

INSTANTIATE_TEST_SUITE_P(All, DeviceCts, testing::ValuesIn(AllDevices()), [](const auto& info) {
  std::string name(info.param->name());
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

}  // namespace
}  // namespace tessera::rt
