#include "tiers/compiler/target/codegen.h"

#include <time.h>

#include <memory>
#include <mutex>

#include "llvm/ADT/SmallString.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/MachineOptimizationRemarkEmitter.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/PassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/GVN.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "tiers/compiler/target/sums.h"
#include "tiers/compiler/target/widen.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace tessera::compiler {
namespace {

/// CPU time of this thread in milliseconds.
double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

/// Without a handler of ours, LLVMContext prints an error and ends the process. Where `functions` is given, it also
/// listens to what the code generator remarks about registers and stacks.
class Diagnostics : public llvm::DiagnosticHandler {
 public:
  Diagnostics(std::string* errors, std::map<std::string, CodeResources>* functions)
      : errors_(errors), functions_(functions) {}
  bool isAnyRemarkEnabled() const override { return functions_ != nullptr; }
  bool isMissedOptRemarkEnabled(llvm::StringRef pass) const override {
    return functions_ != nullptr && pass == "regalloc";
  }
  bool isPassedOptRemarkEnabled(llvm::StringRef) const override { return false; }
  bool isAnalysisRemarkEnabled(llvm::StringRef pass) const override {
    return functions_ != nullptr && pass == "prologepilog";
  }

  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (const auto* remark = llvm::dyn_cast<llvm::DiagnosticInfoMIROptimization>(&info)) {
      if (functions_ != nullptr) Note(*remark);
      return true;
    }
    if (info.getSeverity() != llvm::DS_Error) return true;
    llvm::raw_string_ostream stream(*errors_);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    if (!errors_->empty()) stream << "; ";
    info.print(printer);
    return true;
  }

 private:
  void Note(const llvm::DiagnosticInfoMIROptimization& remark) {
    // Of the whole function; there are such remarks for each loop, too.
    if (remark.getRemarkName() != "SpillReloadCopies" && remark.getRemarkName() != "StackSize") return;
    CodeResources& r = (*functions_)[remark.getFunction().getName().str()];
    for (const auto& argument : remark.getArgs()) {
      int64_t n = 0;
      if (llvm::StringRef(argument.Val).getAsInteger(10, n)) continue;
      if (argument.Key == "NumSpills") r.spills = n;
      if (argument.Key == "NumReloads") r.reloads = n;
      if (argument.Key == "NumStackBytes") r.stack_bytes = n;
    }
  }

  std::string* errors_;
  std::map<std::string, CodeResources>* functions_;
};

/// Collects what is reported while it lives.
class DiagnosticScope {
 public:
  DiagnosticScope(llvm::LLVMContext& context, std::map<std::string, CodeResources>* functions)
      : context_(context), before_(context.getDiagnosticHandler()) {
    context_.setDiagnosticHandler(std::make_unique<Diagnostics>(&errors_, functions), /*RespectFilters=*/true);
  }
  ~DiagnosticScope() { context_.setDiagnosticHandler(std::move(before_)); }
  llvm::Error Take(const char* what) const {
    return errors_.empty() ? llvm::Error::success() : llvm::createStringError(llvm::Twine(what) + ": " + errors_);
  }

 private:
  llvm::LLVMContext& context_;
  std::unique_ptr<llvm::DiagnosticHandler> before_;
  std::string errors_;
};

void InitializeOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

llvm::CodeGenOptLevel CodeGenLevel(int opt_level) {
  switch (opt_level) {
    case 0: return llvm::CodeGenOptLevel::None;
    case 1: return llvm::CodeGenOptLevel::Less;
    case 2: return llvm::CodeGenOptLevel::Default;
    default: return llvm::CodeGenOptLevel::Aggressive;
  }
}

const HostCpu& CpuOf(const CodegenOptions& options) { return options.cpu != nullptr ? *options.cpu : ThisCpu(); }

llvm::Expected<const llvm::Target*> FindTarget(const llvm::Triple& triple) {
  InitializeOnce();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) return llvm::createStringError(error);
  return target;
}

