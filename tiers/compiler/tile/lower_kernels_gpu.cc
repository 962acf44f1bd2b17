// tsr-lower-kernels-gpu: each tsr_sched.kernel becomes a tsr_tile.kernel for a CUDA device.
//
// A row is the innermost loop of the nest (tile/loop_nest.h). Teams of threads work on rows, as tile/gpu_geometry.h
// says; blocks go over the rows in steps of the grid.
//
//   element by element    A row is cut into pieces of as many elements as a team has in flight. Each thread loads its
//                         vectors of all operands, then computes, then stores: loads do not wait for one another, or
//                         for stores that might be to the same place. (The core relies on that: a result may be where
//                         an operand is.) A scalar loop does what is left over, or everything where an operand's
//                         address or strides are no multiple of a vector. Where there is much work and each element
//                         takes more than a little arithmetic, a block has a column of pieces: a few rows, for which
//                         it reads once what rows share. Blocks stay where elements are narrow, and so are many for
//                         their bytes: each goes down the column a few rows at a time, and fetches the next rows into
//                         shared memory while it computes. Nothing but arithmetic is left for most elements.
//   rows with reductions  Every element is read once, and kept in registers through all passes over its row. (A value
//                         that a later pass needs is kept as it was computed: nothing is computed twice.) Where a row
//                         has fewer elements than there is room for, the last ones are loaded again and count for
//                         nothing. What only results need is on its way during the last reduction, and then always
//                         for one more vector than the one at hand: nothing is loaded right before its use.
//                         Long rows whose elements take little arithmetic are kept in shared memory, each thread's
//                         elements by itself, and computed from there in each pass: a thread has room for more of
//                         them, so that there are two blocks where registers would hold only one. What finds no room
//                         there is in registers after all. Where blocks of the device reach each other's shared memory,
//                         a cluster of them has the row: a part for each, small enough for several blocks of a
//                         multiprocessor. They send each other what each warp has at a reduction. Where results need
//                         operands that all rows share, such as weights, two rows go together: these come once.
//                         Rows that are longer still, or not aligned, are read once for each pass, in a loop.
//
// A reduction is first one of each thread, then of its team (tsr_tile.team_reduce). Rows in registers are summed in
// f32: at most 64 elements by a thread, in vectors of 4 or 8 lanes, then in a tree of at most 13 levels. The error is
// below 29 units in the last place of the sum of magnitudes, and in practice below that of the host's loops, which are
// longer. Loops sum in f32 for at most eight steps and add that to an f64, as on the host.
//
// Where all results are narrow floats, functions such as exp are those of target/math_narrow.h.
//
// Kernels with a matrix product are those of tile/lower_product_gpu.cc and tile/lower_few_rows_gpu.cc, with sums along
// columns those of tile/lower_columns_gpu.cc, and with operands that lie the other way round those of
// tile/lower_transposed_gpu.cc. Kernels that no geometry suits are left to tier 1: their steps are in no kernel.
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler/sched/product.h"
#include "tiers/compiler/tile/gpu_geometry.h"
#include "tiers/compiler/tile/gpu_rows.h"
#include "tiers/compiler/tile/lower_attention_gpu.h"
#include "tiers/compiler/tile/lower_columns_gpu.h"
#include "tiers/compiler/tile/lower_few_rows_gpu.h"
#include "tiers/compiler/tile/lower_product_gpu.h"
#include "tiers/compiler/tile/lower_split_gpu.h"
#include "tiers/compiler/tile/lower_transposed_gpu.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr int64_t kSlotBytes = 256;      // of tsr_tile.team_reduce
constexpr int64_t kKeptElements = 32;    // for which a thread has registers: its row, and operands that stores need
constexpr int64_t kSharedElements = 16;  // for which there are, where blocks stay: operands that all rows share
constexpr int64_t kStepsOfF32 = 8;       // that a loop adds before it goes on in f64

class GpuLowering : public GpuRows {
 public:
  using GpuRows::GpuRows;

  void Run(OpBuilder& at) {
    const std::optional<GpuGeometry> geometry = ChooseGeometry(Facts());
    if (!geometry) return;
    g_ = *geometry;
    // Where rows begin that an index names takes registers.
    if (HasTables() && IsReduction()) g_.blocks = std::max<int64_t>(1, g_.blocks * 2 / 3);
    // So does where several parts begin, of sizes that are not known.
    if (llvm::count_if(nest_.views, [](const ViewPlan& v) { return v.update >= 0; }) > 1 && exact_row_ < 0)
      g_.blocks = std::max<int64_t>(1, g_.blocks * 3 / 4);
    Begin(at);
    team_thread_ = Place("thread");
    n_ = inner_ >= 0 ? sizes_.back() : I64(1);
    if (g_.rows > 1) {
      block_row_ = arith::DivUIOp::create(b_, loc_, team_thread_, I64(g_.team));
      team_thread_ = arith::RemUIOp::create(b_, loc_, team_thread_, I64(g_.team));
    }
    if (g_.cluster > 1) team_thread_ = Sum(Mul(Place("rank"), I64(g_.team)), team_thread_);
    is_aligned_ = AreAligned(g_.lanes, exact_row_ < 0 && IsReduction() ? n_ : Value());
    if (g_.lanes > 1 && exact_row_ < 0 && !IsReduction())
      is_aligned_ = And(is_aligned_, Compare(arith::CmpIPredicate::uge, n_, I64(g_.lanes)));
    if (IsReduction()) {
      Rows();
    } else if (g_.fetches || g_.at_once > 1) {
      Columns();
    } else {
      Elements();
    }
  }

