// Generated code for a trace: through the compiler, or from the cache on disk.
#ifndef TESSERA_TIERS_GENERATE_H_
#define TESSERA_TIERS_GENERATE_H_

#include <memory>
#include <optional>
#include <string>

#include "tiers/code.h"
#include "tracer/profile.h"

namespace tessera::tiers {

struct Generated {
  std::shared_ptr<const Code> code;
  bool from_cache = false;
};

/// Takes milliseconds: not on a thread of the program. `example` as in EmitTrace(); `schedule` as in the option of that
/// name, which goes before it; functions may have schedules of their own beside it.
absl::StatusOr<Generated> Generate(const tracer::Trace& trace, const tracer::Trace& example, int tier,
                                   const std::string& schedule = "");

/// What the tuner found for this trace in tier 3, now or in an earlier process; nothing where it never came to an end.
/// What a profile has goes before what this machine's cache has: a run that is resumed elsewhere gets the same code.
std::optional<std::string> RememberedSchedule(const tracer::Trace& trace, const tracer::Trace& example);
void RememberSchedule(const tracer::Trace& trace, const tracer::Trace& example, const std::string& schedule);

/// What it found, or was told, in this process so far; and what a profile has of it, in place of what one had before.
tracer::TunedChoices TuningsInUse();
void RecallTunings(tracer::TunedChoices choices);
/// For tests: as a process that has just begun, but for the cache on disk.
void ForgetTunings();

/// The text of a stage of that compile: graph, sched, tile, target, llvm or asm; or report; or space, the choices that
/// the tuner has; or cubin, the bytes of one, for a CUDA device. `file` is the function's, for the places of its ops;
/// empty: it came from text.
absl::StatusOr<std::string> InspectStage(const tracer::Trace& trace, const tracer::Trace& example, int tier,
                                         const std::string& stage, const std::string& schedule = "",
                                         const std::string& file = "");

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_GENERATE_H_
