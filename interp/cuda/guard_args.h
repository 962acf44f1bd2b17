// Arguments of kernels/guard.cu.
#ifndef TESSERA_INTERP_CUDA_GUARD_ARGS_H_
#define TESSERA_INTERP_CUDA_GUARD_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// What the device knows of the runs; it counts them itself, so that a recorded launch serves every run.
struct GuardState {
  uint64_t run;
  uint64_t failed;  // a condition of this run did not hold
};

struct GuardArgs {
  Address condition;  // 0: none, the run was given up
  Address state;      // GuardState
  Address verdicts;   // in memory that both sides see; that of a run is 2 * (run + 1), and 1 more where it failed
  uint64_t num_verdicts;
  int32_t expected;
  int32_t last;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_GUARD_ARGS_H_
