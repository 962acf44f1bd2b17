// tsr-lower-to-llvm: each tsr_tile.kernel becomes a function of the LLVM dialect and a tsr_target.launch.
//
// The function is void(void* const* views, void* scratch, const int64_t* dims, int64_t begin, int64_t end). Ops of
// tsr_tile become loads, stores and calls of the functions in target/math_functions.cc, whose vector forms
// target/widen.cc makes; loops and index arithmetic are left to MLIR's own conversions, which run next.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

class TileLowering {
 public:
  TileLowering(ModuleOp module, tile::KernelOp kernel)
      : module_(module), kernel_(kernel), b_(kernel), loc_(kernel.getLoc()) {}

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
    for (Operation& op : body) b_.clone(op, map);
    LLVM::ReturnOp::create(b_, loc_, ValueRange());
    SmallVector<Operation*> tiles;
    function.walk([&](Operation* op) {
      if (isa_and_nonnull<tile::TsrTileDialect>(op->getDialect())) tiles.push_back(op);
    });
    for (Operation* op : tiles) Lower(op);
    b_.setInsertionPoint(kernel_);
    target::LaunchOp::create(b_, loc_, FlatSymbolRefAttr::get(kernel_.getSymNameAttr()), kernel_.getPositionAttr(),
                             kernel_.getStepsAttr(), kernel_.getInputsAttr(), kernel_.getOutputsAttr(),
                             kernel_.getDimsAttr(), kernel_.getStridesAttr(), kernel_.getTasksAttr(),
                             kernel_.getBlocksAttr(), kernel_.getUnitAttr(), kernel_.getGrainAttr(),
                             kernel_.getScratchAttr(), kernel_.getFixedAttr());
    kernel_.erase();
  }

 private:
  static int64_t LanesOf(Type t) {
    auto vector = dyn_cast<VectorType>(t);
    return vector ? vector.getNumElements() : 1;
  }
  static Type WithLanes(Type scalar, int64_t lanes) {
    return lanes == 1 ? scalar : Type(VectorType::get({lanes}, scalar));
  }

  // The type of an element as it lies in memory, as bits where only functions understand them.
  Type MemoryType(Type dtype) {
    if (IsNarrowFloat(dtype)) return b_.getIntegerType(dtype.getIntOrFloatBitWidth());
    return ComputeType(dtype);
  }

  Value Call(StringRef function, ValueRange operands, Type result) {
    const int64_t lanes = LanesOf(result);
    const std::string name = "tsr_" + function.str() + (lanes > 1 ? "_v" + std::to_string(lanes) : "");
    SmallVector<Type> types(operands.getTypes());
    auto callee = module_.lookupSymbol<LLVM::LLVMFuncOp>(name);
    if (!callee) {
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPointToStart(module_.getBody());
      callee = LLVM::LLVMFuncOp::create(b_, loc_, name, LLVM::LLVMFunctionType::get(result, types));
    }
    return LLVM::CallOp::create(b_, loc_, callee, operands).getResult();
  }

  Value Element(Value vector, int64_t lane) {
    Value index = LLVM::ConstantOp::create(b_, loc_, b_.getI32Type(), b_.getI32IntegerAttr(static_cast<int32_t>(lane)));
    return LLVM::ExtractElementOp::create(b_, loc_, vector, index);
  }
  Value Insert(Value vector, Value scalar, int64_t lane) {
    Value index = LLVM::ConstantOp::create(b_, loc_, b_.getI32Type(), b_.getI32IntegerAttr(static_cast<int32_t>(lane)));
    return LLVM::InsertElementOp::create(b_, loc_, vector, scalar, index);
  }

  Value At(Value view, Value offset, Type memory) {
    return LLVM::GEPOp::create(b_, loc_, LLVM::LLVMPointerType::get(b_.getContext()), memory, view,
                               ArrayRef<LLVM::GEPArg>{offset});
  }

  void Lower(Operation* op) {
    b_.setInsertionPoint(op);
    loc_ = op->getLoc();
    Value result;
    if (auto dim = dyn_cast<tile::DimOp>(op)) {
      Value index = LLVM::ConstantOp::create(b_, loc_, b_.getI64Type(), dim.getIndexAttr());
      result = LLVM::LoadOp::create(b_, loc_, b_.getI64Type(), At(dim.getTable(), index, b_.getI64Type()));
    } else if (auto load = dyn_cast<tile::LoadOp>(op)) {
      result = LowerLoad(load);
    } else if (auto store = dyn_cast<tile::StoreOp>(op)) {
      Value tile = store.getTile();
      const int64_t lanes = LanesOf(tile.getType());
      Type memory = MemoryType(store.getDtype());
      if (IsNarrowFloat(store.getDtype()))
        tile = Call(("store_" + DTypeName(store.getDtype())).str(), {tile}, WithLanes(memory, lanes));
      LLVM::StoreOp::create(b_, loc_, tile, At(store.getView(), store.getOffset(), memory),
                            memory.getIntOrFloatBitWidth() / 8);
    } else if (auto splat = dyn_cast<tile::SplatOp>(op)) {
      Type type = splat.getTile().getType();
      Value poison = LLVM::PoisonOp::create(b_, loc_, type);
      Value first = Insert(poison, splat.getScalar(), 0);
      result = LLVM::ShuffleVectorOp::create(b_, loc_, first, poison,
                                             SmallVector<int32_t>(static_cast<size_t>(LanesOf(type)), 0));
    } else if (auto map = dyn_cast<tile::MapOp>(op)) {
      result = Call(map.getFunction(), map.getOperands(), map.getResult().getType());
    } else if (auto fma = dyn_cast<tile::FmaOp>(op)) {
      result = LLVM::FMAOp::create(b_, loc_, fma.getD().getType(), fma.getA(), fma.getB(), fma.getC());
    } else if (auto lane = dyn_cast<tile::LaneOp>(op)) {
      const size_t lanes = static_cast<size_t>(LanesOf(lane.getResult().getType()));
      result = LLVM::ShuffleVectorOp::create(b_, loc_, lane.getTile(), lane.getTile(),
                                             SmallVector<int32_t>(lanes, static_cast<int32_t>(lane.getIndex())));
    } else if (auto shuffle = dyn_cast<tile::ShuffleOp>(op)) {
      result = LLVM::ShuffleVectorOp::create(b_, loc_, shuffle.getA(), shuffle.getB(), shuffle.getLanes());
    } else if (auto widen = dyn_cast<tile::WidenOp>(op)) {
      result = LLVM::FPExtOp::create(b_, loc_, widen.getY().getType(), widen.getX());
    } else if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
      Value v = reduce.getTile();
      Type scalar = reduce.getScalar().getType();
      for (int64_t n = LanesOf(v.getType()); n > 1; n /= 2) {
        if (n == 2) {
          v = Call(reduce.getFunction(), {Element(v, 0), Element(v, 1)}, scalar);
          break;
        }
        SmallVector<int32_t> low, high;
        for (int32_t k = 0; k < n / 2; ++k) {
          low.push_back(k);
          high.push_back(k + static_cast<int32_t>(n / 2));
        }
        Value a = LLVM::ShuffleVectorOp::create(b_, loc_, v, v, low);
        Value c = LLVM::ShuffleVectorOp::create(b_, loc_, v, v, high);
        v = Call(reduce.getFunction(), {a, c}, WithLanes(scalar, n / 2));
      }
      result = v;
    } else {
      op->emitError("is not lowered");
      return;
    }
    if (result) op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }

  Value LowerLoad(tile::LoadOp load) {
    Type memory = MemoryType(load.getDtype());
    const unsigned alignment = memory.getIntOrFloatBitWidth() / 8;
    Type tile = load.getTile().getType();
    const int64_t lanes = LanesOf(tile);
    Value bits;
    if (load.getStride()) {
      bits = LLVM::PoisonOp::create(b_, loc_, WithLanes(memory, lanes));
      Value at = load.getOffset();
      for (int64_t k = 0; k < lanes; ++k) {
        if (k > 0) at = LLVM::AddOp::create(b_, loc_, at, load.getStride());
        Value one = LLVM::LoadOp::create(b_, loc_, memory, At(load.getView(), at, memory), alignment);
        bits = lanes == 1 ? one : Insert(bits, one, k);
      }
    } else {
      bits = LLVM::LoadOp::create(b_, loc_, WithLanes(memory, lanes), At(load.getView(), load.getOffset(), memory),
                                  alignment);
    }
    if (!IsNarrowFloat(load.getDtype())) return bits;
    return Call(("load_" + DTypeName(load.getDtype())).str(), {bits}, tile);
  }

  ModuleOp module_;
  tile::KernelOp kernel_;
  OpBuilder b_;
  Location loc_;
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
    for (tile::KernelOp kernel : kernels) TileLowering(getOperation(), kernel).Run();
  }
};

}  // namespace

std::unique_ptr<Pass> MakeLowerToLlvmPass() { return std::make_unique<LowerToLlvmPass>(); }

}  // namespace tessera::compiler
