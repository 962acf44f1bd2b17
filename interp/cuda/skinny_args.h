// Arguments of the kernels for products of few rows. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_SKINNY_ARGS_H_
#define TESSERA_INTERP_CUDA_SKINNY_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// Columns of the result that a block computes, rows of a tile, threads and warps of a block.
inline constexpr int kSkinnyColumns = 64, kSkinnyRows = 16, kSkinnyThreads = 256, kSkinnyWarps = 8;
/// Sums of one tile: of a block's columns and 16 rows.
inline constexpr int kSkinnySums = kSkinnyColumns * kSkinnyRows;

/// c[m, n] = a[m, k] b[k, n]. c is contiguous; rows of a, and rows or columns of b, begin at multiples of 16 bytes.
struct SkinnyArgs {
  Address c, a, b;
  /// Where there are several splits: sums of each block in f32, and how many blocks of some columns are through, 0
  /// before and after.
  Address partial, arrived;
  int64_t a_row, b_ld;
  int32_t m, n, k;
  int32_t splits, each;  // into how many stretches k is cut, and how long one is: a multiple of 32
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_SKINNY_ARGS_H_
