// random_uniform, random_normal, random_int. What they compute is written in interp/cpu/random_loops.h.
#include <bit>
#include <cmath>
#include <string>

#include "interp/cpu/convert.h"
#include "interp/cuda/number.h"
#include "interp/cuda/random_args.h"

namespace tessera::cuda {

TSR_CUDA_IMAGE(random);

namespace {

// By dtype, floats first and then integers, as dtypes.def has them.
const Kernel kUniform[] = {{kImage, "random_uniform_f64"},    {kImage, "random_uniform_f32"},
                           {kImage, "random_uniform_f16"},    {kImage, "random_uniform_bf16"},
                           {kImage, "random_uniform_f8e4m3"}, {kImage, "random_uniform_f8e5m2"}};
const Kernel kNormal[] = {{kImage, "random_normal_f64"},    {kImage, "random_normal_f32"},
                          {kImage, "random_normal_f16"},    {kImage, "random_normal_bf16"},
                          {kImage, "random_normal_f8e4m3"}, {kImage, "random_normal_f8e5m2"}};
const Kernel kInt[] = {{kImage, "random_int_i64"},
                       {kImage, "random_int_i32"},
                       {kImage, "random_int_i8"},
                       {kImage, "random_int_u8"},
                       {kImage, "random_int_boolean"}};

template <class Args>
absl::Status SetSource(const interp::KernelArgs& args, Args* a) {
  for (int i = 0; i < 2; ++i) {
    const View& v = *args.in[i];
    if (v.size() != 1) {
      return InvalidArgument(i == 0 ? "seed" : "offset", " must be one integer, and is ", ToString(v));
    }
  }
  a->seed = NumberOf(*args.in[0]);
  a->offset = NumberOf(*args.in[1]);
  a->out = AddressOf(*args.out[0]);
  a->count = args.out[0]->size();
  return absl::OkStatus();
}

/// The number of a float dtype next to x upwards or downwards.
double Next(double x, DType dtype, bool up) {
  if (dtype == DType::f64) return std::nextafter(x, up ? HUGE_VAL : -HUGE_VAL);
  if (dtype == DType::f32) return std::nextafterf(static_cast<float>(x), up ? HUGE_VALF : -HUGE_VALF);
  // Bits without the sign count magnitudes.
  const unsigned sign = SizeOf(dtype) == 2 ? 0x8000u : 0x80u;
  uint16_t bits = 0;
  static_assert(std::endian::native == std::endian::little);
  cpu::FromDouble(x, &bits, dtype);
  if ((bits & ~sign) == 0) {
    bits = static_cast<uint16_t>(up ? 1 : sign | 1);
  } else {
    bits = static_cast<uint16_t>(((bits & sign) != 0) == up ? bits - 1 : bits + 1);
  }
  return cpu::ToDouble(&bits, dtype);
}

double Rounded(double x, DType dtype) {
  uint64_t element = 0;
  cpu::FromDouble(x, &element, dtype);
  return cpu::ToDouble(&element, dtype);
}

template <class T>
absl::Status SetRange(double low, double high, DType dtype, UniformArgs<T>* a) {
  double first = Rounded(low, dtype);
  if (first < low) first = Next(first, dtype, true);
  double last = Rounded(high, dtype);
  if (last >= high) last = Next(last, dtype, false);
  if (!(first <= last) || !(first >= low) || !(last < high)) {
    return InvalidArgument("no number of dtype ", std::string(Name(dtype)), " lies in [", low, ", ", high, ")");
  }
  a->low = static_cast<T>(low);
  a->width = static_cast<T>(high) - a->low;
  a->first = static_cast<T>(first);
  a->last = static_cast<T>(last);
  if (!std::isfinite(a->width)) {
    return InvalidArgument("high - low must be a finite ", sizeof(T) == 4 ? "f32" : "f64", ", and low is ", low,
                           ", high is ", high);
  }
  return absl::OkStatus();
}

absl::Status WantFloat(DType dtype) {
  if (IsFloat(dtype)) return absl::OkStatus();
  return InvalidArgument("makes floating numbers, and dtype is ", std::string(Name(dtype)),
                         "; random_int makes integers");
}

/// The kernel of a float dtype, over groups of words.
template <class Args>
absl::Status LaunchFloat(const interp::KernelArgs& args, const Kernel* kernels, const Args& a) {
  if (a.count == 0) return absl::OkStatus();
  const DType dtype = args.out[0]->dtype;
  return Launch(args, kernels[static_cast<int>(dtype)], GridFor(a.count, dtype == DType::f64 ? 2 : 4), a);
}

template <class T>
absl::Status Uniform(const interp::KernelArgs& args, double low, double high) {
  UniformArgs<T> a{};
  TSR_RETURN_IF_ERROR(SetSource(args, &a));
  if (!(low < high)) return InvalidArgument("low must be below high, and low is ", low, ", high is ", high);
  TSR_RETURN_IF_ERROR(SetRange(low, high, args.out[0]->dtype, &a));
  return LaunchFloat(args, kUniform, a);
}

template <class T>
absl::Status Normal(const interp::KernelArgs& args, double mean, double std) {
  NormalArgs<T> a{};
  TSR_RETURN_IF_ERROR(SetSource(args, &a));
  if (!(std >= 0)) return InvalidArgument("std must not be negative, and is ", std);
  a.mean = static_cast<T>(mean);
  a.std = static_cast<T>(std);
  return LaunchFloat(args, kNormal, a);
}

}  // namespace

absl::Status k_random_uniform(const interp::KernelArgs& args) {
  const DType dtype = args.out[0]->dtype;
  TSR_RETURN_IF_ERROR(WantFloat(dtype));
  return dtype == DType::f64 ? Uniform<double>(args, args.number(1), args.number(2))
                             : Uniform<float>(args, args.number(1), args.number(2));
}

absl::Status k_random_normal(const interp::KernelArgs& args) {
  const DType dtype = args.out[0]->dtype;
  TSR_RETURN_IF_ERROR(WantFloat(dtype));
  return dtype == DType::f64 ? Normal<double>(args, args.number(1), args.number(2))
                             : Normal<float>(args, args.number(1), args.number(2));
}

absl::Status k_random_int(const interp::KernelArgs& args) {
  const View& out = *args.out[0];
  const int64_t low = args.integer(1), high = args.integer(2);
  int64_t least = 0, most = 0;
  switch (out.dtype) {
    case DType::i64: least = INT64_MIN, most = INT64_MAX; break;
    case DType::i32: least = INT32_MIN, most = INT32_MAX; break;
    case DType::i8: least = INT8_MIN, most = INT8_MAX; break;
    case DType::u8: most = UINT8_MAX; break;
    case DType::boolean: most = 1; break;
    default:
      return InvalidArgument("makes integers, and dtype is ", std::string(Name(out.dtype)),
                             "; use an integer dtype and cast, or random_uniform");
  }
  if (low >= high) return InvalidArgument("low must be below high, and low is ", low, ", high is ", high);
  if (low < least || high - 1 > most) {
    return InvalidArgument("[", low, ", ", high, ") is not within ", std::string(Name(out.dtype)), ", which holds ",
                           least, " to ", most);
  }
  RandomIntArgs a{};
  TSR_RETURN_IF_ERROR(SetSource(args, &a));
  if (a.count == 0) return absl::OkStatus();
  a.low = low;
  a.width = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return Launch(args, kInt[static_cast<int>(out.dtype) - static_cast<int>(DType::i64)], GridFor(a.count, 2), a);
}

}  // namespace tessera::cuda
