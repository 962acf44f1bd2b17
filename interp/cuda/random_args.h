// Arguments of kernels/random.cu.
#ifndef TESSERA_INTERP_CUDA_RANDOM_ARGS_H_
#define TESSERA_INTERP_CUDA_RANDOM_ARGS_H_

#include "interp/cuda/number_args.h"

namespace tessera::cuda {

/// T is what the op computes in: float or double.
template <class T>
struct UniformArgs {
  Address out;
  int64_t count;
  Number seed, offset;
  T low, width, first, last;  // UniformRange of interp/cpu/random_loops.h
};

template <class T>
struct NormalArgs {
  Address out;
  int64_t count;
  Number seed, offset;
  T mean, std;
};

struct RandomIntArgs {
  Address out;
  int64_t count;
  Number seed, offset;
  int64_t low;
  uint64_t width;  // high - low modulo 2^64
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_RANDOM_ARGS_H_
