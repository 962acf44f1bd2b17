#include "tiers/compiler/sched/update.h"

#include "tiers/compiler/sched/group.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

// What an update writes, without views that add or take away dims of 1.
Value UpdatesOf(Operation* update, const Group& g) {
  Value v = update->getOperand(1);
  while (v.getDefiningOp() != nullptr && IsView(v.getDefiningOp()) && g.ops.contains(v.getDefiningOp()))
    v = v.getDefiningOp()->getOperand(0);
  return v;
}

}  // namespace

bool MayUpdate(const Group& g, Operation* op) {
  if (g.product != nullptr || g.columns.count > 0 || g.ops.size() >= kMostOps || g.reads.size() >= kMostReads)
    return false;
  Value written = UpdatesOf(op, g), x = op->getOperand(0);
  if (Through(written) != written || !g.ops.contains(written.getDefiningOp()) || IsUpdate(written.getDefiningOp()) ||
      DimsOf(written.getType()) != g.dims || Through(x) != x)
    return false;
  const SmallVector<Dim> whole = DimsOf(x.getType());
  const auto dims = DimsOfUpdate(g.dims, DimsOf(op->getOperand(1).getType()));
  if (!dims) return false;
  if (g.row > 1 && !IsOneRun(g.dims, whole, *dims, g.dims.size() - static_cast<size_t>(g.row), g.dims.size() - 1))
    return false;
  if (!g.ops.contains(x.getDefiningOp())) return true;
  // The update before this one, of which nothing else is needed.
  auto until = x.getDefiningOp()->getAttrOfType<DenseI32ArrayAttr>("until");
  return IsUpdate(x.getDefiningOp()) && x.hasOneUse() && until && until[0] <= StepOf(op);
}

SmallVector<Value> WrittenFor(const Group& g, ArrayRef<Value> inputs, SmallVectorImpl<Value>& outputs,
                              SmallVectorImpl<int32_t>& ids, SmallVectorImpl<Attribute>& updates) {
  SmallVector<Value> written;
  for (size_t k = 0; k < outputs.size(); ++k) {
    Operation* update = outputs[k].getDefiningOp();
    if (!IsUpdate(update)) {
      written.push_back(outputs[k]);
      continue;
    }
    SmallVector<Operation*> parts = {update};
    while (g.ops.contains(parts.back()->getOperand(0).getDefiningOp()))
      parts.push_back(parts.back()->getOperand(0).getDefiningOp());
    const auto base = llvm::find(inputs, parts.back()->getOperand(0)) - inputs.begin();
    for (Operation* part : llvm::reverse(parts)) {
      auto id = part->getAttrOfType<DenseI32ArrayAttr>("values");
      SmallVector<int64_t> entry = {static_cast<int64_t>(k), base, id ? id[0] : -1};
      entry.append(*DimsOfUpdate(g.dims, DimsOf(part->getOperand(1).getType())));
      updates.push_back(Builder(part->getContext()).getDenseI64ArrayAttr(entry));
      written.push_back(UpdatesOf(part, g));
      if (part == update) continue;
      outputs.insert(outputs.begin() + static_cast<std::ptrdiff_t>(k), outputs[k]);
      ids.insert(ids.begin() + static_cast<std::ptrdiff_t>(k), ids[k]);
      ++k;
    }
  }
  return written;
}

}  // namespace tessera::compiler
