// The arguments of paged_attention.cu. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_PAGED_ATTENTION_ARGS_H_
#define TESSERA_INTERP_CUDA_PAGED_ATTENTION_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

/// Keys of a part of a sequence: shorter ones are not worth a warp.
constexpr int kShortestPart = 128;

/// A tensor of four dims, with its strides in elements.
struct Strided4 {
  Address data;
  int64_t strides[4];
};

/// What is found wrong is reported with the bound that it breaks: a page with the number of pages; a length with the
/// complement of the positions that a sequence may have, which is below 0.
struct PagedAttentionArgs {
  Strided4 q;     // [batch, heads, queries, dim]
  Strided4 k, v;  // [pages, page, groups, dim or value_dim]
  Address table;  // [batch, entries] of i64
  int64_t table_strides[2];
  Address lengths;  // [batch] of i64
  int64_t lengths_stride;
  Address y;
  DeviceError* error;
  double scale;
  int32_t batch, heads, queries, dim, value_dim;
  int32_t groups;   // heads of k and v
  int32_t share;    // heads of q for each of those
  int32_t pages;    // of the pool
  int32_t page;     // positions of one
  int32_t entries;  // of a row of the table
  int32_t dtype;
  int32_t op;

  // On tensor cores. A sequence is cut into parts of about the same length for all; a warp has 16 rows of a group and
  // one part.
  int32_t tiles;    // of 16 rows, of a group
  int32_t parts;    // that are wanted; each sequence may have one more
  int32_t divides;  // 0: all sequences are short and have one part
  Address sums;     // [parts, groups, rows, columns] f32: weighted sums of values
  Address weights;  // [parts, groups, rows] of two f32: the largest score as a power of two, the sum of weights
  Address plan;     // [batch] of two i32: the first part of a sequence, and how many it has
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_PAGED_ATTENTION_ARGS_H_
