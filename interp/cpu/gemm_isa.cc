#include "interp/cpu/gemm_loops.h"

namespace tessera::cpu::TSR_ISA {
namespace {

// A panel of b is packed into rows of kPanelBytes, then every 4 rows of a are multiplied with vectors of 64 bytes.
constexpr int kVectorBytes = 64;
constexpr int kPanelVectors = 4;
constexpr int kPanelDepth = 128;

template <class U>
struct Lanes {
  static constexpr int n = kVectorBytes / static_cast<int>(sizeof(U));
  typedef U Vec __attribute__((vector_size(kVectorBytes)));
};

template <class U, int kRows>
inline __attribute__((always_inline)) void Tile(int64_t depth, const U* a, int64_t a_row, int64_t a_col, const U* panel,
                                                bool first, U* c, int64_t ldc, int64_t cols) {
  typedef typename Lanes<U>::Vec Vec;
  constexpr int kLanes = Lanes<U>::n;
  Vec acc[kRows] = {};
  for (int64_t p = 0; p < depth; ++p) {
    Vec b;
    __builtin_memcpy(&b, panel + p * kLanes * kPanelVectors, sizeof b);
    for (int r = 0; r < kRows; ++r) acc[r] += b * a[r * a_row + p * a_col];
  }
  for (int r = 0; r < kRows; ++r) {
    U* to = c + r * ldc;
    if (cols == kLanes) {
      Vec sum = acc[r];
      if (!first) {
        Vec old;
        __builtin_memcpy(&old, to, sizeof old);
        sum += old;
      }
      __builtin_memcpy(to, &sum, sizeof sum);
    } else {
      for (int64_t j = 0; j < cols; ++j) to[j] = static_cast<U>((first ? U{0} : to[j]) + acc[r][j]);
    }
  }
}

template <class U>
void IntGemm(int64_t m, int64_t n, int64_t k, const U* a, int64_t a_row, int64_t a_col, const U* b, int64_t b_row,
             int64_t b_col, U* c, int64_t ldc) {
  constexpr int kLanes = Lanes<U>::n;
  constexpr int64_t kCols = int64_t{kLanes} * kPanelVectors;
  alignas(64) U panel[kPanelDepth * kCols];
  for (int64_t j0 = 0; j0 < n; j0 += kCols) {
    const int64_t cols = n - j0 < kCols ? n - j0 : kCols;
    for (int64_t p0 = 0; p0 < k; p0 += kPanelDepth) {
      const int64_t depth = k - p0 < kPanelDepth ? k - p0 : kPanelDepth;
      for (int64_t p = 0; p < depth; ++p) {
        const U* from = b + (p0 + p) * b_row + j0 * b_col;
        U* to = panel + p * kCols;
        for (int64_t j = 0; j < cols; ++j) to[j] = from[j * b_col];
        for (int64_t j = cols; j < kCols; ++j) to[j] = 0;
      }
      for (int64_t i = 0; i < m;) {
        const int rows = m - i >= 4 ? 4 : 1;
        for (int64_t j = 0; j < cols; j += kLanes) {
          const int64_t width = cols - j < kLanes ? cols - j : kLanes;
          const U* from = a + i * a_row + p0 * a_col;
          U* to = c + i * ldc + j0 + j;
          if (rows == 4) {
            Tile<U, 4>(depth, from, a_row, a_col, panel + j, p0 == 0, to, ldc, width);
          } else {
            Tile<U, 1>(depth, from, a_row, a_col, panel + j, p0 == 0, to, ldc, width);
          }
        }
        i += rows;
      }
    }
  }
}

}  // namespace

const GemmLoops kGemmLoops = {IntGemm<uint64_t>, IntGemm<uint32_t>, IntGemm<uint8_t>};

}  // namespace tessera::cpu::TSR_ISA
