// Stands in for runtime/cuda where Tessera is built without CUDA.
#include "runtime/activity.h"
#include "runtime/device.h"
#include "runtime/device_memory.h"
#include "runtime/run_timer.h"

namespace tessera::rt {

int NumCudaDevices() { return 0; }
int64_t OwnMemory(const Device&) { return 0; }
absl::StatusOr<Device*> Cuda(int) {
  return NotFound("this build of Tessera has no CUDA: build it where nvcc and cuda.h are (TESSERA_CUDA=ON)");
}

constinit std::atomic<ActivityRecorder::Mode> ActivityRecorder::mode_{Mode::off};
absl::Status ActivityRecorder::Start(Sink, LinkSink) { return NotFound("this build of Tessera has no CUDA"); }
absl::Status ActivityRecorder::StartEvents(Sink) { return NotFound("this build of Tessera has no CUDA"); }
void ActivityRecorder::Flush() {}
void ActivityRecorder::Stop() {}
int64_t ActivityRecorder::lost() { return 0; }
std::string ActivityRecorder::version() { return ""; }
int64_t RecordedNodes(Device&) { return -1; }
std::unique_ptr<RunTimer> RunTimer::On(Device&) { return nullptr; }
void ActivityScope::Open(Device&, ActivityOwner) { (void)device_, (void)owner_, (void)outer_, (void)first_; }
void ActivityScope::Close() { (void)has_range_, (void)mode_; }
absl::StatusOr<MeasurePlan> PlanMeasures(const char*) { return NotFound("this build of Tessera has no CUDA"); }

absl::StatusOr<KernelMeasures> MeasureKernels(Device&, const std::function<absl::Status()>& work,
                                              absl::Status* status) {
  *status = work();
  return NotFound("this build of Tessera has no CUDA");
}
absl::StatusOr<std::vector<PcSample>> SamplePcs(Device&, const std::function<absl::Status()>& work,
                                                absl::Status* status) {
  *status = work();
  return NotFound("this build of Tessera has no CUDA");
}
int64_t CurrentOwner() { return 0; }
void SetOwnerNamer(OwnerNamer) {}

}  // namespace tessera::rt
