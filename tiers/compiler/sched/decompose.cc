// tsr-decompose: within kernels, reductions, softmax and norms become tsr_graph.reduce and element-wise ops.
//
// The numerics policy becomes explicit here. Narrow floats are cast to f32 before and back once after; softmax
// subtracts the largest element of its row; a variance is taken about the mean in a second pass; sums are kept in f64
// by tsr_graph.reduce itself. Attention is a product, a softmax whose rows may be all masked, and another product.
// After this pass a kernel holds only element-wise ops, casts, reshapes over dims of 1, reductions and matrix products,
// so the lowering to tiles knows nothing of softmax.
//
// Rows that are scaled and then multiplied with a matrix are multiplied first and scaled after: the result has fewer
// elements than the rows, and the reciprocal of a softmax's sum is not known before its last element.
#include <cmath>
#include <limits>

#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

class Decomposer {
 public:
  explicit Decomposer(Operation* op) : op_(op), b_(op), row_(RowOf(op)) {}

  // Replaces the op if it is one of those.
  void Run() {
    if (row_ == nullptr || op_->getNumOperands() == 0) return;
    const StringRef name = row_->name;
    const bool is_reduction =
        name == "sum" || name == "mean" || name == "max" || name == "min" || name == "var" || name == "logsumexp";
    const bool is_row = name == "softmax" || name == "log_softmax" || name == "layer_norm" || name == "rms_norm";
    if (name == "attention") return Attention();
    if (!is_reduction && !is_row) return;
    Type out = op_->getResult(0).getType();
    Value x = op_->getOperand(0);
    const int64_t rank = cast<RankedTensorType>(x.getType()).getRank();
    auto ints = op_->getAttrOfType<DenseI64ArrayAttr>("axes");
    auto dims = op_->getAttrOfType<IntegerAttr>("dims");
    k_ = is_reduction ? (ints && !ints.empty() ? static_cast<int64_t>(ints.size()) : rank) : dims ? dims.getInt() : 1;
    const bool order = name == "max" || name == "min";
    auto kernel = cast<sched::KernelOp>(op_->getParentOp());
    if (auto cut = kernel.getCut(); is_reduction && cut && (*cut)[3] > 0) from_ = (*cut)[0];
    // Sums of integers are sums of i64, which wrap.
    if (!isa<FloatType>(ElementOf(x)) && !order) x = Cast(x, b_.getI64Type());
    if (!order) x = Wide(x);
    Value y;
    if (name == "sum" || name == "mean" || order) {
      y = Reduce(name, x);
    } else if (from_) {
      // Along columns tasks have parts of what each pass would need: how those are put together is the lowering's.
      y = Reduce(name, x, Number("correction", 0.0));
    } else if (name == "var") {
      y = Variance(x, Number("correction", 0.0));
    } else if (name == "logsumexp") {
      // Where the largest element is infinite it is the answer: what is subtracted must be finite, and no weights
      // follow.
      Value m = Finite(Largest(x));
      y = Ew("add", {Ew("log", {Reduce("sum", Ew("exp", {Ew("sub", {x, m})}))}), m});
    } else if (name == "softmax") {
      Value e = Weight(Ew("sub", {x, Largest(x)}));
      // One division for each row.
      y = Ew("mul", {e, Ew("reciprocal", {Reduce("sum", e)})});
    } else if (name == "log_softmax") {
      Value d = Ew("sub", {x, Largest(x)});
      y = Ew("sub", {d, Ew("log", {Reduce("sum", Weight(d))})});
    } else {
      Value centred = name == "layer_norm" ? Ew("sub", {x, Reduce("mean", x)}) : x;
      Value square = Ew("mul", {centred, centred});
      Value eps = Constant(Number("eps", name == "layer_norm" ? 1e-5 : 1e-6), x);
      Value scale = Ew("rsqrt", {Ew("add", {Reduce("mean", square), eps})});
      y = Ew("mul", {centred, scale});
      if (op_->getNumOperands() > 1) y = Ew("mul", {y, Wide(op_->getOperand(1))});
      if (op_->getNumOperands() > 2) y = Ew("add", {y, Wide(op_->getOperand(2))});
    }
    y = Cast(y, cast<RankedTensorType>(out).getElementType());
    if (y.getType() != out) y = Make("reshape", {y}, out);
    op_->replaceAllUsesWith(ValueRange{y});
    op_->erase();
  }

