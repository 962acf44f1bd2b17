// Arguments of the kernels for element-wise ops. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_EW_ARGS_H_
#define TESSERA_INTERP_CUDA_EW_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

constexpr int kMostOperands = 3;

enum class OperandKind : uint8_t {
  elements,   // one for each element of the result
  element,    // one element in memory for all of them
  immediate,  // its bits are here, in the dtype that is computed in
};

/// All operands lie as the result does, or are one element.
struct EwFlat {
  Address out;
  uint64_t in[kMostOperands];  // Address, or the bits of a number
  OperandKind kind[kMostOperands];
  int64_t size;
};

/// The dims are those of the result, merged as far as all operands allow.
struct EwStrided {
  Address out;
  uint64_t in[kMostOperands];
  OperandKind kind[kMostOperands];
  int32_t rank;
  int32_t pack;  // elements of an access: every operand has them side by side along the last dim, or one for all; or 1
  int64_t size;
  int64_t dims[kMostDims];
  int64_t strides[kMostOperands][kMostDims];
};

/// Elements of `from`, brought to `through` and then to `to`, at the places of a contiguous tensor.
struct CastArgs {
  Address out;
  uint64_t in;
  OperandKind kind;
  int8_t through;  // DType
  int64_t size;
  Layout from;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_EW_ARGS_H_
