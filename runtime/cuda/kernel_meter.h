// Measures kernels with the counters of a GPU, through CUPTI's range profiler. Each kernel is run several times,
// because few counters can be read at once; what it wrote is put back in between.
#ifndef TESSERA_RUNTIME_CUDA_KERNEL_METER_H_
#define TESSERA_RUNTIME_CUDA_KERNEL_METER_H_

#include <functional>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/device.h"
#include "runtime/status.h"

namespace tessera::cuda {

class Device;

/// Runs `work` and measures every kernel that this thread puts on the device meanwhile: one row each, in that order,
/// with a value for each row of measures.def (-1: the GPU does not have it). No activity may be recorded meanwhile. The
/// status says why nothing was measured: the counters are for administrators alone, another tool has them, or there is
/// no CUPTI; `work` has run all the same, and *status is what it returned.
absl::StatusOr<std::vector<std::vector<double>>> MeasureKernels(Device& device,
                                                                const std::function<absl::Status()>& work,
                                                                absl::Status* status);

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_KERNEL_METER_H_
