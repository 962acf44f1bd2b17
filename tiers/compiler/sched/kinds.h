// Which ops of a trace are generated, and what they are to a kernel.
#ifndef TESSERA_TIERS_COMPILER_SCHED_KINDS_H_
#define TESSERA_TIERS_COMPILER_SCHED_KINDS_H_

#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"
#include "tiers/compiler/sched/columns.h"

namespace tessera::compiler {

/// What tsr-fuse takes an op for.
enum class Class {
  barrier,      // runs in the core
  view,         // a pointer
  alias,        // a view that only adds or takes away dims of 1
  elementwise,  // result has the dims of the iteration space
  reduction,    // trailing dims to one number
  row,          // along the trailing dims, result as large as the operand: softmax, norms
  product,      // a matrix product
  gather,       // rows of a table, at indices
  column,       // a reduction over dims before the last one
  update,       // writes what a kernel computes to a part of something
};

struct Kind {
  Class c = Class::barrier;
  int64_t row = 0;       // reduction, row: how many trailing dims
  Columns columns = {};  // column: which dims
  int reads = 1;         // column: how often each element is needed
};

Kind KindOf(mlir::Operation* op, const CompileOptions& options);

/// A few instructions: computing it twice costs less than keeping what it gives.
bool IsCheap(mlir::Operation* op);

/// Is a softmax among them, be it one in five ops?
bool HasWeights(llvm::ArrayRef<mlir::Operation*> ops);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_KINDS_H_
