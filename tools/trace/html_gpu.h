// What the page says of GPUs: lanes of streams, kernels, memory, and the points of rooflines.
#ifndef TESSERA_TOOLS_TRACE_HTML_GPU_H_
#define TESSERA_TOOLS_TRACE_HTML_GPU_H_

#include <functional>
#include <string>
#include <vector>

#include "tools/trace/analysis.h"
#include "tools/trace/json.h"
#include "tools/trace/slices.h"

namespace tessera::tools {

/// A track for each stream of each GPU that did something.
void AddStreams(const Analysis& analysis, const std::function<uint32_t(const std::string&)>& label,
                std::vector<Track>* tracks);
/// The keys gpus, kernels and rooflines.
void WriteGpus(const Analysis& analysis, Json* json);

/// Kernels beyond this many are left out of the page.
inline constexpr size_t kMostKernels = 300;

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_HTML_GPU_H_
