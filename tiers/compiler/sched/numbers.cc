// tsr-numbers: within kernels, numbers that never change become tsr_graph.number.
//
// Numbers in the text of a function are part of the program: tsr_graph.trace has them in `numbers`, by the ids of its
// values. They are read from memory where tier 1 runs a step, and known here, so that what depends on them can be
// simplified or recognised (a scale of scores, positions that count from 0), and kernels have an operand less. A number
// in another dtype is what tier 1's cast makes of it: rounded once, to the nearest.
//
// Numbers of eager ops, which the program computed, are operands as ever: they may change.
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

Type ElementOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }

// Which inputs of the kernel are such numbers.
llvm::BitVector FindNumbers(sched::KernelOp kernel, DictionaryAttr numbers, SmallVectorImpl<FloatAttr>& values) {
  llvm::BitVector known(static_cast<unsigned>(kernel.getInputs().size()));
  for (auto [k, id] : llvm::enumerate(kernel.getInputs())) {
    values.push_back(numbers.getAs<FloatAttr>("v" + std::to_string(id)));
    known[static_cast<unsigned>(k)] = values.back() != nullptr;
  }
  // A kernel reads something.
  if (known.all()) known.reset();
  return known;
}

void BuildIn(sched::KernelOp kernel, DictionaryAttr numbers) {
  SmallVector<FloatAttr> values;
  const llvm::BitVector known = FindNumbers(kernel, numbers, values);
  if (known.none()) return;
  Block& body = kernel.getBody().front();
  OpBuilder b(&body, body.begin());
  SmallVector<int32_t> inputs;
  SmallVector<Attribute> strides;
  SmallVector<int64_t> moved;  // where each input is now
  for (unsigned k = 0; k < known.size(); ++k) {
    moved.push_back(static_cast<int64_t>(inputs.size()));
    if (known[k]) {
      BlockArgument argument = body.getArgument(k);
      Value number = graph::NumberOp::create(b, kernel.getLoc(), argument.getType(), values[k]);
      argument.replaceAllUsesWith(number);
      continue;
    }
    inputs.push_back(kernel.getInputs()[k]);
    strides.push_back(kernel.getStrides()[k]);
  }
  body.eraseArguments(known);
  kernel->eraseOperands(known);
  kernel.setInputs(inputs);
  kernel.setStridesAttr(b.getArrayAttr(strides));
  if (ArrayAttr updates = kernel.getUpdatesAttr()) {
    SmallVector<Attribute> entries;
    for (Attribute update : updates) {
      SmallVector<int64_t> entry(cast<DenseI64ArrayAttr>(update).asArrayRef());
      entry[1] = moved[static_cast<size_t>(entry[1])];
      entries.push_back(b.getDenseI64ArrayAttr(entry));
    }
    kernel.setUpdatesAttr(b.getArrayAttr(entries));
  }
}

// A cast of a number is a number. (f8 has no infinities to round to: that is the cast's own.)
void FoldCast(Operation* op) {
  const TableRow* row = RowOf(op);
  if (row == nullptr || row->name != "cast") return;
  auto number = op->getOperand(0).getDefiningOp<graph::NumberOp>();
  auto to = dyn_cast<FloatType>(ElementOf(op->getResult(0)));
  if (!number || !to || to.getWidth() < 16) return;
  llvm::APFloat value = number.getValue();
  bool inexact = false;
  value.convert(to.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  OpBuilder b(op);
  op->getResult(0).replaceAllUsesWith(
      graph::NumberOp::create(b, op->getLoc(), op->getResult(0).getType(), b.getF64FloatAttr(value.convertToDouble())));
  op->erase();
}

class NumbersPass : public PassWrapper<NumbersPass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NumbersPass)
  StringRef getArgument() const override { return "tsr-numbers"; }
  StringRef getDescription() const override { return "numbers that never change are built into kernels"; }
  void runOnOperation() override {
    getOperation().walk([](sched::KernelOp kernel) {
      auto trace = kernel->getParentOfType<graph::TraceOp>();
      if (!trace || !trace.getNumbers()) return;
      BuildIn(kernel, *trace.getNumbers());
      SmallVector<Operation*> ops;
      for (Operation& op : kernel.getBody().front().without_terminator()) ops.push_back(&op);
      for (Operation* op : ops) FoldCast(op);
    });
  }
};

}  // namespace

std::unique_ptr<Pass> MakeNumbersPass() { return std::make_unique<NumbersPass>(); }

}  // namespace tessera::compiler
