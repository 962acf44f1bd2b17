// tsr_graph's classes: a file of their own, because there are many of them.
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "tiers/compiler/dialects/assembly.h"
#include "tiers/compiler/dialects/dialects.h"

#define GET_OP_CLASSES
#include "tiers/compiler/dialects/Graph.cpp.inc"

using namespace mlir;

namespace tessera::compiler::graph {

void TsrGraphDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "tiers/compiler/dialects/Graph.cpp.inc"
      >();
}

LogicalResult TraceOp::verify() {
  if (getValues().size() != getBody().getNumArguments())
    return emitOpError("names each of its arguments: ")
           << getBody().getNumArguments() << " arguments, " << getValues().size() << " values";
  if (getStrides().size() != getBody().getNumArguments()) return emitOpError("has strides for each argument");
  return success();
}

void TraceOp::getAsmBlockArgumentNames(Region& region, OpAsmSetValueNameFn set) {
  for (auto [argument, id] : llvm::zip(region.getArguments(), getValues())) set(argument, "v" + std::to_string(id));
}

LogicalResult ReduceOp::verify() {
  auto x = cast<RankedTensorType>(getX().getType());
  auto y = cast<RankedTensorType>(getY().getType());
  const int64_t rank = static_cast<int64_t>(getRank());
  if (rank < 0 || rank > x.getRank() || y.getRank() != x.getRank())
    return emitOpError("reduces at most all dims and keeps them");
  for (int64_t d = 0; d < x.getRank(); ++d) {
    const int64_t from = getFrom() ? static_cast<int64_t>(*getFrom()) : x.getRank() - rank;
    const bool reduced = d >= from && d < from + rank;
    if (reduced ? !DimOf(y, d).is_one() : !(DimOf(y, d) == DimOf(x, d)))
      return emitOpError("dim ") << d << " of the result is not " << (reduced ? "1" : "that of the operand");
  }
  const bool of_columns = getKind() == "var" || getKind() == "logsumexp";
  if (getKind() != "sum" && getKind() != "mean" && getKind() != "max" && getKind() != "min" && !of_columns)
    return emitOpError("has kind sum, mean, max, min, var or logsumexp, not ") << getKind();
  if (of_columns && (!getFrom() || !isa<FloatType>(cast<RankedTensorType>(getX().getType()).getElementType())))
    return emitOpError("of kind ") << getKind() << " is of floats along columns";
  return success();
}

// Counts for all ops; dims and dtypes for element-wise ones. The rest was checked by the rules of the op table when the
// trace was recorded.
LogicalResult VerifyTableOp(Operation* op) {
  const TableRow* row = RowOf(op);
  if (row == nullptr) return op->emitOpError("is not in the op table");
  if (static_cast<int>(op->getNumOperands()) < row->min_operands)
    return op->emitOpError("takes ") << row->min_operands << " operands, not " << op->getNumOperands();
  if (auto values = op->getAttrOfType<DenseI32ArrayAttr>("values"))
    if (values.size() != op->getNumResults()) return op->emitOpError("has one id for each result");
  if (row->impl != "ew") return success();
  if (op->getNumResults() != 1) return op->emitOpError("has one result");
  const SmallVector<Dim> out = DimsOf(op->getResult(0).getType());
  for (Value operand : op->getOperands()) {
    const SmallVector<Dim> in = DimsOf(operand.getType());
    if (in.size() > out.size()) return op->emitOpError("has an operand of a higher rank than its result");
    for (size_t d = 0; d < in.size(); ++d) {
      const Dim& to = out[out.size() - in.size() + d];
      if (!(in[d] == to) && !in[d].is_one())
        return op->emitOpError("cannot broadcast ") << operand.getType() << " to " << op->getResult(0).getType();
    }
  }
  return success();
}

}  // namespace tessera::compiler::graph
