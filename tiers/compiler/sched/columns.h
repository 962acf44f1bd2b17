// Sums along columns, and sums of everything: what they are over, and how tasks share them.
#ifndef TESSERA_TIERS_COMPILER_SCHED_COLUMNS_H_
#define TESSERA_TIERS_COMPILER_SCHED_COLUMNS_H_

#include "tiers/compiler/dialects/dialects.h"

namespace tessera::compiler {

/// So many dims from the first on; none where the count is 0.
struct Columns {
  int64_t first = 0, count = 0;
  /// Are they the same, where both have some?
  bool Agrees(const Columns& other) const {
    return count == 0 || other.count == 0 || (first == other.first && count == other.count);
  }
};

/// The dims that a reduction of a trace is over, where they follow each other, only the last dim comes after them, that
/// one is worth vectors, and there is something to sum.
Columns ColumnsOf(mlir::Operation* op);

/// On a CUDA device a block has this many bytes of each row, and all rows (tile/lower_columns_gpu.cc).
constexpr int64_t kColumnBytes = 64;
/// Are there columns for most of a large device, and rows for the threads of a block, as far as sizes were seen?
bool SuitsDevice(mlir::Operation* op, Columns columns);

/// What is known of a size, or was seen; -1: nothing.
int64_t LikelyOf(graph::TraceOp trace, const Dim& d);

/// `cut` of tsr_sched.kernel for sums along those dims of the space, or, where there are none, of all dims. Parts are
/// large enough for a task to be worth it, and what they leave is little beside what they read.
mlir::DenseI64ArrayAttr CutOf(graph::TraceOp trace, llvm::ArrayRef<Dim> space, Columns columns);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_COLUMNS_H_
