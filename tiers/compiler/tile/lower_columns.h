// Kernels that sum along columns.
#ifndef TESSERA_TIERS_COMPILER_TILE_LOWER_COLUMNS_H_
#define TESSERA_TIERS_COMPILER_TILE_LOWER_COLUMNS_H_

#include "tiers/compiler/tile/loop_nest.h"

namespace tessera::compiler {

/// A tsr_sched.kernel whose `cut` has columns becomes a tsr_tile.kernel.
void LowerColumns(sched::KernelOp kernel, LoopNest nest, bool bitwise, mlir::OpBuilder& at);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_LOWER_COLUMNS_H_
