// Recorded traces in the formats of other viewers.
#ifndef TESSERA_TOOLS_TRACE_EXPORT_H_
#define TESSERA_TOOLS_TRACE_EXPORT_H_

#include <string>
#include <vector>

#include "tools/trace/analysis.h"

namespace tessera::tools {

/// One process of what is shown together: a rank of a job.
struct Process {
  const Analysis* analysis = nullptr;
  int64_t shift_ns = 0;  // added to all its times: when it began, on a clock that all of them have
  int64_t pid = 1;       // no two have the same
  std::string name;      // "rank 2: ./train"
};
/// Puts them on one timeline, which begins with the first of them: on the steady clock where the machine and its boot
/// are the same, and on the wall clock otherwise. `steady`, where it is given: whether it is the first of those.
std::vector<Process> OnOneTimeline(const std::vector<const Analysis*>& analyses, bool* steady = nullptr);

/// A Perfetto trace: the protobuf message perfetto.protos.Trace, with a track for each thread that recorded and for
/// each stream of each GPU, flows from what launched to what ran, and counters for memory and for metrics that move.
std::string PerfettoTrace(const std::vector<Process>& processes);
/// The JSON of Chrome's trace viewer, with the same.
std::string ChromeTrace(const std::vector<Process>& processes);
/// Of one alone.
std::string PerfettoTrace(const Analysis& analysis);
std::string ChromeTrace(const Analysis& analysis);

/// From the slice of a thread in which something was launched to what ran.
struct Flow {
  size_t activity = 0;  // in TraceData::activities: the first that the slice launched
  uint32_t thread = 0;  // of the slice
  int64_t at_ns = 0;    // a moment within it
  uint64_t id = 0;      // no two flows of a process have the same; not 0
};
/// One for each slice that launched something, by the moment of the launch.
std::vector<Flow> FlowsOf(const TraceData& data);
/// What is said of an activity beside its name: grid, resources, source line, version, step, bytes.
struct Note {
  const char* what;
  int64_t number;
  std::string text;  // empty: the number
};
std::vector<Note> NotesOf(const Analysis& analysis, size_t activity);

/// Text as a string of JSON, with its quotes. Bytes that are no UTF-8 become U+FFFD, and nothing in it ends a script of
/// an HTML page.
std::string JsonString(std::string_view text);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_EXPORT_H_
