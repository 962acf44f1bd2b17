// Arguments of the kernels for products that cuBLASLt does not do. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_GEMM_ARGS_H_
#define TESSERA_INTERP_CUDA_GEMM_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// c is contiguous [batches, m, n]; a and b have any strides, `batch_*` those of the batch's dims.
struct GemmAnyArgs {
  Address c, a, b;
  int64_t m, n, k, batches;
  int64_t a_row, a_col, b_row, b_col;
  Layout a_batch, b_batch;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_GEMM_ARGS_H_
