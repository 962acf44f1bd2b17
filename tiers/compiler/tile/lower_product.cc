// tsr-lower-kernels, kernels with a matrix product.
//
// A task is a block of the result (sched/product.h). In it:
//
//   for each piece of the sum                       `depth` long
//     rows of the left factor are copied            only where they are not f32 (or f64) runs along the sum
//     for each panel of the right factor            `nr` columns
//       the panel is copied                         depth x nr, zeros beyond the last column
//       for each `mr` rows
//         register tile                             mr x nr sums, from zero or from where the last piece left them
//         last piece: the tile is written to scratch, and what follows the product is computed from there, row by
//         row, by the same code as any other kernel's rows
//
// Rows beyond the last one are the last one again; what they give is not used.
//
// Where what follows needs whole rows (a softmax, a norm) the tiles of a block of rows go to scratch first. A second
// product may multiply those rows with another matrix: attention, whose scores are then never in memory as a whole.
#include "tiers/compiler/tile/lower_product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler/sched/product.h"
#include "tiers/compiler/tile/row_lowering.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

// Of a panel that stays in the innermost cache, where the schedule does not say it.
constexpr int64_t kPanelBytes = 32768;

// A factor of a product: element (i, k) of the left one, (k, j) of the right one, is at
// view[base + (i or j) * line + k * along].
struct Factor {
  Value view, base, line, along;
  Type dtype;
  bool is_operand = false;  // not rows in scratch
  size_t index = 0;         // of the operand
  bool runs_along = false;  // along == 1
  bool runs_line = false;   // line == 1
};

class ProductLowering {
 public:
  ProductLowering(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, ProductSchedule schedule)
      : kernel_(kernel),
        products_(ProductsOf(kernel)),
        schedule_(schedule),
        rows_(kernel, std::move(nest), options.bitwise),
        lanes_of_a_(options.vector_bytes == 16) {
    Type element = cast<RankedTensorType>(products_.first->getResult(0).getType()).getElementType();
    type_ = ComputeType(element);
    bytes_ = type_.getIntOrFloatBitWidth() / 8;
    w_ = std::max<int64_t>(1, options.vector_bytes / bytes_);
    rank_ = rows_.nest().space.size();
  }

