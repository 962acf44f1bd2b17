// tsr-lower-kernels-gpu, kernels with a matrix product whose sum is shared; sm_90a.
//
// A result of few tiles has no work for all multiprocessors, and takes as long as its right factor takes to come from
// memory. So the blocks of a cluster do one tile together: of every so many pieces of the sum each takes one. As in
// lower_product_gpu.cc a thread brings pieces to a ring in shared memory, much of which is on its way at any time, and
// two groups of four warps multiply them; but both have all rows of the tile, and take the pieces in turns:
//
//   producer                                 each group
//     for each piece of the block              for every other piece of the block
//       wait until the slot was used             wait until the slot is filled
//       announce its bytes, start the copies     multiply; wait for the product before, whose slot is free now
//   everybody of the block meets: nobody reads the ring any more
//                                              leave the sums there
//   everybody of the cluster meets
//   each thread: add up the sums of some elements of the result, in order, and compute what follows
//
// There is a cluster for each tile: it does not stay. Of the left factor no more lines are copied than the result has
// rows, where that is known; what instructions read beyond them is of no use, and of no harm.
#include "tiers/compiler/tile/lower_split_gpu.h"

#include "tiers/compiler/tile/follow_sums_gpu.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

class SplitLowering : public FollowSumsGpu {
 public:
  SplitLowering(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, ProductSchedule schedule)
      : FollowSumsGpu(kernel, std::move(nest), options, schedule, (kGroups + 1) * kGroup, kGroups,
                      schedule.SumsPitch()) {}

  bool CanLower() {
    const Dim& rows = nest_.space[rank_ - 2];
    if (Fits(rows, s_.rows)) lines_ = (rows.value + 7) / 8 * 8;
    if (!FindFactor(left_, 0, lines_)) return false;
    if (left_.is_across) lines_ = s_.rows;
    return FindFactor(right_, 1, s_.columns);
  }

  void Lower(OpBuilder& at) {
    ClassifyValues();
    Begin(at);
    BeginTiles();
    slot_bytes_ = (lines_ + s_.columns) * kRowBytes;
    signals_at_ = s_.SplitBytes();
    Value pieces = Ceil(SizeOf(DepthOf()), s_.depth);
    // Those of this block.
    pieces_ =
        s_.Blocks() == 1 ? pieces : Div(Sum(pieces, Minus(I64(s_.Blocks() - 1), rank_in_cluster_)), I64(s_.Blocks()));
    OneTile([&](const Where& where) { TileOf(where, [&] { LeaveSums(where); }); });
    EndTiles({});
    SmallVector<int64_t> team = {threads_, 1, 1, 0, signals_at_ + 16 * s_.stages};
    if (s_.Blocks() > 1) team.push_back(s_.Blocks());
    tile_.setTeam(team);
    tile_.setMapsAttr(b_.getArrayAttr({left_.map, right_.map}));
    if (s_.source != 0) tile_->setAttr("source", b_.getUnitAttr());
  }

 private:
  Value Signal(Value slot, int64_t which) { return Sum(I64(signals_at_ + which * 8 * s_.stages), Mul(slot, I64(8))); }
  Value Filled(Value slot) { return Signal(slot, 0); }
  Value Used(Value slot) { return Signal(slot, 1); }
  // The slot of piece number n of the block, and the phase of its signals.
  std::pair<Value, Value> Turn(Value n) {
    auto [round, slot] = Split(n, I64(s_.stages));
    return {slot, arith::AndIOp::create(b_, loc_, round, I64(1))};
  }

