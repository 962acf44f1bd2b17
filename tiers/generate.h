// Generated code for a trace: through the compiler, or from the cache on disk.
#ifndef TESSERA_TIERS_GENERATE_H_
#define TESSERA_TIERS_GENERATE_H_

#include <memory>
#include <string>

#include "tiers/code.h"

namespace tessera::tiers {

struct Generated {
  std::shared_ptr<const Code> code;
  bool from_cache = false;
};

/// Takes milliseconds: not on a thread of the program. `example` as in EmitTrace().
absl::StatusOr<Generated> Generate(const tracer::Trace& trace, const tracer::Trace& example, int tier);

/// The text of a stage of that compile: graph, sched, tile, target, llvm or asm.
absl::StatusOr<std::string> InspectStage(const tracer::Trace& trace, const tracer::Trace& example, int tier,
                                         const std::string& stage);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_GENERATE_H_
