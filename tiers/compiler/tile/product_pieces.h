// Pieces of the factors of a matrix product on tensor cores: rows of 128 bytes in shared memory, as the device's copies
// leave them there, and what multiplies them. Shared by the kernels that have such products.
#ifndef TESSERA_TIERS_COMPILER_TILE_PRODUCT_PIECES_H_
#define TESSERA_TIERS_COMPILER_TILE_PRODUCT_PIECES_H_

#include <utility>

#include "tiers/compiler/sched/product.h"
#include "tiers/compiler/tile/gpu_rows.h"

namespace tessera::compiler {

class ProductPieces : public GpuRows {
 protected:
  static constexpr int64_t kGroups = ProductSchedule::kGroups;
  static constexpr int64_t kGroup = 128;     // threads of a group
  static constexpr int64_t kRowBytes = 128;  // of a piece in shared memory

  ProductPieces(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, ProductSchedule schedule)
      : GpuRows(kernel, std::move(nest), options),
        s_(schedule),
        product_(ProductsOf(kernel).first),
        rank_(nest_.space.size()),
        dtype_(ElementOf(product_->getOperand(0))),
        right_dtype_(ElementOf(product_->getOperand(1))),
        is_tf32_(dtype_.isF32()) {}

  /// A factor, a result or an operand, as it is copied.
  struct Matrix {
    mlir::DenseI64ArrayAttr map;
    size_t view = 0;
    bool is_last = false;               // rows in memory lie along its last dim
    bool is_across = false;             // ... and across the sum
    llvm::SmallVector<size_t> batch{};  // dims of the space that it has besides the last two
    llvm::SmallVector<int64_t> dims{};  // ... and its own
    int64_t of_place = 0;               // of a result or an operand: columns of a piece
  };

  /// Where in the ring somebody is.
  struct Ring {
    mlir::Value slot, phase;
  };
  /// Where the next slot is.
  Ring Next(const Ring& ring);

  bool Transposes(llvm::StringRef which) const;
  /// The dim that is summed over.
  Dim DepthOf();
  /// Copies of the factor that is this operand, of product_ or of another one, have so many lines at most. False: it
  /// cannot be copied so.
  bool FindFactor(Matrix& matrix, unsigned operand, int64_t lines, mlir::Operation* product = nullptr);
  /// Starts to copy `lines` of a factor, from `line` on, at `along` of the sum. `blocks`: to so many of a cluster.
  void Copy(const Matrix& matrix, int64_t map, llvm::ArrayRef<mlir::Value> batch, mlir::Value line, mlir::Value along,
            mlir::Value slot, mlir::Value signal, int64_t lines, int64_t blocks = 1);
  mlir::Value Multiply(mlir::Value sums, mlir::Value left, mlir::Value right, int64_t columns, bool by_warps = false,
                       bool fresh = false);
  /// Operands that what follows the product is computed from, to give `v`.
  void CollectOperands(mlir::Value v, llvm::SmallPtrSet<mlir::Value, 8>& into);
  /// Quotient and rest of numbers of tiles and pieces, which fit 32 bits: a division of 64 takes as long as some
  /// copies.
  std::pair<mlir::Value, mlir::Value> Split(mlir::Value x, mlir::Value by);

  const ProductSchedule s_;
  mlir::Operation* const product_;
  const size_t rank_;
  const mlir::Type dtype_, right_dtype_;
  const bool is_tf32_;  // f32, which is rounded to that
  Matrix left_, right_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_PRODUCT_PIECES_H_
