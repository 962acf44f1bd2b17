// Text of numbers, strings and tensor elements. What is written reads back to the same bits, for every dtype.
#ifndef TESSERA_IR_LITERAL_H_
#define TESSERA_IR_LITERAL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/function.h"

namespace tessera::ir {

/// The shortest text that reads back to the same number, with a dot or exponent: "0.5", "1e-05", "-inf". A NaN other
/// than the usual one shows its bits: "nan(0x7ff8000000000001)".
std::string DoubleText(double value);
std::string ImmediateText(const Immediate& value);
/// With quotes and escapes.
std::string StringText(std::string_view value);
/// One element at `p`.
void AppendElement(const void* p, DType dtype, std::string& out);

/// A literal as it was read: its kind and, for floats, its text, so that it is rounded once.
struct Number {
  enum class Kind : uint8_t { boolean, integer, real, inf, nan, nan_bits } kind = Kind::integer;
  bool negative = false;
  uint64_t magnitude = 0;  // boolean, integer, nan_bits
  std::string_view text;   // integer, real: digits without a sign
};

/// Stores it at `p`. False when the dtype cannot hold it: out of range, a fraction for an integer, no such value.
bool StoreElement(const Number& number, DType dtype, void* p);

}  // namespace tessera::ir

#endif  // TESSERA_IR_LITERAL_H_
