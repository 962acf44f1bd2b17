// The CUDA devices of the machine, each made when it is first asked for.
#include <mutex>

#include "runtime/activity.h"
#include "runtime/cuda/device.h"
#include "runtime/device_memory.h"

namespace tessera {
namespace {

struct Devices {
  std::mutex mutex;
  absl::StatusOr<cuda::Device*> made[cuda::kMaxDevices];  // unknown until it is asked for
  CUcontext adopted[cuda::kMaxDevices] = {};
};

Devices& All() {
  static auto* devices = new Devices;
  return *devices;
}

absl::Status CheckIndex(int index) {
  TSR_RETURN_IF_ERROR(cuda::GetDriver().status());
  const int count = rt::NumCudaDevices();
  if (index >= 0 && index < count) return absl::OkStatus();
  return NotFound("there is no device cuda:", index, ": the driver has ", count,
                  count == 1 ? " CUDA device" : " CUDA devices");
}

bool IsMade(const absl::StatusOr<cuda::Device*>& device) {
  return device.status().code() != absl::StatusCode::kUnknown;
}

}  // namespace

namespace rt {

int NumCudaDevices() {
  static const int count = [] {
    const absl::StatusOr<const cuda::Driver*> driver = cuda::GetDriver();
    int n = 0;
    if (!driver.ok() || (*driver)->cuDeviceGetCount(&n) != CUDA_SUCCESS) return 0;
    return std::min(n, cuda::kMaxDevices);
  }();
  return count;
}

int64_t OwnMemory(const Device& device) {
  if (device.kind() != DeviceKind::cuda) return 0;
  return static_cast<int64_t>(static_cast<const cuda::Device&>(device).properties().memory_bytes);
}

int64_t RecordedNodes(Device& device) {
  return device.kind() == DeviceKind::cuda ? cuda::DeviceOf(device).RecordedNodes() : -1;
}

absl::StatusOr<Device*> Cuda(int index) {
  TSR_RETURN_IF_ERROR(CheckIndex(index));
  Devices& all = All();
  std::lock_guard lock(all.mutex);
  absl::StatusOr<cuda::Device*>& device = all.made[index];
  if (!IsMade(device)) device = cuda::Device::Make(index, all.adopted[index]);
  if (!device.ok()) return device.status();
  return *device;
}

}  // namespace rt

namespace cuda {

absl::Status AdoptContext(int index, CUcontext context) {
  TSR_RETURN_IF_ERROR(CheckIndex(index));
  Devices& all = All();
  std::lock_guard lock(all.mutex);
  if (IsMade(all.made[index]))
    return absl::FailedPreconditionError(
        absl::StrCat("cuda:", index, " is in use already; adopt a context before its first op"));
  all.adopted[index] = context;
  return absl::OkStatus();
}

}  // namespace cuda
}  // namespace tessera
