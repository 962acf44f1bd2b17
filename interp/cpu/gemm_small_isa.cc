#include "interp/cpu/gemm_small.h"

#define TSR_INLINE inline __attribute__((always_inline))

namespace tessera::cpu::TSR_ISA {
namespace {

// A tile of kRows x kWidth elements of c stays in registers while k runs, each element with one sum over k in order.
// That is why tiles may overlap: where rows or columns are left over, the last tile begins earlier and computes a few
// elements again, to the same bits, and no tile has a ragged edge. (Not where it adds to c: that would add twice.)
constexpr int kWidthBytes = 64;
// Bytes of a tile: half of the vector registers, which hides the latency of the sums and leaves room for a and b.
#if defined(__AVX512F__)
constexpr int kTileBytes = 1024;
#elif defined(__AVX__) || defined(__aarch64__)
constexpr int kTileBytes = 256;
#else
constexpr int kTileBytes = 128;
#endif
constexpr int kMaxRows = 8;
// b is packed where its columns are not adjacent: this many of its rows at a time.
constexpr int kPanelDepth = 256;
// With few rows a packed panel is used too seldom to pay; dot products with lanes along k do, from this k on.
constexpr int64_t DotsFrom(int64_t rows) { return rows <= 2 ? 8 : rows <= 4 ? 64 : INT64_MAX; }

template <class T, int kWidth>
struct VectorOf {
  typedef T V __attribute__((vector_size(kWidth * sizeof(T))));
};
template <class T, int kWidth>
using Vec = typename VectorOf<T, kWidth>::V;

template <class V, class T>
TSR_INLINE V Load(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class V, int kWidth, class T>
TSR_INLINE V Splat(T x) {
  V v;
  for (int l = 0; l < kWidth; ++l) v[l] = x;
  return v;
}

/// a b + c. Fused only where every instruction set of the architecture has that: all of them compute the same bits.
template <int kWidth, class V>
TSR_INLINE V MulAdd(V a, V b, V c) {
#if !defined(__aarch64__)
  return a * b + c;
#elif defined(__clang__)
  return __builtin_elementwise_fma(a, b, c);
#else
  for (int l = 0; l < kWidth; ++l) {
    c[l] = sizeof(c[l]) == 4 ? __builtin_fmaf(a[l], b[l], c[l]) : __builtin_fma(a[l], b[l], c[l]);
  }
  return c;
#endif
}

template <class T>
struct Product {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row, b_col;
  T* c;
  int64_t ldc;
  bool add;  // to what is in c
};

/// c (+)= a b for kRows x kWidth elements, the columns of b adjacent.
template <int kRows, int kWidth, class T>
TSR_INLINE void Tile(const Product<T>& p, int64_t i, int64_t j) {
  typedef Vec<T, kWidth> V;
  const T* a = p.a + i * p.a_row;
  const T* b = p.b + j;
  T* c = p.c + i * p.ldc + j;
  V sum[kRows] = {};
  if (p.add) {
    for (int r = 0; r < kRows; ++r) sum[r] = Load<V>(c + r * p.ldc);
  }
  int64_t q = 0;
#if defined(__aarch64__)
  // One load for the next elements of a row of a: an instruction can multiply by a lane, but not by memory.
  constexpr int kLanes = 16 / sizeof(T);
  if (p.a_col == 1) {
    for (; q + kLanes <= p.k; q += kLanes) {
      Vec<T, kLanes> next[kRows];
      for (int r = 0; r < kRows; ++r) next[r] = Load<Vec<T, kLanes>>(a + r * p.a_row);
      for (int l = 0; l < kLanes; ++l) {
        const V row = Load<V>(b);
        for (int r = 0; r < kRows; ++r) sum[r] = MulAdd<kWidth>(Splat<V, kWidth>(next[r][l]), row, sum[r]);
        b += p.b_row;
      }
      a += kLanes;
    }
  }
  if (p.a_row == 1) {
    for (; q < p.k; ++q) {
      const V row = Load<V>(b);
      const Vec<T, kRows> next = Load<Vec<T, kRows>>(a);
      for (int r = 0; r < kRows; ++r) sum[r] = MulAdd<kWidth>(Splat<V, kWidth>(next[r]), row, sum[r]);
      a += p.a_col;
      b += p.b_row;
    }
  }
#endif
  for (; q < p.k; ++q) {
    const V row = Load<V>(b);
    for (int r = 0; r < kRows; ++r) sum[r] = MulAdd<kWidth>(Splat<V, kWidth>(a[r * p.a_row]), row, sum[r]);
    a += p.a_col;
    b += p.b_row;
  }
  for (int r = 0; r < kRows; ++r) __builtin_memcpy(c + r * p.ldc, &sum[r], sizeof(V));
}

/// Rows [i, m) of the columns at j.
template <int kRows, int kWidth, class T>
TSR_INLINE void Rows(const Product<T>& p, int64_t i, int64_t j) {
  for (; i + kRows <= p.m; i += kRows) Tile<kRows, kWidth>(p, i, j);
  if (i == p.m) return;
  if constexpr (kRows > 1) {
    if (p.m >= kRows && p.m - i > kRows / 2 && !p.add) {
      Tile<kRows, kWidth>(p, p.m - kRows, j);
    } else {
      Rows<kRows / 2, kWidth>(p, i, j);
    }
  }
}

template <int kWidth, class T>
__attribute__((noinline)) void Column(const Product<T>& product, int64_t j) {
  constexpr int kRows = kTileBytes / static_cast<int>(kWidth * sizeof(T));
  const Product<T> p = product;  // a copy that stores to c cannot alias
  Rows<(kRows < kMaxRows ? kRows : kMaxRows), kWidth>(p, 0, j);
}

/// Columns [j, n).
template <int kWidth, class T>
TSR_INLINE void Columns(const Product<T>& p, int64_t j) {
  for (; j + kWidth <= p.n; j += kWidth) Column<kWidth>(p, j);
  if (j == p.n) return;
  if constexpr (kWidth > 1) {
    if (p.n >= kWidth && p.n - j > kWidth / 2 && !p.add) {
      Column<kWidth>(p, p.n - kWidth);
    } else {
      Columns<kWidth / 2>(p, j);
    }
  }
}

/// All columns of b, which are adjacent. Few rows leave few sums to work on at a time, so the tiles are wider then.
template <class T>
TSR_INLINE void Adjacent(const Product<T>& p) {
  if (p.m < 4) {
    Columns<2 * kWidthBytes / sizeof(T)>(p, 0);
  } else {
    Columns<kWidthBytes / sizeof(T)>(p, 0);
  }
}

/// to[q][w] = from[w][q] for kBlock columns w, in squares that become loads of vectors, shuffles and stores.
template <int kBlock, class T>
TSR_INLINE void TransposeBlock(int64_t depth, const T* from, int64_t from_ld, T* to, int64_t to_ld) {
  int64_t q = 0;
  for (; q + kBlock <= depth; q += kBlock) {
    T square[kBlock][kBlock];
    for (int i = 0; i < kBlock; ++i) __builtin_memcpy(square[i], from + i * from_ld + q, sizeof square[i]);
    for (int j = 0; j < kBlock; ++j) {
      for (int i = 0; i < kBlock; ++i) to[(q + j) * to_ld + i] = square[i][j];
    }
  }
  for (; q < depth; ++q) {
    for (int i = 0; i < kBlock; ++i) to[q * to_ld + i] = from[i * from_ld + q];
  }
}

template <class T>
TSR_INLINE void Transpose(int64_t depth, int64_t cols, const T* from, int64_t from_ld, T* to, int64_t to_ld) {
  int64_t w = 0;
  for (; w + 4 <= cols; w += 4) TransposeBlock<4>(depth, from + w * from_ld, from_ld, to + w, to_ld);
  for (; w + 2 <= cols; w += 2) TransposeBlock<2>(depth, from + w * from_ld, from_ld, to + w, to_ld);
  for (; w < cols; ++w) TransposeBlock<1>(depth, from + w * from_ld, from_ld, to + w, to_ld);
}

/// For b of any strides: a panel of it is copied at a time, as wide as its depth allows.
template <class T>
__attribute__((noinline)) void Packed(const Product<T>& p) {
  constexpr int64_t kWidth = kWidthBytes / sizeof(T);
  alignas(64) T panel[kPanelDepth * kWidth];
  const int64_t depth = p.k < kPanelDepth ? p.k : kPanelDepth;
  const int64_t width = p.n <= kWidth ? kWidth : kPanelDepth / depth * kWidth;
  Product<T> part = p;
  part.b = panel;
  part.b_row = width;
  for (int64_t j = 0; j < p.n; j += width) {
    part.n = p.n - j < width ? p.n - j : width;
    part.c = p.c + j;
    for (int64_t q0 = 0; q0 < p.k; q0 += depth) {
      part.k = p.k - q0 < depth ? p.k - q0 : depth;
      part.a = p.a + q0 * p.a_col;
      part.add = q0 > 0;
      const T* from = p.b + q0 * p.b_row + j * p.b_col;
      if (p.b_row == 1) {
        Transpose(part.k, part.n, from, p.b_col, panel, width);
      } else {
        for (int64_t q = 0; q < part.k; ++q) {
          for (int64_t w = 0; w < part.n; ++w) panel[q * width + w] = from[q * p.b_row + w * p.b_col];
        }
      }
      Adjacent(part);
    }
  }
}

/// kCount dot products with x, everything adjacent along k: in 32 bytes of lanes, then 16, then one by one.
template <int kCount, class T>
TSR_INLINE void Dots(int64_t k, const T* a, int64_t a_row, const T* x, T* c) {
  constexpr int kLanes = 32 / sizeof(T), kHalf = kLanes / 2;
  typedef Vec<T, kLanes> V;
  typedef Vec<T, kHalf> Half;
  V sum[kCount] = {};
  int64_t q = 0;
  for (; q + kLanes <= k; q += kLanes) {
    const V v = Load<V>(x + q);
    for (int r = 0; r < kCount; ++r) sum[r] = MulAdd<kLanes>(Load<V>(a + r * a_row + q), v, sum[r]);
  }
  Half half[kCount];
  for (int r = 0; r < kCount; ++r) {
    T lanes[kLanes];
    __builtin_memcpy(lanes, &sum[r], sizeof lanes);
    half[r] = Load<Half>(lanes) + Load<Half>(lanes + kHalf);
  }
  if (q + kHalf <= k) {
    const Half v = Load<Half>(x + q);
    for (int r = 0; r < kCount; ++r) half[r] = MulAdd<kHalf>(Load<Half>(a + r * a_row + q), v, half[r]);
    q += kHalf;
  }
  for (int r = 0; r < kCount; ++r) {
    Vec<T, 1> total = {half[r][0] + half[r][1]};
    if (kHalf == 4) total[0] += half[r][kHalf - 2] + half[r][kHalf - 1];
    for (int64_t s = q; s < k; ++s) total = MulAdd<1>(Vec<T, 1>{a[r * a_row + s]}, Vec<T, 1>{x[s]}, total);
    c[r] = total[0];
  }
}

/// For a and b adjacent along k: a row of a times all columns of b, for one row after the other.
template <class T>
__attribute__((noinline)) void ByDots(const Product<T>& p) {
  for (int64_t i = 0; i < p.m; ++i) {
    const T* x = p.a + i * p.a_row;
    T* c = p.c + i * p.ldc;
    int64_t j = 0;
    for (; j + 4 <= p.n; j += 4) Dots<4>(p.k, p.b + j * p.b_col, p.b_col, x, c + j);
    for (; j < p.n; ++j) Dots<1>(p.k, p.b + j * p.b_col, p.b_col, x, c + j);
  }
}

template <class T>
void SmallGemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row,
               int64_t b_col, T* c) {
  Product<T> p = {m, n, k, a, a_row, a_col, b, b_row, b_col, c, n, false};
  // A column of c is stored like a row, so a vector may stand on either side; on the left it is a row of a.
  if (n == 1) p = {1, m, k, b, b_col, b_row, a, a_col, a_row, c, m, false};
  if (p.a_col == 1 && p.b_row == 1 && (p.b_col != 1 || p.n == 1) && k >= DotsFrom(p.m)) return ByDots(p);
  if (p.b_col != 1 && p.n > 1) return Packed(p);
  Adjacent(p);
}

}  // namespace

const SmallGemmLoops kSmallGemmLoops = {SmallGemm<float>, SmallGemm<double>};

}  // namespace tessera::cpu::TSR_ISA
