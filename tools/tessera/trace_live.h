// tessera trace live: what a running process does, now.
#ifndef TESSERA_TOOLS_TESSERA_TRACE_LIVE_H_
#define TESSERA_TOOLS_TESSERA_TRACE_LIVE_H_

#include "runtime/status.h"
#include "tools/tessera/command.h"

namespace tessera::tools {

extern const Flag kLiveFlagRows[2];
/// Shows the process until it ends or Ctrl-C; where there is no terminal, once.
absl::Status LiveView(const Arguments& arguments);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TESSERA_TRACE_LIVE_H_
