// tessera-opt: runs any pass of the compiler on text of any stage, as mlir-opt does for MLIR's own.
//
//   tessera-opt --tsr-fuse --tsr-decompose trace.mlir     single passes, in that order
//   tessera-opt --stage=tile trace.mlir                   every pass from a trace to that stage
//   tessera-opt --stage=asm trace.mlir                    on to LLVM IR (llvm) or assembly (asm) of this machine
//   tessera-opt --stage=asm --target=sm_90 trace.mlir     the same for CUDA devices of that kind, in PTX
//   tessera-opt --stage=report --target=sm_90 trace.mlir  what each kernel does and takes
//
// Options of a compile have fixed defaults here, not those of this machine, so that tests give the same text
// everywhere.
#include <string>

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "tiers/compiler/compile.h"
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"
#include "tiers/compiler/pipeline.h"

namespace tessera::compiler {
namespace {

namespace cl = llvm::cl;

enum class Until { nothing, graph, sched, tile, target, llvm, assembly, cuda, report };

struct CommandLine {
  cl::OptionCategory category{"Options of a compile"};
  cl::opt<Until> stage{
      "stage", cl::desc("Run every pass from a trace to that stage"),
      cl::values(clEnumValN(Until::graph, "graph", "the trace as it is"), clEnumValN(Until::sched, "sched", "kernels"),
                 clEnumValN(Until::tile, "tile", "kernels in tiles"),
                 clEnumValN(Until::target, "target", "the LLVM dialect and the launch plan"),
                 clEnumValN(Until::llvm, "llvm", "optimised LLVM IR"),
                 clEnumValN(Until::assembly, "asm", "assembly of this machine, or PTX"),
                 clEnumValN(Until::cuda, "cuda", "CUDA C++ of the kernels, for NVRTC"),
                 clEnumValN(Until::report, "report", "what each kernel does and takes, and times of the compile")),
      cl::init(Until::nothing), cl::cat(category)};
  cl::opt<int> lanes{"lanes", cl::desc("Elements of a vector of f32"), cl::init(16), cl::cat(category)};
  cl::opt<std::string> target{"target", cl::desc("cpu, or CUDA devices of a kind: sm_90"), cl::init("cpu"),
                              cl::cat(category)};
  cl::opt<int> tier{"tier", cl::desc("2 or 3"), cl::init(2), cl::cat(category)};
  cl::opt<int64_t> grain{"grain", cl::desc("Elements that are worth a thread"), cl::init(32768), cl::cat(category)};
  cl::opt<bool> fast_math{"fast-math", cl::desc("Fused and reordered arithmetic"), cl::cat(category)};
  cl::opt<bool> tf32{"tf32", cl::desc("Products of f32 on a CUDA device multiply in tf32"), cl::cat(category)};
  cl::opt<std::string> schedule{"schedule", cl::desc("Choices for products: p4:form=packed,rows=64+*:nr=8"),
                                cl::cat(category)};
  cl::opt<bool> bitwise{"bitwise", cl::desc("Sums as in tier 1, to the bit"), cl::cat(category)};
  cl::opt<bool> library_bf16{"library-bf16", cl::desc("Products of bf16 with a matrix are left to the core"),
                             cl::cat(category)};
  cl::opt<Bf16> bf16{
      "bf16", cl::desc("Instructions for products of bf16"),
      cl::values(clEnumValN(Bf16::none, "none", "none"), clEnumValN(Bf16::avx512, "avx512", "those of AVX512-BF16"),
                 clEnumValN(Bf16::neon, "neon", "those of Arm")),
      cl::init(Bf16::none), cl::cat(category)};
  cl::opt<bool> no_fusion{"no-fusion", cl::desc("Each op a kernel of its own"), cl::cat(category)};

