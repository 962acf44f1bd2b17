// Inner loops of products of narrow floats, by instructions that take these as they are and add in f32. Compiled for
// processors that have them (gemm_direct_arm.cc); the rest of the library asks DirectLoopsOf().
#ifndef TESSERA_INTERP_CPU_GEMM_DIRECT_LOOPS_H_
#define TESSERA_INTERP_CPU_GEMM_DIRECT_LOOPS_H_

// No other header: whatever this file's code shares with others must not be compiled for another processor.
#include <stdint.h>

namespace tessera::cpu {

/// Rows and columns of the tile that `tile` computes, and how many elements along k are packed together.
inline constexpr int kTileRows = 8, kTileCols = 12, kTileDepth = 4;
/// Rows of the larger factor that `spread` adds at once, and that `dots` multiplies at once.
inline constexpr int kSpreadRows = 8, kDotRows = 4;

/// The most rows or columns for which a product is done without packing, whatever the type.
inline constexpr int kMostFew = 16;

/// Elements are the bits of one of the narrow types.
struct DirectLoops {
  /// So many of them are few: the larger factor is read as it lies. Up to kMostFew.
  int64_t few;
  /// c (+)= a b of kTileRows x kTileDepth `groups` and kTileDepth `groups` x kTileCols, both packed. c's rows are ldc
  /// apart.
  void (*tile)(int64_t groups, const uint16_t* a, const uint16_t* b, float* c, int64_t ldc, bool add);
  /// Into panels `width` wide, of kTileDepth x width elements for each group along k, in an order that `tile` knows.
  /// Along: of what lies along k, `ld` apart for each row (or column); `count` of the width and k are there, the rest
  /// becomes 0. Across: of what lies `ld` apart for each k; `count` rows (or columns) become as many panels as they
  /// need, `panel` elements apart.
  void (*pack_along)(int64_t width, int64_t count, int64_t k, const uint16_t* from, int64_t ld, uint16_t* to);
  void (*pack_across)(int64_t width, int64_t count, int64_t k, const uint16_t* from, int64_t ld, uint16_t* to,
                      int64_t panel);
  /// sums += x[0] w[0] + x[1] w[1] + ...: `rows` (at most kSpreadRows) rows of n elements, ld apart. sums has one for
  /// each element in an order of its own, which collect() undoes.
  void (*spread)(int64_t n, int64_t rows, const uint16_t* x, const uint16_t* w, int64_t ld, float* sums);
  void (*collect)(int64_t n, const float* sums, float* y);
  /// y[i] = sum over k of x[k] w[i * ld + k], for kDotRows of i.
  void (*dots)(int64_t k, const uint16_t* x, const uint16_t* w, int64_t ld, float* y);
};

#if defined(__aarch64__)
extern const DirectLoops kArmBf16Loops, kArmF16Loops;
#endif

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_GEMM_DIRECT_LOOPS_H_
