// What follows a matrix product on tensor cores, from the sums that a group of warps has in registers: a part of
// tile/lower_product_gpu.cc.
#ifndef TESSERA_TIERS_COMPILER_TILE_FOLLOW_PRODUCT_GPU_H_
#define TESSERA_TIERS_COMPILER_TILE_FOLLOW_PRODUCT_GPU_H_

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "tiers/compiler/tile/product_pieces.h"

namespace tessera::compiler {

class FollowProductGpu : public ProductPieces {
 protected:
  static constexpr int64_t kWarps = 4 * kGroups;    // of all groups
  static constexpr int64_t kStep = 32, kLanes = 8;  // columns of tsr_tile.collect, and those of a thread
  static constexpr int64_t kPlaceBytes = ProductSchedule::kPlaceBytes;

  using ProductPieces::ProductPieces;

  /// Which tile somebody is at.
  struct At {
    llvm::SmallVector<mlir::Value> batch;
    mlir::Value row, column;  // the first ones
    Ring ring;                // where its first piece is
    mlir::Value done;         // pieces of all tiles before
    mlir::Value turn;         // the phase of the signal that group `first` waits for
  };
  /// A row of which the thread has some columns.
  struct Part {
    llvm::SmallVector<mlir::Value> indices, offsets;
    mlir::Value is_row;
    llvm::DenseMap<mlir::Value, mlir::Value> values;  // numbers of the row
    llvm::SmallVector<Chunk> chunks;                  // by step
  };
  /// Rows of the warp in each of the group's blocks of 64 rows, in the order in which they are done: a step is 32
  /// columns of the 16 rows of a block, of which a thread has two.
  struct Steps {
    std::vector<std::array<Part, 2>> blocks;
    mlir::Value at;  // the first column of the thread
    int64_t loaded = 0;
  };

  // ---- operands that are one row for all rows of the result
  bool IsRow(size_t k) const;
  /// Those for which there is room, with so many copies.
  void FindRowOperands(int64_t copies, int64_t room);
  bool IsRowOperand(size_t k) const;
  // Each group has a copy, or, where nothing else is of a group, each warp.
  int64_t RowCopies() const { return places_ > 0 ? kGroups : kWarps; }
  mlir::Value RowPlace(int64_t at);
  void FetchRows(mlir::Value column);
  void AwaitRows();
  /// All who share a copy meet.
  void RowsWereRead();

  // ---- what follows the product, on sums as they lie
  /// A matrix of which a warp has pieces of 16 x 64 elements, or 16 x 32 of f32; nothing where it cannot be copied so.
  std::optional<Matrix> PiecesOf(size_t view);
  /// Whether results go through places in shared memory, and how many of them a warp has.
  bool PlanPlaces();
  mlir::Value Lane() { return Rem(thread_, I64(32)); }
  mlir::Value IsFirstLane() { return Compare(mlir::arith::CmpIPredicate::eq, Lane(), I64(0)); }
  mlir::Value WarpPlace(int64_t place);
  mlir::Value WarpSignal(int64_t place);
  /// Where piece number n of a warp, whose first row is `top`, lies in a matrix.
  llvm::SmallVector<mlir::Value> PieceAt(const Matrix& matrix, const At& tile, mlir::Value top, int64_t n);
  /// After a few products, when what was copied out of the places has long been read.
  void ReadMatrix(const At& tile, mlir::Value top, mlir::Value piece);
  /// `phase`: of the signals of places.
  void FollowInPlaces(const At& tile, mlir::Value top, mlir::Value sums, mlir::Value phase);

  // ---- what follows the product
  int64_t NumSteps() const { return s_.OwnRows() / 64 * (s_.columns / kStep); }
  /// How many steps operands are loaded ahead: as many as there are registers for.
  int64_t Ahead();
  Steps BeginSteps(llvm::ArrayRef<mlir::Value> batch, mlir::Value first, mlir::Value column);
  void TurnTo(Part& part);
  void LoadUntil(Steps& steps, int64_t end);
  void Follow(Steps& steps, mlir::Value sums);

  // Shared memory: the ring, the places of warps, signals, rows.
  int64_t slot_bytes_ = 0, places_at_ = 0, signals_at_ = 0, rows_at_ = 0, row_bytes_ = 0;
  int64_t places_ = 0;  // of a warp, for pieces of results; 0: they are written from registers
  llvm::SmallVector<Matrix> results_;
  std::optional<Matrix> read_;                                  // into places
  llvm::SmallVector<std::pair<size_t, int64_t>> row_operands_;  // and where in a copy they are
  mlir::Value thread_, group_, rows_, columns_, pieces_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_FOLLOW_PRODUCT_GPU_H_
