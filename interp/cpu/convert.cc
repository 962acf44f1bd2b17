#include "interp/cpu/convert.h"

#include "interp/cpu/convert_loops.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

ConvertLoop Find(DType dst, DType src) {
  static const ConvertLoops& loops = TSR_SELECT_ISA(kConvertLoops);
  return loops.convert[static_cast<int>(src)][static_cast<int>(dst)];
}

}  // namespace

void Convert(void* dst, DType dst_dtype, const void* src, DType src_dtype, int64_t n) {
  Find(dst_dtype, src_dtype)(dst, src, n);
}

double ToDouble(const void* element, DType dtype) {
  double value;
  Convert(&value, DType::f64, element, dtype, 1);
  return value;
}

int64_t ToInt64(const void* element, DType dtype) {
  int64_t value;
  Convert(&value, DType::i64, element, dtype, 1);
  return value;
}

void FromDouble(double value, void* element, DType dtype) { Convert(element, dtype, &value, DType::f64, 1); }

void FromInt64(int64_t value, void* element, DType dtype) { Convert(element, dtype, &value, DType::i64, 1); }

absl::Status k_cast(const interp::KernelArgs& args) {
  const View& x = *args.in[0];
  const View& y = *args.out[0];
  const int64_t n = y.size();
  const int64_t grain = rt::options().parallel_grain();
  const ConvertLoop loop = Find(y.dtype, x.dtype);
  char* out = y.as<char>();
  const int64_t out_bytes = static_cast<int64_t>(SizeOf(y.dtype));
  const int64_t in_bytes = static_cast<int64_t>(SizeOf(x.dtype));
  if (x.IsContiguous()) {
    const char* in = x.as<const char>();
    if (n <= grain) {
      loop(out, in, n);
    } else {
      rt::ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
        loop(out + begin * out_bytes, in + begin * in_bytes, end - begin);
      });
    }
    return absl::OkStatus();
  }
  if (x.dtype == y.dtype) {
    CopyStrided(y, x);
    return absl::OkStatus();
  }
  rt::ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 1024;
    alignas(64) char block[kBlock * sizeof(double)];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t count = end - i < kBlock ? end - i : kBlock;
      GatherBlock(x, i, count, block);
      loop(out + i * out_bytes, block, count);
    }
  });
  return absl::OkStatus();
}

}  // namespace tessera::cpu
