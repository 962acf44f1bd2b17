// The report as one HTML page: nothing is loaded from anywhere, and whatever the trace holds is data, never markup.
#ifndef TESSERA_TOOLS_TRACE_HTML_H_
#define TESSERA_TOOLS_TRACE_HTML_H_

#include <string>

#include "tools/trace/analysis.h"

namespace tessera::tools {

/// `title`: the name of the file. Events are merged here, so that a trace of a million of them is a page of a few
/// megabytes.
std::string HtmlReport(const Analysis& analysis, const std::string& title);
/// The data of the page, as JSON.
std::string ReportJson(const Analysis& analysis, const std::string& title);

/// Slices of the timeline beyond this many are merged with their neighbours.
inline constexpr size_t kMostSlices = 40000;

extern const char kPageHtml[], kPageCss[], kPageJs[];

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_HTML_H_
