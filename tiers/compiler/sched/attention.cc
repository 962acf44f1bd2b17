// Attention that is written by hand is any element-wise function of scores: a scale, a soft cap, biases, masks. What it
// is made of is found before ops are grouped, from the first product on, and becomes one group (sched/fuse.cc).
//
// Positions (iota) and what follows from them alone, such as a mask that compares those of queries and keys, are often
// used by many layers, and are smaller than scores. Each kernel computes them anew from where a score lies: that takes
// less than to read them.
#include "tiers/compiler/sched/attention.h"

#include <cmath>
#include <functional>

#include "tiers/compiler/sched/columns.h"
#include "tiers/compiler/sched/group.h"
#include "tiers/compiler/sched/kinds.h"
#include "tiers/compiler/sched/product.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr size_t kMostPositionOps = 12;

bool Is(Operation* op, StringRef name) {
  const TableRow* row = op == nullptr ? nullptr : RowOf(op);
  return row != nullptr && row->name == name;
}
Type ElementOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }

// A reduction along the last dim, which stays as a dim of 1.
bool IsOfRow(Operation* op, StringRef name) {
  if (!Is(op, name)) return false;
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes");
  const SmallVector<Dim> in = DimsOf(op->getOperand(0).getType()), out = DimsOf(op->getResult(0).getType());
  if (!axes || axes.size() != 1 || in.size() != out.size()) return false;
  return axes[0] == -1 || axes[0] == static_cast<int64_t>(in.size()) - 1;
}

// The dims are those of the space, aligned at the right end, or 1.
bool LiesIn(ArrayRef<Dim> dims, ArrayRef<Dim> space) {
  if (dims.size() > space.size()) return false;
  for (auto [own, of] : llvm::zip(dims, space.take_back(dims.size())))
    if (own != of && !own.is_one()) return false;
  return true;
}

Value ThroughCasts(Value v) {
  while (v.getDefiningOp() != nullptr && Is(v.getDefiningOp(), "cast")) v = v.getDefiningOp()->getOperand(0);
  return v;
}

// e / sum(e) of e = exp(x - max(x)), whose ops are in the set, is what the second product multiplies: its x; or that of
// a softmax.
Value SoftmaxOf(Operation* weights) {
  if (Is(weights, "softmax")) return weights->getOperand(0);
  if (!Is(weights, "div")) return Value();
  Operation *exp = weights->getOperand(0).getDefiningOp(), *sum = weights->getOperand(1).getDefiningOp();
  if (!Is(exp, "exp") || !IsOfRow(sum, "sum") || sum->getOperand(0) != exp->getResult(0)) return Value();
  Operation* sub = exp->getOperand(0).getDefiningOp();
  if (!Is(sub, "sub") || !ElementOf(sub->getResult(0)).isF32()) return Value();
  Operation* max = sub->getOperand(1).getDefiningOp();
  return IsOfRow(max, "max") && max->getOperand(0) == sub->getOperand(0) ? sub->getOperand(0) : Value();
}

class Finder {
 public:
  Finder(Operation* product, const CompileOptions& options) : options_(options) {
    found_.keys = product;
    space_ = DimsOf(product->getResult(0).getType());
  }

  std::optional<WrittenAttention> Run() {
    if (KindOf(found_.keys, options_).c != Class::product || !IsProduct(found_.keys) || space_.size() < 2)
      return std::nullopt;
    found_.ops.insert(found_.keys);
    for (Operation* op = found_.keys->getNextNode(); op != nullptr; op = op->getNextNode()) {
      const bool uses =
          llvm::any_of(op->getOperands(), [&](Value v) { return found_.ops.contains(v.getDefiningOp()); });
      if (!uses) {
        between_.push_back(op);
        continue;
      }
      if (IsProduct(op)) {
        if (!Finish(op)) return std::nullopt;
        TakeWhatFollows();
        return found_;
      }
      if (!MayBeWithin(op)) return std::nullopt;
      found_.ops.insert(op);
    }
    return std::nullopt;
  }

