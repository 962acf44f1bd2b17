// The op conv: as a product by tiles, or directly where a group has few output channels.
#include <climits>

#include "interp/cuda/launch.h"
#include "interp/cuda/slide.h"

TSR_CUDA_IMAGE(conv);

namespace tessera::cuda {
namespace {

const Kernel kDirect[] = {{kImage, "conv_direct_f32"}, {kImage, "conv_direct_f64"}};
const Kernel kSmall[] = {{kImage, "conv_small_f32"}, {kImage, "conv_small_f64"}};
const Kernel kLarge(kImage, "conv_large_f32");

constexpr int64_t kFewOutputs = 8;
constexpr int64_t kSmallTile = 64, kLargeTile = 128;

int64_t Blocks(const ConvArgs& a, int64_t positions, int64_t tile) {
  return a.groups * ((a.outputs + tile - 1) / tile) * ((positions + tile - 1) / tile);
}

}  // namespace

absl::Status k_conv(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &weight = *args.in[1], &y = *args.out[0];
  const View* bias = args.in.size() > 2 ? args.in[2] : nullptr;
  if (y.size() == 0) return absl::OkStatus();
  const cpu::Windows w = cpu::MakeWindows(x, y, absl::MakeSpan(weight.dims + 2, weight.rank - 2), args.ints(0), {},
                                          args.ints(1), args.ints(2));
  ConvArgs a = {};
  Scratch copy;
  TSR_ASSIGN_OR_RETURN(const View dense, MakeContiguous(args, weight, &copy));
  a.x = AddressOf(x);
  a.y = AddressOf(y);
  a.weight = OperandOf(dense);
  if (bias != nullptr) {
    a.bias = OperandOf(*bias);
    a.has_bias = 1;
  }
  a.slide = SlideOf(w);
  a.groups = args.integer(3);
  a.inputs = weight.dims[1];
  a.outputs = weight.dims[0] / a.groups;
  a.dtype = static_cast<int32_t>(y.dtype);

  const int64_t depth = a.inputs * w.taps(), positions = w.positions();
  int64_t reach = 0;  // the largest place along a dim that a kernel works out
  for (const cpu::WindowDim& d : w.dim)
    reach = std::max({reach, d.in, d.low, d.out * d.stride + d.window * d.dilation});
  if (std::max({depth, positions, a.outputs, reach}) > INT_MAX) {
    return Unsupported("a product of ", a.outputs, " x ", depth, " by ", depth, " x ", positions,
                       ": dims must be below 2^31; split the input");
  }
  const int wide = y.dtype == DType::f64;
  const int64_t all = a.slide.batch * positions;
  if (a.outputs <= kFewOutputs) return Launch(args, kDirect[wide], GridFor(y.size()), a);
  const int64_t units = DeviceOf(*args.device).properties().multiprocessors;
  const int64_t large = Blocks(a, all, kLargeTile), small = Blocks(a, all, kSmallTile);
  if (small > INT_MAX) return Launch(args, kDirect[wide], GridFor(y.size()), a);
  // Large tiles do more with what they read, but only if there are enough of them.
  if (!wide && a.outputs > kSmallTile && large >= 2 * units) return Launch(args, kLarge, {large, kThreads}, a);
  return Launch(args, kSmall[wide], {small, kThreads}, a);
}

}  // namespace tessera::cuda
