// Finding the libraries of CUDA: beside the driver, in the system's path, or where the toolkit is installed.
#ifndef TESSERA_RUNTIME_CUDA_LIBRARY_H_
#define TESSERA_RUNTIME_CUDA_LIBRARY_H_

#include <dlfcn.h>

#include <string>

#include "absl/types/span.h"
#include "runtime/status.h"

namespace tessera::cuda {

/// Opens the first of `names` that is found; never closed. The status lists what was tried, and `what` that lacks.
absl::StatusOr<void*> OpenLibrary(absl::Span<const char* const> names, const char* what);

/// Fills an entry of a table of functions; where there is no such function, `missing` gets its name.
template <class F>
void FindFunction(void* library, const char* name, F& function, const char*& missing) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) missing = name;
}

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_LIBRARY_H_
