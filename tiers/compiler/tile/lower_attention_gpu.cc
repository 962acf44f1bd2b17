// tsr-lower-kernels-gpu, kernels of attention: two products with a softmax between them, on the tensor cores of sm_90a.
//
// A block stays on its multiprocessor and takes one task after another: 128 queries of a head, 64 for each of two
// groups of four warps. One thread brings the queries, and tiles of keys and of values to two rings in shared memory.
// In a group scores, weights and sums of values stay in registers:
//
//   producer                                 each group, for its 64 queries
//     for each task                            for each task
//       queries                                  scores of the first tile, and their weights
//       for each tile of keys                    for each other tile
//         the tile                                 start scores = queries x keys
//         values of the tile before                start sums += weights x values, of the tile before
//       values of the last tile                    wait for the scores, which become weights
//                                                  wait for the sums, which are scaled if a larger score came
//                                                sums += weights x values, of the last tile
//                                                what follows, from the sums
//
// Weights are e^(score - m), m the largest score of the row so far; where it grows, sums so far are scaled. What is
// computed from scores, element by element, is computed by the code of any other kernel on scores as they lie: which
// query and which key they are of is known, so positions and operands of any shape can take part. Numbers of rows are
// read once for each task.
//
// Tiles are taken from the last to the first: keys that are not there, or that a causal mask hides, are in those that
// come first. Tiles that no query of the block sees are left out. Under a causal mask tasks with many tiles come first,
// of as many heads at a time as have their keys and values in the second-level cache.
#include "tiers/compiler/tile/lower_attention_gpu.h"

#include <limits>
#include <tuple>

#include "llvm/ADT/SetVector.h"
#include "tiers/compiler/sched/attention.h"
#include "tiers/compiler/sched/gather.h"
#include "tiers/compiler/tile/follow_product_gpu.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr int64_t kProducerRegisters = 40, kGroupRegisters = 232;
constexpr int64_t kCacheBytes = int64_t{16} << 20;  // of keys and values that are used at a time
constexpr double kLog2E = 1.4426950408889634;

class AttentionGpuLowering : public FollowProductGpu {
 public:
  AttentionGpuLowering(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, ProductSchedule schedule,
                       AttentionOps ops)
      : FollowProductGpu(kernel, std::move(nest), options, schedule),
        ops_(ops),
        depth_(DepthOf()),
        width_(DimsOf(ops.values->getResult(0).getType()).back()) {}

  bool CanLower() {
    for (Operation& op : Body())
      if (IsGather(&op)) return false;
    // Heads whose size is read at run time have up to nr elements.
    const int64_t depth = depth_.is_symbol ? s_.nr : depth_.value, width = width_.is_symbol ? s_.nr : width_.value;
    depth_pieces_ = (depth + kPieceColumns - 1) / kPieceColumns;
    columns_of_result_ = (width + kStep - 1) / kStep * kStep;
    if (depth > s_.nr || width > s_.nr || !FindFactor(left_, 0, s_.rows) || !FindFactor(right_, 1, s_.columns) ||
        !FindFactor(values_matrix_, 1, columns_of_result_, ops_.values))
      return false;
    if (depth_.is_symbol) left_.map = AtMost(left_, s_.nr);
    if (width_.is_symbol) values_matrix_.map = AtMost(values_matrix_, s_.nr);
    // Who reads a dim that is not the one that lies in a run could see more than there is room for.
    if ((depth_.is_symbol && left_.is_across) || (width_.is_symbol && !values_matrix_.is_across)) return false;
    return FindResult();
  }

  void Lower(OpBuilder& at) {
    ClassifyValues();
    Begin(at);
    thread_ = Place("thread");
    PlanMemory();
    rows_ = sizes_[rank_ - 2];
    columns_ = sizes_[rank_ - 1];
    row_tiles_ = Ceil(rows_, s_.rows);
    FindOperands();
    if (ops_.where != nullptr) FindOrder();
    if (HidesKeys()) FindHeadsAtOnce();
    Roles();
    SmallVector<int64_t> tasks, blocks;
    for (size_t d = 0; d + 1 < rank_; ++d) {
      if (nest_.space[d].is_one()) continue;
      tasks.push_back(Factor(nest_.space[d]));
      blocks.push_back(d + 2 == rank_ ? s_.rows : 1);
    }
    End(tasks, blocks, {}, {}, 0);
    tile_.setTeam(SmallVector<int64_t>{(kGroups + 1) * kGroup, 1, 1, signals_at_ + 8 * NumSignals()});
    if (s_.source != 0) tile_->setAttr("source", b_.getUnitAttr());
    tile_.setMapsAttr(b_.getArrayAttr({left_.map, right_.map, values_matrix_.map, result_.map}));
    SmallVector<int64_t> aligned;
    for (size_t k : moving_)
      if (InPairs(k)) aligned.push_back(static_cast<int64_t>(k));
    tile_.setAligned(aligned);
  }

 private:
  static constexpr int64_t kPieceColumns = 64;  // elements of a run in shared memory

  /// A task, as everybody sees it.
  struct Task {
    SmallVector<Value> batch, keys, values;  // indices of the matrices
    Value row, tiles;
  };
  using Pair = std::array<Value, 2>;  // of the upper row of the thread, and of the lower one
  /// A row of the thread, in a tile.
  struct Row {
    Value max, sum;  // the largest score so far, of all threads; the weights of this one
  };

