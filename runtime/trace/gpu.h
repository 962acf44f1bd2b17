// GPUs in recordings: starts and stops the recording of their activity with that of events, and turns it into rows.
#ifndef TESSERA_RUNTIME_TRACE_GPU_H_
#define TESSERA_RUNTIME_TRACE_GPU_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/device.h"
#include "runtime/trace/format.h"

namespace tessera::rt::trace {

/// A GPU is in use from now on. Its activity is recorded from here where a recording is open.
void AddGpu(Device& device, GpuRow row);

// ---- for the recorder
/// A recording began.
void BeginGpus();
/// What is finished by now belongs into the recording.
void FlushGpus();
/// What was launched by now belongs into the recording, which ends. Waits for the GPUs.
void EndGpus();
/// Memory of the GPUs in use.
std::vector<GpuSampleRow> SampleGpus();

// ---- graphs
/// Of a graph that was just made. Never 0.
int64_t NewGraphNumber();
/// The graph is about to be launched; its row goes to a recording that does not have it.
void TellGraph(int64_t number, int64_t version, const std::vector<int64_t>& steps);

/// Is this run of a version one of those to be looked at closely (option trace_measures)? First comes one in which program
/// counters are sampled, then those that are measured kernel by kernel.
enum class Look : uint8_t {
  none,
  launches,  // not closely, but with its kernels one by one and not as a graph
  counters,
  pcs,
};
Look HowToLook(int64_t version);
/// Counters or samples: runs all its steps, one by one, and records what was seen.
absl::Status LookAtRun(Look look, Device& device, int64_t version, const std::function<absl::Status()>& run);

}  // namespace tessera::rt::trace

#endif  // TESSERA_RUNTIME_TRACE_GPU_H_
