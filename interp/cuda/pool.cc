// The ops max_pool and avg_pool.
#include "interp/cuda/launch.h"
#include "interp/cuda/reduce_plan.h"
#include "interp/cuda/slide.h"

TSR_CUDA_IMAGE(pool);

namespace tessera::cuda {
namespace {

// In the order of ComputeIndex().
const Kernel kMax[] = {{kImage, "max_pool_f64"}, {kImage, "max_pool_f32"}, {kImage, "max_pool_int"}};
const Kernel kAverage[] = {{kImage, "avg_pool_f64"}, {kImage, "avg_pool_f32"}};

constexpr int64_t kLargeWindow = 64;  // taps worth a warp

absl::Status RunPool(const interp::KernelArgs& args, const Kernel* kernels, PoolArgs a) {
  const View &x = *args.in[0], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  const ir::Ints& window = args.ints(0);
  const cpu::Windows w = cpu::MakeWindows(x, y, window, args.ints(1), window, args.ints(2), args.ints(3));
  a.x = AddressOf(x);
  a.y = AddressOf(y);
  a.slide = SlideOf(w);
  a.dtype = static_cast<int32_t>(x.dtype);
  a.lanes = w.taps() >= kLargeWindow ? 32 : 1;
  return Launch(args, kernels[ComputeIndex(x.dtype)], GridFor(y.size() * a.lanes), a);
}

}  // namespace

absl::Status k_max_pool(const interp::KernelArgs& args) {
  if (args.in[0]->dtype == DType::boolean) return Unsupported("is not defined for bool; cast to u8");
  return RunPool(args, kMax, {});
}

absl::Status k_avg_pool(const interp::KernelArgs& args) {
  PoolArgs a = {};
  a.count_padding = args.flag(4);
  return RunPool(args, kAverage, a);
}

}  // namespace tessera::cuda
