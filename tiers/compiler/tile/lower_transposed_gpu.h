#ifndef TESSERA_TIERS_COMPILER_TILE_LOWER_TRANSPOSED_GPU_H_
#define TESSERA_TIERS_COMPILER_TILE_LOWER_TRANSPOSED_GPU_H_

#include "tiers/compiler/passes.h"
#include "tiers/compiler/tile/loop_nest.h"

namespace tessera::compiler {

/// An element-wise kernel for a CUDA device some of whose operands lie the other way round: along a loop that is not
/// the innermost one, which results lie along. Makes a tsr_tile.kernel at `at`. False, and nothing is made, where there
/// is no such operand, or too little of it for tiles.
bool LowerTransposedGpu(sched::KernelOp kernel, const LoopNest& nest, const CompileOptions& options,
                        mlir::OpBuilder& at);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_LOWER_TRANSPOSED_GPU_H_
