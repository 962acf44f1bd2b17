// tsr-lower-kernels, kernels with a matrix product.
//
// A task is a block of the result (sched/product.h). In it:
//
//   for each piece of the sum                       `depth` long; small products have one, and copy nothing
//     rows of the left factor are copied            only where they are not f32 (or f64) runs along the sum, or are
//                                                   computed: what comes before the product is, here, row by row;
//                                                   of bf16 as words, where those are multiplied (product_words.cc)
//     for each panel of the right factor            `nr` columns
//       the panel is copied                         depth x nr, zeros beyond the last column
//       for each `mr` rows
//         register tile                             mr x nr sums, from zero or from where the last piece left them
//         last piece: the tile is written to scratch, and what follows the product is computed from there, row by
//         row, by the same code as any other kernel's rows
//
// Rows beyond the last one are the last one again; what they give is not used.
//
// What comes before a product has a space of its own, that of the left factor: a second RowLowering of the same kernel,
// whose only result is the row of the copy.
//
// Where what follows needs whole rows (a softmax, a norm) the tiles of a block of rows go to scratch first. A second
// product may multiply those rows with another matrix: attention, whose scores are then never in memory as a whole.
//
// Where several heads of queries have the same keys and values, the rows of a block are those of all of them: of each
// query the heads one after the other, so that a causal block sees no more keys than its last query. They are copied
// next to each other, and a panel of keys or values that was packed serves them all.
#include "tiers/compiler/tile/lower_product.h"

#include "tiers/compiler/tile/product_tiles.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

// Of a panel that stays in the innermost cache, where the schedule does not say it.
constexpr int64_t kPanelBytes = 32768;

// Rows of the first product that are computed together.
struct Rows {
  SmallVector<Value> batch;     // indices of the batch; of the first head, where rows are of several
  SmallVector<Value> matrices;  // the same for the right factors
  Value first, count;
};

Type ComputingType(sched::KernelOp kernel) {
  return ComputeType(cast<RankedTensorType>(ProductsOf(kernel).first->getResult(0).getType()).getElementType());
}

class ProductLowering : public ProductTiles {
 public:
  ProductLowering(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, const ProductSchedule& schedule)
      : ProductTiles(RowLowering(kernel, std::move(nest), options.bitwise), schedule, options, ComputingType(kernel)),
        kernel_(kernel),
        products_(ProductsOf(kernel)),
        rank_(rows_.nest().space.size()) {
    const OpSet before = PrologueOf(kernel);
    if (before.empty()) return;
    // As many registers for each value as in a kernel without a product.
    int64_t bytes = 4;
    for (Operation* op : before) {
      Type element = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
      bytes = std::max<int64_t>(bytes, ComputeType(element).getIntOrFloatBitWidth() / 8);
    }
    before_.emplace(kernel, *LoopNest::PlanPrologue(kernel), options.bitwise, /*is_device=*/false,
                    std::max<int64_t>(1, 4 * options.vector_bytes / bytes));
  }

