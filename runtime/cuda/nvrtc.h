// NVRTC, opened at run time: CUDA C++ to machine code, without a GPU.
#ifndef TESSERA_RUNTIME_CUDA_NVRTC_H_
#define TESSERA_RUNTIME_CUDA_NVRTC_H_

#include <string>

#include "absl/types/span.h"
#include "runtime/status.h"

namespace tessera::cuda {

struct CompiledSource {
  std::string cubin;
  std::string kernel;  // its name in there
};

/// Compiles `source` for `architecture` (sm_90a). `name` is the kernel's, with template arguments if it has any. Where
/// the source has faults, the status has the compiler's messages.
absl::StatusOr<CompiledSource> CompileSource(const std::string& architecture, const std::string& source,
                                             const std::string& name, absl::Span<const std::string> options);

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_NVRTC_H_
