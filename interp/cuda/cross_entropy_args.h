// The arguments of cross_entropy.cu. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_CROSS_ENTROPY_ARGS_H_
#define TESSERA_INTERP_CUDA_CROSS_ENTROPY_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// Threads of a block in cross_entropy_rows.cu, at most, and in cross_entropy_rows_hopper.cu.
constexpr int kRowThreads = 256;

struct CrossEntropyArgs {
  Operand logits;  // the dims without the classes
  Operand targets;
  Operand g;  // of cross_entropy_grad
  Address y;
  int64_t rows, classes, step;  // step: from class to class in logits
  int64_t ignore;
  DeviceError* error;
  int32_t op;
  int32_t lanes;  // threads of a row
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_CROSS_ENTROPY_ARGS_H_