  // e / sum(e) with e = exp(x - max(x)) is a softmax, whoever wrote it: its weights, and one division for each row.
  void AsSoftmax() {
    if (row_ == nullptr || row_->name != "div") return;
    Value e = op_->getOperand(0), s = op_->getOperand(1);
    auto sum = s.getDefiningOp<graph::ReduceOp>();
    Operation* exp = e.getDefiningOp();
    if (!sum || sum.getKind() != "sum" || sum.getX() != e || !Is(exp, "exp")) return;
    Operation* sub = exp->getOperand(0).getDefiningOp();
    if (!Is(sub, "sub")) return;
    auto max = sub->getOperand(1).getDefiningOp<graph::ReduceOp>();
    if (!max || max.getKind() != "max" || max.getX() != sub->getOperand(0) || max.getRank() != sum.getRank()) return;
    // Weights are no plain exponentials: nobody else may see them.
    for (Operation* user : e.getUsers())
      if (user != op_ && user != sum.getOperation()) return;
    if (IsNarrowFloat(ElementOf(e))) return;
    exp->setAttr("weight", b_.getUnitAttr());
    if (max->hasOneUse() && sub->hasOneUse()) max.setLoose(true);
    Value y = Ew("mul", {e, Ew("reciprocal", {s})});
    op_->replaceAllUsesWith(ValueRange{y});
    op_->erase();
  }

  // The same of narrow floats where weights stay in registers: product(cast(x * r), m) becomes product(x, m) * r, and
  // the kernel rounds x, which is no more than 1, in place of x * r.
  void WeighFirst() {
    if (!IsProduct(op_) || !FollowsProduct()) return;
    Operation* cast = op_->getOperand(0).getDefiningOp();
    if (!Is(cast, "cast") || !cast->hasOneUse()) return;
    Operation* mul = cast->getOperand(0).getDefiningOp();
    if (!Is(mul, "mul") || !mul->hasOneUse() || !IsNumberOfRow(mul->getOperand(1), mul->getOperand(0))) return;
    Value x = mul->getOperand(0), y = op_->getResult(0), r = mul->getOperand(1);
    const Type element = ElementOf(y);
    op_->setOperand(0, x);
    y.setType(TensorOf(b_.getContext(), DimsOf(y.getType()), ElementOf(x)));
    b_.setInsertionPointAfter(op_);
    Value scaled = Make("mul", {y, r}, y.getType());
    y.replaceAllUsesExcept(Cast(scaled, element), scaled.getDefiningOp());
    cast->erase();
    mul->erase();
  }

  // product(x * r, m) becomes product(x, m) * r where r is a number for each row.
  void ScaleAfter() {
    // Of rows that another product gave; what is before the first one is computed as it was written.
    if (!IsProduct(op_) || !FollowsProduct()) return;
    Operation* mul = op_->getOperand(0).getDefiningOp();
    if (mul == nullptr || RowOf(mul) == nullptr || RowOf(mul)->name != "mul" || !mul->hasOneUse()) return;
    Value x = mul->getOperand(0), r = mul->getOperand(1);
    if (!IsNumberOfRow(r, x)) return;
    op_->setOperand(0, x);
    b_.setInsertionPointAfter(op_);
    Value scaled = Make("mul", {op_->getResult(0), r}, op_->getResult(0).getType());
    op_->getResult(0).replaceAllUsesExcept(scaled, scaled.getDefiningOp());
    mul->erase();
  }

 private:
  static bool Is(Operation* op, StringRef name) {
    const TableRow* row = op == nullptr ? nullptr : RowOf(op);
    return row != nullptr && row->name == name;
  }

  bool FollowsProduct() const {
    for (Operation* op = op_->getPrevNode(); op != nullptr; op = op->getPrevNode())
      if (IsProduct(op)) return true;
    return false;
  }

