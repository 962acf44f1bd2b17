// Sums along columns: a part of tsr-lower-kernels.
//
// The space of such a kernel is [outer dims, summed dims, columns]. Tasks are cut from all three by numbers that do not
// depend on the threads: so many of the first summed dim, so many columns. A task goes through its rows eight at a
// time, and through the columns of each eight in vectors:
//
//   for each eight rows
//     for each vector of columns
//       for each of the rows                what is computed before the sum, in f32 for the most part; results that are
//                                           as large as the space are written on the way
//       add to the task's sums              in f64
//
// so that memory is read in eight runs, and the sums, which are in the view of parts and stay in the nearest cache, are
// touched once for eight elements. Errors are as for rows: eight additions in f32, the others in f64. The last call
// adds the parts of all tasks in their order, rounds and writes. Maxima, minima and sums of i64 go the same way.
#include "tiers/compiler/tile/lower_columns.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler/tile/row_lowering.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr int64_t kRowsAtOnce = 8;

class ColumnLowering : public RowLowering {
 public:
  ColumnLowering(sched::KernelOp kernel, LoopNest nest, bool bitwise) : RowLowering(kernel, std::move(nest), bitwise) {}

  void Run(OpBuilder& at) {
    rows_ = (*kernel_.getCut())[2];
    columns_ = (*kernel_.getCut())[3];
    for (graph::ReduceOp reduce : Body().getOps<graph::ReduceOp>())
      accumulators_.push_back(AccumulatorOf(reduce, /*widens=*/true));
    Begin(at, Bytes());
    SmallVector<int64_t> tasks, blocks, unit = {-1 - rows_};
    auto count = [&](const Dim& d, int64_t block) {
      if (d.is_one()) return;
      tasks.push_back(Factor(d));
      blocks.push_back(block);
    };
    const size_t first = static_cast<size_t>(nest_.first), end = first + static_cast<size_t>(nest_.count);
    outer_ = I64(1);
    for (size_t d = 0; d < first; ++d) {
      count(nest_.space[d], 1);
      outer_ = Mul(outer_, SizeOf(nest_.space[d]));
    }
    // The first summed dim is cut; the others belong to each of its indices.
    size_t cut = first;
    while (cut + 1 < end && nest_.space[cut].is_one()) ++cut;
    count(nest_.space[cut], rows_);
    each_ = I64(rows_);
    all_rows_ = SizeOf(nest_.space[cut]);
    pieces_ = CeilDiv(all_rows_, rows_);
    for (size_t d = cut + 1; d < end; ++d) {
      if (nest_.space[d].is_one()) continue;
      unit.push_back(Factor(nest_.space[d]));
      each_ = Mul(each_, SizeOf(nest_.space[d]));
      all_rows_ = Mul(all_rows_, SizeOf(nest_.space[d]));
    }
    width_ = SizeOf(nest_.space.back());
    count(nest_.space.back(), columns_);
    blocks_ = CeilDiv(width_, columns_);
    unit.push_back(-1 - columns_);
    Value is_last = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::slt, end_, I64(0));
    auto branch = scf::IfOp::create(b_, loc_, is_last, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPoint(branch.thenYield());
      PutColumnsTogether();
      b_.setInsertionPoint(branch.elseYield());
      For(begin_, end_, I64(1), {}, [&](Value task, ValueRange) {
        Task(task);
        return SmallVector<Value>();
      });
    }
    End(tasks, blocks, unit, {}, 0);
  }

 private:
  // What a task leaves: for each reduction eight bytes for each of its columns.
  int64_t Bytes() const { return 8 * columns_ * static_cast<int64_t>(accumulators_.size()); }
  Value Place(size_t k, Value column) {
    const int64_t width = accumulators_[k].type.getIntOrFloatBitWidth() / 8;
    return Sum(I64(8 * columns_ * static_cast<int64_t>(k)), Mul(column, I64(width)));
  }
  Value CeilDiv(Value x, int64_t by) { return arith::DivUIOp::create(b_, loc_, Sum(x, I64(by - 1)), I64(by)); }
  Value Div(Value x, Value y) { return arith::DivUIOp::create(b_, loc_, x, y); }
  Value Rem(Value x, Value y) { return arith::RemUIOp::create(b_, loc_, x, y); }
  Value Min(Value x, Value y) { return arith::MinSIOp::create(b_, loc_, x, y); }

  // fn(i, lanes) for the columns from lo to hi.
  void ForColumns(Value lo, Value hi, llvm::function_ref<void(Value, int64_t)> fn) { Along(lo, hi, lanes_, fn); }

  void Task(Value task) {
    Value block = Rem(task, blocks_), rest = Div(task, blocks_);
    Value piece = Rem(rest, pieces_), outer = Div(rest, pieces_);
    Value lo = Mul(block, I64(columns_)), hi = Min(Sum(lo, I64(columns_)), width_);
    Value top = Mul(piece, each_), bottom = Min(Sum(top, each_), all_rows_);
    part_ = Mul(task, I64(Bytes()));
    ForColumns(lo, hi, [&](Value i, int64_t lanes) {
      Value column = arith::SubIOp::create(b_, loc_, i, lo);
      for (size_t k = 0; k < accumulators_.size(); ++k)
        StorePart(accumulators_[k], Identity(accumulators_[k], true, lanes), Place(k, column));
    });
    For(top, bottom, I64(kRowsAtOnce), {}, [&](Value row, ValueRange) {
      Value stop = Min(Sum(row, I64(kRowsAtOnce)), bottom);
      ForColumns(lo, hi, [&](Value i, int64_t lanes) {
        SmallVector<Value> start;
        for (const Accumulator& a : accumulators_) start.push_back(Identity(a, false, lanes));
        SmallVector<Value> few = For(row, stop, I64(1), start,
                                     [&](Value r, ValueRange carried) { return Element(outer, r, i, lanes, carried); });
        Value column = arith::SubIOp::create(b_, loc_, i, lo);
        for (size_t k = 0; k < accumulators_.size(); ++k) {
          const Accumulator& a = accumulators_[k];
          Value sum = LoadPart(a, lanes, Place(k, column));
          StorePart(a, Combine(a, sum, a.widens ? Widen(few[k]) : few[k]), Place(k, column));
        }
      });
      return SmallVector<Value>();
    });
  }

  // A vector of one row: what is written of it is, and its elements are added to the sums.
  SmallVector<Value> Element(Value outer, Value row, Value i, int64_t lanes, ValueRange sums) {
    SetColumnOffsets(outer, row);
    values_.clear();
    for (auto& [v, loaded] : once_) values_[v] = loaded;
    tiles_.clear();
    current_pass_ = 0;
    current_index_ = i;
    current_lanes_ = lanes;
    SmallVector<Value> next;
    for (auto [k, a] : llvm::enumerate(accumulators_)) next.push_back(Combine(a, sums[k], Tile(a.reduce.getX())));
    auto yield = cast<sched::YieldOp>(Body().back());
    // A result may be where an operand is: everything is read before anything is written.
    for (Value v : yield.getValues())
      if (pass_.lookup(v) == 0) Tile(v);
    for (auto [k, v] : llvm::enumerate(yield.getValues())) {
      if (pass_.lookup(v) > 0) continue;
      const size_t view = num_inputs_ + k;
      tile::StoreOp::create(b_, loc_, Tile(v), view_args_[view], Sum(offsets_[view], i), Value(),
                            TypeAttr::get(cast<RankedTensorType>(v.getType()).getElementType()), UnitAttr());
    }
    return next;
  }

  void PutColumnsTogether() {
    For(I64(0), outer_, I64(1), {}, [&](Value outer, ValueRange) {
      SetColumnOffsets(outer, Value());
      For(I64(0), blocks_, I64(1), {}, [&](Value block, ValueRange) {
        Value lo = Mul(block, I64(columns_)), hi = Min(Sum(lo, I64(columns_)), width_);
        ForColumns(lo, hi, [&](Value i, int64_t lanes) { PutTogetherAt(outer, block, lo, i, lanes); });
        return SmallVector<Value>();
      });
      return SmallVector<Value>();
    });
  }

  void PutTogetherAt(Value outer, Value block, Value lo, Value i, int64_t lanes) {
    Value column = arith::SubIOp::create(b_, loc_, i, lo);
    SmallVector<Value> start;
    for (const Accumulator& a : accumulators_) start.push_back(Identity(a, true, lanes));
    SmallVector<Value> sums = For(I64(0), pieces_, I64(1), start, [&](Value piece, ValueRange carried) {
      Value task = Sum(Mul(Sum(Mul(outer, pieces_), piece), blocks_), block);
      part_ = Mul(task, I64(Bytes()));
      SmallVector<Value> next;
      for (size_t k = 0; k < accumulators_.size(); ++k)
        next.push_back(Combine(accumulators_[k], carried[k], LoadPart(accumulators_[k], lanes, Place(k, column))));
      return next;
    });
    llvm::DenseMap<Value, Value> known;
    for (auto [k, a] : llvm::enumerate(accumulators_)) known[a.reduce.getY()] = Finish(a, sums[k], all_rows_, lanes);
    auto yield = cast<sched::YieldOp>(Body().back());
    for (auto [k, v] : llvm::enumerate(yield.getValues())) {
      if (pass_.lookup(v) == 0) continue;
      const size_t view = num_inputs_ + k;
      tile::StoreOp::create(b_, loc_, AfterSums(v, known, lanes), view_args_[view], Sum(offsets_[view], i), Value(),
                            TypeAttr::get(cast<RankedTensorType>(v.getType()).getElementType()), UnitAttr());
    }
  }

  SmallVector<Accumulator> accumulators_;
  int64_t rows_ = 0, columns_ = 0;
  Value outer_, all_rows_, each_, pieces_, width_, blocks_;
};

}  // namespace

void LowerColumns(sched::KernelOp kernel, LoopNest nest, bool bitwise, OpBuilder& at) {
  ColumnLowering(kernel, std::move(nest), bitwise).Run(at);
}

}  // namespace tessera::compiler
