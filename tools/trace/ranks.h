// Traces of the ranks of one job, side by side. What puts them on one timeline is in export.h.
#ifndef TESSERA_TOOLS_TRACE_RANKS_H_
#define TESSERA_TOOLS_TRACE_RANKS_H_

#include <string>
#include <vector>

#include "tools/trace/analysis.h"

namespace tessera::tools {

/// A row for each rank, and which is the slowest. `names`: of their files.
std::string RanksText(const std::vector<const Analysis*>& analyses, const std::vector<std::string>& names);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_RANKS_H_
