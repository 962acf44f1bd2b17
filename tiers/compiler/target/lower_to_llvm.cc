// tsr-lower-to-llvm: each tsr_tile.kernel becomes a function of the LLVM dialect and a tsr_target.launch.
//
// The function is void(void* const* views, void* scratch, const int64_t* dims, int64_t begin, int64_t end). Ops of
// tsr_tile become loads, stores and calls of the functions in target/math_functions.cc, whose vector forms
// target/widen.cc makes; loops and index arithmetic are left to MLIR's own conversions, which run next.
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler/passes.h"
#include "tiers/compiler/target/tile_lowering.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

class HostLowering : public TileLowering {
 public:
  using TileLowering::TileLowering;

  void Run() {
    Type ptr = LLVM::LLVMPointerType::get(b_.getContext());
    Type i64 = b_.getI64Type();
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b_.getContext()), {ptr, ptr, ptr, i64, i64});
    auto function = LLVM::LLVMFuncOp::create(b_, loc_, kernel_.getSymName(), type);
    Block* entry = function.addEntryBlock(b_);
    b_.setInsertionPointToEnd(entry);
    Block& body = kernel_.getBody().front();
    const unsigned views = body.getNumArguments() - 4;
    IRMapping map;
    for (unsigned k = 0; k < views; ++k) {
      Value at = LLVM::GEPOp::create(b_, loc_, ptr, ptr, entry->getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(k)});
      map.map(body.getArgument(k), LLVM::LoadOp::create(b_, loc_, ptr, at).getResult());
    }
    for (unsigned k = 0; k < 4; ++k) map.map(body.getArgument(views + k), entry->getArgument(1 + k));
    LowerBody(function, map);
    LaunchIt();
  }

 protected:
  void LaunchIt() override { Launch(kernel_.getFixedAttr(), DenseI64ArrayAttr()); }
};

class LowerToLlvmPass : public PassWrapper<LowerToLlvmPass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerToLlvmPass)
  StringRef getArgument() const override { return "tsr-lower-to-llvm"; }
  StringRef getDescription() const override { return "tile kernels as functions of the LLVM dialect, and the plan"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<target::TsrTargetDialect, LLVM::LLVMDialect>();
  }
  void runOnOperation() override {
    SmallVector<tile::KernelOp> kernels;
    getOperation().walk([&](tile::KernelOp kernel) { kernels.push_back(kernel); });
    SharedCode shared;
    for (tile::KernelOp kernel : kernels) {
      const StringAttr function = shared.FunctionOf(kernel);
      HostLowering lowering(getOperation(), kernel);
      function == kernel.getSymNameAttr() ? lowering.Run() : lowering.Share(function);
    }
  }
};

}  // namespace

std::unique_ptr<Pass> MakeLowerToLlvmPass() { return std::make_unique<LowerToLlvmPass>(); }

}  // namespace tessera::compiler
