// Stands in for runtime/cuda where Tessera is built without CUDA.
#include "runtime/device.h"

namespace tessera::rt {

int NumCudaDevices() { return 0; }
absl::StatusOr<Device*> Cuda(int) {
  return NotFound("this build of Tessera has no CUDA: build it where nvcc and cuda.h are (TESSERA_CUDA=ON)");
}

}  // namespace tessera::rt