 private:
  // Element-wise on scores, or along their rows. Numbers of rows have a dim of 1.
  bool MayBeWithin(Operation* op) const {
    const bool is_row = Is(op, "softmax") || IsOfRow(op, "max") || IsOfRow(op, "sum");
    const Class c = KindOf(op, options_).c;
    if (op->getNumResults() != 1 || found_.ops.size() + 1 >= kMostOps) return false;
    if (is_row) return (c == Class::row || c == Class::reduction) && DimsOf(op->getOperand(0).getType()) == space_;
    return c == Class::elementwise && DimsOf(op->getResult(0).getType()) == space_;
  }

  bool Finish(Operation* product) {
    found_.values = product;
    if (KindOf(product, options_).c != Class::product || Transposes(product, "transpose_a") ||
        found_.ops.contains(product->getOperand(1).getDefiningOp()))
      return false;
    const SmallVector<Dim> out = DimsOf(product->getResult(0).getType());
    if (DimsOf(product->getOperand(0).getType()) != space_ ||
        ArrayRef<Dim>(out).drop_back() != ArrayRef<Dim>(space_).drop_back())
      return false;
    for (Operation* op : {found_.keys, product}) {
      const Type element = ElementOf(op->getOperand(0));
      if (op->getNumOperands() != 2 || ElementOf(op->getOperand(1)) != element ||
          !(element.isBF16() || element.isF16()))
        return false;
    }
    Operation* weights = ThroughCasts(product->getOperand(0)).getDefiningOp();
    Value scores = weights == nullptr ? Value() : SoftmaxOf(weights);
    if (!scores || !found_.ops.contains(scores.getDefiningOp())) return false;
    found_.ops.insert(product);
    const int32_t last = StepOf(product);
    int rows = 0;
    for (Operation* op : found_.ops) {
      rows += Is(op, "softmax") || Is(op, "max") || Is(op, "sum");
      if (op == product) continue;
      auto until = op->getAttrOfType<DenseI32ArrayAttr>("until");
      if (!IsLoose(op) && (!until || until[0] > last)) return false;
      if (!llvm::all_of(op->getUsers(), [&](Operation* user) { return found_.ops.contains(user); })) return false;
    }
    if (rows != (Is(weights, "softmax") ? 1 : 2)) return false;
    // Weights have no other use, and nothing follows the softmax but a cast.
    if (!Is(weights, "softmax") && weights->getOperand(0).getDefiningOp()->getNumResults() != 1) return false;
    for (Value v = product->getOperand(0); v.getDefiningOp() != scores.getDefiningOp();
         v = v.getDefiningOp()->getOperand(0)) {
      const size_t uses = static_cast<size_t>(std::distance(v.use_begin(), v.use_end()));
      if (uses > (Is(v.getDefiningOp(), "exp") ? 2u : 1u)) return false;
    }
    for (Operation* op : between_)
      if (op->isBeforeInBlock(product) && KindOf(op, options_).c == Class::barrier) return false;
    // What else is read must be there, and not follow from scores in another way.
    return HasSizes();
  }

  // Ops that are computed from the result and numbers of its rows, as long as nobody else needs what is between.
  void TakeWhatFollows() {
    const SmallVector<Dim> out = DimsOf(found_.values->getResult(0).getType());
    for (Operation* op = found_.values->getNextNode(); op != nullptr; op = op->getNextNode()) {
      const Class c = KindOf(op, options_).c;
      if (c == Class::barrier) return;
      Value before = found_.ops.back()->getResult(0);
      if (!llvm::is_contained(op->getOperands(), before)) continue;
      auto until = found_.ops.back()->getAttrOfType<DenseI32ArrayAttr>("until");
      const bool is_only =
          llvm::all_of(before.getUsers(), [&](Operation* user) { return user == op; }) &&
          (IsLoose(found_.ops.back()) || (until && until[0] <= (IsLoose(op) ? INT32_MAX - 1 : StepOf(op))));
      const bool has_numbers = llvm::all_of(op->getOperands(), [&](Value v) {
        const SmallVector<Dim> dims = DimsOf(v.getType());
        return v == before || (LiesIn(dims, out) && (dims.empty() || dims.back().is_one()));
      });
      if (c != Class::elementwise || op->getNumResults() != 1 || DimsOf(op->getResult(0).getType()) != out ||
          !is_only || !has_numbers || found_.ops.size() + 1 >= kMostOps)
        break;
      found_.ops.insert(op);
    }
    // What is written is a step's.
    while (IsLoose(found_.ops.back())) found_.ops.pop_back();
  }

