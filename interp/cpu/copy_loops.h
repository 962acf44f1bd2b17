// The innermost loops of every copy: a 2-d tile of elements between two strided places. No threads, no allocation.
#ifndef TESSERA_INTERP_CPU_COPY_LOOPS_H_
#define TESSERA_INTERP_CPU_COPY_LOOPS_H_

#include <cstdint>

namespace tessera::cpu {

/// rows x cols elements. Strides count bytes and may be 0 or negative.
struct Tile {
  char* dst;
  int64_t dst_row, dst_col;
  const char* src;
  int64_t src_row, src_col;
  int64_t rows, cols;
};

/// Copies the tile; `size` is that of an element, 1, 2, 4 or 8. dst and src do not overlap. Runs of memory on both
/// sides go by memcpy, runs on one side that are columns on the other by transposed blocks in registers.
void CopyTile(const Tile& tile, int size);

/// The tiles that large transposing copies should be cut into: kTransposeCols runs of src, each of kTransposeRunBytes.
/// Few enough runs for the hardware to follow all of them, also where they start in the same cache set; long enough to
/// be worth it; and the rows of dst that a tile writes stay in the cache until the next tile completes their lines.
inline constexpr int64_t kTransposeRunBytes = 1024;
inline constexpr int64_t kTransposeCols = 16;

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_COPY_LOOPS_H_
