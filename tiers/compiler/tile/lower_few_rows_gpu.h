// Kernels with matrix products of few rows on tensor cores: lower_few_rows_gpu.cc.
#ifndef TESSERA_TIERS_COMPILER_TILE_LOWER_FEW_ROWS_GPU_H_
#define TESSERA_TIERS_COMPILER_TILE_LOWER_FEW_ROWS_GPU_H_

#include "tiers/compiler/passes.h"
#include "tiers/compiler/tile/loop_nest.h"

namespace tessera::compiler {

/// Part of tsr-lower-kernels-gpu. Makes no kernel where rows of a factor cannot be read by vectors.
void LowerFewRowsGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, mlir::OpBuilder& at);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_LOWER_FEW_ROWS_GPU_H_
