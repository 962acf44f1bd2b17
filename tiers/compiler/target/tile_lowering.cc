#include "tiers/compiler/target/tile_lowering.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

unsigned Alignment(Type element, int64_t lanes, bool aligned) {
  const int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  return static_cast<unsigned>(aligned ? std::min<int64_t>(16, bytes * lanes) : bytes);
}

}  // namespace

StringAttr SharedCode::FunctionOf(tile::KernelOp kernel) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  flags.useLocalScope();
  kernel.print(stream, flags);
  // From its arguments on; before them is where it stands in the trace.
  std::string key = text.substr(text.find("(%"));
  llvm::raw_string_ostream more(key);
  more << kernel.getFixed() << kernel.getTeamAttr() << kernel.getMapsAttr();
  return functions_.try_emplace(key, kernel.getSymNameAttr()).first->second;
}

void TileLowering::LowerBody(LLVM::LLVMFuncOp function, IRMapping& map) {
  for (Operation& op : kernel_.getBody().front()) b_.clone(op, map);
  LLVM::ReturnOp::create(b_, loc_, ValueRange());
  SmallVector<Operation*> tiles;
  function.walk([&](Operation* op) {
    if (isa_and_nonnull<tile::TsrTileDialect>(op->getDialect())) tiles.push_back(op);
  });
  for (Operation* op : tiles) Lower(op);
}

void TileLowering::Launch(IntegerAttr fixed, DenseI64ArrayAttr team) {
  b_.setInsertionPoint(kernel_);
  target::LaunchOp::create(b_, kernel_.getLoc(), FlatSymbolRefAttr::get(kernel_.getSymNameAttr()),
                           kernel_.getPositionAttr(), kernel_.getStepsAttr(), kernel_.getInputsAttr(),
                           kernel_.getOutputsAttr(), kernel_.getDimsAttr(), kernel_.getStridesAttr(),
                           kernel_.getTasksAttr(), kernel_.getBlocksAttr(), kernel_.getUnitAttr(),
                           kernel_.getGrainAttr(), kernel_.getScratchAttr(), fixed, kernel_.getPartialAttr(), team,
                           kernel_.getMapsAttr(), kernel_.getAlignedAttr(), code_, b_.getI64IntegerAttr(many_));
  kernel_.erase();
}

int64_t TileLowering::LanesOf(Type t) {
  auto vector = dyn_cast<VectorType>(t);
  return vector ? vector.getNumElements() : 1;
}
Type TileLowering::WithLanes(Type scalar, int64_t lanes) {
  return lanes == 1 ? scalar : Type(VectorType::get({lanes}, scalar));
}

Type TileLowering::MemoryType(Type dtype) {
  if (IsNarrowFloat(dtype)) return b_.getIntegerType(dtype.getIntOrFloatBitWidth());
  return ComputeType(dtype);
}

Value TileLowering::Call(StringRef function, ValueRange operands, Type result) {
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

Value TileLowering::Pair(StringRef function, Value x, Value y) { return Call(function, {x, y}, x.getType()); }

Value TileLowering::Element(Value vector, int64_t lane) {
  Value index = LLVM::ConstantOp::create(b_, loc_, b_.getI32Type(), b_.getI32IntegerAttr(static_cast<int32_t>(lane)));
  return LLVM::ExtractElementOp::create(b_, loc_, vector, index);
}
Value TileLowering::Insert(Value vector, Value scalar, int64_t lane) {
  Value index = LLVM::ConstantOp::create(b_, loc_, b_.getI32Type(), b_.getI32IntegerAttr(static_cast<int32_t>(lane)));
  return LLVM::InsertElementOp::create(b_, loc_, vector, scalar, index);
}

Value TileLowering::At(Value view, Value offset, Type memory) {
  return LLVM::GEPOp::create(b_, loc_, LLVM::LLVMPointerType::get(b_.getContext()), memory, view,
                             ArrayRef<LLVM::GEPArg>{offset});
}

void TileLowering::Lower(Operation* op) {
  b_.setInsertionPoint(op);
  loc_ = op->getLoc();
  Value result;
  if (std::optional<Value> own = LowerOwn(op)) {
    result = *own;
  } else if (auto dim = dyn_cast<tile::DimOp>(op)) {
    Value index = LLVM::ConstantOp::create(b_, loc_, b_.getI64Type(), dim.getIndexAttr());
    result = LLVM::LoadOp::create(b_, loc_, b_.getI64Type(), At(dim.getTable(), index, b_.getI64Type()));
  } else if (auto load = dyn_cast<tile::LoadOp>(op)) {
    result = LowerLoad(load);
  } else if (auto store = dyn_cast<tile::StoreOp>(op)) {
    Value tile = store.getTile();
    const int64_t lanes = LanesOf(tile.getType());
    Type memory = MemoryType(store.getDtype());
    if (IsNarrowFloat(store.getDtype())) tile = ToMemory(tile, store.getDtype(), WithLanes(memory, lanes));
    LLVM::StoreOp::create(b_, loc_, tile, At(store.getView(), store.getOffset(), memory),
                          store.getStreams() ? 64 : Alignment(memory, lanes, store.getAligned()),
                          /*isVolatile=*/false, /*isNonTemporal=*/store.getStreams());
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
    for (int64_t n = LanesOf(v.getType()), last = LanesOf(reduce.getResult().getType()); n > last; n /= 2) {
      if (n == 2) {
        v = Pair(reduce.getFunction(), Element(v, 0), Element(v, 1));
        break;
      }
      SmallVector<int32_t> low, high;
      for (int32_t k = 0; k < n / 2; ++k) {
        low.push_back(k);
        high.push_back(k + static_cast<int32_t>(n / 2));
      }
      Value a = LLVM::ShuffleVectorOp::create(b_, loc_, v, v, low);
      Value c = LLVM::ShuffleVectorOp::create(b_, loc_, v, v, high);
      v = Pair(reduce.getFunction(), a, c);
    }
    result = v;
  } else {
    op->emitError("is not lowered");
    return;
  }
  if (result) op->getResult(0).replaceAllUsesWith(result);
  op->erase();
}

Value TileLowering::FromMemory(Value bits, Type dtype, Type tile) {
  return Call(("load_" + DTypeName(dtype)).str(), {bits}, tile);
}
Value TileLowering::ToMemory(Value tile, Type dtype, Type bits) {
  return Call(("store_" + DTypeName(dtype)).str(), {tile}, bits);
}

Value TileLowering::LowerLoad(tile::LoadOp load) {
  Type memory = MemoryType(load.getDtype());
  Type tile = load.getTile().getType();
  const int64_t lanes = LanesOf(tile);
  const unsigned alignment = Alignment(memory, lanes, load.getAligned());
  // Words of two elements.
  if (load.getDtype().isBF16() && getElementTypeOrSelf(tile).isInteger(32))
    return LLVM::LoadOp::create(b_, loc_, tile, At(load.getView(), load.getOffset(), memory), alignment);
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
  return FromMemory(bits, load.getDtype(), tile);
}

}  // namespace tessera::compiler
