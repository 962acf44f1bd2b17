#include "tiers/compiler/tile/follow_sums_gpu.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr int64_t kMostAhead = 16;  // elements of operands that a thread reads before the sums are there

}  // namespace

void FollowSumsGpu::BeginTiles() {
  rows_ = sizes_[rank_ - 2];
  columns_ = sizes_[rank_ - 1];
  has_whole_columns_ = IsMultiple(nest_.space[rank_ - 1], s_.columns);
  has_whole_rows_ = IsMultiple(nest_.space[rank_ - 2], s_.rows);
  thread_ = Place("thread");
  rank_in_cluster_ = s_.Blocks() > 1 ? Place("rank") : I64(0);
}

Value FollowSumsGpu::Own(StringRef what) { return s_.Blocks() > 1 ? Div(Place(what), I64(s_.Blocks())) : Place(what); }

FollowSumsGpu::Where FollowSumsGpu::Locate(Value tile) {
  // Blocks of rows of the same columns run at the same time, and find those in the second-level cache.
  Where where{{}, I64(0), Value()};
  if (!Fits(nest_.space[rank_ - 2], s_.rows)) {
    auto [rest, row] = Split(tile, Ceil(rows_, s_.rows));
    where.row = Mul(row, I64(s_.rows));
    tile = rest;
  }
  if (rank_ > 2) {
    auto [number, column] = Split(tile, Ceil(columns_, s_.columns));
    where.batch = Indices(number, rank_ - 2);
    tile = column;
  }
  where.column = Mul(tile, I64(s_.columns));
  return where;
}

void FollowSumsGpu::Tiles(llvm::function_ref<void(const Where&)> fn) {
  For(Own("block"), end_, Own("blocks"), {}, [&](Value tile, ValueRange) {
    fn(Locate(tile));
    return SmallVector<Value>();
  });
}

void FollowSumsGpu::OneTile(llvm::function_ref<void(const Where&)> fn) { fn(Locate(Own("block"))); }

void FollowSumsGpu::EndTiles(ArrayRef<size_t> also) {
  SmallVector<int64_t> tasks, sizes, aligned;
  for (size_t d = 0; d < rank_; ++d) {
    if (nest_.space[d].is_one()) continue;
    tasks.push_back(Factor(nest_.space[d]));
    sizes.push_back(d + 2 == rank_ ? s_.rows : d + 1 == rank_ ? s_.columns : 1);
  }
  End(tasks, sizes, {}, {}, 0);
  for (size_t k = 0; k < nest_.views.size(); ++k)
    if ((MovesInside(k) && IsRun(k)) || llvm::is_contained(also, k)) aligned.push_back(static_cast<int64_t>(k));
  tile_.setAligned(aligned);
}

void FollowSumsGpu::Meet() {
  if (s_.Blocks() > 1) {
    tile::ClusterBarrierOp::create(b_, loc_);
  } else {
    tile::BarrierOp::create(b_, loc_);
  }
}

int64_t FollowSumsGpu::Lanes() const {
  int64_t lanes = 8;
  while (lanes > 2 && s_.rows * s_.columns / lanes < threads_ * s_.Blocks()) lanes /= 2;
  return lanes;
}

int64_t FollowSumsGpu::NumParts() const {
  const int64_t all = s_.rows * s_.columns / Lanes(), threads = threads_ * s_.Blocks();
  return (all + threads - 1) / threads;
}

bool FollowSumsGpu::ReadsFirst() {
  llvm::SmallPtrSet<Value, 8> arguments;
  for (Value v : Yield().getValues()) CollectOperands(v, arguments);
  int64_t moving = 0;
  for (Value v : arguments) moving += MovesInside(cast<BlockArgument>(v).getArgNumber());
  return NumParts() * Lanes() * moving <= kMostAhead;
}

SmallVector<FollowSumsGpu::Part> FollowSumsGpu::PartsOf(const Where& where) {
  const int64_t lanes = Lanes(), in_row = s_.columns / lanes, all = s_.rows * in_row;
  const int64_t threads = threads_ * s_.Blocks();
  SmallVector<Part> parts;
  Value own = Sum(thread_, Mul(rank_in_cluster_, I64(threads_)));
  for (int64_t n = 0; n < NumParts(); ++n) {
    Value number = n == 0 ? own : Sum(own, I64(n * threads));
    Value line = Div(number, I64(in_row)), along = Mul(Rem(number, I64(in_row)), I64(lanes));
    Part& part = parts.emplace_back();
    part.slot = Sum(Mul(line, I64(pitch_)), Mul(along, I64(4)));
    Value r = Sum(where.row, line), c = Sum(where.column, along);
    const bool is_any = (n + 1) * threads <= all;
    part.is_valid = And(Below(number, I64(all), is_any),
                        And(Below(r, rows_, has_whole_rows_ && is_any), Below(c, columns_, has_whole_columns_)));
    part.indices = where.batch;
    part.indices.push_back(Min(r, Minus(rows_, I64(1))));
    part.chunk = Chunk{Min(c, Minus(columns_, I64(lanes))), part.is_valid, lanes, true};
    SetOffsets(part.indices);
    part.offsets = offsets_;
  }
  return parts;
}

void FollowSumsGpu::TurnTo(Part& part) {
  indices_ = part.indices, offsets_ = part.offsets;
  ForgetRow();
  for (auto& [v, value] : part.values) values_[v] = value;
}

void FollowSumsGpu::ReadOperands(SmallVector<Part>& parts) {
  for (Part& part : parts) {
    TurnTo(part);
    for (Value v : Yield().getValues()) {
      NeedRows(v, 0);
      LoadFor(v, part.chunk);
    }
    part.values = values_;
  }
}

Value FollowSumsGpu::Total(const Part& part) {
  Type type = TileType(b_.getF32Type(), part.chunk.lanes);
  Value total;
  for (int64_t block = 0; block < s_.Blocks(); ++block) {
    for (int64_t n = 0; n < along_; ++n) {
      Value slot = n == 0 ? part.slot : Sum(part.slot, I64(n * s_.rows * pitch_));
      Value rank = s_.Blocks() > 1 ? I64(block) : Value();
      Value sum = tile::FetchedOp::create(b_, loc_, type, slot, rank, UnitAttr(), TypeAttr::get(b_.getF32Type()));
      total = total ? arith::AddFOp::create(b_, loc_, total, sum).getResult() : sum;
    }
  }
  return total;
}

void FollowSumsGpu::TileOf(const Where& where, llvm::function_ref<void()> leave) {
  SmallVector<Part> parts = PartsOf(where);
  const bool reads_first = ReadsFirst();
  if (reads_first) ReadOperands(parts);
  leave();
  if (!reads_first) ReadOperands(parts);
  Meet();
  for (Part& part : parts) {
    If(part.is_valid, [&] {
      TurnTo(part);
      part.chunk.tiles[product_->getResult(0)] = Total(part);
      for (size_t k = 0; k < Yield().getValues().size(); ++k) {
        const size_t view = num_inputs_ + k;
        StoreTile(Tile(Yield().getValues()[static_cast<unsigned>(k)], part.chunk), view,
                  Sum(offsets_[view], part.chunk.at), /*aligned=*/true);
      }
    });
  }
  // Nobody writes there again, or leaves, before all have read.
  Meet();
}

}  // namespace tessera::compiler
