#include "tiers/compiler/pipeline.h"

#include <chrono>

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "tiers/compiler.h"
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/sched/product.h"
#include "tiers/compiler/target/codegen.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

class Clock {
 public:
  explicit Clock(double* to) : to_(to), start_(std::chrono::steady_clock::now()) {}
  ~Clock() { *to_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double* to_;
  std::chrono::steady_clock::time_point start_;
};

void Append(std::vector<int64_t>& words, ArrayRef<int32_t> list) {
  words.push_back(static_cast<int64_t>(list.size()));
  words.insert(words.end(), list.begin(), list.end());
}
void Append(std::vector<int64_t>& words, ArrayRef<int64_t> list) {
  words.push_back(static_cast<int64_t>(list.size()));
  words.insert(words.end(), list.begin(), list.end());
}

std::vector<int64_t> PlanOf(ModuleOp module) {
  std::vector<int64_t> words = {0};
  for (target::LaunchOp launch : module.getOps<target::LaunchOp>()) {
    ++words[0];
    words.push_back(launch.getPosition());
    Append(words, launch.getSteps());
    Append(words, launch.getInputs());
    Append(words, launch.getOutputs());
    words.push_back(static_cast<int64_t>(launch.getDims().size()));
    for (Attribute d : launch.getDims()) {
      words.push_back(cast<DenseI64ArrayAttr>(d)[0]);
      words.push_back(cast<DenseI64ArrayAttr>(d)[1]);
    }
    words.push_back(static_cast<int64_t>(launch.getStrides().size()));
    for (Attribute s : launch.getStrides()) Append(words, cast<DenseI64ArrayAttr>(s).asArrayRef());
    Append(words, launch.getTasks());
    Append(words, launch.getBlocks().value_or(ArrayRef<int64_t>()));
    Append(words, launch.getUnit());
    Append(words, launch.getScratch());
    words.push_back(static_cast<int64_t>(launch.getFixed()));
    words.push_back(static_cast<int64_t>(launch.getGrain()));
  }
  return words;
}

}  // namespace

std::unique_ptr<MLIRContext> NewContext() {
  DialectRegistry registry;
  RegisterDialects(registry);
  registry.insert<arith::ArithDialect, scf::SCFDialect, cf::ControlFlowDialect, LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

CompileOptions OptionsOfThisMachine() {
  CompileOptions options;
  const HostCpu& cpu = ThisCpu();
  options.vector_bytes = cpu.features.find("+avx512f") != std::string::npos ? 64
                         : cpu.features.find("+avx2") != std::string::npos  ? 32
                                                                            : 16;
  return options;
}

void AddPasses(OpPassManager& passes, Stage stage, const CompileOptions& options) {
  switch (stage) {
    case Stage::graph: break;
    case Stage::sched:
      passes.addPass(MakeFusePass(options));
      passes.addPass(MakeDecomposePass());
      passes.addPass(MakeSimplifyPass());
      passes.addPass(createCSEPass());
      break;
    case Stage::tile:
      passes.addPass(MakeLowerKernelsPass(options));
      passes.addPass(createCSEPass());
      break;
    case Stage::target:
      passes.addPass(MakeLowerToLlvmPass());
      passes.addPass(createSCFToControlFlowPass());
      passes.addPass(createArithToLLVMConversionPass());
      passes.addPass(createConvertControlFlowToLLVMPass());
      passes.addPass(createReconcileUnrealizedCastsPass());
      break;
  }
}

bool Pipeline::Fail(std::string message) {
  if (error_.empty()) error_ = std::move(message);
  return false;
}

bool Pipeline::Parse(StringRef text) {
  Clock clock(&times_.parse);
  std::string reported;
  ScopedDiagnosticHandler handler(&context_, [&](Diagnostic& d) {
    if (reported.empty()) reported = d.str();
    return success();
  });
  module_ = parseSourceString<ModuleOp>(text, ParserConfig(&context_), "trace");
  if (!module_) return Fail("the trace is no module: " + reported);
  return true;
}

bool Pipeline::RunTo(Stage stage) {
  std::string reported;
  ScopedDiagnosticHandler handler(&context_, [&](Diagnostic& d) {
    if (reported.empty()) reported = d.str();
    return success();
  });
  double* times[] = {&times_.parse, &times_.sched, &times_.tile, &times_.target};
  for (int s = 0; s <= static_cast<int>(stage); ++s) {
    Clock clock(times[s]);
    PassManager passes(&context_);
    AddPasses(passes, static_cast<Stage>(s), options_);
    if (failed(passes.run(*module_))) return Fail(reported.empty() ? "a pass failed" : reported);
  }
  return true;
}

std::unique_ptr<llvm::Module> Pipeline::ToLlvm(llvm::LLVMContext& context) {
  OwningOpRef<ModuleOp> copy = module_->clone();
  SmallVector<Operation*> plan;
  for (target::LaunchOp launch : copy->getOps<target::LaunchOp>()) plan.push_back(launch);
  for (Operation* op : plan) op->erase();
  auto llvm_module = translateModuleToLLVMIR(*copy, context, "kernels");
  if (!llvm_module) Fail("the kernels cannot be translated to LLVM IR");
  return llvm_module;
}

bool Pipeline::Artifact(std::string* out) {
  const std::vector<int64_t> plan = PlanOf(*module_);
  std::string object;
  if (plan[0] > 0) {
    llvm::LLVMContext llvm_context;
    std::unique_ptr<llvm::Module> module;
    {
      Clock clock(&times_.target);
      module = ToLlvm(llvm_context);
    }
    if (!module) return false;
    CodegenTimes times;
    CodegenOptions options;
    options.opt_level = options_.tier >= 3 ? 2 : 1;
    options.fast_math = options_.fast_math;
    llvm::Expected<std::string> compiled = CompileToObject(*module, options, &times);
    if (!compiled) return Fail(llvm::toString(compiled.takeError()));
    object = *std::move(compiled);
    times_.link = times.link, times_.opt = times.opt, times_.codegen = times.codegen;
  }
  tiers::ArtifactHeader header = {{'T', 'S', 'R', 'A'}, tiers::kArtifactVersion, plan.size(), object.size()};
  out->assign(reinterpret_cast<const char*>(&header), sizeof header);
  out->append(reinterpret_cast<const char*>(plan.data()), plan.size() * sizeof plan[0]);
  out->append(object);
  return true;
}

bool Pipeline::Text(StringRef what, std::string* out) {
  llvm::raw_string_ostream stream(*out);
  if (what == "space") {
    module_->walk([&](sched::KernelOp kernel) {
      if (!kernel.getProduct()) return;
      auto step = kernel.getProduct()->getAs<IntegerAttr>("step");
      stream << "p" << (step ? step.getInt() : 0);
      for (const std::string& choice : Alternatives(*ProductSchedule::FromAttr(*kernel.getProduct())))
        stream << " " << choice;
      stream << "\n";
    });
    return true;
  }
  if (what != "llvm" && what != "asm") {
    // Without places in the source: what is shown can be given to tessera-opt.
    module_->print(stream);
    return true;
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = ToLlvm(context);
  if (!module) return false;
  CodegenOptions options;
  options.opt_level = options_.tier >= 3 ? 2 : 1;
  options.fast_math = options_.fast_math;
  llvm::Expected<std::string> text =
      what == "asm" ? CompileToAssembly(*module, options) : CompileToOptimizedIr(*module, options);
  if (!text) return Fail(llvm::toString(text.takeError()));
  stream << *text;
  return true;
}

}  // namespace tessera::compiler
