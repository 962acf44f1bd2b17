#include "tiers/compiler/tile/loop_nest.h"

#include "llvm/ADT/SetVector.h"
#include "tiers/compiler/sched/gather.h"
#include "tiers/compiler/sched/update.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

// The space is that of the largest value: the operand of a reduction, or all results of element-wise ops broadcast to
// one. The first op may be a cast of an operand that is smaller: a number, a row.
SmallVector<Dim> SpaceOf(sched::KernelOp kernel) {
  SmallVector<Dim> space;
  for (Operation& op : kernel.getBody().front())
    if (IsProduct(&op)) return DimsOf(op.getResult(0).getType());
  for (Operation& op : kernel.getBody().front()) {
    if (auto reduce = dyn_cast<graph::ReduceOp>(op)) return DimsOf(reduce.getX().getType());
    if (op.getNumResults() != 1) continue;
    if (IsElementwise(&op) || IsGather(&op) ||
        (RowOf(&op) != nullptr && (RowOf(&op)->name == "cast" || RowOf(&op)->name == "copy"))) {
      const SmallVector<Dim> dims = DimsOf(op.getResult(0).getType());
      if (dims.size() > space.size()) space.insert(space.begin(), dims.size() - space.size(), Dim{false, 1});
      for (size_t d = 0; d < dims.size(); ++d) {
        Dim& to = space[space.size() - dims.size() + d];
        if (to.is_one()) to = dims[d];
      }
    }
  }
  return space;
}

// Does `user` use a value among whole rows? Casts of operands have the rank of the operand; who uses them says it.
bool IsFullUse(Operation* user, int64_t rank) {
  if (isa<graph::ReduceOp, sched::YieldOp>(user)) return true;
  if (cast<RankedTensorType>(user->getResult(0).getType()).getRank() == rank) return true;
  const bool is_cast = RowOf(user) != nullptr && RowOf(user)->name == "cast";
  return is_cast && llvm::any_of(user->getUsers(),
                                 [&](Operation* next) { return !isa<sched::YieldOp>(next) && IsFullUse(next, rank); });
}

// Dims of the view against those of the space, aligned at the right end of its first `rank` dims.
bool Align(ViewPlan& view, ArrayRef<Dim> space, size_t rank) {
  const SmallVector<Dim> dims = DimsOf(view.type);
  view.own_dim.assign(space.size(), -1);
  if (dims.size() > rank) return false;
  for (size_t d = 0; d < dims.size(); ++d) {
    const size_t to = rank - dims.size() + d;
    if (dims[d] == space[to]) {
      const bool still = view.known && static_cast<size_t>(view.known.size()) == dims.size() &&
                         view.known[static_cast<int64_t>(d)] == 0;
      if (!dims[d].is_one() && !still) view.own_dim[to] = static_cast<int64_t>(d);
    } else if (!dims[d].is_one()) {
      return false;
    }
  }
  return true;
}

// The operands of gathers: indices lie along the dims before those of a row, which are the table's own. Nothing where
// the argument is something else as well, unless it is a number for each row there, too.
bool AlignGather(ViewPlan& view, BlockArgument argument, ArrayRef<Dim> space, size_t outer) {
  const size_t rank = space.size();
  std::optional<size_t> end;  // of the dims that indices lie along
  for (OpOperand& use : argument.getUses()) {
    if (!IsGather(use.getOwner())) {
      if (outer == rank || IsFullUse(use.getOwner(), static_cast<int64_t>(rank)) || (end && *end != outer))
        return false;
      end = outer;
      continue;
    }
    const size_t row = static_cast<size_t>(RowRankOf(use.getOwner()));
    if (row > rank) return false;
    if (use.getOperandNumber() == 0) {
      view.is_table = true;
    } else {
      if (end && *end != rank - row) return false;
      end = rank - row;
    }
  }
  if (view.is_table == end.has_value()) return false;
  if (end) return Align(view, space, *end);
  const SmallVector<Dim> dims = DimsOf(view.type);
  view.own_dim.assign(rank, -1);
  for (size_t d = 1; d < dims.size(); ++d) {
    const size_t to = rank - dims.size() + d;
    if (dims[d] != space[to] && !dims[d].is_one()) return false;
    const bool still =
        view.known && static_cast<size_t>(view.known.size()) == dims.size() && view.known[static_cast<int64_t>(d)] == 0;
    if (!dims[d].is_one() && !still) view.own_dim[to] = static_cast<int64_t>(d);
  }
  return true;
}