 private:
  // The rows of the block's group of rows: offsets of all views; is there a row for this thread's team? `number`: of
  // those that it has at once, one after the other, where rows are reduced.
  Value BeginRow(Value group, Value num_rows, int64_t number = 0) {
    Value row = group, is_row;
    const int64_t of_group = IsReduction() ? g_.rows * g_.at_once : g_.rows;
    if (g_.rows > 1) {
      row = Sum(Mul(group, I64(g_.rows)), block_row_);
    } else if (of_group > 1) {
      row = Sum(Mul(group, I64(of_group)), I64(number));
    }
    if (of_group > 1 && (exact_rows_ < 0 || exact_rows_ % of_group != 0)) {
      is_row = Compare(arith::CmpIPredicate::ult, row, num_rows);
      // Threads without a row go through the motions with the last one: others of their warp need them.
      row = Min(row, Minus(num_rows, I64(1)));
    }
    SetOffsets(Indices(row, Outer()));
    return is_row;
  }

  // Results that are one number for a row: by the first thread of the team.
  void StoreRowNumbers(Value is_row) {
    SmallVector<size_t> outputs;
    for (size_t k = 0; k < Yield().getValues().size(); ++k)
      if (!StoredAlong(k)) outputs.push_back(k);
    if (outputs.empty()) return;
    SmallVector<Value> numbers;
    for (size_t k : outputs) numbers.push_back(RowValue(Yield().getValues()[static_cast<unsigned>(k)]));
    If(And(is_row, Compare(arith::CmpIPredicate::eq, team_thread_, I64(0))), [&] {
      for (auto [k, number] : llvm::zip(outputs, numbers))
        StoreTile(number, num_inputs_ + k, offsets_[num_inputs_ + k], /*aligned=*/false);
    });
  }

  SmallVector<size_t> StoresOf(int pass) {
    SmallVector<size_t> stores;
    for (auto [k, v] : llvm::enumerate(Yield().getValues()))
      if (StoredAlong(k) && pass_.lookup(v) == pass) stores.push_back(k);
    return stores;
  }
  SmallVector<graph::ReduceOp> ReductionsOf(int pass) {
    SmallVector<graph::ReduceOp> found;
    for (auto& [reduce, p] : reductions_)
      if (p == pass) found.push_back(reduce);
    return found;
  }

  // Items of work: a block goes on by the number of blocks, or, where there is one for each item, has no loop. Without
  // one a thread has more registers.
  void Blocks(Value count, bool is_one_each, llvm::function_ref<void(Value)> body) {
    Value block = Place("block");
    if (g_.cluster > 1) block = Div(block, I64(g_.cluster));
    if (is_one_each) return If(Compare(arith::CmpIPredicate::ult, block, count), [&] { body(block); });
    For(block, count, Place("blocks"), {}, [&](Value item, ValueRange) {
      body(item);
      return SmallVector<Value>();
    });
  }

  // The same where an item is one of `count` pieces of a group. What it is follows from the item before, so that only
  // numbers of blocks are divided, which have 32 bits: an assembler takes a fourth of its time for a short kernel for a
  // division of 64.
  void BlocksOfPieces(Value groups, Value count, bool is_one_each, llvm::function_ref<void(Value, Value)> body) {
    auto narrow = [&](Value v) { return arith::TruncIOp::create(b_, loc_, b_.getI32Type(), v).getResult(); };
    // (Rows may have no elements, and then no pieces.)
    Value divisor = narrow(Min(arith::MaxUIOp::create(b_, loc_, count, I64(1)), I64(UINT32_MAX)));
    auto split = [&](Value blocks) -> std::pair<Value, Value> {
      Value whole = arith::DivUIOp::create(b_, loc_, narrow(blocks), divisor);
      whole = arith::ExtUIOp::create(b_, loc_, b_.getI64Type(), whole);
      return {whole, Minus(blocks, Mul(whole, count))};
    };
    Value block = Place("block"), blocks = Place("blocks"), all = Mul(groups, count);
    const auto [first, piece] = split(block);
    if (is_one_each)
      return If(Compare(arith::CmpIPredicate::ult, block, all), [&, group = first, at = piece] { body(group, at); });
    const auto [groups_on, pieces_on] = split(blocks);
    For(block, all, blocks, {first, piece}, [&, groups_on = groups_on, pieces_on = pieces_on](Value, ValueRange at) {
      Value group = at[0], own = at[1];
      body(group, own);
      Value next = Sum(own, pieces_on), is_over = Compare(arith::CmpIPredicate::uge, next, count);
      Value rest = arith::SelectOp::create(b_, loc_, is_over, Minus(next, count), next);
      Value more = arith::SelectOp::create(b_, loc_, is_over, I64(1), I64(0));
      return SmallVector<Value>{Sum(Sum(group, groups_on), more), rest};
    });
  }

  void Finish(ArrayRef<int64_t> tasks, ArrayRef<int64_t> unit, int64_t per_block) {
    End(tasks, {}, unit, {}, num_slots_ * kSlotBytes);
    SmallVector<int64_t> team = {g_.Threads(), std::max<int64_t>(1, per_block), g_.blocks, fetched_bytes_};
    if (g_.in_shared) team.insert(team.end() - 1, 0);
    if (g_.cluster > 1) team.push_back(g_.cluster);
    tile_.setTeam(team);
  }

