// tsr-lower-kernels-gpu, kernels with a matrix product, on tensor cores.
//
// sm_90a:
// A block stays on its multiprocessor and takes one tile of the result (rows x columns of the schedule) after another.
// One thread brings pieces of both factors, `depth` along the sum, to a ring of slots in shared memory; two groups
// of four warps multiply them and keep the sums in registers:
//
//   producer                                 each group, for its 64 or 128 rows of the tile
//     for each tile, for each piece            for each tile
//       wait until the slot was used             for each piece
//       announce its bytes, start the copies       wait until the slot is filled
//                                                  multiply; wait for the product before, whose slot is free now
//                                                what follows the product, from the sums
//
// With `apart` each of the two groups has tiles of its own: they multiply in turns, which signals give, and while one
// does the other computes what follows its product. Otherwise they share a tile, which is larger, so that its pieces
// are used more often. The second group begins some pieces later, and stays that far behind: so it multiplies alone
// while the first one computes what follows, and the other way round.
//
// With `cluster` two blocks have tiles one below the other at the same time. Each brings half of the right factor's
// piece to both, so that half as much is read of the second-level cache. A slot is free when both have used it.
//
// Of f8 a piece is a block of scales, where factors have any: the sums of the piece are multiplied with those of its
// rows and columns when they are added to the others. A thread reads the scales of its two rows, and one for each 128
// columns.
//
// Other devices, and with `warps`: there is no thread that copies for all, and each warp multiplies for itself. All
// threads bring a part of each piece, as many pieces ahead as the ring has slots but one:
//
//   for each tile, for each piece
//     wait until the own copies of the piece are there, then for everybody: nobody reads the slot before it any more
//     start the copies that go there
//     multiply
//
// What follows is in tile/follow_product_gpu.cc.
//
// Tiles are taken in groups of eight or more rows of tiles: what runs at one time shares pieces in the second-level
// cache.
#include "tiers/compiler/tile/lower_product_gpu.h"

#include "tiers/compiler/sched/f8_factors.h"
#include "tiers/compiler/tile/follow_product_gpu.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

// Rows of tiles that are taken together, of long sums and of short ones, whose rows stay in the second-level cache.
constexpr int64_t kTogether = 8, kMoreTogether = 16, kShortSum = 2048;
constexpr int64_t kProducerRegisters = 40, kGroupRegisters = 232;
// With scales: where ptxas may use more it keeps what it could compute again, and spills 6 to 60 registers of widest
// tiles.
constexpr int64_t kScaledRegisters = 208;

class ProductGpuLowering : public FollowProductGpu {
 public:
  ProductGpuLowering(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, ProductSchedule schedule)
      : FollowProductGpu(kernel, std::move(nest), options, schedule) {}

  bool CanLower() {
    return FindFactor(left_, 0, s_.rows) && FindFactor(right_, 1, s_.columns / s_.Blocks()) &&
           (!(IsF8(dtype_) || is_tf32_) || (!left_.is_across && !right_.is_across)) &&
           (s_.warps == 0 || (left_.is_last && right_.is_last && (!right_.is_across || s_.columns % 64 == 0)));
  }

