// A single number as kernels take it. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_NUMBER_ARGS_H_
#define TESSERA_INTERP_CUDA_NUMBER_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// A host number, or one element on the device.
struct Number {
  Address data;  // 0: a host number, which the next two hold
  double f;
  int64_t i;
  int32_t dtype;  // of the element
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_NUMBER_ARGS_H_
