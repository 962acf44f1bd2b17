// How much memory a device has.
#ifndef TESSERA_RUNTIME_DEVICE_MEMORY_H_
#define TESSERA_RUNTIME_DEVICE_MEMORY_H_

#include <cstdint>

#include "runtime/device.h"

namespace tessera::rt {

/// Bytes of a CUDA device's own memory; 0 of any other.
int64_t OwnMemory(const Device& device);

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_DEVICE_MEMORY_H_
