// What kernels for CUDA devices share: elements of a row as one thread has them, in vectors.
#ifndef TESSERA_TIERS_COMPILER_TILE_GPU_ROWS_H_
#define TESSERA_TIERS_COMPILER_TILE_GPU_ROWS_H_

#include "llvm/ADT/SmallPtrSet.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tiers/compiler/passes.h"
#include "tiers/compiler/tile/gpu_geometry.h"
#include "tiers/compiler/tile/row_lowering.h"

namespace tessera::compiler {

class GpuRows : public RowLowering {
 public:
  GpuRows(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options)
      : RowLowering(kernel, std::move(nest), options.bitwise, /*is_device=*/true), device_(options.device) {}

 protected:
  /// `lanes` elements of the row from `at` on, as one thread has them.
  struct Chunk {
    mlir::Value at;
    mlir::Value is_valid;  // null: it always is
    int64_t lanes;
    bool aligned;
    llvm::DenseMap<mlir::Value, mlir::Value> tiles{};
  };

  static mlir::Type ElementOf(mlir::Value v) {
    return mlir::cast<mlir::RankedTensorType>(v.getType()).getElementType();
  }
  static int64_t BytesOf(mlir::Type dtype) { return (dtype.getIntOrFloatBitWidth() + 7) / 8; }
  sched::YieldOp Yield() { return mlir::cast<sched::YieldOp>(Body().back()); }
  /// Loops but for the innermost.
  size_t Outer() const { return nest_.loops.empty() ? 0 : nest_.loops.size() - 1; }

  /// An operand that all rows share.
  bool IsOfAllRows(size_t k) const {
    return llvm::all_of(llvm::ArrayRef(nest_.views[k].loops).drop_back(),
                        [](const Stride& s) { return s.kind == Stride::Kind::zero; });
  }
  /// An operand of which each element is read once: it moves in every loop, and along a row in steps of one.
  bool IsWhole(size_t k) const {
    const auto& loops = nest_.views[k].loops;
    return !loops.empty() && (loops.back().kind == Stride::Kind::one || loops.back().kind == Stride::Kind::dense) &&
           llvm::none_of(loops, [](const Stride& s) { return s.kind == Stride::Kind::zero; });
  }

  bool IsReduction() const { return nest_.row > 0; }
  bool HasTables() const {
    return llvm::any_of(nest_.views, [](const ViewPlan& v) { return v.is_table; });
  }
  /// The size of a loop, as far as it is known or was seen.
  int64_t LikelyLoop(size_t l, bool* is_exact = nullptr);
  /// Before Begin(): all that the geometry depends on. Values are classified by this.
  GpuFacts Facts();
  /// Before Begin(): what is known of values, and whether all results are narrow floats.
  void ClassifyValues();
  /// The operands that `v` is computed from.
  void CollectArguments(mlir::Value v, llvm::SmallPtrSet<mlir::Value, 8>& into);
  /// Is every address of a vector of `lanes` elements a multiple of its size: those of the views, what strides add to
  /// them, and `also`? Null: yes.
  mlir::Value AreAligned(int64_t lanes, mlir::Value also = nullptr);

  mlir::Value Place(llvm::StringRef what) {
    return tile::PlaceOp::create(b_, loc_, b_.getI64Type(), b_.getStringAttr(what));
  }
  mlir::Value Compare(mlir::arith::CmpIPredicate p, mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpIOp::create(b_, loc_, p, x, y);
  }
  mlir::Value Min(mlir::Value x, mlir::Value y) { return mlir::arith::MinUIOp::create(b_, loc_, x, y); }
  mlir::Value Minus(mlir::Value x, mlir::Value y) { return mlir::arith::SubIOp::create(b_, loc_, x, y); }
  mlir::Value Div(mlir::Value x, mlir::Value y) { return mlir::arith::DivUIOp::create(b_, loc_, x, y); }
  mlir::Value Rem(mlir::Value x, mlir::Value y) { return mlir::arith::RemUIOp::create(b_, loc_, x, y); }
  mlir::Value Ceil(mlir::Value n, int64_t by) { return by == 1 ? n : Div(Sum(n, I64(by - 1)), I64(by)); }
  /// Null is true.
  mlir::Value And(mlir::Value x, mlir::Value y) {
    if (!x || !y) return x ? x : y;
    return mlir::arith::AndIOp::create(b_, loc_, x, y);
  }
  template <typename Fn>
  void If(mlir::Value condition, Fn fn) {
    if (!condition) return fn();
    auto op = mlir::scf::IfOp::create(b_, loc_, condition, /*withElseRegion=*/false);
    mlir::OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(op.thenBlock());
    fn();
  }
  template <typename Fn, typename Else>
  void IfElse(mlir::Value condition, Fn fn, Else otherwise) {
    auto op = mlir::scf::IfOp::create(b_, loc_, condition, /*withElseRegion=*/true);
    mlir::OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(op.thenBlock());
    fn();
    b_.setInsertionPointToStart(op.elseBlock());
    otherwise();
  }

  /// Values of a row are computed anew wherever code does not follow what computed them.
  void ForgetRow();
  /// The elements of `v` in the chunk.
  mlir::Value Tile(mlir::Value v, Chunk& chunk);
  /// Operands that `v` needs and the chunk does not have yet.
  void LoadFor(mlir::Value v, Chunk& chunk);
  /// A sum of products takes them in unrounded, in one instruction; false: this is none.
  bool AddProduct(Accumulator& a, mlir::Value& sum, Chunk& chunk);
  /// A tile for a store, which rounds by itself.
  static mlir::Value Unrounded(mlir::Value tile, mlir::Type dtype);
  void StoreTile(mlir::Value tile, size_t view, mlir::Value at, bool aligned, mlir::Value condition = nullptr);
  void Store(size_t output, Chunk& chunk, mlir::Value is_row);
  /// A tile of the chunk, where the condition holds (null: always), without a branch if that can be: one would cut what
  /// is computed into pieces.
  void StoreWhere(mlir::Value tile, size_t view, mlir::Value at, const Chunk& chunk, mlir::Value condition);

  /// Functions with less arithmetic where the rounding of narrow results hides it.
  std::string FunctionOf(mlir::Operation* op, std::string function) override;

  const llvm::StringRef device_;
  // Known after Facts(), or -1: elements of a row, and how many there are, for all runs; elements of rows that were
  // seen.
  int64_t exact_row_ = -1, exact_rows_ = -1, likely_row_ = -1;
  bool stores_narrow_ = false;  // all results are narrow floats
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_GPU_ROWS_H_
