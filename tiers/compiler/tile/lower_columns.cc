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
//
// Variances and logsumexp take a second turn through the rows of a task, which are in the cache by then: for distances
// from the mean of the task's own rows and their squares, or for exponentials of distances from the largest of them.
// The last call moves all to the mean, or the largest element, of all tasks:
//
//   sum of squares    about the mean of all: that of each task about its own, and rows * (its mean - mean of all)^2
//   sum of e^x        each task's times e^(its largest - largest of all)
//
// As in tier 1 the mean is rounded to the element type before it is subtracted, and the sum of the distances, which is
// not quite 0, makes up for that; a largest element that is infinite is not subtracted.
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
    FindSums();
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
  // What is added up in a turn through the rows.
  enum class What { element, distance, square, exponential };
  struct Turn {
    int number;
    What what;
  };

  void FindSums() {
    for (graph::ReduceOp reduce : Body().getOps<graph::ReduceOp>()) {
      Accumulator a = AccumulatorOf(reduce, /*widens=*/true);
      first_.push_back(accumulators_.size());
      auto add = [&](const Accumulator& of, Turn turn) {
        accumulators_.push_back(of);
        turns_.push_back(turn);
      };
      if (reduce.getKind() == "var") {
        for (const Turn turn : {Turn{0, What::element}, Turn{1, What::distance}, Turn{1, What::square}}) add(a, turn);
      } else if (reduce.getKind() == "logsumexp") {
        Accumulator largest = a;
        largest.is_sum = largest.widens = false;
        largest.is_max = true;
        largest.type = ComputeType(cast<RankedTensorType>(reduce.getX().getType()).getElementType());
        add(largest, {0, What::element});
        add(a, {1, What::exponential});
      } else {
        add(a, {0, What::element});
      }
    }
    for (const Turn& turn : turns_) last_turn_ = std::max(last_turn_, turn.number);
  }

  // What a task leaves: for each of its sums eight bytes for each of its columns.
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
    Value rows = arith::SIToFPOp::create(b_, loc_, b_.getF64Type(), arith::SubIOp::create(b_, loc_, bottom, top));
    for (int turn = 0; turn <= last_turn_; ++turn) {
      SmallVector<size_t> mine;
      for (size_t k = 0; k < turns_.size(); ++k)
        if (turns_[k].number == turn) mine.push_back(k);
      For(top, bottom, I64(kRowsAtOnce), {}, [&](Value row, ValueRange) {
        Value stop = Min(Sum(row, I64(kRowsAtOnce)), bottom);
        ForColumns(lo, hi, [&](Value i, int64_t lanes) {
          Value column = arith::SubIOp::create(b_, loc_, i, lo);
          SmallVector<Value> start, about;
          for (size_t k : mine) start.push_back(Identity(accumulators_[k], false, lanes));
          for (size_t k : mine) about.push_back(turn == 0 ? Value() : About(k, rows, column, lanes));
          SmallVector<Value> few = For(row, stop, I64(1), start, [&](Value r, ValueRange carried) {
            return Element(outer, r, i, lanes, mine, about, carried);
          });
          for (auto [sum_of_few, k] : llvm::zip(few, mine)) {
            const Accumulator& a = accumulators_[k];
            Value sum = LoadPart(a, lanes, Place(k, column));
            StorePart(a, Combine(a, sum, a.widens ? Widen(sum_of_few) : sum_of_few), Place(k, column));
          }
        });
        return SmallVector<Value>();
      });
    }
  }

  Value SubF(Value x, Value y) { return arith::SubFOp::create(b_, loc_, x, y); }
  Value MulF(Value x, Value y) { return arith::MulFOp::create(b_, loc_, x, y); }
  Value DivF(Value x, Value y) { return arith::DivFOp::create(b_, loc_, x, y); }
  Value Narrow(const Accumulator& a, Value x, int64_t lanes) {
    return a.widens ? arith::TruncFOp::create(b_, loc_, TileType(b_.getF32Type(), lanes), x).getResult() : x;
  }
  Value Zero(Type type, int64_t lanes) {
    return Splat(arith::ConstantOp::create(b_, loc_, b_.getFloatAttr(type, 0.0)), lanes);
  }
  // 0 where it is infinite or NaN.
  Value Finite(Value x, Type type, int64_t lanes) {
    Value zero = Zero(type, lanes);
    Value is_finite = arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::OEQ, SubF(x, x), zero);
    return arith::SelectOp::create(b_, loc_, is_finite, x, zero);
  }

  // What distances of a sum's second turn are from: the mean of the task's rows, or their largest element.
  Value About(size_t k, Value rows, Value column, int64_t lanes) {
    if (turns_[k].what == What::exponential) {
      const Accumulator& largest = accumulators_[k - 1];
      return Finite(LoadPart(largest, lanes, Place(k - 1, column)), largest.type, lanes);
    }
    const size_t sum = turns_[k].what == What::distance ? k - 1 : k - 2;
    Value mean = DivF(LoadPart(accumulators_[sum], lanes, Place(sum, column)), Splat(rows, lanes));
    return Narrow(accumulators_[sum], mean, lanes);
  }

  Value Term(size_t k, Value x, Value about) {
    if (turns_[k].what == What::element) return x;
    Value distance = SubF(x, about);
    if (turns_[k].what == What::exponential)
      return Map(accumulators_[k].widens ? "exp_f32" : "exp_f64", {distance}, x.getType());
    return turns_[k].what == What::square ? MulF(distance, distance) : distance;
  }

  // A vector of one row: its elements are added to the sums, and what is written of it is, in the last turn.
  SmallVector<Value> Element(Value outer, Value row, Value i, int64_t lanes, ArrayRef<size_t> mine,
                             ArrayRef<Value> about, ValueRange sums) {
    SetColumnOffsets(outer, row);
    values_.clear();
    for (auto& [v, loaded] : once_) values_[v] = loaded;
    tiles_.clear();
    current_pass_ = 0;
    current_index_ = i;
    current_lanes_ = lanes;
    SmallVector<Value> next;
    for (auto [at, k] : llvm::enumerate(mine)) {
      Accumulator& a = accumulators_[k];
      next.push_back(Combine(a, sums[at], Term(k, Tile(a.reduce.getX()), about[at])));
    }
    if (!mine.empty() && turns_[mine[0]].number < last_turn_) return next;
    auto yield = cast<sched::YieldOp>(Body().back());
    // A result may be where an operand is: everything is read before anything is written.
    for (Value v : yield.getValues())
      if (pass_.lookup(v) == 0) Tile(v);
    for (auto [k, v] : llvm::enumerate(yield.getValues())) {
      if (pass_.lookup(v) > 0) continue;
      const size_t view = num_inputs_ + k;
      tile::StoreOp::create(b_, loc_, Tile(v), view_args_[view], Sum(offsets_[view], i), Value(),
                            cast<RankedTensorType>(v.getType()).getElementType());
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
    auto at = [&](Value piece) {
      Value task = Sum(Mul(Sum(Mul(outer, pieces_), piece), blocks_), block);
      part_ = Mul(task, I64(Bytes()));
    };
    SmallVector<Value> sums = For(I64(0), pieces_, I64(1), start, [&](Value piece, ValueRange carried) {
      at(piece);
      SmallVector<Value> next;
      for (size_t k = 0; k < accumulators_.size(); ++k)
        next.push_back(Combine(accumulators_[k], carried[k], LoadPart(accumulators_[k], lanes, Place(k, column))));
      return next;
    });
    llvm::DenseMap<Value, Value> known;
    for (size_t k : first_) {
      Accumulator& a = accumulators_[k];
      Value& result = known[a.reduce.getY()];
      if (a.reduce.getKind() == "var")
        result = Variance(k, sums[k], at, column, lanes);
      else if (a.reduce.getKind() == "logsumexp")
        result = LogOfSum(k, sums[k], at, column, lanes);
      else
        result = Finish(a, sums[k], all_rows_, lanes);
    }
    auto yield = cast<sched::YieldOp>(Body().back());
    for (auto [k, v] : llvm::enumerate(yield.getValues())) {
      if (pass_.lookup(v) == 0) continue;
      const size_t view = num_inputs_ + k;
      tile::StoreOp::create(b_, loc_, AfterSums(v, known, lanes), view_args_[view], Sum(offsets_[view], i), Value(),
                            cast<RankedTensorType>(v.getType()).getElementType());
    }
  }

  Value AsF64(Value n) { return arith::SIToFPOp::create(b_, loc_, b_.getF64Type(), n); }

  // k: the sum; then come that of distances and that of their squares.
  Value Variance(size_t k, Value sum, llvm::function_ref<void(Value)> at, Value column, int64_t lanes) {
    const Accumulator& a = accumulators_[k];
    graph::ReduceOp reduce = a.reduce;
    Type f64 = b_.getF64Type();
    Value n = AsF64(all_rows_), zero = Zero(f64, lanes);
    Value mean = DivF(sum, Splat(n, lanes));
    SmallVector<Value> squares = For(I64(0), pieces_, I64(1), ValueRange{zero}, [&](Value piece, ValueRange carried) {
      at(piece);
      Value top = Mul(piece, each_);
      Value rows = Splat(AsF64(arith::SubIOp::create(b_, loc_, Min(Sum(top, each_), all_rows_), top)), lanes);
      Value distances = LoadPart(a, lanes, Place(k + 1, column));
      Value own = SubF(LoadPart(a, lanes, Place(k + 2, column)), DivF(MulF(distances, distances), rows));
      // NaN stays.
      Value is_less = arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::OLT, own, zero);
      own = arith::SelectOp::create(b_, loc_, is_less, zero, own);
      Value moved = SubF(DivF(LoadPart(a, lanes, Place(k, column)), rows), mean);
      own = arith::AddFOp::create(b_, loc_, own, MulF(MulF(moved, moved), rows));
      return SmallVector<Value>{arith::AddFOp::create(b_, loc_, carried[0], own)};
    });
    const double correction = reduce.getCorrection() ? reduce.getCorrection()->convertToDouble() : 0;
    Value divisor = SubF(n, arith::ConstantOp::create(b_, loc_, b_.getFloatAttr(f64, correction)));
    divisor = arith::MaximumFOp::create(b_, loc_, divisor, Zero(f64, 1));
    return Narrow(a, DivF(squares[0], Splat(divisor, lanes)), lanes);
  }

  // k: the largest element; then comes the sum of exponentials.
  Value LogOfSum(size_t k, Value largest, llvm::function_ref<void(Value)> at, Value column, int64_t lanes) {
    const Accumulator &max = accumulators_[k], &a = accumulators_[k + 1];
    Value shift = Finite(largest, max.type, lanes);
    auto wide = [&](Value x) { return a.widens ? Widen(x) : x; };
    SmallVector<Value> sum =
        For(I64(0), pieces_, I64(1), ValueRange{Zero(a.type, lanes)}, [&](Value piece, ValueRange carried) {
          at(piece);
          Value from = SubF(LoadPart(max, lanes, Place(k, column)), shift);
          Value weight = wide(Map(a.widens ? "exp_f32" : "exp_f64", {from}, from.getType()));
          Value own = MulF(LoadPart(a, lanes, Place(k + 1, column)), weight);
          return SmallVector<Value>{arith::AddFOp::create(b_, loc_, carried[0], own)};
        });
    Value log = Map("log_f64", {sum[0]}, sum[0].getType());
    return Narrow(a, arith::AddFOp::create(b_, loc_, wide(shift), log), lanes);
  }

  SmallVector<Accumulator> accumulators_;
  SmallVector<Turn> turns_;    // of each of them
  SmallVector<size_t> first_;  // of each reduction
  int last_turn_ = 0;
  int64_t rows_ = 0, columns_ = 0;
  Value outer_, all_rows_, each_, pieces_, width_, blocks_;
};

}  // namespace

void LowerColumns(sched::KernelOp kernel, LoopNest nest, bool bitwise, OpBuilder& at) {
  ColumnLowering(kernel, std::move(nest), bitwise).Run(at);
}

}  // namespace tessera::compiler
