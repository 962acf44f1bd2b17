// The arguments of gelu_grad.cu. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_GELU_GRAD_ARGS_H_
#define TESSERA_INTERP_CUDA_GELU_GRAD_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// All contiguous, of one dtype.
struct GeluGradArgs {
  Address x, g, y;
  int64_t size;
  int32_t dtype;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_GELU_GRAD_ARGS_H_
