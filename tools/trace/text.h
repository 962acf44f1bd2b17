// Recorded traces as text, for terminals.
#ifndef TESSERA_TOOLS_TRACE_TEXT_H_
#define TESSERA_TOOLS_TRACE_TEXT_H_

#include <string>

#include "runtime/status.h"
#include "tools/trace/analysis.h"

namespace tessera::tools {

/// What happened, where the time went, and what to look at first. At most `rows` rows for each table.
std::string ReportText(const Analysis& analysis, size_t rows = 12);
/// The rows that took most, by op, by source line, by place of versions or by kernel of a GPU.
enum class TopBy : uint8_t { op, line, place, kernel };
std::string TopText(const Analysis& analysis, TopBy by, size_t rows);
/// A trace or place with its steps, versions, guards, deopts, and the text of `stage` ("": the names of those there
/// are). `what`: the id of a trace, or the name of a place.
absl::StatusOr<std::string> ExplainTrace(const Analysis& analysis, const std::string& what, const std::string& stage);
/// What differs between two recordings of the same program: times for each call, places, deopts.
std::string DiffText(const Analysis& before, const Analysis& after, size_t rows);
/// One line for each event and for all that ran on GPUs; without times it depends on the program alone.
std::string EventsText(const Analysis& analysis, bool times);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_TEXT_H_
