// Kernels that sum along columns, for CUDA devices.
#ifndef TESSERA_TIERS_COMPILER_TILE_LOWER_COLUMNS_GPU_H_
#define TESSERA_TIERS_COMPILER_TILE_LOWER_COLUMNS_GPU_H_

#include "tiers/compiler/passes.h"
#include "tiers/compiler/tile/loop_nest.h"

namespace tessera::compiler {

/// A tsr_sched.kernel whose `cut` has columns becomes a tsr_tile.kernel of blocks and threads.
void LowerColumnsGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, mlir::OpBuilder& at);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_LOWER_COLUMNS_GPU_H_
