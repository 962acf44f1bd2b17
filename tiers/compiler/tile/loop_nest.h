// The iteration space of a kernel: which dims become one loop, and where each operand lies in it.
#ifndef TESSERA_TIERS_COMPILER_TILE_LOOP_NEST_H_
#define TESSERA_TIERS_COMPILER_TILE_LOOP_NEST_H_

#include <optional>

#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/sched/prologue.h"

namespace tessera::compiler {

/// The matrix products of a kernel, where it has any. The second one multiplies rows that follow from the first.
struct Products {
  mlir::Operation* first = nullptr;
  mlir::Operation* second = nullptr;
  mlir::Operation* scale = nullptr;  // multiplies the second one's result with a number for each row
  mlir::Operation* cast = nullptr;   // of that to the dtype and the dims of the result
  bool is_causal = false;

  /// Is it what the second product gives in the end?
  bool IsResult(mlir::Value v) const {
    mlir::Operation* last = cast != nullptr ? cast : scale != nullptr ? scale : second;
    return last != nullptr && v.getDefiningOp() == last;
  }
};
Products ProductsOf(sched::KernelOp kernel);

/// How a view moves along one loop.
struct Stride {
  enum class Kind {
    zero,   // it does not
    dense,  // row-major: the product of its own sizes further in
    table,  // as the table says at run time
    one,
  } kind = Kind::zero;
  int64_t dim = -1;  // table: the dim of the view
};

/// An operand or a result of a kernel.
struct ViewPlan {
  int32_t id;  // of the value
  mlir::RankedTensorType type;
  mlir::DenseI64ArrayAttr known;       // strides; empty: row-major
  llvm::SmallVector<Stride> loops;     // one for each loop of the nest, the innermost last
  llvm::SmallVector<int64_t> own_dim;  // for each dim of the space: the view's own dim, or -1 where it does not move
  bool is_factor = false;  // of a product, or something in another space; without own_dim where it is nothing else
  bool is_table = false;   // of gathers: own_dim is that of a row; the row is added to where it begins
  bool is_base = false;    // a result is this operand but for a part: the kernel does not read it
  int32_t update = -1;     // a part of the result alone is written: it begins where the update of that value says
};

/// Adjacent dims of the space along which every view is one run, or stands still, are one loop. The dims of a row are
/// always one loop, the innermost. The space of a kernel with a product is that of the (first) product, and each of its
/// dims is a loop.
struct LoopNest {
  llvm::SmallVector<Dim> space;
  int64_t row = 0;
  int64_t first = 0, count = 0;  // dims that columns are summed along: so many from the first on; a loop ends there
  llvm::SmallVector<std::pair<int64_t, int64_t>> loops;  // first and last dim of the space
  llvm::SmallVector<ViewPlan> views;                     // operands, then results
  OpSet elsewhere;                                       // ops whose values are in another space

  /// Nothing when the dims of a row are not one loop for every view, or a view cannot be placed in the space.
  static std::optional<LoopNest> Plan(sched::KernelOp kernel);
  /// The space of the left factor of the first product, for what that is computed by.
  static std::optional<LoopNest> PlanPrologue(sched::KernelOp kernel);

 private:
  /// How each view moves along the loops.
  void Place();
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_LOOP_NEST_H_
