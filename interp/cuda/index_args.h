// Arguments of kernels/index.cu. Rows of x, found by indices, go one after the other to out.
#ifndef TESSERA_INTERP_CUDA_INDEX_ARGS_H_
#define TESSERA_INTERP_CUDA_INDEX_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// take and embedding: row (o, i) of out begins at outer(o) + ids(i) * stride in x.
struct TakeArgs {
  Address x, ids, out;
  DeviceError* error;
  int64_t count;        // units of out: elements, or 16 bytes
  int64_t row;          // units in a row
  int64_t ids_count;    // indices
  int64_t bound;        // x's dim along axis
  int64_t axis_stride;  // and its stride
  Layout outer;         // x's dims before axis
  Layout inner;         // and after it
  Layout ids_layout;
  int32_t op;
  int32_t size;  // bytes of an element
};

/// gather: row i begins where the k indices ids(i, ...) of x's leading dims say.
struct GatherArgs {
  Address x, ids, out;
  DeviceError* error;
  int64_t count, row;
  int64_t k_stride;  // of ids' last dim
  int64_t bounds[kMostDims];
  int64_t strides[kMostDims];
  Layout ids_layout;  // without its last dim
  Layout inner;
  int32_t k;
  int32_t op;
  int32_t size;
};

/// take_along_axis: element i is at walk(i) + ids(i) * stride.
struct AlongArgs {
  Address x, ids, out;
  DeviceError* error;
  int64_t count;
  int64_t bound, axis_stride;
  Layout walk;
  Layout ids_layout;
  int32_t op;
};

struct OneHotArgs {
  Address ids, out;
  int64_t count, depth;
  uint64_t one;  // in out's dtype
  Layout ids_layout;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_INDEX_ARGS_H_
