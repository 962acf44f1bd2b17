// The CUDA driver, opened at run time.
#ifndef TESSERA_RUNTIME_CUDA_DRIVER_H_
#define TESSERA_RUNTIME_CUDA_DRIVER_H_

#include <cuda.h>

#include <string>

#include "runtime/status.h"

namespace tessera::cuda {

struct Driver {
#define TSR_CUDA(name) decltype(&::name) name = nullptr;
#define TSR_CUDA_NEW(name) TSR_CUDA(name)
#include "runtime/cuda/driver.def"
  int version = 0;  // 13000 for CUDA 13.0
};

/// The driver, initialised; opened by the first call. The status says what is missing and what would help.
absl::StatusOr<const Driver*> GetDriver();
/// The same for whoever holds a device, and so knows that it is there.
const Driver& TheDriver();

/// "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)"
std::string Describe(const char* call, CUresult result);
/// Errors after which the context can do nothing any more: a kernel that read where there is no memory, and the like.
bool IsSticky(CUresult result);

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_DRIVER_H_
