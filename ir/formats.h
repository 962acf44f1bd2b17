// Storage formats: small floats that live packed in u8 tensors beside one scale per block (ops quantize, dequantize).
//
// Each has one sign bit, then exponent, then fraction; exponent 0 holds zero and subnormals, and there is neither NaN
// nor infinity. Packing is little-endian in bits: element k of a row occupies bits [k * bits, (k + 1) * bits) of its
// bytes, counted from the lowest bit of the first byte. So f4 has two elements a byte, the first in the low half, and
// f6 has four in three bytes.
//
// The scale of a block is 2^(floor(log2(amax)) - emax), where amax is the largest magnitude in the block, its exponent
// cut to [-126, 127] so that it is a normal f32. Elements are x / scale, rounded to nearest even and cut to the largest
// finite value. A block of zeros has scale 1. A block with a NaN or an infinity has scale NaN and data 0, so that all
// of it comes back as NaN. The last block of a row is padded with zeros.
#ifndef TESSERA_IR_FORMATS_H_
#define TESSERA_IR_FORMATS_H_

#include <bit>
#include <cstdint>
#include <string_view>

namespace tessera::ir {

struct StorageFormat {
  std::string_view name;
  int bits;
  int exponent_bits;
  int fraction_bits;
  int block_multiple;  // elements that fill whole bytes

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  /// Exponent of the largest value, and of the smallest normal one.
  constexpr int emax() const { return (1 << exponent_bits) - 1 - bias(); }
  constexpr int emin() const { return 1 - bias(); }
  constexpr int num_codes() const { return 1 << bits; }
  constexpr uint32_t sign_bit() const { return 1u << (bits - 1); }
};

inline constexpr StorageFormat kStorageFormats[] = {
    {"f4e2m1", 4, 2, 1, 2},
    {"f6e2m3", 6, 2, 3, 4},
    {"f6e3m2", 6, 3, 2, 4},
};
/// For messages.
inline constexpr std::string_view kStorageFormatNames = "f4e2m1, f6e2m3 or f6e3m2";

/// Null for any other name.
constexpr const StorageFormat* FindStorageFormat(std::string_view name) {
  for (const StorageFormat& f : kStorageFormats)
    if (f.name == name) return &f;
  return nullptr;
}

namespace internal {
/// 2^e for e in the range of normal numbers.
constexpr double PowerOfTwo(int e) { return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52); }
}  // namespace internal

/// The value of a code; exact.
constexpr float DecodeStorage(const StorageFormat& f, uint32_t code) {
  const uint32_t magnitude = code & (f.sign_bit() - 1);
  const int exponent = static_cast<int>(magnitude >> f.fraction_bits);
  const uint32_t fraction = magnitude & ((1u << f.fraction_bits) - 1);
  const uint32_t significand = exponent == 0 ? fraction : fraction | (1u << f.fraction_bits);
  const double quantum = internal::PowerOfTwo((exponent == 0 ? 1 : exponent) - f.bias() - f.fraction_bits);
  const float value = static_cast<float>(significand * quantum);
  return code & f.sign_bit() ? -value : value;
}

/// The code nearest to x, ties to even, beyond the largest value the largest; the sign of zero is kept. x is not NaN.
constexpr uint32_t EncodeStorage(const StorageFormat& f, double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint32_t sign = bits >> 63 ? f.sign_bit() : 0;
  const uint32_t largest = f.sign_bit() - 1;
  const double magnitude = sign ? -x : x;
  int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  if (exponent > f.emax()) return sign | largest;
  if (exponent < f.emin()) exponent = f.emin();
  // Adding 2^52 leaves no fraction bits, so that the sum is rounded to an integer, ties to even.
  constexpr double kInteger = 0x1p52;
  const double q = (magnitude * internal::PowerOfTwo(f.fraction_bits - exponent) + kInteger) - kInteger;
  // A carry out of the fraction moves into the exponent, where it belongs.
  const uint32_t code = (static_cast<uint32_t>(exponent - f.emin()) << f.fraction_bits) + static_cast<uint32_t>(q);
  return sign | (code < largest ? code : largest);
}

}  // namespace tessera::ir

#endif  // TESSERA_IR_FORMATS_H_
