#include "runtime/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>
#include <thread>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/log.h"
#include "runtime/metrics.h"

namespace tessera::rt {
namespace {

using LoopBody = FunctionRef<void(int64_t, int64_t)>;

// Long enough to catch the next loop of a running program, short enough not to matter to others on the machine.
constexpr int64_t kSpinNs = 30'000;

constinit thread_local bool in_region = false;
constinit std::atomic<bool> forked{false};

inline void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits actively until ready() or the time is over.
template <class Ready>
bool SpinUntil(Ready ready) {
  const int64_t end = NowNs() + kSpinNs;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      Relax();
    }
  } while (NowNs() < end);
  return false;
}

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}
void FutexWake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

int CoresOfProcess() {
  for (int cpus = 1024; cpus <= 1 << 16; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (set == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(size, set);
    const int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

/// One loop at a time. A worker may join a loop only through the gate while it is open; the caller closes the gate
/// when all pieces are handed out and then waits for those inside. So a worker that wakes up late neither holds the
/// caller up nor sees a loop that is over.
class ThreadPool {
 public:
  ThreadPool() {
    int threads = static_cast<int>(options().threads());
    if (threads == 0) threads = CoresOfProcess();
    pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });

    // Signals of the application are for its own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (threads_ < threads) {
      pthread_t thread;
      const int error = FaultFires(Fault::thread_start) ? EAGAIN : pthread_create(&thread, &attributes, &Main, this);
      if (error != 0) {
        TSR_LOG(0, "only ", threads_, " of ", threads, " threads can compute: ", std::strerror(error));
        break;
      }
      char name[16];
      std::snprintf(name, sizeof name, "tessera-%d", threads_);
      pthread_setname_np(thread, name);
      ++threads_;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  int threads() const { return threads_; }

  /// False, with nothing done, while another loop is running.
  bool Run(int64_t n, int64_t chunk, LoopBody fn) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    const int64_t chunks = (n + chunk - 1) / chunk;
    fn_ = &fn;
    n_ = n;
    chunk_ = chunk;
    num_parts_ = std::min<int64_t>({chunks, threads_, kMostParts});
    for (int64_t p = 0; p < num_parts_; ++p) {
      parts_[p].next.store(chunks * p / num_parts_, std::memory_order_relaxed);
      parts_[p].end = chunks * (p + 1) / num_parts_;
    }
    ++loop_;
    gate_.store(uint64_t{loop_} << 32 | kOpen, std::memory_order_release);
    bell_.fetch_add(1, std::memory_order_seq_cst);
    if (const int asleep = sleepers_.load(std::memory_order_seq_cst); asleep > 0)
      FutexWake(bell_, static_cast<int>(std::min<int64_t>(asleep, chunks - 1)));

    Work(/*self=*/0);
    gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
    const auto empty = [&] { return (gate_.load(std::memory_order_seq_cst) & kInside) == 0; };
    if (!empty() && !SpinUntil(empty)) {
      caller_sleeps_.store(true, std::memory_order_seq_cst);
      for (;;) {
        const uint32_t seen = left_.load(std::memory_order_seq_cst);
        if (empty()) break;
        FutexWait(left_, seen);
      }
      caller_sleeps_.store(false, std::memory_order_relaxed);
    }
    busy_.store(false, std::memory_order_release);
    return true;
  }

 private:
  static constexpr uint64_t kOpen = uint64_t{1} << 31, kInside = kOpen - 1;

  static void* Main(void* pool) {
    static_cast<ThreadPool*>(pool)->Worker();
    return nullptr;
  }

  [[noreturn]] void Worker() noexcept {
    const int self = 1 + started_.fetch_add(1, std::memory_order_relaxed);
    uint32_t last = 0;  // the loop this thread was in
    const auto open = [&](uint64_t gate) { return (gate & kOpen) != 0 && static_cast<uint32_t>(gate >> 32) != last; };
    for (;;) {
      uint64_t gate = 0;
      const auto ready = [&] { return open(gate = gate_.load(std::memory_order_acquire)); };
      if (!SpinUntil(ready)) {
        const uint32_t bell = bell_.load(std::memory_order_seq_cst);
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        if (!ready()) FutexWait(bell_, bell);
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
        continue;
      }
      if (!gate_.compare_exchange_strong(gate, gate + 1, std::memory_order_acq_rel)) continue;
      last = static_cast<uint32_t>(gate >> 32);
      Work(self);
      const uint64_t after = gate_.fetch_sub(1, std::memory_order_seq_cst) - 1;
      if ((after & (kOpen | kInside)) == 0) {
        left_.fetch_add(1, std::memory_order_seq_cst);
        if (caller_sleeps_.load(std::memory_order_seq_cst)) FutexWake(left_, 1);
      }
    }
  }

  // The thread's own part first, piece after piece; then what others have left.
  void Work(int64_t self) noexcept {
    in_region = true;
    for (int64_t k = 0; k < num_parts_; ++k) {
      Part& part = parts_[(self + k) % num_parts_];
      for (;;) {
        const int64_t i = part.next.fetch_add(1, std::memory_order_relaxed);
        if (i >= part.end) break;
        (*fn_)(i* chunk_, std::min(n_, (i + 1) * chunk_));
      }
    }
    in_region = false;
  }

  int threads_ = 1;

  alignas(64) std::atomic<uint64_t> gate_{0};  // number of the loop << 32 | open << 31 | workers inside
  // The loop. Written only while the gate is closed and nobody is inside.
  alignas(64) const LoopBody* fn_ = nullptr;
  int64_t n_ = 0, chunk_ = 0;
  // Pieces that follow each other. A thread that goes through neighbours reads memory in order, and finds in its caches
  // what it has written there in the loop before.
  struct alignas(64) Part {
    std::atomic<int64_t> next{0};  // the next piece to hand out
    int64_t end = 0;
  };
  static constexpr int64_t kMostParts = 16;
  Part parts_[kMostParts];
  int64_t num_parts_ = 0;
  uint32_t loop_ = 0;
  std::atomic<int> started_{0};  // workers

  alignas(64) std::atomic<uint32_t> bell_{0};  // workers sleep on it; changes with each loop
  std::atomic<int> sleepers_{0};
  alignas(64) std::atomic<uint32_t> left_{0};  // the caller sleeps on it; changes when the last worker leaves
  std::atomic<bool> caller_sleeps_{false};
  alignas(64) std::atomic<bool> busy_{false};
};

ThreadPool& ThePool() {
  static ThreadPool* pool = new ThreadPool;
  return *pool;
}

}  // namespace

void ParallelFor(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> fn) noexcept {
  if (n <= 0) return;
  const int64_t chunk = ChunkSize(n, grain);
  if (chunk >= n) return fn(0, n);
  if (!in_region && !forked.load(std::memory_order_relaxed)) {
    ThreadPool& pool = ThePool();
    if (pool.threads() > 1) {
      if (pool.Run(n, chunk, fn)) return Count(Metric::parallel_regions);
      Count(Metric::parallel_inline);
    }
  }
  for (int64_t begin = 0; begin < n; begin += chunk) fn(begin, std::min(n, begin + chunk));
}

bool InParallelRegion() { return in_region; }

int NumThreads() { return forked.load(std::memory_order_relaxed) ? 1 : ThePool().threads(); }

}  // namespace tessera::rt
