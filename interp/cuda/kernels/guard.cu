// Checks of branches: one thread looks at one condition.
#include "interp/cuda/guard_args.h"
#include "interp/cuda/kernels/device.cuh"

namespace tessera::cuda {

extern "C" __global__ void check_guard(const __grid_constant__ GuardArgs a) {
  GuardState* state = At<GuardState>(a.state);
  if (a.condition != 0 && (*At<const uint8_t>(a.condition) != 0) != (a.expected != 0)) state->failed = 1;
  if (!a.last) return;
  volatile uint64_t* verdict = At<uint64_t>(a.verdicts) + state->run % a.num_verdicts;
  *verdict = 2 * (state->run + 1) + state->failed;
  __threadfence_system();
  ++state->run;
  state->failed = 0;
}

}  // namespace tessera::cuda
