// Sums along columns on CUDA devices: a part of tsr-lower-kernels-gpu.
//
// The space of such a kernel is [outer dims, summed dims, columns]. A block has kColumnBytes bytes of neighbouring
// columns and all rows of one index of the outer dims. Its threads lie side by side along the columns, in vectors of 16
// bytes, and then down along the rows:
//
//   each thread      goes down its rows, several at a time: all loads first, then what is computed before the sum, in
//                    vectors; results that are as large as the space are written on the way. Rows of one time are added
//                    in f32, times in f64. Beyond the last row the last one is loaded again and counts for nothing.
//   shared memory    what the threads have, one slot for each of them and column
//   each warp        adds what a column has there, which is in its lanes then, rounds it and writes it
//
// So no block waits for another, nothing is added in an order that depends on time, and there is no second launch. It
// takes columns enough to keep the device busy; the schedule (sched/columns.h) leaves others to tier 1, which cuts rows
// into parts. Where an address or a stride is no multiple of a vector, the same is done with one column for each
// thread.
#include "tiers/compiler/tile/lower_columns_gpu.h"

#include "tiers/compiler/sched/columns.h"
#include "tiers/compiler/tile/gpu_rows.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr int64_t kWarp = 32;
constexpr int64_t kInFlight = 32;  // elements of a thread; fewer where there is more to compute than the sum

class ColumnsGpu : public GpuRows {
 public:
  using GpuRows::GpuRows;

  void Run(OpBuilder& at) {
    for (graph::ReduceOp reduce : Body().getOps<graph::ReduceOp>())
      accumulators_.push_back(AccumulatorOf(reduce, /*widens=*/true));
    ClassifyValues();
    const Dim& width = nest_.space.back();
    int64_t narrowest = 8, widest = 1, inputs = 0;
    for (size_t k = 0; k < nest_.views.size(); ++k) {
      if (nest_.views[k].loops.back().kind == Stride::Kind::zero) continue;
      const int64_t bytes = BytesOf(nest_.views[k].type.getElementType());
      narrowest = std::min(narrowest, bytes);
      widest = std::max(widest, bytes);
      inputs += k < num_inputs_;
    }
    bool is_heavy = false;
    for (const Accumulator& a : accumulators_) is_heavy |= IsHeavy(graph::ReduceOp(a.reduce).getX());
    for (Value v : Yield().getValues()) is_heavy |= pass_.lookup(v) == 0 && IsHeavy(v);
    // 64 registers are enough for loads and sums of two blocks, or for as many threads of one block that have fewer
    // elements to compute; f64, rows that are found by several indices, and code for older devices take more.
    const bool is_large = device_.starts_with("sm_8") || widest > 4 || (is_heavy && nest_.loops.size() > 2);
    threads_ = is_heavy && !is_large ? 1024 : 512;
    columns_ = kColumnBytes / narrowest;
    lanes_of_thread_ = std::clamp<int64_t>(16 / narrowest, 1, is_heavy ? 4 : 8);
    while (lanes_of_thread_ > 1 && lanes_of_thread_ * widest > 32) lanes_of_thread_ /= 2;
    while (!width.is_symbol && lanes_of_thread_ > 1 && width.value % lanes_of_thread_ != 0) lanes_of_thread_ /= 2;
    const int64_t share = lanes_of_thread_ * std::max<int64_t>(1, inputs) * (is_heavy ? 4 : widest > 4 ? 2 : 1);
    at_once_ = std::clamp<int64_t>(kInFlight / share, 1, 8);

    Begin(at);
    SmallVector<int64_t> tasks;
    outer_ = rows_ = I64(1);
    exact_rows_ = 1;
    for (size_t d = 0; d + 1 < nest_.space.size(); ++d) {
      const bool is_outer = static_cast<int64_t>(d) < nest_.first;
      if (nest_.space[d].is_one()) continue;
      if (!is_outer) exact_rows_ = nest_.space[d].is_symbol ? 0 : exact_rows_ * nest_.space[d].value;
      if (is_outer) tasks.push_back(Factor(nest_.space[d]));
      Value& size = is_outer ? outer_ : rows_;
      size = Mul(size, SizeOf(nest_.space[d]));
    }
    tasks.push_back(Factor(width));
    width_ = SizeOf(width);
    thread_ = Place("thread");
    warp_ = Div(thread_, I64(kWarp));
    lane_ = Rem(thread_, I64(kWarp));
    Value is_aligned = AreAligned(lanes_of_thread_, width.is_symbol ? width_ : Value());
    Value segments = Ceil(width_, columns_);
    For(Place("block"), Mul(outer_, segments), Place("blocks"), {}, [&](Value item, ValueRange) {
      Value outer = Div(item, segments), from = Mul(Rem(item, segments), I64(columns_));
      auto vectors = [&] { Segment(outer, from, lanes_of_thread_); };
      if (is_aligned)
        IfElse(is_aligned, vectors, [&] { Segment(outer, from, 1); });
      else
        vectors();
      return SmallVector<Value>();
    });
    End(tasks, {}, {}, {}, threads_ * lanes_of_thread_ * 8);
    tile_.setTeam(ArrayRef<int64_t>{threads_, columns_, threads_ > 512 || is_large ? 1 : 2, 0});
  }

