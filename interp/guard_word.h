// Where a device notes whether the branches of runs went as expected, so that the host need not wait at each of them.
//
// A run checks conditions, one after another; the last one completes its verdict. The host may be some runs ahead of
// the one whose verdict it asks for. Nothing is undone by a condition that does not hold: whoever runs ahead keeps what
// it takes to go back (tiers/run_ahead.h).
#ifndef TESSERA_INTERP_GUARD_WORD_H_
#define TESSERA_INTERP_GUARD_WORD_H_

#include <cstdint>
#include <memory>

#include "runtime/device.h"
#include "runtime/status.h"
#include "runtime/tensor.h"

namespace tessera::interp {

/// One thread at a time.
class GuardWord {
 public:
  /// Verdicts that are kept: at most so many runs may be submitted after one whose verdict is not known.
  static constexpr uint64_t kRuns = 64;

  virtual ~GuardWord() = default;
  /// Submits the check of one bool, which is at condition.data on the device. `last`: of its run.
  virtual absl::Status Check(const View& condition, bool expected, bool last) = 0;
  /// Completes a run that was given up before its last check; its verdict is of those before.
  virtual absl::Status GiveUp() = 0;
  /// Did all conditions of that run hold? Runs count from 0. Waits until the device has come to the last of them.
  virtual absl::StatusOr<bool> Held(uint64_t run) = 0;
};

/// Conditions of the cpu are looked at when they are checked.
absl::StatusOr<std::unique_ptr<GuardWord>> MakeGuardWord(rt::Device& device);

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_GUARD_WORD_H_
