#include "tiers/compiler/tile/gpu_rows.h"

#include "llvm/ADT/StringSet.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler/sched/gather.h"

using namespace mlir;

namespace tessera::compiler {

int64_t GpuRows::LikelyLoop(size_t l, bool* is_exact) {
  int64_t size = 1;
  for (int64_t d = nest_.loops[l].first; d <= nest_.loops[l].second; ++d) {
    const Dim& dim = nest_.space[static_cast<size_t>(d)];
    const int64_t n = LikelySize(kernel_, dim);
    if (is_exact != nullptr) *is_exact &= !dim.is_symbol;
    if (n < 0) return -1;
    size *= n;
  }
  return size;
}

GpuFacts GpuRows::Facts() {
  GpuFacts facts;
  facts.needs_registers = device_.starts_with("sm_8");
  facts.shared_bytes = SharedBytesOf(device_);
  facts.has_clusters = HasClusters(device_);
  facts.is_row_exact = true;
  facts.row = nest_.loops.empty() ? 1 : LikelyLoop(nest_.loops.size() - 1, &facts.is_row_exact);
  exact_row_ = facts.is_row_exact ? facts.row : -1;
  facts.num_rows = 1;
  facts.num_outer = static_cast<int64_t>(Outer());
  bool is_exact = true;
  for (size_t l = 0; l < Outer(); ++l) {
    const int64_t n = LikelyLoop(l, &is_exact);
    facts.num_rows = n < 0 || facts.num_rows < 0 ? -1 : facts.num_rows * n;
  }
  likely_row_ = facts.row;
  exact_rows_ = is_exact ? facts.num_rows : -1;
  facts.is_reduction = IsReduction();
  facts.is_one_run = Outer() == 0;
  auto moves = [&](size_t k) { return !nest_.loops.empty() && nest_.views[k].loops.back().kind != Stride::Kind::zero; };
  llvm::SmallPtrSet<Value, 8> early;
  for (Operation& op : Body())
    if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
      CollectArguments(reduce.getX(), early);
      ++facts.num_reductions;
    }
  for (size_t k = 0; k < nest_.views.size(); ++k) {
    if (!moves(k)) continue;
    const int64_t bytes = BytesOf(nest_.views[k].type.getElementType());
    facts.narrowest = facts.narrowest == 0 ? bytes : std::min(facts.narrowest, bytes);
    facts.widest = std::max(facts.widest, bytes);
    if (k >= num_inputs_) continue;
    ++facts.num_inputs;
    if (early.contains(Argument(k))) facts.early_bytes += bytes;
    facts.num_late += !early.contains(Argument(k)) && IsOfAllRows(k);
    facts.num_whole += IsWhole(k);
  }
  // Rows that an index names are not fetched.
  facts.has_tables = HasTables();
  if (facts.has_tables) facts.num_whole = 0;
  for (Operation& op : Body().without_terminator())
    facts.computed = std::max(facts.computed, BytesOf(ComputeType(ElementOf(op.getResult(0)))));
  ClassifyValues();
  facts.is_heavy = llvm::any_of(Yield().getValues(), [&](Value v) { return IsHeavy(v); });
  // The weights of a softmax are a few instructions.
  facts.is_cheap_again = llvm::none_of(Body().without_terminator(), [&](Operation& op) {
    Value v = op.getResult(0);
    return !is_row_.lookup(v) && IsHeavy(v) && !op.hasAttr("weight");
  });
  for (size_t k = 0; k < Yield().getValues().size(); ++k)
    (moves(num_inputs_ + k) ? facts.has_rows : facts.has_numbers) = true;
  return facts;
}

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

bool GpuRows::AddProduct(Accumulator& a, Value& sum, Chunk& chunk) {
  auto product = a.reduce.getX().getDefiningOp<graph::MulOp>();
  if (!a.is_sum || bitwise_ || chunk.is_valid || !product || !ElementOf(product->getResult(0)).isF32()) return false;
  Value x = Tile(product->getOperand(0), chunk), y = Tile(product->getOperand(1), chunk);
  sum = tile::FmaOp::create(b_, loc_, sum.getType(), x, y, sum);
  return true;
}

Value GpuRows::Unrounded(Value tile, Type dtype) {
  auto map = tile.getDefiningOp<tile::MapOp>();
  return map && map.getFunction() == "round_" + DTypeName(dtype).str() ? map.getOperands()[0] : tile;
}

void GpuRows::StoreTile(Value tile, size_t view, Value at, bool aligned, Value condition) {
  Type dtype = nest_.views[view].type.getElementType();
  tile::StoreOp::create(b_, loc_, Unrounded(tile, dtype), view_args_[view], at, condition, dtype, aligned);
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
