// Peers of the gpu benchmarks: the CUDA driver and cuBLASLt called with nothing in between. Tasks for a process of
// their own (tessera_bench --serve gpu_raw):
//
//   launch            one kernel of one block
//   graph N           one launch of a CUDA graph of N such kernels
//   copy BYTES        a copy within the device
//   read BYTES        a sum of them: 16 bytes an access, eight in flight
//   gemm M N K DTYPE  the fastest of the eight kernels that cuBLASLt names first; bf16, f16, f32, tf32 or f8e4m3, or
//                     f8e4m3_bf16: a product of f8e4m3 in bf16, f8e4m3_blocks: the same with scales for blocks of 128; with
//                     nt at the end the second factor is transposed
//   gemm_on_device    the same by the device's time: the fastest, and how long it takes (DeviceWork)
//   gemm_bias, gemm_bias_gelu    the same with cuBLASLt's epilogues; its gelu is the one with tanh
//   gemm_in_turn nn|nt M N K     bf16, with as many matrices as no cache holds, in turn; nt: they are transposed
//   init              cuInit and the primary context, once
#ifndef TESSERA_BENCH_GPU_RAW_H_
#define TESSERA_BENCH_GPU_RAW_H_

#include <functional>
#include <string>

#include "bench/harness.h"

namespace bench {

/// How many matrices of n x k in 2 bytes are 256 MiB or more.
inline int64_t MatricesBeyondCache(int64_t n, int64_t k) { return ((int64_t{1} << 27) + n * k - 1) / (n * k); }

/// The device's time for what is submitted to that stream of the primary context, without what the host takes: the
/// device is kept waiting until there is enough in the queue.
Timed DeviceWork(std::function<void()> submit, void* stream);

/// Empty for an unknown task, and where CUDA is not to be had.
Timed GpuRawTask(const std::string& task);

}  // namespace bench

#endif  // TESSERA_BENCH_GPU_RAW_H_
