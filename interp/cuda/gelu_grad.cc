// The op gelu_tanh_grad: one pass over x and the gradient.
#include "interp/cuda/gelu_grad_args.h"
#include "interp/cuda/launch.h"

TSR_CUDA_IMAGE(gelu_grad);

namespace tessera::cuda {

absl::Status k_gelu_tanh_grad(const interp::KernelArgs& args) {
  static const Kernel kernels[] = {{kImage, "gelu_tanh_grad_f32"}, {kImage, "gelu_tanh_grad_f64"}};
  const View& y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  Scratch x_copy, g_copy;
  TSR_ASSIGN_OR_RETURN(const View x, MakeContiguous(args, *args.in[0], &x_copy));
  TSR_ASSIGN_OR_RETURN(const View g, MakeContiguous(args, *args.in[1], &g_copy));
  const GeluGradArgs a = {AddressOf(x), AddressOf(g), AddressOf(y), y.size(), static_cast<int32_t>(y.dtype)};
  const int64_t each = y.dtype == DType::f64 ? 2 : 16 / static_cast<int64_t>(std::max<size_t>(2, SizeOf(y.dtype)));
  return Launch(args, kernels[y.dtype == DType::f64], GridFor(a.size, each), a);
}

}  // namespace tessera::cuda
