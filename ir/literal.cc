#include "ir/literal.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tessera::ir {
namespace {

// Floats narrower than 32 bits. ir/ stands below interp/, which has the fast conversions; text needs one element.
struct Narrow {
  int exponent_bits;
  int fraction_bits;
  bool has_inf;  // f8e4m3 has none: its top exponent holds numbers, and NaN in the last one
  uint16_t nan;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int bits() const { return 1 + exponent_bits + fraction_bits; }
  uint32_t inf() const { return ((1u << exponent_bits) - 1) << fraction_bits; }
  uint32_t largest() const { return has_inf ? inf() - 1 : inf() + (1u << fraction_bits) - 2; }
};

Narrow FormatOf(DType t) {
  switch (t) {
    case DType::f16: return {5, 10, true, 0x7e00};
    case DType::bf16: return {8, 7, true, 0x7fc0};
    case DType::f8e4m3: return {4, 3, false, 0x7f};
    default: return {5, 2, true, 0x7e};
  }
}

bool IsNarrowNan(const Narrow& f, uint32_t magnitude) { return magnitude > (f.has_inf ? f.inf() : f.largest()); }

double Decode(const Narrow& f, uint32_t magnitude) {
  const int exponent = static_cast<int>(magnitude >> f.fraction_bits);
  const uint32_t fraction = magnitude & ((1u << f.fraction_bits) - 1);
  if (exponent == 0) return std::ldexp(fraction, 1 - f.bias() - f.fraction_bits);
  return std::ldexp((1u << f.fraction_bits) | fraction, exponent - f.bias() - f.fraction_bits);
}

// Nearest, ties to even; nothing when that is beyond the largest.
bool Encode(const Narrow& f, double value, uint32_t* magnitude) {
  if (value == 0) {
    *magnitude = 0;
    return true;
  }
  const int exponent = std::max(std::ilogb(value), 1 - f.bias());
  // At most 2^(fraction_bits + 1), reached when it rounds up to the next power of two: the carry then walks into the
  // exponent field, as it should.
  const double units = std::nearbyint(std::ldexp(value, f.fraction_bits - exponent));
  const uint64_t bits =
      (static_cast<uint64_t>(exponent + f.bias() - 1) << f.fraction_bits) + static_cast<uint64_t>(units);
  if (exponent + f.bias() - 1 > (1 << f.exponent_bits) || bits > f.largest()) return false;
  *magnitude = static_cast<uint32_t>(bits);
  return true;
}

template <class T>
void AppendFloat(T value, uint64_t bits, uint64_t usual_nan, std::string& out) {
  if (std::isnan(value)) {
    if (bits == usual_nan) {
      out += "nan";
    } else {
      absl::StrAppend(&out, "nan(0x", absl::Hex(bits), ")");
    }
    return;
  }
  if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
    return;
  }
  char text[64];
  char* end = std::to_chars(text, text + sizeof text, value).ptr;
  std::string_view s(text, static_cast<size_t>(end - text));
  out += s;
  if (s.find_first_of(".e") == std::string_view::npos) out += ".0";
}

constexpr uint64_t kNan64 = 0x7ff8000000000000;
constexpr uint64_t kNan32 = 0x7fc00000;

template <class T>
T Load(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
bool StoreInt(const Number& n, void* p) {
  if (n.kind != Number::Kind::integer && n.kind != Number::Kind::boolean) return false;
  const uint64_t top = static_cast<uint64_t>(std::numeric_limits<T>::max());
  const uint64_t bottom = std::is_signed_v<T> ? top + 1 : 0;
  if (n.magnitude > (n.negative ? bottom : top)) return false;
  const T v = static_cast<T>(n.negative ? 0 - n.magnitude : n.magnitude);
  std::memcpy(p, &v, sizeof v);
  return true;
}

template <class T, class Bits>
bool StoreWide(const Number& n, uint64_t usual_nan, void* p) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
  T v = 0;
  switch (n.kind) {
    case Number::Kind::boolean: v = static_cast<T>(n.magnitude); break;
    case Number::Kind::integer:
    case Number::Kind::real: {
      const absl::string_view text(n.text.data(), n.text.size());
      if constexpr (sizeof(T) == 8) {
        if (!absl::SimpleAtod(text, &v)) return false;
      } else {
        if (!absl::SimpleAtof(text, &v)) return false;
      }
      if (std::isinf(v)) return false;
      break;
    }
    case Number::Kind::inf: v = std::numeric_limits<T>::infinity(); break;
    case Number::Kind::nan:
    case Number::Kind::nan_bits: {
      const uint64_t bits = n.kind == Number::Kind::nan ? usual_nan : n.magnitude;
      if (sizeof(T) == 4 && bits >> 32 != 0) return false;
      const Bits b = static_cast<Bits>(bits);
      std::memcpy(&v, &b, sizeof v);
      if (!std::isnan(v)) return false;
      break;
    }
  }
  Bits bits = Load<Bits>(&v);
  if (n.negative) bits ^= kSign;
  std::memcpy(p, &bits, sizeof bits);
  return true;
}

