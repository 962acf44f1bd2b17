// Runs of a function's version on a device, submitted before the host knows whether the branches of earlier ones held.
//
// Reading a condition back empties the device's queue: it waits for the host, and the host for it. So where branches
// have held for a while, the device checks them itself (interp/guard_word.h) and the host goes on. Of every iteration
// that nobody has looked at, the log keeps what it began with; nothing of that is written to or given away until then,
// so an iteration whose branch did not hold is run again from the log, with its branches read, and leaves the version
// there as any other would. What was submitted after it never was. Versions with effects beyond their results (buffers,
// calls), or ops that report errors found on the device, do not run ahead.
#ifndef TESSERA_TIERS_RUN_AHEAD_H_
#define TESSERA_TIERS_RUN_AHEAD_H_

#include <cstdint>
#include <vector>

#include "tiers/function_place.h"

namespace tessera::tiers {

class RunAhead {
 public:
  RunAhead(FunctionVersion& f, Activation& a);

  /// Iterations that may be outstanding now: more of them the longer branches hold.
  size_t depth() const;
  /// The run of a trace that does not go round: once, from its beginning to its end.
  absl::Status RunOnce();

  size_t outstanding() const { return log_.size(); }
  /// Submits the next iteration. Where that does not come to its end, it waits for those before it, and runs the
  /// iteration again with its branches read, or an earlier one that did not hold: then *lost complete iterations were
  /// none.
  absl::Status Submit(int64_t* lost);
  /// Waits until at most so many iterations are outstanding. False: a branch of one did not hold, so that one was run
  /// again, with that status, and the activation is where it stopped; *lost complete iterations were none.
  bool Settle(size_t left, int64_t* lost, absl::Status* status) {
    return log_.size() <= left || WaitFor(left, lost, status);
  }
  /// A run whose branches were read went to its end.
  void NoteHeld();

 private:
  struct Entry {
    uint64_t run;
    std::vector<rt::Ref<rt::TensorImpl>> begin;  // by carried value
    std::vector<interp::Frame::Counter> counters;
  };
  Entry Begin() const;
  bool WaitFor(size_t left, int64_t* lost, absl::Status* status);
  absl::Status GoBack(int64_t* lost);

  FunctionVersion& f_;
  Activation& a_;
  const size_t most_;       // iterations; 0: branches are read
  std::vector<Entry> log_;  // oldest first
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_RUN_AHEAD_H_