// A result of sums along columns: without the dims that were summed, where they are not kept as dims of 1.
bool AlignColumns(ViewPlan& view, const LoopNest& nest) {
  const size_t rank = nest.space.size();
  if (view.type.getRank() + nest.count != static_cast<int64_t>(rank)) return false;
  const SmallVector<Dim> dims = DimsOf(view.type);
  view.own_dim.assign(rank, -1);
  for (size_t d = 0; d < dims.size(); ++d) {
    const size_t to = d < static_cast<size_t>(nest.first) ? d : d + static_cast<size_t>(nest.count);
    if (dims[d] != nest.space[to]) return false;
    if (!dims[d].is_one()) view.own_dim[to] = static_cast<int64_t>(d);
  }
  return true;
}

// May the loop over dims d and d + 1 of the space be one?
bool Joins(const ViewPlan& view, ArrayRef<Dim> space, size_t d) {
  if (space[d].is_one() || space[d + 1].is_one()) return true;
  const int64_t a = view.own_dim[d], b = view.own_dim[d + 1];
  if (a < 0 && b < 0) return true;
  return a >= 0 && b >= 0 && (!view.known || view.known.empty());
}

// Is it computed from what the op gives?
bool Follows(Value v, Operation* op) {
  llvm::SetVector<Operation*> seen;
  if (v.getDefiningOp() != nullptr) seen.insert(v.getDefiningOp());
  for (size_t n = 0; n < seen.size() && seen[n] != op; ++n)
    for (Value o : seen[n]->getOperands())
      if (o.getDefiningOp() != nullptr) seen.insert(o.getDefiningOp());
  return seen.contains(op);
}

// The entry of a result that is a part of something; nothing: it is a whole.
ArrayRef<int64_t> UpdateOf(sched::KernelOp kernel, size_t result) {
  ArrayAttr updates = kernel.getUpdatesAttr();
  if (!updates) return {};
  for (Attribute entry : updates)
    if (const auto words = cast<DenseI64ArrayAttr>(entry).asArrayRef(); words[0] == static_cast<int64_t>(result))
      return words;
  return {};
}
bool IsBase(sched::KernelOp kernel, size_t operand) {
  ArrayAttr updates = kernel.getUpdatesAttr();
  return updates && llvm::any_of(updates, [&](Attribute entry) {
           return cast<DenseI64ArrayAttr>(entry)[1] == static_cast<int64_t>(operand);
         });
}

}  // namespace

Products ProductsOf(sched::KernelOp kernel) {
  Products products;
  for (Operation& op : kernel.getBody().front())
    if (IsProduct(&op)) (products.first == nullptr ? products.first : products.second) = &op;
  for (Operation& op : kernel.getBody().front()) {
    products.is_causal |= isa<graph::CausalOp>(op);
    if (products.second != nullptr && op.getNumOperands() == 2 && op.getOperand(0) == products.second->getResult(0))
      products.scale = &op;
    Operation* before = products.cast != nullptr    ? products.cast
                        : products.scale != nullptr ? products.scale
                                                    : products.second;
    if (before != nullptr && op.getNumResults() == 1 && op.getNumOperands() == 1 &&
        op.getOperand(0) == before->getResult(0))
      products.cast = &op;
  }
  return products;
}

