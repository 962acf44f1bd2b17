// tsr-simplify: within kernels, what can be had for less without changing a bit.
//
//   copy(x), cast to the same dtype            x
//   x * 1, x / 1, x - 0, x + -0                x        (x + 0 is not x where x is -0)
//   neg(neg(x)), logical_not(logical_not(x))   x        (of logical_not: x a bool)
//   f(f(x)) of abs, relu, sign, round, floor, ceil, trunc     f(x)
//   where(c, x, x), maximum(x, x)              x
//   cast(cast(x)) through a wider dtype of the same kind      cast(x)
//   x / c, c a power of two                    x * (1 / c)
//   functions of numbers                       the number, where it is exact: add, sub, mul, neg
//
// What follows from the trace itself (equal subexpressions, values that nobody needs) is removed by MLIR's CSE, which
// runs next; views are strides of operands by now, so transposes and reshapes are gone before they get here.
#include <cmath>

#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

Type ElementOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }

StringRef NameOf(Operation* op) {
  const TableRow* row = op == nullptr ? nullptr : RowOf(op);
  return row == nullptr ? StringRef() : row->name;
}

std::optional<double> NumberOf(Value v) {
  auto number = v.getDefiningOp<graph::NumberOp>();
  if (!number) return std::nullopt;
  return number.getValue().convertToDouble();
}

bool IsPowerOfTwo(double x) {
  int exponent;
  return std::isnormal(x) && std::isnormal(1 / x) && std::abs(std::frexp(x, &exponent)) == 0.5;
}

// Every value of `from` has the same value in `to`.
bool Widens(Type from, Type to) {
  if (auto a = dyn_cast<FloatType>(from)) {
    auto b = dyn_cast<FloatType>(to);
    return b && b.getFPMantissaWidth() >= a.getFPMantissaWidth() && b.getWidth() > a.getWidth();
  }
  auto a = dyn_cast<IntegerType>(from), b = dyn_cast<IntegerType>(to);
  return a && b && b.getWidth() > a.getWidth() && a.isUnsigned() == b.isUnsigned() && a.getWidth() > 1;
}

class Simplifier {
 public:
  explicit Simplifier(Operation* op) : op_(op), b_(op), name_(NameOf(op)) {}

  // What the op's result is, if something simpler.
  Value Run() {
    if (name_.empty() || op_->getNumResults() != 1 || op_->getNumOperands() == 0) return Value();
    Type type = op_->getResult(0).getType();
    Value x = op_->getOperand(0);
    const bool same = x.getType() == type;
    Operation* before = x.getDefiningOp();
    if (same && (name_ == "copy" || name_ == "cast")) return x;
    if (same && NameOf(before) == name_ && before->getNumOperands() == 1) {
      // Of a number, logical_not twice is whether it is not 0.
      if ((name_ == "neg" || name_ == "logical_not") && before->getOperand(0).getType() == type)
        return before->getOperand(0);
      for (StringRef twice : {"abs", "relu", "sign", "round", "floor", "ceil", "trunc"})
        if (name_ == twice) return x;
    }
    if (name_ == "cast" && NameOf(before) == "cast" &&
        isa<FloatType>(ElementOf(x)) == isa<FloatType>(ElementOf(op_->getResult(0))) &&
        Widens(ElementOf(before->getOperand(0)), ElementOf(x)))
      return before->getOperand(0).getType() == type ? before->getOperand(0)
                                                     : Make("cast", {before->getOperand(0)}, type);
    if (name_ == "where" && op_->getNumOperands() == 3 && op_->getOperand(1) == op_->getOperand(2))
      return op_->getOperand(1).getType() == type ? op_->getOperand(1) : Value();
    if (name_ == "maximum" || name_ == "minimum") return same && op_->getOperand(1) == x ? x : Value();
    if (op_->getNumOperands() == 2 && isa<FloatType>(ElementOf(x))) return Arithmetic(type);
    return Value();
  }

 private:
  Value Make(StringRef name, ValueRange operands, Type type) {
    OperationState state(op_->getLoc(), ("tsr_graph." + name).str());
    state.addOperands(operands);
    state.addTypes(type);
    return b_.create(state)->getResult(0);
  }
  Value Number(double value, Type type) {
    return graph::NumberOp::create(b_, op_->getLoc(), type, b_.getF64FloatAttr(value));
  }

  Value Arithmetic(Type type) {
    Value x = op_->getOperand(0), y = op_->getOperand(1);
    const std::optional<double> a = NumberOf(x), c = NumberOf(y);
    if (c && x.getType() == type) {
      const bool is_zero = *c == 0, is_negative = std::signbit(*c);
      if ((name_ == "mul" || name_ == "div") && *c == 1) return x;
      if ((name_ == "sub" && is_zero && !is_negative) || (name_ == "add" && is_zero && is_negative)) return x;
      // Narrow dtypes have less room for the reciprocal.
      if (name_ == "div" && ElementOf(x).isF32() && IsPowerOfTwo(*c) && std::abs(*c) < 0x1p100 &&
          std::abs(*c) > 0x1p-100)
        return Make("mul", {x, Number(1 / *c, y.getType())}, type);
    }
    if (a && name_ == "mul" && *a == 1 && y.getType() == type) return y;
    if (a && c && x.getType() == y.getType() && x.getType() == type && ElementOf(x).isF64()) {
      if (name_ == "add") return Number(*a + *c, type);
      if (name_ == "sub") return Number(*a - *c, type);
      if (name_ == "mul") return Number(*a * *c, type);
    }
    return Value();
  }

  Operation* op_;
  OpBuilder b_;
  StringRef name_;
};

class SimplifyPass : public PassWrapper<SimplifyPass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SimplifyPass)
  StringRef getArgument() const override { return "tsr-simplify"; }
  StringRef getDescription() const override { return "within kernels, the same bits for less"; }
  void runOnOperation() override {
    getOperation().walk([](sched::KernelOp kernel) {
      // Operands are simplified before those who use them; what is replaced may be looked at again through its uses.
      SmallVector<Operation*> ops;
      for (Operation& op : kernel.getBody().front().without_terminator()) ops.push_back(&op);
      // A kernel of one op is what was asked for: it has no value to save.
      if (ops.size() < 2) return;
      for (Operation* op : ops) {
        Value simpler = Simplifier(op).Run();
        if (!simpler) continue;
        op->getResult(0).replaceAllUsesWith(simpler);
        op->erase();
      }
    });
  }
};

}  // namespace

std::unique_ptr<Pass> MakeSimplifyPass() { return std::make_unique<SimplifyPass>(); }

}  // namespace tessera::compiler
