// Sums lie in registers in a way that suits no memory. There are two ways from there:
//
// - On sm_90a, where results are bf16, f16 or f32 and operands are rows, numbers, and at most one matrix: ops are
//   computed on sums as they lie. Each warp lays 64 columns of its 16 rows, or 32 of f32, down in a place of its own in
//   shared memory, and one thread copies them out while the warp goes on with the next ones. A matrix that is read
//   comes to those places, brought by a copy while the group multiplies, and is taken up in the same way; but neither
//   it nor a result is f32 then, which would need twice the room.
// - Otherwise threads exchange sums, 32 columns at a time, until each has runs of eight; from there on ops that follow
//   are those of any kernel, with operands and results in accesses of 16 bytes. Operands are loaded some steps ahead.
//
// Operands that are one row for all are copied to shared memory while the group multiplies. The rest of shared memory
// is left to the tensor cores: tiles are as large as registers allow.
#include "tiers/compiler/tile/follow_product_gpu.h"

#include "tiers/compiler/sched/gather.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr int64_t kPlaceRows = 16, kPlaceColumns = 64;
constexpr int64_t kMostPlaces = 4;  // where nothing is read into them: more are not waited for

}  // namespace

// ---- operands that are one row for all rows of the result

bool FollowProductGpu::IsRow(size_t k) const {
  return MovesInside(k) && IsRun(k) &&
         llvm::all_of(ArrayRef(nest_.views[k].loops).take_front(Outer()),
                      [](const Stride& s) { return s.kind == Stride::Kind::zero; });
}

void FollowProductGpu::FindRowOperands(int64_t copies, int64_t room) {
  for (size_t k = 0; k < num_inputs_; ++k) {
    if (!IsRow(k)) continue;
    const int64_t bytes = BytesOf(nest_.views[k].type.getElementType()) * s_.columns;
    if (bytes % 64 != 0 || (row_bytes_ + bytes) * copies > room) continue;
    row_operands_.push_back({k, row_bytes_});
    row_bytes_ += bytes;
  }
}

bool FollowProductGpu::IsRowOperand(size_t k) const {
  return llvm::any_of(row_operands_, [&](auto& r) { return r.first == k; });
}

Value FollowProductGpu::RowPlace(int64_t at) {
  return Sum(I64(rows_at_ + at), Mul(Div(thread_, I64(places_ > 0 ? kGroup : 32)), I64(row_bytes_)));
}

void FollowProductGpu::FetchRows(Value column) {
  if (row_operands_.empty()) return;
  Value number = Rem(thread_, I64(places_ > 0 ? kGroup : 32)), at = Sum(column, Mul(number, I64(kLanes)));
  Value mine = And(Compare(arith::CmpIPredicate::ult, number, I64(s_.columns / kLanes)),
                   Compare(arith::CmpIPredicate::ult, at, columns_));
  If(mine, [&] {
    for (auto [k, place] : row_operands_) {
      Type dtype = nest_.views[k].type.getElementType();
      tile::FetchOp::create(b_, loc_, view_args_[k], at,
                            Sum(RowPlace(place), Mul(number, I64(kLanes * BytesOf(dtype)))), Value(),
                            b_.getI64IntegerAttr(kLanes), TypeAttr::get(dtype));
    }
  });
}

void FollowProductGpu::AwaitRows() {
  if (row_operands_.empty()) return;
  tile::AwaitOp::create(b_, loc_, IntegerAttr());
  RowsWereRead();
}

void FollowProductGpu::RowsWereRead() {
  if (row_operands_.empty()) return;
  if (places_ > 0) {
    tile::GroupBarrierOp::create(b_, loc_, group_);
  } else {
    tile::WarpBarrierOp::create(b_, loc_);
  }
}

// ---- what follows the product, on sums as they lie

std::optional<FollowProductGpu::Matrix> FollowProductGpu::PiecesOf(size_t view) {
  const ViewPlan& v = nest_.views[view];
  if (!IsRun(view) || v.is_table || v.is_base || v.update >= 0 || v.own_dim.size() != rank_) return std::nullopt;
  Type dtype = v.type.getElementType();
  const int64_t columns = v.own_dim[rank_ - 1], rows = v.own_dim[rank_ - 2];
  if (!(dtype.isBF16() || dtype.isF16() || dtype.isF32()) || columns < 0 || rows < 0) return std::nullopt;
  Matrix matrix;
  matrix.view = view;
  matrix.of_place = kRowBytes / BytesOf(dtype);
  SmallVector<int64_t> map = {static_cast<int64_t>(view), columns, matrix.of_place, rows, kPlaceRows};
  for (size_t d = rank_ - 2; d-- > 0;) {
    if (v.own_dim[d] < 0 || nest_.space[d].is_one()) continue;
    map.append({v.own_dim[d], 1});
    matrix.batch.push_back(d);
  }
  if (matrix.batch.size() > 3) return std::nullopt;
  matrix.map = DenseI64ArrayAttr::get(kernel_.getContext(), map);
  return matrix;
}

