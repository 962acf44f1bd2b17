// How a matrix product within a kernel is cut: the attribute `product` of tsr_sched.kernel.
#ifndef TESSERA_TIERS_COMPILER_SCHED_PRODUCT_H_
#define TESSERA_TIERS_COMPILER_SCHED_PRODUCT_H_

#include <algorithm>
#include <string>
#include <vector>

#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"

namespace tessera::compiler {

/// One task computes `rows` x `columns` of the result. The sum runs in pieces of `depth`; the right factor is packed by
/// panels that are `nr` wide, which stay in the innermost cache while the rows of the task go by, `mr` at a time.
struct ProductSchedule {
  enum class Form {
    packed,  // the right factor is copied, panel by panel: it is used by many rows
    direct,  // as packed, but both factors are read where they lie: they are small, and the sizes are known
    stream,  // it is read once, row by row, where it lies, and the few rows of the result stay in the cache
    dot,     // both factors lie along the sum: vectors run along it, and lanes are added at the end
    tensor,  // on the tensor cores of a CUDA device, from a ring of pieces in shared memory
    few,     // there, too, from registers: the right factor is read once, for few rows (tile/lower_few_rows_gpu.cc)
    split,   // as tensor, but what computes a tile shares its sum (tile/lower_split_gpu.cc)
    // two products with a softmax between them, there, too (tile/lower_attention_gpu.cc): `rows` are queries of a
    // block, `columns` keys of a tile, `nr` the most elements of a head where that is read at run time
    attention,
    library,  // left to the core, which has a BLAS
  } form = Form::packed;
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t mr = 0, nr = 0;  // of the register tile; not of tensor and split; few: nr are the columns of a warp
  int64_t copy = 0;        // 1: rows of the left factor are copied although they could be read where they lie
  int64_t stages = 0;      // tensor, split: pieces in the ring; few: pieces of a warp in registers
  int64_t apart = 0;       // tensor: 1: each group of warps has a task of its own, one after the other
  // tensor: 2: two blocks, one below the other, share what they copy of the right factor. few, split: blocks that share
  // a sum.
  int64_t cluster = 0;
  int64_t source = 0;  // tensor, split: 1: made as CUDA C++ (target/cuda_source.h)
  int64_t warps = 0;   // tensor: 1: each warp multiplies for itself (mma), and all threads copy. few: of a block
  // packed: words of two elements of bf16 along the sum that an instruction multiplies, of each row and each column; 0:
  // factors are widened. With 2 it multiplies two rows with two columns (bfmmla).
  int64_t words = 0;
  int64_t queries = 0;  // where heads share matrices: a task has so many rows of each of them; 0: not said

  /// tensor, split: groups of four warps of a block.
  static constexpr int64_t kGroups = 2;
  /// tensor, split: rows that a group has.
  int64_t OwnRows() const {
    return form == Form::split || (apart != 0 && form != Form::attention) ? rows : rows / kGroups;
  }
  int64_t Blocks() const { return cluster > 1 ? cluster : 1; }
  /// tensor, of f8: how many times a piece is multiplied, with some of the columns each time. A thread has the sums of
  /// one such part besides those of all.
  int64_t Parts() const { return OwnRows() * columns > 64 * 128 ? 2 : 1; }
  /// tensor, of f8: does each such part lie in one block of 128 columns, as scales have them?
  bool FitsBlocks() const { return columns == 64 || columns % 128 == 0; }
  /// tensor: bytes of shared memory that a block takes at least, and can have. Rows of a piece have 128 bytes.
  int64_t SharedBytes() const { return stages * (rows + columns) * 128 + 16 * (stages + 1) + kRowBytes; }
  static constexpr int64_t kSharedBytes = 232448, kRowBytes = 8192;  // the latter for operands that are rows
  /// tensor, not by warps: bytes of a place where a warp has 64 columns of 16 rows of the result, or 32 of f32.
  static constexpr int64_t kPlaceBytes = 2048;
  /// tensor: such pieces of a tile that a warp has.
  int64_t Places() const { return OwnRows() / 64 * (columns / 64); }