  void Lower(OpBuilder& at) {
    ClassifyValues();
    Begin(at);
    thread_ = Place("thread");
    const int64_t left_bytes = s_.rows * kRowBytes, right_bytes = s_.columns * kRowBytes;
    slot_bytes_ = left_bytes + right_bytes;
    if (s_.warps != 0 || !PlanPlaces()) FindRowOperands(kWarps, ProductSchedule::kRowBytes);
    places_at_ = s_.stages * slot_bytes_;
    signals_at_ = places_at_ + kWarps * places_ * kPlaceBytes;
    rows_at_ = signals_at_ + NumSignals() * 8;
    rows_ = sizes_[rank_ - 2];
    columns_ = sizes_[rank_ - 1];
    row_tiles_ = Ceil(rows_, s_.rows * s_.Blocks());
    column_tiles_ = Ceil(columns_, s_.columns);
    pieces_ = Ceil(SizeOf(DepthOf()), s_.depth);
    if (s_.warps != 0) {
      Warps();
    } else {
      Roles();
    }
    SmallVector<int64_t> tasks, blocks;
    for (size_t d = 0; d < rank_; ++d) {
      if (nest_.space[d].is_one()) continue;
      tasks.push_back(Factor(nest_.space[d]));
      blocks.push_back(d + 2 == rank_ ? s_.rows * s_.Blocks() : d + 1 == rank_ ? s_.columns : 1);
    }
    End(tasks, blocks, {}, {}, 0);
    const int64_t groups = s_.warps != 0 ? kGroups : kGroups + 1;
    SmallVector<int64_t> team = {groups * kGroup, 1, 1, rows_at_ + RowCopies() * row_bytes_};
    if (s_.Blocks() > 1) team.append({0, s_.Blocks()});
    tile_.setTeam(team);
    if (s_.source != 0) tile_->setAttr("source", b_.getUnitAttr());
    if (s_.warps == 0) {
      SmallVector<Attribute> maps = {left_.map, right_.map};
      for (const Matrix& matrix : results_) maps.push_back(matrix.map);
      if (read_) maps.push_back(read_->map);
      tile_.setMapsAttr(b_.getArrayAttr(maps));
    }
    SmallVector<int64_t> aligned;
    for (size_t k = 0; k < nest_.views.size(); ++k)
      if ((MovesInside(k) && IsRun(k)) || (s_.warps != 0 && (k == left_.view || k == right_.view)))
        aligned.push_back(static_cast<int64_t>(k));
    tile_.setAligned(aligned);
  }

 private:
  void Roles() {
    If(Compare(arith::CmpIPredicate::eq, thread_, I64(0)), [&] {
      for (int64_t k = 0; k < s_.stages; ++k) {
        tile::SignalInitOp::create(b_, loc_, Filled(I64(k)), b_.getI64IntegerAttr(1));
        tile::SignalInitOp::create(b_, loc_, Used(I64(k)),
                                   b_.getI64IntegerAttr((s_.apart != 0 ? 1 : kGroups) * s_.Blocks()));
      }
      for (int64_t g = 0; g < kGroups; ++g) tile::SignalInitOp::create(b_, loc_, Turn(I64(g)), b_.getI64IntegerAttr(1));
      for (int64_t k = 0; read_ && k < kWarps * places_; ++k)
        tile::SignalInitOp::create(b_, loc_, I64(signals_at_ + 16 * (s_.stages + 1) + 8 * k), b_.getI64IntegerAttr(1));
      tile::SignalsReadyOp::create(b_, loc_);
    });
    BlocksMeet();
    IfElse(Compare(arith::CmpIPredicate::uge, thread_, I64(kGroups * kGroup)), [&] { Producer(); }, [&] { Group(); });
    // Nobody leaves while another block may still reach its memory.
    if (s_.Blocks() > 1) BlocksMeet();
  }
  void BlocksMeet() {
    if (s_.Blocks() > 1) {
      tile::ClusterBarrierOp::create(b_, loc_);
    } else {
      tile::BarrierOp::create(b_, loc_);
    }
  }

  Value Signal(Value slot, int64_t which) { return Sum(I64(signals_at_ + which * 8 * s_.stages), Mul(slot, I64(8))); }
  Value Filled(Value slot) { return Signal(slot, 0); }
  Value Used(Value slot) { return Signal(slot, 1); }
  // With `apart`: the group may multiply. Otherwise, of group 0: group 1 may begin.
  Value Turn(Value group) { return Sum(I64(signals_at_ + 16 * s_.stages), Mul(group, I64(8))); }
  Value Before(Value slot) {
    Value is_first = Compare(arith::CmpIPredicate::eq, slot, I64(0));
    return arith::SelectOp::create(b_, loc_, is_first, I64(s_.stages - 1), Minus(slot, I64(1)));
  }

  int64_t NumSignals() const { return 2 * (s_.stages + 1) + (read_ ? kWarps * places_ : 0); }