bool FollowProductGpu::PlanPlaces() {
  if (s_.columns % kPlaceColumns != 0) return false;
  SmallVector<Matrix> results;
  const auto is_wide = [](const Matrix& matrix) { return matrix.of_place < kPlaceColumns; };
  for (size_t k = 0; k < Yield().getValues().size(); ++k) {
    std::optional<Matrix> pieces = PiecesOf(num_inputs_ + k);
    if (!pieces || DimsOf(nest_.views[num_inputs_ + k].type) != nest_.space) return false;
    results.push_back(std::move(*pieces));
  }
  llvm::SmallPtrSet<Value, 8> operands;
  for (Value v : Yield().getValues()) CollectOperands(v, operands);
  std::optional<Matrix> read;
  SmallVector<size_t> rows;
  int64_t row_bytes = 0;
  for (Value v : operands) {
    const size_t k = cast<BlockArgument>(v).getArgNumber();
    if (!MovesInside(k)) continue;
    if (IsRow(k)) {
      rows.push_back(k);
      row_bytes += BytesOf(nest_.views[k].type.getElementType()) * s_.columns;
      continue;
    }
    if (read) return false;
    read = PiecesOf(k);
    if (!read || is_wide(*read)) return false;
  }
  for (Operation& op : Body())
    if (IsGather(&op)) return false;
  const bool has_wide = llvm::any_of(results, is_wide);
  if (read && (results.size() > 1 || has_wide)) return false;
  const int64_t places = read ? s_.Places() : std::min(kMostPlaces, s_.Places() * (has_wide ? 2 : 1));
  const int64_t room = ProductSchedule::kSharedBytes - s_.stages * slot_bytes_ - 16 * (s_.stages + 1);
  const int64_t each = kWarps * (kPlaceBytes + (read ? 8 : 0));
  places_ = std::min(places, (room - kGroups * row_bytes) / each);
  if (places_ >= (read ? places : std::min<int64_t>(2, places))) {
    FindRowOperands(kGroups, room - places_ * each);
    if (llvm::all_of(rows, [&](size_t k) { return IsRowOperand(k); })) {
      results_ = std::move(results);
      read_ = std::move(read);
      return true;
    }
    row_operands_.clear();
    row_bytes_ = 0;
  }
  places_ = 0;
  return false;
}

Value FollowProductGpu::WarpPlace(int64_t place) {
  return Sum(I64(places_at_ + place * kPlaceBytes), Mul(Div(thread_, I64(32)), I64(places_ * kPlaceBytes)));
}

Value FollowProductGpu::WarpSignal(int64_t place) {
  return Sum(I64(signals_at_ + 16 * (s_.stages + 1) + 8 * place), Mul(Div(thread_, I64(32)), I64(8 * places_)));
}

SmallVector<Value> FollowProductGpu::PieceAt(const Matrix& matrix, const At& tile, Value top, int64_t n) {
  const int64_t across = s_.columns / matrix.of_place;
  SmallVector<Value> at = {Sum(tile.column, I64(n % across * matrix.of_place)), Sum(top, I64(n / across * 64))};
  for (size_t d : matrix.batch) at.push_back(tile.batch[d]);
  return at;
}

void FollowProductGpu::ReadMatrix(const At& tile, Value top, Value piece) {
  Value now = Compare(arith::CmpIPredicate::eq, piece, Min(I64(1), Minus(pieces_, I64(1))));
  If(And(now, IsFirstLane()), [&] {
    tile::AwaitOutOp::create(b_, loc_, b_.getI64IntegerAttr(0), UnitAttr());
    for (int64_t n = 0; n < places_; ++n) {
      tile::SignalExpectOp::create(b_, loc_, WarpSignal(n), b_.getI64IntegerAttr(kPlaceBytes));
      tile::CopyOp::create(b_, loc_, b_.getI64IntegerAttr(static_cast<int64_t>(2 + results_.size())),
                           PieceAt(*read_, tile, top, n), WarpPlace(n), WarpSignal(n), IntegerAttr());
    }
  });
}

