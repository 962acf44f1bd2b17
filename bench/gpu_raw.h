// Peers of the gpu benchmarks: the CUDA driver and cuBLASLt called with nothing in between. Tasks for a process of
// their own (tessera_bench --serve gpu_raw):
//
//   launch            one kernel of one block
//   graph N           one launch of a CUDA graph of N such kernels
//   copy BYTES        a copy within the device
//   gemm M N K DTYPE  the fastest of the eight kernels that cuBLASLt names first; bf16, f16, f32, tf32 or f8e4m3
//   gemm_bias, gemm_bias_gelu    the same with cuBLASLt's epilogues; its gelu is the one with tanh
//   gemm_in_turn nn|nt M N K     bf16, with as many matrices as no cache holds, in turn; nt: they are transposed
//   init              cuInit and the primary context, once
#ifndef TESSERA_BENCH_GPU_RAW_H_
#define TESSERA_BENCH_GPU_RAW_H_

#include <string>

#include "bench/harness.h"

namespace bench {

/// How many matrices of n x k in 2 bytes are 256 MiB or more.
inline int64_t MatricesBeyondCache(int64_t n, int64_t k) { return ((int64_t{1} << 27) + n * k - 1) / (n * k); }

/// Empty for an unknown task, and where CUDA is not to be had.
Timed GpuRawTask(const std::string& task);

}  // namespace bench

#endif  // TESSERA_BENCH_GPU_RAW_H_
