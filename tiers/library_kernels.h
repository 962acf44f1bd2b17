// Products of a CUDA device's library that take along what follows them: a bias, a sum with another tensor, an
// activation. They stand in a plan beside the generated kernels, in place of their steps, and need no code of their
// own.
#ifndef TESSERA_TIERS_LIBRARY_KERNELS_H_
#define TESSERA_TIERS_LIBRARY_KERNELS_H_

#include <cstdint>
#include <vector>

#include "tiers/code.h"
#include "tracer/trace.h"

namespace tessera::tiers {

/// Appends a kernel for each matmul that no generated kernel has and that is followed by what the library can do in the
/// same call. Generated kernels that have nothing but such steps go. Only windows stand between its steps, so nothing
/// leaves the trace there, and what its inner values are is needed by nobody else. `kernel_of` is the kernel of each
/// step, or -1, and is kept in step.
void FindLibraryKernels(const tracer::Trace& trace, std::vector<Code::Kernel>& kernels,
                        std::vector<int32_t>& kernel_of);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_LIBRARY_KERNELS_H_
