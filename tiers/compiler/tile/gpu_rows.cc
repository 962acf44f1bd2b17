#include "tiers/compiler/tile/gpu_rows.h"

#include "llvm/ADT/StringSet.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler/sched/gather.h"

using namespace mlir;

namespace tessera::compiler {

void GpuRows::ClassifyValues() {
  stores_narrow_ = llvm::all_of(Yield().getValues(), [](Value v) { return IsNarrowFloat(ElementOf(v)); });
  Classify();
}

void GpuRows::CollectArguments(Value v, llvm::SmallPtrSet<Value, 8>& into) {
  if (isa<BlockArgument>(v)) {
    into.insert(v);
    return;
  }
  for (Value o : v.getDefiningOp()->getOperands()) CollectArguments(o, into);
}

Value GpuRows::AreAligned(int64_t lanes, Value also) {
  if (lanes == 1) return Value();
  Value bits;
  auto add = [&](Value v, int64_t mask) {
    v = arith::AndIOp::create(b_, loc_, v, I64(mask));
    bits = bits ? arith::OrIOp::create(b_, loc_, bits, v).getResult() : v;
  };
  for (size_t k = 0; k < nest_.views.size(); ++k) {
    if (!MovesInside(k) || !IsRun(k)) continue;
    const int64_t bytes = std::min<int64_t>(16, lanes * BytesOf(nest_.views[k].type.getElementType()));
    add(LLVM::PtrToIntOp::create(b_, loc_, b_.getI64Type(), view_args_[k]), bytes - 1);
    for (size_t l = 0; l < Outer(); ++l)
      if (loop_strides_[k][l]) add(loop_strides_[k][l], lanes - 1);
    // Rows of a table begin at multiples of this.
    if (nest_.views[k].is_table) add(StrideOfDim(nest_.views[k], 0), lanes - 1);
    if (Value begin = BeginOf(k)) add(begin, lanes - 1);
  }
  if (also) add(also, lanes - 1);
  return bits ? Compare(arith::CmpIPredicate::eq, bits, I64(0)) : Value();
}

void GpuRows::ForgetRow() {
  values_.clear();
  for (auto& [v, loaded] : once_) values_[v] = loaded;
}

Value GpuRows::Tile(Value v, Chunk& chunk) {
  if (Value known = chunk.tiles.lookup(v)) return known;
  Value result;
  if (is_row_.lookup(v)) {
    result = Splat(RowValue(v), chunk.lanes);
  } else if (auto argument = dyn_cast<BlockArgument>(v)) {
    const size_t k = argument.getArgNumber();
    Value stride = IsRun(k) ? Value() : loop_strides_[k].back();
    Value step = stride ? Mul(chunk.at, stride) : chunk.at;
    result = Load(k, Sum(offsets_[k], step), chunk.lanes, stride, chunk.aligned && !stride);
  } else if (Value row = gathered_.lookup(v.getDefiningOp())) {
    const size_t k = cast<BlockArgument>(v.getDefiningOp()->getOperand(0)).getArgNumber();
    if (!MovesInside(k)) {
      result = Splat(Load(k, row, 1, Value()), chunk.lanes);
    } else {
      Value stride = IsRun(k) ? Value() : loop_strides_[k].back();
      Value step = stride ? Mul(chunk.at, stride) : chunk.at;
      result = Load(k, Sum(row, step), chunk.lanes, stride, chunk.aligned && !stride);
    }
  } else {
    SmallVector<Value> operands;
    for (Value o : v.getDefiningOp()->getOperands()) operands.push_back(Tile(o, chunk));
    result = Apply(v.getDefiningOp(), operands, chunk.lanes);
  }
  return chunk.tiles[v] = result;
}

void GpuRows::LoadFor(Value v, Chunk& chunk) {
  if (is_row_.lookup(v) || chunk.tiles.contains(v)) return;
  if (isa<BlockArgument>(v) || IsGather(v.getDefiningOp())) {
    Tile(v, chunk);
    return;
  }
  if (IsProduct(v.getDefiningOp())) return;
  for (Value o : v.getDefiningOp()->getOperands()) LoadFor(o, chunk);
}

Value GpuRows::Unrounded(Value tile, Type dtype) {
  auto map = tile.getDefiningOp<tile::MapOp>();
  return map && map.getFunction() == "round_" + DTypeName(dtype).str() ? map.getOperands()[0] : tile;
}

void GpuRows::StoreTile(Value tile, size_t view, Value at, bool aligned, Value condition) {
  Type dtype = nest_.views[view].type.getElementType();
  tile::StoreOp::create(b_, loc_, Unrounded(tile, dtype), view_args_[view], at, condition, TypeAttr::get(dtype),
                        aligned ? b_.getUnitAttr() : UnitAttr());
}

void GpuRows::Store(size_t output, Chunk& chunk, Value is_row) {
  const size_t view = num_inputs_ + output;
  Value tile = Tile(Yield().getValues()[static_cast<unsigned>(output)], chunk);
  If(And(is_row, chunk.is_valid), [&] { StoreTile(tile, view, Sum(offsets_[view], chunk.at), chunk.aligned); });
}

void GpuRows::StoreWhere(Value tile, size_t view, Value at, const Chunk& chunk, Value condition) {
  const bool has_words = chunk.lanes * BytesOf(nest_.views[view].type.getElementType()) % 4 == 0;
  if (chunk.aligned && has_words) return StoreTile(tile, view, at, chunk.aligned, condition);
  If(condition, [&] { StoreTile(tile, view, at, chunk.aligned); });
}

std::string GpuRows::FunctionOf(Operation* op, std::string function) {
  static const llvm::StringSet<> narrow = {"exp_f32",   "exp_weight_f32", "exp2_f32", "sigmoid_f32",
                                           "silu_f32",  "tanh_f32",       "gelu_f32", "gelu_tanh_f32",
                                           "rsqrt_f32", "add_f32",        "sub_f32",  "mul_f32"};
  if (bitwise_) return function;
  if (stores_narrow_ && narrow.contains(function)) return function + "_narrow";
  // What follows from a sum has no exact bits to keep.
  if (function == "exp_weight_f32") return function + "_row";
  Value y = op->getResult(0);
  if (function == "rsqrt_f32" && is_row_.lookup(y) && pass_.lookup(y) > 0) return function + "_row";
  return function;
}

}  // namespace tessera::compiler
