// The launch plan of a version, as a value: what the tsr_target.launch ops of a module say.
#ifndef TESSERA_TIERS_COMPILER_TARGET_PLAN_H_
#define TESSERA_TIERS_COMPILER_TARGET_PLAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "mlir/IR/BuiltinOps.h"

namespace tessera::compiler {

/// One kernel of a plan. tsr_target.launch in dialects/target.td says what the fields mean.
struct Launch {
  std::string kernel;
  int64_t position = 0;
  std::vector<int64_t> steps, inputs, outputs;
  std::vector<std::pair<int64_t, int64_t>> dims;
  std::vector<std::vector<int64_t>> strides;
  std::vector<int64_t> tasks, blocks, unit;
  int64_t grain = 1;
  std::vector<int64_t> scratch;
  int64_t fixed = 0;
  int64_t partial = 0;  // bytes of one more view for each task; a last call puts together what is there
  int64_t threads = 0, per_block = 0, shared = 0, resident = 0, cluster = 0;  // CUDA devices
  std::vector<std::vector<int64_t>> maps;
  std::vector<int64_t> aligned;
  std::string code;  // the function's name: the kernel's, or that of another one which is the same
  int64_t many = 0;  // kernels that a launch of code + "_many" may have; 0: there is no such function
};

std::vector<Launch> PlanOf(mlir::ModuleOp module);

/// Plan and object as the core takes them (ArtifactHeader and ArtifactKind in tiers/compiler.h).
std::string ArtifactOf(llvm::ArrayRef<Launch> plan, uint32_t kind, llvm::StringRef object,
                       llvm::ArrayRef<int64_t> cubins);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_PLAN_H_
