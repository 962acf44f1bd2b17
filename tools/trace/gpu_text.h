// GPUs of a recorded trace as text, for terminals. Empty where the trace has none.
#ifndef TESSERA_TOOLS_TRACE_GPU_TEXT_H_
#define TESSERA_TOOLS_TRACE_GPU_TEXT_H_

#include <string>

#include "tools/trace/analysis.h"

namespace tessera::tools {

/// How busy each GPU was, why it was not, and what moved.
std::string GpusText(const Analysis& analysis);
/// Kernels by time with who launched them, what they reach and what holds them up.
std::string KernelsTable(const Analysis& analysis, size_t rows);
/// Those of the versions of one place, each with all its verdicts.
std::string KernelsOfPlace(const Analysis& analysis, const std::string& place, size_t rows);
/// One activity: "gpu 0 stream 7: kernel 12.3 us k1 ...".
std::string ActivityText(const Analysis& analysis, size_t activity, bool times);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_GPU_TEXT_H_
