// The four dialects of the compiler: tsr_graph, tsr_sched, tsr_tile, tsr_target. Their ops are defined in the .td files
// of this folder; docs/dialects.md is made from those.
#ifndef TESSERA_TIERS_COMPILER_DIALECTS_DIALECTS_H_
#define TESSERA_TIERS_COMPILER_DIALECTS_DIALECTS_H_

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::compiler::graph {

mlir::LogicalResult VerifyTableOp(mlir::Operation* op);

/// The trait of all rows of the op table.
template <typename Concrete>
class TableOp : public mlir::OpTrait::TraitBase<Concrete, TableOp> {
 public:
  static mlir::LogicalResult verifyTrait(mlir::Operation* op) { return VerifyTableOp(op); }
};

}  // namespace tessera::compiler::graph

#include "tiers/compiler/dialects/GraphDialect.h.inc"
#include "tiers/compiler/dialects/SchedDialect.h.inc"
#include "tiers/compiler/dialects/TargetDialect.h.inc"
#include "tiers/compiler/dialects/TileDialect.h.inc"
#define GET_OP_CLASSES
#include "tiers/compiler/dialects/Graph.h.inc"
#define GET_OP_CLASSES
#include "tiers/compiler/dialects/Sched.h.inc"
#define GET_OP_CLASSES
#include "tiers/compiler/dialects/Tile.h.inc"
#define GET_OP_CLASSES
#include "tiers/compiler/dialects/Target.h.inc"

namespace tessera::compiler {

/// One dim of a type: a number, or the symbol that its encoding names.
struct Dim {
  bool is_symbol = false;
  int64_t value = 0;  // the number, or the symbol
  bool operator==(const Dim&) const = default;
  bool is_one() const { return !is_symbol && value == 1; }
};
Dim DimOf(mlir::RankedTensorType type, int64_t d);
llvm::SmallVector<Dim> DimsOf(mlir::Type type);
mlir::RankedTensorType TensorOf(mlir::MLIRContext* context, llvm::ArrayRef<Dim> dims, mlir::Type element);
/// "f32", "bf16", "u8", "bool": the dtype of the element type, as the op table and tier 1 name it.
llvm::StringRef DTypeName(mlir::Type element);
/// f32 for f16, bf16 and the f8 types; i8 for bool; otherwise the type itself without its sign.
mlir::Type ComputeType(mlir::Type element);
bool IsNarrowFloat(mlir::Type element);
/// f8e4m3 or f8e5m2.
bool IsF8(mlir::Type element);
/// The dtype whose functions compute with it: "f32" for narrow floats.
llvm::StringRef ComputeName(mlir::Type element);

/// What the op table says of an op; null for ops that are not in it.
struct TableRow {
  llvm::StringRef name;
  llvm::StringRef impl;  // "ew", "kernel", "view"
  llvm::StringRef rule;  // of its dtype: "promote", "pfloat", ...
  int min_operands;
};
const TableRow* RowOf(mlir::Operation* op);
/// The number of an op of the table (ir::Op); -1: there is none of that name.
int32_t NumberOf(llvm::StringRef op);
bool IsElementwise(mlir::Operation* op);
/// A matrix product that kernels may hold.
bool IsProduct(mlir::Operation* op);

void RegisterDialects(mlir::DialectRegistry& registry);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_DIALECTS_DIALECTS_H_
