// From a module through the four stages to an object. Passes run on one thread; kernels of a device that are code of
// LLVM's are made by several, where there are several.
#ifndef TESSERA_TIERS_COMPILER_PIPELINE_H_
#define TESSERA_TIERS_COMPILER_PIPELINE_H_

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/Module.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "tiers/compiler/device_object.h"
#include "tiers/compiler/passes.h"
#include "tiers/compiler/target/codegen.h"
#include "tiers/compiler/target/cuda_source.h"

namespace tessera::compiler {

enum class Stage { graph, sched, tile, target };
llvm::StringRef NameOf(Stage stage);
/// The stage that a module is at, by what is in it; nothing for a module that is none of ours.
std::optional<Stage> StageOf(mlir::ModuleOp module);

/// Milliseconds of each part of a compile.
struct StageTimes {
  double parse = 0, sched = 0, tile = 0, target = 0, link = 0, opt = 0, codegen = 0, assemble = 0;
};
struct PassTime {
  std::string pass;
  double milliseconds = 0;
};

/// A context with the dialects of the compiler, and none of MLIR's threads.
std::unique_ptr<mlir::MLIRContext> NewContext();
/// Those dialects, and what it takes to translate them.
void AddDialects(mlir::DialectRegistry& registry);
/// What that processor has for products of bf16.
Bf16 Bf16Of(const HostCpu& cpu);
/// The options of this machine.
CompileOptions OptionsOfThisMachine();

/// The passes that take a module from the stage before to that one.
void AddPasses(mlir::OpPassManager& passes, Stage stage, const CompileOptions& options);

/// One compile. Errors are in error(), as MLIR and LLVM report them.
class Pipeline {
 public:
  Pipeline(mlir::MLIRContext& context, const CompileOptions& options) : context_(context), options_(options) {}

  /// A module from text, or a copy of one; either is verified.
  bool Parse(llvm::StringRef text, llvm::StringRef name);
  bool Copy(mlir::ModuleOp module);
  /// From the stage the module is at; nothing happens where it is beyond that one already.
  bool RunTo(Stage stage);
  /// At Stage::target: the kernels as a relocatable object. `cpu` null: this machine. `code` may be null; where it is
  /// given, it gets what the code generator says of each function.
  bool Object(const HostCpu* cpu, std::string* object, std::map<std::string, CodeResources>* code);
  /// The same for CUDA devices. At most so many threads share the kernels, and each makes a cubin of its own.
  bool DeviceObject(const HostCpu& device, size_t threads, DeviceImage* image,
                    std::map<std::string, CodeResources>* code);
  /// Places in a text of that name become unknown: for text that nobody wrote.
  void ForgetPlaces(llvm::StringRef name);
  /// The text of the module as it is, or "llvm", "asm" and "cuda" at Stage::target. Ops say where they came from, where
  /// that is known.
  bool Text(llvm::StringRef what, const HostCpu* cpu, std::string* out);

  /// Times of every pass from now on.
  void ProfilePasses() { profile_ = true; }

  const std::string& error() const { return error_; }
  const StageTimes& times() const { return times_; }
  const std::vector<PassTime>& passes() const { return passes_; }
  mlir::ModuleOp module() { return module_.get(); }
  Stage stage() const { return stage_; }

 private:
  class Diagnosed;
  bool Fail(std::string message);
  bool Begin();
  void ForgetArgumentPlaces(llvm::function_ref<bool(mlir::Location)> is_forgotten);
  /// What is in `left_out` is not translated.
  std::unique_ptr<llvm::Module> ToLlvm(llvm::LLVMContext& context,
                                       const llvm::DenseSet<mlir::Operation*>& left_out = {});
  CodegenOptions CodegenOf(const HostCpu* cpu) const;

  mlir::MLIRContext& context_;
  const CompileOptions options_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  Stage stage_ = Stage::graph;
  bool profile_ = false;
  std::string error_;
  StageTimes times_;
  std::vector<PassTime> passes_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_PIPELINE_H_
