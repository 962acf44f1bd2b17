// What ran on the GPUs as CUPTI saw it, for runtime/activity.h. CUPTI is opened when a recording starts.
#ifndef TESSERA_RUNTIME_CUDA_CUPTI_H_
#define TESSERA_RUNTIME_CUDA_CUPTI_H_

#include <cstdint>
#include <string>

#include "runtime/activity.h"

namespace tessera::cuda {

/// As ActivityRecorder's.
absl::Status StartCupti(rt::ActivityRecorder::Sink sink, rt::ActivityRecorder::LinkSink links);
void FlushCupti();
void StopCupti();
int64_t LostByCupti();
std::string CuptiVersion();

/// What this thread launches from now on has that owner, until PopOwner. False: nothing is recorded.
bool PushOwner(int64_t owner);
void PopOwner();

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_CUPTI_H_
