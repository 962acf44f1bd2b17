// Arguments of kernels/scatter.cu. Updates that meet in one element of out apply in their order.
//
// Updates are seen as [outer, count, inner]: those with the same outer and inner index are a line, and only updates of
// one line can meet. scatter has one line for each element of a row, with one update for each row of ids;
// put_along_axis has its axis in the middle.
#ifndef TESSERA_INTERP_CUDA_SCATTER_ARGS_H_
#define TESSERA_INTERP_CUDA_SCATTER_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

enum class ScatterMode : int32_t { set, add, max, min };

/// Where update (o, c, i) goes.
struct ScatterPlaces {
  Address ids;
  Layout ids_layout;  // scatter: without the last dim
  DeviceError* error;
  int64_t count, inner;
  int64_t bounds[kMostDims];   // put_along_axis: the first one, the dim along axis
  int64_t strides[kMostDims];  // of out
  int64_t k_stride;            // of ids' last dim
  int32_t k;                   // scatter: how many indices a row has; -1: put_along_axis
  int32_t op;
};

/// A thread a line. Updates are contiguous.
struct ScatterLinesArgs {
  ScatterPlaces places;
  Address updates, out;
  int64_t lines;
  ScatterMode mode;
};

/// Keys by which updates are sorted: the place's number, or `none` for an index out of range. There is one for each row
/// of scatter, and for each element of put_along_axis.
struct ScatterKeysArgs {
  ScatterPlaces places;
  Address keys;
  int64_t keys_count;
  int64_t none;
};

/// Sorted updates: runs of equal keys go to one place, rows of `length` elements each. Updates are contiguous.
struct ScatterRunsArgs {
  Address keys, index;
  Address updates, out;
  int64_t keys_count, length;
  int64_t none;
  int32_t wide;  // keys have 8 bytes
  int32_t wide_index;
  ScatterMode mode;
};

/// Copies updates to their window of out: units are elements, or 16 bytes of both.
struct UpdateSliceArgs {
  Address updates, out;
  int64_t count;
  int64_t row;                 // units in a row of both that is contiguous; 1 for elements
  int64_t first;               // element of out where the window begins
  Layout from;                 // rows of updates, strides in elements
  int64_t strides[kMostDims];  // out's, for the same dims
  int32_t size;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_SCATTER_ARGS_H_