  void Lower(OpBuilder& at) {
    rows_.Begin(at);
    if (before_) before_->BeginWithin(rows_);
    const bool whole_rows = rows_.nest().row > 0 || products_.second != nullptr;
    const Dim m = rows_.nest().space[rank_ - 2], n = rows_.nest().space[rank_ - 1];
    const Dim k = DepthOf(products_.first);
    // Scratch: a panel, rows of the left factor, one register tile, sums between pieces; then the rows.
    packs_block_ = schedule_.form == ProductSchedule::Form::packed && !whole_rows && RunsAlongColumns(products_.first);
    if (schedule_.form == ProductSchedule::Form::packed)
      panel_ = Reserve(PieceEntries() * (packs_block_ ? RoundUp(schedule_.columns, schedule_.nr) : schedule_.nr));
    FindGroups();
    const bool is_direct = schedule_.form == ProductSchedule::Form::direct;
    if (schedule_.copy == 1 || groups_ || before_ || (!is_direct && !ReadsInPlace(products_.first)))
      copy_ = Reserve(schedule_.rows * PieceEntries());
    if (before_ && schedule_.words > 0) row_ = Reserve(schedule_.depth);
    tile_ = Reserve(schedule_.mr * Wide(schedule_.nr));
    sums_in_pieces_ = schedule_.form == ProductSchedule::Form::packed && (k.is_symbol || k.value > schedule_.depth);
    SmallVector<int64_t> tasks, blocks, unit, scratch;
    for (size_t d = 0; d + 2 < rank_; ++d)
      Count(tasks, blocks, groups_ && d + 3 == rank_ ? *groups_ : rows_.nest().space[d], 1);
    Count(tasks, blocks, m, groups_ ? queries_ : schedule_.rows);
    const Value rows = rows_.size(rank_ - 2), columns = rows_.size(rank_ - 1);
    if (whole_rows) {
      if (products_.second != nullptr) {
        // Its sums are as long as a row: in pieces, where the width of the result is known and they have a place.
        const Dim width = DimsOf(products_.second->getResult(0).getType()).back();
        scales_ = Reserve(schedule_.rows);
        if (!width.is_symbol) {
          second_sums_ = Reserve(schedule_.rows * RoundUp(width.value, schedule_.nr));
          second_depth_ = std::max<int64_t>(w_, kPanelBytes / (Wide(schedule_.nr) * bytes_));
          second_panel_ = Reserve(second_depth_ * Wide(schedule_.nr));
        }
      }
      // A block of rows, each as long as so many whole tiles, and the panel of a second product; the core is told what
      // each takes for an element of a row.
      Value block = I64(fixed_);
      fixed_ = RoundUp(fixed_ + schedule_.rows * schedule_.nr * bytes_, 64);
      Value at = I64(fixed_);
      auto reserve = [&](int64_t bytes) {
        Value here = at;
        scratch.push_back(bytes);
        Value size = arith::AndIOp::create(b(), loc(), rows_.Sum(rows_.Mul(columns, I64(bytes)), I64(63)), I64(-64));
        at = rows_.Sum(at, size);
        return here;
      };
      block_ = block;
      reserve(schedule_.rows * bytes_);
      if (products_.second != nullptr && !second_sums_) second_panel_ = reserve(Wide(schedule_.nr) * bytes_);
      rows_.PlaceScratchRows(at);
      for (int64_t row : rows_.ScratchRows()) scratch.push_back(row);
      unit.push_back(rows_.Factor(n));
      // A row of a task is more work than its elements.
      const int64_t work = schedule_.rows * std::max<int64_t>(1, (k.is_symbol ? 64 : k.value) / 8);
      rows_.SetGrain(std::max<int64_t>(1, static_cast<int64_t>(kernel_.getGrain()) / work));
    } else {
      if (sums_in_pieces_ || schedule_.form == ProductSchedule::Form::stream)
        partial_ = Reserve(schedule_.rows * RoundUp(schedule_.columns, schedule_.nr));
      Count(tasks, blocks, n, schedule_.columns);
      const int64_t rows_at_most = m.is_symbol ? schedule_.rows : std::min(schedule_.rows, m.value);
      unit = {-1 - std::max<int64_t>(1, rows_at_most * schedule_.columns / 16), rows_.Factor(k)};
    }
    rows_.For(rows_.begin(), rows_.end(), I64(1), {}, [&](Value task, ValueRange) {
      Task(task, rows, columns, whole_rows);
      return SmallVector<Value>();
    });
    rows_.End(tasks, blocks, unit, scratch, fixed_);
  }

 private:
  void Count(SmallVector<int64_t>& tasks, SmallVector<int64_t>& blocks, const Dim& d, int64_t block) {
    if (d.is_one()) return;
    tasks.push_back(rows_.Factor(d));
    blocks.push_back(block);
  }

  static bool Transposes(Operation* product, StringRef which) {
    auto attr = product->getAttrOfType<BoolAttr>(which);
    return attr && attr.getValue();
  }
  Dim DepthOf(Operation* product) {
    const SmallVector<Dim> dims = DimsOf(product->getOperand(0).getType());
    return dims[dims.size() - (Transposes(product, "transpose_a") ? 2 : 1)];
  }
  // Has the right factor runs along the columns of the result?
  bool RunsAlongColumns(Operation* product) {
    const ViewPlan& v = rows_.nest().views[cast<BlockArgument>(product->getOperand(1)).getArgNumber()];
    const int64_t line = v.type.getRank() - (Transposes(product, "transpose_b") ? 2 : 1);
    return v.known && !v.known.empty() ? v.known[line] == 1 : line == v.type.getRank() - 1;
  }

