// The second way down for CUDA devices: a module of kernels as CUDA C++, which NVRTC compiles (target/nvrtc.h). The
// first is PTX of LLVM's own back end (target/nvptx.h).
#ifndef TESSERA_TIERS_COMPILER_TARGET_CUDA_SOURCE_H_
#define TESSERA_TIERS_COMPILER_TARGET_CUDA_SOURCE_H_

#include <map>
#include <string>

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace tessera::compiler {

/// A file of CUDA C++ is what all kernels need, and some of them.
struct CudaSource {
  std::string common;
  std::map<std::string, std::string> kernels;  ///< by name
};

/// The module, after all passes on LLVM IR: a variable for each value (one for each element of a vector), a label for
/// each block, and text in PTX as it stands there. Nothing is included. An error names what has no words in it.
llvm::Expected<CudaSource> ToCudaSource(const llvm::Module& module);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_CUDA_SOURCE_H_
