// Threads that work for later: they run where nobody else wants the core.
#ifndef TESSERA_RUNTIME_LOW_PRIORITY_H_
#define TESSERA_RUNTIME_LOW_PRIORITY_H_

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tessera::rt {

/// For good: without privileges it cannot be raised again. Threads that this one starts inherit it.
///
/// The lowest there is, without preempting anybody when it wakes up. Beside a program that keeps every core busy it gets
/// about one hundredth of one, a tick at a time: few calls meet it, and its work is done in the end all the same. Idle
/// priority would get a fifth of that, and is for programs that are themselves low.
inline void LowerPriorityOfThisThread() {
  constexpr int kLowest = 19, kLow = 10;
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  const bool is_low = getpriority(PRIO_PROCESS, thread) >= kLow;
  const sched_param none = {};
  sched_setscheduler(0, is_low ? SCHED_IDLE : SCHED_BATCH, &none);
  setpriority(PRIO_PROCESS, thread, kLowest);
}

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_LOW_PRIORITY_H_