  // Is the left factor f32 (or f64) in runs along the sum?
  bool ReadsInPlace(Operation* product) {
    const ViewPlan& v = rows_.nest().views[cast<BlockArgument>(product->getOperand(0)).getArgNumber()];
    const int64_t rank = v.type.getRank();
    const bool transposed = Transposes(product, "transpose_a");
    const bool run = !v.known || v.known.empty() || v.known[rank - 1] == 1;
    return !transposed && run && ComputeType(v.type.getElementType()) == v.type.getElementType();
  }

  void FindGroups() {
    if (products_.second == nullptr) return;
    const ArrayRef<Dim> space = rows_.nest().space;
    groups_ = GroupsOf(space, products_.first->getOperand(1).getType(), products_.second->getOperand(1).getType());
    // A single matrix for all heads may as well be multiplied with one after the other.
    if (groups_ && groups_->is_one() && schedule_.queries == 0) groups_.reset();
    if (!groups_) return;
    queries_ = schedule_.queries > 0 ? schedule_.queries : schedule_.rows;
    const Dim& heads = space[rank_ - 3];
    share_ = heads.is_symbol || groups_->is_symbol
                 ? Div(rows_.SizeOf(heads), arith::MaxSIOp::create(b(), loc(), rows_.SizeOf(*groups_), I64(1)))
                 : I64(std::max<int64_t>(1, heads.value / std::max<int64_t>(1, groups_->value)));
  }

  // Row i of some, as indices of the batch and of the row there.
  SmallVector<Value> IndicesOf(const Rows& rows, Value i) {
    SmallVector<Value> indices = rows.batch;
    Value row = rows_.Sum(rows.first, i);
    if (groups_) {
      indices.back() = rows_.Sum(indices.back(), Rem(row, share_));
      row = Div(row, share_);
    }
    indices.push_back(row);
    return indices;
  }

  // The factor for one index of the batch.
  Factor FactorOf(Value operand, bool transposed, bool is_left, ArrayRef<Value> batch) {
    Factor f;
    f.is_operand = true;
    f.index = cast<BlockArgument>(operand).getArgNumber();
    const ViewPlan& v = rows_.nest().views[f.index];
    const int64_t rank = v.type.getRank();
    const int64_t line = is_left != transposed ? rank - 2 : rank - 1;
    const int64_t along = is_left != transposed ? rank - 1 : rank - 2;
    f.view = rows_.view(f.index);
    f.dtype = v.type.getElementType();
    f.line = rows_.StrideOfDim(v, line);
    f.along = rows_.StrideOfDim(v, along);
    const bool dense = !v.known || v.known.empty();
    f.runs_along = dense ? along == rank - 1 : v.known[along] == 1;
    f.runs_line = dense ? line == rank - 1 : v.known[line] == 1;
    f.base = I64(0);
    const SmallVector<Dim> dims = DimsOf(v.type);
    for (int64_t d = 0; d < rank - 2; ++d) {
      const size_t index = batch.size() - static_cast<size_t>(rank - 2 - d);
      if (dims[static_cast<size_t>(d)].is_one() || !batch[index]) continue;
      f.base = rows_.Sum(f.base, rows_.Mul(batch[index], rows_.StrideOfDim(v, d)));
    }
    return f;
  }

  // Rows of all heads of a group, as many at a time as a block has.
  void GroupTask(Value task, Value queries, Value columns) {
    Value blocks = CeilDiv(queries, queries_);
    Value first = rows_.Mul(Rem(task, blocks), I64(queries_));
    Value end = rows_.Mul(Min(queries, rows_.Sum(first, I64(queries_))), share_);
    task = Div(task, blocks);
    Value groups = rows_.SizeOf(*groups_), group = Rem(task, groups);
    Rows rows;
    rows.batch = rows_.Indices(Div(task, groups), rank_ - 3);
    rows.matrices = rows.batch;
    rows.batch.push_back(rows_.Mul(group, share_));
    rows.matrices.push_back(group);
    rows_.For(rows_.Mul(first, share_), end, I64(schedule_.rows), {}, [&](Value row, ValueRange) {
      rows.first = row;
      rows.count = Min(I64(schedule_.rows), Sub(end, row));
      WholeRows(rows, queries, columns);
      return SmallVector<Value>();
    });
  }

