// Finds and opens libtessera_compiler, once, when the first version is worth generated code.
#ifndef TESSERA_TIERS_COMPILER_LIBRARY_H_
#define TESSERA_TIERS_COMPILER_LIBRARY_H_

#include <string>

#include "runtime/status.h"
#include "tiers/compiler.h"

namespace tessera::tiers {

/// For programs that link the compiler instead of having it opened. Before the first trace is hot.
void RegisterCompiler(const TesseraCompilerApi* api);

/// The compiler, or why there is none. Opens the library at the first call, which takes milliseconds: not on a thread
/// of the program. An error is told once: in the log if something is wrong, from level 1 on if the library is not
/// there.
absl::StatusOr<const TesseraCompilerApi*> Compiler();

/// A compile or a text through the interface above, with its errors as a status.
absl::StatusOr<std::string> Compile(const TesseraCompilerApi& api, const TesseraCompileRequest& request);
absl::StatusOr<std::string> Inspect(const TesseraCompilerApi& api, const TesseraCompileRequest& request,
                                    const std::string& stage);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_COMPILER_LIBRARY_H_
