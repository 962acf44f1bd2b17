// What the kernels of this folder share: the ops of a tsr_sched.kernel evaluated along rows, in passes.
//
// The rows of a kernel are the innermost loop of its nest. A value belongs to the pass after the reductions that it
// depends on. A value of an earlier pass is computed again where that costs no more than some arithmetic, and is kept
// where it takes an exponential or the like: in the row of a result that is written later, or else in a row of scratch
// memory; both stay in the cache. What takes little but several operands is kept where there is such a result.
//
// Sums of f32 run in f32 for at most eight vectors and are then added to f64 lanes: the error stays below eight units
// in the last place at the price of a few conversions. Maxima start from the smallest number.
#ifndef TESSERA_TIERS_COMPILER_TILE_ROW_LOWERING_H_
#define TESSERA_TIERS_COMPILER_TILE_ROW_LOWERING_H_

#include <memory>

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/tile/loop_nest.h"

namespace tessera::compiler {

class RowLowering {
 public:
  /// `lanes`: elements of a vector, where the schedule's number does not fit.
  RowLowering(sched::KernelOp kernel, LoopNest nest, bool bitwise, bool is_device = false, int64_t lanes = 0);
  virtual ~RowLowering() = default;

  /// Makes the tsr_tile.kernel with its arguments; everything after is put into its body.
  /// `partial`: bytes for each task that the view of parts has; 0: there is none.
  void Begin(mlir::OpBuilder& at, int64_t partial = 0);
  /// The same within the kernel of another lowering, where that one stands: this one is for another space of it.
  void BeginWithin(RowLowering& of);
  /// Goes on where another lowering of the same kernel stands.
  void GoOnAt(const RowLowering& of) { b_.restoreInsertionPoint(of.b_.saveInsertionPoint()); }
  /// What the core has to know, once the body is there. `fixed`: bytes of scratch besides the rows.
  void End(llvm::ArrayRef<int64_t> tasks, llvm::ArrayRef<int64_t> blocks, llvm::ArrayRef<int64_t> unit,
           llvm::ArrayRef<int64_t> scratch, int64_t fixed);

  /// Elements that are worth a thread, where the schedule's number does not fit.
  void SetGrain(int64_t elements) { tile_.setGrain(elements); }

  /// Where each view, and each row that a gather reads, begins for these indices of the outer loops (a null index: 0).
  void SetOffsets(llvm::ArrayRef<mlir::Value> indices);
  /// The indices of the outer loops of a task.
  llvm::SmallVector<mlir::Value> Indices(mlir::Value task, size_t outer);
  /// Elements lo to hi of the row at those offsets.
  void Row(mlir::Value lo, mlir::Value hi);
  /// A value that is not computed from the operands but read: element i of a row is at view[offset + i].
  void SetInMemory(mlir::Value v, mlir::Value view, mlir::Value offset) { in_memory_[v] = {view, offset}; }
  /// A value that Row() also writes to view[offset + i], after all results.
  void SetWritten(mlir::Value v, mlir::Value view, mlir::Value offset) { written_ = {v, view, offset}; }
  // ---- a single row that many tasks do parts of: each leaves its sums, and a last call puts them together
  /// Does the row need no second pass?
  bool MayBeInParts();
  /// Bytes that a task leaves: eight for each reduction.
  int64_t PartBytes() { return 8 * static_cast<int64_t>(llvm::range_size(Body().getOps<graph::ReduceOp>())); }
  void RowInParts(mlir::Value task, mlir::Value lo, mlir::Value hi);
  void PutTogether(mlir::Value tasks, mlir::Value count);
  /// A number of the row, after Row().
  mlir::Value RowValue(mlir::Value v);

