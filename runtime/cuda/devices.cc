// The CUDA devices of the machine, each made when it is first asked for.
#include <mutex>

#include "runtime/cuda/device.h"

namespace tessera::rt {

int NumCudaDevices() {
  static const int count = [] {
    const absl::StatusOr<const cuda::Driver*> driver = cuda::GetDriver();
    int n = 0;
    if (!driver.ok() || (*driver)->cuDeviceGetCount(&n) != CUDA_SUCCESS) return 0;
    return std::min(n, cuda::kMaxDevices);
  }();
  return count;
}

absl::StatusOr<Device*> Cuda(int index) {
  static auto* mutex = new std::mutex;
  static auto* devices = new absl::StatusOr<cuda::Device*>[cuda::kMaxDevices];
  TSR_RETURN_IF_ERROR(cuda::GetDriver().status());
  const int count = NumCudaDevices();
  if (index < 0 || index >= count)
    return NotFound("there is no device cuda:", index, ": the driver has ", count,
                    count == 1 ? " CUDA device" : " CUDA devices");
  std::lock_guard lock(*mutex);
  absl::StatusOr<cuda::Device*>& device = devices[index];
  if (device.status().code() == absl::StatusCode::kUnknown) device = cuda::Device::Make(index);
  if (!device.ok()) return device.status();
  return *device;
}

}  // namespace tessera::rt
