// tsr-lower-kernels-gpu, kernels with a matrix product of few rows.
//
// Such a product takes as long as its right factor takes to come from memory. So that is read once, straight to
// registers, with much of it on its way at any time, and goes nowhere else. Instructions of tensor cores take it as
// their left operand, 16 columns at a time, and eight rows of the left factor as their right one.
//
// A block has `rows` x `columns` of the result. Its warps lie side by side, `nr` columns each, and in rows of warps,
// which share the sum: of every so many pieces of `depth` each takes one. So do the blocks of a cluster, where there
// are too few columns for all multiprocessors:
//
//   read the first pieces, and what follows needs
//   for each piece of the warp
//     read the piece that is `stages` - 1 further on
//     multiply
//   leave the sums in shared memory
//   meet
//   each thread: add up the sums of some elements of the result, in order, and compute what follows
//
// Up to 16 rows of the left factor are read to registers, too, from the second-level cache. More of them are copied to
// a ring in shared memory, some pieces ahead, from where warps side by side have the same ones; then a block meets
// before each piece.
#include "tiers/compiler/tile/lower_few_rows_gpu.h"

#include <utility>

#include "tiers/compiler/tile/follow_sums_gpu.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr int64_t kStep = 32;  // elements of a sum that a warp multiplies at a time
constexpr int64_t kRun = 8;    // ... and those of a thread

class FewRowsLowering : public FollowSumsGpu {
 public:
  FewRowsLowering(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, ProductSchedule schedule)
      : FollowSumsGpu(kernel, std::move(nest), options, schedule, 32 * schedule.warps, schedule.Along(),
                      schedule.SumsPitch()) {}

  bool CanLower() { return !Transposes("transpose_a") && FindRows(left_rows_, 0) && FindRows(right_rows_, 1); }

  void Lower(OpBuilder& at) {
    ClassifyValues();
    Begin(at);
    BeginTiles();
    is_across_ = !Transposes("transpose_b");
    const Dim depth = DepthOf();
    depth_ = SizeOf(depth);
    parts_ = s_.Along() * s_.Blocks();
    const int64_t all = parts_ * s_.depth;  // of the sum, at a time
    steps_ = Ceil(depth_, all);
    has_whole_steps_ = !depth.is_symbol && depth.value % all == 0 && depth.value / all >= s_.stages - 1;
    Value lane = Rem(thread_, I64(32)), warp = Div(thread_, I64(32));
    group_ = Div(lane, I64(4));
    run_ = Mul(Rem(lane, I64(4)), I64(kRun));
    first_column_ = Mul(Rem(warp, I64(s_.Across())), I64(s_.nr));
    row_of_warps_ = Div(warp, I64(s_.Across()));
    part_ = Sum(row_of_warps_, Mul(rank_in_cluster_, I64(s_.Along())));

    Tiles([&](const Where& where) {
      TileOf(where, [&] { Leave(SumsOf(where.batch, where.row, PlacesOf(where.batch, where.row, where.column))); });
    });
    EndTiles({left_rows_.view, right_rows_.view});
    // A block does not stay: what it needs is read once, and others are there while it begins and ends.
    SmallVector<int64_t> team = {Threads(), 1, AtOnce(), 0, s_.FewBytes()};
    if (s_.Blocks() > 1) team.push_back(s_.Blocks());
    tile_.setTeam(team);
  }

 private:
  struct Rows {
    size_t view = 0;
    SmallVector<std::pair<size_t, int64_t>> batch{};  // dims of the space besides the last two, and its own
  };
  /// What a warp has of a piece, by 32 elements of the sum.
  struct Piece {
    SmallVector<Value> right, left;
  };
  int64_t Threads() const { return 32 * s_.warps; }
  // Blocks that a multiprocessor finds registers for.
  int64_t AtOnce() const {
    const int64_t registers = (s_.Registers() + 7) / 8 * 8;
    return std::max<int64_t>(1, std::min<int64_t>(65536 / (Threads() * registers), 2048 / Threads()));
  }
  bool FindRows(Rows& factor, unsigned operand) {
    factor.view = cast<BlockArgument>(product_->getOperand(operand)).getArgNumber();
    const ViewPlan& v = nest_.views[factor.view];
    const int64_t rank = v.type.getRank();
    const SmallVector<Dim> dims = DimsOf(v.type);
    for (int64_t d = 0; d + 2 < rank; ++d)
      if (!dims[static_cast<size_t>(d)].is_one()) factor.batch.push_back({rank_ - static_cast<size_t>(rank - d), d});
    return !v.known || v.known.empty() || v.known[rank - 1] == 1;
  }
  // Where the matrix of a batch begins.
  Value BatchOf(const Rows& factor, ArrayRef<Value> batch) {
    Value offset = I64(0);
    for (auto [d, own] : factor.batch) offset = Sum(offset, Mul(batch[d], StrideOfDim(nest_.views[factor.view], own)));
    return offset;
  }
  Value PitchOf(const Rows& factor) {
    const ViewPlan& v = nest_.views[factor.view];
    return StrideOfDim(v, v.type.getRank() - 2);
  }
  Value Read(const Rows& factor, Value offset, Value condition, int64_t words, bool shared) {
    Type type = words == 1 ? Type(b_.getI32Type()) : Type(VectorType::get({words}, b_.getI32Type()));
    return tile::ReadOp::create(b_, loc_, type, view_args_[factor.view], offset, condition,
                                shared ? b_.getUnitAttr() : UnitAttr(), TypeAttr::get(dtype_));
  }