  /// few: warps of a block side by side, and such rows of warps, which have parts of the sum.
  int64_t Across() const { return columns / nr; }
  int64_t Along() const { return warps / Across(); }
  /// few, split: bytes of a row of sums in shared memory; few: of all. A few more keep the rows of a warp in banks of
  /// their own.
  int64_t SumsPitch() const { return (columns + (form == Form::split ? 8 : 4)) * 4; }
  int64_t SumsBytes() const { return Along() * rows * SumsPitch(); }
  /// few: more than 16 rows of the left factor come through shared memory, where pieces for all rows of warps go round
  /// in a ring. Two rows in it that follow one another have different banks.
  int64_t RingSlots() const { return ReadsRowsAhead() ? 0 : stages + 1; }
  int64_t RingPitch() const { return Along() * depth * 2 % 128 == 0 ? Along() * depth * 2 + 64 : Along() * depth * 2; }
  /// few: of a block.
  int64_t FewBytes() const { return SumsBytes() + RingSlots() * rows * RingPitch(); }
  /// few: whether rows of the left factor are read as far ahead as the right one, to registers.
  bool ReadsRowsAhead() const { return rows <= 16; }
  /// attention: bytes of shared memory but for signals, for heads of up to nr elements: queries, tiles of keys and of
  /// values, and places for results.
  int64_t AttentionBytes() const {
    const int64_t row = (nr + 63) / 64 * 128;
    return (rows + 2 * stages * columns) * row + rows * row;
  }
  bool FitsAttention() const {
    return rows == kQueries && (columns == 64 || columns == 128) && (nr == 64 || nr == 128) && depth == 64 &&
           stages >= 2 && AttentionBytes() + 16 * (2 * stages + 1) <= kSharedBytes;
  }
  static constexpr int64_t kQueries = 128;    // of a tile
  static constexpr int64_t kRowsAtOnce = 32;  // otherwise, from shared memory
  /// few: registers that a thread has for sums and what is read, and in all, roughly.
  int64_t Registers() const {
    const int64_t right = stages * depth * nr / 64;
    const int64_t left = ReadsRowsAhead() ? stages * depth / 32 * rows / 2 : kRowsAtOnce / 2;
    return rows * nr / 32 + right + left + kOtherRegisters;
  }
  static constexpr int64_t kOtherRegisters = 40;
  /// few: can a kernel be cut so?
  bool FitsFew() const;
  /// split: bytes of shared memory but for signals: the ring, which sums take the place of.
  int64_t SplitBytes() const { return std::max(stages * (rows + columns) * 128, kGroups * rows * SumsPitch()); }
  bool FitsSplit() const;

  mlir::DictionaryAttr ToAttr(mlir::Builder& b) const;
  /// Nothing where an entry is missing or no size.
  static std::optional<ProductSchedule> FromAttr(mlir::DictionaryAttr attr);
};

/// What the choice depends on. A size is -1 where nothing is known of it.
struct ProductFacts {
  int64_t batch = 1, m = -1, n = -1, k = -1;
  bool is_exact = false;      // the sizes are built in; otherwise they were seen, and others will come
  int64_t bytes = 4;          // of an element that is computed with
  bool is_bf16 = false;       // factors and result are bf16, the target is a CPU, and no rows are needed as a whole
  bool is_tensor = false;     // a CUDA device has instructions for such products
  bool is_f8 = false;         // ... and the factors are f8
  bool has_scales = false;    // ... with scales for their blocks (sched/f8_factors.h)
  bool is_tf32 = false;       // ... or f32, and multiplied in tf32
  bool is_along_sum = false;  // ... and both lie along the sum
  bool has_more = false;      // something is computed from the result, element by element
  bool has_matrix = false;    // ... and from a matrix as large as the result
  int64_t heavy = 0;          // functions such as exp among what is computed, and results beyond the first
  bool whole_rows = false;    // what follows the product needs rows as a whole
  bool is_causal = false;     // ... up to where a query stands
  bool is_attention = false;  // ... and is attention for tensor cores; n are its keys
  int64_t width = -1;         // attention: columns of the second product
  bool has_prologue = false;  // the left factor is computed while it is copied (packed alone)
  bool a_in_place = false;    // the left factor can be read where it lies: it has the computing dtype ...
  bool a_along_k = false;     // ... and runs along the sum
  bool b_along_k = false;     // so can the right one, in any dtype ...
  bool b_along_n = false;     // ... or it has runs along the rows of the result
  bool has_rows = false;      // both have rows in memory along their last dims, the left one along the sum
};

/// Attention of fewer heads of keys and values than of queries: rows of all heads that share them are multiplied with
/// the same copy. The dim of such groups, for scores of these dims and the right factors of both products; nothing
/// where each head has matrices of its own.
std::optional<Dim> GroupsOf(llvm::ArrayRef<Dim> scores, mlir::Type keys, mlir::Type values);

/// Are both factors of a product bf16, and its result? One of f32 may read bf16, too, where casts became part of it; it
/// is computed as it was written.
bool IsOfBf16(mlir::Operation* product);

/// Is one of these, which are read for a product and what follows it, a matrix as large as the result?
bool ReadsMatrix(mlir::ValueRange reads, mlir::Operation* product);

/// What `ops`, a product and what follows it, are to its schedule, given what they read from outside.
void SetWhatFollows(llvm::ArrayRef<mlir::Operation*> ops, mlir::ValueRange reads, mlir::Operation* product,
                    ProductFacts* facts);

/// The space of the tuner: entries in which another schedule differs from this one, and leaving it to the library.
std::vector<std::string> Alternatives(const ProductSchedule& schedule, const ProductFacts& facts,
                                      const CompileOptions& options);

/// Are all kernels to be made as CUDA C++? "*:source=1" in the schedule says so.
bool WantsSource(const CompileOptions& options);

/// What `options.schedule` says of a product, given by its step, in place of entries of `schedule`.
void Override(const CompileOptions& options, int32_t step, ProductSchedule* schedule);

/// What the model chooses for a product, given by its step, with what `options.schedule` says in its place. Who asks
/// for words in all products means those that have them.
ProductSchedule ScheduleProduct(const ProductFacts& facts, const CompileOptions& options, int32_t step);

/// Can a product be cut so? What is given from outside may not fit its layout or the vectors of the machine.
bool CanBeCut(const ProductSchedule& schedule, const ProductFacts& facts, const CompileOptions& options);

/// The schedule that a model of the costs (arithmetic, copies, idle threads) finds best.
ProductSchedule ChooseProduct(const ProductFacts& facts, const CompileOptions& options);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_PRODUCT_H_
