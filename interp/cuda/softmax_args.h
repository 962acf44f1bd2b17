// The arguments of softmax.cu. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_SOFTMAX_ARGS_H_
#define TESSERA_INTERP_CUDA_SOFTMAX_ARGS_H_

#include "interp/cuda/args.h"
#include "interp/cuda/row_args.h"

namespace tessera::cuda {

enum SoftmaxMode : int32_t {
  kSoftmaxWhole,  // rows in one piece
  kSoftmaxParts,  // largest and sum of each chunk
  kSoftmaxApply,  // chunks, with what softmax_join made of the parts
};

/// The largest of a chunk and the sum of exponentials; of a row: the largest and the factor, or the logarithm.
struct SoftmaxPart {
  double max, sum;
};

struct SoftmaxArgs {
  Address x, y;
  Address parts;  // [rows, chunks]
  Address whole;  // [rows]
  Layout rows;    // where rows, or columns in the order of the dims without the axis, begin in x
  int64_t n_rows, n;
  int64_t inner;          // columns: elements after the axis
  int64_t step;           // columns: from element to element in x
  int64_t chunk, chunks;  // of a row
  int32_t lanes;          // threads of a row
  int32_t log;
  int32_t mode;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_SOFTMAX_ARGS_H_
