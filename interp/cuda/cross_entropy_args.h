// The arguments of cross_entropy.cu. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_CROSS_ENTROPY_ARGS_H_
#define TESSERA_INTERP_CUDA_CROSS_ENTROPY_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// Threads of a block in cross_entropy_rows.cu, at most, and in cross_entropy_rows_hopper.cu.
constexpr int kRowThreads = 256;
/// Of short rows: threads of a block, and blocks of a multiprocessor where a lane has four accesses of a row, or eight.
constexpr int kShortThreads = 128;
constexpr int kShortBlocks[2] = {6, 4};

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