  void Lower(OpBuilder& at) {
    rows_.Begin(at);
    const bool whole_rows = rows_.nest().row > 0 || products_.second != nullptr;
    const Dim m = rows_.nest().space[rank_ - 2], n = rows_.nest().space[rank_ - 1];
    const Dim k = DepthOf(products_.first);
    // Scratch: a panel, rows of the left factor, one register tile, sums between pieces; then the rows.
    packs_block_ = schedule_.form == ProductSchedule::Form::packed && !whole_rows && RunsAlongColumns(products_.first);
    if (schedule_.form == ProductSchedule::Form::packed)
      panel_ = Reserve(schedule_.depth * (packs_block_ ? RoundUp(schedule_.columns, schedule_.nr) : schedule_.nr));
    if (schedule_.copy == 1 || !ReadsInPlace(products_.first)) copy_ = Reserve(schedule_.rows * schedule_.depth);
    tile_ = Reserve(schedule_.mr * Wide(schedule_.nr));
    sums_in_pieces_ = schedule_.form == ProductSchedule::Form::packed && (k.is_symbol || k.value > schedule_.depth);
    SmallVector<int64_t> tasks, blocks, unit, scratch;
    for (size_t d = 0; d + 2 < rank_; ++d) Count(tasks, blocks, rows_.nest().space[d], 1);
    Count(tasks, blocks, m, schedule_.rows);
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
  static int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
  int64_t Wide(int64_t columns) const { return RoundUp(columns, w_); }
  OpBuilder& b() { return rows_.b(); }
  Location loc() const { return rows_.loc(); }
  Value I64(int64_t n) { return rows_.I64(n); }
  Value Min(Value x, Value y) { return arith::MinSIOp::create(b(), loc(), x, y); }
  Value Sub(Value x, Value y) { return arith::SubIOp::create(b(), loc(), x, y); }
  Value CeilDiv(Value x, int64_t by) { return arith::DivUIOp::create(b(), loc(), rows_.Sum(x, I64(by - 1)), I64(by)); }

  void Count(SmallVector<int64_t>& tasks, SmallVector<int64_t>& blocks, const Dim& d, int64_t block) {
    if (d.is_one()) return;
    tasks.push_back(rows_.Factor(d));
    blocks.push_back(block);
  }

  // Elements of scratch; the result is their offset in bytes.
  Value Reserve(int64_t elements) {
    Value at = I64(fixed_);
    fixed_ = RoundUp(fixed_ + elements * bytes_, 64);
    return at;
  }
  Value Scratch(Value offset) {
    return LLVM::GEPOp::create(b(), loc(), rows_.scratch().getType(), b().getI8Type(), rows_.scratch(), offset);
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

  void Task(Value task, Value rows, Value columns, bool whole_rows) {
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
    SmallVector<Value> batch = rows_.Indices(task, rank_ - 2);
    Value count = Min(I64(schedule_.rows), Sub(rows, m0));
    Operation* first = products_.first;
    Factor x = FactorOf(first->getOperand(0), Transposes(first, "transpose_a"), true, batch);
    Factor y = FactorOf(first->getOperand(1), Transposes(first, "transpose_b"), false, batch);
    x.base = rows_.Sum(x.base, rows_.Mul(m0, x.line));
    const Value depth = rows_.SizeOf(DepthOf(first));
    auto follow = [&](Value i, Value n, Value view, Value offset) {
      SmallVector<Value> indices = batch;
      indices.push_back(rows_.Sum(m0, i));
      rows_.SetOffsets(indices);
      rows_.SetInMemory(first->getResult(0), view, Sub(offset, n));
    };
    if (schedule_.form == ProductSchedule::Form::stream) {
      Value sums = Scratch(partial_), width = I64(RoundUp(schedule_.columns, schedule_.nr));
      Stream(x, y, depth, count, n0, n1, sums, width);
      rows_.For(I64(0), count, I64(1), {}, [&](Value i, ValueRange) {
        follow(i, n0, sums, rows_.Mul(i, width));
        rows_.Row(n0, n1);
        return SmallVector<Value>();
      });
      return;
    }
    if (!whole_rows) {
      Sums sums;
      if (partial_) sums = {Scratch(partial_), I64(RoundUp(schedule_.columns, schedule_.nr))};
      Multiply(x, y, panel_, depth, count, n0, n1, columns, sums, [&](Value i, Value n, Value left) {
        Value tile = Scratch(tile_);
        Value stop = Min(n1, rows_.Sum(n, I64(schedule_.nr)));
        rows_.For(I64(0), left, I64(1), {}, [&](Value r, ValueRange) {
          follow(rows_.Sum(i, r), n, tile, rows_.Mul(r, I64(Wide(schedule_.nr))));
          rows_.Row(n, stop);
          return SmallVector<Value>();
        });
      });
      return;
    }
    // Whole rows: tiles go to the block. Keys that no row of the block sees are left out.
    if (products_.is_causal) {
      n1 = arith::MaxSIOp::create(b(), loc(), I64(0), rows_.Sum(rows_.Sum(m0, count), Sub(columns, rows)));
      n1 = Min(columns, n1);
    }
    Value padded = rows_.Mul(CeilDiv(columns, schedule_.nr), I64(schedule_.nr));
    Value block = Scratch(block_);
    Multiply(x, y, panel_, depth, count, n0, n1, columns, {block, padded}, nullptr);
    rows_.For(I64(0), count, I64(1), {}, [&](Value i, ValueRange) {
      Value offset = rows_.Mul(i, padded);
      follow(i, I64(0), block, offset);
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
    Factor v = FactorOf(second->getOperand(1), Transposes(second, "transpose_b"), false, batch);
    SecondProduct(p, v, n1, count, batch, m0);
  }

  // The rows of the block, multiplied with another matrix; the result is the kernel's.
  void SecondProduct(const Factor& p, const Factor& v, Value depth, Value count, ArrayRef<Value> batch, Value m0) {
    auto yield = cast<sched::YieldOp>(kernel_.getBody().front().back());
    size_t out = 0;
    for (auto [k, value] : llvm::enumerate(yield.getValues()))
      if (products_.IsResult(value)) out = rows_.nest().views.size() - yield.getValues().size() + k;
    const ViewPlan& plan = rows_.nest().views[out];
    Value width = rows_.SizeOf(DimsOf(plan.type).back());
    Value base = rows_.Mul(m0, width);
    for (int64_t d = 0; d < plan.type.getRank() - 2; ++d)
      base = rows_.Sum(base, rows_.Mul(batch[static_cast<size_t>(d)], rows_.StrideOfDim(plan, d)));
    Type element = plan.type.getElementType();
    Value tile = Scratch(tile_);
    Sums sums;
    if (second_sums_) sums = {Scratch(second_sums_), I64(RoundUp(plan.type.getShape().back(), schedule_.nr))};
    Multiply(p, v, second_panel_, depth, count, I64(0), width, width, sums, [&](Value i, Value n, Value left) {
      Value size = Min(I64(schedule_.nr), Sub(width, n));
      rows_.For(I64(0), left, I64(1), {}, [&](Value r, ValueRange) {
        Value from = rows_.Mul(r, I64(Wide(schedule_.nr)));
        Value to = rows_.Sum(rows_.Sum(base, n), rows_.Mul(rows_.Sum(i, r), width));
        Value scale;
        if (products_.scale != nullptr) scale = LoadWide(Scratch(scales_), rows_.Sum(i, r), 1);
        AlongRow(size, [&](Value at, int64_t lanes) {
          Value x = LoadWide(tile, rows_.Sum(from, at), lanes);
          if (scale) x = arith::MulFOp::create(b(), loc(), x, rows_.Splat(scale, lanes));
          tile::StoreOp::create(b(), loc(), rows_.Round(x, element, lanes), rows_.view(out), rows_.Sum(to, at), Value(),
                                TypeAttr::get(element), UnitAttr());
        });
        return SmallVector<Value>();
      });
    });
  }

  // ---- the product itself

  // Where sums are between two pieces of the depth. Without a place there is one piece.
  struct Sums {
    Value view;
    Value width;  // elements of a row
  };

  // A panel of the right factor: `nr` columns from view[base + k * stride] on.
  struct Panel {
    Value view, base, stride;
  };

  // sink(i, n, left): the tile of rows i to i + left and columns from n on is in scratch. Without a sink the sums are
  // the result.
  void Multiply(const Factor& x, const Factor& y, Value panel_scratch, Value depth, Value count, Value n0, Value n1,
                Value columns, Sums sums, llvm::function_ref<void(Value, Value, Value)> sink) {
    const bool copies = x.is_operand && copy_;
    const bool packs_block = packs_block_ && x.is_operand;
    auto piece = [&](Value k0, Value length, Value is_first, Value is_last) {
      Factor left = x;
      if (k0) left.base = rows_.Sum(x.base, rows_.Mul(k0, x.along));
      if (copies) left = CopyRows(left, count, length);
      Factor all = y;
      if (k0) all.base = rows_.Sum(y.base, rows_.Mul(k0, y.along));
      if (packs_block) PackBlock(all, panel_scratch, length, n0, n1);
      rows_.For(n0, n1, I64(schedule_.nr), {}, [&](Value n, ValueRange) {
        Factor right = all;
        right.base = rows_.Sum(all.base, rows_.Mul(n, y.line));
        Value left_columns = Sub(columns, n);
        Panel panel;
        if (packs_block)
          panel = {Scratch(panel_scratch), rows_.Mul(Sub(n, n0), I64(schedule_.depth)), I64(schedule_.nr)};
        else if (schedule_.form != ProductSchedule::Form::dot)
          panel = PackPanel(right, panel_scratch, length, left_columns);
        rows_.For(I64(0), count, I64(schedule_.mr), {}, [&](Value i, ValueRange) {
          Value left_rows = Min(I64(schedule_.mr), Sub(count, i));
          SmallVector<Value> tile;
          Value offset = sums.view ? rows_.Sum(rows_.Mul(i, sums.width), Sub(n, n0)) : Value();
          if (schedule_.form == ProductSchedule::Form::dot) {
            tile = DotTile(left, right, length, i, left_rows, left_columns);
          } else {
            tile = RegisterTile(left, panel, length, i, left_rows, Start(sums, offset, is_first));
          }
          Finish(tile, sums, offset, is_last, static_cast<bool>(sink), [&] { sink(i, n, left_rows); });
          return SmallVector<Value>();
        });
        return SmallVector<Value>();
      });
    };
    if (!sums.view || (x.is_operand && !sums_in_pieces_)) return piece(Value(), depth, Value(), Value());
    const int64_t at_most = x.is_operand ? schedule_.depth : second_depth_;
    Value pieces = arith::MaxSIOp::create(b(), loc(), CeilDiv(depth, at_most), I64(1));
    rows_.For(I64(0), pieces, I64(1), {}, [&](Value p, ValueRange) {
      Value k0 = rows_.Mul(p, I64(at_most));
      piece(k0, Min(I64(at_most), Sub(depth, k0)), Equal(p, I64(0)), Equal(p, Sub(pieces, I64(1))));
      return SmallVector<Value>();
    });
  }

  Value Greater(Value x, Value y) { return arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::sgt, x, y); }
  Value Equal(Value x, Value y) { return arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::eq, x, y); }
  Value LoadWide(Value view, Value at, int64_t lanes) {
    return tile::LoadOp::create(b(), loc(), rows_.TileType(type_, lanes), view, at, Value(), TypeAttr::get(type_),
                                UnitAttr());
  }
  void StoreWide(Value x, Value view, Value at) {
    tile::StoreOp::create(b(), loc(), x, view, at, Value(), TypeAttr::get(type_), UnitAttr());
  }
  Value Zero(int64_t lanes) {
    return rows_.Splat(arith::ConstantOp::create(b(), loc(), b().getFloatAttr(type_, 0.0)), lanes);
  }
  // An element of a factor and those that follow along one of its directions, in the computing dtype.
  Value LoadFactor(const Factor& f, Value at, int64_t lanes, bool is_run, Value stride) {
    if (f.is_operand) return rows_.Load(f.index, at, lanes, is_run ? Value() : stride);
    return LoadWide(f.view, at, lanes);
  }

  // fn(at, lanes) for 0 to n.
  void AlongRow(Value n, llvm::function_ref<void(Value, int64_t)> fn) { rows_.Along(I64(0), n, w_, fn); }

  // Rows of the left factor next to each other, each a run along the sum.
  Factor CopyRows(const Factor& x, Value count, Value length) {
    Factor copy;
    copy.view = Scratch(copy_);
    copy.base = I64(0);
    copy.line = I64(schedule_.depth);
    copy.along = I64(1);
    rows_.For(I64(0), count, I64(1), {}, [&](Value i, ValueRange) {
      Value from = rows_.Sum(x.base, rows_.Mul(i, x.line)), to = rows_.Mul(i, copy.line);
      AlongRow(length, [&](Value k, int64_t lanes) {
        Value at = rows_.Sum(from, x.runs_along ? k : rows_.Mul(k, x.along));
        StoreWide(LoadFactor(x, at, lanes, x.runs_along, x.along), copy.view, rows_.Sum(to, k));
      });
      return SmallVector<Value>();
    });
    return copy;
  }

  // All panels of a block at once, where the right factor has runs along its columns: it is then read run by run.
  void PackBlock(const Factor& y, Value scratch, Value length, Value n0, Value n1) {
    Value view = Scratch(scratch);
    const int64_t nr = schedule_.nr;
    Value whole = rows_.Mul(arith::DivUIOp::create(b(), loc(), Sub(n1, n0), I64(nr)), I64(nr));
    // Four runs at a time, because each panel is in other pages.
    auto runs = [&](int64_t count) {
      return [&, count](Value k, ValueRange) {
        Value from = rows_.Sum(rows_.Sum(y.base, n0), rows_.Mul(k, y.along)), to = rows_.Mul(k, I64(nr));
        rows_.For(I64(0), whole, I64(nr), {}, [&](Value n, ValueRange) {
          Value panel = rows_.Sum(to, rows_.Mul(n, I64(schedule_.depth)));
          for (int64_t r = 0; r < count; ++r) {
            Value run = rows_.Sum(rows_.Sum(from, n), rows_.Mul(I64(r), y.along));
            for (int64_t j = 0; j < nr; j += w_)
              StoreWide(LoadFactor(y, rows_.Sum(run, I64(j)), w_, true, Value()), view,
                        rows_.Sum(panel, I64(r * nr + j)));
          }
          return SmallVector<Value>();
        });
        return SmallVector<Value>();
      };
    };
    Value fours = rows_.Mul(arith::DivUIOp::create(b(), loc(), length, I64(4)), I64(4));
    rows_.For(I64(0), fours, I64(4), {}, runs(4));
    rows_.For(fours, length, I64(1), {}, runs(1));
    Value rest = Sub(Sub(n1, n0), whole);
    auto some = scf::IfOp::create(b(), loc(), Greater(rest, I64(0)), /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b());
    b().setInsertionPointToStart(some.thenBlock());
    Factor last = y;
    last.base = rows_.Sum(y.base, rows_.Sum(n0, whole));
    PackPart(last, {view, rows_.Mul(whole, I64(schedule_.depth)), I64(nr)}, length, rest);
  }

  // The panel at y.base, `columns` of which are there.
  Panel PackPanel(const Factor& y, Value scratch, Value length, Value columns) {
    Panel packed{Scratch(scratch), I64(0), I64(schedule_.nr)};
    auto choose = scf::IfOp::create(b(), loc(), Greater(I64(schedule_.nr), columns), /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b());
    b().setInsertionPointToStart(choose.thenBlock());
    PackPart(y, packed, length, columns);
    b().setInsertionPointToStart(choose.elseBlock());
    Value done = I64(0);
    if (y.runs_along && w_ > 1) {
      done = rows_.Mul(arith::DivUIOp::create(b(), loc(), length, I64(w_)), I64(w_));
      rows_.For(I64(0), done, I64(w_), {}, [&](Value k, ValueRange) {
        for (int64_t j = 0; j < schedule_.nr; j += w_) PackSquare(y, packed, k, j);
        return SmallVector<Value>();
      });
    }
    rows_.For(done, length, I64(1), {}, [&](Value k, ValueRange) {
      for (int64_t j = 0; j < schedule_.nr; j += w_) {
        Value at = rows_.Sum(rows_.Sum(y.base, rows_.Mul(k, y.along)), rows_.Mul(I64(j), y.line));
        StoreWide(LoadFactor(y, at, w_, y.runs_line, y.line), packed.view,
                  rows_.Sum(rows_.Mul(k, packed.stride), I64(j)));
      }
      return SmallVector<Value>();
    });
    return packed;
  }
  // w columns from j on, w elements of each along the sum, transposed in registers.
  void PackSquare(const Factor& y, const Panel& packed, Value k, int64_t j) {
    SmallVector<Value> square;
    for (int64_t c = 0; c < w_; ++c)
      square.push_back(
          LoadFactor(y, rows_.Sum(rows_.Sum(y.base, k), rows_.Mul(I64(j + c), y.line)), w_, true, Value()));
    SmallVector<int32_t> low, high;
    for (int32_t lane = 0; lane < w_ / 2; ++lane) {
      const int32_t w = static_cast<int32_t>(w_);
      low.append({lane, lane + w});
      high.append({lane + w / 2, lane + w + w / 2});
    }
    auto zip = [&](Value a, Value c, ArrayRef<int32_t> lanes) -> Value {
      return tile::ShuffleOp::create(b(), loc(), a.getType(), a, c, b().getDenseI32ArrayAttr(lanes));
    };
    for (int64_t n = w_; n > 1; n /= 2) {
      SmallVector<Value> next;
      for (size_t c = 0; c < square.size() / 2; ++c) {
        next.push_back(zip(square[c], square[c + square.size() / 2], low));
        next.push_back(zip(square[c], square[c + square.size() / 2], high));
      }
      square = next;
    }
    for (int64_t s = 0; s < w_; ++s)
      StoreWide(square[static_cast<size_t>(s)], packed.view,
                rows_.Sum(rows_.Mul(rows_.Sum(k, I64(s)), packed.stride), I64(j)));
  }
  // Fewer columns than a panel has: zeros beyond.
  void PackPart(const Factor& y, const Panel& packed, Value length, Value columns) {
    rows_.For(I64(0), length, I64(1), {}, [&](Value k, ValueRange) {
      Value from = rows_.Sum(y.base, rows_.Mul(k, y.along));
      Value to = rows_.Sum(packed.base, rows_.Mul(k, packed.stride));
      rows_.For(I64(0), columns, I64(1), {}, [&](Value j, ValueRange) {
        StoreWide(LoadFactor(y, rows_.Sum(from, rows_.Mul(j, y.line)), 1, true, Value()), packed.view,
                  rows_.Sum(to, j));
        return SmallVector<Value>();
      });
      rows_.For(columns, I64(schedule_.nr), I64(1), {}, [&](Value j, ValueRange) {
        StoreWide(Zero(1), packed.view, rows_.Sum(to, j));
        return SmallVector<Value>();
      });
      return SmallVector<Value>();
    });
  }

  // mr x nr / w vectors: zeros, or where the last piece left them.
  SmallVector<Value> Start(const Sums& sums, Value offset, Value is_first) {
    const int64_t vectors = schedule_.nr / w_;
    SmallVector<Value> zeros(static_cast<size_t>(schedule_.mr * vectors), Zero(w_));
    if (!is_first) return zeros;
    SmallVector<Type> types(zeros.size(), zeros[0].getType());
    auto choose = scf::IfOp::create(b(), loc(), types, is_first, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b());
    b().setInsertionPointToEnd(choose.thenBlock());
    scf::YieldOp::create(b(), loc(), zeros);
    b().setInsertionPointToEnd(choose.elseBlock());
    SmallVector<Value> loaded;
    for (int64_t r = 0; r < schedule_.mr; ++r)
      for (int64_t v = 0; v < vectors; ++v) loaded.push_back(LoadWide(sums.view, InSums(sums, offset, r, v), w_));
    scf::YieldOp::create(b(), loc(), loaded);
    return SmallVector<Value>(choose.getResults());
  }
  Value InSums(const Sums& sums, Value offset, int64_t r, int64_t v) {
    return rows_.Sum(rows_.Sum(offset, rows_.Mul(I64(r), sums.width)), I64(v * w_));
  }

  SmallVector<Value> RegisterTile(const Factor& x, const Panel& panel, Value length, Value i, Value rows,
                                  ArrayRef<Value> start) {
    const int64_t mr = schedule_.mr, vectors = schedule_.nr / w_;
    SmallVector<Value> line;
    Value last = Sub(rows, I64(1));
    for (int64_t r = 0; r < mr; ++r)
      line.push_back(rows_.Sum(x.base, rows_.Mul(rows_.Sum(i, r == 0 ? I64(0) : Min(I64(r), last)), x.line)));
    // One element of each row of the left factor with a row of the panel. `rows_of_a` has them in all lanes.
    auto step = [&](Value k, llvm::function_ref<Value(int64_t)> a, SmallVector<Value>& sums) {
      Value at = rows_.Sum(panel.base, rows_.Mul(k, panel.stride));
      SmallVector<Value> right;
      for (int64_t v = 0; v < vectors; ++v) right.push_back(LoadWide(panel.view, rows_.Sum(at, I64(v * w_)), w_));
      for (int64_t r = 0; r < mr; ++r) {
        Value left = a(r);
        for (int64_t v = 0; v < vectors; ++v) {
          Value& sum = sums[static_cast<size_t>(r * vectors + v)];
          sum = tile::FmaOp::create(b(), loc(), sum.getType(), left, right[static_cast<size_t>(v)], sum);
        }
      }
    };
    // Several steps at a time: on NEON a vector of each row of the left factor, whose lanes the instruction picks.
    const int64_t unroll = lanes_of_a_ ? w_ : 4;
    Value whole = rows_.Mul(arith::DivUIOp::create(b(), loc(), length, I64(unroll)), I64(unroll));
    SmallVector<Value> sums = rows_.For(I64(0), whole, I64(unroll), start, [&](Value k, ValueRange carried) {
      SmallVector<Value> next(carried), left;
      for (int64_t r = 0; lanes_of_a_ && w_ > 1 && r < mr; ++r)
        left.push_back(LoadWide(x.view, rows_.Sum(line[static_cast<size_t>(r)], k), w_));
      for (int64_t u = 0; u < unroll; ++u) {
        Value at = rows_.Sum(k, I64(u));
        step(
            at,
            [&](int64_t r) -> Value {
              if (!left.empty())
                return tile::LaneOp::create(b(), loc(), rows_.TileType(type_, w_), left[static_cast<size_t>(r)],
                                            b().getI64IntegerAttr(u));
              return rows_.Splat(LoadWide(x.view, rows_.Sum(line[static_cast<size_t>(r)], at), 1), w_);
            },
            next);
      }
      return next;
    });
    return rows_.For(whole, length, I64(1), sums, [&](Value k, ValueRange carried) {
      SmallVector<Value> next(carried);
      step(
          k,
          [&](int64_t r) { return rows_.Splat(LoadWide(x.view, rows_.Sum(line[static_cast<size_t>(r)], k), 1), w_); },
          next);
      return next;
    });
  }

  // The right factor is read once, four of its rows at a time; sums are in scratch, one row for each row of the result.
  void Stream(const Factor& x, const Factor& y, Value depth, Value count, Value n0, Value n1, Value sums, Value width) {
    constexpr int64_t kSteps = 4;
    Value columns = Sub(n1, n0);
    rows_.For(I64(0), I64(schedule_.rows), I64(1), {}, [&](Value i, ValueRange) {
      Value at = rows_.Mul(i, width);
      AlongRow(columns, [&](Value n, int64_t lanes) { StoreWide(Zero(lanes), sums, rows_.Sum(at, n)); });
      return SmallVector<Value>();
    });
    SmallVector<Value> line;
    for (int64_t r = 0; r < schedule_.mr; ++r)
      line.push_back(rows_.Sum(x.base, rows_.Mul(Min(I64(r), Sub(count, I64(1))), x.line)));
    auto steps = [&](int64_t n_steps) {
      return [&, n_steps](Value k, ValueRange) {
        SmallVector<SmallVector<Value>> left;
        for (Value at : line) {
          left.emplace_back();
          for (int64_t s = 0; s < n_steps; ++s)
            left.back().push_back(LoadWide(x.view, rows_.Sum(at, rows_.Sum(k, I64(s))), 1));
        }
        SmallVector<Value> from;
        for (int64_t s = 0; s < n_steps; ++s)
          from.push_back(rows_.Sum(rows_.Sum(y.base, n0), rows_.Mul(rows_.Sum(k, I64(s)), y.along)));
        AlongRow(columns, [&](Value n, int64_t lanes) {
          SmallVector<Value> right;
          for (Value at : from) right.push_back(LoadFactor(y, rows_.Sum(at, n), lanes, true, Value()));
          for (int64_t r = 0; r < schedule_.mr; ++r) {
            Value at = rows_.Sum(n, rows_.Mul(I64(r), width));
            Value sum = LoadWide(sums, at, lanes);
            for (int64_t s = 0; s < n_steps; ++s) {
              Value a = rows_.Splat(left[static_cast<size_t>(r)][static_cast<size_t>(s)], lanes);
              sum = tile::FmaOp::create(b(), loc(), sum.getType(), a, right[static_cast<size_t>(s)], sum);
            }
            StoreWide(sum, sums, at);
          }
        });
        return SmallVector<Value>();
      };
    };
    Value whole = rows_.Mul(arith::DivUIOp::create(b(), loc(), depth, I64(kSteps)), I64(kSteps));
    rows_.For(I64(0), whole, I64(kSteps), {}, steps(kSteps));
    rows_.For(whole, depth, I64(1), {}, steps(1));
  }

  // mr x nr scalars: vectors run along the sum.
  SmallVector<Value> DotTile(const Factor& x, const Factor& y, Value length, Value i, Value rows, Value columns) {
    const int64_t mr = schedule_.mr, nr = schedule_.nr;
    SmallVector<Value> left, right;
    for (int64_t r = 0; r < mr; ++r)
      left.push_back(rows_.Sum(x.base, rows_.Mul(rows_.Sum(i, Min(I64(r), Sub(rows, I64(1)))), x.line)));
    for (int64_t c = 0; c < nr; ++c)
      right.push_back(rows_.Sum(y.base, rows_.Mul(Min(I64(c), Sub(columns, I64(1))), y.line)));
    auto body = [&](int64_t lanes) {
      return [&, lanes](Value k, ValueRange carried) {
        SmallVector<Value> next(carried), a, c;
        for (Value at : left) a.push_back(LoadWide(x.view, rows_.Sum(at, k), lanes));
        for (Value at : right) c.push_back(LoadFactor(y, rows_.Sum(at, k), lanes, true, Value()));
        for (size_t r = 0; r < a.size(); ++r)
          for (size_t j = 0; j < c.size(); ++j) {
            Value& sum = next[r * c.size() + j];
            sum = tile::FmaOp::create(b(), loc(), sum.getType(), a[r], c[j], sum);
          }
        return next;
      };
    };
    Value whole = rows_.Mul(arith::DivUIOp::create(b(), loc(), length, I64(w_)), I64(w_));
    SmallVector<Value> zeros(static_cast<size_t>(mr * nr), Zero(w_));
    SmallVector<Value> sums = rows_.For(I64(0), whole, I64(w_), zeros, body(w_));
    const std::string add = type_.isF64() ? "add_f64" : "add_f32";
    for (Value& sum : sums)
      if (w_ > 1) sum = tile::ReduceOp::create(b(), loc(), type_, sum, b().getStringAttr(add));
    return w_ > 1 ? rows_.For(whole, length, I64(1), sums, body(1)) : sums;
  }

  // The tile goes to the sums of the next piece, or is done.
  void Finish(ArrayRef<Value> tile, const Sums& sums, Value offset, Value is_last, bool has_sink,
              llvm::function_ref<void()> sink) {
    auto keep = [&] {
      for (int64_t r = 0; r < schedule_.mr; ++r)
        for (int64_t v = 0; v < schedule_.nr / w_; ++v)
          StoreWide(tile[static_cast<size_t>(r * (schedule_.nr / w_) + v)], sums.view, InSums(sums, offset, r, v));
    };
    auto done = [&] {
      Value view = Scratch(tile_);
      const int64_t in_row = static_cast<int64_t>(tile.size()) / schedule_.mr, step = schedule_.nr / in_row;
      for (int64_t r = 0; r < schedule_.mr; ++r)
        for (int64_t v = 0; v < in_row; ++v)
          StoreWide(tile[static_cast<size_t>(r * in_row + v)], view, I64(r * Wide(schedule_.nr) + v * step));
      sink();
    };
    if (!has_sink) return keep();
    if (!is_last) return done();
    auto choose = scf::IfOp::create(b(), loc(), is_last, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b());
    b().setInsertionPointToStart(choose.thenBlock());
    done();
    b().setInsertionPointToStart(choose.elseBlock());
    keep();
  }

  sched::KernelOp kernel_;
  const Products products_;
  const ProductSchedule schedule_;
  RowLowering rows_;
  const bool lanes_of_a_;
  Type type_;
  int64_t bytes_ = 4, w_ = 4;
  size_t rank_ = 0;
  int64_t fixed_ = 0;
  int64_t second_depth_ = 0;
  bool sums_in_pieces_ = false, packs_block_ = false;
  Value panel_, copy_, tile_, partial_, block_, second_panel_, second_sums_, scales_;  // offsets in scratch, in bytes
};

}  // namespace

void LowerProduct(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, OpBuilder& at) {
  // The verifier has seen to it that there is a schedule.
  ProductLowering(kernel, std::move(nest), options, *ProductSchedule::FromAttr(*kernel.getProduct())).Lower(at);
}

}  // namespace tessera::compiler
