#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <thread>
#include <vector>

#include "runtime/fault.h"
#include "runtime/memory_events.h"
#include "runtime/options.h"
#include "runtime/pool.h"
#include "runtime/sanitizer.h"

namespace tessera::rt {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class PoolTest : public testing::Test {
 protected:
  void SetUp() override {
    PoolTrim();
    PoolResetPeak();
  }
  void TearDown() override {
    DisarmFaults();
    PoolSetLimit(0);
    ASSERT_TRUE(options().Set("memory_cache_bytes", "-1").ok());
  }
};

TEST_F(PoolTest, BlockSizesCoverRequestsWithinTheStatedWaste) {
  for (size_t bytes = 0; bytes < 3 * kMiB; bytes = bytes < 4096 ? bytes + 1 : bytes + bytes / 97) {
    const size_t block = PoolBlockBytes(bytes);
    ASSERT_GE(block, bytes);
    ASSERT_EQ(block % kPoolAlignment, 0u);
    ASSERT_EQ(PoolBlockBytes(block), block) << "a block holds a request of its own size: " << bytes;
    const size_t waste = bytes > kSmallLimit ? bytes / 16 + 4096 : std::max<size_t>(bytes / 4, 64);
    ASSERT_LE(block, bytes + waste) << bytes;
  }
  EXPECT_EQ(PoolBlockBytes(kLargestRequest), kLargestRequest);
}

TEST_F(PoolTest, BlocksAreAlignedAndDisjoint) {
  std::mt19937 random(1);
  struct Block {
    unsigned char* p;
    size_t bytes;
    unsigned char mark;
  };
  std::vector<Block> live;
  for (int step = 0; step < 4000; ++step) {
    if (live.size() < 40 || random() % 2 == 0) {
      const size_t bytes = random() % 20 == 0 ? random() % (3 * kMiB) : random() % 70000;
      auto* p = static_cast<unsigned char*>(PoolAllocate(bytes));
      ASSERT_NE(p, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % kPoolAlignment, 0u);
      const auto mark = static_cast<unsigned char>(step);
      std::memset(p, mark, bytes);
      live.push_back({p, bytes, mark});
    } else {
      const size_t i = random() % live.size();
      const Block b = live[i];
      for (size_t k = 0; k < b.bytes; k += 61) ASSERT_EQ(b.p[k], b.mark);
      PoolFree(b.p, b.bytes);
      live[i] = live.back();
      live.pop_back();
    }
  }
  for (const Block& b : live) {
    for (size_t k = 0; k < b.bytes; k += 61) ASSERT_EQ(b.p[k], b.mark);
    PoolFree(b.p, b.bytes);
  }
}

TEST_F(PoolTest, StatisticsAreExact) {
  const MemoryStats before = PoolStats();
  for (const size_t bytes : {size_t{0}, size_t{100}, kSmallLimit, kSmallLimit + 1, 5 * kMiB}) {
    void* p = PoolAllocate(bytes);
    const MemoryStats with = PoolStats();
    EXPECT_EQ(with.bytes_in_use - before.bytes_in_use, static_cast<int64_t>(PoolBlockBytes(bytes))) << bytes;
    PoolFree(p, bytes);
    EXPECT_EQ(PoolStats().bytes_in_use, before.bytes_in_use) << bytes;
  }
  EXPECT_EQ(PoolStats().allocations - before.allocations, 5);
  EXPECT_EQ(PoolStats().peak_bytes, before.bytes_in_use + static_cast<int64_t>(5 * kMiB));
  PoolResetPeak();
  EXPECT_EQ(PoolStats().peak_bytes, before.bytes_in_use);
}

TEST_F(PoolTest, LargeBlocksAreReusedAndTrimmed) {
  PoolTrim();
  const int64_t spans = PoolStats().bytes_cached;
  void* first = PoolAllocate(3 * kMiB);
  PoolFree(first, 3 * kMiB);
  const MemoryStats kept = PoolStats();
  EXPECT_GE(kept.bytes_cached, static_cast<int64_t>(3 * kMiB));
  void* second = PoolAllocate(3 * kMiB);
  EXPECT_EQ(second, first);
  EXPECT_EQ(PoolStats().system_allocations, kept.system_allocations);
  PoolFree(second, 3 * kMiB);
  PoolTrim();
  EXPECT_LE(PoolStats().bytes_cached, spans);
}

TEST_F(PoolTest, CacheKeepsTheLatestUpToItsBound) {
  ASSERT_TRUE(options().Set("memory_cache_bytes", "8388608").ok());
  void *a = PoolAllocate(4 * kMiB), *b = PoolAllocate(3 * kMiB), *c = PoolAllocate(2 * kMiB);
  const int64_t cached = PoolStats().bytes_cached;
  PoolFree(a, 4 * kMiB);
  PoolFree(b, 3 * kMiB);
  PoolFree(c, 2 * kMiB);  // 9 MiB in all: a, the longest unused, goes
  EXPECT_EQ(PoolStats().bytes_cached - cached, static_cast<int64_t>(5 * kMiB));
  void* again = PoolAllocate(3 * kMiB);
  EXPECT_EQ(again, b);
  PoolFree(again, 3 * kMiB);
}

/// What pools took from the system and gave back while events were on: kind, bytes and why.
struct SystemEvent {
  EventKind kind;
  int64_t bytes, reason;
  bool operator==(const SystemEvent&) const = default;
};
template <class F>
std::vector<SystemEvent> SystemEventsOf(const F& run) {
  // A ring of a size that no other test uses starts empty.
  EXPECT_TRUE(options().Set("events", "2048").ok());
  const int64_t before = GlobalRing()->written();
  run();
  std::vector<SystemEvent> found;
  std::vector<Event> all = GlobalRing()->Snapshot();
  all.erase(all.begin(), all.end() - std::min<int64_t>(GlobalRing()->written() - before, std::ssize(all)));
  EXPECT_TRUE(options().Set("events", "0").ok());
  for (const Event& e : all) {
    if (e.kind != EventKind::system_allocation && e.kind != EventKind::system_free) continue;
    EXPECT_EQ(MemoryWhy::GpuOf(e.c), -1);
    EXPECT_GE(e.duration_ns, 0);
    found.push_back({e.kind, e.a, MemoryWhy::ReasonOf(e.c)});
  }
  return found;
}

TEST_F(PoolTest, WhatTheSystemIsAskedForIsAnEventWithItsReason) {
  constexpr auto kTake = EventKind::system_allocation, kGive = EventKind::system_free;
  const auto why = [](MemoryReason reason) { return static_cast<int64_t>(reason); };
  constexpr int64_t kThree = 3 * kMiB, kFour = 4 * kMiB;
  void* small = PoolAllocate(64);  // so that something is held all the time: a limit of 0 is none
  PoolTrim();
  using Events = std::vector<SystemEvent>;
  EXPECT_EQ(SystemEventsOf([] { PoolFree(PoolAllocate(3 * kMiB), 3 * kMiB); }),
            (Events{{kTake, kThree, why(MemoryReason::block)}}));
  EXPECT_EQ(SystemEventsOf([] { PoolFree(PoolAllocate(3 * kMiB), 3 * kMiB); }), Events{}) << "it was kept";
  EXPECT_EQ(SystemEventsOf([] { PoolTrim(); }), (Events{{kGive, kThree, why(MemoryReason::trim)}}));
  ASSERT_TRUE(options().Set("memory_cache_bytes", "3145728").ok());
  EXPECT_EQ(SystemEventsOf([] { PoolFree(PoolAllocate(4 * kMiB), 4 * kMiB); }),
            (Events{{kTake, kFour, why(MemoryReason::block)}, {kGive, kFour, why(MemoryReason::cache_full)}}));
  ASSERT_TRUE(options().Set("memory_cache_bytes", "-1").ok());
  PoolFree(PoolAllocate(3 * kMiB), 3 * kMiB);
  const MemoryStats now = PoolStats();
  EXPECT_EQ(SystemEventsOf([&] { PoolSetLimit(now.bytes_in_use + now.bytes_cached - kThree); }),
            (Events{{kGive, kThree, why(MemoryReason::limit)}}));
  PoolSetLimit(0);
  std::vector<void*> blocks;
  const Events spans = SystemEventsOf([&] {
    for (int i = 0; i < 2000; ++i) blocks.push_back(PoolAllocate(10000));
  });
  ASSERT_GE(spans.size(), 17u);
  EXPECT_EQ(spans[0], (SystemEvent{kTake, kSpanBytes, why(MemoryReason::span)}));
  const Events empty = SystemEventsOf([&] {
    for (void* p : blocks) PoolFree(p, 10000);
  });
  ASSERT_FALSE(empty.empty());
  EXPECT_EQ(empty[0], (SystemEvent{kGive, kSpanBytes, why(MemoryReason::empty_spans)}));
  // More than the limit allows: what is kept goes, and it is refused all the same.
  PoolFree(PoolAllocate(3 * kMiB), 3 * kMiB);
  PoolSetLimit(PoolStats().bytes_in_use + PoolStats().bytes_cached);
  const Events refused = SystemEventsOf([] { EXPECT_EQ(PoolAllocate(size_t{1} << 30), nullptr); });
  EXPECT_NE(std::find(refused.begin(), refused.end(), SystemEvent{kGive, kThree, why(MemoryReason::refused)}),
            refused.end());
  PoolFree(small, 64);
}

TEST_F(PoolTest, EmptySpansGoBackToTheSystem) {
  PoolTrim();
  const MemoryStats before = PoolStats();
  std::vector<void*> blocks;
  for (int i = 0; i < 2000; ++i) blocks.push_back(PoolAllocate(10000));
  EXPECT_GE(PoolStats().bytes_in_use - before.bytes_in_use, 2000 * 10000);
  for (void* p : blocks) PoolFree(p, 10000);
  PoolTrim();
  const MemoryStats after = PoolStats();
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
  EXPECT_LE(after.bytes_cached, before.bytes_cached + static_cast<int64_t>(kSpanBytes));
}

TEST_F(PoolTest, LimitIsExactForLargeBlocks) {
  void* small = PoolAllocate(64);
  PoolTrim();
  const MemoryStats now = PoolStats();
  const int64_t held = now.bytes_in_use + now.bytes_cached;
  PoolSetLimit(held + static_cast<int64_t>(4 * kMiB));
  void* fits = PoolAllocate(4 * kMiB);
  EXPECT_NE(fits, nullptr);
  EXPECT_EQ(PoolAllocate(kSmallLimit + 1), nullptr);
  PoolFree(fits, 4 * kMiB);
  // The cached 4 MiB stand in the way of these until they are given back.
  void* other = PoolAllocate(3 * kMiB);
  EXPECT_NE(other, nullptr);
  EXPECT_LE(PoolStats().bytes_in_use + PoolStats().bytes_cached, held + static_cast<int64_t>(4 * kMiB));
  EXPECT_EQ(PoolAllocate(2 * kMiB), nullptr);
  PoolFree(other, 3 * kMiB);
  PoolSetLimit(1);  // below what is in use: only new memory is refused
  EXPECT_EQ(PoolAllocate(kMiB), nullptr);
  PoolFree(small, 64);
  PoolSetLimit(0);
  void* free_again = PoolAllocate(kMiB);
  EXPECT_NE(free_again, nullptr);
  PoolFree(free_again, kMiB);
}

TEST_F(PoolTest, LimitHoldsForSmallBlocks) {
  PoolTrim();
  const MemoryStats now = PoolStats();
  const int64_t limit = now.bytes_in_use + now.bytes_cached + static_cast<int64_t>(2 * kSpanBytes);
  PoolSetLimit(limit);
  std::vector<void*> blocks;
  while (void* p = PoolAllocate(5000)) blocks.push_back(p);
  EXPECT_GE(blocks.size(), 2 * (kSpanBytes - 64) / PoolBlockBytes(5000));
  const MemoryStats full = PoolStats();
  EXPECT_LE(full.bytes_in_use + full.bytes_cached, limit);
  for (void* p : blocks) PoolFree(p, 5000);
  void* p = PoolAllocate(5000);
  EXPECT_NE(p, nullptr);
  PoolFree(p, 5000);
}

TEST_F(PoolTest, LimitFollowsTheOption) {
  ASSERT_TRUE(options().Set("memory_limit_bytes", "1048576").ok());
  EXPECT_EQ(PoolStats().limit_bytes, 1048576);
  EXPECT_EQ(PoolAllocate(2 * kMiB), nullptr);
  ASSERT_TRUE(options().Set("memory_limit_bytes", "0").ok());
  EXPECT_EQ(PoolStats().limit_bytes, 0);
}

TEST_F(PoolTest, RefusesWhatNoMachineHas) {
  EXPECT_EQ(PoolAllocate(kLargestRequest + 1), nullptr);
  EXPECT_EQ(PoolAllocate(SIZE_MAX), nullptr);
  const int64_t in_use = PoolStats().bytes_in_use;
  EXPECT_EQ(PoolAllocate(kLargestRequest), nullptr) << "more than the machine has, whatever the system promises";
  EXPECT_EQ(PoolStats().bytes_in_use, in_use);
}

TEST_F(PoolTest, FaultPointRefusesOnce) {
  for (const size_t bytes : {size_t{64}, kMiB}) {
    const int64_t in_use = PoolStats().bytes_in_use;
    ArmFault(Fault::allocation, 2);
    void* first = PoolAllocate(bytes);
    EXPECT_NE(first, nullptr);
    EXPECT_EQ(PoolAllocate(bytes), nullptr);
    void* third = PoolAllocate(bytes);
    EXPECT_NE(third, nullptr);
    PoolFree(first, bytes);
    PoolFree(third, bytes);
    EXPECT_EQ(PoolStats().bytes_in_use, in_use);
  }
}

TEST_F(PoolTest, BlocksOutliveTheThreadThatTookThem) {
  const int64_t in_use = PoolStats().bytes_in_use;
  std::vector<void*> blocks(1000);
  std::thread([&] {
    for (void*& p : blocks) {
      p = PoolAllocate(777);
      std::memset(p, 7, 777);
    }
  }).join();
  EXPECT_EQ(PoolStats().bytes_in_use - in_use, static_cast<int64_t>(1000 * PoolBlockBytes(777)));
  for (void* p : blocks) {
    EXPECT_EQ(static_cast<char*>(p)[776], 7);
    PoolFree(p, 777);
  }
  EXPECT_EQ(PoolStats().bytes_in_use, in_use);
}

TEST_F(PoolTest, ThreadsPassBlocksAround) {
  const int64_t in_use = PoolStats().bytes_in_use;
  constexpr int kSlots = 64;
  std::vector<std::atomic<uintptr_t>> slots(kSlots);
  const auto bytes_of = [](int slot) { return slot % 8 == 0 ? 100000 : static_cast<size_t>(32 << (slot % 10)); };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 5000; ++i) {
        const int slot = static_cast<int>(random() % kSlots);
        void* p = PoolAllocate(bytes_of(slot));
        std::memset(p, slot, 8);
        void* old = reinterpret_cast<void*>(slots[slot].exchange(reinterpret_cast<uintptr_t>(p)));
        if (old == nullptr) continue;
        ASSERT_EQ(*static_cast<unsigned char*>(old), slot);
        PoolFree(old, bytes_of(slot));
        if (i % 1000 == 0) PoolTrim();
        if (i % 100 == 0) {
          ASSERT_GE(PoolStats().peak_bytes, 0);
        }
      }
    });
  for (std::thread& t : threads) t.join();
  for (int s = 0; s < kSlots; ++s) PoolFree(reinterpret_cast<void*>(slots[s].load()), bytes_of(s));
  EXPECT_EQ(PoolStats().bytes_in_use, in_use);
}

TEST_F(PoolTest, ForkedChildCanUseThePool) {
  void* p = PoolAllocate(5000);
  const pid_t child = fork();
  if (child == 0) {
    PoolFree(p, 5000);
    void* small = PoolAllocate(100);
    void* large = PoolAllocate(kMiB);
    const bool ok = small != nullptr && large != nullptr;
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  PoolFree(p, 5000);
}

#ifdef TSR_ADDRESS_SANITIZER
TEST_F(PoolTest, AddressSanitizerSeesFreedAndTailBytes) {
  for (const size_t bytes : {size_t{1000}, kMiB - 48}) {
    auto* p = static_cast<char*>(PoolAllocate(bytes));
    EXPECT_FALSE(__asan_address_is_poisoned(p + bytes - 1));
    EXPECT_TRUE(__asan_address_is_poisoned(p + bytes + 8));
    PoolFree(p, bytes);
    EXPECT_TRUE(__asan_address_is_poisoned(p + 200));
  }
}
#endif

}  // namespace
}  // namespace tessera::rt
