// Tensors made from a few numbers: full, iota, constant; and host numbers brought to the device.
#include <cstring>

#include "interp/cpu/convert.h"
#include "interp/cpu/strided.h"
#include "interp/cuda/generate_args.h"
#include "interp/cuda/number.h"

namespace tessera::cuda {

TSR_CUDA_IMAGE(generate);

namespace {

const Kernel kFill(kImage, "fill");
const Kernel kConvertOne(kImage, "convert_one");
// By dtype; there is no iota of bool.
const Kernel kIota[] = {{kImage, "iota_f64"},    {kImage, "iota_f32"},    {kImage, "iota_f16"}, {kImage, "iota_bf16"},
                        {kImage, "iota_f8e4m3"}, {kImage, "iota_f8e5m2"}, {kImage, "iota_i64"}, {kImage, "iota_i32"},
                        {kImage, "iota_i8"},     {kImage, "iota_u8"}};

absl::Status WantOne(const View& v, const char* name) {
  if (v.size() == 1) return absl::OkStatus();
  return InvalidArgument(name, " must be one number, and is ", ToString(v));
}

uint64_t BitsOf(const View& number, DType dtype) {
  uint64_t bits = 0;
  cpu::Convert(&bits, dtype, number.data, number.dtype, 1);
  return bits;
}

}  // namespace

Number NumberOf(const View& v) {
  Number n{};
  n.dtype = static_cast<int32_t>(v.dtype);
  if (v.weak) {
    n.f = cpu::ToDouble(v.data, v.dtype);
    n.i = cpu::ToInt64(v.data, v.dtype);
  } else {
    n.data = AddressOf(v);
  }
  return n;
}

absl::StatusOr<View> OnDevice(const interp::KernelArgs& op, const View& v, DType dtype, Scratch* copy) {
  if (!v.weak) return v;
  TSR_ASSIGN_OR_RETURN(*copy, Scratch::Make(*op.device, 8));
  FillArgs a{};
  a.out = copy->address();
  a.bits = BitsOf(v, dtype);
  a.bytes = a.size = 8;
  TSR_RETURN_IF_ERROR(Launch(op, kFill, GridFor(1, 1, 32), a));
  View r = v;
  r.weak = false;
  r.dtype = dtype;
  r.data = copy->data();
  return r;
}

absl::Status k_constant(const interp::KernelArgs& args) {
  const View& out = *args.out[0];
  const rt::TensorImpl& value = *std::get<rt::Ref<rt::TensorImpl>>(args.attrs[0]);
  const size_t bytes = static_cast<size_t>(out.size()) * SizeOf(out.dtype);
  if (bytes == 0) return absl::OkStatus();
  if (value.device().kind() == rt::DeviceKind::cpu) {
    cpu::Scratch copy;
    TSR_ASSIGN_OR_RETURN(const View host, cpu::MakeContiguous(value, &copy));
    return args.device->CopyFromHost(out.data, host.data, bytes);
  }
  if (&value.device() != args.device)
    return InvalidArgument("the constant is on ", std::string(value.device().name()), ", not on the host");
  const View* in = &value;
  return k_copy({ir::Info(ir::Op::k_copy), {&in, 1}, args.out, {}, args.device});
}

absl::Status k_full(const interp::KernelArgs& args) {
  const View &value = *args.in[0], &out = *args.out[0];
  TSR_RETURN_IF_ERROR(WantOne(value, "value"));
  if (out.size() == 0) return absl::OkStatus();
  FillArgs a{};
  a.out = AddressOf(out);
  a.size = static_cast<int32_t>(SizeOf(out.dtype));
  a.bytes = out.size() * a.size;
  Scratch converted;
  if (value.weak) {
    a.bits = BitsOf(value, out.dtype);
  } else if (value.dtype == out.dtype) {
    a.value = AddressOf(value);
  } else {
    TSR_ASSIGN_OR_RETURN(converted, Scratch::Make(*args.device, 8));
    a.value = converted.address();
    const ConvertOneArgs c = {a.value, AddressOf(value), static_cast<int32_t>(out.dtype),
                              static_cast<int32_t>(value.dtype)};
    TSR_RETURN_IF_ERROR(Launch(args, kConvertOne, {1, 1}, c));
  }
  return Launch(args, kFill, GridFor((a.bytes + 15) / 16, 4), a);
}

absl::Status k_iota(const interp::KernelArgs& args) {
  const View &start = *args.in[0], &step = *args.in[1], &out = *args.out[0];
  TSR_RETURN_IF_ERROR(WantOne(start, "start"));
  TSR_RETURN_IF_ERROR(WantOne(step, "step"));
  TSR_ASSIGN_OR_RETURN(const int axis, ir::CanonicalAxis(args.integer(1), out.rank));
  if (out.dtype == DType::boolean) return InvalidArgument("makes numbers, and dtype is bool");
  IotaArgs a{};
  a.count = out.size();
  if (a.count == 0) return absl::OkStatus();
  a.out = AddressOf(out);
  a.length = out.dims[axis];
  a.inner = 1;
  for (int d = axis + 1; d < out.rank; ++d) a.inner *= out.dims[d];
  a.start = NumberOf(start);
  a.step = NumberOf(step);
  a.floating = IsFloat(out.dtype) || IsFloat(start.dtype) || IsFloat(step.dtype);
  return Launch(args, kIota[static_cast<int>(out.dtype)], GridFor(a.count, 4), a);
}

}  // namespace tessera::cuda
