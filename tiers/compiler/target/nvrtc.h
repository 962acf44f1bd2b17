// From CUDA C++ (target/cuda_source.h) to a cubin, by NVRTC where this machine has it.
#ifndef TESSERA_TIERS_COMPILER_TARGET_NVRTC_H_
#define TESSERA_TIERS_COMPILER_TARGET_NVRTC_H_

#include <map>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tiers/compiler/target/codegen.h"

namespace tessera::compiler {

/// Can CompileCuda() do its work here? As HasAssembler().
bool HasNvrtc();

/// A cubin of the source for devices of that kind, and what each kernel takes.
llvm::Expected<std::string> CompileCuda(const std::string& source, llvm::StringRef device,
                                        std::map<std::string, CodeResources>* code);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_NVRTC_H_
