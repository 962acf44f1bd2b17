// Where the rounds of a loop begin that never goes the same way twice in a row: another op every few steps, or as many
// layers as the input asks for.
#ifndef TESSERA_TIERS_ROUNDS_H_
#define TESSERA_TIERS_ROUNDS_H_

#include <cstdint>
#include <vector>

#include "tracer/trace.h"

namespace tessera::tiers {

/// The place in the program at which an eager step stands, whatever came before it; never 0.
uint64_t PlaceOf(const void* site, ir::Op op);

/// The place that cuts the recording into stretches of which most came more than once: few ways, taken in any order.
/// Where several do, the one with longer stretches, and then the one before which fewer values are alive (`live`: for
/// each position). 0 where no place does it, or the stretches would be too short to be worth a version.
uint64_t FindDelimiter(const tracer::Trace& trace, const std::vector<int>& live);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_ROUNDS_H_
