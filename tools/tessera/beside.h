// Files that lie beside this program, in the build tree or where it is installed.
#ifndef TESSERA_TOOLS_TESSERA_BESIDE_H_
#define TESSERA_TOOLS_TESSERA_BESIDE_H_

#include <string>

#include "runtime/status.h"

namespace tessera::tools {

/// The first of folder/NAME that exists, for the folders in which this program, its libraries and its other programs
/// may be; empty for none.
std::string FindBeside(const std::string& name);
/// Tells the runtime where the compiler is, unless an option says so already. Opens nothing.
absl::Status FindCompiler();

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TESSERA_BESIDE_H_
