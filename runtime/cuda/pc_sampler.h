// Which instructions of kernels wait, and for what: CUPTI looks at the program counters of warps now and then.
#ifndef TESSERA_RUNTIME_CUDA_PC_SAMPLER_H_
#define TESSERA_RUNTIME_CUDA_PC_SAMPLER_H_

#include <functional>
#include <vector>

#include "runtime/activity.h"

namespace tessera::cuda {

class Device;

/// As rt::SamplePcs.
absl::StatusOr<std::vector<rt::PcSample>> SamplePcs(Device& device, const std::function<absl::Status()>& work,
                                                    absl::Status* status);

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_PC_SAMPLER_H_
