// Kernels with matrix products in tiles: lower_product.cc.
#ifndef TESSERA_TIERS_COMPILER_TILE_LOWER_PRODUCT_H_
#define TESSERA_TIERS_COMPILER_TILE_LOWER_PRODUCT_H_

#include "tiers/compiler/passes.h"
#include "tiers/compiler/tile/loop_nest.h"

namespace tessera::compiler {

/// Part of tsr-lower-kernels. The kernel has a schedule of its product.
void LowerProduct(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, mlir::OpBuilder& at);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_LOWER_PRODUCT_H_
