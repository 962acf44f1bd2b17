// For applications that use CUDA themselves: their context, their stream, their memory. Handles of the driver are
// void*, so that no CUDA header is needed here (CUcontext, CUstream; the runtime API's cudaStream_t is the same).
#ifndef TESSERA_CUDA_H_
#define TESSERA_CUDA_H_

#include "tessera/export.h"
#include "tessera/status.h"
#include "tessera/tensor.h"

namespace tessera::cuda {

/// Makes device cuda:`index` use that context in place of the primary one, which the runtime API uses. Only before the
/// device is first used; the context must outlive the process's use of Tessera.
TSR_API Status adopt_context(int index, void* context);

/// From now on everything of that device runs on `stream`, after what was submitted before. The stream belongs to the
/// caller and must outlive its use here. Null: Tessera's own stream again.
TSR_API Status use_stream(Device device, void* stream);
/// The stream and the context in use; null for a device that is not a CUDA device.
TSR_API void* stream(Device device);
TSR_API void* context(Device device);

/// A tensor on the memory of someone else, row-major; `release(argument)` is called with its last reference. What the
/// memory is waiting for must be on the device's stream, or done.
TSR_API Result<Tensor> wrap(Device device, void* data, DType dtype, const Dims& dims, void (*release)(void*),
                            void* argument);
/// The address on the device of a contiguous tensor's first element, for kernels that are put on the same stream.
TSR_API Result<void*> address(const Tensor& x);

}  // namespace tessera::cuda

#endif  // TESSERA_CUDA_H_