  void LeaveSums(const Where& where) {
    If(Compare(arith::CmpIPredicate::eq, thread_, I64(0)), [&] {
      for (int64_t k = 0; k < s_.stages; ++k) {
        tile::SignalInitOp::create(b_, loc_, Filled(I64(k)), b_.getI64IntegerAttr(1));
        tile::SignalInitOp::create(b_, loc_, Used(I64(k)), b_.getI64IntegerAttr(1));
      }
      tile::SignalsReadyOp::create(b_, loc_);
    });
    tile::BarrierOp::create(b_, loc_);
    IfElse(
        Compare(arith::CmpIPredicate::uge, thread_, I64(kGroups * kGroup)),
        [&] {
          If(Compare(arith::CmpIPredicate::eq, thread_, I64(kGroups * kGroup)), [&] { Produce(where); });
          tile::BarrierOp::create(b_, loc_);
        },
        [&] { MultiplyAndLeave(); });
  }

  void Produce(const Where& where) {
    For(I64(0), pieces_, I64(1), {}, [&](Value n, ValueRange) {
      auto [slot, phase] = Turn(n);
      tile::SignalWaitOp::create(b_, loc_, Used(slot), arith::XOrIOp::create(b_, loc_, phase, I64(1)));
      Value signal = Filled(slot), at = Mul(slot, I64(slot_bytes_));
      tile::SignalExpectOp::create(b_, loc_, signal, b_.getI64IntegerAttr(slot_bytes_));
      Value along = Mul(Sum(Mul(n, I64(s_.Blocks())), rank_in_cluster_), I64(s_.depth));
      // What takes longer goes first.
      Copy(right_, 1, where.batch, where.column, along, Sum(at, I64(lines_ * kRowBytes)), signal, s_.columns);
      Copy(left_, 0, where.batch, where.row, along, at, signal, lines_);
      return SmallVector<Value>();
    });
  }

  void MultiplyAndLeave() {
    Value group = Place("group"), in_group = Rem(thread_, I64(kGroup));
    Value is_leader = Compare(arith::CmpIPredicate::eq, in_group, I64(0));
    auto type = VectorType::get({s_.rows * s_.columns / kGroup}, b_.getF32Type());
    Value zero = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type));
    const SmallVector<Value> end = For(group, pieces_, I64(kGroups), {zero, I64(0)}, [&](Value n, ValueRange at) {
      auto [slot, phase] = Turn(n);
      tile::SignalWaitOp::create(b_, loc_, Filled(slot), phase);
      Value piece = Mul(slot, I64(slot_bytes_));
      Value sums = Multiply(at[0], piece, Sum(piece, I64(lines_ * kRowBytes)), s_.columns);
      sums = tile::MultipliedOp::create(b_, loc_, type, sums, b_.getI64IntegerAttr(1));
      If(And(is_leader, Compare(arith::CmpIPredicate::uge, n, I64(kGroups))),
         [&] { tile::SignalArriveOp::create(b_, loc_, Used(at[1]), Value()); });
      return SmallVector<Value>{sums, slot};
    });
    Value sums = tile::MultipliedOp::create(b_, loc_, type, end[0], b_.getI64IntegerAttr(0));
    tile::BarrierOp::create(b_, loc_);
    // As instructions leave sums: a warp has 16 of every 64 rows, and a thread pairs of columns in two of them.
    Value lane = Rem(thread_, I64(32)), row = Sum(Mul(Div(in_group, I64(32)), I64(16)), Div(lane, I64(4)));
    Value first = Sum(Mul(Sum(Mul(group, I64(s_.rows)), row), I64(pitch_)), Mul(Rem(lane, I64(4)), I64(8)));
    tile::LeaveGroupOp::create(b_, loc_, sums, first, b_.getI64IntegerAttr(pitch_), b_.getI64IntegerAttr(s_.columns));
  }

  int64_t lines_ = s_.rows;  // of the left factor, in a piece
  int64_t slot_bytes_ = 0, signals_at_ = 0;
  Value pieces_;
};

}  // namespace

void LowerSplitGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, OpBuilder& at) {
  SplitLowering lowering(kernel, std::move(nest), options, *ProductSchedule::FromAttr(*kernel.getProduct()));
  if (lowering.CanLower()) lowering.Lower(at);
}

}  // namespace tessera::compiler
