// How a window slides over [N,C,spatial...], and the arguments of pool.cu and conv.cu. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_WINDOW_ARGS_H_
#define TESSERA_INTERP_CUDA_WINDOW_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// One spatial dim. Tap w of the window at output position o reads input position o * stride + w * dilation - low.
struct SlideDim {
  int64_t in, out, window, stride, dilation, low;
  int64_t x_stride;  // of the input, in elements
};

/// Always three spatial dims: 1-d and 2-d get leading ones of size 1.
struct Slide {
  int64_t batch, channels;
  int64_t x_batch, x_channel;  // strides
  SlideDim dim[3];
};

struct PoolArgs {
  Address x, y;
  Slide slide;
  int32_t dtype;
  int32_t lanes;  // threads of an output: 1 or 32
  int32_t count_padding;
};

struct ConvArgs {
  Address x, y;
  Operand weight;  // [O, C/groups, window], three spatial dims
  Operand bias;    // [O]
  Slide slide;
  int64_t groups, inputs, outputs;  // inputs and outputs: channels of a group
  int32_t dtype;
  int32_t has_bias;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_WINDOW_ARGS_H_
