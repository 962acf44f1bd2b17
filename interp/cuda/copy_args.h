// Arguments of the kernels that move elements. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_COPY_ARGS_H_
#define TESSERA_INTERP_CUDA_COPY_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// To a contiguous tensor.
struct CopyArgs {
  Address out, in;
  int64_t size;
  Layout from;
};

/// Matrices whose elements lie next to each other along their columns; `batch` is the layout of the dims before.
struct CopyTilesArgs {
  Address out, in;
  int64_t batches, rows, cols;
  int64_t row, col;  // strides
  Layout batch;
  int32_t in_words;  // elements come and go by four bytes
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_COPY_ARGS_H_
