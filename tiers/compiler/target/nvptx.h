// From PTX to a cubin, by NVIDIA's linker where this machine has it.
#ifndef TESSERA_TIERS_COMPILER_TARGET_NVPTX_H_
#define TESSERA_TIERS_COMPILER_TARGET_NVPTX_H_

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tiers/compiler/target/codegen.h"

namespace tessera::compiler {

/// Can Assemble() do its work here? The first call opens the library (nvJitLink), which may take half a second; the
/// others cost nothing. Any thread.
bool HasAssembler();

/// At most so many texts that have all kernels of the PTX, each of them once, and about as much to assemble as each other.
std::vector<std::string> SplitKernels(llvm::StringRef ptx, size_t most);

/// Cubins of texts of PTX for devices of that kind; each is assembled by a thread of its own. `code`, where it is given,
/// gets the registers, spills, stack and shared memory of each kernel. An error without the library, and for PTX that it
/// does not take.
llvm::Expected<std::vector<std::string>> Assemble(llvm::ArrayRef<std::string> texts, llvm::StringRef device,
                                                  std::map<std::string, CodeResources>* code);

/// The process ends: returns when nobody is in the library, and lets nobody in again. A thread that comes then waits
/// for ever.
void StopAssembling();

/// Held by whoever is in a library of NVIDIA's that compiles.
std::mutex& AssemblersInUse();
/// Calls StopAssembling() before such a library, which was just opened, destroys its objects.
void StopAssemblingAtExit();

/// What the assembler's log says of each kernel.
std::map<std::string, CodeResources> ResourcesOf(llvm::StringRef log);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_NVPTX_H_
