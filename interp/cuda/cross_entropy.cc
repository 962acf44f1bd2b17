// The ops cross_entropy and cross_entropy_grad. A target that is no class is found by the kernel: the host hears of it
// when it next waits.
#include "interp/cuda/cross_entropy_args.h"
#include "interp/cuda/launch.h"

TSR_CUDA_IMAGE(cross_entropy);

namespace tessera::cuda {

namespace {

absl::Status Run(const interp::KernelArgs& args, const View* g, const Kernel (&kernels)[2]) {
  const View &logits = *args.in[0], &targets = *args.in[1], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  const int last = logits.rank - 1;
  CrossEntropyArgs a = {};
  View rows = logits;
  rows.rank = static_cast<uint8_t>(last);
  a.logits = {AddressOf(logits), Merged(rows)};
  a.logits.layout.dtype = static_cast<int32_t>(logits.dtype);
  a.targets = {AddressOf(targets), Merged(targets)};
  if (g != nullptr) a.g = {AddressOf(*g), Merged(*g)};
  a.y = AddressOf(y);
  a.rows = targets.size();
  a.classes = logits.dims[last];
  a.step = logits.strides[last];
  a.ignore = args.integer(0);
  a.error = DeviceOf(*args.device).error();
  a.op = static_cast<int32_t>(args.op.op);
  a.lanes = 4;
  while (a.lanes < 32 && a.lanes * 8 < a.classes) a.lanes *= 2;
  if (a.classes >= 4096 || (a.classes >= 1024 && a.rows < 4096)) a.lanes = kThreads;
  return Launch(args, kernels[logits.dtype == DType::f64], GridFor(a.rows * a.lanes), a);
}

}  // namespace

absl::Status k_cross_entropy(const interp::KernelArgs& args) {
  static const Kernel kernels[] = {{kImage, "cross_entropy_f32"}, {kImage, "cross_entropy_f64"}};
  return Run(args, nullptr, kernels);
}

absl::Status k_cross_entropy_grad(const interp::KernelArgs& args) {
  static const Kernel kernels[] = {{kImage, "cross_entropy_grad_f32"}, {kImage, "cross_entropy_grad_f64"}};
  return Run(args, args.in[2], kernels);
}

}  // namespace tessera::cuda
