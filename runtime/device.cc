#include "runtime/device.h"

#include <charconv>

#include "absl/strings/str_join.h"

namespace tessera::rt {

absl::StatusOr<std::unique_ptr<Upload>> Device::StartUpload(void* dst, const void* src, size_t bytes) {
  TSR_RETURN_IF_ERROR(CopyFromHost(dst, src, bytes));
  return nullptr;
}
absl::StatusOr<std::unique_ptr<DeviceCode>> Device::LoadCode(std::string_view) {
  return Unsupported("device ", std::string(name()), " takes no generated code");
}
absl::Status Device::Launch(const void*, const char*, const LaunchShape&, void**) {
  return Unsupported("device ", std::string(name()), " takes no generated code");
}

std::vector<Device*> AllDevices() {
  std::vector<Device*> devices = {&Cpu(), &Null()};
  for (int i = 0; i < NumCudaDevices(); ++i) {
    if (absl::StatusOr<Device*> device = Cuda(i); device.ok()) devices.push_back(*device);
  }
  return devices;
}

absl::StatusOr<Device*> FindDevice(std::string_view name) {
  // Without a look at the others: opening the CUDA driver takes a third of a second.
  if (name == "cpu") return &Cpu();
  if (name == "null") return &Null();
  if (name == "cuda") return Cuda(0);
  if (name.starts_with("cuda:")) {
    int index = 0;
    const char* end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + 5, end, index);
    if (error == std::errc() && rest == end) return Cuda(index);
  }
  std::vector<std::string> names;
  for (Device* device : AllDevices()) names.emplace_back(device->name());
  return NotFound("no device is called '", std::string(name), "'; the devices are ", absl::StrJoin(names, ", "));
}

}  // namespace tessera::rt
