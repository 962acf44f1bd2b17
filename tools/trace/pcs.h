// At which instructions warps of kernels were seen, and what they waited for (option trace_measures).
#ifndef TESSERA_TOOLS_TRACE_PCS_H_
#define TESSERA_TOOLS_TRACE_PCS_H_

#include <cstdint>
#include <string>

#include "tools/trace/analysis.h"

namespace tessera::tools {

/// The instructions of each kernel of a place that were seen most. Empty where none were.
std::string PcsOfPlace(const Analysis& analysis, const PlaceSummary& place, size_t rows);

/// SASS as nvdisasm prints it, with the samples of a version beside its instructions. As it was where there are none.
std::string WithSamples(const std::string& sass, const TraceData& data, int64_t version);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_PCS_H_
