// Attention as one kernel of a CUDA device: which ops of a trace it is made of, and what it is made of after
// tsr-decompose.
#ifndef TESSERA_TIERS_COMPILER_SCHED_ATTENTION_H_
#define TESSERA_TIERS_COMPILER_SCHED_ATTENTION_H_

#include <optional>

#include "llvm/ADT/SetVector.h"
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"

namespace tessera::compiler {

/// Is it the op that gives positions: start + step * index along an axis?
bool IsPositions(mlir::Operation* op);

/// Attention that a trace has in ops of its own.
struct WrittenAttention {
  mlir::Operation* keys = nullptr;          // the product of queries and keys
  mlir::Operation* values = nullptr;        // the product of weights and values
  llvm::SetVector<mlir::Operation*> ops;    // all of it, in the order of the trace; the last one gives the result
  llvm::SmallVector<mlir::Operation*> own;  // steps before that nobody else needs, users first
};

/// The attention that begins with this product: element-wise ops on scores, a softmax (or what it is made of) along
/// keys, a product with values, and nothing that is needed elsewhere or may leave the trace before the last of them.
/// Nothing is changed.
std::optional<WrittenAttention> FindAttention(mlir::Operation* product, const CompileOptions& options);

/// What is computed from positions alone (comparisons of them, their differences), and smaller than the scores, is
/// computed for each score anew: the kernel has copies of such ops, and `own` gets those that nobody else needs.
void TakePositions(WrittenAttention& attention);

/// Does the schedule want the op attention, which has kernels in the core, generated?
bool WantsAttention(mlir::Operation* op, const CompileOptions& options);

/// May a kernel have heads of so many elements? The device's copies take multiples of 16 bytes.
bool IsHead(graph::TraceOp trace, const Dim& d);

/// Attention within a kernel, after tsr-decompose.
struct AttentionOps {
  mlir::Operation* keys = nullptr;    // the product of queries and keys
  mlir::Operation* values = nullptr;  // the product of weights, not yet divided by their sum, and values
  mlir::Value scores;                 // what the softmax is of, but for a causal mask
  double scale = 1;                   // ... and for this factor, which is above 0
  bool is_causal = false;
  graph::ReduceOp max, sum;
  /// Otherwise scores may be where(queries >= keys, shown, hidden), with more conditions or without: if `hidden` is
  /// minus infinity, keys whose positions come after those of the query are not seen.
  mlir::Operation* where = nullptr;
  mlir::Operation *query_positions = nullptr, *key_positions = nullptr;
  bool sees_own = false;       // >= and not >
  bool is_order_alone = true;  // there are no more conditions
};
std::optional<AttentionOps> AttentionOf(sched::KernelOp kernel);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_ATTENTION_H_
