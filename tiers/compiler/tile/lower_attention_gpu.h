// Kernels of attention on tensor cores: lower_attention_gpu.cc.
#ifndef TESSERA_TIERS_COMPILER_TILE_LOWER_ATTENTION_GPU_H_
#define TESSERA_TIERS_COMPILER_TILE_LOWER_ATTENTION_GPU_H_

#include "tiers/compiler/passes.h"
#include "tiers/compiler/tile/loop_nest.h"

namespace tessera::compiler {

/// Part of tsr-lower-kernels-gpu. Makes no kernel where it is cut otherwise than this takes it.
void LowerAttentionGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, mlir::OpBuilder& at);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_LOWER_ATTENTION_GPU_H_
