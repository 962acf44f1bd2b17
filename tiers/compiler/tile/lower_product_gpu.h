// Kernels with matrix products on tensor cores: lower_product_gpu.cc.
#ifndef TESSERA_TIERS_COMPILER_TILE_LOWER_PRODUCT_GPU_H_
#define TESSERA_TIERS_COMPILER_TILE_LOWER_PRODUCT_GPU_H_

#include "tiers/compiler/passes.h"
#include "tiers/compiler/tile/loop_nest.h"

namespace tessera::compiler {

/// Part of tsr-lower-kernels-gpu. Makes no kernel where a factor has no runs that can be copied.
void LowerProductGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, mlir::OpBuilder& at);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_LOWER_PRODUCT_GPU_H_