  // ---- what there is

  DenseI64ArrayAttr AtMost(const Matrix& matrix, int64_t most) {
    SmallVector<int64_t> map(matrix.map.asArrayRef());
    map.push_back(-most);
    return DenseI64ArrayAttr::get(kernel_.getContext(), map);
  }

  // The result is written by pieces of 16 rows.
  bool FindResult() {
    const ViewPlan& v = nest_.views[num_inputs_];
    const Type dtype = v.type.getElementType();
    const int64_t rank = v.type.getRank();
    if (!(dtype.isBF16() || dtype.isF16() || dtype.isF32()) || rank != static_cast<int64_t>(rank_)) return false;
    result_.of_place = kRowBytes / BytesOf(dtype);
    SmallVector<int64_t> map = {static_cast<int64_t>(num_inputs_), rank - 1, result_.of_place, rank - 2, 16};
    const SmallVector<Dim> dims = DimsOf(v.type);
    for (int64_t d = rank - 3; d >= 0; --d) {
      if (dims[static_cast<size_t>(d)].is_one()) continue;
      map.append({d, 1});
      result_.batch.push_back(static_cast<size_t>(d));
    }
    result_.map = DenseI64ArrayAttr::get(kernel_.getContext(), map);
    places_ = (columns_of_result_ + result_.of_place - 1) / result_.of_place;
    return result_.batch.size() <= 3;
  }

  void PlanMemory() {
    const int64_t width_pieces = (columns_of_result_ + kPieceColumns - 1) / kPieceColumns;
    query_bytes_ = s_.rows * kRowBytes * depth_pieces_;
    key_bytes_ = s_.columns * kRowBytes * depth_pieces_;
    value_pitch_ = (values_matrix_.is_across ? width_pieces * kPieceColumns : columns_of_result_) * kRowBytes;
    value_bytes_ = s_.columns / kPieceColumns * value_pitch_;
    keys_at_ = query_bytes_;
    values_at_ = keys_at_ + s_.stages * key_bytes_;
    places_at_ = values_at_ + s_.stages * value_bytes_;
    signals_at_ = places_at_ + kWarps * places_ * kPlaceBytes;
  }

  // Operands that have an element for each key, and positions.
  void FindOperands() {
    Collect(ops_.scores, moving_, positions_);
    shown_ = ops_.where != nullptr && ops_.is_order_alone ? ops_.where->getOperand(1) : ops_.scores;
    Collect(shown_, first_moving_, first_positions_);
  }
  void Collect(Value v, SmallVector<size_t>& moving, SmallVector<Operation*>& positions) {
    llvm::SetVector<Value> seen;
    seen.insert(v);
    for (size_t n = 0; n < seen.size(); ++n) {
      Operation* op = seen[n].getDefiningOp();
      if (op == product_) continue;
      if (op == nullptr) {
        const size_t k = cast<BlockArgument>(seen[n]).getArgNumber();
        if (MovesInside(k)) moving.push_back(k);
        continue;
      }
      if (IsPositions(op)) positions.push_back(op);
      seen.insert(op->operand_begin(), op->operand_end());
    }
    llvm::sort(moving);
  }