  // Heads of up to 128 elements, and dims that the device's copies take.
  bool HasSizes() const {
    auto trace = found_.keys->getParentOfType<graph::TraceOp>();
    const SmallVector<Dim> left = DimsOf(found_.keys->getOperand(0).getType());
    const Dim depth = left[left.size() - (Transposes(found_.keys, "transpose_a") ? 2 : 1)];
    const Dim width = DimsOf(found_.values->getResult(0).getType()).back();
    if (!IsHead(trace, depth) || !IsHead(trace, width)) return false;
    const auto batches = llvm::count_if(ArrayRef<Dim>(space_).drop_back(2), [](const Dim& d) { return !d.is_one(); });
    return batches <= 3;
  }

  const CompileOptions& options_;
  WrittenAttention found_;
  SmallVector<Dim> space_;
  SmallVector<Operation*> between_;  // of the trace, and not part of it
};

// Computed as tier 1 does: floats by multiplying, integers from integers.
bool IsSimple(Operation* positions) {
  Type element = ElementOf(positions->getResult(0));
  const bool is_exact = llvm::none_of(positions->getOperands(), [](Value v) { return isa<FloatType>(ElementOf(v)); });
  return element.isF32() || (is_exact && (element.isInteger(64) || element.isInteger(32)));
}

// Ops that a value follows from, if it follows from positions and is smaller than the scores; false: it does not, or
// there are too many.
bool FollowsFromPositions(Value v, ArrayRef<Dim> space, llvm::SetVector<Operation*>& ops, bool& has_positions) {
  Operation* op = v.getDefiningOp();
  if (op == nullptr || ops.contains(op)) return true;
  if (IsPositions(op)) {
    if (!IsSimple(op)) return true;
    has_positions = true;
    ops.insert(op);
    return true;
  }
  // Positions of queries are a column.
  if (Is(op, "reshape") || Is(op, "unsqueeze")) {
    Operation* of = op->getOperand(0).getDefiningOp();
    if (of == nullptr || !IsPositions(of) || !IsSimple(of) || DimsOf(of->getResult(0).getType()).size() != 1)
      return true;
    if (llvm::count_if(DimsOf(op->getResult(0).getType()), [](const Dim& d) { return !d.is_one(); }) != 1) return true;
    has_positions = true;
    ops.insert(op);
    return true;
  }
  const bool is_elementwise = isa<graph::NumberOp>(op) || IsElementwise(op) || Is(op, "cast");
  if (!is_elementwise || !LiesIn(DimsOf(v.getType()), space)) return true;
  llvm::SetVector<Operation*> own;
  bool has = false;
  for (Value o : op->getOperands())
    if (!FollowsFromPositions(o, space, own, has)) return false;
  if (!has) return true;
  has_positions = true;
  ops.insert(own.begin(), own.end());
  ops.insert(op);
  return ops.size() <= kMostPositionOps;
}

