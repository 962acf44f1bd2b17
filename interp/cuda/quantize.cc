// quantize and dequantize: blocks along the last dim in a storage format (ir/formats.h), with one scale each.
#include "interp/cuda/launch.h"
#include "interp/cuda/quantize_args.h"
#include "ir/formats.h"

namespace tessera::cuda {

TSR_CUDA_IMAGE(quantize);

namespace {

// By dtype, the floats of dtypes.def.
const Kernel kQuantize[] = {{kImage, "quantize_f64"},  {kImage, "quantize_f32"},    {kImage, "quantize_f16"},
                            {kImage, "quantize_bf16"}, {kImage, "quantize_f8e4m3"}, {kImage, "quantize_f8e5m2"}};
const Kernel kDequantize[] = {{kImage, "dequantize_f64"},    {kImage, "dequantize_f32"},
                              {kImage, "dequantize_f16"},    {kImage, "dequantize_bf16"},
                              {kImage, "dequantize_f8e4m3"}, {kImage, "dequantize_f8e5m2"}};

/// From here a block of the format is worth a whole block of threads.
constexpr int64_t kWideBlock = 4096;

FormatArgs FormatOf(const ir::StorageFormat& f) {
  return {f.bits, f.fraction_bits, f.bias(), f.emin(), f.emax(), f.block_multiple};
}

}  // namespace

absl::Status k_quantize(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &data = *args.out[0], &scale = *args.out[1];
  if (scale.size() == 0) return absl::OkStatus();
  QuantizeArgs a;
  a.x = AddressOf(x);
  a.data = AddressOf(data);
  a.scale = AddressOf(scale);
  a.layout = Merged(x);
  a.format = FormatOf(*ir::FindStorageFormat(args.str(0)));
  a.count = scale.size();
  a.blocks = scale.dims[x.rank - 1];
  a.block = args.integer(1);
  a.length = x.dims[x.rank - 1];
  const uint64_t groups = static_cast<uint64_t>(a.block / a.format.group);
  a.width = a.block >= kWideBlock ? kThreads : static_cast<int32_t>(std::min<uint64_t>(std::bit_ceil(groups), 32));
  return Launch(args, kQuantize[static_cast<int>(x.dtype)], GridFor(a.count * a.width), a);
}

absl::Status k_dequantize(const interp::KernelArgs& args) {
  const View &data = *args.in[0], &scale = *args.in[1], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  DequantizeArgs a;
  a.data = AddressOf(data);
  a.scale = AddressOf(scale);
  a.out = AddressOf(y);
  a.data_layout = Merged(data);
  a.scale_layout = Merged(scale);
  a.format = FormatOf(*ir::FindStorageFormat(args.str(0)));
  a.block = args.integer(1);
  a.count = y.size() / a.format.group;
  return Launch(args, kDequantize[static_cast<int>(y.dtype)], GridFor(a.count), a);
}

}  // namespace tessera::cuda
