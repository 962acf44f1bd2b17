// Ops that become one kernel, while tsr-fuse puts them together.
#ifndef TESSERA_TIERS_COMPILER_SCHED_GROUP_H_
#define TESSERA_TIERS_COMPILER_SCHED_GROUP_H_

#include <climits>

#include "llvm/ADT/SetVector.h"
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/sched/columns.h"

namespace tessera::compiler {

constexpr size_t kMostOps = 48;
/// Tensors that a kernel reads; with a result for each op it still has no more views than the core has room for.
constexpr size_t kMostReads = 16;

struct Group {
  llvm::SmallVector<Dim> dims;
  int64_t row = 0;
  llvm::SetVector<mlir::Operation*> ops;
  llvm::SetVector<mlir::Value> reads;          // from outside
  llvm::SmallVector<mlir::Operation*> folded;  // what a product does when it reads
  Group* before = nullptr;                     // computes the left factor of the product, and nothing has come between
  bool has_prologue = false;                   // its ops are here
  bool open = true;
  int compute = 0;  // ops that do arithmetic
  bool normalises = false;
  mlir::Operation* product = nullptr;
  mlir::Operation* second = nullptr;  // multiplies rows of the group
  mlir::Operation* gather = nullptr;  // its first op
  Columns columns;                    // dims that are summed
  bool updates = false;               // writes parts of something
};

/// The two ways to write one number for each row: with dims of 1, or without the dims.
enum class RowForm { none, kept, dropped };
inline RowForm RowFormOf(const Group& g, llvm::ArrayRef<Dim> dims) {
  if (g.row == 0) return RowForm::none;
  const size_t outer = g.dims.size() - static_cast<size_t>(g.row);
  if (dims.size() < outer || llvm::ArrayRef<Dim>(g.dims).take_front(outer) != dims.take_front(outer))
    return RowForm::none;
  if (dims.size() == outer) return RowForm::dropped;
  if (dims.size() != g.dims.size()) return RowForm::none;
  for (const Dim& d : dims.drop_front(outer))
    if (!d.is_one()) return RowForm::none;
  return RowForm::kept;
}

/// The space of the group with the row that it would have.
inline Group RowSpace(const Group& g, int64_t row) {
  Group as;
  as.dims = g.dims;
  as.row = row;
  return as;
}

inline int32_t StepOf(mlir::Operation* op) {
  auto step = op->getAttrOfType<mlir::IntegerAttr>("step");
  return step ? static_cast<int32_t>(step.getInt()) : INT32_MAX;
}

inline bool IsView(mlir::Operation* op) { return RowOf(op) != nullptr && RowOf(op)->impl == "view"; }

/// Casts of operands are no steps: each kernel that needs one has its own.
inline bool IsLoose(mlir::Operation* op) { return op != nullptr && !op->hasAttr("step"); }
inline mlir::Value Through(mlir::Value v) {
  while (IsLoose(v.getDefiningOp()) && !mlir::isa<sched::KernelOp>(v.getDefiningOp()) &&
         v.getDefiningOp()->getNumOperands() > 0)
    v = v.getDefiningOp()->getOperand(0);
  return v;
}

inline bool Transposes(mlir::Operation* product, llvm::StringRef which) {
  auto attr = product->getAttrOfType<mlir::BoolAttr>(which);
  return attr && attr.getValue();
}

/// What is known of the strides of a value of the trace; empty: row-major.
inline mlir::DenseI64ArrayAttr KnownStrides(graph::TraceOp trace, mlir::Value v) {
  mlir::Attribute strides;
  if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(v)) {
    strides = trace.getStrides()[argument.getArgNumber()];
  } else {
    strides = v.getDefiningOp()->getAttr("tsr.strides");
    if (auto each = mlir::dyn_cast_or_null<mlir::ArrayAttr>(strides))
      strides = each[mlir::cast<mlir::OpResult>(v).getResultNumber()];
  }
  return strides ? mlir::cast<mlir::DenseI64ArrayAttr>(strides)
                 : mlir::DenseI64ArrayAttr::get(trace.getContext(), llvm::ArrayRef<int64_t>());
}
/// Does it lie along that dim, counted from the end?
inline bool RunsAlong(graph::TraceOp trace, mlir::Value v, int64_t from_end) {
  const llvm::ArrayRef<int64_t> strides = KnownStrides(trace, v).asArrayRef();
  return strides.empty() ? from_end == 1 : strides[strides.size() - static_cast<size_t>(from_end)] == 1;
}

// ---- updates (sched/update.h)

/// May the group write what the op, an update, says?
bool MayUpdate(const Group& g, mlir::Operation* op);
/// What is yielded for each result. Parts of one result are results of their own: `outputs` and `ids` get more of them,
/// and `updates` the entries of tsr_sched.kernel.
llvm::SmallVector<mlir::Value> WrittenFor(const Group& g, llvm::ArrayRef<mlir::Value> inputs,
                                          llvm::SmallVectorImpl<mlir::Value>& outputs,
                                          llvm::SmallVectorImpl<int32_t>& ids,
                                          llvm::SmallVectorImpl<mlir::Attribute>& updates);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_GROUP_H_
