#include "interp/device_error.h"

#ifdef TESSERA_CUDA
#include "runtime/cuda/device.h"
#endif

namespace tessera::interp {

int64_t AddressOfError([[maybe_unused]] rt::Device& device) {
#ifdef TESSERA_CUDA
  if (device.kind() == rt::DeviceKind::cuda)
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(cuda::DeviceOf(device).error()));
#endif
  return 0;
}

}  // namespace tessera::interp
