// A trace as text of the dialect tsr_graph, for the compiler. The text says what the code depends on and nothing else,
// so it is also what names the code in a cache: the same trace gives the same text in every process.
#ifndef TESSERA_TIERS_EMIT_H_
#define TESSERA_TIERS_EMIT_H_

#include <string>

#include "tracer/trace.h"

namespace tessera::tiers {

/// `example` is a recording of the same steps: its dims and strides are those of one run. In tier 2 every dim from 2 up
/// becomes a symbol, whatever the trace knows of it; in tier 3 numbers stay numbers. `locations`: each op with its line
/// in the program, for people; code does not depend on them. `file` is where steps of functions stand, which know only
/// their line.
std::string EmitTrace(const tracer::Trace& trace, const tracer::Trace& example, int tier, bool locations,
                      const std::string& file = "text");

/// The text in tier 2 without the sizes of the example: the same for every size of the same pattern.
std::string EmitPattern(const tracer::Trace& trace, const tracer::Trace& example);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_EMIT_H_
