// Arguments of kernels/join.cu.
#ifndef TESSERA_INTERP_CUDA_JOIN_ARGS_H_
#define TESSERA_INTERP_CUDA_JOIN_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// Operands that one launch of concat or stack takes.
constexpr int kMostParts = 20;

/// An operand and its place: rows of `row` units, one every JoinArgs::pitch in out, the first at `place`.
struct JoinPart {
  Operand x;
  int64_t first;  // units of the parts before
  int64_t row;
  int64_t place;
};

/// Units are elements, or 16 bytes where all operands lie in runs of so many; layouts count in them.
struct JoinArgs {
  Address out;
  int64_t count;  // units of all parts
  int64_t pitch;
  int32_t parts;
  int32_t size;  // bytes of an element
  JoinPart part[kMostParts];
};

struct PadArgs {
  Address x, out;
  int64_t count;
  uint64_t value;
  int32_t rank;
  int64_t dims[kMostDims];  // of out
  int64_t low[kMostDims];   // index in x: index in out - low
  int64_t x_dims[kMostDims];
  int64_t x_strides[kMostDims];
};

/// Keeps column c of row r where low <= c - r < high.
struct BandArgs {
  Address x, out;
  int64_t count, rows, cols;
  int64_t low, high;
  Layout layout;  // x's, with cols as its last dim
};

static_assert(sizeof(JoinArgs) <= 4000);

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_JOIN_ARGS_H_