  // ---- the sums of a tile

  /// What a thread reads of a tile: places that do not move along the sum.
  struct Places {
    SmallVector<Value> right, left;                    // offsets
    SmallVector<Value> right_is_there, left_is_there;  // null: it always is
  };
  Places PlacesOf(ArrayRef<Value> batch, Value row, Value column) {
    Places p;
    Value right = BatchOf(right_rows_, batch), left = BatchOf(left_rows_, batch);
    Value first = Sum(column, first_column_);
    if (is_across_) {
      Value own = Sum(first, Mul(group_, I64(s_.nr / 8)));
      p.right.push_back(Sum(right, own));
      p.right_is_there.push_back(Below(own, columns_, has_whole_columns_));
    } else {
      for (int64_t c = 0; c < s_.nr; c += 8) {
        Value own = Sum(first, Sum(group_, I64(c)));
        p.right.push_back(Sum(right, Mul(own, PitchOf(right_rows_))));
        p.right_is_there.push_back(Below(own, columns_, has_whole_columns_));
      }
    }
    for (int64_t r = 0; r < s_.rows; r += 8) {
      Value own = Sum(row, Sum(group_, I64(r)));
      p.left.push_back(Sum(left, Mul(own, PitchOf(left_rows_))));
      p.left_is_there.push_back(Below(own, rows_, has_whole_rows_));
    }
    return p;
  }
  // The first element of the thread in piece number n of its warp.
  Value Along(Value n) { return Sum(Mul(Sum(Mul(n, I64(parts_)), part_), I64(s_.depth)), run_); }

  void ReadRight(const Places& p, Value at, Piece& piece) {
    for (int64_t k = 0; k < s_.depth; k += kStep) {
      Value here = k == 0 ? at : Sum(at, I64(k)), is_there = Below(here, depth_, has_whole_steps_);
      if (is_across_) {
        for (int64_t e = 0; e < kRun; ++e) {
          Value line = Mul(e == 0 ? here : Sum(here, I64(e)), PitchOf(right_rows_));
          piece.right.push_back(Read(right_rows_, Sum(p.right[0], line), And(is_there, p.right_is_there[0]), s_.nr / 16,
                                     /*shared=*/false));
        }
      } else {
        for (auto [offset, is_column] : llvm::zip(p.right, p.right_is_there))
          piece.right.push_back(Read(right_rows_, Sum(offset, here), And(is_there, is_column), 4, /*shared=*/false));
      }
    }
  }
  void ReadLeft(const Places& p, Value at, int64_t k, SmallVector<Value>& left) {
    Value here = k == 0 ? at : Sum(at, I64(k)), is_there = Below(here, depth_, has_whole_steps_);
    for (auto [offset, is_row] : llvm::zip(p.left, p.left_is_there))
      left.push_back(Read(left_rows_, Sum(offset, here), And(is_there, is_row), 4, /*shared=*/true));
  }
  Piece ReadPiece(const Places& p, Value n) {
    Piece piece;
    Value at = Along(n);
    ReadRight(p, at, piece);
    if (s_.ReadsRowsAhead())
      for (int64_t k = 0; k < s_.depth; k += kStep) ReadLeft(p, at, k, piece.left);
    return piece;
  }

