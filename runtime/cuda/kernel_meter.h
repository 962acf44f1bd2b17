// Measures kernels with the counters of a GPU, through CUPTI's range profiler. They are run several times, because few
// counters can be read at once.
#ifndef TESSERA_RUNTIME_CUDA_KERNEL_METER_H_
#define TESSERA_RUNTIME_CUDA_KERNEL_METER_H_

#include <functional>

#include "runtime/activity.h"
#include "runtime/status.h"

namespace tessera::cuda {

class Device;

/// As rt::MeasureKernels. The status may be that the counters are for administrators alone, that another tool has them,
/// or that there is no CUPTI.
absl::StatusOr<rt::KernelMeasures> MeasureKernels(Device& device, const std::function<absl::Status()>& work,
                                                  absl::Status* status);

/// As rt::PlanMeasures.
absl::StatusOr<rt::MeasurePlan> PlanMeasures(const char* chip);

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_KERNEL_METER_H_
