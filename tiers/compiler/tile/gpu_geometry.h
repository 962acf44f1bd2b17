// How the rows of a kernel are shared among the threads of a CUDA device.
#ifndef TESSERA_TIERS_COMPILER_TILE_GPU_GEOMETRY_H_
#define TESSERA_TIERS_COMPILER_TILE_GPU_GEOMETRY_H_

#include "tiers/compiler/tile/loop_nest.h"

namespace tessera::compiler {

/// A team of threads works on one row at a time, a block has one team or several. In a step a team reads a chunk of
/// `lanes` elements for each thread; thread t of the team has the elements (c * team + t) * lanes onwards of its chunk
/// c.
struct GpuGeometry {
  int64_t lanes = 1;   ///< of a vector: 16 bytes of the narrowest operand, at most
  int64_t team = 1;    ///< threads that share a row: a power of two; more than 32 are a whole block
  int64_t chunks = 1;  ///< vectors that a thread has in flight
  int64_t rows = 1;    ///< of a block at a time
  int64_t blocks = 1;  ///< that fit a multiprocessor: this many must find registers there
  /// Rows are reduced, and kept in registers: they have at most Capacity() elements.
  bool keeps_rows = false;
  /// They are kept in shared memory instead, each thread's elements in its own part of it, but for the first chunks.
  bool in_shared = false;
  int64_t in_registers = 0;  ///< of the chunks, then
  /// Blocks that share a row, then: a cluster. Its threads are one team, those of block r after those of block r - 1.
  int64_t cluster = 1;
  /// Element by element: the next piece is fetched while one is worked on.
  bool fetches = false;

  /// Element by element: rows, or pieces of the only one, that a team has in flight; pieces of one column. Rows in
  /// shared memory: those that a team has there, and goes through together.
  int64_t at_once = 1;
  int64_t steps = 1;  ///< that a block goes on for, then, if it does not stay; 1: there is one for each step

  int64_t Threads() const { return team * rows; }
  int64_t OfRow() const { return team * cluster; }  ///< threads
  /// Of a cluster, for what its blocks send each other at so many reductions: a result of each warp, and a signal.
  int64_t SentBytes(int64_t reductions) const { return reductions * at_once * (OfRow() / 32 + 1) * 8; }
  int64_t Capacity() const { return OfRow() * chunks * lanes; }
};

/// What a size is, or was seen to be; -1: nothing is known.
int64_t LikelySize(sched::KernelOp kernel, const Dim& d);

/// Shared memory of a multiprocessor for rows of all of its blocks, less what each takes besides.
int64_t SharedBytesOf(llvm::StringRef device);
/// May blocks reach each other's shared memory?
bool HasClusters(llvm::StringRef device);

/// What is to be known of a kernel for its geometry.
struct GpuFacts {
  int64_t row = 0;               ///< elements of a row, as far as known; -1: not
  bool is_row_exact = false;     ///< for all runs
  int64_t num_rows = 0;          ///< as far as known; -1: not
  int64_t num_outer = 0;         ///< loops around rows
  bool is_reduction = false;     ///< results need whole rows
  int64_t num_reductions = 0;    ///< of a row
  bool is_one_run = false;       ///< there is only one row
  int64_t narrowest = 0;         ///< bytes of an element, of what moves along a row; 0: nothing moves
  int64_t widest = 0;            ///< the same
  int64_t computed = 4;          ///< bytes of the widest value that is computed
  bool needs_registers = false;  ///< code for the device takes more of them than for later ones
  int64_t num_inputs = 0;        ///< that move along a row
  int64_t num_whole = 0;         ///< of them, those of which each element is read once
  bool has_numbers = false;      ///< a result has one element for a row
  bool has_rows = false;         ///< a result has whole rows
  bool has_tables = false;       ///< rows are found by indices
  bool is_heavy = false;         ///< results take more than a few instructions for each element
  bool is_cheap_again = false;   ///< elements of all passes are worth computing anew in each
  int64_t early_bytes = 0;       ///< of an element, of inputs that reductions need
  int64_t num_late = 0;          ///< inputs that only results need, and that all rows share
  bool has_clusters = false;     ///< blocks of the device may reach each other's shared memory
  int64_t shared_bytes = 0;      ///< of a multiprocessor, for rows
};

/// Nothing where the device would mostly be idle: a few long rows, which tier 1 shares among all blocks.
std::optional<GpuGeometry> ChooseGeometry(const GpuFacts& facts);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_GPU_GEOMETRY_H_