  // Sums of blocks of eight rows from `first` on, as many as `left` has, with the right factor of step k of a piece.
  void MultiplyStep(ArrayRef<Value> right, ArrayRef<Value> left, size_t first, SmallVector<Value>& sums) {
    const size_t columns = static_cast<size_t>(s_.nr / 16), from = first * columns, count = left.size() * columns;
    SmallVector<Value> own(sums.begin() + static_cast<int64_t>(from),
                           sums.begin() + static_cast<int64_t>(from + count));
    SmallVector<Type> types(count, own[0].getType());
    auto op = tile::MultiplyReadOp::create(b_, loc_, types, own, right, left,
                                           is_across_ ? b_.getUnitAttr() : UnitAttr(), TypeAttr::get(dtype_));
    llvm::copy(op.getResults(), sums.begin() + static_cast<int64_t>(from));
  }
  void MultiplyPiece(const Piece& piece, Value n, SmallVector<Value>& sums) {
    const size_t steps = static_cast<size_t>(s_.depth / kStep), rows = static_cast<size_t>(s_.rows / 8);
    const size_t each = piece.right.size() / steps;
    Value slot = s_.ReadsRowsAhead() ? Value() : OwnPlace(n);
    for (size_t k = 0; k < steps; ++k) {
      const ArrayRef<Value> right = ArrayRef<Value>(piece.right).slice(k * each, each);
      if (s_.ReadsRowsAhead()) {
        MultiplyStep(right, ArrayRef<Value>(piece.left).slice(k * rows, rows), 0, sums);
        continue;
      }
      const size_t at_once = std::min<size_t>(rows, ProductSchedule::kRowsAtOnce / 8);
      for (size_t r = 0; r < rows; r += at_once) {
        SmallVector<Value> left;
        for (size_t own = r; own < r + at_once; ++own) {
          const int64_t at = static_cast<int64_t>(own) * 8 * s_.RingPitch() + static_cast<int64_t>(k) * kStep * 2;
          left.push_back(tile::FetchedOp::create(b_, loc_, VectorType::get({4}, b_.getI32Type()), Sum(slot, I64(at)),
                                                 Value(), UnitAttr(), TypeAttr::get(b_.getI32Type())));
        }
        MultiplyStep(right, left, r, sums);
      }
    }
  }

  // ---- rows of the left factor in shared memory

  Value SlotOf(Value n) {
    return Sum(I64(s_.SumsBytes()), Mul(Rem(n, I64(s_.RingSlots())), I64(s_.rows * s_.RingPitch())));
  }
  // What the thread has of row g of piece n.
  Value OwnPlace(Value n) {
    Value in_row = Sum(Mul(row_of_warps_, I64(s_.depth * 2)), Mul(run_, I64(2)));
    return Sum(SlotOf(n), Sum(Mul(group_, I64(s_.RingPitch())), in_row));
  }
  // Starts to copy what all rows of warps need of piece n: elements of the sum that lie side by side.
  void FetchLeft(ArrayRef<Value> batch, Value row, Value n) {
    const int64_t in_row = s_.Along() * s_.depth / kRun, all = s_.rows * in_row;
    Value first = Mul(Sum(Mul(n, I64(parts_)), Mul(rank_in_cluster_, I64(s_.Along()))), I64(s_.depth));
    Value base = BatchOf(left_rows_, batch), slot = SlotOf(n);
    for (int64_t done = 0; done < all; done += Threads()) {
      Value number = done == 0 ? thread_ : Sum(thread_, I64(done));
      If(Below(number, I64(all), done + Threads() <= all), [&] {
        Value line = Div(number, I64(in_row)), along = Mul(Rem(number, I64(in_row)), I64(kRun));
        Value own = Sum(row, line), here = Sum(first, along);
        Value is_there = And(Compare(arith::CmpIPredicate::ult, here, depth_), Below(own, rows_, has_whole_rows_));
        Value to = Sum(slot, Sum(Mul(line, I64(s_.RingPitch())), Mul(along, I64(2))));
        tile::FetchOp::create(b_, loc_, view_args_[left_rows_.view],
                              Sum(base, Sum(Mul(own, PitchOf(left_rows_)), here)), to, is_there,
                              b_.getI64IntegerAttr(kRun), TypeAttr::get(dtype_));
      });
    }
    tile::CommitOp::create(b_, loc_);
  }
  // Piece n is there, everybody is through with the one before it, and another takes that one's place.
  void TurnTo(ArrayRef<Value> batch, Value row, Value n) {
    if (s_.ReadsRowsAhead()) return;
    tile::AwaitOp::create(b_, loc_, b_.getI64IntegerAttr(s_.RingSlots() - 2));
    tile::BarrierOp::create(b_, loc_);
    FetchLeft(batch, row, Sum(n, I64(s_.RingSlots() - 1)));
  }

