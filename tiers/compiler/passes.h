// The passes of the compiler, in the order in which they run. Each is one file with its own page of explanation.
#ifndef TESSERA_TIERS_COMPILER_PASSES_H_
#define TESSERA_TIERS_COMPILER_PASSES_H_

#include <memory>
#include <string>

#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

/// What a processor has for products of bf16: instructions that multiply two or four elements along the sum at a time,
/// and add in f32.
enum class Bf16 {
  none,
  avx512,  // x86, AVX512-BF16: vdpbf16ps
  neon,    // Arm, FEAT_BF16: bfdot and bfmmla
};

/// What a compile is for; part of every cache key.
struct CompileOptions {
  /// 2: dims and numbers are read at run time; 3: what the trace says is fixed is built in.
  int tier = 2;
  /// "sm_90" and so on: CUDA devices of that kind; empty: the host.
  std::string device;
  /// Bytes of a vector register of the target.
  int vector_bytes = 16;
  /// Instructions of the target. Without them factors of bf16 are widened, or words of them taken apart.
  Bf16 bf16 = Bf16::none;
  /// Elements of work that are worth a thread.
  int64_t grain = 32768;
  /// Threads that share the work of a kernel.
  int threads = 1;
  /// The bits of tier 1: sums of f32 in f64 throughout, and no op whose result depends on the order of its steps.
  bool bitwise = false;
  /// Multiplications and additions may be fused and reordered.
  bool fast_math = false;
  /// CUDA devices: products of f32 may multiply in tf32, as those of the library do then.
  bool tf32 = false;
  /// Choices for products, as in TesseraCompileRequest.
  std::string schedule;
  /// The core multiplies matrices of bf16 by the same instructions that generated code would use (Arm): products with a
  /// matrix, such as those with weights, are left to it, unless a schedule says otherwise.
  bool library_bf16 = false;
  /// Each op a kernel of its own: for tests and to see what fusion gives.
  bool fuse = true;
};

/// sched/decompose.cc: softmax, norms and reductions within kernels, in terms of tsr_graph.reduce and element-wise ops.
std::unique_ptr<mlir::Pass> MakeDecomposePass();
/// sched/fuse.cc: groups of ops become tsr_sched.kernel.
std::unique_ptr<mlir::Pass> MakeFusePass(const CompileOptions& options);
/// sched/numbers.cc: within kernels, numbers that never change become tsr_graph.number.
std::unique_ptr<mlir::Pass> MakeNumbersPass();
/// sched/simplify.cc: within kernels, the same bits for less.
std::unique_ptr<mlir::Pass> MakeSimplifyPass();
/// tile/lower_kernels.cc: each tsr_sched.kernel becomes a tsr_tile.kernel.
std::unique_ptr<mlir::Pass> MakeLowerKernelsPass(const CompileOptions& options);
/// target/lower_to_llvm.cc: each tsr_tile.kernel becomes a function of the LLVM dialect and a tsr_target.launch.
std::unique_ptr<mlir::Pass> MakeLowerToLlvmPass(const CompileOptions& options);

// In place of the last two, for CUDA devices:

/// tile/lower_kernels_gpu.cc: each tsr_sched.kernel becomes a tsr_tile.kernel of blocks and threads.
std::unique_ptr<mlir::Pass> MakeLowerKernelsGpuPass(const CompileOptions& options);
/// target/lower_to_nvvm.cc: each of those becomes a kernel function and a tsr_target.launch.
std::unique_ptr<mlir::Pass> MakeLowerToNvvmPass();

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_PASSES_H_