  // ---- element by element

  struct Pieces {
    Value num_rows, whole;  // `whole`: elements of a row that vectors reach
    Value count;            // of a row; null: one
  };
  Pieces CutRows() {
    Pieces p;
    p.num_rows = I64(1);
    for (size_t l = 0; l < Outer(); ++l) p.num_rows = Mul(p.num_rows, sizes_[l]);
    p.whole = Minus(n_, arith::RemUIOp::create(b_, loc_, n_, I64(g_.lanes)));
    if (!(exact_row_ >= 0 && exact_row_ <= g_.Capacity())) p.count = Ceil(n_, g_.Capacity());
    return p;
  }
  void FinishElements() {
    SmallVector<int64_t> tasks;
    for (size_t l = 0; l < nest_.loops.size(); ++l) AppendProduct(tasks, l);
    const int64_t rows = g_.rows * (g_.fetches ? 1 : g_.at_once * g_.steps);
    Finish(tasks, {}, rows * (likely_row_ >= 0 ? std::min(likely_row_, g_.Capacity()) : g_.Capacity()));
  }

  void Elements() {
    const Pieces p = CutRows();
    Value groups = Ceil(p.num_rows, g_.rows);
    if (p.count && Outer() > 0) {
      BlocksOfPieces(groups, p.count, /*is_one_each=*/false,
                     [&](Value group, Value piece) { OnePiece(p, group, piece); });
    } else {
      Blocks(p.count ? p.count : groups, /*is_one_each=*/false, [&](Value item) {
        if (p.count)
          OnePiece(p, I64(0), item);
        else
          OnePiece(p, item, I64(0));
      });
    }
    FinishElements();
  }

  // The same by blocks that have as many rows of a column of pieces as are in flight, and keep what all rows share in
  // registers. Those that stay go down the column. (Where all is one row they go along the pieces.)
  void Columns() {
    const Pieces p = CutRows();
    Value pieces = p.count ? p.count : I64(1), groups = Ceil(p.num_rows, g_.rows);
    if (g_.fetches) {
      PlaceFetched();
      Value block = Place("block"), blocks = Place("blocks");
      If(is_aligned_, [&] {
        if (Outer() == 0) return Column(p, Value(), block, pieces, blocks);
        Value columns = Min(pieces, blocks);
        Value first = Div(block, columns), step = Div(blocks, columns);
        // Blocks beyond the last whole column have nothing to do.
        first = arith::SelectOp::create(b_, loc_, Compare(arith::CmpIPredicate::ult, first, step), first, groups);
        For(Rem(block, columns), pieces, columns, {}, [&](Value piece, ValueRange) {
          Column(p, piece, first, groups, step);
          return SmallVector<Value>();
        });
      });
    } else {
      If(is_aligned_, [&] {
        // The core counts elements, in blocks of whole pieces.
        const bool is_even = exact_row_ <= g_.Capacity() || (exact_row_ % g_.Capacity() == 0 && exact_rows_ >= 0 &&
                                                             exact_rows_ % (g_.rows * g_.at_once) == 0);
        const auto stages = [&](Value from, Value piece) {
          const SmallVector<Chunk> kept = KeptChunks(p, piece);
          SmallVector<Stage> loaded;
          for (int64_t r = 0; r < g_.at_once; ++r) loaded.push_back(LoadStage(p, piece, from, groups, r, kept));
          StoreStages(loaded);
        };
        const bool is_one_each = g_.steps == 1 && exact_row_ >= 0 && is_even;
        Value froms = Ceil(groups, g_.at_once);
        if (p.count)
          BlocksOfPieces(froms, p.count, is_one_each, stages);
        else
          Blocks(froms, is_one_each, [&](Value item) { stages(item, I64(0)); });
      });
    }
    // What vectors do not reach.
    Value is_left =
        exact_row_ >= 0 && exact_row_ % g_.lanes == 0 ? Value() : Compare(arith::CmpIPredicate::ne, p.whole, n_);
    auto scalars = [&] {
      BlocksOfPieces(groups, pieces, /*is_one_each=*/false,
                     [&](Value group, Value piece) { Scalars(p, group, piece); });
    };
    if (is_aligned_) {
      Value is_odd = arith::XOrIOp::create(b_, loc_, is_aligned_, arith::ConstantIntOp::create(b_, loc_, 1, 1));
      If(is_left ? arith::OrIOp::create(b_, loc_, is_odd, is_left).getResult() : is_odd, scalars);
    } else if (is_left) {
      If(is_left, scalars);
    }
    FinishElements();
  }