bool StoreNarrow(const Number& n, DType dtype, void* p) {
  const Narrow f = FormatOf(dtype);
  const uint32_t sign = 1u << (f.bits() - 1);
  uint32_t bits = 0;
  switch (n.kind) {
    case Number::Kind::inf:
      if (!f.has_inf) return false;
      bits = f.inf();
      break;
    case Number::Kind::nan: bits = f.nan; break;
    case Number::Kind::nan_bits:
      if (n.magnitude >> f.bits() != 0) return false;
      bits = static_cast<uint32_t>(n.magnitude);
      if (!IsNarrowNan(f, bits & (sign - 1))) return false;
      break;
    default: {
      double value;
      Number magnitude = n;
      magnitude.negative = false;
      if (!StoreWide<double, uint64_t>(magnitude, kNan64, &value) || !Encode(f, value, &bits)) return false;
    }
  }
  if (n.negative) bits ^= sign;
  if (SizeOf(dtype) == 1) {
    *static_cast<uint8_t*>(p) = static_cast<uint8_t>(bits);
  } else {
    const uint16_t b = static_cast<uint16_t>(bits);
    std::memcpy(p, &b, sizeof b);
  }
  return true;
}

}  // namespace

std::string DoubleText(double value) {
  std::string out;
  AppendFloat(value, Load<uint64_t>(&value), kNan64, out);
  return out;
}

std::string ImmediateText(const Immediate& value) {
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const int64_t* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  return DoubleText(std::get<double>(value));
}

std::string StringText(std::string_view value) {
  std::string out = "\"";
  for (char c : value) {
    const unsigned char u = static_cast<unsigned char>(c);
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      default:
        if (u < 0x20 || u == 0x7f) {
          absl::StrAppend(&out, "\\x", absl::Hex(u, absl::kZeroPad2));
        } else {
          out += c;
        }
    }
  }
  out += '"';
  return out;
}

void AppendElement(const void* p, DType dtype, std::string& out) {
  switch (dtype) {
    case DType::f64: AppendFloat(Load<double>(p), Load<uint64_t>(p), kNan64, out); return;
    case DType::f32: AppendFloat(Load<float>(p), Load<uint32_t>(p), kNan32, out); return;
    case DType::i64: absl::StrAppend(&out, Load<int64_t>(p)); return;
    case DType::i32: absl::StrAppend(&out, Load<int32_t>(p)); return;
    case DType::i8: absl::StrAppend(&out, static_cast<int>(Load<int8_t>(p))); return;
    case DType::u8: absl::StrAppend(&out, static_cast<int>(Load<uint8_t>(p))); return;
    case DType::boolean: out += Load<uint8_t>(p) != 0 ? "true" : "false"; return;
    default: break;
  }
  const Narrow f = FormatOf(dtype);
  const uint32_t bits = SizeOf(dtype) == 1 ? Load<uint8_t>(p) : Load<uint16_t>(p);
  const uint32_t sign = 1u << (f.bits() - 1);
  const uint32_t magnitude = bits & (sign - 1);
  double value;
  if (IsNarrowNan(f, magnitude)) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (f.has_inf && magnitude == f.inf()) {
    value = std::numeric_limits<double>::infinity();
  } else {
    value = Decode(f, magnitude);
  }
  AppendFloat((bits & sign) != 0 ? -value : value, bits, f.nan, out);
}

bool StoreElement(const Number& number, DType dtype, void* p) {
  switch (dtype) {
    case DType::f64: return StoreWide<double, uint64_t>(number, kNan64, p);
    case DType::f32: return StoreWide<float, uint32_t>(number, kNan32, p);
    case DType::i64: return StoreInt<int64_t>(number, p);
    case DType::i32: return StoreInt<int32_t>(number, p);
    case DType::i8: return StoreInt<int8_t>(number, p);
    case DType::u8: return StoreInt<uint8_t>(number, p);
    case DType::boolean:
      if (number.magnitude > 1 || number.negative) return false;
      return StoreInt<uint8_t>(number, p);
    default: return StoreNarrow(number, dtype, p);
  }
}

}  // namespace tessera::ir
