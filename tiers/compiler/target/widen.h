// Gives bodies to the functions of ops that a kernel calls: scalar ones from the library of math_functions.cc, vector
// ones made from those.
//
// A kernel declares and calls tsr_<op>_<dtype>, or the same with _v<N> at the end, where every operand and the result
// is a vector of N lanes of the scalar function's types (bool: <N x i8>). Each lane gets the bits that the scalar
// function gives.
#ifndef TESSERA_TIERS_COMPILER_TARGET_WIDEN_H_
#define TESSERA_TIERS_COMPILER_TARGET_WIDEN_H_

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace tessera::compiler {

struct MathOptions {
  /// The machine has no instructions between f16 and f32 (x86-64 without F16C).
  bool soft_f16 = false;
  /// The functions for CUDA devices.
  bool device = false;
  /// Lanes side by side, step by step, also where LLVM has no vectors of a function: for kernels with few threads,
  /// which have nothing else to do while they wait for a step.
  bool interleave = false;
  /// Lets arithmetic that is an op of its own (add, mul...) be reassociated and contracted. Never the insides of
  /// functions such as exp: their error bounds rest on the order of their steps.
  bool fast_math = false;
};

/// How a vector function is made.
enum class Widening {
  lanes,   ///< N calls of the scalar function
  vector,  ///< each instruction in its vector form
  repair,  ///< the same for the fast path, and a cold call where a lane needs more
};

/// Bodies for all functions of the module that are named tsr_* and have none. They become internal and are meant to be
/// inlined (alwaysinline), but for loops; slow code stays in the library and is called there (repair.h). The module
/// must have its data layout and triple. An unknown name or another signature is an error, and leaves the module
/// without use.
llvm::Error LinkMath(llvm::Module& module, const MathOptions& options);

/// For tests and tables. Names without the parts that hold "__"; sorted.
std::vector<std::string> MathFunctions();
/// The function's type, and how it widens; false if there is no such function.
bool FindMathFunction(llvm::StringRef name, llvm::LLVMContext& context, llvm::FunctionType** type, Widening* widening);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_WIDEN_H_