std::optional<LoopNest> LoopNest::Plan(sched::KernelOp kernel) {
  LoopNest nest;
  nest.space = SpaceOf(kernel);
  nest.row = static_cast<int64_t>(kernel.getRow());
  if (nest.row > static_cast<int64_t>(nest.space.size())) return std::nullopt;
  if (auto cut = kernel.getCut(); cut && (*cut)[3] > 0) {
    nest.first = (*cut)[0];
    nest.count = (*cut)[1];
    if (nest.first < 0 || nest.count < 1 || nest.first + nest.count + 1 != static_cast<int64_t>(nest.space.size()))
      return std::nullopt;
  }
  nest.elsewhere = OnlyBefore(kernel);
  if (!PrologueOf(kernel).empty() && !PlanPrologue(kernel)) return std::nullopt;
  const size_t rank = nest.space.size(), outer = rank - static_cast<size_t>(nest.row);
  Block& body = kernel.getBody().front();
  for (auto [k, argument] : llvm::enumerate(body.getArguments())) {
    ViewPlan view{kernel.getInputs()[k],
                  cast<RankedTensorType>(argument.getType()),
                  cast<DenseI64ArrayAttr>(kernel.getStrides()[k]),
                  {},
                  {}};
    if (argument.use_empty() && IsBase(kernel, k)) {
      view.is_base = true;
      view.own_dim.assign(rank, -1);
      nest.views.push_back(std::move(view));
      continue;
    }
    auto users = argument.getUsers();
    auto is_before = [&](Operation* op) { return nest.elsewhere.contains(op); };
    auto is_elsewhere = [&](Operation* op) { return IsProduct(op) || isa<graph::SizeOp>(op) || is_before(op); };
    view.is_factor = llvm::any_of(users, IsProduct) || llvm::any_of(users, is_before);
    if (view.is_factor && llvm::all_of(users, is_elsewhere)) {
      nest.views.push_back(std::move(view));
      continue;
    }
    if (llvm::any_of(users, IsGather)) {
      if (view.is_factor || !AlignGather(view, argument, nest.space, outer)) return std::nullopt;
      nest.views.push_back(std::move(view));
      continue;
    }
    // A value that only meets numbers of rows without the row's dims lies along the outer dims.
    bool at_end = false, at_outer = false;
    for (Operation* user : users) {
      if (is_elsewhere(user)) continue;
      (IsFullUse(user, static_cast<int64_t>(rank)) ? at_end : at_outer) = true;
    }
    if (at_end && at_outer && view.type.getRank() > 0 && outer != rank) return std::nullopt;
    if (!Align(view, nest.space, at_outer ? outer : rank)) return std::nullopt;
    nest.views.push_back(std::move(view));
  }
  auto yield = cast<sched::YieldOp>(body.back());
  for (auto [k, value] : llvm::enumerate(yield.getValues())) {
    ViewPlan view{kernel.getOutputs()[k], cast<RankedTensorType>(value.getType()), {}, {}, {}};
    if (const ArrayRef<int64_t> update = UpdateOf(kernel, k); !update.empty()) {
      if (nest.count > 0 || update.size() != rank + 3) return std::nullopt;
      view.type = cast<RankedTensorType>(kernel.getResult(static_cast<unsigned>(k)).getType());
      view.update = static_cast<int32_t>(update[2]);
      view.own_dim.assign(update.begin() + 3, update.end());
      nest.views.push_back(std::move(view));
      continue;
    }
    const size_t own = static_cast<size_t>(view.type.getRank());
    // The second product of a kernel has a space of its own.
    if (const Products p = ProductsOf(kernel); p.second != nullptr && Follows(value, p.second)) {
      view.is_factor = true;
      nest.views.push_back(std::move(view));
      continue;
    }
    if (nest.count > 0 && own != rank) {
      if (!AlignColumns(view, nest)) return std::nullopt;
      nest.views.push_back(std::move(view));
      continue;
    }
    if (own != rank && own != outer) return std::nullopt;
    if (!Align(view, nest.space, own)) return std::nullopt;
    nest.views.push_back(std::move(view));
  }
  const bool product = ProductsOf(kernel).first != nullptr;
  for (size_t d = 0; d < rank; ++d) {
    const bool is_cut =
        nest.count > 0 && (static_cast<int64_t>(d) == nest.first || static_cast<int64_t>(d) == nest.first + nest.count);
    const bool joins = !product && d > 0 && d != outer && !is_cut &&
                       llvm::all_of(nest.views, [&](const ViewPlan& v) { return Joins(v, nest.space, d - 1); });
    // Dims of 1 between two others must not hide that those do not join.
    if (joins && !nest.loops.empty()) {
      bool all = true;
      for (const ViewPlan& v : nest.views) {
        int64_t last = -2, moving = 0;
        for (int64_t e = nest.loops.back().first; e <= static_cast<int64_t>(d); ++e) {
          if (nest.space[static_cast<size_t>(e)].is_one()) continue;
          const int64_t own = v.own_dim[static_cast<size_t>(e)];
          if (last != -2 && (own < 0) != (last < 0)) all = false;
          last = own;
          moving += own >= 0;
        }
        if (moving > 1 && v.known && !v.known.empty()) all = false;
        if (v.update >= 0 &&
            !IsOneRun(nest.space, DimsOf(v.type), v.own_dim, static_cast<size_t>(nest.loops.back().first), d))
          all = false;
      }
      if (all) {
        nest.loops.back().second = static_cast<int64_t>(d);
        continue;
      }
    }
    nest.loops.push_back({static_cast<int64_t>(d), static_cast<int64_t>(d)});
  }
  if (nest.row > 0) {
    size_t row_loops = 0;
    for (const auto& [first, last] : nest.loops) row_loops += first >= static_cast<int64_t>(outer);
    if (row_loops != 1) return std::nullopt;
  }
  nest.Place();
  return nest;
}