llvm::Expected<std::unique_ptr<llvm::MCSubtargetInfo>> Subtarget(const HostCpu& cpu) {
  const llvm::Triple triple(cpu.triple);
  llvm::Expected<const llvm::Target*> target = FindTarget(triple);
  if (!target) return target.takeError();
  std::unique_ptr<llvm::MCSubtargetInfo> info((*target)->createMCSubtargetInfo(triple, cpu.cpu, cpu.features));
  if (info == nullptr) return llvm::createStringError("nothing is known of processors of " + cpu.triple);
  return info;
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> MakeMachine(const CodegenOptions& options) {
  const HostCpu& host = CpuOf(options);
  const llvm::Triple triple(host.triple);
  llvm::Expected<const llvm::Target*> found = FindTarget(triple);
  if (!found) return found.takeError();
  const llvm::Target* target = *found;
  llvm::TargetOptions target_options;
  // Fused steps are written as such; nothing else is fused, unless instructions say that they may be.
  target_options.AllowFPOpFusion = options.fast_math ? llvm::FPOpFusion::Standard : llvm::FPOpFusion::Strict;
  target_options.MCOptions.AsmVerbose = false;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, host.cpu, host.features, target_options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, CodeGenLevel(options.opt_level),
                                  /*JIT=*/!IsDevice(host)));
  if (machine == nullptr) return llvm::createStringError("no code generator for " + host.triple);
  return machine;
}

/// The passes are chosen for kernels: loops over vectors that MLIR has made, with the functions of ops called in them.
/// There is no vectoriser, because kernels come as vectors.
void Optimize(llvm::Module& module, llvm::TargetMachine& machine, const CodegenOptions& options) {
  llvm::LoopAnalysisManager lam;
  llvm::FunctionAnalysisManager fam;
  llvm::CGSCCAnalysisManager cgam;
  llvm::ModuleAnalysisManager mam;
  llvm::PassBuilder builder(&machine);
  // No function of the C library is known by its name, in either direction.
  fam.registerPass([&] {
    llvm::TargetLibraryInfoImpl info(machine.getTargetTriple());
    info.disableAllFunctions();
    return llvm::TargetLibraryAnalysis(std::move(info));
  });
  builder.registerModuleAnalyses(mam);
  builder.registerCGSCCAnalyses(cgam);
  builder.registerFunctionAnalyses(fam);
  builder.registerLoopAnalyses(lam);
  builder.crossRegisterProxies(lam, fam, cgam, mam);

  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass(/*InsertLifetime=*/false));
  if (options.opt_level > 0) {
    llvm::FunctionPassManager f;
    f.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    f.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
    f.addPass(llvm::SimplifyCFGPass());
    f.addPass(llvm::InstCombinePass());
    // On a device a block goes around its outer loop once, as a rule: addresses that are kept for the next time cost
    // registers, and the assembler knows better which of them are worth it.
    if (!IsDevice(CpuOf(options))) {
      llvm::LoopPassManager loops;
      loops.addPass(llvm::LoopRotatePass(/*EnableHeaderDuplication=*/true, /*PrepareForLTO=*/false));
      loops.addPass(llvm::LICMPass(llvm::LICMOptions()));
      f.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
    }
    if (options.opt_level > 1) {
      f.addPass(llvm::SimplifyCFGPass());
      f.addPass(llvm::GVNPass());
      f.addPass(llvm::InstCombinePass());
      llvm::LoopPassManager later;
      later.addPass(llvm::IndVarSimplifyPass());
      f.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(later)));
      if (options.opt_level > 2) f.addPass(llvm::LoopUnrollPass(llvm::LoopUnrollOptions(2)));
    }
    f.addPass(llvm::ADCEPass());
    f.addPass(llvm::SimplifyCFGPass());
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(f)));
  }
  passes.run(module, mam);
}

bool HoldsSums(llvm::Module& module) {
  return llvm::any_of(module, [](llvm::Function& f) { return f.hasFnAttribute(kHoldsSums); });
}