  // One of the rows in flight: where its views begin, and what is known of it.
  struct Stage {
    SmallVector<Value> indices, offsets;
    llvm::DenseMap<Value, Value> values;
    Value is_row;
    SmallVector<Chunk> chunks;
  };
  // Number r of those that begin at `from`, which counts as many as are in flight; there are `count` of them in all:
  // groups of rows, or pieces where `piece` is null.
  Stage PlaceStage(const Pieces& p, Value piece, Value from, Value count, int64_t r) {
    const int64_t exact = !piece                                          ? exact_row_
                          : exact_rows_ < 0 || exact_rows_ % g_.rows != 0 ? -1
                                                                          : exact_rows_ / g_.rows;
    const bool is_even = exact >= 0 && exact % (g_.at_once * (piece ? 1 : g_.Capacity())) == 0;
    Value index = Sum(Mul(from, I64(g_.at_once)), I64(r)), is_there;
    if (r > 0 && !is_even) {
      is_there = Compare(arith::CmpIPredicate::ult, index, count);
      index = Min(index, Minus(count, I64(1)));
    }
    Stage stage;
    stage.is_row = And(is_there, BeginRow(piece ? index : I64(0), p.num_rows));
    stage.chunks = PieceChunks(Mul(piece ? piece : index, I64(g_.Capacity())), p.whole);
    stage.indices = indices_, stage.offsets = offsets_;
    return stage;
  }
  Stage LoadStage(const Pieces& p, Value piece, Value from, Value count, int64_t r, ArrayRef<Chunk> kept) {
    ForgetRow();
    Stage stage = PlaceStage(p, piece, from, count, r);
    for (Value v : Yield().getValues()) NeedRows(v, 0);
    for (auto [chunk, had] : llvm::zip(stage.chunks, kept)) chunk.tiles = had.tiles;
    if (g_.fetches) LoadFetched(stage.chunks, r);
    for (Chunk& chunk : stage.chunks)
      for (Value v : Yield().getValues()) LoadFor(v, chunk);
    stage.values = values_;
    return stage;
  }
  void StoreStages(MutableArrayRef<Stage> stages) {
    for (Stage& stage : stages) {
      indices_ = stage.indices, offsets_ = stage.offsets, values_ = stage.values;
      for (Chunk& chunk : stage.chunks)
        for (size_t k : StoresOf(0)) {
          Value tile = Tile(Yield().getValues()[static_cast<unsigned>(k)], chunk);
          const size_t view = num_inputs_ + k;
          StoreWhere(tile, view, Sum(offsets_[view], chunk.at), chunk, And(stage.is_row, chunk.is_valid));
        }
    }
  }
  // Groups of rows, or pieces where `piece` is null, from `first` on, at_once of them at a time.
  void Column(const Pieces& p, Value piece, Value first, Value count, Value step) {
    auto fetch = [&](Value from) {
      for (int64_t r = 0; r < g_.at_once; ++r) FetchChunks(PlaceStage(p, piece, from, count, r).chunks, r);
    };
    SmallVector<Chunk> kept;
    if (piece) kept = KeptChunks(p, piece);
    Value last = Ceil(count, g_.at_once);
    If(Compare(arith::CmpIPredicate::ult, first, last), [&] { fetch(first); });
    For(first, last, step, {}, [&](Value from, ValueRange) {
      SmallVector<Stage> stages;
      tile::AwaitOp::create(b_, loc_, IntegerAttr());
      for (int64_t r = 0; r < g_.at_once; ++r) stages.push_back(LoadStage(p, piece, from, count, r, kept));
      Value next = Sum(from, step);
      If(Compare(arith::CmpIPredicate::ult, next, last), [&] { fetch(next); });
      StoreStages(stages);
      return SmallVector<Value>();
    });
  }
  // Operands that all rows share, of a piece: as many as there are registers for.
  SmallVector<Chunk> KeptChunks(const Pieces& p, Value piece) {
    SmallVector<Chunk> chunks = PieceChunks(Mul(piece, I64(g_.Capacity())), p.whole);
    SetOffsets(SmallVector<Value>(Outer()));
    int64_t room = kSharedElements;
    for (size_t k = 0; k < num_inputs_; ++k) {
      const auto outer = ArrayRef(nest_.views[k].loops).drop_back();
      if (!MovesInside(k) || !IsRun(k)) continue;
      if (llvm::any_of(outer, [](const Stride& s) { return s.kind != Stride::Kind::zero; })) continue;
      if ((room -= g_.chunks * g_.lanes) < 0) break;
      for (Chunk& chunk : chunks) Tile(Argument(k), chunk);
    }
    return chunks;
  }

  void OnePiece(const Pieces& p, Value group, Value piece) {
    ForgetRow();
    Value is_row = BeginRow(group, p.num_rows);
    for (Value v : Yield().getValues()) NeedRows(v, 0);
    if (g_.lanes > 1) If(is_aligned_, [&] { Vectors(Mul(piece, I64(g_.Capacity())), p.whole, is_row); });
    if (!(g_.lanes > 1 && !is_aligned_ && exact_row_ >= 0 && exact_row_ % g_.lanes == 0)) Rest(p, piece, is_row);
    StoreRowNumbers(is_row);
  }
  void Scalars(const Pieces& p, Value group, Value piece) {
    ForgetRow();
    Value is_row = BeginRow(group, p.num_rows);
    for (Value v : Yield().getValues()) NeedRows(v, 0);
    Rest(p, piece, is_row);
  }
  // Of an aligned row what is behind the last vector, of others all.
  void Rest(const Pieces& p, Value piece, Value is_row) {
    Value from = Mul(piece, I64(g_.Capacity()));
    Value until = Min(Sum(from, I64(g_.Capacity())), n_);
    if (g_.lanes > 1) {
      Value rest = arith::MaxUIOp::create(b_, loc_, from, p.whole);
      from = is_aligned_ ? arith::SelectOp::create(b_, loc_, is_aligned_, rest, from).getResult() : rest;
    }
    For(Sum(from, team_thread_), until, I64(g_.team), {}, [&](Value i, ValueRange) {
      Chunk one{i, Value(), 1, false};
      for (Value v : Yield().getValues()) LoadFor(v, one);
      for (size_t k : StoresOf(0)) Store(k, one, is_row);
      return SmallVector<Value>();
    });
  }

