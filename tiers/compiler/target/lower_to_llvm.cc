// tsr-lower-to-llvm: each tsr_tile.kernel becomes a function of the LLVM dialect and a tsr_target.launch.
//
// The function is void(void* const* views, void* scratch, const int64_t* dims, int64_t begin, int64_t end). Ops of
// tsr_tile become loads, stores and calls of the functions in target/math_functions.cc, whose vector forms
// target/widen.cc makes; loops and index arithmetic are left to MLIR's own conversions, which run next.
//
// Words of bf16 are multiplied by instructions where the target has them. Elsewhere they are taken apart: the upper
// half of a word is the upper half of an f32, whose lower half is zeros, and so is the lower half after a shift.
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler/passes.h"
#include "tiers/compiler/target/tile_lowering.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

class HostLowering : public TileLowering {
 public:
  HostLowering(ModuleOp module, tile::KernelOp kernel, Bf16 bf16) : TileLowering(module, kernel), bf16_(bf16) {}

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
    const bool streams = kernel_
                             .walk([](tile::StoreOp store) {
                               return store.getStreams() ? WalkResult::interrupt() : WalkResult::advance();
                             })
                             .wasInterrupted();
    LowerBody(function, map);
    if (streams) {
      // Stores past the caches are in no order with others: who learns that this kernel is done is to see them.
      b_.setInsertionPoint(function.getBody().back().getTerminator());
      LLVM::CallIntrinsicOp::create(b_, loc_, b_.getStringAttr("llvm.x86.sse.sfence"), ValueRange());
    }
    LaunchIt();
  }

 protected:
  void LaunchIt() override { Launch(kernel_.getFixedAttr(), DenseI64ArrayAttr()); }

  std::optional<Value> LowerOwn(Operation* op) override {
    if (auto words = dyn_cast<tile::WordsOp>(op)) {
      Type type = words.getResult().getType();
      Value low = LLVM::LShrOp::create(b_, loc_, Bits(words.getLow(), type), Constant(type, 16));
      return LLVM::OrOp::create(b_, loc_, low, UpperHalf(Bits(words.getHigh(), type)));
    }
    if (auto multiply = dyn_cast<tile::MultiplyWordsOp>(op)) {
      const std::string instruction = InstructionFor(multiply);
      return instruction.empty() ? Apart(multiply) : Instruction(multiply, instruction);
    }
    return std::nullopt;
  }

 private:
  // The name that LLVM has for it; empty: there is none.
  std::string InstructionFor(tile::MultiplyWordsOp multiply) {
    const int64_t lanes = LanesOf(multiply.getD().getType());
    if (bf16_ == Bf16::avx512 && !multiply.getPairs() && (lanes == 4 || lanes == 8 || lanes == 16))
      return "llvm.x86.avx512bf16.dpbf16ps." + std::to_string(lanes * 32);
    if (bf16_ == Bf16::neon && lanes == 4)
      return multiply.getPairs() ? "llvm.aarch64.neon.bfmmla" : "llvm.aarch64.neon.bfdot.v4f32.v8bf16";
    return "";
  }

  Value Instruction(tile::MultiplyWordsOp multiply, StringRef name) {
    Type elements = VectorType::get({2 * LanesOf(multiply.getD().getType())}, b_.getBF16Type());
    Value a = Bits(multiply.getA(), elements), b = Bits(multiply.getB(), elements);
    return LLVM::CallIntrinsicOp::create(b_, loc_, multiply.getD().getType(), b_.getStringAttr(name),
                                         ValueRange{multiply.getC(), a, b})
        ->getResult(0);
  }

  Value Apart(tile::MultiplyWordsOp multiply) {
    Value a = multiply.getA(), b = multiply.getB(), sums = multiply.getC();
    if (!multiply.getPairs()) return MultiplyApart(a, b, sums);
    // The first words of each row and column, in the places of the sums; then the second ones.
    for (int32_t w : {0, 1}) {
      Value rows = LLVM::ShuffleVectorOp::create(b_, loc_, a, a, ArrayRef<int32_t>{w, w, w + 2, w + 2});
      Value columns = LLVM::ShuffleVectorOp::create(b_, loc_, b, b, ArrayRef<int32_t>{w, w + 2, w, w + 2});
      sums = MultiplyApart(rows, columns, sums);
    }
    return sums;
  }

  Value MultiplyApart(Value a, Value b, Value sums) {
    Type words = a.getType(), type = sums.getType();
    auto lower = [&](Value x) { return Bits(LLVM::ShlOp::create(b_, loc_, x, Constant(words, 16)), type); };
    auto upper = [&](Value x) { return Bits(UpperHalf(x), type); };
    sums = LLVM::FMAOp::create(b_, loc_, type, lower(a), lower(b), sums);
    return LLVM::FMAOp::create(b_, loc_, type, upper(a), upper(b), sums);
  }

  Value Bits(Value x, Type type) { return LLVM::BitcastOp::create(b_, loc_, type, x); }
  Value UpperHalf(Value words) {
    return LLVM::AndOp::create(b_, loc_, words, Constant(words.getType(), static_cast<int32_t>(0xffff0000)));
  }
  // In each lane.
  Value Constant(Type words, int32_t n) {
    TypedAttr value = b_.getI32IntegerAttr(n);
    if (auto vector = dyn_cast<VectorType>(words)) value = DenseElementsAttr::get(vector, n);
    return LLVM::ConstantOp::create(b_, loc_, words, value);
  }

  const Bf16 bf16_;
};

class LowerToLlvmPass : public PassWrapper<LowerToLlvmPass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerToLlvmPass)
  explicit LowerToLlvmPass(Bf16 bf16) : bf16_(bf16) {}
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
      HostLowering lowering(getOperation(), kernel, bf16_);
      function == kernel.getSymNameAttr() ? lowering.Run() : lowering.Share(function);
    }
  }

 private:
  const Bf16 bf16_;
};

}  // namespace

std::unique_ptr<Pass> MakeLowerToLlvmPass(const CompileOptions& options) {
  return std::make_unique<LowerToLlvmPass>(options.bf16);
}

}  // namespace tessera::compiler
