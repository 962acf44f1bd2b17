#include "tiers/compiler/pipeline.h"

#include <algorithm>
#include <chrono>

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FormatVariadic.h"
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
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/sched/f8_factors.h"
#include "tiers/compiler/sched/product.h"
#include "tiers/compiler/sched/prologue.h"
#include "tiers/compiler/target/cuda_source.h"
#include "tiers/compiler/target/nvptx.h"
#include "tiers/compiler/target/nvrtc.h"
#include "tiers/compiler/tile/loop_nest.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

double Milliseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

class Clock {
 public:
  explicit Clock(double* to) : to_(to), start_(std::chrono::steady_clock::now()) {}
  ~Clock() { *to_ += Milliseconds(start_); }

 private:
  double* to_;
  std::chrono::steady_clock::time_point start_;
};

bool HasPlaces(ModuleOp module) {
  const WalkResult walked = module.walk([](Operation* op) {
    const WalkResult found = op->getLoc()->walk(
        [](Location loc) { return isa<FileLineColLoc>(loc) ? WalkResult::interrupt() : WalkResult::advance(); });
    return found;
  });
  return walked.wasInterrupted();
}

/// Notes how long each pass takes.
class PassTimer : public PassInstrumentation {
 public:
  explicit PassTimer(std::vector<PassTime>& times) : times_(times) {}
  void runBeforePass(Pass*, Operation*) override { starts_.push_back(std::chrono::steady_clock::now()); }
  void runAfterPass(Pass* pass, Operation*) override {
    // Adaptors hold other passes and have no name of their own.
    if (!pass->getArgument().empty()) times_.push_back({pass->getArgument().str(), Milliseconds(starts_.back())});
    starts_.pop_back();
  }
  void runAfterPassFailed(Pass*, Operation*) override { starts_.pop_back(); }

 private:
  std::vector<PassTime>& times_;
  std::vector<std::chrono::steady_clock::time_point> starts_;
};

}  // namespace

StringRef NameOf(Stage stage) {
  static constexpr const char* kNames[] = {"graph", "sched", "tile", "target"};
  return kNames[static_cast<int>(stage)];
}

std::optional<Stage> StageOf(ModuleOp module) {
  std::optional<Stage> stage;
  module.walk([&](Operation* op) {
    // What is furthest on says where the module is: ops that no kernel took stay beside kernels.
    const std::optional<Stage> at = isa<graph::TraceOp>(op)    ? std::optional(Stage::graph)
                                    : isa<sched::KernelOp>(op) ? std::optional(Stage::sched)
                                    : isa<tile::KernelOp>(op)  ? std::optional(Stage::tile)
                                    : isa<target::LaunchOp>(op) || isa<LLVM::LLVMFuncOp>(op)
                                        ? std::optional(Stage::target)
                                        : std::nullopt;
    if (at && (!stage || *at > *stage)) stage = at;
  });
  return stage;
}

