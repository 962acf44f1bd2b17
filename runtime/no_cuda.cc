// Stands in for runtime/cuda where Tessera is built without CUDA.
#include "runtime/activity.h"
#include "runtime/device.h"
#include "runtime/device_memory.h"

namespace tessera::rt {

int NumCudaDevices() { return 0; }
int64_t OwnMemory(const Device&) { return 0; }
absl::StatusOr<Device*> Cuda(int) {
  return NotFound("this build of Tessera has no CUDA: build it where nvcc and cuda.h are (TESSERA_CUDA=ON)");
}

absl::Status ActivityRecorder::Start(Sink) { return NotFound("this build of Tessera has no CUDA"); }
void ActivityRecorder::Stop() {}
int64_t ActivityRecorder::lost() { return 0; }
bool ActivityRecorder::is_on() { return false; }
ActivityScope::ActivityScope(int64_t) : pushed_(false) {}
ActivityScope::~ActivityScope() { (void)pushed_; }

}  // namespace tessera::rt