  // A mask that compares positions is known when the kernel runs: whether it hides keys after the query at all.
  bool HidesKeys() const { return ops_.is_causal || ops_.where != nullptr; }
  void FindOrder() {
    ForgetRow();
    auto number = [&](Operation* positions, unsigned k) {
      return AsInteger(RowValue(positions->getOperand(k)), b_.getI64Type());
    };
    query_start_ = number(ops_.query_positions, 0);
    query_step_ = number(ops_.query_positions, 1);
    key_start_ = number(ops_.key_positions, 0);
    // Below the lowest number: with infinity itself, a comparison of what was f16 would become one of f16, for which
    // CUDA C++ has no words here.
    Value hidden = RowValue(ops_.where->getOperand(2));
    auto type = cast<FloatType>(hidden.getType());
    const auto lowest = llvm::APFloat::getLargest(type.getFloatSemantics(), /*Negative=*/true);
    Value least = arith::ConstantOp::create(b_, loc_, FloatAttr::get(type, lowest));
    is_order_ = And(arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::OLT, hidden, least),
                    And(Compare(arith::CmpIPredicate::eq, number(ops_.key_positions, 1), I64(1)),
                        Compare(arith::CmpIPredicate::sge, query_step_, I64(0))));
  }
  bool InPairs(size_t k) const {
    const ViewPlan& v = nest_.views[k];
    const Dim last = DimsOf(v.type).back();
    const int64_t bytes = BytesOf(v.type.getElementType());
    return IsRun(k) && (!v.known || v.known.empty()) && !last.is_symbol && last.value * bytes % 16 == 0 &&
           (bytes == 2 || bytes == 4);
  }
  bool MovesAlongRows(size_t k) const { return nest_.views[k].loops[rank_ - 2].kind != Stride::Kind::zero; }

  void FindHeadsAtOnce() {
    batches_ = I64(1);
    for (size_t d = 0; d + 2 < rank_; ++d) batches_ = Mul(batches_, sizes_[d]);
    const int64_t of_key = (depth_pieces_ + (columns_of_result_ + kPieceColumns - 1) / kPieceColumns) * kRowBytes;
    Value fit = Div(I64(kCacheBytes / of_key), Max(columns_, I64(1)));
    together_ = Min(Max(fit, I64(1)), batches_);
    band_ = Mul(row_tiles_, together_);
  }

  // ---- signals

  Value Signal(int64_t n) { return I64(signals_at_ + 8 * n); }
  Value QueriesFilled() { return Signal(0); }
  Value QueriesUsed() { return Signal(1); }
  Value OfRing(Value slot, int64_t which) { return Sum(Signal(2 + which * s_.stages), Mul(slot, I64(8))); }
  Value KeysFilled(Value slot) { return OfRing(slot, 0); }
  Value KeysUsed(Value slot) { return OfRing(slot, 1); }
  Value ValuesFilled(Value slot) { return OfRing(slot, 2); }
  Value ValuesUsed(Value slot) { return OfRing(slot, 3); }
  int64_t NumSignals() const { return 2 + 4 * s_.stages; }
  void Wait(Value signal, Value phase) { tile::SignalWaitOp::create(b_, loc_, signal, phase); }
  Value Other(Value phase) { return arith::XOrIOp::create(b_, loc_, phase, I64(1)); }
  // Each warp says for itself that it is done.
  void Release(Value signal) {
    If(IsFirstLane(), [&] { tile::SignalArriveOp::create(b_, loc_, signal, Value()); });
  }

  void Roles() {
    If(Compare(arith::CmpIPredicate::eq, thread_, I64(0)), [&] {
      auto init = [&](Value signal, int64_t count) {
        tile::SignalInitOp::create(b_, loc_, signal, b_.getI64IntegerAttr(count));
      };
      init(QueriesFilled(), 1);
      init(QueriesUsed(), kWarps);
      for (int64_t k = 0; k < s_.stages; ++k) {
        for (Value filled : {KeysFilled(I64(k)), ValuesFilled(I64(k))}) init(filled, 1);
        for (Value used : {KeysUsed(I64(k)), ValuesUsed(I64(k))}) init(used, kWarps);
      }
      tile::SignalsReadyOp::create(b_, loc_);
    });
    tile::BarrierOp::create(b_, loc_);
    IfElse(
        Compare(arith::CmpIPredicate::uge, thread_, I64(kGroups * kGroup)),
        [&] {
          tile::RegistersOp::create(b_, loc_, b_.getI64IntegerAttr(kProducerRegisters), UnitAttr());
          If(Compare(arith::CmpIPredicate::eq, thread_, I64(kGroups * kGroup)), [&] { Produce(); });
        },
        [&] {
          tile::RegistersOp::create(b_, loc_, b_.getI64IntegerAttr(kGroupRegisters), b_.getUnitAttr());
          Consume();
        });
  }

  // ---- tasks

  Value Max(Value x, Value y) { return arith::MaxSIOp::create(b_, loc_, x, y); }

  // fn(task, carried) for the tasks of the block.
  template <typename Fn>
  void Tasks(ValueRange init, Fn fn) {
    For(Place("block"), end_, Place("blocks"), init,
        [&](Value number, ValueRange at) { return fn(TaskAt(number), at); });
  }

  Task TaskAt(Value number) {
    Task task;
    Value head, block;
    if (HidesKeys()) {
      auto [bands, within] = Split(number, band_);
      Value first = Mul(bands, together_);
      auto [turn, of] = Split(within, Min(together_, Minus(batches_, first)));
      head = Sum(first, of);
      block = Minus(Minus(row_tiles_, I64(1)), turn);
    } else {
      std::tie(head, block) = Split(number, row_tiles_);
    }
    task.batch = Indices(head, rank_ - 2);
    task.keys = OfHeads(right_, task.batch);
    task.values = OfHeads(values_matrix_, task.batch);
    task.row = Mul(block, I64(s_.rows));
    Value last = Minus(Min(Sum(task.row, I64(s_.rows)), rows_), I64(1));
    task.tiles = Max(Ceil(Seen(last, columns_), s_.columns), I64(1));
    return task;
  }

  // Heads of queries may share keys and values.
  SmallVector<Value> OfHeads(const Matrix& matrix, ArrayRef<Value> batch) {
    SmallVector<Value> indices(batch);
    const RankedTensorType type = nest_.views[matrix.view].type;
    for (auto [d, own] : llvm::zip(matrix.batch, matrix.dims)) {
      const Dim dim = DimOf(type, own), &heads = nest_.space[d];
      if (dim == heads) continue;
      Value share = !dim.is_symbol && !heads.is_symbol ? I64(std::max<int64_t>(1, heads.value / dim.value))
                                                       : Max(Div(sizes_[d], SizeOf(dim)), I64(1));
      indices[d] = Split(indices[d], share).first;
    }
    return indices;
  }

  // ---- the producer

  void Produce() {
    Tasks({I64(0), I64(0), I64(0)}, [&](const Task& task, ValueRange at) {
      Wait(QueriesUsed(), Other(at[2]));
      Expect(QueriesFilled(), query_bytes_);
      Bring(left_, 0, task.batch, task.row, I64(0), QueriesFilled(), s_.rows, depth_pieces_, s_.rows * kRowBytes);
      auto keys = [&](Value tile, const Ring& ring) {
        Wait(KeysUsed(ring.slot), Other(ring.phase));
        Expect(KeysFilled(ring.slot), key_bytes_);
        Bring(right_, 1, task.keys, Mul(tile, I64(s_.columns)), Sum(I64(keys_at_), Mul(ring.slot, I64(key_bytes_))),
              KeysFilled(ring.slot), s_.columns, depth_pieces_, s_.columns * kRowBytes);
      };
      auto values = [&](Value tile, const Ring& ring) {
        Wait(ValuesUsed(ring.slot), Other(ring.phase));
        Expect(ValuesFilled(ring.slot), value_bytes_);
        Value slot = Sum(I64(values_at_), Mul(ring.slot, I64(value_bytes_))), along = Mul(tile, I64(s_.columns));
        const int64_t lines = value_pitch_ / kRowBytes;
        for (int64_t piece = 0; piece < s_.columns / kPieceColumns; ++piece)
          Copy(values_matrix_, 2, task.values, I64(0), Sum(along, I64(piece * kPieceColumns)),
               Sum(slot, I64(piece * value_pitch_)), ValuesFilled(ring.slot), lines);
      };
      Value last = Minus(task.tiles, I64(1));
      keys(last, {at[0], at[1]});
      // Keys are a tile ahead.
      const SmallVector<Value> end = For(I64(1), task.tiles, I64(1), {at[0], at[1]}, [&](Value n, ValueRange ring) {
        const Ring before{ring[0], ring[1]}, next = Next(before);
        keys(Minus(last, n), next);
        values(Minus(task.tiles, n), before);
        return SmallVector<Value>{next.slot, next.phase};
      });
      const Ring ring{end[0], end[1]}, next = Next(ring);
      values(I64(0), ring);
      return SmallVector<Value>{next.slot, next.phase, Other(at[2])};
    });
  }
  void Expect(Value signal, int64_t bytes) {
    tile::SignalExpectOp::create(b_, loc_, signal, b_.getI64IntegerAttr(bytes));
  }
  // Pieces of 64 elements along the sum.
  void Bring(const Matrix& matrix, int64_t map, ArrayRef<Value> batch, Value line, Value slot, Value signal,
             int64_t lines, int64_t pieces, int64_t pitch) {
    for (int64_t piece = 0; piece < pieces; ++piece)
      Copy(matrix, map, batch, line, I64(piece * kPieceColumns), Sum(slot, I64(piece * pitch)), signal, lines);
  }

  // ---- a group

  void Consume() {
    group_ = Place("group");
    Value lane = Lane();
    pair_ = Mul(Rem(lane, I64(4)), I64(2));
    Value warp = Rem(Div(thread_, I64(32)), I64(4));
    Value before = Sum(Mul(group_, I64(kGroupRows)), Mul(warp, I64(16)));
    if (s_.apart != 0) If(Compare(arith::CmpIPredicate::eq, group_, I64(1)), [&] { EndTurn(); });
    Tasks({I64(0), I64(0), I64(0)}, [&](const Task& task, ValueRange at) {
      BeginRows(task, Sum(task.row, before));
      Wait(QueriesFilled(), at[2]);
      const Ring first{at[0], at[1]};
      std::array<Row, 2> rows;
      for (Row& row : rows) row = {F32(-std::numeric_limits<double>::infinity()), F32(0)};
      Value scores = MultiplyKeys(first);
      EndTurn();
      scores = tile::MultipliedOp::create(b_, loc_, scores.getType(), scores, b_.getI64IntegerAttr(0));
      Release(KeysUsed(first.slot));
      Value last = Minus(task.tiles, I64(1));
      Pair factors;
      SmallVector<Value> words = Weigh(scores, last, /*is_first=*/true, rows, factors);
      auto type = VectorType::get({columns_of_result_ / 2}, b_.getF32Type());
      SmallVector<Value> init = {arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type)), first.slot, first.phase};
      for (const Row& row : rows) init.append({row.max, row.sum});
      init.append(words);
      const SmallVector<Value> end = For(I64(1), task.tiles, I64(1), init, [&](Value n, ValueRange carried) {
        const Ring ring{carried[1], carried[2]}, next = Next(ring);
        std::array<Row, 2> now = {Row{carried[3], carried[4]}, Row{carried[5], carried[6]}};
        const SmallVector<Value> weights(carried.drop_front(7));
        Value s = MultiplyKeys(next);
        Value sums = MultiplyValues(carried[0], weights, ring);
        EndTurn();
        s = tile::MultipliedOp::create(b_, loc_, s.getType(), s, b_.getI64IntegerAttr(1));
        Release(KeysUsed(next.slot));
        Pair by;
        SmallVector<Value> fresh = Weigh(s, Minus(last, n), /*is_first=*/false, now, by);
        sums = Weighed(sums, weights, fresh);
        Release(ValuesUsed(ring.slot));
        sums = ScaleWhereLarger(sums, by);
        SmallVector<Value> out = {sums, next.slot, next.phase};
        for (const Row& row : now) out.append({row.max, row.sum});
        out.append(fresh);
        return out;
      });
      Release(QueriesUsed());
      const Ring ring{end[1], end[2]}, next = Next(ring);
      SmallVector<Value> none;
      const SmallVector<Value> weights(ArrayRef<Value>(end).drop_front(7));
      Value sums = Weighed(MultiplyValues(end[0], weights, ring), weights, none);
      Release(ValuesUsed(ring.slot));
      for (size_t p = 0; p < 2; ++p) rows[p] = {end[3 + 2 * p], end[4 + 2 * p]};
      Write(task, Sum(task.row, before), sums, rows);
      return SmallVector<Value>{next.slot, next.phase, Other(at[2])};
    });
    If(IsFirstLane(),
       [&] { tile::AwaitOutOp::create(b_, loc_, b_.getI64IntegerAttr(0), /*written=*/b_.getUnitAttr()); });
  }

  Value F32(double x) { return arith::ConstantOp::create(b_, loc_, b_.getF32FloatAttr(static_cast<float>(x))); }
  Value Vector(double x) { return Splat(F32(x), kLanes); }

  // Numbers of the thread's two rows that scores are computed from.
  void BeginRows(const Task& task, Value top) {
    for (int64_t p = 0; p < 2; ++p) {
      Value row = Sum(top, Sum(Div(Lane(), I64(4)), I64(p * 8)));
      Part& part = parts_[static_cast<size_t>(p)];
      part.values.clear();
      part.indices = task.batch;
      part.indices.push_back(Min(row, Minus(rows_, I64(1))));
      SetOffsets(part.indices);
      part.offsets = offsets_;
      TurnTo(part);
      for (Operation* op : positions_)
        if (!IsOfKeys(op))
          values_[op->getResult(0)] = PositionsFrom(op, part.indices[static_cast<size_t>(DimOfPositions(op))], 1);
      NeedNumbers(ops_.scores);
      part.values = values_;
      seen_[static_cast<size_t>(p)] = ops_.is_causal ? Seen(row, columns_) : columns_;
    }
    if (HidesKeys()) end_of_group_ = Seen(Sum(task.row, Mul(group_, I64(kGroupRows))), I64(0));
  }
  // How many keys a query sees, from the first one on; `otherwise` if that is not known.
  Value Seen(Value row, Value otherwise) {
    if (!HidesKeys()) return columns_;
    Value end = ops_.is_causal ? Sum(Sum(row, I64(1)), Minus(columns_, rows_))
                               : Sum(Minus(Sum(query_start_, Mul(query_step_, row)), key_start_), I64(ops_.sees_own));
    end = arith::MinSIOp::create(b_, loc_, Max(end, I64(0)), columns_);
    return ops_.is_causal ? end : arith::SelectOp::create(b_, loc_, is_order_, end, otherwise).getResult();
  }
  // Numbers of the row that `v` follows from, without what a product gives.
  void NeedNumbers(Value v) {
    if (is_row_.lookup(v)) {
      RowValue(v);
      return;
    }
    Operation* op = v.getDefiningOp();
    if (op == nullptr || IsProduct(op) || IsPositions(op)) return;
    for (Value o : op->getOperands()) NeedNumbers(o);
  }

  bool IsOfKeys(Operation* positions) const { return DimOfPositions(positions) + 1 == static_cast<int64_t>(rank_); }
  // The dim of the space that positions run along.
  int64_t DimOfPositions(Operation* op) const {
    auto axis = op->getAttrOfType<IntegerAttr>("axis");
    const int64_t rank = cast<RankedTensorType>(op->getResult(0).getType()).getRank();
    return static_cast<int64_t>(rank_) - rank + (axis ? axis.getInt() : 0);
  }
  // start + step * index, in the dtype of the result.
  Value PositionsFrom(Operation* op, Value index, int64_t lanes) {
    Type element = ComputeType(ElementOf(op->getResult(0)));
    auto number = [&](unsigned k) {
      Value x = RowValue(op->getOperand(k));
      if (isa<FloatType>(element)) {
        if (!isa<FloatType>(x.getType())) return Value(arith::SIToFPOp::create(b_, loc_, element, x));
        const unsigned from = x.getType().getIntOrFloatBitWidth(), to = element.getIntOrFloatBitWidth();
        if (from == to) return x;
        return from > to ? Value(arith::TruncFOp::create(b_, loc_, element, x))
                         : Value(arith::ExtFOp::create(b_, loc_, element, x));
      }
      if (isa<FloatType>(x.getType())) return Value(arith::FPToSIOp::create(b_, loc_, element, x));
      return AsInteger(x, element);
    };
    Value start = Splat(number(0), lanes), step = Splat(number(1), lanes);
    if (isa<FloatType>(element)) {
      Value narrow = AsInteger(index, TileType(b_.getI32Type(), lanes));
      Value x = arith::SIToFPOp::create(b_, loc_, TileType(element, lanes), narrow);
      return arith::AddFOp::create(b_, loc_, start, arith::MulFOp::create(b_, loc_, step, x));
    }
    return Sum(start, Mul(step, AsInteger(index, TileType(element, lanes))));
  }
  Value AsInteger(Value x, Type type) {
    const unsigned from = getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth(),
                   to = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
    if (from == to) return x;
    return from > to ? Value(arith::TruncIOp::create(b_, loc_, type, x))
                     : Value(arith::ExtSIOp::create(b_, loc_, type, x));
  }

  // Groups start products in turns, so that one computes weights while the other one has the tensor cores.
  void EndTurn() {
    if (s_.apart != 0) tile::EndTurnOp::create(b_, loc_, group_);
  }
  Value MultiplyKeys(const Ring& ring) {
    Wait(KeysFilled(ring.slot), ring.phase);
    if (s_.apart != 0) tile::TakeTurnOp::create(b_, loc_, group_);
    auto type = VectorType::get({s_.columns / 2}, b_.getF32Type());
    Value scores = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type));
    Value left = Mul(group_, I64(kGroupRows * kRowBytes));
    Value right = Sum(I64(keys_at_), Mul(ring.slot, I64(key_bytes_)));
    for (int64_t piece = 0; piece < depth_pieces_; ++piece)
      scores = Multiply(scores, Sum(left, I64(piece * s_.rows * kRowBytes)),
                        Sum(right, I64(piece * s_.columns * kRowBytes)), s_.columns, /*by_warps=*/false,
                        /*fresh=*/piece == 0);
    return scores;
  }
  Value MultiplyValues(Value sums, ValueRange words, const Ring& ring) {
    Wait(ValuesFilled(ring.slot), ring.phase);
    return tile::MultiplyWeightsOp::create(
        b_, loc_, sums.getType(), sums, words, Sum(I64(values_at_), Mul(ring.slot, I64(value_bytes_))),
        b_.getI64IntegerAttr(columns_of_result_), b_.getI64IntegerAttr(value_pitch_),
        values_matrix_.is_across ? b_.getUnitAttr() : UnitAttr(), TypeAttr::get(DtypeOfValues()));
  }
  Value Weighed(Value sums, ValueRange words, SmallVector<Value>& next) {
    SmallVector<Type> types = {sums.getType()};
    for (Value w : next) types.push_back(w.getType());
    auto op = tile::WeighedOp::create(b_, loc_, types, sums, words, next);
    next.assign(op.getKept().begin(), op.getKept().end());
    return op.getResult();
  }
  // Seldom: after a few tiles no score is larger than all before.
  Value ScaleWhereLarger(Value sums, const Pair& by) {
    Pair is_less;
    for (unsigned p = 0; p < 2; ++p)
      is_less[p] = arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::UNE, by[p], F32(1));
    Value any = tile::AnyOp::create(b_, loc_, b_.getI1Type(), arith::OrIOp::create(b_, loc_, is_less[0], is_less[1]));
    auto branch = scf::IfOp::create(b_, loc_, TypeRange(sums.getType()), any, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToEnd(branch.thenBlock());
    Value scaled = tile::ScaleRowsOp::create(b_, loc_, sums.getType(), sums, by[0], by[1]);
    scf::YieldOp::create(b_, loc_, scaled);
    b_.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(b_, loc_, sums);
    return branch.getResult(0);
  }
  Type DtypeOfValues() { return ElementOf(ops_.values->getOperand(1)); }

  // ---- scores and weights

  // 32 keys at a time. In the first tile keys may not be there; those that come after the query are in the last tiles
  // that a group sees, so others are not asked.
  SmallVector<Pair> Scores(Value sums, Value tile, bool is_first) {
    Value first_key = Mul(tile, I64(s_.columns));
    SmallVector<std::array<Chunk, 2>> chunks;
    SmallVector<Pair> scores;
    for (int64_t n = 0; n < s_.columns / kStep; ++n) {
      auto taken = tile::TakeOp::create(b_, loc_, Eight(), Eight(), sums, b_.getI64IntegerAttr(n * kStep / 2));
      Value column = Sum(Sum(first_key, I64(n * kStep)), pair_);
      std::array<Chunk, 2>& both = chunks.emplace_back();
      for (unsigned p = 0; p < 2; ++p) {
        both[p] = Chunk{column, Value(), kLanes, false};
        both[p].tiles[product_->getResult(0)] = taken.getResult(p);
      }
      scores.push_back(ScoresOf(shown_, both, first_moving_, first_positions_));
    }
    auto masked = [&] {
      SmallVector<Pair> all;
      for (std::array<Chunk, 2>& both : chunks) all.push_back(ScoresOf(ops_.scores, both, moving_, positions_));
      return all;
    };
    if (is_first) return Hidden(ops_.where != nullptr ? masked() : scores, first_key);
    if (!HidesKeys() || (ops_.where != nullptr && !ops_.is_order_alone)) return scores;
    // The first row sees the fewest keys.
    Value end = Sum(first_key, I64(s_.columns));
    Value is_edge = Compare(arith::CmpIPredicate::sgt, end, end_of_group_);
    SmallVector<Type> types(2 * scores.size(), Eight());
    auto branch = scf::IfOp::create(b_, loc_, types, is_edge, /*withElseRegion=*/true);
    auto yield = [&](ArrayRef<Pair> pairs) {
      SmallVector<Value> flat;
      for (const Pair& pair : pairs) flat.append(pair.begin(), pair.end());
      scf::YieldOp::create(b_, loc_, flat);
    };
    {
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPointToEnd(branch.thenBlock());
      yield(ops_.where != nullptr ? masked() : Hidden(scores, first_key));
      b_.setInsertionPointToEnd(branch.elseBlock());
      yield(scores);
    }
    for (auto [n, pair] : llvm::enumerate(scores))
      for (unsigned p = 0; p < 2; ++p) pair[p] = branch.getResult(static_cast<unsigned>(2 * n) + p);
    return scores;
  }
  // A value for 32 keys, with these operands and positions that it needs.
  Pair ScoresOf(Value v, std::array<Chunk, 2>& chunks, ArrayRef<size_t> moving, ArrayRef<Operation*> positions) {
    llvm::DenseMap<Value, Value> shared;  // by both rows
    for (Operation* op : positions) {
      Value x = op->getResult(0);
      if (IsOfKeys(op) && !chunks[0].tiles.contains(x)) shared[x] = PositionsFrom(op, Keys(chunks[0].at), kLanes);
    }
    for (size_t k : moving)
      if (!MovesAlongRows(k) && !chunks[0].tiles.contains(Argument(k))) shared[Argument(k)] = LoadOf(k, chunks[0].at);
    Pair both;
    for (unsigned p = 0; p < 2; ++p) {
      TurnTo(parts_[p]);
      for (auto [x, elements] : shared) chunks[p].tiles[x] = elements;
      for (size_t k : moving)
        if (MovesAlongRows(k) && !chunks[p].tiles.contains(Argument(k)))
          chunks[p].tiles[Argument(k)] = LoadOf(k, chunks[p].at);
      both[p] = Tile(v, chunks[p]);
    }
    return both;
  }
  VectorType Eight() { return VectorType::get({kLanes}, b_.getF32Type()); }

  // Numbers of the keys that a thread has of 32, as tsr_tile.take has them.
  Value Keys(Value column) {
    auto type = VectorType::get({kLanes}, b_.getI64Type());
    return arith::AddIOp::create(
        b_, loc_, Splat(column, kLanes),
        arith::ConstantOp::create(b_, loc_, DenseElementsAttr::get(type, ArrayRef<int64_t>(Steps(0)))));
  }
  static SmallVector<int64_t> Steps(int64_t from) {
    SmallVector<int64_t> steps;
    for (int64_t k = 0; k < kLanes; ++k) steps.push_back(from + k / 2 * 8 + k % 2);
    return steps;
  }
  Value LoadOf(size_t k, Value column) {
    Value stride = IsRun(k) ? Value() : loop_strides_[k].back();
    Value at = Sum(offsets_[k], stride ? Mul(column, stride) : column);
    Type dtype = nest_.views[k].type.getElementType();
    return tile::LoadPairsOp::create(b_, loc_, TileType(ComputeType(dtype), kLanes), view_args_[k], at,
                                     Minus(columns_, column), stride, InPairs(k) ? b_.getUnitAttr() : UnitAttr(),
                                     TypeAttr::get(dtype));
  }

  // Keys that a row does not see have scores of minus infinity.
  SmallVector<Pair> Hidden(ArrayRef<Pair> scores, Value first_key) {
    SmallVector<Pair> hidden;
    Type i32 = b_.getI32Type();
    Pair left;  // keys that are seen, from the thread's first one of the tile on
    for (unsigned p = 0; p < 2; ++p) {
      Value seen = Minus(seen_[p], Sum(first_key, pair_));
      left[p] = Splat(arith::TruncIOp::create(b_, loc_, i32, seen), kLanes);
    }
    auto type = VectorType::get({kLanes}, i32);
    for (auto [n, pair] : llvm::enumerate(scores)) {
      SmallVector<int32_t> steps;
      for (int64_t step : Steps(static_cast<int64_t>(n) * kStep)) steps.push_back(static_cast<int32_t>(step));
      Value key = arith::ConstantOp::create(b_, loc_, DenseElementsAttr::get(type, ArrayRef<int32_t>(steps)));
      Pair& both = hidden.emplace_back();
      for (unsigned p = 0; p < 2; ++p) {
        Value is_hidden = Compare(arith::CmpIPredicate::sge, key, left[p]);
        both[p] =
            arith::SelectOp::create(b_, loc_, is_hidden, Vector(-std::numeric_limits<double>::infinity()), pair[p]);
      }
    }
    return hidden;
  }

  // Scores to weights, as words. `factors`: what all that was summed up before is to be multiplied with.
  SmallVector<Value> Weigh(Value sums, Value tile, bool is_first, std::array<Row, 2>& rows, Pair& factors) {
    const SmallVector<Pair> scores = Scores(sums, tile, is_first);
    const double scale = ops_.scale * kLog2E;
    SmallVector<Pair> weights(scores.size());
    for (unsigned p = 0; p < 2; ++p) {
      Value most = scores[0][p];
      for (const Pair& pair : ArrayRef<Pair>(scores).drop_front())
        most = arith::MaximumFOp::create(b_, loc_, most, pair[p]);
      Value largest = tile::ReduceOp::create(b_, loc_, b_.getF32Type(), most, b_.getStringAttr("maximum_f32"));
      largest = OfQuad("maximum_f32", largest);
      if (!is_first) largest = arith::MaximumFOp::create(b_, loc_, rows[p].max, largest);
      // Rows that have seen no key yet: all weights are 0.
      Value is_none = arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::OEQ, largest,
                                            F32(-std::numeric_limits<double>::infinity()));
      Value taken = arith::SelectOp::create(b_, loc_, is_none, F32(0), largest);
      Value off = arith::NegFOp::create(b_, loc_, arith::MulFOp::create(b_, loc_, taken, F32(scale)));
      if (!is_first) {
        Value x = tile::FmaOp::create(b_, loc_, b_.getF32Type(), rows[p].max, F32(scale), off);
        factors[p] = Map("exp2_f32_narrow", {x}, b_.getF32Type());
      }
      Value part;
      for (auto [n, pair] : llvm::enumerate(scores)) {
        Value x = tile::FmaOp::create(b_, loc_, Eight(), pair[p], Vector(scale), Splat(off, kLanes));
        x = Map("exp2_f32_narrow", {x}, Eight());
        weights[n][p] = x;
        part = part ? Value(arith::AddFOp::create(b_, loc_, part, x)) : x;
      }
      Value sum = tile::ReduceOp::create(b_, loc_, b_.getF32Type(), part, b_.getStringAttr("add_f32"));
      if (!is_first) sum = tile::FmaOp::create(b_, loc_, b_.getF32Type(), rows[p].sum, factors[p], sum);
      rows[p] = {largest, sum};
    }
    SmallVector<Value> words;
    auto type = VectorType::get({kLanes}, b_.getI32Type());
    for (const Pair& pair : weights)
      words.push_back(tile::WeightsOp::create(b_, loc_, type, pair[0], pair[1], TypeAttr::get(DtypeOfValues())));
    return words;
  }
  // Four threads share a row.
  Value OfQuad(StringRef function, Value x) {
    return tile::TeamReduceOp::create(b_, loc_, x.getType(), b_.getStringAttr(function), x, b_.getI64IntegerAttr(4),
                                      scratch_, b_.getI64IntegerAttr(0));
  }

  // ---- what follows

  void Write(const Task& task, Value top, Value sums, const std::array<Row, 2>& rows) {
    Value result = Yield().getValues()[0];
    for (unsigned p = 0; p < 2; ++p) {
      TurnTo(parts_[p]);
      values_[ops_.max.getY()] = rows[p].max;
      values_[ops_.sum.getY()] = OfQuad("add_f32", rows[p].sum);
      NeedNumbers(result);
      parts_[p].values = values_;
    }
    // What was copied out of the places before has been read.
    If(IsFirstLane(), [&] { tile::AwaitOutOp::create(b_, loc_, b_.getI64IntegerAttr(0), UnitAttr()); });
    tile::WarpBarrierOp::create(b_, loc_);
    const Type dtype = ElementOf(result);
    for (int64_t n = 0; n < columns_of_result_ / kStep; ++n) {
      auto taken = tile::TakeOp::create(b_, loc_, Eight(), Eight(), sums, b_.getI64IntegerAttr(n * kStep / 2));
      Pair both;
      for (unsigned p = 0; p < 2; ++p) {
        TurnTo(parts_[p]);
        Chunk chunk{Sum(I64(n * kStep), pair_), Value(), kLanes, false};
        chunk.tiles[ops_.values->getResult(0)] = taken.getResult(p);
        both[p] = Unrounded(Tile(result, chunk), dtype);
      }
      const int64_t place = n * kStep / result_.of_place, half = n * kStep % result_.of_place / kStep;
      tile::LayDownOp::create(b_, loc_, both[0], both[1], WarpPlace(place), b_.getI64IntegerAttr(half),
                              TypeAttr::get(dtype));
    }
    tile::PublishOp::create(b_, loc_);
    tile::WarpBarrierOp::create(b_, loc_);
    If(IsFirstLane(), [&] {
      for (int64_t place = 0; place < places_; ++place) {
        SmallVector<Value> at = {I64(place * result_.of_place), top};
        for (size_t d : result_.batch) at.push_back(task.batch[d]);
        tile::CopyOutOp::create(b_, loc_, b_.getI64IntegerAttr(3), at, WarpPlace(place));
      }
    });
  }

  static constexpr int64_t kGroupRows = 64;

  AttentionOps ops_;
  const Dim depth_, width_;  // elements of a query, and of a value
  int64_t depth_pieces_ = 0, columns_of_result_ = 0;
  Matrix values_matrix_, result_;
  int64_t query_bytes_ = 0, key_bytes_ = 0, value_bytes_ = 0, value_pitch_ = 0, keys_at_ = 0, values_at_ = 0;
  SmallVector<size_t> moving_, first_moving_;              // operands with an element for each key
  SmallVector<Operation*> positions_, first_positions_;    // ... and positions; the first of what is shown
  Value shown_;                                            // scores without a mask of positions
  Value query_start_, query_step_, key_start_, is_order_;  // of that mask
  Value row_tiles_, batches_, together_, band_;
  Value pair_;                 // the thread's first column of every eight
  std::array<Part, 2> parts_;  // its rows
  Pair seen_;                  // how many keys those see, and the group's first one
  Value end_of_group_;
};

}  // namespace

void LowerAttentionGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, OpBuilder& at) {
  const std::optional<AttentionOps> ops = AttentionOf(kernel);
  if (!ops) return;
  AttentionGpuLowering lowering(kernel, std::move(nest), options, *ProductSchedule::FromAttr(*kernel.getProduct()),
                                *ops);
  if (lowering.CanLower()) lowering.Lower(at);
}

}  // namespace tessera::compiler
