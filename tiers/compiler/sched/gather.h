// Gathers of whole rows, which kernels do where they read: which ops are those, and how their operands lie.
#ifndef TESSERA_TIERS_COMPILER_SCHED_GATHER_H_
#define TESSERA_TIERS_COMPILER_SCHED_GATHER_H_

#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"

namespace tessera::compiler {

/// Is it an embedding, or a take along the first axis? Operands are the table and the ids; the dims of the result are
/// those of the ids, then those of a row of the table.
inline bool IsGather(mlir::Operation* op) {
  const TableRow* row = RowOf(op);
  if (row == nullptr || op->getNumOperands() != 2 || op->getNumResults() != 1) return false;
  if (row->name == "embedding") return true;
  if (row->name != "take") return false;
  auto axis = op->getAttrOfType<mlir::IntegerAttr>("axis");
  const int64_t rank = mlir::cast<mlir::RankedTensorType>(op->getOperand(0).getType()).getRank();
  return !axis || axis.getInt() == 0 || axis.getInt() == -rank;
}

/// How many dims a row has.
inline int64_t RowRankOf(mlir::Operation* gather) {
  return mlir::cast<mlir::RankedTensorType>(gather->getOperand(0).getType()).getRank() - 1;
}

/// Rows of something, at indices that the core can look at before the kernel runs? On a CUDA device the kernel does it,
/// as those of tier 1 do.
inline bool IsCheckedGather(mlir::Operation* op, const CompileOptions& options) {
  if (!IsGather(op)) return false;
  mlir::Value ids = op->getOperand(1);
  auto type = mlir::cast<mlir::RankedTensorType>(ids.getType());
  mlir::Type index = type.getElementType();
  if (type.getRank() == 0 || !(index.isInteger(64) || index.isInteger(32))) return false;
  auto trace = mlir::dyn_cast<graph::TraceOp>(op->getParentOp());
  const bool is_device = !options.device.empty();
  if (!is_device && trace && trace.getSymName() == "eager" && !mlir::isa<mlir::BlockArgument>(ids)) return false;
  const llvm::SmallVector<Dim> table = DimsOf(op->getOperand(0).getType());
  // A device goes on with the first row where an index is outside.
  if (is_device && !table[0].is_symbol && table[0].value == 0) return false;
  // Rows of one element would be the innermost loop along the indices.
  return llvm::any_of(llvm::ArrayRef<Dim>(table).drop_front(), [](const Dim& d) { return !d.is_one(); });
}

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_GATHER_H_
