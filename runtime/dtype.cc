#include "tessera/dtype.h"

namespace tessera {

std::optional<DType> ParseDType(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (Name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  return std::nullopt;
}

DType Promote(DType a, DType b) {
  if (a == b) return a;
  if (KindOf(a) != KindOf(b)) return KindOf(a) > KindOf(b) ? a : b;
  const int rank_a = internal::kDTypes[static_cast<int>(a)].rank, rank_b = internal::kDTypes[static_cast<int>(b)].rank;
  if (rank_a != rank_b) return rank_a > rank_b ? a : b;
  return IsFloat(a) ? DType::f32 : DType::i32;
}

}  // namespace tessera