/// What MLIR has no words for. Text in assembly is for all threads of a warp together; what a kernel is given by value
/// is never written, so nobody needs a copy of it; and vectors of sums are taken apart, because text has an operand for
/// each of them.
void PrepareDevice(llvm::Module& module) {
  for (llvm::Function& f : module) {
    for (llvm::Argument& a : f.args())
      if (a.hasByValAttr()) a.addAttr(llvm::Attribute::get(module.getContext(), "nvvm.grid_constant"));
    for (llvm::Instruction& i : llvm::instructions(f))
      if (auto* call = llvm::dyn_cast<llvm::CallBase>(&i); call != nullptr && call->isInlineAsm())
        call->setConvergent();
  }
  for (llvm::Function& f : module)
    if (f.hasFnAttribute(kHoldsSums)) TakeSumsApart(f);
  for (llvm::Function& f : module) {
    if (!f.hasFnAttribute(kKeepsLoops)) continue;
    llvm::DominatorTree dominators(f);
    llvm::LoopInfo loops(dominators);
    for (llvm::Loop* loop : loops.getLoopsInPreorder()) loop->setLoopAlreadyUnrolled();
  }
}

/// What addPassesToEmitFile does, but for the two schedulers of machine code, which only the highest level has. The one
/// before register allocation costs as much as all the rest and wins little: instruction selection leaves a good order,
/// and out-of-order machines make their own. (gelu, 16 lanes of f32, on a Neoverse-N1: 32 ms and 5.8 ns per element
/// with both, 18 ms and 6.1 ns without; pow of f64 is faster without.)
bool AddCodegenPasses(llvm::legacy::PassManager& passes, llvm::TargetMachine& machine, llvm::raw_pwrite_stream& stream,
                      llvm::CodeGenFileType type, const CodegenOptions& options) {
  auto* info = new llvm::MachineModuleInfoWrapperPass(&machine);
  llvm::TargetPassConfig* config = machine.createPassConfig(passes);
  config->setDisableVerify(!options.verify);
  if (options.opt_level < 3) {
    config->disablePass(&llvm::MachineSchedulerID);
    config->disablePass(&llvm::PostMachineSchedulerID);
  }
  passes.add(config);
  passes.add(info);
  if (config->addISelPasses()) return false;
  config->addMachinePasses();
  config->setInitialized();
  if (machine.addAsmPrinter(passes, stream, nullptr, type, info->getMMI().getContext())) return false;
  passes.add(llvm::createFreeMachineFunctionPass());
  return true;
}

llvm::Error Verify(const llvm::Module& module, const char* when) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (!llvm::verifyModule(module, &stream)) return llvm::Error::success();
  return llvm::createStringError(llvm::Twine("invalid LLVM IR ") + when + ": " + text);
}

/// Everything up to code generation.
llvm::Error Prepare(llvm::Module& module, llvm::TargetMachine& machine, const CodegenOptions& options,
                    CodegenTimes& times) {
  const double start = Now();
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  if (options.verify) {
    if (llvm::Error e = Verify(module, "in the kernel")) return e;
  }
  if (options.fast_math) {
    llvm::FastMathFlags flags;
    flags.setAllowContract();
    flags.setAllowReassoc();
    flags.setAllowReciprocal();
    flags.setNoSignedZeros();
    for (llvm::Function& f : module) {
      for (llvm::BasicBlock& b : f) {
        for (llvm::Instruction& i : b) {
          if (llvm::isa<llvm::FPMathOperator>(i)) i.setFastMathFlags(flags | i.getFastMathFlags());
        }
      }
    }
  }
  // Nothing is thrown through a kernel, and a function that says so needs no unwind tables.
  for (llvm::Function& f : module) {
    f.addFnAttr(llvm::Attribute::NoUnwind);
    f.removeFnAttr(llvm::Attribute::UWTable);
  }
  if (IsDevice(CpuOf(options))) PrepareDevice(module);
  MathOptions math;
  math.device = IsDevice(CpuOf(options));
  math.interleave = HoldsSums(module);
  math.fast_math = options.fast_math;
  math.soft_f16 = machine.getTargetTriple().isX86() && !HasFeature(CpuOf(options), "+f16c");
  if (llvm::Error e = LinkMath(module, math)) return e;
  times.link = Now() - start;
  if (options.verify) {
    if (llvm::Error e = Verify(module, "after linking")) return e;
  }
  const double linked = Now();
  Optimize(module, machine, options);
  times.opt = Now() - linked;
  if (options.verify) {
    if (llvm::Error e = Verify(module, "after the passes")) return e;
  }
  return llvm::Error::success();
}