  SmallVector<Chunk> PieceChunks(Value from, Value whole) {
    SmallVector<Chunk> chunks;
    const bool is_full = exact_row_ >= 0 && exact_row_ % g_.Capacity() == 0;
    for (int64_t c = 0; c < g_.chunks; ++c) {
      Value at = Sum(Sum(from, Mul(team_thread_, I64(g_.lanes))), I64(c * g_.team * g_.lanes));
      Value is_valid = is_full ? Value() : Compare(arith::CmpIPredicate::ult, at, whole);
      if (!is_full) at = Min(at, Minus(whole, I64(g_.lanes)));
      chunks.push_back(Chunk{at, is_valid, g_.lanes, true});
    }
    return chunks;
  }
  void Vectors(Value from, Value whole, Value is_row) {
    SmallVector<Chunk> chunks = PieceChunks(from, whole);
    for (Chunk& chunk : chunks)
      for (Value v : Yield().getValues()) LoadFor(v, chunk);
    for (Chunk& chunk : chunks)
      for (size_t k : StoresOf(0)) Store(k, chunk, is_row);
  }

  // ---- rows

  void Rows() {
    SmallVector<int64_t> tasks, unit;
    for (size_t l = 0; l < Outer(); ++l) AppendProduct(tasks, l);
    if (!nest_.loops.empty()) AppendProduct(unit, Outer());
    Value num_rows = end_;
    Value is_usual = is_aligned_;
    if (g_.keeps_rows && exact_row_ < 0)
      is_usual = And(is_usual, Compare(arith::CmpIPredicate::ule, n_, I64(g_.Capacity())));
    if (g_.in_shared) PlaceFetched();
    if (g_.cluster > 1) {
      sent_ = fetched_bytes_;
      fetched_bytes_ += g_.SentBytes(static_cast<int64_t>(reductions_.size()));
    }
    // (Where a row may end anywhere, the loop makes for fewer registers.)
    const bool is_one_each = exact_row_ >= 0;
    const int64_t of_group = g_.rows * g_.at_once;
    Blocks(Ceil(num_rows, of_group), is_one_each, [&](Value group) {
      SmallVector<Stage> rows(static_cast<size_t>(g_.at_once));
      for (auto [r, row] : llvm::enumerate(rows)) {
        row.is_row = BeginRow(group, num_rows, static_cast<int64_t>(r));
        row.indices = indices_, row.offsets = offsets_;
      }
      auto scalars = [&] { Loops(1, rows); };
      // Longer rows than were seen share the scalar loop with those that are not aligned: two loops are worth their
      // compile time only where they are the usual case.
      auto usual = [&] { g_.keeps_rows ? KeptRows(rows) : Loops(g_.lanes, rows); };
      is_usual ? IfElse(is_usual, usual, scalars) : usual();
      // A slot that is used once in each row is not to be used again before everybody has read it.
      if (!is_one_each && g_.team > 32 && num_slots_ == 1) tile::BarrierOp::create(b_, loc_);
    });
    Finish(tasks, unit, of_group);
  }

  // Does something with one of several rows.
  template <typename Fn>
  void With(Stage& row, Fn fn) {
    indices_ = row.indices, offsets_ = row.offsets;
    values_ = std::move(row.values);
    fn();
    row.values = std::move(values_);
  }

  // The same scalar of some rows, in slots from `slot` on.
  SmallVector<Value> TeamReduce(const Accumulator& a, ArrayRef<Value> all, int64_t& slot) {
    const StringAttr function = b_.getStringAttr(CombinerOf(a));
    const IntegerAttr threads = b_.getI64IntegerAttr(g_.team);
    const int64_t from = std::exchange(slot, slot + static_cast<int64_t>(all.size()));
    if (g_.cluster > 1) {
      auto op = tile::ClusterReduceOp::create(b_, loc_, TypeRange(ValueRange(all)), function, all, threads,
                                              b_.getI64IntegerAttr(g_.cluster), I64(sent_ + from * g_.OfRow() / 4),
                                              SignalOf(from));
      return SmallVector<Value>(op.getReduced());
    }
    if (g_.team == 1) return SmallVector<Value>(all);
    if (g_.team > 32) num_slots_ = std::max(num_slots_, slot);
    SmallVector<Value> made;
    for (auto [k, x] : llvm::enumerate(all))
      made.push_back(tile::TeamReduceOp::create(b_, loc_, x.getType(), function, x, threads, scratch_,
                                                b_.getI64IntegerAttr(from + static_cast<int64_t>(k))));
    return made;
  }
  // Blocks of a cluster send each other results of warps, to slots behind the rows; a signal of each reduction follows.
  Value SignalOf(int64_t slot) {
    return I64(sent_ + static_cast<int64_t>(reductions_.size()) * g_.at_once * g_.OfRow() / 4 + slot * 8);
  }
  // Before the first reduction signals know what will come, for so many rows at once, and all blocks are there.
  void MakeSignals(int64_t together, bool widens) {
    if (g_.cluster < 2) return;
    If(Compare(arith::CmpIPredicate::eq, Place("thread"), I64(0)), [&] {
      int64_t slot = 0;
      for (int64_t r = 0; r < g_.at_once; r += together)
        for (int pass = 0; pass < num_passes_; ++pass)
          for (graph::ReduceOp reduce : ReductionsOf(pass)) {
            const int64_t bytes = AccumulatorOf(reduce, widens).type.getIntOrFloatBitWidth() == 64 ? 8 : 4;
            Value signal = SignalOf(std::exchange(slot, slot + together));
            tile::SignalInitOp::create(b_, loc_, signal, b_.getI64IntegerAttr(1));
            tile::SignalExpectOp::create(b_, loc_, signal, b_.getI64IntegerAttr(together * g_.OfRow() / 32 * bytes));
          }
    });
  }
  void MeetCluster() {
    if (g_.cluster > 1) tile::ClusterBarrierOp::create(b_, loc_, b_.getUnitAttr());
  }
  Value Lanes(const Accumulator& a, Value x) {
    auto vector = dyn_cast<VectorType>(x.getType());
    if (!vector) return x;
    return tile::ReduceOp::create(b_, loc_, vector.getElementType(), x, b_.getStringAttr(CombinerOf(a)));
  }

