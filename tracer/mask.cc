#include "tracer/mask.h"

#include <algorithm>
#include <limits>

namespace tessera::tracer {
namespace {

enum class Keeps : uint8_t { yes, no, in_part };

struct Boolean {
  using Type = uint8_t;
  static Keeps Of(uint8_t x) { return x != 0 ? Keeps::yes : Keeps::no; }
};
template <class T>
struct Added {
  using Type = T;
  static Keeps Of(T x) {
    return x == 0 ? Keeps::yes : x == -std::numeric_limits<T>::infinity() ? Keeps::no : Keeps::in_part;
  }
};
/// By the bits of f16 or bf16.
template <uint16_t kMinusInfinity>
struct AddedNarrow {
  using Type = uint16_t;
  static Keeps Of(uint16_t x) {
    return (x & 0x7fff) == 0 ? Keeps::yes : x == kMinusInfinity ? Keeps::no : Keeps::in_part;
  }
};

template <class Element>
MaskShape Look(const View& m) {
  using T = typename Element::Type;
  const int64_t rows = m.rank >= 2 ? m.dims[m.rank - 2] : 1, columns = m.rank >= 1 ? m.dims[m.rank - 1] : 1;
  const int64_t row_stride = m.rank >= 2 ? m.strides[m.rank - 2] : 0;
  const int64_t stride = m.rank >= 1 ? m.strides[m.rank - 1] : 0;
  // One row or one column may stand for many: it has no diagonal.
  bool everything = true, causal = rows >= 2 && columns >= 2;
  int64_t index[kMaxRank] = {};
  for (;;) {
    const T* matrix = m.as<T>();
    for (int d = 0; d < m.rank - 2; ++d) matrix += index[d] * m.strides[d];
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = matrix + r * row_stride;
      int64_t kept = 0;
      while (kept < columns && Element::Of(row[kept * stride]) == Keeps::yes) ++kept;
      everything = everything && kept == columns;
      causal = causal && kept == std::min(columns, std::max<int64_t>(0, r + 1 + columns - rows));
      for (int64_t c = kept; causal && c < columns; ++c) causal = Element::Of(row[c * stride]) == Keeps::no;
      if (!everything && !causal) return MaskShape::unknown;
    }
    int d = m.rank - 3;
    while (d >= 0 && ++index[d] == m.dims[d]) index[d--] = 0;
    if (d < 0) break;
  }
  return everything ? MaskShape::everything : MaskShape::causal;
}

}  // namespace

MaskShape ShapeOfMask(const View& mask) {
  for (int d = 0; d < mask.rank; ++d)
    if (mask.dims[d] == 0) return MaskShape::unknown;
  switch (mask.dtype) {
    case DType::boolean: return Look<Boolean>(mask);
    case DType::f64: return Look<Added<double>>(mask);
    case DType::f32: return Look<Added<float>>(mask);
    case DType::f16: return Look<AddedNarrow<0xfc00>>(mask);
    case DType::bf16: return Look<AddedNarrow<0xff80>>(mask);
    default: return MaskShape::unknown;
  }
}

std::string_view Name(MaskShape shape) {
  switch (shape) {
    case MaskShape::everything: return "a mask that keeps everything";
    case MaskShape::causal: return "a causal mask";
    case MaskShape::unknown: break;
  }
  return "a mask";
}

}  // namespace tessera::tracer
