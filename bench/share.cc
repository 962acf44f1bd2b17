#include "bench/share.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "bench/harness.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace bench {
namespace {

constexpr int kMostSamples = 1 << 14;
constexpr long kPeriodNs = 487'000;  // NOLINT: a long in timespec; no multiple of a tick or of a batch
constexpr double kFewestSamples = 50;

// Code may begin with a page, before which there is nothing to read.
constexpr uintptr_t kPage = 4096;

uintptr_t samples[kMostSamples];
std::atomic<int> count{0};

/// Where the thread was, or 0 while it was in a system call: it waited, and nothing ran.
uintptr_t Place(const ucontext_t& context) {
#if defined(__aarch64__)
  const uintptr_t pc = context.uc_mcontext.pc;
  uint32_t before;
  if (pc % kPage < sizeof before) return pc;
  std::memcpy(&before, reinterpret_cast<const void*>(pc - sizeof before), sizeof before);
  return before == 0xd4000001u ? 0 : pc;  // svc #0
#elif defined(__x86_64__)
  const auto pc = static_cast<uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
  unsigned char before[2];
  if (pc % kPage < sizeof before) return pc;
  std::memcpy(before, reinterpret_cast<const void*>(pc - sizeof before), sizeof before);
  return before[0] == 0x0f && before[1] == 0x05 ? 0 : pc;  // syscall
#else
  (void)context;
  return 0;
#endif
}

void OnSample(int, siginfo_t*, void* context) {
  const int at = count.load(std::memory_order_relaxed);
  if (at >= kMostSamples) return;
  samples[at] = Place(*static_cast<const ucontext_t*>(context));
  count.store(at + 1, std::memory_order_relaxed);
}

struct Mapping {
  uintptr_t begin, end;
  std::string file;  // empty: memory of no file
};

std::vector<Mapping> ExecutableMappings() {
  std::vector<Mapping> mappings;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;  // NOLINT: what sscanf takes
    char access[5] = "";
    int at = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %*s %n", &begin, &end, access, &at) < 3 || access[2] != 'x')
      continue;
    mappings.push_back({begin, end, at > 0 ? line.substr(static_cast<size_t>(at)) : ""});
  }
  return mappings;
}

}  // namespace

Share SampleShare(const std::function<void()>& body, double seconds) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  count.store(0);
  struct sigaction action = {};
  action.sa_sigaction = OnSample;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);  // stays: a late signal must not end the process
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return {kNaN, kNaN};
  const itimerspec every = {{0, kPeriodNs}, {0, kPeriodNs}};
  timer_settime(timer, 0, &every, nullptr);
  for (const double end = Now() + seconds; Now() < end;) body();
  timer_delete(timer);

  const std::vector<Mapping> mappings = ExecutableMappings();
  double ran = 0, generated = 0, blas = 0;
  for (int i = 0; i < count.load(); ++i) {
    if (samples[i] == 0) continue;
    ++ran;
    for (const Mapping& m : mappings) {
      if (samples[i] < m.begin || samples[i] >= m.end) continue;
      if (m.file.empty()) ++generated;
      if (m.file.find("blas") != std::string::npos) ++blas;
    }
  }
  if (ran < kFewestSamples) return {kNaN, kNaN};
  return {generated / ran, blas / ran};
}

}  // namespace bench
