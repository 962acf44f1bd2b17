// From a module of LLVM IR, a kernel, to a relocatable object for this machine or one of its kind, or to PTX.
#ifndef TESSERA_TIERS_COMPILER_TARGET_CODEGEN_H_
#define TESSERA_TIERS_COMPILER_TARGET_CODEGEN_H_

#include <functional>
#include <map>
#include <string>

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace tessera::compiler {

/// The attribute of functions that hold the sums of tensor cores as long vectors: those are taken apart first.
inline constexpr const char* kHoldsSums = "tsr-holds-sums";
/// Kernels that are to be made as CUDA C++ (target/cuda_source.h).
inline constexpr const char* kAsSource = "tsr-as-source";
/// That of functions whose loops stay as they are: what is on its way to registers is what the schedule says. An
/// assembler that unrolls them takes all registers there are for more, and some that there are not.
inline constexpr const char* kKeepsLoops = "tsr-keeps-loops";

struct HostCpu {
  std::string triple;
  std::string cpu;       ///< as -mcpu names it
  std::string features;  ///< "+neon,-sve,..."
};

/// This machine. Found out at the first call; any thread.
const HostCpu& ThisCpu();

/// A processor of this machine's architecture by its name, with features ("+sve,-bf16") on top of its own; no name
/// means this machine. An error for names that LLVM does not know.
llvm::Expected<HostCpu> FindCpu(llvm::StringRef name, llvm::StringRef features);
/// Has it that feature, "+bf16" for one? No, where its architecture has no feature of that name.
bool HasFeature(const HostCpu& cpu, const char* feature);
/// CUDA devices of that kind, "sm_90" for one; an error for kinds that LLVM does not know.
llvm::Expected<HostCpu> FindDevice(llvm::StringRef name);
bool IsDevice(const HostCpu& cpu);
/// Bytes of its vector registers.
int VectorBytes(const HostCpu& cpu);
/// Whether code for that processor may run on this one: it is this one or a generic one, and has no feature that is
/// missing here.
bool RunsHere(const HostCpu& cpu);

struct CodegenOptions {
  /// 0: as fast to compile as it goes; 1: what tier 2 wants; 2: what tier 3 wants; 3: the same, and loops are unrolled
  /// and machine code is scheduled, which takes twice as long.
  int opt_level = 2;
  /// Lets a kernel's own arithmetic be reassociated and contracted (MathOptions in widen.h).
  bool fast_math = false;
  /// Checks the module before, between and after the passes.
  bool verify = false;
  /// Null: this machine.
  const HostCpu* cpu = nullptr;
  /// Fills CodegenTimes::functions.
  bool resources = false;
  /// Is given the module between the passes on LLVM IR and code generation.
  std::function<void(llvm::Module&)> after_passes;
};

/// What the code of one function takes.
struct CodeResources {
  int64_t code_bytes = 0;
  int64_t stack_bytes = 0;
  int64_t spills = 0;        ///< registers that are stored because there are too few, in instructions
  int64_t reloads = 0;       ///< and read again
  int64_t registers = 0;     ///< of a thread, on a CUDA device
  int64_t shared_bytes = 0;  ///< of a block, on a CUDA device
  bool as_source = false;    ///< on a CUDA device: made as CUDA C++, not as PTX
  std::string no_source;     ///< why it was not, although it should have been or spills
};

/// Milliseconds of the thread's CPU time (what runs beside it does not count), and what came out.
struct CodegenTimes {
  double link = 0;      ///< bodies of the functions of ops
  double opt = 0;       ///< passes over LLVM IR
  double codegen = 0;   ///< instruction selection to object
  double assemble = 0;  ///< PTX or CUDA C++ to cubins, by the clock
  size_t object_bytes = 0;
  std::map<std::string, CodeResources> functions;  ///< of those that are not internal
};

/// The module becomes a relocatable ELF object: position independent, no unwind tables, external symbols only what the
/// loader knows (loader.h). Functions that are not internal are its symbols. Calls of tsr_* get their bodies (widen.h).
/// The module is used up: optimised in place. Module and context belong to the calling thread; several threads may
/// compile at once, each with a context of its own. Errors that LLVM reports through the context come back as an Error.
/// `times` may be null.
llvm::Expected<std::string> CompileToObject(llvm::Module& module, const CodegenOptions& options, CodegenTimes* times);

/// The same as text, to be looked at; for a CUDA device it is PTX, to be assembled. `times` may be null.
llvm::Expected<std::string> CompileToAssembly(llvm::Module& module, const CodegenOptions& options,
                                              CodegenTimes* times = nullptr);
/// The module after the passes, as text.
llvm::Expected<std::string> CompileToOptimizedIr(llvm::Module& module, const CodegenOptions& options);

/// Fills in the bytes of code of kernels in a cubin, for those functions that are there.
void MeasureCubin(llvm::StringRef cubin, std::map<std::string, CodeResources>* functions);

/// Sets the module's triple and data layout to this machine's; CompileToObject does so too. Whoever builds IR that
/// depends on sizes calls it first.
llvm::Error SetTarget(llvm::Module& module);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_CODEGEN_H_