  CompileOptions Options() const {
    CompileOptions options;
    options.tier = tier;
    if (target != "cpu") options.device = target;
    options.vector_bytes = lanes;  // a vector has four registers for each value of 32 bits
    options.grain = grain;
    options.bitwise = bitwise;
    options.schedule = schedule;
    options.fast_math = fast_math;
    options.tf32 = tf32;
    options.fuse = !no_fusion;
    options.library_bf16 = library_bf16;
    options.bf16 = bf16;
    return options;
  }
};

CommandLine& TheCommandLine() {
  static auto* line = new CommandLine;
  return *line;
}

void RegisterPasses() {
  mlir::registerPass([] { return MakeFusePass(TheCommandLine().Options()); });
  mlir::registerPass([] { return MakeDecomposePass(); });
  mlir::registerPass([] { return MakeNumbersPass(); });
  mlir::registerPass([] { return MakeSimplifyPass(); });
  mlir::registerPass([] { return MakeLowerKernelsPass(TheCommandLine().Options()); });
  mlir::registerPass([] { return MakeLowerToLlvmPass(TheCommandLine().Options()); });
  mlir::registerPass([] { return MakeLowerKernelsGpuPass(TheCommandLine().Options()); });
  mlir::registerPass([] { return MakeLowerToNvvmPass(); });
  mlir::registerPass([] { return mlir::createCanonicalizerPass(); });
  mlir::registerPass([] { return mlir::createCSEPass(); });
  mlir::registerPass([] { return mlir::createSymbolDCEPass(); });
  mlir::registerPass([] { return mlir::createSCFToControlFlowPass(); });
  mlir::registerPass([] { return mlir::createArithToLLVMConversionPass(); });
  mlir::registerPass([] { return mlir::createConvertControlFlowToLLVMPass(); });
  mlir::registerPass([] { return mlir::createReconcileUnrealizedCastsPass(); });
}

int Fail(const std::string& message) {
  llvm::errs() << "tessera-opt: " << message << "\n";
  return 1;
}

// What comes after MLIR, through the pipeline that the core uses.
int PrintCode(const llvm::MemoryBuffer& input, llvm::raw_ostream& out) {
  const CommandLine& line = TheCommandLine();
  CompileSettings settings;
  settings.options = line.Options();
  settings.code = settings.report = settings.profile = line.stage == Until::report;
  const std::string text = line.stage == Until::llvm ? "llvm" : line.stage == Until::cuda ? "cuda" : "asm";
  if (!settings.code) settings.texts = {text};
  const std::unique_ptr<mlir::MLIRContext> context = NewContext();
  Pipeline pipeline(*context, settings.options);
  if (!pipeline.Parse(input.getBuffer(), input.getBufferIdentifier())) return Fail(pipeline.error());
  llvm::Expected<Compiled> compiled = CompileHere(pipeline, settings);
  if (!compiled) return Fail(llvm::toString(compiled.takeError()));
  if (!settings.code) {
    out << compiled->texts[text];
    return 0;
  }
  out << ReportText(compiled->report, Roofline());
  for (const PassTime& pass : compiled->passes)
    out << llvm::format("%8.2f ms ", pass.milliseconds) << pass.pass << "\n";
  return 0;
}

int Main(int argc, char** argv) {
  llvm::InitLLVM init(argc, argv);
  mlir::DialectRegistry registry;
  RegisterDialects(registry);
  registry.insert<mlir::arith::ArithDialect, mlir::scf::SCFDialect, mlir::cf::ControlFlowDialect,
                  mlir::LLVM::LLVMDialect>();
  TheCommandLine();
  RegisterPasses();
  const auto [input_name, output_name] =
      mlir::registerAndParseCLIOptions(argc, argv, "The passes of Tessera's compiler", registry);
  const CommandLine& line = TheCommandLine();
  if (line.lanes < 1 || (line.lanes & (line.lanes - 1)) != 0) return Fail("--lanes is a power of two");
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldListPasses()) {
    mlir::printRegisteredPasses();
    return 0;
  }
  std::string why;
  std::unique_ptr<llvm::MemoryBuffer> input = mlir::openInputFile(input_name, &why);
  if (input == nullptr) return Fail(why);
  std::unique_ptr<llvm::ToolOutputFile> output = mlir::openOutputFile(output_name, &why);
  if (output == nullptr) return Fail(why);
  if (line.stage >= Until::llvm) {
    if (const int failed = PrintCode(*input, output->os())) return failed;
  } else {
    if (line.stage != Until::nothing) {
      config.setPassPipelineSetupFn([&](mlir::PassManager& passes) {
        for (const auto& [stage, until] : {std::pair(Stage::sched, Until::sched), std::pair(Stage::tile, Until::tile),
                                           std::pair(Stage::target, Until::target)})
          if (line.stage >= until) AddPasses(passes, stage, line.Options());
        return mlir::success();
      });
    }
    if (failed(mlir::MlirOptMain(output->os(), std::move(input), registry, config))) return 1;
  }
  output->keep();
  return 0;
}

}  // namespace
}  // namespace tessera::compiler

int main(int argc, char** argv) { return tessera::compiler::Main(argc, argv); }
