// Updates of a part of a tensor, which kernels write where it lies: which ops are those, and where the part is one run.
#ifndef TESSERA_TIERS_COMPILER_SCHED_UPDATE_H_
#define TESSERA_TIERS_COMPILER_SCHED_UPDATE_H_

#include "tiers/compiler/dialects/dialects.h"

namespace tessera::compiler {

/// Do dims `first` to `last` of a space lie in `whole` as one run? dims[d] is the dim of `whole` along which dim d of
/// the space lies (-1: it is 1). Beyond the first of them that moves, all dims of `whole` must be there as a whole.
inline bool IsOneRun(llvm::ArrayRef<Dim> space, llvm::ArrayRef<Dim> whole, llvm::ArrayRef<int64_t> dims, size_t first,
                     size_t last) {
  int64_t next = -1;  // dim of `whole` that comes next; -1: nothing has moved yet
  for (size_t d = first; d <= last; ++d) {
    if (dims[d] < 0) continue;
    for (; next >= 0 && next < dims[d]; ++next)
      if (!whole[static_cast<size_t>(next)].is_one()) return false;
    if (next >= 0 && whole[static_cast<size_t>(dims[d])] != space[d]) return false;
    next = dims[d] + 1;
  }
  return true;
}

/// For each dim of a space, the dim of what is updated along which it lies; -1: it is 1. Dims of 1 count for nothing,
/// so the updates may have others than the space. Nothing where the dims are not the same ones.
inline std::optional<llvm::SmallVector<int64_t>> DimsOfUpdate(llvm::ArrayRef<Dim> space, llvm::ArrayRef<Dim> updates) {
  llvm::SmallVector<int64_t> dims(space.size(), -1);
  size_t u = 0;
  for (size_t d = 0; d < space.size(); ++d) {
    if (space[d].is_one()) continue;
    while (u < updates.size() && updates[u].is_one()) ++u;
    if (u == updates.size() || updates[u] != space[d]) return std::nullopt;
    dims[d] = static_cast<int64_t>(u++);
  }
  for (; u < updates.size(); ++u)
    if (!updates[u].is_one()) return std::nullopt;
  return dims;
}

/// Is it an update_slice that a kernel may do: by steps of 1, all of one dtype, and vectors of the updates lie side by
/// side in the result? Operands are what is updated and the updates; both have as many dims as the result.
inline bool IsUpdate(mlir::Operation* op) {
  const TableRow* row = RowOf(op);
  if (row == nullptr || row->name != "update_slice" || op->getNumOperands() != 2 || op->getNumResults() != 1)
    return false;
  auto steps = op->getAttrOfType<mlir::DenseI64ArrayAttr>("steps");
  if (!steps || !llvm::all_of(steps.asArrayRef(), [](int64_t s) { return s == 1; })) return false;
  auto type = [](mlir::Value v) { return mlir::cast<mlir::RankedTensorType>(v.getType()); };
  auto whole = type(op->getResult(0)), updates = type(op->getOperand(1));
  if (type(op->getOperand(0)) != whole || updates.getElementType() != whole.getElementType() ||
      updates.getRank() != whole.getRank())
    return false;
  for (int64_t d = whole.getRank(); d-- > 0;) {
    if (!DimOf(updates, d).is_one()) return true;
    if (!DimOf(whole, d).is_one()) return false;
  }
  return false;
}

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_UPDATE_H_
