// Ops of tsr_tile that are for tensor cores and their ring of pieces, as instructions of sm_90a.
#ifndef TESSERA_TIERS_COMPILER_TARGET_TENSOR_CORES_H_
#define TESSERA_TIERS_COMPILER_TARGET_TENSOR_CORES_H_

#include "llvm/ADT/STLFunctionalExtras.h"
#include "tiers/compiler/dialects/dialects.h"

namespace tessera::compiler {

/// Puts instructions where `b` stands and replaces what the op gives; the caller erases the op. `shared` is the address
/// of a byte of the block's shared memory. False: the op is another one.
bool LowerTensorCoreOp(mlir::Operation* op, mlir::OpBuilder& b, llvm::function_ref<mlir::Value(mlir::Value)> shared,
                       llvm::ArrayRef<mlir::Value> maps);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_TENSOR_CORES_H_
