// Kernels of a plan that share a function and run in one launch of a CUDA device: the updates of an optimiser are as
// many as there are parameters, and most take less time than a launch.
#ifndef TESSERA_TIERS_BATCHES_H_
#define TESSERA_TIERS_BATCHES_H_

#include <vector>

#include "absl/types/span.h"
#include "tiers/code.h"
#include "tracer/trace.h"

namespace tessera::tiers {

/// Batches of at least two kernels each, by their numbers and in the order of their positions. A batch is launched
/// where its last kernel stands: nothing before that needs what the others compute, and all steps from the first kernel
/// on are those of kernels, or windows, so that none of them leaves the trace or fails, and what the kernels read is
/// kept for no longer than a stretch of kernels takes.
std::vector<std::vector<int>> FindBatches(const tracer::Trace& trace, absl::Span<const Code::Kernel> kernels);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_BATCHES_H_
