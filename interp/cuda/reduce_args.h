// The arguments of reductions (reduce.cu and arg_reduce.cu). nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_REDUCE_ARGS_H_
#define TESSERA_INTERP_CUDA_REDUCE_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

struct ReduceArgs {
  Address x, y;
  Address part;          // accumulators [outputs, chunks], or [chunks, outputs] in packs, where chunks > 1
  Address param;         // of each output in the compute type: what the second pass of a cut reduction subtracts
  Layout kept, reduced;  // where outputs and their elements lie in x; reduced has at least one dim
  int64_t outputs, extent;
  int64_t chunk, chunks;  // of the extent
  int32_t out_dtype;
  int32_t lanes;  // rows: threads of an output. cols: threads of a block side by side, a power of two
  int32_t pack;   // cols: outputs of a thread, 1 or those of one access, which are neighbours in x
  int32_t pass;   // cut reductions: 0 or 1
  int32_t other;  // sum: mean. max: min. any: all. argmax: argmin
  double count, correction;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_REDUCE_ARGS_H_
