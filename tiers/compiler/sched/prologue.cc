// What a prologue costs and saves.
//
// A task copies its rows of the left factor piece by piece, once for each block of columns, and computes the prologue
// on the way. A factor in memory is written once, read by each task, and mostly multiplied where it lies. So a prologue
// costs its ops for all blocks of columns but one, and the copies; it saves a trip of the factor through memory, which
// is short where the factor stays in the second-level cache. Each operand as large as the factor is read in pieces of
// rows, where a kernel of its own would read all of it as one run: one takes the place of the factor, each further one
// costs as much as the trip.
//
// So with one block of columns and one such operand it always pays; with several blocks it does for large factors and
// little arithmetic. Measured with AVX-512: products of 4096 x 512 f32 with 1024 columns gain with relu in 2 blocks,
// and lose 3 % in 6; with gelu they lose 5 % in 2 and 15 % in 4. silu(x) * y before a product of 512 x 3000 with 100
// columns loses 15 %, gelu(x) gains 10 %.
#include "tiers/compiler/sched/prologue.h"

#include <algorithm>

#include "tiers/compiler/sched/kinds.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

// Nanoseconds for an element of f32, as in sched/product.cc.
constexpr double kTrip = 0.6;       // written by one kernel, read by the next
constexpr double kShortTrip = 0.2;  // the same of what stays in half of a second-level cache
constexpr int64_t kStays = 524288;  // bytes of that
constexpr double kCopy = 0.15;      // to the rows of a task
constexpr double kPieces = 0.6;     // to read another operand in pieces of rows
constexpr double kCheap = 0.05;     // a few instructions
constexpr double kHeavy = 0.8;      // an exponential or the like

// What is needed for these values, not by way of a left factor.
void Need(Value v, const Operation* product, OpSet& ops) {
  Operation* op = v.getDefiningOp();
  if (op == nullptr || !ops.insert(op).second) return;
  for (OpOperand& operand : op->getOpOperands())
    if (op != product || operand.getOperandNumber() != 0) Need(operand.get(), product, ops);
}

Operation* FirstProduct(sched::KernelOp kernel) {
  for (Operation& op : kernel.getBody().front())
    if (IsProduct(&op)) return &op;
  return nullptr;
}

}  // namespace

OpSet PrologueOf(sched::KernelOp kernel) {
  OpSet ops;
  if (Operation* product = FirstProduct(kernel)) Need(product->getOperand(0), product, ops);
  return ops;
}

OpSet OnlyBefore(sched::KernelOp kernel) {
  OpSet before = PrologueOf(kernel), others;
  if (before.empty()) return before;
  for (Value v : kernel.getBody().front().back().getOperands()) Need(v, FirstProduct(kernel), others);
  for (Operation* op : others) before.erase(op);
  return before;
}

const char* WrongPrologue(sched::KernelOp kernel, const ProductSchedule& schedule) {
  const OpSet ops = PrologueOf(kernel);
  if (ops.empty()) return nullptr;
  if (schedule.form != ProductSchedule::Form::packed) return "computes a left factor that its schedule does not copy";
  for (Operation* op : ops) {
    const TableRow* row = RowOf(op);
    const bool is_elementwise = isa<graph::NumberOp>(op) || IsElementwise(op) ||
                                (row != nullptr && (row->name == "cast" || row->name == "copy"));
    if (!is_elementwise) return "computes a left factor, and not element by element";
  }
  auto transposed = FirstProduct(kernel)->getAttrOfType<BoolAttr>("transpose_a");
  if (transposed && transposed.getValue()) return "computes a left factor that is transposed";
  if (llvm::count_if(kernel.getBody().front(), [](Operation& op) { return IsProduct(&op); }) > 1)
    return "computes the left factor of the first of two products";
  return nullptr;
}

bool ProloguePays(ArrayRef<Operation*> ops, int64_t operands, const ProductFacts& facts,
                  const ProductSchedule& schedule) {
  if (schedule.form != ProductSchedule::Form::packed || schedule.mr == 0) return false;
  // As in the model of the product where nothing is known.
  const int64_t m = facts.m > 0 ? facts.m : 256, n = facts.n > 0 ? facts.n : 1024, k = facts.k > 0 ? facts.k : 512;
  const auto blocks = static_cast<double>(facts.whole_rows ? 1 : (n + schedule.columns - 1) / schedule.columns);
  double compute = 0;
  for (Operation* op : ops) compute += IsCheap(op) ? kCheap : kHeavy;
  // A factor that cannot be read where it lies is copied in any case.
  const double copies = facts.a_along_k && schedule.copy == 0 ? blocks * kCopy : 0;
  const double trip = facts.batch * m * k * facts.bytes <= kStays ? kShortTrip : kTrip;
  const double pieces = blocks * static_cast<double>(std::max<int64_t>(0, operands - 1)) * kPieces;
  return (blocks - 1) * compute + copies + pieces < trip;
}

}  // namespace tessera::compiler
