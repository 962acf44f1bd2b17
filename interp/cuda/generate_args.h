// Arguments of kernels/generate.cu.
#ifndef TESSERA_INTERP_CUDA_GENERATE_ARGS_H_
#define TESSERA_INTERP_CUDA_GENERATE_ARGS_H_

#include "interp/cuda/number_args.h"

namespace tessera::cuda {

/// Writes one element again and again.
struct FillArgs {
  Address out;
  Address value;  // where the element is, or 0: it is in bits
  uint64_t bits;
  int64_t bytes;  // of out
  int32_t size;   // of an element
};

struct ConvertOneArgs {
  Address out, in;
  int32_t out_dtype, in_dtype;
};

struct IotaArgs {
  Address out;
  int64_t count, length, inner;  // index of element i: i / inner % length
  Number start, step;
  int32_t floating;  // f64 arithmetic, else i64
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_GENERATE_ARGS_H_
