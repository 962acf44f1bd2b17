// What is computed element by element before a matrix product, in the product's own kernel.
#ifndef TESSERA_TIERS_COMPILER_SCHED_PROLOGUE_H_
#define TESSERA_TIERS_COMPILER_SCHED_PROLOGUE_H_

#include "llvm/ADT/SmallPtrSet.h"
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/sched/product.h"

namespace tessera::compiler {

using OpSet = llvm::SmallPtrSet<mlir::Operation*, 8>;

/// The ops of a kernel that the left factor of its first product is computed by; none where that is an operand.
OpSet PrologueOf(sched::KernelOp kernel);

/// Those of them that nothing but the factor needs: numbers and casts of operands may be needed after the product, too.
OpSet OnlyBefore(sched::KernelOp kernel);

/// Nothing, or what is wrong with the prologue of a kernel whose product is cut so.
const char* WrongPrologue(sched::KernelOp kernel, const ProductSchedule& schedule);

/// Are these ops worth computing while the rows of the left factor are copied? They have all its elements, and so many
/// of the operands that they read.
bool ProloguePays(llvm::ArrayRef<mlir::Operation*> ops, int64_t operands, const ProductFacts& facts,
                  const ProductSchedule& schedule);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_PROLOGUE_H_
