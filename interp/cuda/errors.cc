// What kernels found wrong with values, in words.
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "ir/op.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_error.h"

namespace tessera::cuda {

namespace {

std::string Describe(const DeviceError& e) {
  // interp/cuda/paged_attention_args.h has what its bounds mean.
  if (static_cast<ir::Op>(e.op) == ir::Op::k_paged_attention) {
    if (e.bound < 0)
      return absl::StrCat("length ", e.value, " is outside what the pages of a sequence hold; use 0 to ", ~e.bound);
    return absl::StrCat(
        "page ", e.value, " is outside the pool, which has ", e.bound, " pages",
        e.bound == 0 ? std::string("; there is no valid page") : absl::StrCat("; use 0 to ", e.bound - 1));
  }
  switch (static_cast<ir::Op>(e.op)) {
    case ir::Op::k_cross_entropy:
    case ir::Op::k_cross_entropy_grad:
    case ir::Op::k_linear_cross_entropy:
    case ir::Op::k_linear_cross_entropy_grad:
      return absl::StrCat("target ", e.value, " is no class; there are ", e.bound,
                          ", and a target is one of them, counted from 0, or `ignore`");
    default: break;
  }
  return absl::StrCat(
      "index ", e.value, " is outside its dim, which is ", e.bound,
      e.bound == 0 ? std::string("; there is no valid index") : absl::StrCat("; use ", -e.bound, " to ", e.bound - 1));
}

}  // namespace

std::string DescribeError(const DeviceError& error) {
  return absl::StrCat(std::string(ir::Info(static_cast<ir::Op>(error.op)).name), ": ", Describe(error),
                      " (found on the device, so this is reported where the host next waits for it)");
}

}  // namespace tessera::cuda
