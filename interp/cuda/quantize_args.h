// Arguments of kernels/quantize.cu.
#ifndef TESSERA_INTERP_CUDA_QUANTIZE_ARGS_H_
#define TESSERA_INTERP_CUDA_QUANTIZE_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// What kernels need of an ir::StorageFormat.
struct FormatArgs {
  int32_t bits, fraction_bits, bias, emin, emax;
  int32_t group;  // elements that fill whole bytes
};

struct QuantizeArgs {
  Address x, data, scale;
  Layout layout;  // x's
  FormatArgs format;
  int64_t count;   // blocks
  int64_t blocks;  // of a row
  int64_t block;   // elements of a block
  int64_t length;  // elements of a row of x
  int32_t width;   // threads of a block: a power of two up to 32, or 256
};

struct DequantizeArgs {
  Address data, scale, out;
  Layout data_layout, scale_layout;
  FormatArgs format;
  int64_t count;  // groups
  int64_t block;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_QUANTIZE_ARGS_H_