  // fn(At) for the tiles of the block from number `first` on, every `step`-th of them. Everybody knows where in the
  // ring the pieces of a tile are. The first group takes its first turn without a signal.
  template <typename Fn>
  void Tiles(Value first, int64_t step, Fn fn) {
    const Dim depth = DepthOf();
    const bool is_short = !depth.is_symbol && depth.value <= kShortSum;
    const int64_t together = (is_short ? kMoreTogether : kTogether) / s_.Blocks(), rows = s_.rows * s_.Blocks();
    Value in_batch = Mul(row_tiles_, column_tiles_), band = Mul(column_tiles_, I64(together));
    Value block = Place("block"), blocks = Place("blocks"), rank;
    if (s_.Blocks() > 1) {
      rank = Place("rank");
      block = Div(block, I64(s_.Blocks()));
      blocks = Div(blocks, I64(s_.Blocks()));
    }
    For(Sum(block, Mul(first, blocks)), end_, Mul(blocks, I64(step)), {Mul(first, pieces_), Minus(I64(1), first)},
        [&](Value tile, ValueRange at) {
          SmallVector<Value> batch;
          if (rank_ > 2) {
            auto [number, rest] = Split(tile, in_batch);
            batch = Indices(number, rank_ - 2);
            tile = rest;
          }
          auto [bands, within] = Split(tile, band);
          Value top = Mul(bands, I64(together)), height = Min(I64(together), Minus(row_tiles_, top));
          auto [across, below] = Split(within, height);
          Value row = Mul(Sum(top, below), I64(rows));
          if (rank) row = Sum(row, Mul(rank, I64(s_.rows)));
          Value column = Mul(across, I64(s_.columns)), round = Split(at[0], I64(s_.stages)).first;
          fn(At{batch,
                row,
                column,
                {Minus(at[0], Mul(round, I64(s_.stages))), arith::AndIOp::create(b_, loc_, round, I64(1))},
                at[0],
                at[1]});
          return SmallVector<Value>{Sum(at[0], Mul(pieces_, I64(step))),
                                    arith::XOrIOp::create(b_, loc_, at[1], I64(1))};
        });
  }

  // ---- the producer

  void Producer() {
    tile::RegistersOp::create(b_, loc_, b_.getI64IntegerAttr(kProducerRegisters), UnitAttr());
    If(Compare(arith::CmpIPredicate::eq, thread_, I64(kGroups * kGroup)), [&] {
      const bool shares = s_.Blocks() > 1;
      const int64_t columns = s_.columns / s_.Blocks();
      Value first_column = shares ? Mul(Place("rank"), I64(columns)) : I64(0);
      Tiles(I64(0), 1, [&](const At& tile) {
        For(I64(0), pieces_, I64(1), {tile.ring.slot, tile.ring.phase}, [&](Value piece, ValueRange at) {
          const Ring ring{at[0], at[1]};
          tile::SignalWaitOp::create(b_, loc_, Used(ring.slot), arith::XOrIOp::create(b_, loc_, ring.phase, I64(1)));
          Value signal = Filled(ring.slot), along = Mul(piece, I64(s_.depth));
          tile::SignalExpectOp::create(b_, loc_, signal, b_.getI64IntegerAttr(slot_bytes_));
          Value slot = Mul(ring.slot, I64(slot_bytes_));
          Copy(left_, 0, tile.batch, tile.row, along, slot, signal, s_.rows);
          Value right = Sum(slot, I64(s_.rows * kRowBytes));
          if (shares) right = Sum(right, Mul(first_column, I64(kRowBytes)));
          Copy(right_, 1, tile.batch, Sum(tile.column, first_column), along, right, signal, columns, s_.Blocks());
          const Ring next = Next(ring);
          return SmallVector<Value>{next.slot, next.phase};
        });
      });
    });
  }

  // ---- a group