  SmallVector<Chunk> RowChunks() {
    SmallVector<Chunk> chunks;
    for (int64_t c = 0; c < g_.chunks; ++c) {
      Value at = Sum(Mul(team_thread_, I64(g_.lanes)), I64(c * g_.OfRow() * g_.lanes));
      Value is_valid;
      if (exact_row_ < 0 || (c + 1) * g_.OfRow() * g_.lanes > exact_row_) {
        is_valid = Compare(arith::CmpIPredicate::ult, at, n_);
        at = Min(at, Minus(n_, I64(g_.lanes)));
      }
      chunks.push_back(Chunk{at, is_valid, g_.lanes, g_.lanes > 1});
    }
    return chunks;
  }

  // ---- what is fetched into shared memory

  // A slot for each vector of the operands that reductions need, or, without any, of those that are read once.
  void PlaceFetched() {
    llvm::SmallPtrSet<Value, 8> early;
    for (auto& [reduce, pass] : reductions_) CollectArguments(reduce.getX(), early);
    for (size_t k = 0; k < num_inputs_; ++k) {
      const int64_t bytes = BytesOf(nest_.views[k].type.getElementType());
      if (!MovesInside(k) || !IsRun(k) || g_.lanes * bytes % 16 != 0) continue;
      if (IsReduction() ? !early.contains(Argument(k)) : !IsWhole(k)) continue;
      fetched_.push_back({k, fetched_bytes_});
      fetched_bytes_ += g_.at_once * g_.rows * g_.team * (g_.chunks - g_.in_registers) * g_.lanes * bytes;
    }
  }
  Value SlotOf(const std::pair<size_t, int64_t>& view, int64_t chunk) {
    const int64_t bytes = g_.lanes * BytesOf(nest_.views[view.first].type.getElementType());
    return Sum(Mul(Place("thread"), I64(bytes)), I64(view.second + chunk * g_.Threads() * bytes));
  }
  // `row`: of those that are in flight at once.
  void FetchChunks(ArrayRef<Chunk> chunks, int64_t row = 0) {
    for (auto [c, chunk] : llvm::enumerate(chunks.drop_front(static_cast<size_t>(g_.in_registers))))
      for (const auto& view : fetched_)
        tile::FetchOp::create(b_, loc_, view_args_[view.first], Sum(offsets_[view.first], chunk.at),
                              SlotOf(view, row * g_.chunks + static_cast<int64_t>(c)), Value(),
                              b_.getI64IntegerAttr(g_.lanes),
                              TypeAttr::get(nest_.views[view.first].type.getElementType()));
  }
  void LoadFetched(MutableArrayRef<Chunk> chunks, int64_t row = 0) {
    for (auto [c, chunk] : llvm::enumerate(chunks)) LoadFetched(chunk, row * g_.chunks + static_cast<int64_t>(c));
  }
  void LoadFetched(Chunk& chunk, int64_t number) {
    for (const auto& view : fetched_) {
      Type element = nest_.views[view.first].type.getElementType();
      chunk.tiles[Argument(view.first)] =
          tile::FetchedOp::create(b_, loc_, TileType(ComputeType(element), chunk.lanes), SlotOf(view, number), Value(),
                                  UnitAttr(), TypeAttr::get(element));
    }
  }

  // What later code computes from the chunk begins with what lies in shared memory.
  void TakeFetched(Chunk& chunk, size_t index, size_t row) {
    int64_t number = static_cast<int64_t>(index) - g_.in_registers;
    if (!g_.in_shared || number < 0) return;
    number += static_cast<int64_t>(row) * g_.chunks;
    llvm::DenseMap<Value, Value> operands;
    for (auto& [v, tile] : chunk.tiles)
      if (isa<BlockArgument>(v)) operands[v] = tile;
    chunk.tiles = std::move(operands);
    LoadFetched(chunk, number);
  }

