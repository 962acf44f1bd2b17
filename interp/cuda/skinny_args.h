// Arguments of the kernels for products of few rows. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_SKINNY_ARGS_H_
#define TESSERA_INTERP_CUDA_SKINNY_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// What a block computes: all rows, of which there are at most this many, of some columns.
inline constexpr int kSkinnyRows = 16, kSkinnyColumns = 64;
inline constexpr int kSkinnyWarps = 8;

/// c[m, n] = a[m, k] b[k, n]. c is contiguous; rows of a and b begin at multiples of 16 bytes; n and k are multiples
/// of 8.
struct SkinnyArgs {
  Address c, a, b;
  int64_t a_row, b_row;
  int32_t m, n, k;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_SKINNY_ARGS_H_
