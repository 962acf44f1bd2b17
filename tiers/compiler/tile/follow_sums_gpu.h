// What follows a matrix product whose sum is shared, by warps, groups or blocks of a cluster: each leaves its sums of
// the tile in shared memory, all meet, and each thread adds up some elements, in order, and computes what follows.
#ifndef TESSERA_TIERS_COMPILER_TILE_FOLLOW_SUMS_GPU_H_
#define TESSERA_TIERS_COMPILER_TILE_FOLLOW_SUMS_GPU_H_

#include "tiers/compiler/tile/product_pieces.h"

namespace tessera::compiler {

class FollowSumsGpu : public ProductPieces {
 protected:
  /// `threads` of a block, which has `along` parts of the sum. Their sums lie in shared memory one after the other, in
  /// rows of `pitch` bytes.
  FollowSumsGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, ProductSchedule schedule,
                int64_t threads, int64_t along, int64_t pitch)
      : ProductPieces(kernel, std::move(nest), options, schedule), threads_(threads), along_(along), pitch_(pitch) {}

  using ProductPieces::Tile;

  /// Elements of the result that a thread computes what follows from.
  struct Part {
    mlir::Value slot;  // of the sums, within those of a part of the sum
    mlir::Value is_valid;
    llvm::SmallVector<mlir::Value> indices, offsets;
    llvm::DenseMap<mlir::Value, mlir::Value> values;  // numbers of the row
    Chunk chunk;
  };

  /// After Begin(): sizes, and who this thread is.
  void BeginTiles();
  /// A tile of the result: which matrix of a batch, and where in it.
  struct Where {
    llvm::SmallVector<mlir::Value> batch;
    mlir::Value row, column;
  };
  /// fn(Where) for the tiles of the block, or of its cluster.
  void Tiles(llvm::function_ref<void(const Where&)> fn);
  /// The same where there is a block, or a cluster, for each tile.
  void OneTile(llvm::function_ref<void(const Where&)> fn);
  /// `leave` computes the sums of a tile and leaves them in shared memory.
  void TileOf(const Where& where, llvm::function_ref<void()> leave);
  /// The tasks of the kernel, and views that are read and written by vectors: those that move, and `also`.
  void EndTiles(llvm::ArrayRef<size_t> also);
  /// Null: it always is.
  mlir::Value Below(mlir::Value x, mlir::Value end, bool always) {
    return always ? mlir::Value() : Compare(mlir::arith::CmpIPredicate::ult, x, end);
  }
  static bool IsMultiple(const Dim& d, int64_t of) { return !d.is_symbol && d.value % of == 0; }
  static bool Fits(const Dim& d, int64_t in) { return !d.is_symbol && d.value <= in; }

  const int64_t threads_, along_, pitch_;
  bool has_whole_columns_ = false, has_whole_rows_ = false;
  mlir::Value rows_, columns_;
  mlir::Value thread_, rank_in_cluster_;

 private:
  /// Elements of a row that a thread has at a time: few, where there are many threads.
  int64_t Lanes() const;
  int64_t NumParts() const;
  /// Are operands so few that they are read before the sums are there?
  bool ReadsFirst();
  /// Number and count of the block, or of its cluster.
  mlir::Value Own(llvm::StringRef what);
  Where Locate(mlir::Value tile);
  llvm::SmallVector<Part> PartsOf(const Where& where);
  void TurnTo(Part& part);
  void ReadOperands(llvm::SmallVector<Part>& parts);
  mlir::Value Total(const Part& part);
  void Meet();
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_FOLLOW_SUMS_GPU_H_