  void KeptRows(MutableArrayRef<Stage> rows) {
    const auto in_registers = static_cast<size_t>(g_.in_shared ? g_.in_registers : g_.chunks);
    MakeSignals(g_.at_once, /*widens=*/false);
    for (auto [r, row] : llvm::enumerate(rows))
      With(row, [&] {
        ForgetRow();
        row.chunks = RowChunks();
        if (g_.in_shared) FetchChunks(row.chunks, static_cast<int64_t>(r));
      });
    for (Stage& row : rows)
      With(row, [&] {
        for (Chunk& chunk : MutableArrayRef(row.chunks).take_front(in_registers))
          for (auto& [reduce, pass] : reductions_) LoadFor(reduce.getX(), chunk);
      });
    MeetCluster();
    if (g_.in_shared) tile::AwaitOp::create(b_, loc_, IntegerAttr());
    int64_t slot = 0;
    for (int pass = 0; pass < num_passes_; ++pass) {
      const SmallVector<graph::ReduceOp> reductions = ReductionsOf(pass);
      SmallVector<Accumulator> accumulators;
      for (graph::ReduceOp reduce : reductions) accumulators.push_back(AccumulatorOf(reduce, /*widens=*/false));
      SmallVector<SmallVector<Value>> sums(reductions.size(), SmallVector<Value>(rows.size()));
      if (!reductions.empty())
        for (auto [r, row] : llvm::enumerate(rows)) With(row, [&] { AddUp(accumulators, sums, row, r); });
      // The first operands of what follows come meanwhile.
      if (LoadsEarly() && ReductionsOf(pass + 1).empty()) LoadForStores(rows, StoresOf(pass + 1), 0);
      for (auto [a, of_rows] : llvm::zip(accumulators, sums)) {
        for (Value& sum : of_rows) sum = Lanes(a, sum);
        for (auto [row, sum] : llvm::zip(rows, TeamReduce(a, of_rows, slot)))
          row.values[a.reduce.getY()] = RowLowering::Finish(a, sum, n_);
      }
      StoreChunks(rows, StoresOf(pass));
    }
    for (Stage& row : rows) With(row, [&] { StoreRowNumbers(row.is_row); });
  }
  // What this thread has of the row, number r of those at hand.
  void AddUp(MutableArrayRef<Accumulator> accumulators, MutableArrayRef<SmallVector<Value>> sums, Stage& row,
             size_t r) {
    for (auto [c, chunk] : llvm::enumerate(row.chunks)) {
      TakeFetched(chunk, c, r);
      for (auto [a, of_rows] : llvm::zip(accumulators, sums)) {
        Value& sum = of_rows[r];
        if (sum && AddProduct(a, sum, chunk)) continue;
        Value x = Tile(a.reduce.getX(), chunk);
        if (chunk.is_valid) x = arith::SelectOp::create(b_, loc_, chunk.is_valid, x, Identity(a, true, g_.lanes));
        sum = sum ? Combine(a, sum, x) : x;
      }
    }
  }

  // Where chunks begin takes registers if a row may end anywhere: none are left for operands that are not due.
  bool LoadsEarly() const { return exact_row_ >= 0; }
  // Vectors of late operands that a thread has registers for, half of them for the ones to come: of so many chunks.
  size_t ChunksAtATime(ArrayRef<size_t> stores) {
    llvm::SmallPtrSet<Value, 8> operands, early;
    for (size_t k : stores) CollectArguments(Yield().getValues()[static_cast<unsigned>(k)], operands);
    for (auto& [reduce, pass] : reductions_) CollectArguments(reduce.getX(), early);
    int64_t late = 0;
    for (Value v : operands)
      if (!is_row_.lookup(v) && !early.contains(v))
        late += IsOfAllRows(cast<BlockArgument>(v).getArgNumber()) ? 1 : g_.at_once;
    const int64_t room = g_.in_shared ? kKeptElements / 2 : kKeptElements - g_.chunks * g_.lanes;
    const int64_t most = room / ((LoadsEarly() ? 2 : 1) * g_.lanes * std::max<int64_t>(1, late));
    return static_cast<size_t>(std::clamp<int64_t>(most, 1, g_.chunks));
  }
  // Of those from `from` on that are stored together. What all rows share is loaded for the first.
  void LoadForStores(MutableArrayRef<Stage> rows, ArrayRef<size_t> stores, size_t from) {
    if (stores.empty()) return;
    const size_t to = std::min(from + ChunksAtATime(stores), static_cast<size_t>(g_.chunks));
    for (size_t c = from; c < to; ++c)
      for (Stage& row : rows)
        With(row, [&] {
          if (&row != rows.begin())
            for (auto& [v, tile] : rows.front().chunks[c].tiles)
              if (auto argument = dyn_cast<BlockArgument>(v); argument && IsOfAllRows(argument.getArgNumber()))
                row.chunks[c].tiles.try_emplace(v, tile);
          for (size_t k : stores) LoadFor(Yield().getValues()[static_cast<unsigned>(k)], row.chunks[c]);
        });
  }
  void StoreChunks(MutableArrayRef<Stage> rows, ArrayRef<size_t> stores) {
    if (stores.empty()) return;
    const size_t at_a_time = ChunksAtATime(stores), count = static_cast<size_t>(g_.chunks);
    for (size_t from = 0; from < count; from += at_a_time) {
      LoadForStores(rows, stores, from);
      if (LoadsEarly()) LoadForStores(rows, stores, from + at_a_time);
      for (size_t c = from; c < std::min(from + at_a_time, count); ++c)
        for (auto [r, row] : llvm::enumerate(rows))
          With(row, [&] {
            TakeFetched(row.chunks[c], c, r);
            for (size_t k : stores) Store(k, row.chunks[c], row.is_row);
          });
    }
  }