 private:
  // A row of a thread: where its views begin, and what is known of it.
  struct Stage {
    SmallVector<Value> indices, offsets;
    llvm::DenseMap<Value, Value> values;
    Chunk chunk;
  };

  void Segment(Value outer, Value from, int64_t lanes) {
    const int64_t across = columns_ / lanes, down = threads_ / across;
    Value row = Div(thread_, I64(across));
    Value own = Mul(Rem(thread_, I64(across)), I64(lanes)), column = Sum(from, own), is_column;
    const Dim& width = nest_.space.back();
    if (width.is_symbol || width.value % columns_ != 0) {
      is_column = Compare(arith::CmpIPredicate::ult, column, width_);
      column = Min(column, Minus(width_, I64(lanes)));
    }
    SmallVector<Value> init;
    for (const Accumulator& a : accumulators_) init.push_back(Identity(a, true, lanes));
    const int64_t at_once = std::clamp<int64_t>(at_once_ * lanes_of_thread_ / (2 * lanes), at_once_, 8);
    is_even_ = exact_rows_ > 0 && exact_rows_ % (down * at_once) == 0;
    const SmallVector<Value> sums = For(row, rows_, I64(down * at_once), init, [&](Value first, ValueRange carried) {
      SmallVector<Stage> stages;
      for (int64_t r = 0; r < at_once; ++r) stages.push_back(LoadRow(outer, first, r * down, column, lanes));
      SmallVector<Value> few(accumulators_.size());
      for (Stage& stage : stages) AddRow(stage, is_column, few);
      SmallVector<Value> next;
      for (auto [k, a] : llvm::enumerate(accumulators_))
        next.push_back(Combine(a, carried[k], a.widens ? Widen(few[k]) : few[k]));
      return next;
    });
    PutColumnsTogether(outer, from, Sum(Mul(row, I64(columns_)), own), down, sums);
  }

  Stage LoadRow(Value outer, Value first, int64_t more, Value column, int64_t lanes) {
    Value row = first, is_there;
    if (more > 0) row = Sum(first, I64(more));
    if (more > 0 && !is_even_) {
      is_there = Compare(arith::CmpIPredicate::ult, row, rows_);
      row = Min(row, Minus(rows_, I64(1)));
    }
    SetColumnOffsets(outer, row);
    ForgetRow();
    Stage stage{indices_, offsets_, values_, Chunk{column, is_there, lanes, lanes > 1}};
    auto need = [&](Value v) {
      NeedRows(v, 0);
      LoadFor(v, stage.chunk);
    };
    for (const Accumulator& a : accumulators_) need(graph::ReduceOp(a.reduce).getX());
    for (Value v : Yield().getValues())
      if (pass_.lookup(v) == 0) need(v);
    stage.values = values_;
    return stage;
  }