  // The row of the block at hand, for what follows the first product; its sums are at view[offset] from column n on.
  void Follow(const Rows& rows, Value i, Value n, Value view, Value offset) {
    rows_.SetOffsets(IndicesOf(rows, i));
    rows_.SetInMemory(products_.first->getResult(0), view, Sub(offset, n));
  }

  Factor LeftOf(const Rows& rows) {
    Operation* first = products_.first;
    if (before_) {
      Factor x;
      x.is_operand = true;
      x.compute = [this, rows](Value i, Value k0, Value k1, Value view, Value at) {
        before_->GoOnAt(rows_);
        before_->SetOffsets(IndicesOf(rows, i));
        before_->SetWritten(products_.first->getOperand(0), view, at);
        before_->Row(k0, k1);
      };
      return x;
    }
    Factor x = FactorOf(first->getOperand(0), Transposes(first, "transpose_a"), true, rows.batch);
    if (groups_) {
      const ViewPlan& v = rows_.nest().views[x.index];
      const int64_t heads = v.type.getRank() - 3;
      x.head = heads < 0 || DimOf(v.type, heads).is_one() ? I64(0) : rows_.StrideOfDim(v, heads);
      x.first = rows.first;
    } else {
      x.base = rows_.Sum(x.base, rows_.Mul(rows.first, x.line));
    }
    return x;
  }

  void Task(Value task, Value rows, Value columns, bool whole_rows) {
    if (groups_) return GroupTask(task, rows, columns);
    Value panels = whole_rows ? I64(1) : CeilDiv(columns, schedule_.columns);
    Value n0 = I64(0), n1 = columns;
    if (!whole_rows) {
      n0 = rows_.Mul(arith::RemUIOp::create(b(), loc(), task, panels), I64(schedule_.columns));
      n1 = Min(columns, rows_.Sum(n0, I64(schedule_.columns)));
      task = arith::DivUIOp::create(b(), loc(), task, panels);
    }
    Value row_blocks = CeilDiv(rows, schedule_.rows);
    Value m0 = rows_.Mul(arith::RemUIOp::create(b(), loc(), task, row_blocks), I64(schedule_.rows));
    task = arith::DivUIOp::create(b(), loc(), task, row_blocks);
    Rows block;
    block.batch = block.matrices = rows_.Indices(task, rank_ - 2);
    block.first = m0;
    block.count = Min(I64(schedule_.rows), Sub(rows, m0));
    if (whole_rows) return WholeRows(block, rows, columns);
    const Value count = block.count;
    Operation* first = products_.first;
    const Factor x = LeftOf(block);
    const Factor y = FactorOf(first->getOperand(1), Transposes(first, "transpose_b"), false, block.batch);
    const Value depth = rows_.SizeOf(DepthOf(first));
    if (schedule_.form == ProductSchedule::Form::stream) {
      Value sums = Scratch(partial_), width = I64(RoundUp(schedule_.columns, schedule_.nr));
      Stream(x, y, depth, count, n0, n1, sums, width);
      rows_.For(I64(0), count, I64(1), {}, [&](Value i, ValueRange) {
        Follow(block, i, n0, sums, rows_.Mul(i, width));
        rows_.Row(n0, n1);
        return SmallVector<Value>();
      });
      return;
    }
    Sums sums;
    if (partial_) sums = {Scratch(partial_), I64(RoundUp(schedule_.columns, schedule_.nr))};
    Multiply(x, y, panel_, depth, count, n0, n1, columns, sums, [&](Value i, Value n, Value left) {
      Value tile = Scratch(tile_);
      Value stop = Min(n1, rows_.Sum(n, I64(schedule_.nr)));
      rows_.For(I64(0), left, I64(1), {}, [&](Value r, ValueRange) {
        Follow(block, rows_.Sum(i, r), n, tile, rows_.Mul(r, I64(Wide(schedule_.nr))));
        rows_.Row(n, stop);
        return SmallVector<Value>();
      });
    });
  }

