// Recorded traces in the formats of other viewers.
#ifndef TESSERA_TOOLS_TRACE_EXPORT_H_
#define TESSERA_TOOLS_TRACE_EXPORT_H_

#include <string>

#include "tools/trace/analysis.h"

namespace tessera::tools {

/// A Perfetto trace: the protobuf message perfetto.protos.Trace, with a track for each thread that recorded and
/// counters for memory and for metrics that move.
std::string PerfettoTrace(const Analysis& analysis);
/// The JSON of Chrome's trace viewer.
std::string ChromeTrace(const Analysis& analysis);

/// Text as a string of JSON, with its quotes. Bytes that are no UTF-8 become U+FFFD, and nothing in it ends a script of
/// an HTML page.
std::string JsonString(std::string_view text);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_EXPORT_H_
