// The compiler for programs that hold MLIR: a module of any stage goes in; code, the plan by which it is launched, the
// texts of stages and a performance report come out. examples/compile.cc shows its use.
//
// The core does not come this way: it has a trace as text and wants bytes (tiers/compiler.h), and gets them by the same
// functions.
#ifndef TESSERA_TIERS_COMPILER_COMPILE_H_
#define TESSERA_TIERS_COMPILER_COMPILE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "mlir/IR/BuiltinOps.h"
#include "tiers/compiler.h"
#include "tiers/compiler/pipeline.h"
#include "tiers/compiler/report.h"
#include "tiers/compiler/target/loader.h"

namespace tessera::compiler {

struct CompileSettings {
  /// What the code is for is options.device: this machine's architecture, or CUDA devices of a kind.
  /// A processor of this machine's architecture, as -mcpu names it, and features on top of its own ("+sve,-bf16").
  /// Empty: this machine.
  std::string cpu, features;
  /// The tier, fusion, grain and so on, but for what follows from the processor: its bf16, and its vector_bytes unless
  /// they are given here: kernels for wider vectors than it has are right, and slow.
  CompileOptions options;
  int vector_bytes = 0;
  /// Times of every pass, in Compiled::passes.
  bool profile = false;
  /// Fills Compiled::report.
  bool report = true;
  /// Stages whose text is wanted: graph, sched, tile, target, llvm, asm, cuda. Those before the module's own are left
  /// out.
  std::vector<std::string> texts;
  /// Without: stops at the stage of the last text, and neither code nor a plan nor a report is made.
  bool code = true;
  /// Threads that share the kernels of a CUDA device. The object then has a cubin of each, and one more for kernels
  /// that were made as CUDA C++.
  size_t device_threads = 1;
};

struct Compiled {
  HostCpu cpu;
  std::string object;  ///< what `kind` says; empty if there is no kernel
  /// Bytes of each cubin in the object, one after the other (DeviceImage in pipeline.h).
  std::vector<int64_t> cubins;
  tiers::ArtifactKind kind = tiers::kHostObject;
  std::vector<Launch> plan;                  ///< in the order in which kernels run
  std::map<std::string, std::string> texts;  ///< of the stages that were asked for
  StageTimes times;
  std::vector<PassTime> passes;  ///< in the order in which they ran
  std::vector<KernelReport> report;
};

/// Compiles a module of tsr_graph, or of a later stage, which stays as it is: a copy goes through the passes. Blocks as
/// long as the compile takes. It runs on the compiler's own thread; an error from which LLVM does not return costs that
/// thread, comes back as an Error, and leaves the module's context to the dead: it must not be used or destroyed then.
llvm::Expected<Compiled> Compile(mlir::ModuleOp module, const CompileSettings& settings);
/// The same for text. `name` stands for it in messages and locations.
llvm::Expected<Compiled> Compile(llvm::StringRef text, const CompileSettings& settings,
                                 llvm::StringRef name = "module");

/// On this thread and in that context, without protection against LLVM: for the compiler's thread.
llvm::Expected<Compiled> CompileHere(Pipeline& pipeline, const CompileSettings& settings);

/// Makes a context ready for modules of the compiler: its dialects, and those that it lowers to. Not while passes run.
void PrepareContext(mlir::MLIRContext& context);

/// A tensor in memory, as a kernel sees it.
struct Buffer {
  void* data = nullptr;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  ///< in elements; empty: row-major
};

/// Kernels that can be called. Frees the code at its end, when nobody may be inside. Calls may run on several threads.
class Kernels {
 public:
  /// An error for code of another processor.
  static llvm::Expected<std::unique_ptr<Kernels>> Load(const Compiled& compiled);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  const std::vector<Launch>& plan() const { return plan_; }
  /// The function of that launch of the plan, for those who share its tasks among threads of their own.
  TesseraKernel function(size_t launch) const { return functions_[launch]; }
  /// Runs a launch of the plan, all of its tasks on this thread. The buffers are its inputs, then its outputs. An error
  /// where their number, dims or strides are not what the code was made for; elements must be of the right type.
  llvm::Error Run(size_t launch, llvm::ArrayRef<Buffer> buffers) const;

 private:
  Kernels() = default;
  std::vector<Launch> plan_;
  std::vector<TesseraKernel> functions_;
  Loader* loader_ = nullptr;
  Loader::Handle handle_ = 0;
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_COMPILE_H_
