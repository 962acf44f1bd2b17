// random_uniform, random_normal, random_int. What they compute is written in random_loops.h.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "interp/cpu/convert.h"
#include "interp/cpu/random_loops.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

const RandomLoops& Loops() {
  static const RandomLoops& loops = TSR_SELECT_ISA(kRandomLoops);
  return loops;
}

struct Source {
  uint64_t seed, offset;
};

absl::StatusOr<Source> ReadSource(const interp::KernelArgs& args) {
  uint64_t values[2];
  for (int i = 0; i < 2; ++i) {
    const View& v = *args.in[i];
    if (v.size() != 1) {
      return InvalidArgument(i == 0 ? "seed" : "offset", " must be one integer, and is ", ToString(v));
    }
    values[i] = static_cast<uint64_t>(ToInt64(v.data, v.dtype));
  }
  return Source{values[0], values[1]};
}

/// Fills `out` by blocks: make(words, n, T* values) makes n values; a group of four words makes `per_group` of them.
template <class T, class Make>
void Fill(const View& out, Source source, DType made, int per_group, Make make) {
  constexpr int64_t kGroups = 256;
  const int64_t n = out.size();
  const int64_t groups = n / per_group + (n % per_group != 0);
  const int64_t grain = rt::options().parallel_grain() / per_group;
  const int64_t bytes = static_cast<int64_t>(SizeOf(out.dtype));
  rt::ParallelFor(groups, grain < 1 ? 1 : grain, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t words[4 * kGroups];
    alignas(64) T values[4 * kGroups];
    for (int64_t g = begin; g < end; g += kGroups) {
      const int64_t count = end - g < kGroups ? end - g : kGroups;
      Loops().words(source.seed, source.offset + static_cast<uint64_t>(g), 0, count, words);
      make(words, count * per_group, values);
      const int64_t first = g * per_group;
      const int64_t wanted = n - first < count * per_group ? n - first : count * per_group;
      Convert(out.as<char>() + first * bytes, out.dtype, values, made, wanted);
    }
  });
}

/// The number of a float dtype next to x upwards or downwards.
double Next(double x, DType dtype, bool up) {
  if (dtype == DType::f64) return std::nextafter(x, up ? HUGE_VAL : -HUGE_VAL);
  if (dtype == DType::f32) return std::nextafterf(static_cast<float>(x), up ? HUGE_VALF : -HUGE_VALF);
  // Bits without the sign count magnitudes.
  const size_t bytes = SizeOf(dtype);
  const unsigned sign = bytes == 2 ? 0x8000u : 0x80u;
  uint16_t bits = 0;
  static_assert(std::endian::native == std::endian::little);
  FromDouble(x, &bits, dtype);
  if ((bits & ~sign) == 0) {
    bits = static_cast<uint16_t>(up ? 1 : sign | 1);
  } else {
    bits = static_cast<uint16_t>(((bits & sign) != 0) == up ? bits - 1 : bits + 1);
  }
  return ToDouble(&bits, dtype);
}

double Rounded(double x, DType dtype) {
  uint64_t element = 0;
  FromDouble(x, &element, dtype);
  return ToDouble(&element, dtype);
}

template <class T>
absl::StatusOr<UniformRange<T>> MakeRange(double low, double high, DType dtype) {
  double first = Rounded(low, dtype);
  if (first < low) first = Next(first, dtype, true);
  double last = Rounded(high, dtype);
  if (last >= high) last = Next(last, dtype, false);
  if (!(first <= last) || !(first >= low) || !(last < high)) {
    return InvalidArgument("no number of dtype ", std::string(Name(dtype)), " lies in [", low, ", ", high, ")");
  }
  UniformRange<T> range;
  range.low = static_cast<T>(low);
  range.width = static_cast<T>(high) - range.low;
  range.first = static_cast<T>(first);
  range.last = static_cast<T>(last);
  if (!std::isfinite(range.width)) {
    return InvalidArgument("high - low must be a finite ", sizeof(T) == 4 ? "f32" : "f64", ", and low is ", low,
                           ", high is ", high);
  }
  return range;
}

absl::Status WantFloat(DType dtype) {
  if (IsFloat(dtype)) return absl::OkStatus();
  return InvalidArgument("makes floating numbers, and dtype is ", std::string(Name(dtype)),
                         "; random_int makes integers");
}

}  // namespace

absl::Status k_random_uniform(const interp::KernelArgs& args) {
  const View& out = *args.out[0];
  TSR_RETURN_IF_ERROR(WantFloat(out.dtype));
  TSR_ASSIGN_OR_RETURN(const Source source, ReadSource(args));
  const double low = args.number(1), high = args.number(2);
  if (!(low < high)) return InvalidArgument("low must be below high, and low is ", low, ", high is ", high);
  if (out.dtype == DType::f64) {
    TSR_ASSIGN_OR_RETURN(const UniformRange<double> range, MakeRange<double>(low, high, out.dtype));
    Fill<double>(out, source, DType::f64, 2, [&](const uint32_t* words, int64_t n, double* values) {
      Loops().uniform_f64(words, n, range, values);
    });
  } else {
    TSR_ASSIGN_OR_RETURN(const UniformRange<float> range, MakeRange<float>(low, high, out.dtype));
    Fill<float>(out, source, DType::f32, 4,
                [&](const uint32_t* words, int64_t n, float* values) { Loops().uniform_f32(words, n, range, values); });
  }
  return absl::OkStatus();
}

absl::Status k_random_normal(const interp::KernelArgs& args) {
  const View& out = *args.out[0];
  TSR_RETURN_IF_ERROR(WantFloat(out.dtype));
  TSR_ASSIGN_OR_RETURN(const Source source, ReadSource(args));
  const double mean = args.number(1), std = args.number(2);
  if (!(std >= 0)) return InvalidArgument("std must not be negative, and is ", std);
  if (out.dtype == DType::f64) {
    Fill<double>(out, source, DType::f64, 2, [&](const uint32_t* words, int64_t n, double* values) {
      Loops().normal_f64(words, n, mean, std, values);
    });
  } else {
    Fill<float>(out, source, DType::f32, 4, [&](const uint32_t* words, int64_t n, float* values) {
      Loops().normal_f32(words, n, static_cast<float>(mean), static_cast<float>(std), values);
    });
  }
  return absl::OkStatus();
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
  TSR_ASSIGN_OR_RETURN(const Source source, ReadSource(args));
  const uint64_t width = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  Fill<int64_t>(out, source, DType::i64, 2, [&](const uint32_t* words, int64_t n, int64_t* values) {
    Loops().integer(words, n, low, width, values);
  });
  return absl::OkStatus();
}

}  // namespace tessera::cpu
