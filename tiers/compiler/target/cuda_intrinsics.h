// LLVM's intrinsics in words of CUDA C++: a part of target/cuda_source.cc.
#ifndef TESSERA_TIERS_COMPILER_TARGET_CUDA_INTRINSICS_H_
#define TESSERA_TIERS_COMPILER_TARGET_CUDA_INTRINSICS_H_

#include <string>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Instructions.h"

namespace tessera::compiler {

/// Argument n of a call, as an expression; of vectors, the element at hand.
using Argument = llvm::function_ref<std::string(unsigned n)>;

/// A statement for an intrinsic without a result, and an expression for one with a result (of vectors, for an element);
/// empty where there are no words for it.
std::string EffectOf(const llvm::CallInst& call, llvm::StringRef name, Argument argument);
std::string IntrinsicOf(const llvm::CallInst& call, llvm::StringRef name, Argument argument);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_CUDA_INTRINSICS_H_