  SmallVector<Value> SumsOf(ArrayRef<Value> batch, Value row, const Places& p) {
    const int64_t ahead = s_.stages - 1;
    for (int64_t n = 0; n + 1 < s_.RingSlots(); ++n) FetchLeft(batch, row, I64(n));
    SmallVector<Value> carried(
        static_cast<size_t>(s_.rows / 8 * s_.nr / 16),
        arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(VectorType::get({4}, b_.getF32Type()))));
    const size_t num_sums = carried.size();
    for (int64_t n = 0; n < ahead; ++n) {
      const Piece piece = ReadPiece(p, I64(n));
      carried.append(piece.right);
      carried.append(piece.left);
    }
    const size_t right = static_cast<size_t>(s_.depth / kStep) * (is_across_ ? kRun : p.right.size());
    const size_t left = s_.ReadsRowsAhead() ? static_cast<size_t>(s_.depth / kStep) * p.left.size() : 0;
    auto first_of = [&](ValueRange from) {
      Piece piece;
      piece.right.append(from.begin(), from.begin() + static_cast<int64_t>(right));
      piece.left.append(from.begin() + static_cast<int64_t>(right), from.begin() + static_cast<int64_t>(right + left));
      return piece;
    };
    Value whole = Minus(steps_, Min(steps_, I64(ahead)));
    SmallVector<Value> end = For(I64(0), whole, I64(1), carried, [&](Value n, ValueRange at) {
      const Piece next = ReadPiece(p, Sum(n, I64(ahead)));
      TurnTo(batch, row, n);
      SmallVector<Value> sums(at.begin(), at.begin() + static_cast<int64_t>(num_sums));
      MultiplyPiece(ahead > 0 ? first_of(at.drop_front(num_sums)) : next, n, sums);
      if (ahead == 0) return sums;
      SmallVector<Value> staged(at.drop_front(num_sums + right + left));
      staged.append(next.right);
      staged.append(next.left);
      sums.append(staged);
      return sums;
    });
    SmallVector<Value> sums(end.begin(), end.begin() + static_cast<int64_t>(num_sums));
    for (int64_t n = 0; n < ahead; ++n) {
      const ValueRange rest = ValueRange(end).drop_front(num_sums + static_cast<size_t>(n) * (right + left));
      TurnTo(batch, row, Sum(whole, I64(n)));
      MultiplyPiece(first_of(rest), Sum(whole, I64(n)), sums);
    }
    // Nothing is there any more to wait for, but copies of nothing.
    if (!s_.ReadsRowsAhead()) tile::AwaitOp::create(b_, loc_, IntegerAttr());
    return sums;
  }

  // Four sums of a thread are of rows 2 t and 2 t + 1, and of two columns that lie side by side or eight apart.
  void Leave(ArrayRef<Value> sums) {
    const int64_t pitch = s_.SumsPitch(), across = s_.nr / 16;
    Value pair = Div(run_, I64(kRun / 2));
    Value own = is_across_ ? Mul(group_, I64(s_.nr / 8)) : group_;
    Value first =
        Sum(Mul(Sum(Mul(row_of_warps_, I64(s_.rows)), pair), I64(pitch)), Mul(Sum(first_column_, own), I64(4)));
    for (auto [n, sum] : llvm::enumerate(sums)) {
      const int64_t r = static_cast<int64_t>(n) / across * 8, c = static_cast<int64_t>(n) % across;
      const int64_t at = r * pitch + c * (is_across_ ? 8 : 64);
      tile::LeaveOp::create(b_, loc_, sum, Sum(first, I64(at)), b_.getI64IntegerAttr(pitch),
                            b_.getI64IntegerAttr(is_across_ ? 4 : 32));
    }
  }

  Rows left_rows_, right_rows_;
  bool is_across_ = false, has_whole_steps_ = false;
  int64_t parts_ = 1;  // of the sum
  Value depth_, steps_, group_, run_, first_column_, row_of_warps_, part_;
};

}  // namespace

void LowerFewRowsGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, OpBuilder& at) {
  FewRowsLowering lowering(kernel, std::move(nest), options, *ProductSchedule::FromAttr(*kernel.getProduct()));
  if (lowering.CanLower()) lowering.Lower(at);
}

}  // namespace tessera::compiler
