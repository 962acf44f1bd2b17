// Times of stretches of a device's stream by events, for runtime/activity.h where CUPTI cannot be used.
#ifndef TESSERA_RUNTIME_CUDA_EVENT_TIMER_H_
#define TESSERA_RUNTIME_CUDA_EVENT_TIMER_H_

#include <cstdint>

#include "runtime/activity.h"
#include "runtime/cuda/driver.h"

namespace tessera::cuda {

class Device;

/// As ActivityRecorder's.
void StartEventTimer(rt::ActivityRecorder::Sink sink);
void FlushEventTimer();
void StopEventTimer();
int64_t LostByEventTimer();

/// Begins a stretch on the device's stream; null where none can begin: within another one of this thread, while the
/// thread records a graph, or where too many are under way.
CUevent BeginStretch(Device& device);
/// Ends the one that began with `first`.
void EndStretch(Device& device, CUevent first, int64_t owner);

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_EVENT_TIMER_H_
