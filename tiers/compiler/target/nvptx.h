// From PTX to a cubin, by NVIDIA's linker where this machine has it.
#ifndef TESSERA_TIERS_COMPILER_TARGET_NVPTX_H_
#define TESSERA_TIERS_COMPILER_TARGET_NVPTX_H_

#include <map>
#include <shared_mutex>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tiers/compiler/target/codegen.h"

namespace tessera::compiler {

/// Can Assemble() do its work here? The first call opens the library (nvJitLink), which may take half a second; the
/// others cost nothing. Any thread.
bool HasAssembler();

/// A cubin of PTX for devices of that kind. `code`, where it is given, gets the registers, spills, stack and shared
/// memory of each kernel. An error without the library, and for PTX that it does not take. Any number of threads.
llvm::Expected<std::string> Assemble(const std::string& ptx, llvm::StringRef device,
                                     std::map<std::string, CodeResources>* code);

/// The process ends: returns when nobody is in the library, and lets nobody in again. A thread that comes then waits
/// for ever.
void StopAssembling();

/// Shared by whoever is in a library of NVIDIA's that compiles.
std::shared_mutex& AssemblersInUse();
/// Calls StopAssembling() before such a library, which was just opened, destroys its objects.
void StopAssemblingAtExit();

/// What the assembler's log says of each kernel.
std::map<std::string, CodeResources> ResourcesOf(llvm::StringRef log);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_NVPTX_H_
