// NCCL, opened at run time.
#ifndef TESSERA_RUNTIME_CUDA_NCCL_H_
#define TESSERA_RUNTIME_CUDA_NCCL_H_

#include <cuda.h>

#include <cstddef>
#include <string>

#include "runtime/status.h"
#include "tessera/dtype.h"

namespace tessera::cuda {

using NcclComm = struct NcclCommunicator*;
struct NcclId {
  char bytes[128];
};

struct Nccl {
#define TSR_NCCL(name, arguments) int(*name) arguments = nullptr;
#include "runtime/cuda/nccl.def"
  const char* (*ncclGetErrorString)(int result) = nullptr;
  const char* (*ncclGetLastError)(NcclComm comm) = nullptr;  // null where NCCL is too old for it
};

/// Opened by the first call; the status says what is missing and what would help.
absl::StatusOr<const Nccl*> GetNccl();
/// OK, or what a call gave.
absl::Status CheckNccl(const Nccl& nccl, const char* call, int result);
/// NCCL's number of a dtype.
absl::StatusOr<int> NcclDType(DType dtype);

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_NCCL_H_