  static bool IsNumberOfRow(Value r, Value x) {
    const SmallVector<Dim> rows = DimsOf(r.getType()), all = DimsOf(x.getType());
    return r.getDefiningOp() != nullptr && rows.size() == all.size() && rows.back().is_one() &&
           ArrayRef<Dim>(rows).drop_back() == ArrayRef<Dim>(all).drop_back();
  }

  void Attention() {
    k_ = 1;
    Value q = op_->getOperand(0), k = op_->getOperand(1), v = op_->getOperand(2);
    SmallVector<Dim> dims = DimsOf(q.getType());
    const SmallVector<Dim> keys = DimsOf(k.getType());
    const Dim depth = dims.back();
    dims.back() = keys[keys.size() - 2];
    Type wide = ComputeType(ElementOf(q));
    auto product = [&](Value a, Value c, bool transposed, ArrayRef<Dim> to) {
      OperationState state(op_->getLoc(), "tsr_graph.matmul");
      state.addOperands({a, c});
      state.addTypes(TensorOf(b_.getContext(), to, wide));
      state.addAttribute("transpose_b", b_.getBoolAttr(transposed));
      return b_.create(state)->getResult(0);
    };
    Value s = product(q, k, true, dims);
    const double given = Number("scale", 0);
    Value scale;
    if (given != 0 || !depth.is_symbol) {
      // Sums of nothing are zeros, whatever the scale.
      const double otherwise = depth.value == 0 ? 1 : 1 / std::sqrt(static_cast<double>(depth.value));
      scale = Constant(given != 0 ? given : otherwise, s);
    } else {
      Type f64 = TensorOf(b_.getContext(), {}, b_.getF64Type());
      Value size = graph::SizeOp::create(b_, op_->getLoc(), f64, q,
                                         b_.getI64IntegerAttr(cast<RankedTensorType>(q.getType()).getRank() - 1));
      scale = Cast(Make("rsqrt", {size}, f64), wide);
    }
    s = Ew("mul", {s, scale});
    if (op_->getNumOperands() > 3) {
      Value mask = op_->getOperand(3);
      if (ElementOf(mask).isInteger(1))
        s = Make("where", {mask, s, Constant(-std::numeric_limits<double>::infinity(), s)}, s.getType());
      else
        s = Ew("add", {s, Cast(mask, wide)});
    }
    auto causal = op_->getAttrOfType<BoolAttr>("causal");
    if (causal && causal.getValue()) s = graph::CausalOp::create(b_, op_->getLoc(), s.getType(), s);
    // A row that is masked as a whole has weights of zero.
    Value e = Weight(Ew("sub", {s, Finite(Largest(s))}));
    Value sum = Reduce("sum", e);
    Value none = Make("eq", {sum, Constant(0, sum)}, TensorOf(b_.getContext(), DimsOf(sum.getType()), b_.getI1Type()));
    Value r = Make("where", {none, Constant(0, sum), Ew("reciprocal", {sum})}, sum.getType());
    dims.back() = DimsOf(v.getType()).back();
    Type out = op_->getResult(0).getType();
    Value y = Cast(Ew("mul", {product(e, v, false, dims), r}), ElementOf(op_->getResult(0)));
    // Its dims may be known by other names than those of the queries.
    if (y.getType() != out) y = Make("reshape", {y}, out);
    op_->replaceAllUsesWith(ValueRange{y});
    op_->erase();
  }