std::optional<LoopNest> LoopNest::PlanPrologue(sched::KernelOp kernel) {
  LoopNest nest;
  Block& body = kernel.getBody().front();
  nest.space = DimsOf(ProductsOf(kernel).first->getOperand(0).getType());
  const OpSet before = PrologueOf(kernel);
  for (Operation& op : body.without_terminator())
    if (!before.contains(&op)) nest.elsewhere.insert(&op);
  for (auto [k, argument] : llvm::enumerate(body.getArguments())) {
    ViewPlan view{kernel.getInputs()[k],
                  cast<RankedTensorType>(argument.getType()),
                  cast<DenseI64ArrayAttr>(kernel.getStrides()[k]),
                  {},
                  {}};
    view.is_factor = llvm::none_of(argument.getUsers(), [&](Operation* user) { return before.contains(user); });
    if (!view.is_factor && !Align(view, nest.space, nest.space.size())) return std::nullopt;
    nest.views.push_back(std::move(view));
  }
  for (auto [id, value] : llvm::zip(kernel.getOutputs(), body.back().getOperands())) {
    ViewPlan view{id, cast<RankedTensorType>(value.getType()), {}, {}, {}};
    view.is_factor = true;
    nest.views.push_back(std::move(view));
  }
  for (int64_t d = 0; d < static_cast<int64_t>(nest.space.size()); ++d) nest.loops.push_back({d, d});
  nest.Place();
  return nest;
}

void LoopNest::Place() {
  for (ViewPlan& v : views) {
    const bool dense = !v.known || v.known.empty();
    for (const auto& [first, last] : loops) {
      int64_t own = -1;  // the innermost of the loop's dims along which it moves
      for (int64_t d = first; d <= last && !v.own_dim.empty(); ++d)
        if (v.own_dim[static_cast<size_t>(d)] >= 0) own = v.own_dim[static_cast<size_t>(d)];
      Stride s;
      s.dim = own;
      if (own >= 0) {
        s.kind = dense ? Stride::Kind::dense : v.known[own] == 1 ? Stride::Kind::one : Stride::Kind::table;
      }
      v.loops.push_back(s);
    }
  }
}

}  // namespace tessera::compiler