  // Tiles go to the block first. Keys that no row of it sees are left out.
  void WholeRows(const Rows& rows, Value queries, Value columns) {
    Operation* first = products_.first;
    const Factor x = LeftOf(rows);
    const Factor y = FactorOf(first->getOperand(1), Transposes(first, "transpose_b"), false, rows.matrices);
    Value n1 = columns;
    if (products_.is_causal) {
      Value last = IndicesOf(rows, Sub(rows.count, I64(1))).back();
      n1 = arith::MaxSIOp::create(b(), loc(), I64(0), rows_.Sum(rows_.Sum(last, I64(1)), Sub(columns, queries)));
      n1 = Min(columns, n1);
    }
    Value padded = rows_.Mul(CeilDiv(columns, schedule_.nr), I64(schedule_.nr));
    Value block = Scratch(block_);
    Multiply(x, y, panel_, rows_.SizeOf(DepthOf(first)), rows.count, I64(0), n1, columns, {block, padded}, nullptr);
    rows_.For(I64(0), rows.count, I64(1), {}, [&](Value i, ValueRange) {
      Value offset = rows_.Mul(i, padded);
      Follow(rows, i, I64(0), block, offset);
      if (products_.second != nullptr) rows_.SetWritten(products_.second->getOperand(0), block, offset);
      rows_.Row(I64(0), n1);
      if (products_.scale != nullptr) StoreWide(rows_.RowValue(products_.scale->getOperand(1)), Scratch(scales_), i);
      return SmallVector<Value>();
    });
    if (products_.second == nullptr) return;
    Operation* second = products_.second;
    Factor p;
    p.view = block;
    p.base = I64(0);
    p.line = padded;
    p.along = I64(1);
    p.runs_along = true;
    Factor v = FactorOf(second->getOperand(1), Transposes(second, "transpose_b"), false, rows.matrices);
    SecondProduct(p, v, n1, rows);
  }

  // The rows of the block, multiplied with another matrix; the result is the kernel's.
  void SecondProduct(const Factor& p, const Factor& v, Value depth, const Rows& rows) {
    auto yield = cast<sched::YieldOp>(kernel_.getBody().front().back());
    size_t out = 0;
    for (auto [k, value] : llvm::enumerate(yield.getValues()))
      if (products_.IsResult(value)) out = rows_.nest().views.size() - yield.getValues().size() + k;
    const ViewPlan& plan = rows_.nest().views[out];
    const Dim size_of_row = DimsOf(products_.second->getResult(0).getType()).back();
    Value width = rows_.SizeOf(size_of_row);
    auto place = [&](Value i) {
      const SmallVector<Value> indices = IndicesOf(rows, i);
      Value at = rows_.Mul(indices.back(), width);
      for (int64_t d = 0; d < plan.type.getRank() - 2; ++d)
        at = rows_.Sum(at, rows_.Mul(indices[static_cast<size_t>(d)], rows_.StrideOfDim(plan, d)));
      return at;
    };
    Type element = plan.type.getElementType();
    Value tile = Scratch(tile_);
    Sums sums;
    if (second_sums_) sums = {Scratch(second_sums_), I64(RoundUp(size_of_row.value, schedule_.nr))};
    Multiply(p, v, second_panel_, depth, rows.count, I64(0), width, width, sums, [&](Value i, Value n, Value left) {
      Value size = Min(I64(schedule_.nr), Sub(width, n));
      rows_.For(I64(0), left, I64(1), {}, [&](Value r, ValueRange) {
        Value from = rows_.Mul(r, I64(Wide(schedule_.nr)));
        Value to = rows_.Sum(place(rows_.Sum(i, r)), n);
        Value scale;
        if (products_.scale != nullptr) scale = LoadWide(Scratch(scales_), rows_.Sum(i, r), 1);
        AlongRow(size, [&](Value at, int64_t lanes) {
          Value x = LoadWide(tile, rows_.Sum(from, at), lanes);
          if (scale) x = arith::MulFOp::create(b(), loc(), x, rows_.Splat(scale, lanes));
          tile::StoreOp::create(b(), loc(), rows_.Round(x, element, lanes), rows_.view(out), rows_.Sum(to, at), Value(),
                                element);
        });
        return SmallVector<Value>();
      });
    });
  }

  sched::KernelOp kernel_;
  const Products products_;
  const size_t rank_;
  std::optional<RowLowering> before_;  // computes the left factor
  std::optional<Dim> groups_;          // of heads that share the right factors
  int64_t queries_ = 0;                // of each of them in a task
  Value partial_, block_, scales_;     // offsets in scratch, in bytes
};

}  // namespace

void LowerProduct(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, OpBuilder& at) {
  // The verifier has seen to it that there is a schedule.
  ProductLowering(kernel, std::move(nest), options, *ProductSchedule::FromAttr(*kernel.getProduct())).Lower(at);
}

}  // namespace tessera::compiler
