// Which pass over a row computes a value, and what is kept for later passes.
#include "llvm/ADT/SmallPtrSet.h"
#include "tiers/compiler/sched/attention.h"
#include "tiers/compiler/sched/gather.h"
#include "tiers/compiler/sched/kinds.h"
#include "tiers/compiler/tile/row_lowering.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

Type ElementOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }

}  // namespace

// For each value: is it one number for each row, and in which pass is it there.
void RowLowering::Classify() {
  for (size_t k = 0; k < num_inputs_; ++k) {
    const ViewPlan& v = nest_.views[k];
    is_row_[Argument(k)] = v.loops.empty() || v.loops.back().kind == Stride::Kind::zero;
    pass_[Argument(k)] = 0;
  }
  for (Operation& op : Body().without_terminator()) {
    if (nest_.elsewhere.contains(&op)) continue;
    bool row = true;
    int pass = 0;
    if (isa<graph::SizeOp>(op)) {
      is_row_[op.getResult(0)] = true;
      pass_[op.getResult(0)] = 0;
      continue;
    }
    if (IsPositions(&op)) {
      const int64_t axis = op.getAttrOfType<IntegerAttr>("axis") ? op.getAttrOfType<IntegerAttr>("axis").getInt() : 0;
      const int64_t rank = cast<RankedTensorType>(op.getResult(0).getType()).getRank();
      is_row_[op.getResult(0)] = axis + nest_.row < rank;
      pass_[op.getResult(0)] = 0;
      continue;
    }
    if (IsProduct(&op) || IsGather(&op)) {
      // Read from memory, where the kernel put it, or where the table is.
      is_row_[op.getResult(0)] = false;
      pass_[op.getResult(0)] = 0;
      heavy_[op.getResult(0)] = false;
      continue;
    }
    for (Value v : op.getOperands()) {
      row &= is_row_.lookup(v);
      pass = std::max(pass, pass_.lookup(v));
    }
    if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
      // Of a number that is the same all along a row, too.
      reductions_.push_back({reduce, pass});
      row = true;
      ++pass;
    }
    is_row_[op.getResult(0)] = row;
    pass_[op.getResult(0)] = pass;
    num_passes_ = std::max(num_passes_, pass + 1);
  }
}

bool RowLowering::IsHeavy(Value v) {
  auto [it, fresh] = heavy_.try_emplace(v, false);
  if (!fresh) return it->second;
  Operation* op = v.getDefiningOp();
  bool heavy = op != nullptr && !is_row_.lookup(v) && !IsCheap(op);
  // What an earlier pass kept is only read.
  if (op != nullptr && !is_row_.lookup(v))
    for (Value o : op->getOperands()) heavy |= pass_.lookup(o) == pass_.lookup(v) && IsHeavy(o);
  return heavy_[v] = heavy;
}

// Is a value of this pass needed in a later one?
bool RowLowering::IsUsedLater(Value v) {
  const int mine = pass_.lookup(v);
  return llvm::any_of(v.getUsers(), [&](Operation* user) {
    if (user->getNumResults() != 1) return false;
    Value result = user->getResult(0);
    if (isa<graph::ReduceOp>(user)) return pass_.lookup(result) > mine + 1;
    return pass_.lookup(result) > mine && !is_row_.lookup(result);
  });
}

// What has to be read along the row to compute it again.
void RowLowering::CollectReads(Value v, llvm::SmallPtrSetImpl<const void*>& seen, int& reads) {
  if (is_row_.lookup(v) || !seen.insert(v.getAsOpaquePointer()).second) return;
  Operation* op = v.getDefiningOp();
  const bool is_kept = llvm::any_of(spills_, [&](const Spill& s) { return s.value == v; });
  if (op == nullptr || is_kept || IsProduct(op) || IsGather(op)) {
    ++reads;
    return;
  }
  for (Value o : op->getOperands()) CollectReads(o, seen, reads);
}

// The result whose row may hold the value until the result itself is written there, or -1. Such a row is in the cache
// by then, and that it had to come there was hidden behind what this pass computes.
int RowLowering::RowToKeepIn(Value v, Type type) {
  auto yield = cast<sched::YieldOp>(Body().back());
  const int first = pass_.lookup(v), last = last_pass_.lookup(v);
  for (auto [k, out] : llvm::enumerate(yield.getValues())) {
    const ViewPlan& view = nest_.views[num_inputs_ + k];
    if (view.is_factor || view.type.getElementType() != type || is_row_.lookup(out)) continue;
    if (llvm::any_of(view.loops, [](const Stride& s) { return s.kind == Stride::Kind::zero; })) continue;
    if (pass_.lookup(out) <= first || pass_.lookup(out) < last) continue;
    // Everything is read before anything is written, so one may go in the pass in which the other comes.
    const bool is_free = llvm::all_of(spills_, [&](const Spill& s) {
      return s.output != static_cast<int>(k) || last_pass_.lookup(s.value) <= first || pass_.lookup(s.value) >= last;
    });
    if (is_free) return static_cast<int>(k);
  }
  return -1;
}

void RowLowering::FindSpills() {
  auto yield = cast<sched::YieldOp>(Body().back());
  SmallVector<Value> later;
  for (Operation& op : Body().without_terminator())
    if (!isa<graph::ReduceOp>(op) && !is_row_.lookup(op.getResult(0)) && IsUsedLater(op.getResult(0)))
      later.push_back(op.getResult(0));
  // The last pass that may read a value, be it to compute what follows from it once more; not what is kept, though.
  for (Operation& op : llvm::reverse(Body().without_terminator())) {
    int last = pass_.lookup(op.getResult(0));
    for (Operation* user : op.getUsers()) {
      if (user->getNumResults() != 1) continue;
      Value result = user->getResult(0);
      const bool is_kept = IsHeavy(result) && llvm::is_contained(later, result);
      last = std::max(last, isa<graph::ReduceOp>(user) ? pass_.lookup(result) - 1
                            : is_kept                  ? pass_.lookup(result)
                                                       : last_pass_.lookup(result));
    }
    last_pass_[op.getResult(0)] = last;
  }
  auto keep = [&](Value v, bool in_scratch) {
    Spill s;
    s.value = v;
    s.type = ComputeType(ElementOf(v));
    for (auto [k, out] : llvm::enumerate(yield.getValues()))
      if (out == v && !IsNarrowFloat(ElementOf(v)) && !ElementOf(v).isInteger(1) &&
          nest_.views[num_inputs_ + k].type.getRank() == static_cast<int64_t>(nest_.space.size())) {
        s.output = static_cast<int>(k);
        s.is_result = true;
      }
    if (!s.is_result) s.output = RowToKeepIn(v, s.type);
    if (in_scratch || s.output >= 0) spills_.push_back(s);
  };
  for (Value v : later)
    if (IsHeavy(v)) keep(v, /*in_scratch=*/true);
  // One row that is near in place of several that are not, where that takes no memory.
  for (Value v : later) {
    llvm::SmallPtrSet<const void*, 8> seen;
    int reads = 0;
    CollectReads(v, seen, reads);
    if (!IsHeavy(v) && reads > 1) keep(v, /*in_scratch=*/false);
  }
}

}  // namespace tessera::compiler