// Is it a comparison, or several that must all hold, of which one says that a key comes no later than a query?
bool FindOrder(Value condition, AttentionOps& a) {
  Operation* op = condition.getDefiningOp();
  if (Is(op, "logical_and")) {
    a.is_order_alone = false;
    return FindOrder(op->getOperand(0), a) || FindOrder(op->getOperand(1), a);
  }
  const bool is_up = Is(op, "ge") || Is(op, "gt"), is_down = Is(op, "le") || Is(op, "lt");
  if (!is_up && !is_down) return false;
  Operation* queries = op->getOperand(is_up ? 0 : 1).getDefiningOp();
  Operation* keys = op->getOperand(is_up ? 1 : 0).getDefiningOp();
  // How far from the last dim they run.
  auto from_end = [](Operation* positions) -> int64_t {
    if (positions == nullptr || !IsPositions(positions) || isa<FloatType>(ElementOf(positions->getResult(0)))) return 0;
    auto axis = positions->getAttrOfType<IntegerAttr>("axis");
    const auto dims = static_cast<int64_t>(DimsOf(positions->getResult(0).getType()).size());
    return dims - (axis ? axis.getInt() : 0);
  };
  if (from_end(queries) != 2 || from_end(keys) != 1) return false;
  a.query_positions = queries;
  a.key_positions = keys;
  a.sees_own = Is(op, "ge") || Is(op, "le");
  return true;
}

}  // namespace

bool IsHead(graph::TraceOp trace, const Dim& d) {
  constexpr int64_t kFewest = 8, kMost = 128;
  const int64_t n = trace ? LikelyOf(trace, d) : -1;
  return n >= kFewest && n <= kMost && (d.is_symbol || n % 8 == 0);
}

bool IsPositions(Operation* op) { return Is(op, "iota"); }

std::optional<WrittenAttention> FindAttention(Operation* product, const CompileOptions& options) {
  return Finder(product, options).Run();
}

void TakePositions(WrittenAttention& attention) {
  const SmallVector<Dim> space = DimsOf(attention.keys->getResult(0).getType());
  const int32_t last = StepOf(attention.values);
  llvm::SetVector<Operation*> taken;
  llvm::DenseMap<Value, Value> copies;
  OpBuilder b(attention.keys);
  std::function<Value(Value)> copy = [&](Value v) -> Value {
    Operation* op = v.getDefiningOp();
    if (op == nullptr || !taken.contains(op)) return v;
    Value& made = copies[v];
    if (made) return made;
    Operation* clone;
    if (Is(op, "reshape") || Is(op, "unsqueeze")) {
      // Positions along the dim that is no 1.
      clone = b.clone(*op->getOperand(0).getDefiningOp());
      const SmallVector<Dim> dims = DimsOf(v.getType());
      const auto* axis = llvm::find_if(dims, [](const Dim& d) { return !d.is_one(); });
      clone->getResult(0).setType(cast<RankedTensorType>(v.getType()));
      clone->setAttr("axis", b.getI64IntegerAttr(axis - dims.begin()));
      clone->removeAttr("dims");
    } else {
      SmallVector<Value> operands;
      for (Value o : op->getOperands()) operands.push_back(copy(o));
      clone = b.clone(*op);
      clone->setOperands(operands);
      // With as many dims as scores have: so they are no numbers of rows.
      if (!IsPositions(op)) {
        SmallVector<Dim> dims = DimsOf(v.getType());
        dims.insert(dims.begin(), space.size() - dims.size(), Dim{false, 1});
        clone->getResult(0).setType(TensorOf(b.getContext(), dims, ElementOf(v)));
      }
    }
    for (StringRef name : {"step", "values", "until", "tsr.strides"}) clone->removeAttr(name);
    return copies[v] = clone->getResult(0);
  };
  for (Operation* op : attention.ops) {
    if (op == attention.keys || op == attention.values) continue;
    for (OpOperand& operand : op->getOpOperands()) {
      if (attention.ops.contains(operand.get().getDefiningOp())) continue;
      llvm::SetVector<Operation*> ops;
      bool has = false;
      if (!FollowsFromPositions(operand.get(), space, ops, has) || !has) continue;
      taken.insert(ops.begin(), ops.end());
      b.setInsertionPoint(op);
      copies.clear();
      operand.set(copy(operand.get()));
    }
  }
  // Users come after what they use.
  SmallVector<Operation*> ops(taken.begin(), taken.end());
  llvm::sort(ops, [](Operation* x, Operation* y) { return y->isBeforeInBlock(x); });
  for (Operation* op : ops) {
    auto until = op->getAttrOfType<DenseI32ArrayAttr>("until");
    const bool is_needed =
        llvm::any_of(op->getUsers(), [&](Operation* user) { return !llvm::is_contained(attention.own, user); });
    if (is_needed) continue;
    if (IsLoose(op)) {
      op->erase();
    } else if (until && until[0] <= last) {
      attention.own.push_back(op);
    }
  }
}

