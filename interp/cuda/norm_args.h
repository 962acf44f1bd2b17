// The arguments of norm.cu. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_NORM_ARGS_H_
#define TESSERA_INTERP_CUDA_NORM_ARGS_H_

#include "interp/cuda/args.h"
#include "interp/cuda/row_args.h"

namespace tessera::cuda {

/// The most threads of a row: weights need registers, too.
constexpr int kNormThreads = 512;

enum NormMode : int32_t {
  kNormWhole,  // rows in one piece
  kNormParts,  // sums of each chunk
  kNormApply,  // chunks, with what norm_join made of the parts
};

/// Of a chunk: sum of elements, their mean in the compute type, and the sum of squares about that.
struct NormPart {
  double sum, mean, squares;
};
struct NormWhole {
  double mean, scale;
};

struct NormArgs {
  Address x, y;
  Address weight, bias;  // [n], contiguous, or 0
  Address parts;         // [rows, chunks]
  Address whole;         // [rows]
  Layout rows;           // where rows begin in x
  int64_t n_rows, n;
  int64_t chunk, chunks;  // of a row
  double eps;
  int32_t lanes;  // threads of a row
  int32_t rms;
  int32_t mode;
};

/// batch_norm, with an axis of x that has `channels`, and `inner` elements after it.
struct BatchNormArgs {
  Operand x;  // dims may be merged
  Operand mean, var, weight, bias;
  Address y;
  Address table;  // mean, scale and shift, [3, channels], in the compute type
  int64_t size, channels, inner;
  double eps;
  int32_t has_weight, has_bias;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_NORM_ARGS_H_