  void Group() {
    tile::RegistersOp::create(b_, loc_, b_.getI64IntegerAttr(HasScales(product_) ? kScaledRegisters : kGroupRegisters),
                              b_.getUnitAttr());
    const int64_t own_rows = s_.OwnRows();
    group_ = Place("group");
    Value in_group = Rem(thread_, I64(kGroup));
    is_leader_ = Compare(arith::CmpIPredicate::eq, in_group, I64(0));
    auto sums = VectorType::get({own_rows * s_.columns / kGroup}, b_.getF32Type());
    // Rows of the tile before its own.
    Value before = s_.apart != 0 ? I64(0) : Mul(group_, I64(own_rows));
    Value left_at = Mul(before, I64(kRowBytes)), first = s_.apart != 0 ? group_ : I64(0);
    // The slot was used: each block of the cluster hears of it, from a thread each.
    Value tells = s_.Blocks() > 1 ? Compare(arith::CmpIPredicate::ult, in_group, I64(s_.Blocks())) : is_leader_;
    auto tell = [&](Value slot) {
      tile::SignalArriveOp::create(b_, loc_, Used(slot), s_.Blocks() > 1 ? in_group : Value());
    };
    auto arrive = [&](Value turn) { tile::SignalArriveOp::create(b_, loc_, turn, Value()); };
    Value lag = Min(I64(s_.stages - 2), Minus(pieces_, I64(1)));
    const bool lags = s_.apart == 0 && s_.stages > 2;
    Value late = Minus(pieces_, Min(pieces_, I64(2)));
    if (lags)
      If(Compare(arith::CmpIPredicate::eq, group_, I64(1)),
         [&] { tile::SignalWaitOp::create(b_, loc_, Turn(I64(0)), I64(0)); });
    Value leads = And(is_leader_, Compare(arith::CmpIPredicate::eq, group_, I64(0)));
    Value warp = Rem(Div(thread_, I64(32)), I64(4));
    Tiles(first, s_.apart != 0 ? 2 : 1, [&](const At& tile) {
      if (s_.apart != 0) tile::SignalWaitOp::create(b_, loc_, Turn(group_), tile.turn);
      FetchRows(tile.column);
      Value top = Sum(Sum(tile.row, before), Mul(warp, I64(16)));
      Value zero = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(sums));
      const ScalePlaces places = PlaceScales(tile, top);
      const SmallVector<Value> end =
          For(I64(0), pieces_, I64(1), {zero, tile.ring.slot, tile.ring.phase}, [&](Value piece, ValueRange at) {
            const Ring ring{at[1], at[2]};
            tile::SignalWaitOp::create(b_, loc_, Filled(ring.slot), ring.phase);
            Value slot = Mul(ring.slot, I64(slot_bytes_)), right = Sum(slot, I64(s_.rows * kRowBytes));
            Value next = at[0];
            if (IsF8(dtype_)) {
              next = MultiplyParts(next, Sum(slot, left_at), right, places, piece);
              If(tells, [&] { tell(ring.slot); });
            } else {
              next = Multiply(next, Sum(slot, left_at), right, s_.columns);
              next = tile::MultipliedOp::create(b_, loc_, sums, next, b_.getI64IntegerAttr(1));
              If(And(tells, Compare(arith::CmpIPredicate::ne, piece, I64(0))), [&] { tell(Before(ring.slot)); });
            }
            if (lags)
              If(And(leads, Compare(arith::CmpIPredicate::eq, Sum(tile.done, piece), lag)),
                 [&] { arrive(Turn(I64(0))); });
            // The other group begins while the last products of this one are on their way.
            if (s_.apart != 0)
              If(And(is_leader_, Compare(arith::CmpIPredicate::eq, piece, late)),
                 [&] { arrive(Turn(Minus(I64(1), group_))); });
            if (read_) ReadMatrix(tile, top, piece);
            const Ring after = Next(ring);
            return SmallVector<Value>{next, after.slot, after.phase};
          });
      Steps steps;
      if (places_ == 0) steps = BeginSteps(tile.batch, top, tile.column);
      Value done = end[0];
      if (!IsF8(dtype_)) {
        done = tile::MultipliedOp::create(b_, loc_, sums, done, b_.getI64IntegerAttr(0));
        If(tells, [&] { tell(Before(end[1])); });
      }
      AwaitRows();
      if (places_ > 0) {
        FollowInPlaces(tile, top, done, arith::XOrIOp::create(b_, loc_, tile.turn, Minus(I64(1), first)));
      } else {
        Follow(steps, done);
      }
      RowsWereRead();
    });
    if (places_ > 0)
      If(IsFirstLane(),
         [&] { tile::AwaitOutOp::create(b_, loc_, b_.getI64IntegerAttr(0), /*written=*/b_.getUnitAttr()); });
  }

  // ---- scales for blocks of the factors

  /// What the thread reads of them at each piece: where the first piece's are, and how far it is to the next ones, both
  /// in 32 bits, because there are hardly registers for more.
  struct ScalePlace {
    size_t view;
    Value at, step;
  };
  /// Of its upper and its lower row, where the left factor has any; then of its blocks of columns.
  using ScalePlaces = SmallVector<ScalePlace>;

  Value Narrow(Value n) { return arith::TruncIOp::create(b_, loc_, b_.getI32Type(), n); }

  /// Those of a row (column) of the tile, which may be beyond the last one: then any will do.
  ScalePlace PlaceScale(const BlockScales& s, const At& tile, Value row, Value rows) {
    const size_t view = cast<BlockArgument>(s.values).getArgNumber();
    const ViewPlan& v = nest_.views[view];
    const SmallVector<Dim> dims = DimsOf(v.type);
    Value at = I64(0);
    for (int64_t d = 0; d < s.outer; ++d)
      if (!dims[static_cast<size_t>(d)].is_one())
        at = Sum(at, Mul(tile.batch[rank_ - 2 - static_cast<size_t>(s.outer - d)], StrideOfDim(v, d)));
    if (s.row >= 0) {
      Value block = Min(row, Minus(rows, I64(1)));
      if (s.rows > 1) block = Div(block, I64(s.rows));
      at = Sum(at, Mul(block, StrideOfDim(v, s.row)));
    }
    return {view, Narrow(at), Narrow(s.along >= 0 ? StrideOfDim(v, s.along) : I64(0))};
  }

  ScalePlaces PlaceScales(const At& tile, Value top) {
    ScalePlaces places;
    if (scales_[0].values)
      for (int64_t lower = 0; lower < 2; ++lower)
        places.push_back(PlaceScale(scales_[0], tile, Sum(top, Sum(Div(Lane(), I64(4)), I64(8 * lower))), rows_));
    if (scales_[1].values)
      for (int64_t part = 0; part < s_.Parts(); ++part)
        places.push_back(PlaceScale(scales_[1], tile, Sum(tile.column, I64(part * kScaleBlock)), columns_));
    return places;
  }

  SmallVector<Value> LoadScales(const ScalePlaces& places, Value piece) {
    SmallVector<Value> scales;
    for (const auto& [view, at, step] : places) {
      Value offset = arith::AddIOp::create(b_, loc_, at, arith::MulIOp::create(b_, loc_, Narrow(piece), step));
      scales.push_back(Load(view, arith::ExtUIOp::create(b_, loc_, b_.getI64Type(), offset), 1, Value()));
    }
    return scales;
  }

  // Of f8. The sums of a piece, some columns at a time, are added to those of all when they are there; the other group
  // multiplies meanwhile. Scales are read while the first ones are multiplied.
  Value MultiplyParts(Value sums, Value left, Value right, const ScalePlaces& places, Value piece) {
    const int64_t parts = s_.Parts(), columns = s_.columns / parts, of_part = s_.OwnRows() * columns / kGroup;
    auto type = VectorType::get({of_part}, b_.getF32Type());
    SmallVector<Value> scales;
    for (int64_t n = 0; n < parts; ++n) {
      Value nothing = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type));
      Value part = Multiply(nothing, left, n == 0 ? right : Sum(right, I64(n * columns * kRowBytes)), columns, false,
                            /*fresh=*/true);
      if (n == 0) scales = LoadScales(places, piece);
      part = tile::MultipliedOp::create(b_, loc_, type, part, b_.getI64IntegerAttr(0));
      std::array<Value, 2> by;
      for (unsigned row = 0; row < 2; ++row) {
        Value of_row = scales_[0].values ? scales[row] : Value();
        Value of_columns = scales_[1].values ? scales[(of_row ? 2 : 0) + static_cast<size_t>(n)] : Value();
        by[row] = of_row && of_columns ? arith::MulFOp::create(b_, loc_, of_row, of_columns).getResult()
                  : of_row             ? of_row
                                       : of_columns;
      }
      sums = tile::PromoteOp::create(b_, loc_, sums.getType(), part, sums, b_.getI64IntegerAttr(n * of_part), by[0],
                                     by[1]);
    }
    return sums;
  }

  // ---- each warp for itself

  /// Where the part of a piece that this thread copies lies in its factor.
  struct Lines {
    Value offset;  // of the first element of the tile's first line and the sum's first element, of the whole factor
    Value line, along;   // strides
    Value first, lines;  // the first line of the tile, and how many the factor has
  };
  Lines Locate(const Matrix& matrix, ArrayRef<Value> batch, Value first, Value lines) {
    const ViewPlan& v = nest_.views[matrix.view];
    const int64_t rank = v.type.getRank();
    Value offset = I64(0);
    for (auto [d, own] : llvm::zip(matrix.batch, matrix.dims)) offset = Sum(offset, Mul(batch[d], StrideOfDim(v, own)));
    Value one = I64(1), other = StrideOfDim(v, rank - 2);
    return {offset, matrix.is_across ? one : other, matrix.is_across ? other : one, first, lines};
  }
  // 16 bytes of every 32nd row of a piece in shared memory.
  void FetchPiece(const Matrix& matrix, const Lines& at, Value piece, Value slot, int64_t lines) {
    const int64_t threads = kGroups * kGroup, rows = threads / 8, lanes = 16 / BytesOf(dtype_);
    Value sixteen = Rem(thread_, I64(8)), row = Div(thread_, I64(8));
    Value place = arith::XOrIOp::create(b_, loc_, sixteen, Rem(row, I64(8)));
    Value to = Sum(slot, Sum(Mul(row, I64(kRowBytes)), Mul(place, I64(16))));
    Value depth = SizeOf(DepthOf()), begin = Mul(piece, I64(s_.depth));
    for (int64_t r = 0; r < lines; r += rows) {
      // Across the sum: blocks of 64 lines, whose rows are elements of the sum.
      const int64_t block = matrix.is_across ? r / 64 * 64 : 0, within = r - block;
      Value in_row = Mul(sixteen, I64(lanes)), here = Sum(row, I64(within));
      Value line = Sum(at.first, matrix.is_across ? Sum(in_row, I64(block)) : here);
      Value along = Sum(begin, matrix.is_across ? here : in_row);
      Value is_there =
          And(Compare(arith::CmpIPredicate::ult, line, at.lines), Compare(arith::CmpIPredicate::ult, along, depth));
      Value offset = Sum(at.offset, Sum(Mul(line, at.line), Mul(along, at.along)));
      tile::FetchOp::create(b_, loc_, view_args_[matrix.view], offset, Sum(to, I64(r * kRowBytes)), is_there,
                            b_.getI64IntegerAttr(lanes), TypeAttr::get(dtype_));
    }
  }

  void Warps() {
    const int64_t own_rows = s_.OwnRows();
    auto sums = VectorType::get({own_rows * s_.columns / kGroup}, b_.getF32Type());
    Value before = Mul(Div(thread_, I64(kGroup)), I64(own_rows)), left_at = Mul(before, I64(kRowBytes));
    Tiles(I64(0), 1, [&](const At& tile) {
      const Lines left = Locate(left_, tile.batch, tile.row, rows_);
      const Lines right = Locate(right_, tile.batch, tile.column, columns_);
      auto fetch = [&](Value piece, Value slot_number) {
        Value slot = Mul(slot_number, I64(slot_bytes_));
        FetchPiece(left_, left, piece, slot, s_.rows);
        FetchPiece(right_, right, piece, Sum(slot, I64(s_.rows * kRowBytes)), s_.columns);
        tile::CommitOp::create(b_, loc_);
      };
      FetchRows(tile.column);
      for (int64_t k = 0; k + 1 < s_.stages; ++k) fetch(I64(k), I64(k));
      Value zero = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(sums));
      const SmallVector<Value> end = For(I64(0), pieces_, I64(1), {zero, I64(0)}, [&](Value piece, ValueRange at) {
        tile::AwaitOp::create(b_, loc_, b_.getI64IntegerAttr(s_.stages - 2));
        tile::BarrierOp::create(b_, loc_);
        fetch(Sum(piece, I64(s_.stages - 1)), Before(at[1]));
        Value slot = Mul(at[1], I64(slot_bytes_));
        Value next = Multiply(at[0], Sum(slot, left_at), Sum(slot, I64(s_.rows * kRowBytes)), s_.columns,
                              /*by_warps=*/true);
        return SmallVector<Value>{next, Next({at[1], I64(0)}).slot};
      });
      Value warp = Rem(Div(thread_, I64(32)), I64(4));
      Steps steps = BeginSteps(tile.batch, Sum(Sum(tile.row, before), Mul(warp, I64(16))), tile.column);
      tile::AwaitOp::create(b_, loc_, IntegerAttr());
      tile::BarrierOp::create(b_, loc_);
      Follow(steps, end[0]);
      RowsWereRead();
    });
  }

  Value row_tiles_, column_tiles_, is_leader_;
  const std::array<BlockScales, 2> scales_{ScalesOf(product_, 0), ScalesOf(product_, 1)};
};

}  // namespace

void LowerProductGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, OpBuilder& at) {
  ProductGpuLowering lowering(kernel, std::move(nest), options, *ProductSchedule::FromAttr(*kernel.getProduct()));
  if (lowering.CanLower()) lowering.Lower(at);
}

}  // namespace tessera::compiler
