#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/fault.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::rt {
namespace {

using Pieces = std::vector<std::pair<int64_t, int64_t>>;

Pieces PiecesOf(int64_t n, int64_t grain) {
  std::mutex mutex;
  Pieces pieces;
  ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mutex);
    pieces.emplace_back(begin, end);
  });
  std::sort(pieces.begin(), pieces.end());
  return pieces;
}

// More threads than this machine may have, and one that cannot be started: the pool is asked for five.
class FourThreads : public testing::Environment {
 public:
  void SetUp() override {
    std::string warning;
    SetLogSink([&](int, std::string_view line) { warning = line; });
    ASSERT_TRUE(options().Set("threads", "5").ok());
    ArmFault(Fault::thread_start, 4);
    ASSERT_EQ(NumThreads(), 4);
    SetLogSink({});
    EXPECT_NE(warning.find("only 4 of 5 threads"), std::string::npos) << warning;
  }
};
[[maybe_unused]] const auto* const environment = testing::AddGlobalTestEnvironment(new FourThreads);

TEST(ThreadPool, EveryIndexOnce) {
  for (const int64_t n : {0, 1, 2, 7, 1000, 99999})
    for (const int64_t grain : {1, 3, 64, 1000, 200000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed);
      });
      for (const auto& s : seen) ASSERT_EQ(s.load(), 1) << n << " by " << grain;
    }
}

TEST(ThreadPool, PiecesFollowFromSizeAndGrainAlone) {
  for (const auto& [n, grain] : {std::pair<int64_t, int64_t>{10, 3}, {100000, 7}, {4096, 4096}, {4097, 4096}, {5, 0}}) {
    const int64_t chunk = ChunkSize(n, grain);
    Pieces want;
    for (int64_t b = 0; b < n; b += chunk) want.emplace_back(b, std::min(n, b + chunk));
    EXPECT_LE(static_cast<int64_t>(want.size()), kMaxChunks);
    EXPECT_EQ(PiecesOf(n, grain), want);
    // Inside a loop they are run in place, in the same pieces.
    Pieces nested;
    std::atomic<int> once{0};
    ParallelFor(8, 1, [&, n = n, grain = grain](int64_t, int64_t) {
      if (once.fetch_add(1) == 0) nested = PiecesOf(n, grain);
    });
    EXPECT_EQ(nested, want);
  }
  constexpr int64_t kMost = int64_t{1} << 60;
  EXPECT_EQ(ChunkSize(kMost, 1), kMost / kMaxChunks);
  EXPECT_EQ(ChunkSize(kMost, 3) % 3, 0);
  EXPECT_EQ(ChunkSize(kMost, kMost), kMost);
}

TEST(ThreadPool, UsesSeveralThreadsAndNestsInPlace) {
  // Four pieces that wait for each other can only end on four threads.
  std::atomic<int> arrived{0};
  EXPECT_FALSE(InParallelRegion());
  ParallelFor(4, 1, [&](int64_t, int64_t) {
    EXPECT_TRUE(InParallelRegion());
    const auto self = std::this_thread::get_id();
    ParallelFor(100, 1, [&](int64_t, int64_t) { EXPECT_EQ(std::this_thread::get_id(), self); });
    EXPECT_TRUE(InParallelRegion());
    arrived.fetch_add(1);
    while (arrived.load() < 4) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 4);
  EXPECT_FALSE(InParallelRegion());
}

TEST(ThreadPool, SmallLoopsStayOnTheCaller) {
  const MetricValues before = SnapshotMetrics();
  const auto self = std::this_thread::get_id();
  ParallelFor(1000, 1000, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 1000);
    EXPECT_FALSE(InParallelRegion());
  });
  const int i = static_cast<int>(Metric::parallel_regions);
  EXPECT_EQ(SnapshotMetrics()[i], before[i]);
  ParallelFor(1001, 1000, [](int64_t, int64_t) {});
  EXPECT_EQ(SnapshotMetrics()[i], before[i] + 1);
}

TEST(ThreadPool, ManyLoopsInARow) {
  std::vector<int64_t> partial(64);
  for (int round = 0; round < 3000; ++round) {
    ParallelFor(64, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) partial[static_cast<size_t>(i)] = i + round;
    });
    ASSERT_EQ(std::accumulate(partial.begin(), partial.end(), int64_t{0}), 64 * 63 / 2 + 64 * round);
    if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // workers fall asleep
  }
}

TEST(ThreadPool, SeveralCallersAtOnce) {
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<int64_t> sum{0};
        ParallelFor(1000, 10, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum.fetch_add(i, std::memory_order_relaxed);
        });
        ASSERT_EQ(sum.load(), 1000 * 999 / 2);
      }
    });
  for (std::thread& t : callers) t.join();
}

TEST(ThreadPool, ForkedChildRunsInPlace) {
  const pid_t child = fork();
  if (child == 0) {
    const auto self = std::this_thread::get_id();
    int64_t sum = 0;
    bool same = NumThreads() == 1;
    ParallelFor(1000, 10, [&](int64_t begin, int64_t end) {
      same = same && std::this_thread::get_id() == self;
      sum += end - begin;
    });
    _exit(same && sum == 1000 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tessera::rt
