// The sums of tensor cores are one long vector in the dialects, and a register each in the code.
#ifndef TESSERA_TIERS_COMPILER_TARGET_SUMS_H_
#define TESSERA_TIERS_COMPILER_TARGET_SUMS_H_

#include "llvm/IR/Function.h"

namespace tessera::compiler {

/// Elements that are taken out of vectors are those that were put in, be it around a loop: what is left are values of
/// their own. LLVM's scalariser does the same to all vectors of a function, in time that grows with the square of their
/// lengths: a third of what a product's kernel took LLVM.
void TakeSumsApart(llvm::Function& f);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_SUMS_H_
