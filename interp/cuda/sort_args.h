// Arguments of kernels/sort.cu. A row is what is sorted: x along its axis. Every element becomes an unsigned key whose
// order is the wanted one, with its index beside it.
#ifndef TESSERA_INTERP_CUDA_SORT_ARGS_H_
#define TESSERA_INTERP_CUDA_SORT_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// Elements that one block sorts in shared memory.
constexpr int kSortTile = 2048;
/// Elements of a block in a pass of radix sort, and what they are sorted by there.
constexpr int kRadixTile = 2048;
constexpr int kDigits = 256;

enum class SortOrder : int32_t { ascending, descending, descending_nan_first };

/// How an element's bits become a key.
struct KeyRule {
  uint64_t inf;      // floats: bits above it, without the sign, are NaN
  uint64_t flip;     // integers: the sign bit
  int32_t floating;  // else an integer
  SortOrder order;
};

/// Rows of x: where they begin, by their number, and the step along them.
struct SortRows {
  Address x;
  Layout rest;  // x's dims without the axis
  int64_t stride;
  KeyRule rule;
};

/// Sorts tiles of rows. Of each one the first k are kept: as entries for another round, or as the result.
struct TileSortArgs {
  SortRows rows;
  Address entries_in;   // 0: elements of x, else entries that a round has kept
  Address entries_out;  // 0: this is the last round, which writes values and indices
  Address values, indices;
  int64_t count;   // rows
  int64_t length;  // elements or entries of a row
  int64_t tiles;   // of a row
  int64_t k;
  int64_t inner;  // size of the results' dims after the axis
  int32_t span;   // slots of a tile, a power of two; a block takes kSortTile / span tiles
};

/// Keys of rows [first, first + count), one row after the other.
struct SortKeysArgs {
  SortRows rows;
  Address keys;
  int64_t first, count, length;
};

/// One pass of a stable radix sort over rows of (key, index) pairs.
struct RadixArgs {
  Address keys_in, keys_out;
  Address index_in;  // 0 in the first pass: indices are positions
  Address index_out;
  Address counts;  // [rows][digit][tile]: elements of that digit in the tile; after the scan, those in tiles before
  Address totals;  // [rows][digit]
  int64_t rows, length, tiles;
  int32_t shift;
};

/// The first k of each of the rows [first, first + count), whose indices are sorted.
struct SortEmitArgs {
  SortRows rows;
  Address index;
  Address values, indices;
  int64_t first, count, length, k, inner;
  int32_t wide;  // indices have 8 bytes
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_SORT_ARGS_H_