  void AddRow(Stage& stage, Value is_column, SmallVector<Value>& few) {
    indices_ = stage.indices, offsets_ = stage.offsets, values_ = stage.values;
    Chunk& chunk = stage.chunk;
    for (auto [k, a] : llvm::enumerate(accumulators_)) {
      Value x = Tile(a.reduce.getX(), chunk);
      if (chunk.is_valid) x = arith::SelectOp::create(b_, loc_, chunk.is_valid, x, Identity(a, false, chunk.lanes));
      few[k] = few[k] ? Combine(a, few[k], x) : x;
    }
    Value is_there = And(chunk.is_valid, is_column);
    for (auto [k, v] : llvm::enumerate(Yield().getValues())) {
      if (pass_.lookup(v) > 0) continue;
      const size_t view = num_inputs_ + k;
      StoreWhere(Tile(v, chunk), view, Sum(offsets_[view], chunk.at), chunk, is_there);
    }
  }

  // Sums of all threads, `down` for each column, in f64 for the most part.
  void PutColumnsTogether(Value outer, Value from, Value slot, int64_t down, ArrayRef<Value> sums) {
    const int64_t warps = threads_ / kWarp;
    const int64_t of_warp = std::max<int64_t>(1, columns_ / warps);
    SmallVector<llvm::DenseMap<Value, Value>> known(static_cast<size_t>(of_warp));
    for (auto [k, a] : llvm::enumerate(accumulators_)) {
      // What was there may be in use until here.
      tile::BarrierOp::create(b_, loc_);
      tile::StoreOp::create(b_, loc_, sums[k], scratch_, slot, Value(), a.type);
      tile::BarrierOp::create(b_, loc_);
      for (int64_t c = 0; c < of_warp; ++c) {
        Value column = Min(Sum(warp_, I64(c * warps)), I64(columns_ - 1)), sum;
        for (int64_t r = 0; r < down; r += kWarp) {
          Value row = Sum(lane_, I64(r));
          if (down < kWarp) row = Min(row, I64(down - 1));
          Value x = tile::LoadOp::create(b_, loc_, a.type, scratch_, Sum(Mul(row, I64(columns_)), column), Value(),
                                         TypeAttr::get(a.type), UnitAttr());
          if (down < kWarp)
            x = arith::SelectOp::create(b_, loc_, Compare(arith::CmpIPredicate::ult, lane_, I64(down)), x,
                                        Identity(a, true, 1));
          sum = sum ? Combine(a, sum, x) : x;
        }
        Value all = tile::TeamReduceOp::create(b_, loc_, sum.getType(), b_.getStringAttr(CombinerOf(a)), sum,
                                               b_.getI64IntegerAttr(kWarp), scratch_, b_.getI64IntegerAttr(0));
        known[static_cast<size_t>(c)][a.reduce.getY()] = Finish(a, all, rows_);
      }
    }
    SetColumnOffsets(outer, Value());
    for (int64_t c = 0; c < of_warp; ++c) {
      Value own = Sum(warp_, I64(c * warps)), column = Sum(from, own);
      Value is_mine = And(Compare(arith::CmpIPredicate::eq, lane_, I64(0)),
                          And(Compare(arith::CmpIPredicate::ult, own, I64(columns_)),
                              Compare(arith::CmpIPredicate::ult, column, width_)));
      SmallVector<std::pair<size_t, Value>> results;
      for (auto [k, v] : llvm::enumerate(Yield().getValues()))
        if (pass_.lookup(v) > 0) results.push_back({num_inputs_ + k, AfterSums(v, known[static_cast<size_t>(c)], 1)});
      If(is_mine, [&] {
        for (auto& [view, y] : results) StoreTile(y, view, Sum(offsets_[view], column), /*aligned=*/false);
      });
    }
  }

  SmallVector<Accumulator> accumulators_;
  int64_t threads_ = 0;          // of a block
  int64_t columns_ = 0;          // of a block
  int64_t lanes_of_thread_ = 1;  // columns of a thread
  int64_t at_once_ = 1;          // rows that a thread has in flight
  int64_t exact_rows_ = 0;       // where they are known
  bool is_even_ = false;         // there is no time with fewer rows than others
  Value outer_, rows_, width_, thread_, warp_, lane_;
};

}  // namespace

void LowerColumnsGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, OpBuilder& at) {
  ColumnsGpu(kernel, std::move(nest), options).Run(at);
}

}  // namespace tessera::compiler
