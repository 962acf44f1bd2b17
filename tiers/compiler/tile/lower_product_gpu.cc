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
// are used more often.
//
// Other devices, and with `warps`: there is no thread that copies for all, and each warp multiplies for itself. All
// threads bring a part of each piece, as many pieces ahead as the ring has slots but one:
//
//   for each tile, for each piece
//     wait until the own copies of the piece are there, then for everybody: nobody reads the slot before it any more
//     start the copies that go there
//     multiply
//
// Sums lie in registers in a way that suits no memory. Threads exchange them, 32 columns at a time, until each has runs
// of eight; from there on ops that follow are those of any kernel, with operands and results in accesses of 16 bytes.
// Operands that are one row for all are copied to shared memory while the group multiplies, a copy for each warp;
// others are loaded some steps ahead. Shared memory is left to the tensor cores, which take all it can give: so tiles
// are as large as registers allow.
//
// Tiles are taken in groups of eight rows of tiles: what runs at one time shares pieces in the second-level cache.
#include "tiers/compiler/tile/lower_product_gpu.h"

#include <array>
#include <vector>

#include "tiers/compiler/sched/product.h"
#include "tiers/compiler/tile/gpu_rows.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr int64_t kRowBytes = 128;         // of a piece in shared memory
constexpr int64_t kStep = 32, kLanes = 8;  // columns of tsr_tile.collect, and those of a thread
constexpr int64_t kGroup = 128;            // threads
constexpr int64_t kGroups = ProductSchedule::kGroups;
constexpr int64_t kTogether = 8;  // rows of tiles
constexpr int64_t kProducerRegisters = 40, kGroupRegisters = 232;

class ProductGpuLowering : public GpuRows {
 public:
  ProductGpuLowering(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, ProductSchedule schedule)
      : GpuRows(kernel, std::move(nest), options), s_(schedule), product_(ProductsOf(kernel).first) {
    rank_ = nest_.space.size();
    dtype_ = ElementOf(product_->getOperand(0));
  }

  bool CanLower() {
    return FindFactor(left_, 0, Transposes("transpose_a")) && FindFactor(right_, 1, !Transposes("transpose_b")) &&
           (s_.warps == 0 || (left_.is_last && right_.is_last && (!right_.is_across || s_.columns % 64 == 0)));
  }

