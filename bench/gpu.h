// Tasks of the gpu benchmarks, for a process whose default device is a GPU (tessera_bench --serve gpu):
//
//   rows NAME DTYPE M N    a function of rows: gelu, layer_norm, rms_norm, softmax, sum
//   row_op NAME DTYPE N    an op of rows of N elements, 256 MiB of them (gpu_rows.cc)
//   gemm M N K DTYPE       a product
//   attention B H K S D full|causal|mask, op NAME    tier 1 (gpu_programs.cc)
//   decode B H K S D, paged_decode B H K S D N  attention of one query; with pages of N positions (gpu_programs.cc)
//   until                  a loop that ends when what it computes is small enough (gpu_programs.cc)
//   linear WHAT M N K [T]  a product and what follows it (gpu_linear.cc)
//   scores WHAT B H S D    attention written in ops (gpu_scores.cc)
//   loop                   30 small ops in a C++ loop
//   eager_add, call N      the host's time of a small op, and of a call of a function of N of them
//   generated TASK         generated kernels of one run of the task, in place of seconds
#ifndef TESSERA_BENCH_GPU_H_
#define TESSERA_BENCH_GPU_H_

#include <string>

#include "bench/harness.h"

namespace bench {

/// Empty for an unknown task.
Timed GpuTask(const std::string& task);
Timed GpuProgramTask(const std::string& task);
Timed GpuLinearTask(const std::string& task);
Timed GpuScoresTask(const std::string& task);
Timed GpuRowsTask(const std::string& task);
Timed GpuTunerTask(const std::string& task);

}  // namespace bench

#endif  // TESSERA_BENCH_GPU_H_
