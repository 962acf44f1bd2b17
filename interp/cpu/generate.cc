// Tensors made from a few numbers: full, iota, constant.
#include <cmath>
#include <cstring>
#include <string>

#include "interp/cpu/convert.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kBlock = 1024;

absl::Status WantOne(const View& v, const char* name) {
  if (v.size() == 1) return absl::OkStatus();
  return InvalidArgument(name, " must be one number, and is ", ToString(v));
}

/// n copies of the element at `value`.
void Repeat(char* dst, const void* value, int64_t bytes, int64_t n) {
  switch (bytes) {
    case 1: std::memset(dst, *static_cast<const unsigned char*>(value), static_cast<size_t>(n)); return;
    case 2: {
      uint16_t v;
      std::memcpy(&v, value, 2);
      for (int64_t i = 0; i < n; ++i) std::memcpy(dst + 2 * i, &v, 2);
      return;
    }
    case 4: {
      uint32_t v;
      std::memcpy(&v, value, 4);
      for (int64_t i = 0; i < n; ++i) std::memcpy(dst + 4 * i, &v, 4);
      return;
    }
    default: {
      uint64_t v;
      std::memcpy(&v, value, 8);
      for (int64_t i = 0; i < n; ++i) std::memcpy(dst + 8 * i, &v, 8);
      return;
    }
  }
}

/// n elements of start + step * index from that index on, in the output's dtype.
struct Ramp {
  bool floating;  // f64 arithmetic, one rounding; else i64, wrapping
  double start, step;
  uint64_t int_start, int_step;
  DType dtype;

  void Write(char* dst, int64_t index, int64_t n) const {
    const int64_t bytes = static_cast<int64_t>(SizeOf(dtype));
    union {
      double floats[kBlock];
      int64_t ints[kBlock];
    } block;
    for (int64_t done = 0; done < n; done += kBlock) {
      const int64_t count = n - done < kBlock ? n - done : kBlock;
      if (floating) {
        for (int64_t i = 0; i < count; ++i)
          block.floats[i] = std::fma(step, static_cast<double>(index + done + i), start);
        Convert(dst + done * bytes, dtype, block.floats, DType::f64, count);
      } else {
        for (int64_t i = 0; i < count; ++i) {
          block.ints[i] = static_cast<int64_t>(int_start + int_step * static_cast<uint64_t>(index + done + i));
        }
        Convert(dst + done * bytes, dtype, block.ints, DType::i64, count);
      }
    }
  }
};

}  // namespace

absl::Status k_constant(const interp::KernelArgs& args) {
  CopyStrided(*args.out[0], *std::get<rt::Ref<rt::TensorImpl>>(args.attrs[0]));
  return absl::OkStatus();
}

absl::Status k_full(const interp::KernelArgs& args) {
  const View& out = *args.out[0];
  TSR_RETURN_IF_ERROR(WantOne(*args.in[0], "value"));
  alignas(8) char value[8];
  Convert(value, out.dtype, args.in[0]->data, args.in[0]->dtype, 1);
  const int64_t bytes = static_cast<int64_t>(SizeOf(out.dtype));
  rt::ParallelFor(out.size(), rt::options().parallel_grain(), [&](int64_t begin, int64_t end) {
    Repeat(out.as<char>() + begin * bytes, value, bytes, end - begin);
  });
  return absl::OkStatus();
}

absl::Status k_iota(const interp::KernelArgs& args) {
  const View& out = *args.out[0];
  const View& start = *args.in[0];
  const View& step = *args.in[1];
  TSR_RETURN_IF_ERROR(WantOne(start, "start"));
  TSR_RETURN_IF_ERROR(WantOne(step, "step"));
  TSR_ASSIGN_OR_RETURN(const int axis, ir::CanonicalAxis(args.integer(1), out.rank));

  Ramp ramp;
  ramp.dtype = out.dtype;
  ramp.floating = IsFloat(out.dtype) || IsFloat(start.dtype) || IsFloat(step.dtype);
  ramp.start = ToDouble(start.data, start.dtype);
  ramp.step = ToDouble(step.data, step.dtype);
  ramp.int_start = static_cast<uint64_t>(ToInt64(start.data, start.dtype));
  ramp.int_step = static_cast<uint64_t>(ToInt64(step.data, step.dtype));

  const int64_t length = out.dims[axis];
  int64_t inner = 1;
  for (int d = axis + 1; d < out.rank; ++d) inner *= out.dims[d];
  const int64_t bytes = static_cast<int64_t>(SizeOf(out.dtype));
  rt::ParallelFor(out.size(), rt::options().parallel_grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      char* dst = out.as<char>() + i * bytes;
      const int64_t index = i / inner % length;
      int64_t run;
      if (inner == 1) {
        run = length - index < end - i ? length - index : end - i;
        ramp.Write(dst, index, run);
      } else {
        run = inner - i % inner < end - i ? inner - i % inner : end - i;
        alignas(8) char value[8];
        ramp.Write(value, index, 1);
        Repeat(dst, value, bytes, run);
      }
      i += run;
    }
  });
  return absl::OkStatus();
}

}  // namespace tessera::cpu
