// The ops cross_entropy and cross_entropy_grad. A target that is no class is found by the kernel: the host hears of it
// when it next waits.
#include "interp/cuda/cross_entropy_args.h"
#include "interp/cuda/launch.h"

TSR_CUDA_IMAGE(cross_entropy);
extern "C" const unsigned char* tessera_cuda_image_cross_entropy_narrow();

namespace tessera::cuda {

namespace {

constexpr Image kNarrow = tessera_cuda_image_cross_entropy_narrow;
constexpr int64_t kManyClasses = 2048;        // worth a block
constexpr int64_t kMostRowBytes = 110 << 10;  // of which a multiprocessor holds two

struct Kernels {
  Kernel f32, f64;   // any layout; f32 computes for all narrow types, too
  Kernel f16, bf16;  // dense rows of many classes
};

/// May rows of logits be read 16 bytes at a time, each by a block of its own?
bool IsNarrowAndWide(const CrossEntropyArgs& a, DType dtype, bool grad) {
  if ((dtype != DType::f16 && dtype != DType::bf16) || a.step != 1 || a.classes < kManyClasses) return false;
  if (a.classes > INT32_MAX / 2 || (grad && a.classes * 2 > kMostRowBytes)) return false;
  int64_t steps = grad ? a.classes : 0;  // rows of the result follow each other
  for (int d = 0; d < a.logits.layout.rank; ++d) steps |= a.logits.layout.strides[d];
  return steps % 8 == 0 && a.logits.data % 16 == 0 && (!grad || a.y % 16 == 0);
}

absl::Status Run(const interp::KernelArgs& args, const View* g, const Kernels& kernels) {
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
  if (IsNarrowAndWide(a, logits.dtype, g != nullptr)) {
    Grid grid = {std::min<int64_t>(a.rows, 1 << 20), g != nullptr ? kClassGradThreads : kClassThreads, 0};
    if (g != nullptr) grid.shared = static_cast<int>(a.classes * 2);
    return Launch(args, logits.dtype == DType::f16 ? kernels.f16 : kernels.bf16, grid, a);
  }
  a.lanes = 4;
  while (a.lanes < 32 && a.lanes * 8 < a.classes) a.lanes *= 2;
  if (a.classes >= 4096 || (a.classes >= 1024 && a.rows < 4096)) a.lanes = kThreads;
  return Launch(args, logits.dtype == DType::f64 ? kernels.f64 : kernels.f32, GridFor(a.rows * a.lanes), a);
}

}  // namespace

absl::Status k_cross_entropy(const interp::KernelArgs& args) {
  static const Kernels kernels = {{kImage, "cross_entropy_f32"},
                                  {kImage, "cross_entropy_f64"},
                                  {kNarrow, "cross_entropy_f16"},
                                  {kNarrow, "cross_entropy_bf16"}};
  return Run(args, nullptr, kernels);
}

absl::Status k_cross_entropy_grad(const interp::KernelArgs& args) {
  static const Kernels kernels = {{kImage, "cross_entropy_grad_f32"},
                                  {kImage, "cross_entropy_grad_f64"},
                                  {kNarrow, "cross_entropy_grad_f16"},
                                  {kNarrow, "cross_entropy_grad_bf16"}};
  return Run(args, args.in[2], kernels);
}

}  // namespace tessera::cuda