  // ---- for those who write kernels: values of the tile kernel
  mlir::OpBuilder& b() { return b_; }
  mlir::Location loc() const { return loc_; }
  const LoopNest& nest() const { return nest_; }
  mlir::Value begin() const { return begin_; }
  mlir::Value end() const { return end_; }
  mlir::Value scratch() const { return scratch_; }
  mlir::Value view(size_t k) const { return view_args_[k]; }
  mlir::Value size(size_t loop) const { return sizes_[loop]; }
  mlir::Value I64(int64_t n);
  mlir::Value Mul(mlir::Value x, mlir::Value y);
  mlir::Value Sum(mlir::Value x, mlir::Value y);
  mlir::Value SizeOf(const Dim& d);
  /// The stride of a view along its own dim.
  mlir::Value StrideOfDim(const ViewPlan& v, int64_t dim);
  mlir::Type TileType(mlir::Type scalar, int64_t lanes);
  mlir::Value Splat(mlir::Value scalar, int64_t lanes);
  mlir::Value Load(size_t view, mlir::Value at, int64_t lanes, mlir::Value stride, bool aligned = false);
  /// What an element would be after a store and a load.
  mlir::Value Round(mlir::Value v, mlir::Type element, int64_t lanes);
  /// Factors of a product, as the plan writes them: an entry of the table or -1 - number.
  int64_t Factor(const Dim& d) { return d.is_symbol ? EntryOf(d) : -1 - d.value; }
  void AppendProduct(llvm::SmallVector<int64_t>& product, size_t loop);
  /// Bytes of an element for each row of scratch that Row() needs; they lie at the end of scratch, from `at` on.
  llvm::SmallVector<int64_t> ScratchRows() const;
  void PlaceScratchRows(mlir::Value at);

  template <typename Fn>
  llvm::SmallVector<mlir::Value> For(mlir::Value lo, mlir::Value hi, mlir::Value step, mlir::ValueRange init, Fn fn) {
    auto loop = mlir::scf::ForOp::create(b_, loc_, lo, hi, step, init);
    mlir::OpBuilder::InsertionGuard guard(b_);
    mlir::Block* body = loop.getBody();
    if (init.empty()) {
      b_.setInsertionPoint(body->getTerminator());
      fn(loop.getInductionVar(), loop.getRegionIterArgs());
    } else {
      b_.setInsertionPointToEnd(body);
      mlir::scf::YieldOp::create(b_, loc_, fn(loop.getInductionVar(), loop.getRegionIterArgs()));
    }
    return llvm::SmallVector<mlir::Value>(loop.getResults());
  }

  /// How many elements at a time: `lanes`, then what is left by ever smaller vectors, at last one by one.
  static llvm::SmallVector<int64_t> WidthsOf(int64_t lanes);
  /// fn(i, width) from lo to hi in these widths.
  void Along(mlir::Value lo, mlir::Value hi, int64_t lanes, llvm::function_ref<void(mlir::Value, int64_t)> fn);

 protected:
  /// Where the last whole vector ends.
  mlir::Value WholeOf(mlir::Value lo, mlir::Value hi, int64_t width);
  /// The function that computes an op, in place of the one with the op's name.
  virtual std::string FunctionOf(mlir::Operation*, std::string function) { return function; }

  struct Spill {
    mlir::Value value;
    mlir::Type type;         // in memory
    int output = -1;         // the result in whose row it is, or scratch:
    mlir::Value offset;      // in bytes
    bool is_result = false;  // that result is the value itself, not one that takes its place later
  };
  struct Place {
    mlir::Value view, offset;
  };
  struct Written {
    mlir::Value value, view, offset;
  };
  struct Accumulator {
    graph::ReduceOp reduce;
    bool is_sum = false;  // otherwise the largest or the smallest
    bool is_max = false;
    bool widens = false;  // f32 sums go to f64
    mlir::Type type;      // of the lanes that last
  };

  /// What the kernel reads of the table of dims; all lowerings of a kernel have one.
  struct Table {
    llvm::SmallVector<std::pair<int64_t, int64_t>> entries;
    llvm::DenseMap<int64_t, int64_t> of_symbols;
    llvm::DenseMap<int64_t, mlir::Value> values;
  };

  /// Sizes, strides, and operands that never move.
  void Prepare();
  mlir::Block& Body() { return kernel_.getBody().front(); }
  mlir::Value Argument(size_t k) { return Body().getArgument(static_cast<unsigned>(k)); }
  int64_t Entry(int64_t value, int64_t dim);
  int64_t EntryOf(const Dim& d);
  mlir::Value TableValue(int64_t entry);
  mlir::Value LoopSize(size_t l);
  mlir::Value StrideOf(const ViewPlan& v, size_t l);
  /// The element of a view where the part that is written begins; null: the first.
  mlir::Value BeginOf(size_t view);
  bool MovesInside(size_t view) const;
  bool IsRun(size_t view) const;