  void Lower(OpBuilder& at) {
    ClassifyValues();
    Begin(at);
    thread_ = Place("thread");
    const int64_t left_bytes = s_.rows * kRowBytes, right_bytes = s_.columns * kRowBytes;
    slot_bytes_ = left_bytes + right_bytes;
    signals_at_ = s_.stages * slot_bytes_;
    rows_at_ = signals_at_ + 16 * (s_.stages + 1);
    FindRowOperands();
    rows_ = sizes_[rank_ - 2];
    columns_ = sizes_[rank_ - 1];
    row_tiles_ = Ceil(rows_, s_.rows);
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
      blocks.push_back(d + 2 == rank_ ? s_.rows : d + 1 == rank_ ? s_.columns : 1);
    }
    End(tasks, blocks, {}, {}, 0);
    const int64_t groups = s_.warps != 0 ? kGroups : kGroups + 1;
    tile_.setTeam(ArrayRef<int64_t>{groups * kGroup, 1, 1, rows_at_ + kGroups * 4 * row_bytes_});
    if (s_.warps == 0) tile_.setMapsAttr(b_.getArrayAttr({left_.map, right_.map}));
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
        tile::SignalInitOp::create(b_, loc_, Used(I64(k)), b_.getI64IntegerAttr(s_.apart != 0 ? 1 : kGroups));
      }
      for (int64_t g = 0; g < 2 * s_.apart; ++g)
        tile::SignalInitOp::create(b_, loc_, Turn(I64(g)), b_.getI64IntegerAttr(1));
    });
    tile::BarrierOp::create(b_, loc_);
    IfElse(Compare(arith::CmpIPredicate::uge, thread_, I64(kGroups * kGroup)), [&] { Producer(); }, [&] { Group(); });
  }

  /// A factor, as it is copied.
  struct Matrix {
    DenseI64ArrayAttr map;
    size_t view = 0;
    bool is_last = false;         // rows in memory lie along its last dim
    bool is_across = false;       // ... and across the sum
    SmallVector<size_t> batch{};  // dims of the space that it has besides the last two
    SmallVector<int64_t> dims{};  // ... and its own
  };
  /// Where in the ring somebody is.
  struct Ring {
    Value slot, phase;
  };

  bool Transposes(StringRef which) const {
    auto attr = product_->getAttrOfType<BoolAttr>(which);
    return attr && attr.getValue();
  }
  Dim DepthOf() {
    const SmallVector<Dim> dims = DimsOf(product_->getOperand(0).getType());
    return dims[dims.size() - (Transposes("transpose_a") ? 2 : 1)];
  }

  // `is_last_line`: the last dim counts rows (columns) of the result, not elements of a sum.
  bool FindFactor(Matrix& matrix, unsigned operand, bool is_last_line) {
    const size_t index = cast<BlockArgument>(product_->getOperand(operand)).getArgNumber();
    const ViewPlan& v = nest_.views[index];
    const int64_t rank = v.type.getRank();
    const bool dense = !v.known || v.known.empty();
    int64_t run = rank - 1;
    if (!dense && v.known[run] != 1) run = rank - 2;
    if (!dense && v.known[run] != 1) return false;
    const int64_t other = run == rank - 1 ? rank - 2 : rank - 1;
    matrix.view = index;
    matrix.is_last = run == rank - 1;
    matrix.is_across = (run == rank - 1) == is_last_line;
    const int64_t lines = operand == 0 ? s_.rows : s_.columns;
    SmallVector<int64_t> map = {static_cast<int64_t>(index), run, s_.depth, other, lines};
    if (matrix.is_across) map[2] = map[4] = 64;
    const SmallVector<Dim> dims = DimsOf(v.type);
    for (int64_t d = rank - 3; d >= 0; --d) {
      if (dims[static_cast<size_t>(d)].is_one()) continue;
      map.append({d, 1});
      matrix.batch.push_back(rank_ - static_cast<size_t>(rank - d));
      matrix.dims.push_back(d);
    }
    matrix.map = DenseI64ArrayAttr::get(kernel_.getContext(), map);
    return matrix.batch.size() <= 3;
  }

  Value Signal(Value slot, int64_t which) { return Sum(I64(signals_at_ + which * 8 * s_.stages), Mul(slot, I64(8))); }
  Value Filled(Value slot) { return Signal(slot, 0); }
  Value Used(Value slot) { return Signal(slot, 1); }
  // With `apart`: the group may multiply.
  Value Turn(Value group) { return Sum(I64(signals_at_ + 16 * s_.stages), Mul(group, I64(8))); }
  Ring Next(const Ring& ring) {
    Value next = Sum(ring.slot, I64(1));
    Value wraps = Compare(arith::CmpIPredicate::eq, next, I64(s_.stages));
    Value other = arith::XOrIOp::create(b_, loc_, ring.phase, I64(1));
    return {arith::SelectOp::create(b_, loc_, wraps, I64(0), next),
            arith::SelectOp::create(b_, loc_, wraps, other, ring.phase)};
  }
  Value Before(Value slot) {
    Value is_first = Compare(arith::CmpIPredicate::eq, slot, I64(0));
    return arith::SelectOp::create(b_, loc_, is_first, I64(s_.stages - 1), Minus(slot, I64(1)));
  }

  // fn(indices of the batch, first row, first column, ring, turn) for the tiles of the block from number `first` on,
  // every `step`-th of them. Everybody knows where in the ring the pieces of a tile are. `turn`: the phase of the
  // signal that group `first` waits for; the first one takes its first turn without.
  template <typename Fn>
  void Tiles(Value first, int64_t step, Fn fn) {
    Value in_batch = Mul(row_tiles_, column_tiles_), band = Mul(column_tiles_, I64(kTogether));
    Value block = Place("block"), blocks = Place("blocks");
    For(Sum(block, Mul(first, blocks)), end_, Mul(blocks, I64(step)), {Mul(first, pieces_), Minus(I64(1), first)},
        [&](Value tile, ValueRange at) {
          SmallVector<Value> batch;
          if (rank_ > 2) batch = Indices(Div(tile, in_batch), rank_ - 2);
          if (rank_ > 2) tile = Rem(tile, in_batch);
          Value top = Mul(Div(tile, band), I64(kTogether)), within = Rem(tile, band);
          Value height = Min(I64(kTogether), Minus(row_tiles_, top));
          Value row = Mul(Sum(top, Rem(within, height)), I64(s_.rows));
          Value column = Mul(Div(within, height), I64(s_.columns));
          Value round = Div(at[0], I64(s_.stages));
          fn(batch, row, column,
             Ring{Minus(at[0], Mul(round, I64(s_.stages))), arith::AndIOp::create(b_, loc_, round, I64(1))}, at[1]);
          return SmallVector<Value>{Sum(at[0], Mul(pieces_, I64(step))),
                                    arith::XOrIOp::create(b_, loc_, at[1], I64(1))};
        });
  }

  // ---- the producer

  void Copy(const Matrix& matrix, int64_t map, ArrayRef<Value> batch, Value line, Value along, Value slot, Value signal,
            int64_t lines) {
    const int64_t step = matrix.is_across ? 64 : lines;
    for (int64_t at = 0; at < lines; at += step) {
      Value here = at == 0 ? line : Sum(line, I64(at));
      SmallVector<Value> indices = {matrix.is_across ? here : along, matrix.is_across ? along : here};
      for (size_t d : matrix.batch) indices.push_back(batch[d]);
      tile::CopyOp::create(b_, loc_, b_.getI64IntegerAttr(map), indices,
                           at == 0 ? slot : Sum(slot, I64(at * kRowBytes)), signal);
    }
  }

  void Producer() {
    tile::RegistersOp::create(b_, loc_, b_.getI64IntegerAttr(kProducerRegisters), UnitAttr());
    If(Compare(arith::CmpIPredicate::eq, thread_, I64(kGroups * kGroup)), [&] {
      Tiles(I64(0), 1, [&](ArrayRef<Value> batch, Value row, Value column, Ring begin, Value) {
        For(I64(0), pieces_, I64(1), {begin.slot, begin.phase}, [&](Value piece, ValueRange at) {
          const Ring ring{at[0], at[1]};
          tile::SignalWaitOp::create(b_, loc_, Used(ring.slot), arith::XOrIOp::create(b_, loc_, ring.phase, I64(1)));
          Value signal = Filled(ring.slot), along = Mul(piece, I64(s_.depth));
          tile::SignalExpectOp::create(b_, loc_, signal, b_.getI64IntegerAttr(slot_bytes_));
          Value slot = Mul(ring.slot, I64(slot_bytes_));
          Copy(left_, 0, batch, row, along, slot, signal, s_.rows);
          Copy(right_, 1, batch, column, along, Sum(slot, I64(s_.rows * kRowBytes)), signal, s_.columns);
          const Ring next = Next(ring);
          return SmallVector<Value>{next.slot, next.phase};
        });
      });
    });
  }

  // ---- a group

  void Group() {
    tile::RegistersOp::create(b_, loc_, b_.getI64IntegerAttr(kGroupRegisters), b_.getUnitAttr());
    const int64_t own_rows = s_.OwnRows();
    Value group = Div(thread_, I64(kGroup));
    is_leader_ = Compare(arith::CmpIPredicate::eq, Rem(thread_, I64(kGroup)), I64(0));
    auto sums = VectorType::get({own_rows * s_.columns / kGroup}, b_.getF32Type());
    // Rows of the tile before its own.
    Value before = s_.apart != 0 ? I64(0) : Mul(group, I64(own_rows));
    Value left_at = Mul(before, I64(kRowBytes));
    Tiles(s_.apart != 0 ? group : I64(0), s_.apart != 0 ? 2 : 1,
          [&](ArrayRef<Value> batch, Value row, Value column, Ring begin, Value turn) {
            if (s_.apart != 0) tile::SignalWaitOp::create(b_, loc_, Turn(group), turn);
            FetchRows(column);
            Value zero = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(sums));
            const SmallVector<Value> end =
                For(I64(0), pieces_, I64(1), {zero, begin.slot, begin.phase}, [&](Value piece, ValueRange at) {
                  const Ring ring{at[1], at[2]};
                  tile::SignalWaitOp::create(b_, loc_, Filled(ring.slot), ring.phase);
                  Value slot = Mul(ring.slot, I64(slot_bytes_));
                  Value next = tile::MultiplyOp::create(
                      b_, loc_, sums, at[0], Sum(slot, left_at), Sum(slot, I64(s_.rows * kRowBytes)),
                      b_.getI64IntegerAttr(own_rows), b_.getI64IntegerAttr(s_.columns), b_.getI64IntegerAttr(s_.depth),
                      left_.is_across ? b_.getUnitAttr() : UnitAttr(), right_.is_across ? b_.getUnitAttr() : UnitAttr(),
                      UnitAttr(), TypeAttr::get(dtype_));
                  next = tile::MultipliedOp::create(b_, loc_, sums, next, b_.getI64IntegerAttr(1));
                  If(And(is_leader_, Compare(arith::CmpIPredicate::ne, piece, I64(0))),
                     [&] { tile::SignalArriveOp::create(b_, loc_, Used(Before(ring.slot))); });
                  const Ring after = Next(ring);
                  return SmallVector<Value>{next, after.slot, after.phase};
                });
            if (s_.apart != 0)
              If(is_leader_, [&] { tile::SignalArriveOp::create(b_, loc_, Turn(Minus(I64(1), group))); });
            Value warp = Rem(Div(thread_, I64(32)), I64(4));
            Value first = Sum(Sum(row, before), Mul(warp, I64(16)));
            Steps steps = BeginSteps(batch, first, column);
            Value done = tile::MultipliedOp::create(b_, loc_, sums, end[0], b_.getI64IntegerAttr(0));
            If(is_leader_, [&] { tile::SignalArriveOp::create(b_, loc_, Used(Before(end[1]))); });
            AwaitRows();
            Follow(steps, done);
            if (!row_operands_.empty()) tile::WarpBarrierOp::create(b_, loc_);
          });
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
    const int64_t threads = kGroups * kGroup, rows = threads / 8;
    Value sixteen = Rem(thread_, I64(8)), row = Div(thread_, I64(8));
    Value place = arith::XOrIOp::create(b_, loc_, sixteen, Rem(row, I64(8)));
    Value to = Sum(slot, Sum(Mul(row, I64(kRowBytes)), Mul(place, I64(16))));
    Value depth = SizeOf(DepthOf()), begin = Mul(piece, I64(s_.depth));
    for (int64_t r = 0; r < lines; r += rows) {
      // Across the sum: blocks of 64 lines, whose rows are elements of the sum.
      const int64_t block = matrix.is_across ? r / 64 * 64 : 0, within = r - block;
      Value in_row = Mul(sixteen, I64(kLanes)), here = Sum(row, I64(within));
      Value line = Sum(at.first, matrix.is_across ? Sum(in_row, I64(block)) : here);
      Value along = Sum(begin, matrix.is_across ? here : in_row);
      Value is_there =
          And(Compare(arith::CmpIPredicate::ult, line, at.lines), Compare(arith::CmpIPredicate::ult, along, depth));
      Value offset = Sum(at.offset, Sum(Mul(line, at.line), Mul(along, at.along)));
      tile::FetchOp::create(b_, loc_, view_args_[matrix.view], offset, Sum(to, I64(r * kRowBytes)), is_there,
                            b_.getI64IntegerAttr(kLanes), TypeAttr::get(dtype_));
    }
  }

  void Warps() {
    const int64_t own_rows = s_.OwnRows();
    auto sums = VectorType::get({own_rows * s_.columns / kGroup}, b_.getF32Type());
    Value before = Mul(Div(thread_, I64(kGroup)), I64(own_rows)), left_at = Mul(before, I64(kRowBytes));
    Tiles(I64(0), 1, [&](ArrayRef<Value> batch, Value row, Value column, Ring, Value) {
      const Lines left = Locate(left_, batch, row, rows_), right = Locate(right_, batch, column, columns_);
      auto fetch = [&](Value piece, Value slot_number) {
        Value slot = Mul(slot_number, I64(slot_bytes_));
        FetchPiece(left_, left, piece, slot, s_.rows);
        FetchPiece(right_, right, piece, Sum(slot, I64(s_.rows * kRowBytes)), s_.columns);
        tile::CommitOp::create(b_, loc_);
      };
      FetchRows(column);
      for (int64_t k = 0; k + 1 < s_.stages; ++k) fetch(I64(k), I64(k));
      Value zero = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(sums));
      const SmallVector<Value> end = For(I64(0), pieces_, I64(1), {zero, I64(0)}, [&](Value piece, ValueRange at) {
        tile::AwaitOp::create(b_, loc_, b_.getI64IntegerAttr(s_.stages - 2));
        tile::BarrierOp::create(b_, loc_);
        fetch(Sum(piece, I64(s_.stages - 1)), Before(at[1]));
        Value slot = Mul(at[1], I64(slot_bytes_));
        Value next = tile::MultiplyOp::create(
            b_, loc_, sums, at[0], Sum(slot, left_at), Sum(slot, I64(s_.rows * kRowBytes)),
            b_.getI64IntegerAttr(own_rows), b_.getI64IntegerAttr(s_.columns), b_.getI64IntegerAttr(s_.depth),
            left_.is_across ? b_.getUnitAttr() : UnitAttr(), right_.is_across ? b_.getUnitAttr() : UnitAttr(),
            b_.getUnitAttr(), TypeAttr::get(dtype_));
        return SmallVector<Value>{next, Next({at[1], I64(0)}).slot};
      });
      Value warp = Rem(Div(thread_, I64(32)), I64(4));
      Steps steps = BeginSteps(batch, Sum(Sum(row, before), Mul(warp, I64(16))), column);
      tile::AwaitOp::create(b_, loc_, IntegerAttr());
      tile::BarrierOp::create(b_, loc_);
      Follow(steps, end[0]);
      if (!row_operands_.empty()) tile::WarpBarrierOp::create(b_, loc_);
    });
  }

  // ---- operands that are one row for all rows of the result

  void FindRowOperands() {
    for (size_t k = 0; k < num_inputs_; ++k) {
      if (!MovesInside(k) || !IsRun(k)) continue;
      bool is_row = true;
      for (size_t l = 0; l < Outer(); ++l) is_row &= nest_.views[k].loops[l].kind == Stride::Kind::zero;
      const int64_t bytes = BytesOf(nest_.views[k].type.getElementType()) * s_.columns;
      if (!is_row || bytes % 64 != 0 || (row_bytes_ + bytes) * kGroups * 4 > ProductSchedule::kRowBytes) continue;
      row_operands_.push_back({k, row_bytes_});
      row_bytes_ += bytes;
    }
  }
  Value RowPlace(int64_t at) { return Sum(I64(rows_at_ + at), Mul(Div(thread_, I64(32)), I64(row_bytes_))); }
  void FetchRows(Value column) {
    if (row_operands_.empty()) return;
    Value lane = Rem(thread_, I64(32)), at = Sum(column, Mul(lane, I64(kLanes)));
    Value mine = And(Compare(arith::CmpIPredicate::ult, lane, I64(s_.columns / kLanes)),
                     Compare(arith::CmpIPredicate::ult, at, columns_));
    If(mine, [&] {
      for (auto [k, place] : row_operands_) {
        Type dtype = nest_.views[k].type.getElementType();
        tile::FetchOp::create(b_, loc_, view_args_[k], at,
                              Sum(RowPlace(place), Mul(lane, I64(kLanes * BytesOf(dtype)))), Value(),
                              b_.getI64IntegerAttr(kLanes), TypeAttr::get(dtype));
      }
    });
  }
  void AwaitRows() {
    if (row_operands_.empty()) return;
    tile::AwaitOp::create(b_, loc_, IntegerAttr());
    tile::WarpBarrierOp::create(b_, loc_);
  }

  // ---- what follows the product

  /// A row of which the thread has some columns.
  struct Part {
    SmallVector<Value> indices, offsets;
    Value is_row;
    llvm::DenseMap<Value, Value> values;  // numbers of the row
    SmallVector<Chunk> chunks;            // by step
  };
  /// Rows of the warp in each of the group's blocks of 64 rows, in the order in which they are done: a step is 32
  /// columns of the 16 rows of a block, of which a thread has two.
  struct Steps {
    std::vector<std::array<Part, 2>> blocks;
    Value at;  // the first column of the thread
    int64_t loaded = 0;
  };

  int64_t NumSteps() const { return s_.OwnRows() / 64 * (s_.columns / kStep); }

  // How many steps operands are loaded ahead: as many as there are registers for.
  int64_t Ahead() {
    llvm::SmallPtrSet<Value, 8> operands;
    for (Value v : Yield().getValues()) CollectOperands(v, operands);
    int64_t moving = 0;
    for (Value v : operands) {
      const size_t k = cast<BlockArgument>(v).getArgNumber();
      moving += MovesInside(k) && llvm::none_of(row_operands_, [&](auto& r) { return r.first == k; });
    }
    const int64_t room = s_.OwnRows() * s_.columns <= 128 * 128 ? 32 : 16;
    return moving == 0 ? 1 : std::max<int64_t>(1, room / (2 * kLanes * moving));
  }
  void CollectOperands(Value v, llvm::SmallPtrSet<Value, 8>& into) {
    if (v.getDefiningOp() == product_) return;
    if (isa<BlockArgument>(v)) {
      into.insert(v);
      return;
    }
    for (Value o : v.getDefiningOp()->getOperands()) CollectOperands(o, into);
  }

  Steps BeginSteps(ArrayRef<Value> batch, Value first, Value column) {
    Steps steps;
    Value lane = Rem(thread_, I64(32));
    steps.at = Sum(column, Mul(Rem(lane, I64(4)), I64(kLanes)));
    for (int64_t block = 0; block < s_.OwnRows() / 64; ++block) {
      std::array<Part, 2>& parts = steps.blocks.emplace_back();
      for (int64_t p = 0; p < 2; ++p) {
        Value row = Sum(first, Sum(Div(lane, I64(4)), I64(block * 64 + p * 8)));
        Part& part = parts[static_cast<size_t>(p)];
        part.is_row = Compare(arith::CmpIPredicate::ult, row, rows_);
        part.indices.assign(batch.begin(), batch.end());
        part.indices.push_back(Min(row, Minus(rows_, I64(1))));
        SetOffsets(part.indices);
        part.offsets = offsets_;
      }
    }
    LoadUntil(steps, Ahead());
    return steps;
  }
  void TurnTo(Part& part) {
    indices_ = part.indices, offsets_ = part.offsets;
    ForgetRow();
    for (auto& [v, value] : part.values) values_[v] = value;
  }
  void LoadUntil(Steps& steps, int64_t end) {
    const int64_t across = s_.columns / kStep;
    for (; steps.loaded < std::min(end, NumSteps()); ++steps.loaded) {
      const int64_t step = steps.loaded % across;
      Value at = Sum(steps.at, I64(step * kStep));
      Value valid = Compare(arith::CmpIPredicate::ult, at, columns_);
      at = Min(at, Minus(columns_, I64(kLanes)));
      for (Part& part : steps.blocks[static_cast<size_t>(steps.loaded / across)]) {
        TurnTo(part);
        Chunk chunk{at, valid, kLanes, true};
        // What a warp has a row of is read where it is needed.
        for (auto [k, place] : row_operands_) chunk.tiles[Argument(k)] = Value();
        for (Value v : Yield().getValues()) {
          NeedRows(v, 0);
          LoadFor(v, chunk);
        }
        part.values = values_;
        part.chunks.push_back(std::move(chunk));
      }
    }
  }

  void Follow(Steps& steps, Value sums) {
    const int64_t across = s_.columns / kStep, ahead = Ahead();
    auto run = VectorType::get({kLanes}, b_.getF32Type());
    Value lane = Rem(thread_, I64(32));
    for (int64_t n = 0; n < NumSteps(); ++n) {
      LoadUntil(steps, n + ahead);
      auto collected = tile::CollectOp::create(b_, loc_, run, run, sums, b_.getI64IntegerAttr(n * kStep / 2));
      llvm::DenseMap<Value, Value> rows;
      for (auto [k, place] : row_operands_) {
        Type dtype = nest_.views[k].type.getElementType();
        const int64_t bytes = BytesOf(dtype);
        Value slot =
            Sum(Sum(RowPlace(place), I64(n % across * kStep * bytes)), Mul(Rem(lane, I64(4)), I64(kLanes * bytes)));
        rows[Argument(k)] =
            tile::FetchedOp::create(b_, loc_, TileType(ComputeType(dtype), kLanes), slot, TypeAttr::get(dtype));
      }
      for (unsigned p = 0; p < 2; ++p) {
        Part& part = steps.blocks[static_cast<size_t>(n / across)][p];
        Chunk& chunk = part.chunks[static_cast<size_t>(n % across)];
        TurnTo(part);
        for (auto [v, tile] : rows) chunk.tiles[v] = tile;
        chunk.tiles[product_->getResult(0)] = collected.getResult(p);
        for (size_t k = 0; k < Yield().getValues().size(); ++k) {
          const size_t view = num_inputs_ + k;
          StoreTile(Tile(Yield().getValues()[static_cast<unsigned>(k)], chunk), view, Sum(offsets_[view], chunk.at),
                    /*aligned=*/true, And(part.is_row, chunk.is_valid));
        }
      }
    }
  }

  const ProductSchedule s_;
  Operation* const product_;
  size_t rank_;
  int64_t slot_bytes_ = 0, signals_at_ = 0, rows_at_ = 0, row_bytes_ = 0;
  SmallVector<std::pair<size_t, int64_t>> row_operands_;  // and where in a warp's own memory they are
  Type dtype_;
  Matrix left_, right_;
  Value thread_, rows_, columns_, row_tiles_, column_tiles_, pieces_, is_leader_;
};

}  // namespace

void LowerProductGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, OpBuilder& at) {
  ProductGpuLowering lowering(kernel, std::move(nest), options, *ProductSchedule::FromAttr(*kernel.getProduct()));
  if (lowering.CanLower()) lowering.Lower(at);
}

}  // namespace tessera::compiler
