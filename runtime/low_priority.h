// Threads that work for later: they run where nobody else wants the core.
#ifndef TESSERA_RUNTIME_LOW_PRIORITY_H_
#define TESSERA_RUNTIME_LOW_PRIORITY_H_

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/thread_pool.h"

namespace tessera::rt {

inline constexpr int kLowestPriority = 19;

/// Threads that this one starts inherit it; those that compute for the program are started before. Returns the number
/// that the system has for the thread.
///
/// The lowest there is, without preempting anybody when it wakes up. Beside a program that keeps every core busy it
/// gets about one hundredth of one, a tick at a time: few calls meet it, and its work is done in the end all the same.
/// Idle priority would get a fifth of that, and is for programs that are themselves low.
inline pid_t LowerPriorityOfThisThread() {
  constexpr int kLow = 10;
  (void)NumThreads();
  const auto thread = static_cast<pid_t>(syscall(SYS_gettid));
  const bool is_low = getpriority(PRIO_PROCESS, static_cast<id_t>(thread)) >= kLow;
  const sched_param none = {};
  sched_setscheduler(0, is_low ? SCHED_IDLE : SCHED_BATCH, &none);
  setpriority(PRIO_PROCESS, static_cast<id_t>(thread), kLowestPriority);
  return thread;
}

/// While this lives, a thread that was lowered has the priority of the calling one, if the process has the privilege to
/// raise it. 0: no thread.
class PriorityScope {
 public:
  explicit PriorityScope(pid_t thread) : thread_(thread) {
    if (thread_ != 0) Set(getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid))));
  }
  ~PriorityScope() {
    if (thread_ != 0) Set(kLowestPriority);
  }
  PriorityScope(const PriorityScope&) = delete;

 private:
  void Set(int priority) { setpriority(PRIO_PROCESS, static_cast<id_t>(thread_), priority); }
  const pid_t thread_;
};

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_LOW_PRIORITY_H_
