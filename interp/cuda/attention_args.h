// The arguments of attention*.cu. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_ATTENTION_ARGS_H_
#define TESSERA_INTERP_CUDA_ATTENTION_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// Matrices of a tensor: the dims before the last two, and the strides of those.
struct Matrices {
  Address data;
  Layout at;
  int64_t row, col;
};

/// Keys, or queries, that go through shared memory at a time in attention_grad_mma.cu: of up to 64 columns, of 128, and
/// of 256.
constexpr int kGradStep64 = 64, kGradStep128 = 32, kGradStep256 = 16;

/// Warpgroups of a block, each of 64 queries, in attention_hopper.cu; attention_grad_hopper.cu has one.
constexpr int kHopperGroups64 = 1, kHopperGroups128 = 2;
/// Keys, or queries, of a tile there.
constexpr int kHopperStep = 64;

struct AttentionArgs {
  Matrices q, k, v;
  Matrices mask;  // seen as [..., H, S, T]
  Address y;
  int64_t heads;  // of all batches
  int64_t share;  // heads of q for each of k and v
  int32_t queries, keys, dim, value_dim;
  int32_t dtype, mask_dtype;
  int32_t has_mask, causal;
  double scale;
  int64_t window;  // 0: none; it is below the number of keys
};

/// What the device's kernels are given of a view that they copy pieces of: rt::PieceMap.
struct alignas(128) TileMap {
  unsigned char bytes[128];
};

/// Blocks of attention_pieces.cuh for heads of so many columns.
struct PiecesBlock {
  int columns;
  int groups;  // warpgroups of 64 queries; one more brings the tiles
  int keys;    // of a tile
  int stages;  // tiles of keys, and of values, that are there at a time
  int parts;   // of the work, whose queries are there at a time

  constexpr int threads() const { return (groups + 1) * 128; }
  /// Bytes of shared memory: the parts' queries, tiles, barriers, and the parts.
  constexpr int shared() const {
    return 2 * (parts * groups * 64 + 2 * stages * keys) * columns + stages * 32 + parts * groups * 32;
  }
};
/// The third one is for few queries: of these the three groups would often have none. The last four are for a mask.
constexpr PiecesBlock kPiecesBlocks[] = {
    {64, 3, 96, 3, 2},  {128, 2, 128, 2, 2}, {64, 2, 128, 2, 2}, {192, 2, 80, 2, 2}, {256, 2, 80, 2, 1},
    {64, 2, 128, 2, 2}, {128, 2, 112, 2, 2}, {192, 2, 80, 2, 2}, {256, 2, 64, 2, 1},
};
constexpr int kMaskBlocks = 5;

/// Pieces have 64 columns of 64 queries, or of as many keys as a tile has. Maps have four dims: columns, rows, and two
/// that together are the heads; of the inner one there are `inner`. y has none but the first three.
struct AttentionPiecesArgs {
  TileMap q, k, v, y;
  AttentionArgs a;
  int32_t inner_q, inner_k, inner_v;
  int32_t together;  // heads that are worked on at a time
};

/// Of attention_few.cu. Rows of a group are the queries of all heads that share keys: those of the first head, and so
/// on.
struct AttentionFewArgs {
  AttentionArgs a;
  int64_t groups;     // heads of keys, of all batches
  int32_t tiles;      // of 16 rows, of a group
  int32_t stretches;  // of the keys from `first` on, which is the first one that a query sees
  int32_t stretch;    // keys of one
  int32_t first;
  Address sums;     // [groups, stretches, rows, columns] f32: weighted sums of values
  Address weights;  // [groups, stretches, rows] of two f32: the largest score as a power of two, the sum of weights
};

/// forward.y is not used.
struct AttentionGradArgs {
  AttentionArgs forward;
  Matrices y, g;
  Address dq, dk, dv;
  Address logs, sums;  // of each query: the logarithm of its weights' sum, and its row's sum of g y
};

/// Blocks of attention_grad_pieces_hopper.cu: two groups of 64 queries and tiles of keys, or the other way round.
struct GradPiecesBlock {
  int columns;
  int rows;      // of a tile
  int stages;    // tiles of keys, or of queries and gradients
  int stages_2;  // tiles of values; 0: as many as of the others, and with the numbers of queries beside them

  static constexpr int threads() { return 3 * 128; }
  constexpr int shared() const {
    const int own = 4 * 128 * columns, tile = 2 * rows * columns;
    if (stages_2 == 0) return own + stages * (2 * tile + rows * 8) + stages * 16 + 16;
    return own + (stages + stages_2) * tile + (stages + stages_2) * 16 + 16;
  }
};
constexpr GradPiecesBlock kGradQueriesBlocks[] = {{64, 128, 3, 2}, {128, 96, 3, 2}, {192, 64, 3, 2}, {256, 48, 3, 1}};
constexpr GradPiecesBlock kGradKeysBlocks[] = {{64, 96, 4, 0}, {128, 64, 4, 0}, {192, 64, 2, 0}, {256, 48, 2, 0}};
/// Numbers of queries are in rows of a multiple of this many: of all that are of one tile.
constexpr int kGradPitch = 384;

/// As AttentionPiecesArgs. Pieces of what a block has as its own have 64 rows.
struct AttentionGradPiecesArgs {
  TileMap q, k, v, g;
  TileMap results[2];  // dq; or dk and dv
  AttentionGradArgs a;
  int32_t inner_q, inner_k, inner_v, inner_g;
  int32_t together;
  int32_t pitch;  // of logs and sums, from head to head
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_ATTENTION_ARGS_H_
