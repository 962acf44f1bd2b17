// Processes of the gpu benchmarks: ours under a tier, the bare libraries, PyTorch.
#ifndef TESSERA_BENCH_GPU_PROCESSES_H_
#define TESSERA_BENCH_GPU_PROCESSES_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/peer_process.h"
#include "bench/tracing.h"

namespace bench {

/// Throws where there is no CUDA device.
void CheckGpu();

/// Serves GpuTask; hot at once, and tier 3 at once where all tiers are on.
Process StartGpu(Tier tier, const Settings& more = {});
Process StartRaw();
/// Null where python3 has no PyTorch with CUDA.
Process StartTorch();

/// A contender, where the process is there and knows the task.
void AddPeer(std::vector<Timed>& contenders, std::vector<std::string>& peers, const Process& process,
             const std::string& task, const std::string& name);

/// Calls of something that runs on the device, warm, up to the device's end of them.
Timed GpuWork(std::function<void()> call);

}  // namespace bench

#endif  // TESSERA_BENCH_GPU_PROCESSES_H_
