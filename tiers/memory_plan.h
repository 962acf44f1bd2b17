// Where the results of a trace live: in one arena, where values whose lives do not overlap share memory. When each
// lives is decided once per trace; how large each is, and with that its place, follows from the shapes of a run.
#ifndef TESSERA_TIERS_MEMORY_PLAN_H_
#define TESSERA_TIERS_MEMORY_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tiers/code.h"
#include "tracer/trace.h"

namespace tessera::tiers {

/// The steps from the one that makes a value to the last that needs it, both included.
struct Life {
  int from, until;
};

struct MemoryPlan {
  /// Slots of the arena, and after them those that are needed only where the steps of a kernel run in its place: of
  /// values that are in no memory otherwise.
  int num_slots = 0, num_spare = 0;
  /// Of each slot.
  std::vector<Life> lives;
  /// Slot of each value, then of each extra; -1: it has no memory of its own (inputs, numbers, plain views).
  std::vector<int32_t> slots;
  /// What a value has that escapes: memory, but not here.
  static constexpr int32_t kElsewhere = INT32_MAX;
  bool is_spare(int32_t slot) const { return slot >= num_slots && slot != kElsewhere; }
  /// Functions: the value leaves the version alive (in a register at its end, as a result, in a buffer or a call), so
  /// it gets memory of its own from the start.
  std::vector<bool> escapes;
  /// The last step at which each value is needed.
  std::vector<int> last;
  /// Eager: inputs in whose memory a result may be written, where nobody but the run holds the input and no other
  /// result is there; in the order in which the program first uses them, but for what an update leaves as it is: that
  /// comes first.
  struct Donors {
    std::vector<tracer::ValueId> inputs;
    int kernel = -1;  // only where this one runs in place of the result's step; -1: in any case
  };
  /// Of each value; empty: of none.
  std::vector<Donors> donors;
};

/// An operand that is converted before a kernel sees it: lives for one step.
struct Extra {
  int step;
};

/// May the result of this step be a window onto its operand? True for view ops; some reshapes copy after all.
bool MayShare(const tracer::TraceStep& step);

/// With generated code: a kernel runs where its last step stood, or with others like it at the last of them, so what it
/// reads and writes lives until then. Null: without.
MemoryPlan PlanMemory(const tracer::Trace& trace, const std::vector<Extra>& extras, const Code* code);

/// Gives slots of those sizes places (*at) so that no two overlap in memory that live at a time, and returns the size
/// of it all. The largest come first, each into the first gap that holds it, or the smallest where that does better:
/// mostly that is as much as lives at a time.
size_t PackSlots(absl::Span<const Life> lives, absl::Span<const size_t> bytes, std::vector<size_t>* at);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_MEMORY_PLAN_H_
