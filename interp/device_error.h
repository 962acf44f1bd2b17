// Errors that depend on values, of devices: who finds one leaves it where the device keeps the first of them, and it is
// raised when the host next waits for the device.
#ifndef TESSERA_INTERP_DEVICE_ERROR_H_
#define TESSERA_INTERP_DEVICE_ERROR_H_

#include <cstdint>

#include "runtime/device.h"

namespace tessera::interp {

/// Where kernels of a CUDA device leave it, for as long as the device lives (runtime/cuda/device_error.h); 0: others
/// find errors on the host.
int64_t AddressOfError(rt::Device& device);

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_DEVICE_ERROR_H_