  void Loops(int64_t lanes, MutableArrayRef<Stage> rows) {
    MakeSignals(1, /*widens=*/true);
    MeetCluster();
    int64_t slot = 0;
    for (Stage& row : rows) With(row, [&] { LoopsOf(lanes, row.is_row, slot); });
  }
  void LoopsOf(int64_t lanes, Value is_row, int64_t& slot) {
    ForgetRow();
    for (int pass = 0; pass < num_passes_; ++pass) {
      SmallVector<Accumulator> accumulators;
      for (graph::ReduceOp reduce : ReductionsOf(pass)) accumulators.push_back(AccumulatorOf(reduce, /*widens=*/true));
      const SmallVector<size_t> stores = StoresOf(pass);
      if (accumulators.empty() && stores.empty()) continue;
      for (Accumulator& a : accumulators) NeedRows(a.reduce.getX(), pass);
      for (size_t k : stores) NeedRows(Yield().getValues()[static_cast<unsigned>(k)], pass);
      const SmallVector<Value> sums = Loop(lanes, accumulators, stores, is_row);
      for (auto [a, sum] : llvm::zip(accumulators, sums))
        values_[a.reduce.getY()] = RowLowering::Finish(a, TeamReduce(a, Lanes(a, sum), slot)[0], n_);
    }
    StoreRowNumbers(is_row);
  }

  SmallVector<Value> Loop(int64_t lanes, MutableArrayRef<Accumulator> accumulators, ArrayRef<size_t> stores,
                          Value is_row) {
    Value first = Mul(team_thread_, I64(lanes));
    const int64_t step = g_.OfRow() * lanes;
    // One pass of f32 sums from `from` to `to`.
    auto run = [&](Value from, Value to, ValueRange init) {
      return For(from, to, I64(step), init, [&](Value i, ValueRange carried) {
        Chunk chunk{i, Value(), lanes, lanes > 1};
        SmallVector<Value> next;
        for (size_t k = 0; k < accumulators.size(); ++k)
          next.push_back(Combine(accumulators[k], carried[k], Tile(accumulators[k].reduce.getX(), chunk)));
        for (size_t k : stores) Store(k, chunk, is_row);
        return next;
      });
    };
    SmallVector<Value> init;
    for (Accumulator& a : accumulators) init.push_back(Identity(a, true, lanes));
    if (!llvm::any_of(accumulators, [](const Accumulator& a) { return a.widens; })) return run(first, n_, init);
    const int64_t block = kStepsOfF32 * step;
    return For(first, n_, I64(block), init, [&](Value from, ValueRange carried) {
      SmallVector<Value> start, next;
      for (size_t k = 0; k < accumulators.size(); ++k)
        start.push_back(accumulators[k].widens ? Identity(accumulators[k], false, lanes) : carried[k]);
      const SmallVector<Value> partial = run(from, Min(Sum(from, I64(block)), n_), start);
      for (size_t k = 0; k < accumulators.size(); ++k)
        next.push_back(accumulators[k].widens ? Combine(accumulators[k], carried[k], Widen(partial[k])) : partial[k]);
      return next;
    });
  }

  GpuGeometry g_;
  int64_t num_slots_ = 0;                            // of shared memory
  SmallVector<std::pair<size_t, int64_t>> fetched_;  // operands that are fetched, and where they begin
  int64_t fetched_bytes_ = 0;
  int64_t sent_ = 0;  // where results of warps begin
  Value n_;           // elements of a row
  Value team_thread_, block_row_;
  Value is_aligned_;
};

class LowerKernelsGpuPass : public PassWrapper<LowerKernelsGpuPass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerKernelsGpuPass)
  explicit LowerKernelsGpuPass(CompileOptions options) : options_(std::move(options)) {}
  StringRef getArgument() const override { return "tsr-lower-kernels-gpu"; }
  StringRef getDescription() const override { return "scheduled kernels as blocks and threads"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<tile::TsrTileDialect, scf::SCFDialect, arith::ArithDialect, LLVM::LLVMDialect>();
  }
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder at(module.getContext());
    SmallVector<sched::KernelOp> kernels;
    module.walk([&](sched::KernelOp kernel) { kernels.push_back(kernel); });
    for (sched::KernelOp kernel : kernels) {
      std::optional<LoopNest> nest = LoopNest::Plan(kernel);
      if (!nest) continue;
      at.setInsertionPointToEnd(module.getBody());
      if (ProductsOf(kernel).first != nullptr) {
        const ProductSchedule::Form form = ProductSchedule::FromAttr(*kernel.getProduct())->form;
        (form == ProductSchedule::Form::few         ? LowerFewRowsGpu
         : form == ProductSchedule::Form::split     ? LowerSplitGpu
         : form == ProductSchedule::Form::attention ? LowerAttentionGpu
                                                    : LowerProductGpu)(kernel, *std::move(nest), options_, at);
        continue;
      }
      if (nest->count > 0)
        LowerColumnsGpu(kernel, *std::move(nest), options_, at);
      else if (!LowerTransposedGpu(kernel, *nest, options_, at))
        GpuLowering(kernel, *std::move(nest), options_).Run(at);
    }
    SmallVector<graph::TraceOp> traces;
    module.walk([&](graph::TraceOp trace) { traces.push_back(trace); });
    for (graph::TraceOp trace : traces) trace.erase();
  }

 private:
  const CompileOptions options_;
};

}  // namespace

std::unique_ptr<Pass> MakeLowerKernelsGpuPass(const CompileOptions& options) {
  return std::make_unique<LowerKernelsGpuPass>(options);
}

}  // namespace tessera::compiler