/// The sizes of an object's functions; what is internal to it is left out.
void MeasureCode(llvm::StringRef object, std::map<std::string, CodeResources>* functions) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "kernels"));
  if (!file) return llvm::consumeError(file.takeError());
  for (const llvm::object::ELFSymbolRef symbol : (*file)->symbols()) {
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!name) {
      llvm::consumeError(name.takeError());
    } else if (symbol.getELFType() == llvm::ELF::STT_FUNC && symbol.getBinding() == llvm::ELF::STB_GLOBAL) {
      (*functions)[name->str()].code_bytes = static_cast<int64_t>(symbol.getSize());
    } else {
      functions->erase(name->str());
    }
  }
}

llvm::Expected<std::string> Compile(llvm::Module& module, const CodegenOptions& options, llvm::CodeGenFileType type,
                                    CodegenTimes& times) {
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> machine = MakeMachine(options);
  if (!machine) return machine.takeError();
  DiagnosticScope diagnostics(module.getContext(), options.resources ? &times.functions : nullptr);
  if (llvm::Error e = Prepare(module, **machine, options, times)) {
    return llvm::joinErrors(std::move(e), diagnostics.Take("linking"));
  }
  if (options.after_passes) options.after_passes(module);
  const double start = Now();
  llvm::SmallString<0> bytes;
  {
    llvm::raw_svector_ostream stream(bytes);
    llvm::legacy::PassManager passes;
    if (!AddCodegenPasses(passes, **machine, stream, type, options)) {
      return llvm::createStringError("the code generator cannot write such files");
    }
    passes.run(module);
  }
  times.codegen = Now() - start;
  times.object_bytes = bytes.size();
  if (llvm::Error e = diagnostics.Take("code generation")) return e;
  if (options.resources && type == llvm::CodeGenFileType::ObjectFile) MeasureCode(bytes, &times.functions);
  return std::string(bytes.data(), bytes.size());
}

}  // namespace

void MeasureCubin(llvm::StringRef cubin, std::map<std::string, CodeResources>* functions) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(cubin, "kernels"));
  if (!file) return llvm::consumeError(file.takeError());
  // Each kernel has a section of its own.
  for (const llvm::object::SectionRef& section : (*file)->sections()) {
    llvm::Expected<llvm::StringRef> name = section.getName();
    if (!name) {
      llvm::consumeError(name.takeError());
    } else if (name->consume_front(".text.")) {
      if (auto it = functions->find(name->str()); it != functions->end())
        it->second.code_bytes = static_cast<int64_t>(section.getSize());
    }
  }
}

const HostCpu& ThisCpu() {
  static const HostCpu* const host = [] {
    auto* cpu = new HostCpu;
    cpu->triple = llvm::sys::getProcessTriple();
    cpu->cpu = llvm::sys::getHostCPUName().str();
    for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
      if (!cpu->features.empty()) cpu->features += ',';
      cpu->features += feature.second ? '+' : '-';
      cpu->features += feature.first();
    }
    return cpu;
  }();
  return *host;
}

llvm::Expected<HostCpu> FindCpu(llvm::StringRef name, llvm::StringRef features) {
  HostCpu cpu = ThisCpu();
  if (name.empty() && features.empty()) return cpu;
  llvm::Expected<std::unique_ptr<llvm::MCSubtargetInfo>> info = Subtarget({cpu.triple, "generic", ""});
  if (!info) return info.takeError();
  if (!name.empty()) {
    if (!(*info)->isCPUStringValid(name))
      return llvm::createStringError("there is no processor " + name + " of " + cpu.triple);
    cpu.cpu = name.str();
    cpu.features.clear();
  }
  llvm::SmallVector<llvm::StringRef> words;
  features.split(words, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words) {
    llvm::StringRef feature = word;
    const bool has_sign = feature.consume_front("+") || feature.consume_front("-");
    const bool known = llvm::any_of((*info)->getAllProcessorFeatures(),
                                    [&](const llvm::SubtargetFeatureKV& f) { return feature == f.Key; });
    if (!has_sign || !known)
      return llvm::createStringError("features are written +name or -name, and " + cpu.triple + " has none called " +
                                     word);
    cpu.features += (cpu.features.empty() ? "" : ",") + word.str();
  }
  return cpu;
}

