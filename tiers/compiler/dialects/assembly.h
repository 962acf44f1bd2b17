// How ops are written where a format in the .td files does not say it all. The names are those that mlir-tblgen gives:
// custom<Lists> calls parseLists and printLists.
#ifndef TESSERA_TIERS_COMPILER_DIALECTS_ASSEMBLY_H_
#define TESSERA_TIERS_COMPILER_DIALECTS_ASSEMBLY_H_

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"

namespace tessera::compiler {

/// [[0, 1], []]: an array of lists of numbers.
mlir::ParseResult parseLists(mlir::OpAsmParser& parser, mlir::ArrayAttr& lists);
void printLists(mlir::OpAsmPrinter& printer, mlir::Operation* op, mlir::ArrayAttr lists);

/// (%a: i64, %b: f32) { ... }: the arguments of the one block, then the block.
mlir::ParseResult parseBody(mlir::OpAsmParser& parser, mlir::Region& body);
void printBody(mlir::OpAsmPrinter& printer, mlir::Operation* op, mlir::Region& body);

/// (%a = %x : i64) -> (f32) { ... }: the arguments with the operands that they stand for, the types of the results.
mlir::ParseResult parseKernel(mlir::OpAsmParser& parser,
                              llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand>& operands,
                              llvm::SmallVectorImpl<mlir::Type>& types, llvm::SmallVectorImpl<mlir::Type>& results,
                              mlir::Region& body);
void printKernel(mlir::OpAsmPrinter& printer, mlir::Operation* op, mlir::OperandRange operands, mlir::TypeRange types,
                 mlir::TypeRange results, mlir::Region& body);

/// vector<4xi32>: what each operand of `right` is. Sums are four f32, and `left` is four words.
using Unresolved = llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand>;
mlir::ParseResult parseWords(mlir::OpAsmParser& parser, const Unresolved& sums, const Unresolved& right,
                             const Unresolved& left, llvm::SmallVectorImpl<mlir::Type>& sum_types,
                             llvm::SmallVectorImpl<mlir::Type>& right_types,
                             llvm::SmallVectorImpl<mlir::Type>& left_types, llvm::SmallVectorImpl<mlir::Type>& results);
void printWords(mlir::OpAsmPrinter& printer, mlir::Operation* op, mlir::OperandRange sums, mlir::OperandRange right,
                mlir::OperandRange left, mlir::TypeRange sum_types, mlir::TypeRange right_types,
                mlir::TypeRange left_types, mlir::TypeRange results);

/// %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [end] {...} : (A, B) -> C
mlir::ParseResult parseTracedOp(mlir::OpAsmParser& parser, mlir::OperationState& result);
void printTracedOp(mlir::OpAsmPrinter& printer, mlir::Operation* op);

/// Calls each result v<id>, after the attribute that has the ids, if there is one.
void NameResults(mlir::Operation* op, llvm::StringRef attribute, mlir::OpAsmSetValueNameFn set);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_DIALECTS_ASSEMBLY_H_
