// cuBLASLt, opened at run time.
#ifndef TESSERA_RUNTIME_CUDA_CUBLASLT_H_
#define TESSERA_RUNTIME_CUDA_CUBLASLT_H_

#include <cublasLt.h>

#include "runtime/status.h"

namespace tessera::cuda {

struct CublasLt {
#define TSR_CUBLASLT(name) decltype(&::name) name = nullptr;
#include "runtime/cuda/cublaslt.def"
};

/// Opened by the first call; the status says what is missing and what would help.
absl::StatusOr<const CublasLt*> GetCublasLt();

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_CUBLASLT_H_
