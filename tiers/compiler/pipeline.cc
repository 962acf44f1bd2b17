#include "tiers/compiler/pipeline.h"

#include <algorithm>
#include <chrono>
#include <map>

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
#include "tiers/compiler/tile/loop_nest.h"
#include "tiers/compiler/worker.h"

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

std::unique_ptr<llvm::Module> Pipeline::ToLlvm(llvm::LLVMContext& context, const llvm::DenseSet<Operation*>& left_out) {
  const Diagnosed diagnosed(context_);
  // Nor is the plan translated: it is out of the way meanwhile.
  SmallVector<std::pair<Operation*, Operation*>> away;  // and what stands before it
  for (Operation& op : llvm::make_early_inc_range(*module_->getBody())) {
    if (!isa<target::LaunchOp>(op) && !left_out.contains(&op)) continue;
    away.push_back({&op, op.getPrevNode()});
    op.remove();
  }
  auto llvm_module = translateModuleToLLVMIR(*module_, context, "kernels");
  for (auto [op, before] : llvm::reverse(away)) {
    Block* body = module_->getBody();
    body->getOperations().insert(before ? std::next(before->getIterator()) : body->begin(), op);
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

namespace {

// Kernels that one thread makes, with the globals that are theirs.
struct Share {
  llvm::DenseSet<Operation*> ops;
  size_t size = 0;
};

// The largest kernels first, each to the share that is the smallest so far. What has no kernel's name before its
// first '_' is in none, and everybody has it.
std::vector<Share> SharesOf(ModuleOp module, size_t most) {
  const auto owner = [](Operation& op) {
    auto symbol = dyn_cast<SymbolOpInterface>(op);
    return symbol ? symbol.getName().split('_').first : StringRef();
  };
  std::map<std::string, Share> kernels;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (function.getCConv() == LLVM::CConv::PTX_Kernel) kernels[owner(*function).str()];
  for (Operation& op : *module.getBody()) {
    const auto it = kernels.find(owner(op).str());
    if (it == kernels.end()) continue;
    it->second.ops.insert(&op);
    op.walk([&](Operation*) { ++it->second.size; });
  }
  std::vector<Share> all;
  for (auto& [name, share] : kernels) all.push_back(std::move(share));
  std::sort(all.begin(), all.end(), [](const Share& a, const Share& b) { return a.size > b.size; });
  std::vector<Share> shares(std::clamp<size_t>(most, 1, std::max<size_t>(1, all.size())));
  for (const Share& kernel : all) {
    Share& least =
        *std::min_element(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.size < b.size; });
    least.ops.insert(kernel.ops.begin(), kernel.ops.end());
    least.size += kernel.size;
  }
  return shares;
}

}  // namespace

bool Pipeline::DeviceObject(const HostCpu& device, size_t threads, DeviceImage* image,
                            std::map<std::string, CodeResources>* code) {
  DeviceOptions options;
  options.codegen = CodegenOf(&device);
  options.codegen.resources = code != nullptr;
  options.as_source = WantsSource(options_);
  // The time that it takes to open a library is not that of a compile. Texts of PTX cannot be put together.
  const std::vector<Share> shares = SharesOf(*module_, HasAssembler() ? threads : 1);
  struct Part {
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> module;
    compiler::DeviceObject made;
    std::string error;
  };
  std::vector<Part> parts(shares.size());
  const auto make = [&](Part& part) {
    llvm::Expected<compiler::DeviceObject> made = MakeDeviceObject(*part.module, options);
    if (made)
      part.made = std::move(*made);
    else
      part.error = llvm::toString(made.takeError());
    part.module = nullptr;
  };
  {
    Helpers helpers;
    for (size_t i = 0; i < parts.size(); ++i) {
      llvm::DenseSet<Operation*> of_others;
      for (size_t k = 0; k < shares.size(); ++k)
        if (k != i) of_others.insert(shares[k].ops.begin(), shares[k].ops.end());
      {
        Clock clock(&times_.target);
        parts[i].module = ToLlvm(parts[i].context, of_others);
      }
      if (!parts[i].module) return false;
      // The last one is the smallest.
      const auto job = [&make, &part = parts[i]] { make(part); };
      if (i + 1 == parts.size() || !helpers.Run(job)) job();
    }
  }
  const auto longest = [&](double CodegenTimes::* time) {
    double most = 0;
    for (const Part& part : parts) most = std::max(most, part.made.times.*time);
    return most;
  };
  times_.link = longest(&CodegenTimes::link), times_.opt = longest(&CodegenTimes::opt);
  times_.codegen = longest(&CodegenTimes::codegen), times_.assemble = longest(&CodegenTimes::assemble);
  for (const Part& part : parts)
    if (!part.error.empty()) return Fail(part.error);
  // One text of PTX for the driver: not every part could be assembled.
  if (parts.size() > 1 && llvm::any_of(parts, [](const Part& part) { return !part.made.image.is_cubin(); }))
    return DeviceObject(device, 1, image, code);
  if (parts.size() == 1) *image = std::move(parts[0].made.image);
  for (Part& part : parts) {
    if (parts.size() > 1) image->Add(part.made.image);
    if (code != nullptr) code->merge(part.made.code);
  }
  return true;
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