llvm::Expected<HostCpu> FindDevice(llvm::StringRef name) {
  // PTX as old as the kind of device allows, so that drivers know it.
  static constexpr std::pair<llvm::StringRef, llvm::StringRef> kDevices[] = {
      {"sm_80", "+ptx78"},  {"sm_86", "+ptx78"},  {"sm_89", "+ptx78"}, {"sm_90", "+ptx81"},
      {"sm_90a", "+ptx81"}, {"sm_100", "+ptx86"}, {"sm_120", "+ptx87"}};
  for (const auto& [device, features] : kDevices)
    if (name == device) return HostCpu{"nvptx64-nvidia-cuda", device.str(), features.str()};
  return llvm::createStringError(
      "code is made for the CPU and for sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100 and "
      "sm_120, not for " +
      name);
}

bool IsDevice(const HostCpu& cpu) { return llvm::Triple(cpu.triple).isNVPTX(); }

bool HasFeature(const HostCpu& cpu, const char* feature) {
  llvm::Expected<std::unique_ptr<llvm::MCSubtargetInfo>> info = Subtarget(cpu);
  if (!info) {
    llvm::consumeError(info.takeError());
    return false;
  }
  // LLVM ends the process over a name that the architecture does not have.
  const bool known = llvm::any_of((*info)->getAllProcessorFeatures(), [&](const llvm::SubtargetFeatureKV& f) {
    return llvm::StringRef(f.Key) == llvm::StringRef(feature).drop_front();
  });
  return known && (*info)->checkFeatures(feature);
}

int VectorBytes(const HostCpu& cpu) {
  if (!llvm::Triple(cpu.triple).isX86()) return 16;
  return HasFeature(cpu, "+avx512f") ? 64 : HasFeature(cpu, "+avx2") ? 32 : 16;
}

bool RunsHere(const HostCpu& cpu) {
  const HostCpu& here = ThisCpu();
  if (cpu.triple != here.triple || (cpu.cpu != here.cpu && cpu.cpu != "generic")) return false;
  llvm::SmallVector<llvm::StringRef> words, own;
  llvm::StringRef(cpu.features).split(words, ',', -1, /*KeepEmpty=*/false);
  llvm::StringRef(here.features).split(own, ',', -1, /*KeepEmpty=*/false);
  return llvm::all_of(words,
                      [&](llvm::StringRef word) { return word.starts_with("-") || llvm::is_contained(own, word); });
}

llvm::Error SetTarget(llvm::Module& module) {
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> machine = MakeMachine(CodegenOptions());
  if (!machine) return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  return llvm::Error::success();
}

llvm::Expected<std::string> CompileToObject(llvm::Module& module, const CodegenOptions& options, CodegenTimes* times) {
  CodegenTimes ignored;
  return Compile(module, options, llvm::CodeGenFileType::ObjectFile, times != nullptr ? *times : ignored);
}

llvm::Expected<std::string> CompileToAssembly(llvm::Module& module, const CodegenOptions& options,
                                              CodegenTimes* times) {
  CodegenTimes ignored;
  return Compile(module, options, llvm::CodeGenFileType::AssemblyFile, times != nullptr ? *times : ignored);
}

llvm::Expected<std::string> CompileToOptimizedIr(llvm::Module& module, const CodegenOptions& options) {
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> machine = MakeMachine(options);
  if (!machine) return machine.takeError();
  DiagnosticScope diagnostics(module.getContext(), nullptr);
  CodegenTimes ignored;
  if (llvm::Error e = Prepare(module, **machine, options, ignored)) {
    return llvm::joinErrors(std::move(e), diagnostics.Take("linking"));
  }
  if (options.after_passes) options.after_passes(module);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

}  // namespace tessera::compiler