bool WantsAttention(Operation* op, const CompileOptions& options) {
  if (options.device != "sm_90a") return false;
  const std::string mine = "p" + std::to_string(StepOf(op));
  SmallVector<StringRef> products;
  StringRef(options.schedule).split(products, '+', -1, false);
  for (StringRef product : products) {
    auto [name, values] = product.split(':');
    if (name != mine && name != "*") continue;
    SmallVector<StringRef> entries;
    values.split(entries, ',', -1, false);
    return llvm::is_contained(entries, "form=attention");
  }
  return false;
}

std::optional<AttentionOps> AttentionOf(sched::KernelOp kernel) {
  AttentionOps a;
  for (Operation& op : kernel.getBody().front())
    if (IsProduct(&op)) (a.keys == nullptr ? a.keys : a.values) = &op;
  if (a.values == nullptr || kernel.getNumResults() != 1) return std::nullopt;
  Operation* exp = ThroughCasts(a.values->getOperand(0)).getDefiningOp();
  if (exp == nullptr || !exp->hasAttr("weight")) return std::nullopt;
  Operation* sub = exp->getOperand(0).getDefiningOp();
  if (!Is(sub, "sub")) return std::nullopt;
  Value top = sub->getOperand(1);
  if (Is(top.getDefiningOp(), "where")) top = top.getDefiningOp()->getOperand(1);
  a.max = top.getDefiningOp<graph::ReduceOp>();
  if (!a.max || a.max.getKind() != "max" || a.max.getX() != sub->getOperand(0)) return std::nullopt;
  for (Operation* user : exp->getUsers()) {
    auto sum = dyn_cast<graph::ReduceOp>(user);
    if (sum && sum.getKind() == "sum" && !a.sum)
      a.sum = sum;
    else if (user != a.values && !(Is(user, "cast") && user->hasOneUse()))
      return std::nullopt;
  }
  if (!a.sum) return std::nullopt;
  a.scores = sub->getOperand(0);
  auto through_casts = [&] {
    // Scores are f32 in the kernel, whatever they are called.
    while (Is(a.scores.getDefiningOp(), "cast") && ElementOf(a.scores).isF32() &&
           IsNarrowFloat(ElementOf(a.scores.getDefiningOp()->getOperand(0))))
      a.scores = a.scores.getDefiningOp()->getOperand(0);
  };
  through_casts();
  if (auto causal = a.scores.getDefiningOp<graph::CausalOp>()) {
    a.is_causal = true;
    a.scores = causal.getX();
    through_casts();
  }
  if (Operation* where = a.scores.getDefiningOp(); Is(where, "where") && !a.is_causal) {
    const bool is_number = DimsOf(where->getOperand(2).getType()).empty();
    if (is_number && FindOrder(where->getOperand(0), a)) a.where = where;
  }
  if (Operation* mul = a.scores.getDefiningOp(); Is(mul, "mul")) {
    auto number = mul->getOperand(1).getDefiningOp<graph::NumberOp>();
    const double scale = number ? number.getValue().convertToDouble() : 0;
    if (scale > 0 && std::isfinite(scale)) {
      a.scale = scale;
      a.scores = mul->getOperand(0);
    }
  }
  return a;
}

}  // namespace tessera::compiler
