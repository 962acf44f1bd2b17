// What kernels found wrong with values, in words.
#include "absl/strings/str_cat.h"
#include "ir/op.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_error.h"

namespace tessera::cuda {

std::string DescribeError(const DeviceError& error) {
  const std::string op(ir::Info(static_cast<ir::Op>(error.op)).name);
  return absl::StrCat(op, ": index ", error.value, " is outside its dim, which is ", error.bound,
                      error.bound == 0 ? std::string("; there is no valid index")
                                       : absl::StrCat("; use ", -error.bound, " to ", error.bound - 1),
                      " (found on the device, so this is reported where the host next waits for it)");
}

}  // namespace tessera::cuda
