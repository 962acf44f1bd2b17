// The arguments of norm_grad.cu. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_NORM_GRAD_ARGS_H_
#define TESSERA_INTERP_CUDA_NORM_GRAD_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// The most threads of a row: 128 registers for x, g and two sums of each element.
constexpr int kNormGradThreads = 512;
/// Rows that a group adds up in f32 before f64 takes over.
constexpr int64_t kNormGradRows = 64;

struct NormGradArgs {
  Address x, g;
  Address weight;              // [n], contiguous, or 0
  Address dx, dweight, dbias;  // dbias: 0 of rms_norm_grad
  Address parts;               // sums of g normed and of g: [parts, 2, slots] in the compute type
  Address stats;               // plain walk: mean and scale of each row, in the compute type
  Layout x_rows, g_rows;       // where rows begin
  int64_t n_rows, n;
  int64_t n_parts, slots;  // slots: of a row's sums, in the order of threads
  int64_t chunk;           // plain walk: rows of a part
  double eps;
  int32_t lanes;  // threads of a row: 32, or all of the block; 0: plain walk
  int32_t rms;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_NORM_GRAD_ARGS_H_
