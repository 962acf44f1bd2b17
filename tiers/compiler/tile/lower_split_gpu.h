// Kernels with matrix products whose sum is shared by the blocks of a cluster: lower_split_gpu.cc.
#ifndef TESSERA_TIERS_COMPILER_TILE_LOWER_SPLIT_GPU_H_
#define TESSERA_TIERS_COMPILER_TILE_LOWER_SPLIT_GPU_H_

#include "tiers/compiler/passes.h"
#include "tiers/compiler/tile/loop_nest.h"

namespace tessera::compiler {

/// Part of tsr-lower-kernels-gpu. Makes no kernel where a factor cannot be copied by pieces.
void LowerSplitGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, mlir::OpBuilder& at);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_LOWER_SPLIT_GPU_H_
