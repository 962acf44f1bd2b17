// quantize and dequantize: blocks along the last dim in a storage format (ir/formats.h), with one scale each.
//
// dequantize gives the padded length, a multiple of the block: the caller slices off what quantize added.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "interp/cpu/convert.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "ir/formats.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

/// The power of two that brings the largest magnitude to the format's highest exponent; 1 for zeros, NaN where there
/// is no such number.
float ScaleOf(const ir::StorageFormat& format, const double* x, int64_t n) {
  double amax = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double a = std::fabs(x[i]);
    if (!(a <= std::numeric_limits<double>::max())) return std::numeric_limits<float>::quiet_NaN();
    amax = std::max(amax, a);
  }
  if (amax == 0) return 1;
  return static_cast<float>(std::ldexp(1.0, std::clamp(std::ilogb(amax) - format.emax(), -126, 127)));
}

/// Appends codes to bytes, lowest bits first.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* out) : out_(out) {}
  void Write(uint32_t code, int bits) {
    held_ |= code << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, held_ >>= 8) *out_++ = static_cast<uint8_t>(held_);
  }

 private:
  uint8_t* out_;
  uint32_t held_ = 0;
  int count_ = 0;
};

class BitReader {
 public:
  explicit BitReader(const uint8_t* in) : in_(in) {}
  uint32_t Read(int bits) {
    for (; count_ < bits; count_ += 8) held_ |= static_cast<uint32_t>(*in_++) << count_;
    const uint32_t code = held_ & ((1u << bits) - 1);
    held_ >>= bits;
    count_ -= bits;
    return code;
  }

 private:
  const uint8_t* in_;
  uint32_t held_ = 0;
  int count_ = 0;
};

}  // namespace

absl::Status k_quantize(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &data = *args.out[0], &scale = *args.out[1];
  const ir::StorageFormat& format = *ir::FindStorageFormat(args.str(0));
  const int64_t block = args.integer(1), block_bytes = block * format.bits / 8;
  if (scale.size() == 0) return absl::OkStatus();
  const int64_t n = x.dims[x.rank - 1], blocks = scale.dims[x.rank - 1];
  const int64_t grain = std::max<int64_t>(1, rt::options().parallel_grain() / block);
  const int64_t chunk = rt::ChunkSize(scale.size(), grain);
  const int64_t chunks = (scale.size() + chunk - 1) / chunk;
  // Per piece of the loop: a block as it comes, and in f64, where dividing by any scale is exact.
  TSR_ASSIGN_OR_RETURN(const Scratch scratch, Scratch::Make(chunks * block * 2 * sizeof(double)));
  rt::ParallelFor(scale.size(), grain, [&](int64_t begin, int64_t end) {
    double* values = scratch.as<double>() + begin / chunk * block * 2;
    double* raw = values + block;
    for (int64_t b = begin; b < end; ++b) {
      const int64_t row = b / blocks, at = (b - row * blocks) * block, m = std::min(block, n - at);
      GatherBlock(x, row * n + at, m, raw);
      Convert(values, DType::f64, raw, x.dtype, m);
      std::fill(values + m, values + block, 0.0);
      const float s = ScaleOf(format, values, block);
      scale.as<float>()[b] = s;
      uint8_t* out = data.as<uint8_t>() + b * block_bytes;
      if (s != s) {
        std::memset(out, 0, block_bytes);
        continue;
      }
      const double inverse = 1.0 / static_cast<double>(s);
      BitWriter writer(out);
      for (int64_t i = 0; i < block; ++i) writer.Write(ir::EncodeStorage(format, values[i] * inverse), format.bits);
    }
  });
  return absl::OkStatus();
}

absl::Status k_dequantize(const interp::KernelArgs& args) {
  const View &data = *args.in[0], &scale = *args.in[1], &y = *args.out[0];
  const ir::StorageFormat& format = *ir::FindStorageFormat(args.str(0));
  const int64_t block = args.integer(1), block_bytes = block * format.bits / 8, total = y.size() / block;
  if (total == 0) return absl::OkStatus();
  double decoded[64];
  for (int c = 0; c < format.num_codes(); ++c) decoded[c] = ir::DecodeStorage(format, c);
  const int64_t grain = std::max<int64_t>(1, rt::options().parallel_grain() / block);
  const int64_t size = SizeOf(y.dtype);
  rt::ParallelFor(total, grain, [&](int64_t begin, int64_t end) {
    // Units of a group are whole bytes in every format.
    constexpr int64_t kGroup = 128;
    uint8_t bytes[kGroup];
    double values[kGroup];
    for (int64_t b = begin; b < end; ++b) {
      float s;
      GatherBlock(scale, b, 1, &s);
      for (int64_t i = 0; i < block; i += kGroup) {
        const int64_t m = std::min(kGroup, block - i);
        GatherBlock(data, b * block_bytes + i * format.bits / 8, m * format.bits / 8, bytes);
        BitReader reader(bytes);
        for (int64_t k = 0; k < m; ++k) values[k] = decoded[reader.Read(format.bits)] * static_cast<double>(s);
        Convert(y.as<char>() + (b * block + i) * size, y.dtype, values, DType::f64, m);
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace tessera::cpu
