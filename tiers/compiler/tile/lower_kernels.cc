// tsr-lower-kernels: each tsr_sched.kernel becomes a tsr_tile.kernel.
//
// One task is one index of the outer loops; where the space is a single loop and there is no row, one element. A thread
// is given a range of tasks.
//
//   for each outer index                      offsets of all views
//     pass 0 over the innermost loop          vectors of `lanes` elements, then the rest by smaller ones
//     numbers of the row                      what the reductions of pass 0 gave, and what follows from it
//     pass 1 ...
//
// A value belongs to the pass after the reductions that it depends on. A value of an earlier pass is computed again
// where that costs no more than some arithmetic, and is kept where it takes an exponential or the like
// (tile/row_lowering.h).
//
// Where all of the space is one row, and one pass is all it takes, the row is cut: a task does so many of the first dim
// and leaves its sums in the view of parts, and a last call adds them in order. How many does not depend on the
// threads, so neither does the result. tile/lower_columns.cc does the same for sums along columns.
//
// Sums of f32 run in f32 for at most eight vectors and are then added to f64 lanes: the error stays below eight units
// in the last place at the price of a few conversions. Maxima start from the smallest number.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler/passes.h"
#include "tiers/compiler/tile/lower_columns.h"
#include "tiers/compiler/tile/lower_product.h"
#include "tiers/compiler/tile/row_lowering.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

// The one row of a kernel in parts of `rows` of its first dim.
void LowerParts(RowLowering& rows, int64_t per_task, OpBuilder& at) {
  rows.Begin(at, rows.PartBytes());
  const LoopNest& nest = rows.nest();
  size_t first = 0;
  while (first + 1 < nest.space.size() && nest.space[first].is_one()) ++first;
  SmallVector<int64_t> unit = {-1 - per_task};
  Value each = rows.I64(per_task);
  for (const Dim& d : ArrayRef<Dim>(nest.space).drop_front(first + 1)) {
    if (d.is_one()) continue;
    unit.push_back(rows.Factor(d));
    each = rows.Mul(each, rows.SizeOf(d));
  }
  OpBuilder& b = rows.b();
  Value all = rows.size(0);
  Value tasks = arith::DivUIOp::create(b, rows.loc(), rows.Sum(rows.SizeOf(nest.space[first]), rows.I64(per_task - 1)),
                                       rows.I64(per_task));
  Value is_last = arith::CmpIOp::create(b, rows.loc(), arith::CmpIPredicate::slt, rows.end(), rows.I64(0));
  rows.SetOffsets({});
  auto branch = scf::IfOp::create(b, rows.loc(), is_last, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenYield());
    rows.PutTogether(tasks, all);
    b.setInsertionPoint(branch.elseYield());
    rows.For(rows.begin(), rows.end(), rows.I64(1), {}, [&](Value task, ValueRange) {
      Value lo = rows.Mul(task, each);
      rows.RowInParts(task, lo, arith::MinSIOp::create(b, rows.loc(), rows.Sum(lo, each), all));
      return SmallVector<Value>();
    });
  }
  rows.End({rows.Factor(nest.space[first])}, {per_task}, unit, {}, 0);
}

void LowerKernel(sched::KernelOp kernel, LoopNest nest, bool bitwise, OpBuilder& at) {
  RowLowering rows(kernel, std::move(nest), bitwise);
  if (kernel.getCut() && rows.MayBeInParts()) return LowerParts(rows, (*kernel.getCut())[2], at);
  rows.Begin(at);
  const size_t loops = rows.nest().loops.size();
  const size_t outer = loops == 0 ? 0 : loops - 1;
  rows.PlaceScratchRows(rows.I64(0));
  SmallVector<int64_t> tasks, unit;
  if (outer > 0 || rows.nest().row > 0 || loops == 0) {
    for (size_t l = 0; l < outer; ++l) rows.AppendProduct(tasks, l);
    if (loops > 0) rows.AppendProduct(unit, outer);
    rows.For(rows.begin(), rows.end(), rows.I64(1), {}, [&](Value task, ValueRange) {
      rows.SetOffsets(rows.Indices(task, outer));
      rows.Row(rows.I64(0), loops > 0 ? rows.size(outer) : rows.I64(1));
      return SmallVector<Value>();
    });
  } else {
    rows.AppendProduct(tasks, 0);
    rows.SetOffsets({});
    rows.Row(rows.begin(), rows.end());
  }
  rows.End(tasks, {}, unit, rows.ScratchRows(), 0);
}

class LowerKernelsPass : public PassWrapper<LowerKernelsPass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerKernelsPass)
  explicit LowerKernelsPass(CompileOptions options) : options_(options) {}
  StringRef getArgument() const override { return "tsr-lower-kernels"; }
  StringRef getDescription() const override { return "scheduled kernels in tiles"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<tile::TsrTileDialect, scf::SCFDialect, arith::ArithDialect, LLVM::LLVMDialect>();
  }
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder at(module.getContext());
    SmallVector<sched::KernelOp> kernels;
    module.walk([&](sched::KernelOp kernel) { kernels.push_back(kernel); });
    for (sched::KernelOp kernel : kernels) {
      // A kernel that has no nest stays with tier 1: its steps are in no tile kernel.
      std::optional<LoopNest> nest = LoopNest::Plan(kernel);
      if (!nest) continue;
      at.setInsertionPointToEnd(module.getBody());
      if (ProductsOf(kernel).first != nullptr)
        LowerProduct(kernel, *std::move(nest), options_, at);
      else if (nest->count > 0)
        LowerColumns(kernel, *std::move(nest), options_.bitwise, at);
      else
        LowerKernel(kernel, *std::move(nest), options_.bitwise, at);
    }
    SmallVector<graph::TraceOp> traces;
    module.walk([&](graph::TraceOp trace) { traces.push_back(trace); });
    for (graph::TraceOp trace : traces) trace.erase();
  }

 private:
  const CompileOptions options_;
};

}  // namespace

std::unique_ptr<Pass> MakeLowerKernelsPass(const CompileOptions& options) {
  return std::make_unique<LowerKernelsPass>(options);
}

}  // namespace tessera::compiler