  static Type ElementOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }

  Value Make(StringRef name, ValueRange operands, Type type) {
    OperationState state(op_->getLoc(), ("tsr_graph." + name).str());
    state.addOperands(operands);
    state.addTypes(type);
    return b_.create(state)->getResult(0);
  }

  // The result has the dims of the operands, broadcast.
  Value Ew(StringRef name, ArrayRef<Value> operands) {
    SmallVector<Dim> dims;
    for (Value v : operands) {
      const SmallVector<Dim> in = DimsOf(v.getType());
      if (in.size() > dims.size()) dims.insert(dims.begin(), in.size() - dims.size(), Dim{false, 1});
      for (size_t d = 0; d < in.size(); ++d) {
        Dim& to = dims[dims.size() - in.size() + d];
        if (to.is_one()) to = in[d];
      }
    }
    return Make(name, operands, TensorOf(b_.getContext(), dims, ElementOf(operands[0])));
  }

  // e^x of numbers that are 0 or less: a weight of a softmax.
  Value Weight(Value x) {
    Value e = Ew("exp", {x});
    e.getDefiningOp()->setAttr("weight", b_.getUnitAttr());
    return e;
  }

  Value Cast(Value v, Type element) {
    if (ElementOf(v) == element) return v;
    return Make("cast", {v}, TensorOf(b_.getContext(), DimsOf(v.getType()), element));
  }

  Value Wide(Value v) { return IsNarrowFloat(ElementOf(v)) ? Cast(v, b_.getF32Type()) : v; }

  Value Reduce(StringRef kind, Value x, double correction = 0) {
    SmallVector<Dim> dims = DimsOf(x.getType());
    const size_t from = from_ ? static_cast<size_t>(*from_) : dims.size() - static_cast<size_t>(k_);
    for (size_t d = from; d < from + static_cast<size_t>(k_); ++d) dims[d] = {false, 1};
    return graph::ReduceOp::create(b_, op_->getLoc(), TensorOf(b_.getContext(), dims, ElementOf(x)), x,
                                   b_.getStringAttr(kind), b_.getI64IntegerAttr(k_),
                                   from_ ? b_.getI64IntegerAttr(*from_) : IntegerAttr(),
                                   correction != 0 ? b_.getF64FloatAttr(correction) : FloatAttr(), UnitAttr());
  }

  // What is subtracted before exponentials are summed. An element that is NaN makes the sum NaN, and with it whatever
  // the row is for: that the maximum is NaN too adds nothing, and costs five instructions for each vector on x86-64.
  Value Largest(Value x) {
    Value m = Reduce("max", x);
    m.getDefiningOp<graph::ReduceOp>().setLoose(true);
    return m;
  }

  Value Variance(Value x, double correction) {
    Value d = Ew("sub", {x, Reduce("mean", x)});
    return Reduce("mean", Ew("mul", {d, d}), correction);
  }

  Value Constant(double value, Value like) {
    return graph::NumberOp::create(b_, op_->getLoc(), TensorOf(b_.getContext(), {}, ElementOf(like)),
                                   b_.getF64FloatAttr(value));
  }

  Value Finite(Value m) {
    Value zero = Constant(0, m);
    Type flags = TensorOf(b_.getContext(), DimsOf(m.getType()), b_.getI1Type());
    Value finite = Make("isfinite", {m}, flags);
    return Make("where", {finite, m, zero}, m.getType());
  }

  double Number(StringRef name, double otherwise) {
    auto attr = op_->getAttrOfType<FloatAttr>(name);
    return attr ? attr.getValueAsDouble() : otherwise;
  }

  Operation* op_;
  OpBuilder b_;
  const TableRow* row_;
  int64_t k_ = 0;
  std::optional<int64_t> from_;  // of a sum along columns: the first dim that is summed
};

class DecomposePass : public PassWrapper<DecomposePass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DecomposePass)
  StringRef getArgument() const override { return "tsr-decompose"; }
  StringRef getDescription() const override { return "reductions, softmax and norms within kernels made explicit"; }
  void runOnOperation() override {
    getOperation().walk([](sched::KernelOp kernel) {
      SmallVector<Operation*> ops;
      for (Operation& op : kernel.getBody().front()) ops.push_back(&op);
      for (Operation* op : ops) Decomposer(op).Run();
      auto again = [&](void (Decomposer::*rule)()) {
        ops.clear();
        for (Operation& op : kernel.getBody().front()) ops.push_back(&op);
        for (Operation* op : ops) (Decomposer(op).*rule)();
      };
      again(&Decomposer::AsSoftmax);
      again(&Decomposer::ScaleAfter);
      auto form = kernel.getProduct() ? kernel.getProduct()->getAs<StringAttr>("form") : StringAttr();
      if (form && form.getValue() == "attention") again(&Decomposer::WeighFirst);
    });
  }
};

}  // namespace

std::unique_ptr<Pass> MakeDecomposePass() { return std::make_unique<DecomposePass>(); }

}  // namespace tessera::compiler
