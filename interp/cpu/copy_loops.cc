#include "interp/cpu/copy_loops.h"

#include <cstring>
#include <utility>

namespace tessera::cpu {
namespace {

// Elements go through memcpy, which compiles to one load or store: the memory holds floats as well as integers, at
// any alignment.
template <class T>
inline T Load(const void* p) {
  T t;
  __builtin_memcpy(&t, p, sizeof(T));
  return t;
}

template <class T>
inline void Store(void* p, T t) {
  __builtin_memcpy(p, &t, sizeof(T));
}

/// memcpy costs a call; short rows are cheaper by elements.
constexpr int64_t kMemcpyBytes = 32;

template <class T>
void CopyRuns(const Tile& t) {
  const int64_t bytes = t.cols * static_cast<int64_t>(sizeof(T));
  if (bytes >= kMemcpyBytes) {
    for (int64_t r = 0; r < t.rows; ++r) std::memcpy(t.dst + r * t.dst_row, t.src + r * t.src_row, bytes);
    return;
  }
  for (int64_t r = 0; r < t.rows; ++r) {
    char* d = t.dst + r * t.dst_row;
    const char* s = t.src + r * t.src_row;
    for (int64_t c = 0; c < t.cols; ++c) Store(d + c * sizeof(T), Load<T>(s + c * sizeof(T)));
  }
}

template <class T>
void FillRuns(const Tile& t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    char* d = t.dst + r * t.dst_row;
    const T value = Load<T>(t.src + r * t.src_row);
    if (sizeof(T) == 1 && t.cols >= kMemcpyBytes) {
      std::memset(d, static_cast<int>(value), t.cols);
      continue;
    }
    for (int64_t c = 0; c < t.cols; ++c) Store(d + c * sizeof(T), value);
  }
}

template <class T>
void CopyElements(const Tile& t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    char* d = t.dst + r * t.dst_row;
    const char* s = t.src + r * t.src_row;
    if (t.dst_col == sizeof(T)) {
      for (int64_t c = 0; c < t.cols; ++c) Store(d + c * sizeof(T), Load<T>(s + c * t.src_col));
    } else if (t.src_col == sizeof(T)) {
      for (int64_t c = 0; c < t.cols; ++c) Store(d + c * t.dst_col, Load<T>(s + c * sizeof(T)));
    } else {
      for (int64_t c = 0; c < t.cols; ++c) Store(d + c * t.dst_col, Load<T>(s + c * t.src_col));
    }
  }
}

template <int kBytes>
struct Lane;
template <>
struct Lane<1> {
  typedef uint8_t Row __attribute__((vector_size(16)));
};
template <>
struct Lane<2> {
  typedef uint16_t Row __attribute__((vector_size(16)));
};
template <>
struct Lane<4> {
  typedef uint32_t Row __attribute__((vector_size(16)));
};
template <>
struct Lane<8> {
  typedef uint64_t Row __attribute__((vector_size(16)));
};

// Transposes a square of 16-byte rows in rounds: round k interleaves lanes of size << k of the rows whose numbers
// differ in bit k. That leaves column i in the row whose number is i with its bits reversed. Every loop is a fold over
// a constant sequence, so that the rows stay in registers at any optimisation level.
template <int kSize>
struct Square {
  static constexpr int kSide = 16 / kSize;
  static constexpr std::make_index_sequence<kSide> kLanes{};
  using Row = typename Lane<8>::Row;
  struct Rows {
    Row r[kSide];
  };

  template <int kBytes, bool kHigh, size_t... I>
  static inline Row Interleave(Row a, Row b, std::index_sequence<I...>) {
    using V = typename Lane<kBytes>::Row;
    constexpr int kCount = 16 / kBytes, kFrom = kHigh ? kCount / 2 : 0;
    return reinterpret_cast<Row>(__builtin_shufflevector(reinterpret_cast<V>(a), reinterpret_cast<V>(b),
                                                         (kFrom + static_cast<int>(I) / 2 + (I % 2) * kCount)...));
  }
  template <int kBit, size_t... I>
  static inline Rows Round(const Rows& a, std::index_sequence<I...>) {
    using Lanes = std::make_index_sequence<kSide / kBit>;
    return {{Interleave<kSize * kBit, (I & kBit) != 0>(a.r[I & ~size_t{kBit}], a.r[I | size_t{kBit}], Lanes())...}};
  }
  static constexpr size_t Reversed(size_t i) {
    size_t r = 0;
    for (int bit = 1; bit < kSide; bit *= 2, i /= 2) r = r * 2 + i % 2;
    return r;
  }
  template <size_t... I>
  static inline void Transpose(char* dst, int64_t dst_row, const char* src, int64_t src_col,
                               std::index_sequence<I...>) {
    Rows a = {{Load<Row>(src + static_cast<int64_t>(I) * src_col)...}};
    a = Round<1>(a, kLanes);
    if constexpr (kSide > 2) a = Round<2>(a, kLanes);
    if constexpr (kSide > 4) a = Round<4>(a, kLanes);
    if constexpr (kSide > 8) a = Round<8>(a, kLanes);
    (Store(dst + static_cast<int64_t>(I) * dst_row, a.r[Reversed(I)]), ...);
  }
};

// dst runs along columns, src along rows.
template <class T>
void TransposeRuns(const Tile& t) {
  constexpr int64_t kSide = 16 / sizeof(T), kSize = sizeof(T);
  const int64_t rows = t.rows / kSide * kSide, cols = t.cols / kSide * kSide;
  const int64_t dst_row = t.dst_row, src_col = t.src_col;
  for (int64_t r = 0; r < rows; r += kSide) {
    char* dst = t.dst + r * dst_row;
    const char* src = t.src + r * kSize;
    for (int64_t c = 0; c < cols; c += kSide, dst += 16, src += kSide * src_col)
      Square<kSize>::Transpose(dst, dst_row, src, src_col, Square<kSize>::kLanes);
  }
  if (cols < t.cols) {
    CopyElements<T>(
        {t.dst + cols * kSize, dst_row, kSize, t.src + cols * src_col, kSize, src_col, rows, t.cols - cols});
  }
  if (rows < t.rows) {
    CopyElements<T>(
        {t.dst + rows * dst_row, dst_row, kSize, t.src + rows * kSize, kSize, src_col, t.rows - rows, t.cols});
  }
}

template <class T>
void CopyTyped(Tile t) {
  constexpr int64_t kSize = sizeof(T);
  const auto magnitude = [](int64_t x) { return x < 0 ? -x : x; };
  // The inner loop runs along the side where dst is denser; a broadcast source runs along its repeated side.
  if (t.rows > 1 && (t.cols == 1 || magnitude(t.dst_row) < magnitude(t.dst_col))) {
    std::swap(t.dst_row, t.dst_col);
    std::swap(t.src_row, t.src_col);
    std::swap(t.rows, t.cols);
  }
  if (t.dst_col == kSize && t.src_col == kSize) return CopyRuns<T>(t);
  if (t.dst_col == kSize && t.src_col == 0) return FillRuns<T>(t);
  if (t.dst_col == kSize && t.src_row == kSize && t.rows >= 4 && t.cols >= 4) return TransposeRuns<T>(t);
  CopyElements<T>(t);
}

}  // namespace

void CopyTile(const Tile& tile, int size) {
  switch (size) {
    case 1: return CopyTyped<uint8_t>(tile);
    case 2: return CopyTyped<uint16_t>(tile);
    case 4: return CopyTyped<uint32_t>(tile);
    default: return CopyTyped<uint64_t>(tile);
  }
}

}  // namespace tessera::cpu
