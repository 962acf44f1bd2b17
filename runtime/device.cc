#include "runtime/device.h"

#include "absl/strings/str_join.h"

namespace tessera::rt {

std::vector<Device*> AllDevices() { return {&Cpu(), &Null()}; }

absl::StatusOr<Device*> FindDevice(std::string_view name) {
  std::vector<std::string> names;
  for (Device* device : AllDevices()) {
    if (device->name() == name) return device;
    names.emplace_back(device->name());
  }
  return NotFound("no device is called '", std::string(name), "'; the devices are ", absl::StrJoin(names, " and "));
}

}  // namespace tessera::rt
