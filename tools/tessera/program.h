// Running programs of the language from the command line.
#ifndef TESSERA_TOOLS_TESSERA_PROGRAM_H_
#define TESSERA_TOOLS_TESSERA_PROGRAM_H_

#include <string>

#include "runtime/status.h"
#include "tools/tessera/command.h"

namespace tessera::tools {

/// --device, --option, --live and --explain, for commands that run something.
extern const Flag kRunFlagRows[4];
inline const absl::Span<const Flag> kRunFlags(kRunFlagRows);
absl::Status ApplyRunFlags(const Arguments& arguments);

/// Runs a .tsr file; its output is this program's. Diagnostics go to stderr, and ShownError() is returned then.
absl::Status RunFile(const std::string& path, const Arguments& arguments);

/// While it lives, Ctrl-C interrupts what Tessera runs and not the program.
class InterruptibleScope {
 public:
  InterruptibleScope();
  ~InterruptibleScope();
  InterruptibleScope(const InterruptibleScope&) = delete;
};

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TESSERA_PROGRAM_H_