void FollowProductGpu::FollowInPlaces(const At& tile, Value top, Value sums, Value phase) {
  const int64_t across = s_.columns / kPlaceColumns, num_results = static_cast<int64_t>(results_.size());
  auto eight = VectorType::get({kLanes}, b_.getF32Type());
  Value lane = Lane(), pair = Mul(Rem(lane, I64(4)), I64(2));
  int64_t laid = 0;  // pieces
  for (int64_t n = 0; n < s_.Places(); ++n) {
    // Rows of the thread: numbers that belong to them.
    std::array<Part, 2> parts;
    for (int64_t p = 0; p < 2; ++p) {
      Value row = Sum(top, Sum(Div(lane, I64(4)), I64(n / across * 64 + p * 8)));
      Part& part = parts[static_cast<size_t>(p)];
      part.indices = tile.batch;
      part.indices.push_back(Min(row, Minus(rows_, I64(1))));
      SetOffsets(part.indices);
      part.offsets = offsets_;
    }
    if (read_) tile::SignalWaitOp::create(b_, loc_, WarpSignal(n), phase);
    SmallVector<std::array<Value, 2>> tiles;  // by half and result
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t step = 2 * n + half;
      auto taken = tile::TakeOp::create(b_, loc_, eight, eight, sums, b_.getI64IntegerAttr(step * kStep / 2));
      std::array<Value, 2> read;
      if (read_) {
        auto up = tile::TakeUpOp::create(b_, loc_, eight, eight, WarpPlace(n), b_.getI64IntegerAttr(half),
                                         TypeAttr::get(nest_.views[read_->view].type.getElementType()));
        read = {up.getUpper(), up.getLower()};
      }
      llvm::DenseMap<Value, Value> rows;
      for (auto [k, place] : row_operands_) {
        Type dtype = nest_.views[k].type.getElementType();
        const int64_t bytes = BytesOf(dtype), column = n % across * kPlaceColumns + half * kStep;
        Value slot = Sum(Sum(RowPlace(place), I64(column * bytes)), Mul(pair, I64(bytes)));
        rows[Argument(k)] = tile::FetchedOp::create(b_, loc_, TileType(ComputeType(dtype), kLanes), slot, Value(),
                                                    b_.getUnitAttr(), TypeAttr::get(dtype));
      }
      std::array<Chunk, 2> chunks;
      for (unsigned p = 0; p < 2; ++p) {
        TurnTo(parts[p]);
        Chunk& chunk = chunks[p] = Chunk{Value(), Value(), kLanes, true};
        for (auto [v, row] : rows) chunk.tiles[v] = row;
        if (read_) chunk.tiles[Argument(read_->view)] = read[p];
        chunk.tiles[product_->getResult(0)] = taken.getResult(p);
        for (Value v : Yield().getValues()) NeedRows(v, 0);
        parts[p].values = values_;
      }
      for (Value v : Yield().getValues()) {
        std::array<Value, 2>& result = tiles.emplace_back();
        for (unsigned p = 0; p < 2; ++p) {
          TurnTo(parts[p]);
          result[p] = Unrounded(Tile(v, chunks[p]), ElementOf(v));
        }
      }
    }
    // What is read is taken up by the whole warp before anything takes its place.
    if (read_) tile::WarpBarrierOp::create(b_, loc_);
    for (int64_t k = 0; k < num_results; ++k) {
      const Matrix& matrix = results_[static_cast<size_t>(k)];
      Type dtype = ElementOf(Yield().getValues()[static_cast<unsigned>(k)]);
      // Halves share a place, or have one each.
      const int64_t of_place = matrix.of_place / kStep, pieces = 2 / of_place;
      for (int64_t piece = 0; piece < pieces; ++piece, ++laid) {
        Value place = WarpPlace(laid % places_);
        if (!read_) {
          If(IsFirstLane(), [&] { tile::AwaitOutOp::create(b_, loc_, b_.getI64IntegerAttr(places_ - 1), UnitAttr()); });
          tile::WarpBarrierOp::create(b_, loc_);
        }
        for (int64_t half = 0; half < of_place; ++half) {
          const std::array<Value, 2>& result = tiles[static_cast<size_t>((piece + half) * num_results + k)];
          tile::LayDownOp::create(b_, loc_, result[0], result[1], place, b_.getI64IntegerAttr(half),
                                  TypeAttr::get(dtype));
        }
        tile::PublishOp::create(b_, loc_);
        tile::WarpBarrierOp::create(b_, loc_);
        If(IsFirstLane(), [&] {
          tile::CopyOutOp::create(b_, loc_, b_.getI64IntegerAttr(2 + k), PieceAt(matrix, tile, top, n * pieces + piece),
                                  place);
        });
      }
    }
  }
}

// ---- what follows the product

int64_t FollowProductGpu::Ahead() {
  llvm::SmallPtrSet<Value, 8> operands;
  for (Value v : Yield().getValues()) CollectOperands(v, operands);
  int64_t moving = 0;
  for (Value v : operands) {
    const size_t k = cast<BlockArgument>(v).getArgNumber();
    moving += MovesInside(k) && !IsRowOperand(k);
  }
  const int64_t room = s_.OwnRows() * s_.columns <= 128 * 128 ? 32 : 16;
  return moving == 0 ? 1 : std::max<int64_t>(1, room / (2 * kLanes * moving));
}

FollowProductGpu::Steps FollowProductGpu::BeginSteps(ArrayRef<Value> batch, Value first, Value column) {
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

void FollowProductGpu::TurnTo(Part& part) {
  indices_ = part.indices, offsets_ = part.offsets;
  ForgetRow();
  for (auto& [v, value] : part.values) values_[v] = value;
}

void FollowProductGpu::LoadUntil(Steps& steps, int64_t end) {
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

void FollowProductGpu::Follow(Steps& steps, Value sums) {
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
      rows[Argument(k)] = tile::FetchedOp::create(b_, loc_, TileType(ComputeType(dtype), kLanes), slot, Value(),
                                                  UnitAttr(), TypeAttr::get(dtype));
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

}  // namespace tessera::compiler
