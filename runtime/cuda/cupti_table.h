// CUPTI as a table of functions, for those files of this folder that have its headers.
#ifndef TESSERA_RUNTIME_CUDA_CUPTI_TABLE_H_
#define TESSERA_RUNTIME_CUDA_CUPTI_TABLE_H_

#include <cupti.h>
#include <cupti_pcsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include "runtime/status.h"

namespace tessera::cuda {

struct Cupti {
#define TSR_CUPTI(name) decltype(&::name) name = nullptr;
#include "runtime/cuda/cupti.def"
};

/// Opens it at the first call. The status says why there is none.
absl::StatusOr<const Cupti*> GetCupti();

/// OK, or what CUPTI says of a call.
absl::Status CheckCupti(const Cupti& cupti, const char* call, CUptiResult result);

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_CUPTI_TABLE_H_
