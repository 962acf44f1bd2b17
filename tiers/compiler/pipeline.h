// From the text of a trace through the four stages to an object. Everything here runs on one thread.
#ifndef TESSERA_TIERS_COMPILER_PIPELINE_H_
#define TESSERA_TIERS_COMPILER_PIPELINE_H_

#include <memory>
#include <string>

#include "llvm/IR/Module.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "tiers/compiler/passes.h"

namespace tessera::compiler {

enum class Stage { graph, sched, tile, target };

/// Milliseconds of each part of a compile.
struct StageTimes {
  double parse = 0, sched = 0, tile = 0, target = 0, link = 0, opt = 0, codegen = 0;
};

/// A context with the dialects of the compiler, and none of MLIR's threads.
std::unique_ptr<mlir::MLIRContext> NewContext();
/// The options of this machine.
CompileOptions OptionsOfThisMachine();

/// The passes that take a module from the stage before to that one.
void AddPasses(mlir::OpPassManager& passes, Stage stage, const CompileOptions& options);

/// One compile. Errors are in error(), as MLIR and LLVM report them.
class Pipeline {
 public:
  Pipeline(mlir::MLIRContext& context, const CompileOptions& options) : context_(context), options_(options) {}

  bool Parse(llvm::StringRef text);
  bool RunTo(Stage stage);
  /// After RunTo(Stage::target): plan and object, as tiers/compiler.h says.
  bool Artifact(std::string* out);
  /// The text of the module as it is, or "llvm" and "asm" after RunTo(Stage::target).
  bool Text(llvm::StringRef what, std::string* out);

  const std::string& error() const { return error_; }
  const StageTimes& times() const { return times_; }
  mlir::ModuleOp module() { return module_.get(); }

 private:
  bool Fail(std::string message);
  std::unique_ptr<llvm::Module> ToLlvm(llvm::LLVMContext& context);

  mlir::MLIRContext& context_;
  const CompileOptions options_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::string error_;
  StageTimes times_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_PIPELINE_H_
