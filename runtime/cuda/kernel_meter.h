// Measures kernels with the counters of a GPU, through CUPTI's range profiler. They are run several times, because few
// counters can be read at once.
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

/// As rt::MeasureKernels. The status may be that the counters are for administrators alone, that another tool has them,
/// or that there is no CUPTI.
absl::StatusOr<std::vector<std::vector<double>>> MeasureKernels(Device& device,
                                                                const std::function<absl::Status()>& work,
                                                                absl::Status* status);

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_KERNEL_METER_H_