void AddDialects(DialectRegistry& registry) {
  RegisterDialects(registry);
  registry.insert<arith::ArithDialect, scf::SCFDialect, cf::ControlFlowDialect, LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

std::unique_ptr<MLIRContext> NewContext() {
  DialectRegistry registry;
  AddDialects(registry);
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

Bf16 Bf16Of(const HostCpu& cpu) {
  const llvm::Triple triple(cpu.triple);
  // Kernels for narrower vectors have the narrower forms, which every such processor has.
  if (triple.isX86() && HasFeature(cpu, "+avx512bf16") && HasFeature(cpu, "+avx512vl")) return Bf16::avx512;
  return triple.isAArch64() && HasFeature(cpu, "+bf16") ? Bf16::neon : Bf16::none;
}

CompileOptions OptionsOfThisMachine() {
  CompileOptions options;
  static const int vector_bytes = VectorBytes(ThisCpu());
  options.vector_bytes = vector_bytes;
  static const Bf16 bf16 = Bf16Of(ThisCpu());
  options.bf16 = bf16;
  // interp/cpu/gemm_direct.cc asks for the same.
  options.library_bf16 = bf16 == Bf16::neon;
  return options;
}

void AddPasses(OpPassManager& passes, Stage stage, const CompileOptions& options) {
  switch (stage) {
    case Stage::graph: break;
    case Stage::sched:
      passes.addPass(MakeFusePass(options));
      passes.addPass(MakeNumbersPass());
      passes.addPass(MakeDecomposePass());
      passes.addPass(MakeSimplifyPass());
      passes.addPass(createCSEPass());
      break;
    case Stage::tile:
      passes.addPass(options.device.empty() ? MakeLowerKernelsPass(options) : MakeLowerKernelsGpuPass(options));
      passes.addPass(createCSEPass());
      break;
    case Stage::target:
      passes.addPass(options.device.empty() ? MakeLowerToLlvmPass(options) : MakeLowerToNvvmPass());
      passes.addPass(createSCFToControlFlowPass());
      passes.addPass(createArithToLLVMConversionPass());
      passes.addPass(createConvertControlFlowToLLVMPass());
      passes.addPass(createReconcileUnrealizedCastsPass());
      break;
  }
}

/// Collects the first error that MLIR reports while it lives.
class Pipeline::Diagnosed {
 public:
  explicit Diagnosed(MLIRContext& context)
      : handler_(&context, [this](Diagnostic& d) {
          if (d.getSeverity() != DiagnosticSeverity::Error || !text_.empty()) return success();
          // Where in the text; places in the program that a trace came from are in the text of the stage.
          if (auto place = dyn_cast<FileLineColLoc>(d.getLocation()))
            text_ = llvm::formatv("{0}:{1}:{2}: ", place.getFilename().str(), place.getLine(), place.getColumn());
          text_ += d.str();
          return success();
        }) {}
  std::string Or(const char* otherwise) const { return text_.empty() ? otherwise : text_; }

 private:
  std::string text_;
  ScopedDiagnosticHandler handler_;
};

bool Pipeline::Fail(std::string message) {
  if (error_.empty()) error_ = std::move(message);
  return false;
}

bool Pipeline::Parse(StringRef text, StringRef name) {
  Clock clock(&times_.parse);
  const Diagnosed diagnosed(context_);
  module_ = parseSourceString<ModuleOp>(text, ParserConfig(&context_), name);
  if (!module_) return Fail(diagnosed.Or("it is no module"));
  return Begin();
}

void Pipeline::ForgetPlaces(StringRef name) {
  const auto is_forgotten = [&](Location loc) {
    auto place = dyn_cast<FileLineColLoc>(loc);
    return place && place.getFilename() == name;
  };
  module_->walk([&](Operation* op) {
    if (is_forgotten(op->getLoc())) op->setLoc(UnknownLoc::get(&context_));
  });
  ForgetArgumentPlaces(is_forgotten);
}

void Pipeline::ForgetArgumentPlaces(llvm::function_ref<bool(Location)> is_forgotten) {
  module_->walk([&](Block* block) {
    for (BlockArgument argument : block->getArguments())
      if (is_forgotten(argument.getLoc())) argument.setLoc(UnknownLoc::get(&context_));
  });
}

bool Pipeline::Copy(ModuleOp module) {
  const Diagnosed diagnosed(context_);
  if (failed(verify(module))) return Fail(diagnosed.Or("the module is invalid"));
  module_ = module.clone();
  return Begin();
}

bool Pipeline::Begin() {
  const std::optional<Stage> stage = StageOf(*module_);
  if (!stage)
    return Fail(
        "nothing to compile: the module has no tsr_graph.trace, tsr_sched.kernel, tsr_tile.kernel or "
        "tsr_target.launch");
  stage_ = *stage;
  return true;
}

bool Pipeline::RunTo(Stage stage) {
  const Diagnosed diagnosed(context_);
  double* times[] = {&times_.parse, &times_.sched, &times_.tile, &times_.target};
  while (stage_ < stage) {
    const Stage next = static_cast<Stage>(static_cast<int>(stage_) + 1);
    Clock clock(times[static_cast<int>(next)]);
    PassManager passes(&context_);
    // Once for a stage is enough here: tessera-opt looks after each pass.
    passes.enableVerifier(false);
    if (profile_) passes.addInstrumentation(std::make_unique<PassTimer>(passes_));
    AddPasses(passes, next, options_);
    if (failed(passes.run(*module_)) || failed(verify(*module_))) return Fail(diagnosed.Or("a pass failed"));
    stage_ = next;
  }
  return true;
}

std::unique_ptr<llvm::Module> Pipeline::ToLlvm(llvm::LLVMContext& context) {
  const Diagnosed diagnosed(context_);
  // The plan is not translated: it is out of the way meanwhile.
  SmallVector<std::pair<Operation*, Operation*>> plan;  // and what stands before it
  for (target::LaunchOp launch : llvm::make_early_inc_range(module_->getOps<target::LaunchOp>())) {
    plan.push_back({launch, launch->getPrevNode()});
    launch->remove();
  }
  auto llvm_module = translateModuleToLLVMIR(*module_, context, "kernels");
  for (auto [launch, before] : plan) {
    Block* body = module_->getBody();
    body->getOperations().insert(before ? std::next(before->getIterator()) : body->begin(), launch);
  }
  if (!llvm_module) Fail(diagnosed.Or("the kernels cannot be translated to LLVM IR"));
  return llvm_module;
}

CodegenOptions Pipeline::CodegenOf(const HostCpu* cpu) const {
  CodegenOptions options;
  options.opt_level = options_.tier >= 3 || !options_.device.empty() ? 2 : 1;
  options.fast_math = options_.fast_math;
  options.cpu = cpu;
  return options;
}

bool Pipeline::Object(const HostCpu* cpu, std::string* object, std::map<std::string, CodeResources>* code) {
  llvm::LLVMContext llvm_context;
  std::unique_ptr<llvm::Module> module;
  {
    Clock clock(&times_.target);
    module = ToLlvm(llvm_context);
  }
  if (!module) return false;
  CodegenTimes times;
  CodegenOptions options = CodegenOf(cpu);
  options.resources = code != nullptr;
  llvm::Expected<std::string> compiled = CompileToObject(*module, options, &times);
  if (!compiled) return Fail(llvm::toString(compiled.takeError()));
  *object = std::move(*compiled);
  if (code != nullptr) *code = std::move(times.functions);
  times_.link = times.link, times_.opt = times.opt, times_.codegen = times.codegen;
  return true;
}

// There are two ways down. PTX of LLVM's is assembled by nvJitLink, in a fourth of the time. But that makes code which
// others could be linked to, and there groups of warps cannot hand registers to each other (setmaxnreg): a kernel on
// tensor cores has no more than 168 for a thread. NVRTC's code can have 232. So what the schedule says goes that way,
// and what spills otherwise.
bool Pipeline::DeviceObject(const HostCpu& device, size_t assemblers, DeviceImage* image,
                            std::map<std::string, CodeResources>* code) {
  llvm::LLVMContext llvm_context;
  std::unique_ptr<llvm::Module> module;
  {
    Clock clock(&times_.target);
    module = ToLlvm(llvm_context);
  }
  if (!module) return false;
  std::set<std::string> wanted, possible;
  size_t kernels = 0;
  for (const llvm::Function& f : *module) {
    if (f.getCallingConv() != llvm::CallingConv::PTX_Kernel) continue;
    ++kernels;
    if (f.hasFnAttribute(kAsSource) || WantsSource(options_)) wanted.insert(f.getName().str());
    if (f.hasFnAttribute(kHoldsSums) && device.cpu == "sm_90a") possible.insert(f.getName().str());
  }
  // The time that it takes to open a library is not that of a compile.
  const bool assembles = HasAssembler();
  if (!wanted.empty()) HasNvrtc();
  CodegenTimes times;
  CodegenOptions options = CodegenOf(&device);
  std::optional<CudaSource> source;
  std::string cubin_of_source;
  std::map<std::string, CodeResources> own, of_source;
  const bool is_all = wanted.size() == kernels;
  bool is_done = false;
  if (!wanted.empty() || !possible.empty()) {
    options.after_passes = [&](llvm::Module& m) {
      if (llvm::Expected<CudaSource> made = ToCudaSource(m)) {
        source = std::move(*made);
      } else {
        no_source_ = llvm::toString(made.takeError());
      }
      // PTX for the driver and a cubin are not one artifact.
      if (!source || wanted.empty() || !(assembles || is_all)) return;
      cubin_of_source = FromSource(*source, wanted, device, of_source);
      if (cubin_of_source.empty()) return;
      for (const std::string& name : wanted) {
        m.getFunction(name)->eraseFromParent();
        possible.erase(name);
      }
      is_done = is_all;
    };
  }
  llvm::Expected<std::string> ptx = CompileToAssembly(*module, options, &times);
  if (!ptx) return Fail(llvm::toString(ptx.takeError()));
  times_.link = times.link, times_.opt = times.opt, times_.codegen = times.codegen;
  std::string refused;
  if (!is_done && assembles) {
    Clock clock(&times_.assemble);
    if (llvm::Expected<std::vector<std::string>> cubins = Assemble(
            SplitKernels(*ptx, assemblers), device.cpu, code != nullptr || !possible.empty() ? &own : nullptr)) {
      for (const std::string& cubin : *cubins) {
        image->Add(cubin);
        MeasureCubin(cubin, &own);
      }
    } else if (!cubin_of_source.empty()) {
      return Fail(llvm::toString(cubins.takeError()));
    } else {
      // Its driver may know a device that the assembler here does not.
      std::string why = llvm::toString(cubins.takeError());
      std::replace(why.begin(), why.end(), '\n', ' ');
      refused = std::string(tiers::kRefused) + why + "\n";
    }
  }
  // What spills is tried the other way. (With kernels that went there already, it would be a third image.)
  std::set<std::string> spilled;
  for (const std::string& name : possible)
    if (own[name].spills > 0) spilled.insert(name);
  if (image->is_cubin() && cubin_of_source.empty() && source && !spilled.empty()) {
    cubin_of_source = FromSource(*source, spilled, device, of_source);
    int64_t before = 0, after = 0;
    for (const std::string& name : spilled) before += own[name].spills, after += of_source[name].spills;
    if (!cubin_of_source.empty() && after >= before) no_source_ = "it spills as much";
    if (after >= before) {
      cubin_of_source.clear();
      of_source.clear();
    }
  }
  if (!cubin_of_source.empty()) {
    image->Add(cubin_of_source);
  } else if (!image->is_cubin()) {
    image->object = refused + *ptx;
    image->object.push_back('\0');
  }
  if (code != nullptr) {
    *code = std::move(own);
    if (cubin_of_source.empty() && !is_done)
      for (const std::set<std::string>* names : {&wanted, &spilled})
        for (const std::string& name : *names) (*code)[name].no_source = no_source_;
    for (auto& [name, resources] : of_source) {
      (*code)[name] = resources;
      (*code)[name].as_source = true;
    }
  }
  return true;
}

std::string Pipeline::FromSource(const CudaSource& source, const std::set<std::string>& kernels, const HostCpu& device,
                                 std::map<std::string, CodeResources>& code) {
  Clock clock(&times_.assemble);
  std::string text = source.common;
  for (const std::string& name : kernels) text += source.kernels.at(name);
  llvm::Expected<std::string> cubin = CompileCuda(text, device.cpu, &code);
  if (!cubin) {
    no_source_ = llvm::toString(cubin.takeError());
    return "";
  }
  MeasureCubin(*cubin, &code);
  return std::move(*cubin);
}

bool Pipeline::Text(StringRef what, const HostCpu* cpu, std::string* out) {
  llvm::raw_string_ostream stream(*out);
  if (what == "space") {
    module_->walk([&](sched::KernelOp kernel) {
      if (!kernel.getProduct()) return;
      auto step = kernel.getProduct()->getAs<IntegerAttr>("step");
      stream << "p" << (step ? step.getInt() : 0);
      ProductFacts facts;
      facts.has_prologue = !PrologueOf(kernel).empty();
      if (Operation* product = ProductsOf(kernel).first) {
        facts.has_matrix = ReadsMatrix(kernel.getBody().front().getArguments(), product);
        facts.is_bf16 = options_.device.empty() && kernel.getRow() == 0 && IsOfBf16(product);
        facts.has_scales = HasScales(product);
      }
      for (const std::string& choice : Alternatives(*ProductSchedule::FromAttr(*kernel.getProduct()), facts, options_))
        stream << " " << choice;
      stream << "\n";
    });
    return true;
  }
  if (what != "llvm" && what != "asm" && what != "cuda") {
    // A place of many ops is said at the ops, once each, and not at every argument again.
    ForgetArgumentPlaces([](Location loc) { return isa<FusedLoc>(loc); });
    OpPrintingFlags flags;
    // In the form that can be read again, by tessera-opt for one.
    flags.enableDebugInfo(/*enable=*/HasPlaces(*module_), /*prettyForm=*/false);
    module_->print(stream, flags);
    return true;
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = ToLlvm(context);
  if (!module) return false;
  CodegenOptions options = CodegenOf(cpu);
  llvm::Expected<CudaSource> source = CudaSource();
  if (what == "cuda") {
    if (cpu == nullptr || !IsDevice(*cpu)) return Fail("CUDA C++ is for CUDA devices");
    options.after_passes = [&](llvm::Module& m) { source = ToCudaSource(m); };
  }
  llvm::Expected<std::string> text =
      what == "asm" ? CompileToAssembly(*module, options) : CompileToOptimizedIr(*module, options);
  if (!source) return Fail(llvm::toString(source.takeError()));
  if (!text) return Fail(llvm::toString(text.takeError()));
  if (what != "cuda") {
    stream << *text;
    return true;
  }
  stream << source->common;
  for (const auto& [name, kernel] : source->kernels) stream << kernel;
  return true;
}

}  // namespace tessera::compiler
