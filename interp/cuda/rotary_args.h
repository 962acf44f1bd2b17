// The arguments of rotary.cu. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_ROTARY_ARGS_H_
#define TESSERA_INTERP_CUDA_ROTARY_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

struct RotaryArgs {
  Operand positions;  // as given
  Operand x;          // the dims without the last
  Layout table_rows;  // the same dims: which row of the table a row of x is turned by
  Address y;
  Address table;                // cosines [table rows, half], then sines, in the compute type
  int64_t rows, half, n_table;  // n_table: rows of the table
  int64_t step;                 // of x along the last dim
  double base;
  int32_t interleaved;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_ROTARY_ARGS_H_
