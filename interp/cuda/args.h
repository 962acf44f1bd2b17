// What host code and kernels of tier 1 agree on: the arguments of kernels, all of them plain data. A kernel takes one
// struct by value. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_ARGS_H_
#define TESSERA_INTERP_CUDA_ARGS_H_

#include <stdint.h>

#include "runtime/cuda/device_error.h"

namespace tessera::cuda {

/// The address of data on the device. With the highest bit set it is the address of a slot that holds it: so a graph of
/// launches is replayed for other tensors.
using Address = uint64_t;
constexpr Address kIndirect = Address{1} << 63;

constexpr int kMostDims = 8;

/// Where elements of a tensor lie, in its own order of dims.
struct Layout {
  int32_t rank;
  int32_t dtype;  // DType
  int64_t dims[kMostDims];
  int64_t strides[kMostDims];  // in elements
};

struct Operand {
  Address data;
  Layout layout;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_ARGS_H_