  /// Devices do this before they begin, because it says how they do it.
  void Classify();
  /// All that is to be known of the values, once.
  void Look();
  bool IsHeavy(mlir::Value v);
  bool IsUsedLater(mlir::Value v);
  void CollectReads(mlir::Value v, llvm::SmallPtrSetImpl<const void*>& seen, int& reads);
  int RowToKeepIn(mlir::Value v, mlir::Type type);
  void FindSpills();
  bool StoredAlong(size_t k) const { return MovesInside(num_inputs_ + k); }
  mlir::Value MayStream(llvm::ArrayRef<size_t> stores, mlir::Value lo);
  void Pass(int pass, mlir::Value lo, mlir::Value hi, llvm::ArrayRef<graph::ReduceOp> reductions,
            llvm::ArrayRef<size_t> stores, llvm::ArrayRef<size_t> keeps);
  void NeedRows(mlir::Value v, int pass);
  const Spill* SpillOf(mlir::Value v, int pass);
  Place PlaceOf(const Spill& s);
  mlir::Value Tile(mlir::Value v);
  /// Elements of an operand from current_index_ on, in the row that begins at `offset`.
  mlir::Value Elements(size_t view, mlir::Value offset);
  mlir::Value Widen(mlir::Value v);
  mlir::Value Map(const std::string& function, mlir::ValueRange operands, mlir::Type type);
  mlir::Value Causal(mlir::Value x, int64_t lanes);
  mlir::Value Apply(mlir::Operation* op, llvm::ArrayRef<mlir::Value> operands, int64_t lanes);
  mlir::Value Identity(const Accumulator& a, bool wide, int64_t lanes);
  mlir::Value Combine(const Accumulator& a, mlir::Value x, mlir::Value y);
  bool IsLoose(const Accumulator& a);
  Accumulator AccumulatorOf(graph::ReduceOp reduce, bool widens);
  /// The function of two operands that Combine() is, by its name.
  std::string CombinerOf(const Accumulator& a);
  /// The result of a reduction over n elements: of a mean the quotient, f64 rounded.
  mlir::Value Finish(const Accumulator& a, mlir::Value sum, mlir::Value n, int64_t lanes = 1);
  // ---- kernels whose sums are along columns
  /// Offsets at an index of the outer dims and one of the summed dims (null: the first).
  void SetColumnOffsets(mlir::Value outer, mlir::Value row);
  /// What follows from the sums, which are known: casts, and the dims that they had.
  mlir::Value AfterSums(mlir::Value v, llvm::DenseMap<mlir::Value, mlir::Value>& known, int64_t lanes);

  /// Results that are numbers of the row.
  void StoreNumbers();
  mlir::Value PartAt(mlir::Value byte);
  /// A sum of the part at part_, from a byte of it on.
  void StorePart(const Accumulator& a, mlir::Value tile, mlir::Value byte);
  mlir::Value LoadPart(const Accumulator& a, int64_t lanes, mlir::Value byte);

  sched::KernelOp kernel_;
  LoopNest nest_;
  mlir::OpBuilder b_;
  mlir::Location loc_;
  const int64_t lanes_;
  const size_t num_inputs_;
  const bool bitwise_;    // f64 sums throughout
  const bool is_device_;  // a CUDA device: nothing is kept in scratch memory, and narrow floats are rounded by casts
                          // only, unless bitwise_
  tile::KernelOp tile_;
  llvm::SmallVector<mlir::Value> view_args_, sizes_, offsets_, indices_;
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> loop_strides_;
  llvm::DenseMap<mlir::Operation*, mlir::Value> gathered_;  // where the row of each gather begins
  mlir::Value scratch_, table_, begin_, end_;
  mlir::Value partial_, part_;  // the view of parts, and the byte of it where the part at hand begins
  bool in_parts_ = false, has_looked_ = false;
  int inner_ = -1;
  std::shared_ptr<Table> entries_ = std::make_shared<Table>();
  llvm::DenseMap<mlir::Value, bool> is_row_, heavy_;
  llvm::DenseMap<mlir::Value, int> pass_, last_pass_;
  int num_passes_ = 1;
  llvm::SmallVector<std::pair<graph::ReduceOp, int>> reductions_;
  llvm::SmallVector<Spill> spills_;
  llvm::DenseMap<mlir::Value, Place> in_memory_;
  Written written_;
  llvm::DenseMap<mlir::Value, mlir::Value> once_;    // operands that never move, loaded before all loops
  llvm::DenseMap<mlir::Value, mlir::Value> values_;  // numbers of the row at hand
  llvm::DenseMap<mlir::Value, mlir::Value> tiles_;   // of the vector at hand
  int current_pass_ = 0;
  mlir::Value current_index_;
  int64_t current_lanes_ = 1;
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_ROW_LOWERING_H_
