// Element types. The rows, and how values convert between them, are in dtypes.def.
#ifndef TESSERA_DTYPE_H_
#define TESSERA_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tessera/export.h"

namespace tessera {

enum class DType : uint8_t {
#define TSR_DTYPE(name, bytes, kind, rank, summary) name,
#include "tessera/dtypes.def"
};

enum class DTypeKind : uint8_t { boolean, integer, floating };

inline constexpr DType f64 = DType::f64;
inline constexpr DType f32 = DType::f32;
inline constexpr DType f16 = DType::f16;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType f8e4m3 = DType::f8e4m3;
inline constexpr DType f8e5m2 = DType::f8e5m2;
inline constexpr DType i64 = DType::i64;
inline constexpr DType i32 = DType::i32;
inline constexpr DType i8 = DType::i8;
inline constexpr DType u8 = DType::u8;
inline constexpr DType boolean = DType::boolean;

inline constexpr int kNumDTypes = 0
#define TSR_DTYPE(name, bytes, kind, rank, summary) +1
#include "tessera/dtypes.def"
    ;

namespace internal {
struct DTypeInfo {
  std::string_view name;
  uint8_t bytes;
  DTypeKind kind;
  uint8_t rank;
  std::string_view summary;
};
inline constexpr DTypeInfo kDTypes[] = {
#define TSR_DTYPE(name, bytes, kind, rank, summary) {#name, bytes, DTypeKind::kind, rank, summary},
#include "tessera/dtypes.def"
};
}  // namespace internal

constexpr size_t SizeOf(DType t) { return internal::kDTypes[static_cast<int>(t)].bytes; }
constexpr DTypeKind KindOf(DType t) { return internal::kDTypes[static_cast<int>(t)].kind; }
constexpr bool IsFloat(DType t) { return KindOf(t) == DTypeKind::floating; }
constexpr bool IsInt(DType t) { return KindOf(t) == DTypeKind::integer; }
/// A float that ops compute in f32: f16, bf16, f8e4m3, f8e5m2.
constexpr bool IsNarrowFloat(DType t) { return IsFloat(t) && SizeOf(t) < 4; }

/// "f32", "bool", ...
constexpr std::string_view Name(DType t) {
  return t == DType::boolean ? std::string_view("bool") : internal::kDTypes[static_cast<int>(t)].name;
}
/// The dtype with that name, or nothing.
TSR_API std::optional<DType> ParseDType(std::string_view name);

/// The dtype two operands are brought to before an op: the higher kind wins (bool < integer < floating); of one
/// kind, the wider; of two unlike types of one width, the narrowest that holds both (f16 with bf16: f32; i8 with
/// u8: i32; f8e4m3 with f8e5m2: f32).
TSR_API DType Promote(DType a, DType b);

/// The dtype whose element C++ type is T.
template <class T>
constexpr std::optional<DType> DTypeOf();
template <>
constexpr std::optional<DType> DTypeOf<double>() {
  return DType::f64;
}
template <>
constexpr std::optional<DType> DTypeOf<float>() {
  return DType::f32;
}
template <>
constexpr std::optional<DType> DTypeOf<int64_t>() {
  return DType::i64;
}
template <>
constexpr std::optional<DType> DTypeOf<int32_t>() {
  return DType::i32;
}
template <>
constexpr std::optional<DType> DTypeOf<int8_t>() {
  return DType::i8;
}
template <>
constexpr std::optional<DType> DTypeOf<uint8_t>() {
  return DType::u8;
}
template <>
constexpr std::optional<DType> DTypeOf<bool>() {
  return DType::boolean;
}

}  // namespace tessera

#endif  // TESSERA_DTYPE_H_
