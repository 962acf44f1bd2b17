// An error that depends on values, as kernels leave it. nvcc compiles this file, too.
#ifndef TESSERA_RUNTIME_CUDA_DEVICE_ERROR_H_
#define TESSERA_RUNTIME_CUDA_DEVICE_ERROR_H_

#include <stdint.h>

namespace tessera::cuda {

/// Kernels write one of them into memory that both sides see; the host looks at it whenever it has waited for the
/// device. Which thread may write is decided in the device's own memory: atomics on the host's are not for every
/// system.
struct DeviceError {
  int32_t state;  // 0: none
  int32_t op;     // ir::Op
  int64_t value;  // an index, and the bound that it breaks
  int64_t bound;
  int32_t* taken;  // on the device; not 0: somebody has written
};

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_DEVICE_ERROR_H_
