// Rows that are held in registers (kernels/row_regs.cuh). nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_ROW_ARGS_H_
#define TESSERA_INTERP_CUDA_ROW_ARGS_H_

namespace tessera::cuda {

/// Elements that a thread holds, and the most threads that a row gets: 64 and 128 registers.
constexpr int kRowFloats = 16, kRowFloatThreads = 1024;
constexpr int kRowDoubles = 8, kRowDoubleThreads = 512;

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_ROW_ARGS_H_
