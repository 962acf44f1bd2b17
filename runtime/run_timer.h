// What runs take on a device, from where they begin among what is submitted to it to where they end. Nobody waits for
// that: times are asked for later.
#ifndef TESSERA_RUNTIME_RUN_TIMER_H_
#define TESSERA_RUNTIME_RUN_TIMER_H_

#include <cstdint>
#include <memory>

#include "runtime/device.h"

namespace tessera::rt {

/// Thread-safe.
class RunTimer {
 public:
  /// Null: the device cannot tell.
  static std::unique_ptr<RunTimer> On(Device& device);
  virtual ~RunTimer() = default;

  /// What is submitted from here on belongs to runs. A number for End(), which must follow; -1: too many are under way.
  virtual int Begin() = 0;
  /// So many runs were submitted; 0: it is not to be told.
  virtual void End(int number, int64_t runs) = 0;
  /// Nanoseconds of one run, of those that are over and were not told yet; 0: there is none.
  virtual int64_t Take() = 0;
};

/// Some runs, for as long as it lives.
class TimedRuns {
 public:
  /// `timer` may be null.
  explicit TimedRuns(RunTimer* timer) : timer_(timer), number_(timer != nullptr ? timer->Begin() : -1) {}
  ~TimedRuns() {
    if (number_ >= 0) timer_->End(number_, 0);
  }
  TimedRuns(const TimedRuns&) = delete;
  /// They are submitted. Gives what one run took, of these or of earlier ones; 0: it is not known.
  int64_t End(int64_t runs) {
    if (timer_ == nullptr) return 0;
    if (number_ >= 0) timer_->End(number_, runs);
    number_ = -1;
    return timer_->Take();
  }

 private:
  RunTimer* const timer_;
  int number_;
};

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_RUN_TIMER_H_
