#include "runtime/cuda/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/str_join.h"
#include "runtime/log.h"

namespace tessera::cuda {

absl::StatusOr<void*> OpenLibrary(absl::Span<const char* const> names, const char* what) {
  std::vector<std::string> folders = {""};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0')
      folders.push_back(absl::StrCat(value, "/lib64/"));
  folders.push_back("/usr/local/cuda/lib64/");
  std::string why;
  for (const std::string& folder : folders) {
    for (const char* name : names) {
      const std::string path = absl::StrCat(folder, name);
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        TSR_LOG(1, "opened ", path);
        return library;
      }
      if (const char* reason = dlerror(); reason != nullptr && why.empty()) why = reason;
    }
  }
  return NotFound(what, ", and none of ", absl::StrJoin(names, ", "), " can be opened (", why,
                  "); install the CUDA toolkit or set CUDA_HOME");
}

}  // namespace tessera::cuda
