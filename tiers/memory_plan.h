// Where the results of a trace live: each has a slot of one arena, and slots whose lives do not overlap may lie in the
// same place. Which lies above which is decided once per trace; where that is follows from the shapes of a run.
#ifndef TESSERA_TIERS_MEMORY_PLAN_H_
#define TESSERA_TIERS_MEMORY_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tiers/code.h"
#include "tracer/trace.h"

namespace tessera::tiers {

struct MemoryPlan {
  /// Slots of the arena, and after them those that are needed only where the steps of a kernel run in its place: of
  /// values that are in no memory otherwise.
  int num_slots = 0, num_spare = 0;
  /// Slot of each value, then of each extra; -1: it has no memory of its own (inputs, numbers, plain views). They are
  /// numbered from the bottom of the arena up, those of the spare one apart.
  std::vector<int32_t> slots;
  /// By slot: the slots right below it begin in `below` at first_below[slot] and end where those of the next one begin.
  /// Of two that are needed at the same time one is below the other, directly or not.
  std::vector<uint32_t> first_below;
  std::vector<int32_t> below;
  /// Where each of `count` slots from `first` on begins, if all slots are so large; returns the bytes of the arena.
  size_t Place(int first, int count, absl::Span<const size_t> bytes, std::vector<size_t>* at) const;
  /// What a value has that escapes: memory, but not here.
  static constexpr int32_t kElsewhere = INT32_MAX;
  bool is_spare(int32_t slot) const { return slot >= num_slots && slot != kElsewhere; }
  /// Functions: the value leaves the version alive (in a register at its end, as a result, in a buffer or a call), so
  /// it gets memory of its own from the start.
  std::vector<bool> escapes;
  /// The last step at which each value is needed.
  std::vector<int> last;
};

/// An operand that is converted before a kernel sees it: lives for one step.
struct Extra {
  int step;
  double bytes;  // LikelyBytes of what it is converted to
};

/// The size of a value as far as its type tells; a symbol is taken for a thousand. What lies above what is decided by
/// that.
double LikelyBytes(const TensorType& type);

/// May the result of this step be a window onto its operand? True for view ops; some reshapes copy after all.
bool MayShare(const tracer::TraceStep& step);

/// With generated code: a kernel runs where its last step stood, so what it reads lives until then. Null: without.
MemoryPlan PlanMemory(const tracer::Trace& trace, const std::vector<Extra>& extras, const Code* code);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_MEMORY_PLAN_H_
