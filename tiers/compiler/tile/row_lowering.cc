#include "tiers/compiler/tile/row_lowering.h"

#include <limits>
#include <utility>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler.h"
#include "tiers/compiler/sched/gather.h"
#include "tiers/compiler/sched/kinds.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

Type ElementOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }

}  // namespace

RowLowering::RowLowering(sched::KernelOp kernel, LoopNest nest, bool bitwise, bool is_device, int64_t lanes)
    : kernel_(kernel),
      nest_(std::move(nest)),
      b_(kernel.getContext()),
      loc_(kernel.getLoc()),
      lanes_(lanes > 0 ? lanes : static_cast<int64_t>(kernel.getLanes())),
      num_inputs_(kernel.getInputs().size()),
      bitwise_(bitwise),
      is_device_(is_device) {}

void RowLowering::Begin(OpBuilder& at, int64_t partial) {
  if (!is_device_) Look();
  SmallVector<Attribute> strides;
  for (const ViewPlan& v : nest_.views) strides.push_back(v.known ? v.known : at.getDenseI64ArrayAttr({}));
  tile_ = tile::KernelOp::create(
      at, loc_, kernel_.getNameAttr(), kernel_.getPositionAttr(), kernel_.getStepsAttr(), kernel_.getInputsAttr(),
      kernel_.getOutputsAttr(), at.getArrayAttr({}), at.getArrayAttr(strides), at.getDenseI64ArrayAttr({}),
      DenseI64ArrayAttr(), at.getDenseI64ArrayAttr({}), kernel_.getGrainAttr(), at.getDenseI64ArrayAttr({}),
      at.getI64IntegerAttr(0), at.getI64IntegerAttr(partial), DenseI64ArrayAttr(), ArrayAttr(), DenseI64ArrayAttr());
  Block* body = at.createBlock(&tile_.getBody());
  Type ptr = LLVM::LLVMPointerType::get(at.getContext());
  for (size_t k = 0; k < nest_.views.size(); ++k) view_args_.push_back(body->addArgument(ptr, loc_));
  if (partial > 0) partial_ = body->addArgument(ptr, loc_);
  scratch_ = body->addArgument(ptr, loc_);
  table_ = body->addArgument(ptr, loc_);
  begin_ = body->addArgument(at.getI64Type(), loc_);
  end_ = body->addArgument(at.getI64Type(), loc_);
  b_.setInsertionPointToStart(body);
  Prepare();
}

void RowLowering::BeginWithin(RowLowering& of) {
  Look();
  tile_ = of.tile_;
  view_args_ = of.view_args_;
  scratch_ = of.scratch_, table_ = of.table_, begin_ = of.begin_, end_ = of.end_;
  entries_ = of.entries_;
  GoOnAt(of);
  Prepare();
}

void RowLowering::Prepare() {
  for (size_t l = 0; l < nest_.loops.size(); ++l) sizes_.push_back(LoopSize(l));
  for (const ViewPlan& v : nest_.views) {
    SmallVector<Value> s;
    for (size_t l = 0; l < nest_.loops.size(); ++l) s.push_back(StrideOf(v, l));
    loop_strides_.push_back(std::move(s));
  }
  inner_ = nest_.loops.empty() ? -1 : static_cast<int>(nest_.loops.size()) - 1;
  // Operands that stand still everywhere are read once.
  for (size_t k = 0; k < num_inputs_; ++k) {
    if ((nest_.views[k].is_factor && nest_.views[k].own_dim.empty()) || nest_.views[k].is_table) continue;
    if (nest_.views[k].is_base) continue;
    if (llvm::any_of(nest_.views[k].loops, [](const Stride& s) { return s.kind != Stride::Kind::zero; })) continue;
    once_[Argument(k)] = Load(k, I64(0), 1, Value());
  }
}

void RowLowering::End(ArrayRef<int64_t> tasks, ArrayRef<int64_t> blocks, ArrayRef<int64_t> unit,
                      ArrayRef<int64_t> scratch, int64_t fixed) {
  SmallVector<Attribute> dims;
  for (auto [value, dim] : entries_->entries) dims.push_back(b_.getDenseI64ArrayAttr({value, dim}));
  tile_.setDimsAttr(b_.getArrayAttr(dims));
  tile_.setTasks(tasks);
  if (!blocks.empty()) tile_.setBlocks(blocks);
  tile_.setUnit(unit);
  tile_.setScratch(scratch);
  tile_.setFixed(fixed);
}

Value RowLowering::I64(int64_t n) { return arith::ConstantIntOp::create(b_, loc_, n, 64); }
Value RowLowering::Mul(Value x, Value y) { return arith::MulIOp::create(b_, loc_, x, y); }
Value RowLowering::Sum(Value x, Value y) { return arith::AddIOp::create(b_, loc_, x, y); }

// ---- sizes and places

int64_t RowLowering::Entry(int64_t value, int64_t dim) {
  auto& entries = entries_->entries;
  for (size_t e = 0; e < entries.size(); ++e)
    if (entries[e] == std::make_pair(value, dim)) return static_cast<int64_t>(e);
  entries.push_back({value, dim});
  return static_cast<int64_t>(entries.size() - 1);
}
int64_t RowLowering::EntryOf(const Dim& d) {
  auto it = entries_->of_symbols.find(d.value);
  if (it != entries_->of_symbols.end()) return it->second;
  for (const ViewPlan& v : nest_.views) {
    const SmallVector<Dim> dims = DimsOf(v.type);
    for (size_t k = 0; k < dims.size(); ++k)
      if (dims[k] == d) return entries_->of_symbols[d.value] = Entry(v.id, static_cast<int64_t>(k));
  }
  llvm_unreachable("every dim of the space is a dim of a view");
}
Value RowLowering::TableValue(int64_t entry) {
  OpBuilder::InsertionGuard guard(b_);
  Value& v = entries_->values[entry];
  if (!v) {
    b_.setInsertionPointToStart(table_.getParentBlock());
    v = tile::DimOp::create(b_, loc_, b_.getI64Type(), table_, b_.getI64IntegerAttr(entry));
  }
  return v;
}
Value RowLowering::SizeOf(const Dim& d) { return d.is_symbol ? TableValue(EntryOf(d)) : I64(d.value); }
Value RowLowering::LoopSize(size_t l) {
  Value size;
  for (int64_t d = nest_.loops[l].first; d <= nest_.loops[l].second; ++d) {
    if (nest_.space[static_cast<size_t>(d)].is_one()) continue;
    Value s = SizeOf(nest_.space[static_cast<size_t>(d)]);
    size = size ? Mul(size, s) : s;
  }
  return size ? size : I64(1);
}
void RowLowering::AppendProduct(SmallVector<int64_t>& product, size_t l) {
  for (int64_t d = nest_.loops[l].first; d <= nest_.loops[l].second; ++d) {
    const Dim& dim = nest_.space[static_cast<size_t>(d)];
    if (dim.is_one()) continue;
    product.push_back(Factor(dim));
  }
}
Value RowLowering::StrideOf(const ViewPlan& v, size_t l) {
  const Stride& s = v.loops[l];
  return s.kind == Stride::Kind::zero ? Value() : StrideOfDim(v, s.dim);
}

Value RowLowering::StrideOfDim(const ViewPlan& v, int64_t dim) {
  if (v.known && !v.known.empty()) return v.known[dim] >= 0 ? I64(v.known[dim]) : TableValue(Entry(v.id, -1 - dim));
  Value stride;
  const SmallVector<Dim> dims = DimsOf(v.type);
  for (size_t d = static_cast<size_t>(dim) + 1; d < dims.size(); ++d) {
    if (dims[d].is_one()) continue;
    Value size = SizeOf(dims[d]);
    stride = stride ? Mul(stride, size) : size;
  }
  return stride ? stride : I64(1);
}

Value RowLowering::BeginOf(size_t view) {
  const int32_t update = nest_.views[view].update;
  return update >= 0 ? TableValue(Entry(update, tiers::kPartEntry)) : Value();
}

bool RowLowering::MovesInside(size_t view) const {
  return inner_ >= 0 && nest_.views[view].loops[static_cast<size_t>(inner_)].kind != Stride::Kind::zero;
}
bool RowLowering::IsRun(size_t view) const {
  const Stride& s = nest_.views[view].loops[static_cast<size_t>(inner_)];
  return s.kind == Stride::Kind::one || s.kind == Stride::Kind::dense;
}

SmallVector<Value> RowLowering::Indices(Value task, size_t outer) {
  SmallVector<Value> at(outer);
  for (size_t l = outer; l-- > 0;) {
    if (l == 0) {
      at[0] = task;
    } else {
      at[l] = arith::RemUIOp::create(b_, loc_, task, sizes_[l]);
      task = arith::DivUIOp::create(b_, loc_, task, sizes_[l]);
    }
  }
  return at;
}

void RowLowering::SetOffsets(ArrayRef<Value> indices) {
  indices_.assign(indices.begin(), indices.end());
  offsets_.clear();
  for (size_t k = 0; k < nest_.views.size(); ++k) {
    Value offset = BeginOf(k);
    for (size_t l = 0; l < indices.size(); ++l) {
      if (!loop_strides_[k][l] || !indices[l]) continue;
      Value part = Mul(indices[l], loop_strides_[k][l]);
      offset = offset ? Sum(offset, part) : part;
    }
    offsets_.push_back(offset ? offset : I64(0));
  }
  // Negative indices count from the end. On the host the core has seen that all are in range; a device says which one
  // is not, and goes on with the first row.
  for (Operation& op : Body().without_terminator()) {
    if (!IsGather(&op)) continue;
    const size_t table = cast<BlockArgument>(op.getOperand(0)).getArgNumber();
    const size_t ids = cast<BlockArgument>(op.getOperand(1)).getArgNumber();
    Value once = once_.lookup(Argument(ids));
    Value id = once ? once : Load(ids, offsets_[ids], 1, Value());
    if (!id.getType().isInteger(64)) id = arith::ExtSIOp::create(b_, loc_, b_.getI64Type(), id);
    Value is_negative = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::slt, id, I64(0));
    Value rows = SizeOf(DimOf(nest_.views[table].type, 0));
    Value given = id;
    id = arith::SelectOp::create(b_, loc_, is_negative, Sum(id, rows), id);
    if (is_device_) {
      Value is_outside = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::uge, id, rows);
      Value error = TableValue(Entry(tiers::kErrorEntry, 0));
      auto where = scf::IfOp::create(b_, loc_, is_outside, /*withElseRegion=*/false);
      {
        OpBuilder::InsertionGuard guard(b_);
        b_.setInsertionPointToStart(where.thenBlock());
        tile::ReportOp::create(b_, loc_, b_.getStringAttr(RowOf(&op)->name), given, rows, error);
      }
      id = arith::SelectOp::create(b_, loc_, is_outside, I64(0), id);
    }
    gathered_[&op] = Sum(offsets_[table], Mul(id, StrideOfDim(nest_.views[table], 0)));
  }
}

SmallVector<int64_t> RowLowering::ScratchRows() const {
  SmallVector<int64_t> bytes;
  for (const Spill& s : spills_)
    if (s.output < 0) bytes.push_back(s.type.getIntOrFloatBitWidth() / 8);
  return bytes;
}

void RowLowering::PlaceScratchRows(Value at) {
  Value offset = at;
  for (Spill& s : spills_) {
    if (s.output >= 0) continue;
    s.offset = offset;
    Value bytes = Mul(sizes_[static_cast<size_t>(inner_)], I64(s.type.getIntOrFloatBitWidth() / 8));
    bytes = arith::AndIOp::create(b_, loc_, Sum(bytes, I64(63)), I64(-64));
    offset = Sum(offset, bytes);
  }
}

// ---- passes

// One index of the outer loops: elements lo to hi of the innermost one.
void RowLowering::Row(Value lo, Value hi) {
  values_.clear();
  for (auto& [v, loaded] : once_) values_[v] = loaded;
  auto yield = cast<sched::YieldOp>(Body().back());
  for (int pass = 0; pass < num_passes_; ++pass) {
    SmallVector<graph::ReduceOp> sums;
    for (auto& [reduce, p] : reductions_)
      if (p == pass) sums.push_back(reduce);
    SmallVector<size_t> stores;
    for (auto [k, v] : llvm::enumerate(yield.getValues())) {
      if (StoredAlong(k) && pass_.lookup(v) == pass) stores.push_back(k);
    }
    SmallVector<size_t> keeps;
    for (size_t s = 0; s < spills_.size(); ++s)
      if (!spills_[s].is_result && pass_.lookup(spills_[s].value) == pass) keeps.push_back(s);
    const bool writes = written_.value && pass_.lookup(written_.value) == pass;
    if (sums.empty() && stores.empty() && keeps.empty() && !writes) continue;
    Pass(pass, lo, hi, sums, stores, keeps);
  }
  if (!in_parts_) StoreNumbers();
}

void RowLowering::StoreNumbers() {
  auto yield = cast<sched::YieldOp>(Body().back());
  for (auto [k, v] : llvm::enumerate(yield.getValues())) {
    if (StoredAlong(k) || nest_.views[num_inputs_ + k].is_factor) continue;
    const size_t view = num_inputs_ + k;
    tile::StoreOp::create(b_, loc_, RowValue(v), view_args_[view], offsets_[view], Value(), ElementOf(v));
  }
}

RowLowering::Accumulator RowLowering::AccumulatorOf(graph::ReduceOp reduce, bool widens) {
  Accumulator a;
  a.reduce = reduce;
  a.is_sum = reduce.getKind() != "max" && reduce.getKind() != "min";
  a.is_max = reduce.getKind() == "max";
  Type t = ComputeType(ElementOf(reduce.getX()));
  a.widens = widens && a.is_sum && t.isF32();
  a.type = a.widens ? b_.getF64Type() : t;
  return a;
}

Value RowLowering::Identity(const Accumulator& a, bool wide, int64_t lanes) {
  graph::ReduceOp reduce = a.reduce;
  Type t = wide ? a.type : ComputeType(ElementOf(reduce.getX()));
  TypedAttr zero;
  if (auto f = dyn_cast<FloatType>(t)) {
    llvm::APFloat value = llvm::APFloat::getZero(f.getFloatSemantics());
    if (!a.is_sum) value = llvm::APFloat::getInf(f.getFloatSemantics(), a.is_max);
    zero = FloatAttr::get(t, value);
  } else {
    const unsigned width = t.getIntOrFloatBitWidth();
    const bool is_unsigned = ElementOf(reduce.getX()).isUnsignedInteger();
    llvm::APInt value(width, 0);
    if (a.is_max) value = is_unsigned ? llvm::APInt::getMinValue(width) : llvm::APInt::getSignedMinValue(width);
    if (!a.is_max && !a.is_sum)
      value = is_unsigned ? llvm::APInt::getMaxValue(width) : llvm::APInt::getSignedMaxValue(width);
    zero = IntegerAttr::get(t, value);
  }
  return Splat(arith::ConstantOp::create(b_, loc_, zero), lanes);
}

bool RowLowering::IsLoose(const Accumulator& a) {
  graph::ReduceOp reduce = a.reduce;
  return reduce.getLoose() && reduce.getKind() == "max" && isa<FloatType>(a.type) && !is_device_;
}

Value RowLowering::Combine(const Accumulator& a, Value x, Value y) {
  graph::ReduceOp reduce = a.reduce;
  if (a.is_sum && !isa<FloatType>(a.type)) return Value(arith::AddIOp::create(b_, loc_, x, y));
  if (a.is_sum) return Value(arith::AddFOp::create(b_, loc_, x, y));
  Type e = ElementOf(reduce.getX());
  const bool max = a.is_max;
  if (IsLoose(a)) return Map(CombinerOf(a), {x, y}, x.getType());
  // One instruction each on Arm and on devices; a NaN wins, and +0 is larger than -0, as in tier 1.
  if (isa<FloatType>(e)) {
    return max ? Value(arith::MaximumFOp::create(b_, loc_, x, y)) : Value(arith::MinimumFOp::create(b_, loc_, x, y));
  }
  if (e.isUnsignedInteger()) {
    return max ? Value(arith::MaxUIOp::create(b_, loc_, x, y)) : Value(arith::MinUIOp::create(b_, loc_, x, y));
  }
  return max ? Value(arith::MaxSIOp::create(b_, loc_, x, y)) : Value(arith::MinSIOp::create(b_, loc_, x, y));
}

SmallVector<int64_t> RowLowering::WidthsOf(int64_t lanes) {
  SmallVector<int64_t> widths = {lanes};
  while (widths.back() >= 8) widths.push_back(widths.back() / 4);
  if (widths.back() > 1) widths.push_back(1);
  return widths;
}

Value RowLowering::WholeOf(Value lo, Value hi, int64_t width) {
  if (width == 1) return hi;
  Value count = arith::SubIOp::create(b_, loc_, hi, lo);
  return Sum(lo, Mul(arith::DivUIOp::create(b_, loc_, count, I64(width)), I64(width)));
}

void RowLowering::Along(Value lo, Value hi, int64_t lanes, llvm::function_ref<void(Value, int64_t)> fn) {
  for (int64_t width : WidthsOf(lanes)) {
    Value whole = WholeOf(lo, hi, width);
    For(lo, whole, I64(width), {}, [&](Value i, ValueRange) {
      fn(i, width);
      return SmallVector<Value>();
    });
    lo = whole;
  }
}

// Do these results fill whole lines from lo on? Null where they are not to go past the caches.
Value RowLowering::MayStream(ArrayRef<size_t> stores, Value lo) {
  constexpr int64_t kLine = 64;
  if (!kernel_.getStreams() || num_passes_ > 1 || written_.value) return {};
  auto yield = cast<sched::YieldOp>(Body().back());
  Value rest;
  for (size_t k : stores) {
    const int64_t bytes =
        std::max(1u, ElementOf(yield.getValues()[static_cast<unsigned>(k)]).getIntOrFloatBitWidth() / 8);
    if (lanes_ * bytes % kLine != 0) return {};
    const size_t view = num_inputs_ + k;
    Value base = LLVM::PtrToIntOp::create(b_, loc_, b_.getI64Type(), view_args_[view]);
    Value address = Sum(base, Mul(Sum(offsets_[view], lo), I64(bytes)));
    rest = rest ? arith::OrIOp::create(b_, loc_, rest, address) : address;
  }
  if (!rest) return {};
  Value beside = arith::AndIOp::create(b_, loc_, rest, I64(kLine - 1));
  return arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::eq, beside, I64(0));
}

void RowLowering::Pass(int pass, Value lo, Value hi, ArrayRef<graph::ReduceOp> reductions, ArrayRef<size_t> stores,
                       ArrayRef<size_t> keeps) {
  SmallVector<Accumulator> accumulators;
  bool any_widens = false;
  for (graph::ReduceOp r : reductions) {
    accumulators.push_back(AccumulatorOf(r, /*widens=*/true));
    any_widens |= accumulators.back().widens && !bitwise_;
  }
  // What the pass needs of whole rows, before the loop.
  for (graph::ReduceOp r : reductions) NeedRows(r.getX(), pass);
  auto yield = cast<sched::YieldOp>(Body().back());
  for (size_t k : stores) NeedRows(yield.getValues()[static_cast<unsigned>(k)], pass);
  for (size_t k : keeps) NeedRows(spills_[k].value, pass);
  if (written_.value && pass_.lookup(written_.value) == pass) NeedRows(written_.value, pass);

  auto body = [&](Value i, int64_t lanes, bool streams = false) {
    tiles_.clear();
    current_pass_ = pass;
    current_index_ = i;
    current_lanes_ = lanes;
    SmallVector<Value> reduced;
    for (graph::ReduceOp r : reductions) reduced.push_back(Tile(r.getX()));
    // A result may be where an operand is, or what was kept: everything is read before anything is written.
    for (size_t k : keeps) Tile(spills_[k].value);
    for (size_t k : stores) Tile(yield.getValues()[static_cast<unsigned>(k)]);
    const bool writes = written_.value && pass_.lookup(written_.value) == pass;
    if (writes) Tile(written_.value);
    for (size_t k : keeps) {
      const Spill& s = spills_[k];
      const Place place = PlaceOf(s);
      tile::StoreOp::create(b_, loc_, Tile(s.value), place.view, place.offset, Value(), s.type);
    }
    for (size_t k : stores) {
      Value v = yield.getValues()[static_cast<unsigned>(k)];
      const size_t view = num_inputs_ + k;
      Value at = Sum(offsets_[view], i);
      tile::StoreOp::create(b_, loc_, Tile(v), view_args_[view], at, Value(), ElementOf(v), /*aligned=*/false, streams);
    }
    if (writes)
      tile::StoreOp::create(b_, loc_, Tile(written_.value), written_.view, Sum(written_.offset, i), Value(),
                            ComputeType(ElementOf(written_.value)));
    return reduced;
  };
  Value count = arith::SubIOp::create(b_, loc_, hi, lo);
  Value whole = WholeOf(lo, hi, lanes_);
  SmallVector<Value> init;
  for (Accumulator& a : accumulators) init.push_back(Identity(a, true, lanes_));

  SmallVector<Value> lanes;
  if (Value in_lines = MayStream(stores, lo); in_lines && accumulators.empty() && keeps.empty()) {
    auto branch = scf::IfOp::create(b_, loc_, in_lines, /*withElseRegion=*/true);
    for (const bool streams : {true, false}) {
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPoint(streams ? branch.thenYield() : branch.elseYield());
      For(lo, whole, I64(lanes_), {}, [&](Value i, ValueRange) { return body(i, lanes_, streams); });
    }
  } else if (!any_widens) {
    lanes = For(lo, whole, I64(lanes_), init, [&](Value i, ValueRange carried) {
      SmallVector<Value> x = body(i, lanes_), next;
      for (size_t k = 0; k < accumulators.size(); ++k)
        next.push_back(Combine(accumulators[k], carried[k], accumulators[k].widens ? Widen(x[k]) : x[k]));
      return next;
    });
  } else {
    const int64_t block = 8 * lanes_;
    lanes = For(lo, whole, I64(block), init, [&](Value i, ValueRange carried) {
      Value stop = arith::MinSIOp::create(b_, loc_, Sum(i, I64(block)), whole);
      SmallVector<Value> start;
      for (size_t k = 0; k < accumulators.size(); ++k)
        start.push_back(accumulators[k].widens ? Identity(accumulators[k], false, lanes_) : carried[k]);
      SmallVector<Value> partial = For(i, stop, I64(lanes_), start, [&](Value j, ValueRange c) {
        SmallVector<Value> x = body(j, lanes_), next;
        for (size_t k = 0; k < accumulators.size(); ++k) next.push_back(Combine(accumulators[k], c[k], x[k]));
        return next;
      });
      SmallVector<Value> next;
      for (size_t k = 0; k < accumulators.size(); ++k) {
        if (!accumulators[k].widens)
          next.push_back(partial[k]);
        else
          next.push_back(Combine(accumulators[k], carried[k], Widen(partial[k])));
      }
      return next;
    });
  }
  // What is left, with ever fewer lanes; what those gave that are no more goes into the others.
  SmallVector<int64_t> widths = WidthsOf(lanes_);
  const bool is_exact = bitwise_ && llvm::any_of(accumulators, [](const Accumulator& a) { return a.is_sum; });
  if (is_exact && lanes_ > 1) widths = {lanes_, 1};
  for (int64_t width : ArrayRef<int64_t>(widths).drop_front()) {
    for (size_t k = 0; k < accumulators.size(); ++k) {
      Accumulator& a = accumulators[k];
      lanes[k] = tile::ReduceOp::create(b_, loc_, TileType(a.type, width), lanes[k], b_.getStringAttr(CombinerOf(a)));
    }
    Value from = whole;
    whole = WholeOf(from, hi, width);
    lanes = For(from, whole, I64(width), lanes, [&](Value i, ValueRange carried) {
      SmallVector<Value> x = body(i, width), next;
      for (size_t k = 0; k < accumulators.size(); ++k) {
        Value v = accumulators[k].widens ? Widen(x[k]) : x[k];
        next.push_back(Combine(accumulators[k], carried[k], v));
      }
      return next;
    });
  }
  const SmallVector<Value>& results = lanes;
  if (in_parts_) {
    for (size_t k = 0; k < accumulators.size(); ++k)
      StorePart(accumulators[k], results[k], I64(8 * static_cast<int64_t>(k)));
    return;
  }
  for (size_t k = 0; k < accumulators.size(); ++k)
    values_[accumulators[k].reduce.getY()] = Finish(accumulators[k], results[k], count);
}

Value RowLowering::PartAt(Value byte) {
  return LLVM::GEPOp::create(b_, loc_, partial_.getType(), b_.getI8Type(), partial_, byte);
}
void RowLowering::StorePart(const Accumulator& a, Value tile, Value byte) {
  tile::StoreOp::create(b_, loc_, tile, PartAt(Sum(part_, byte)), I64(0), Value(), a.type);
}
Value RowLowering::LoadPart(const Accumulator& a, int64_t lanes, Value byte) {
  return tile::LoadOp::create(b_, loc_, TileType(a.type, lanes), PartAt(Sum(part_, byte)), I64(0), Value(),
                              TypeAttr::get(a.type), UnitAttr());
}

void RowLowering::Look() {
  if (std::exchange(has_looked_, true)) return;
  Classify();
  FindSpills();
}

bool RowLowering::MayBeInParts() {
  Look();
  if (nest_.row == 0 || nest_.loops.size() != 1 || num_passes_ > 2 || !spills_.empty() || reductions_.empty())
    return false;
  if (llvm::any_of(reductions_, [](const auto& r) { return r.second > 0; })) return false;
  auto yield = cast<sched::YieldOp>(Body().back());
  for (auto [k, v] : llvm::enumerate(yield.getValues()))
    if (pass_.lookup(v) > 0 && nest_.views[num_inputs_ + k].loops.back().kind != Stride::Kind::zero) return false;
  return true;
}

void RowLowering::RowInParts(Value task, Value lo, Value hi) {
  in_parts_ = true;
  part_ = Mul(task, I64(PartBytes()));
  Row(lo, hi);
  in_parts_ = false;
}

void RowLowering::PutTogether(Value tasks, Value count) {
  values_.clear();
  for (auto& [v, loaded] : once_) values_[v] = loaded;
  SmallVector<Accumulator> accumulators;
  SmallVector<Value> init;
  for (auto& [reduce, pass] : reductions_) {
    accumulators.push_back(AccumulatorOf(reduce, /*widens=*/true));
    init.push_back(Identity(accumulators.back(), true, 1));
  }
  SmallVector<Value> sums = For(I64(0), tasks, I64(1), init, [&](Value task, ValueRange carried) {
    part_ = Mul(task, I64(PartBytes()));
    SmallVector<Value> next;
    for (auto [k, a] : llvm::enumerate(accumulators))
      next.push_back(Combine(a, carried[k], LoadPart(a, 1, I64(8 * static_cast<int64_t>(k)))));
    return next;
  });
  for (auto [k, a] : llvm::enumerate(accumulators)) values_[a.reduce.getY()] = Finish(a, sums[k], count);
  StoreNumbers();
}

std::string RowLowering::CombinerOf(const Accumulator& a) {
  graph::ReduceOp reduce = a.reduce;
  if (a.is_sum) return a.type.isF64() ? "add_f64" : a.type.isF32() ? "add_f32" : "add_i64";
  const char* function = IsLoose(a) ? "larger_" : a.is_max ? "maximum_" : "minimum_";
  return function + ComputeName(ElementOf(reduce.getX())).str();
}

Value RowLowering::Finish(const Accumulator& a, Value sum, Value count, int64_t lanes) {
  graph::ReduceOp reduce = a.reduce;
  if (reduce.getKind() == "mean") {
    Value n = arith::SIToFPOp::create(b_, loc_, a.type, count);
    if (reduce.getCorrection()) {
      const double correction = reduce.getCorrection()->convertToDouble();
      n = arith::SubFOp::create(b_, loc_, n, arith::ConstantOp::create(b_, loc_, b_.getFloatAttr(a.type, correction)));
    }
    if (is_device_ && !bitwise_)
      sum = Map(a.type.isF64() ? "mean_f64_row" : "mean_f32_row", {sum, Splat(n, lanes)}, sum.getType());
    else
      sum = arith::DivFOp::create(b_, loc_, sum, Splat(n, lanes));
  }
  return a.widens ? arith::TruncFOp::create(b_, loc_, TileType(b_.getF32Type(), lanes), sum).getResult() : sum;
}

// ---- sums along columns

void RowLowering::SetColumnOffsets(Value outer, Value row) {
  SmallVector<Value> indices(nest_.loops.size() - 1);
  // Loops are of outer dims, then of summed ones; the last is of columns.
  size_t summed = 0;
  while (nest_.loops[summed].first < nest_.first) ++summed;
  auto split = [&](Value at, size_t from, size_t to) {
    for (size_t l = to; at && l-- > from;) {
      indices[l] = l == from ? at : arith::RemUIOp::create(b_, loc_, at, sizes_[l]).getResult();
      if (l > from) at = arith::DivUIOp::create(b_, loc_, at, sizes_[l]);
    }
  };
  split(outer, 0, summed);
  split(row, summed, indices.size());
  SetOffsets(indices);
}

Value RowLowering::AfterSums(Value v, llvm::DenseMap<Value, Value>& known, int64_t lanes) {
  if (Value there = known.lookup(v)) return there;
  SmallVector<Value> operands;
  for (Value o : v.getDefiningOp()->getOperands()) operands.push_back(AfterSums(o, known, lanes));
  return known[v] = Apply(v.getDefiningOp(), operands, lanes);
}

// ---- values

// Numbers of the row that `v` needs are computed here, before the loop.
void RowLowering::NeedRows(Value v, int pass) {
  if (is_row_.lookup(v)) {
    if (!v.getDefiningOp() || pass_.lookup(v) <= pass) RowValue(v);
    return;
  }
  if (v.getDefiningOp() == nullptr || in_memory_.contains(v) || SpillOf(v, pass) != nullptr) return;
  if (IsGather(v.getDefiningOp())) return;
  for (Value o : v.getDefiningOp()->getOperands()) NeedRows(o, pass);
}

Value RowLowering::RowValue(Value v) {
  if (Value known = values_.lookup(v)) return known;
  Value result;
  if (auto argument = dyn_cast<BlockArgument>(v)) {
    result = Load(argument.getArgNumber(), offsets_[argument.getArgNumber()], 1, Value());
  } else {
    SmallVector<Value> operands;
    if (!isa<graph::SizeOp>(v.getDefiningOp()))
      for (Value o : v.getDefiningOp()->getOperands()) operands.push_back(RowValue(o));
    result = Apply(v.getDefiningOp(), operands, 1);
  }
  return values_[v] = result;
}

const RowLowering::Spill* RowLowering::SpillOf(Value v, int pass) {
  if (pass_.lookup(v) >= pass) return nullptr;
  for (const Spill& s : spills_)
    if (s.value == v) return &s;
  return nullptr;
}
// Where the elements from current_index_ on are.
RowLowering::Place RowLowering::PlaceOf(const Spill& s) {
  if (s.output >= 0) {
    const size_t view = num_inputs_ + static_cast<size_t>(s.output);
    return {view_args_[view], Sum(offsets_[view], current_index_)};
  }
  return {LLVM::GEPOp::create(b_, loc_, scratch_.getType(), b_.getI8Type(), scratch_, s.offset), current_index_};
}

// The elements of v from current_index_ on.
Value RowLowering::Tile(Value v) {
  if (Value known = tiles_.lookup(v)) return known;
  Value result;
  if (is_row_.lookup(v)) {
    result = Splat(RowValue(v), current_lanes_);
  } else if (auto place = in_memory_.find(v); place != in_memory_.end()) {
    Type type = ComputeType(ElementOf(v));
    result = tile::LoadOp::create(b_, loc_, TileType(type, current_lanes_), place->second.view,
                                  Sum(place->second.offset, current_index_), Value(), TypeAttr::get(type), UnitAttr());
    result = Round(result, ElementOf(v), current_lanes_);
  } else if (const Spill* s = SpillOf(v, current_pass_)) {
    const Place place = PlaceOf(*s);
    result = tile::LoadOp::create(b_, loc_, TileType(s->type, current_lanes_), place.view, place.offset, Value(),
                                  TypeAttr::get(s->type), UnitAttr());
  } else if (auto argument = dyn_cast<BlockArgument>(v)) {
    result = Elements(argument.getArgNumber(), offsets_[argument.getArgNumber()]);
  } else if (Value row = gathered_.lookup(v.getDefiningOp())) {
    result = Elements(cast<BlockArgument>(v.getDefiningOp()->getOperand(0)).getArgNumber(), row);
  } else {
    SmallVector<Value> operands;
    for (Value o : v.getDefiningOp()->getOperands()) operands.push_back(Tile(o));
    result = Apply(v.getDefiningOp(), operands, current_lanes_);
  }
  return tiles_[v] = result;
}

Value RowLowering::Elements(size_t k, Value offset) {
  if (!MovesInside(k)) return Splat(Load(k, offset, 1, Value()), current_lanes_);
  Value stride = IsRun(k) ? Value() : loop_strides_[k][static_cast<size_t>(inner_)];
  Value step = stride ? Mul(current_index_, stride) : current_index_;
  return Load(k, Sum(offset, step), current_lanes_, stride);
}

Type RowLowering::TileType(Type scalar, int64_t lanes) {
  return lanes == 1 ? scalar : Type(VectorType::get({lanes}, scalar));
}
Value RowLowering::Splat(Value scalar, int64_t lanes) {
  if (lanes == 1) return scalar;
  return tile::SplatOp::create(b_, loc_, TileType(scalar.getType(), lanes), scalar);
}
Value RowLowering::Widen(Value v) {
  Type f64 = b_.getF64Type();
  if (auto vector = dyn_cast<VectorType>(v.getType())) f64 = VectorType::get(vector.getShape(), f64);
  return tile::WidenOp::create(b_, loc_, f64, v);
}
Value RowLowering::Load(size_t k, Value at, int64_t lanes, Value stride, bool aligned) {
  Type element = nest_.views[k].type.getElementType();
  return tile::LoadOp::create(b_, loc_, TileType(ComputeType(element), lanes), view_args_[k], at,
                              lanes == 1 ? Value() : stride, TypeAttr::get(element),
                              aligned ? b_.getUnitAttr() : UnitAttr());
}
Value RowLowering::Map(const std::string& function, ValueRange operands, Type type) {
  return tile::MapOp::create(b_, loc_, type, operands, b_.getStringAttr(function));
}
Value RowLowering::Round(Value v, Type element, int64_t lanes) {
  if (!IsNarrowFloat(element)) return v;
  return Map("round_" + DTypeName(element).str(), {v}, TileType(b_.getF32Type(), lanes));
}

// Minus infinity for keys after the last one that this row sees.
Value RowLowering::Causal(Value x, int64_t lanes) {
  const size_t keys = nest_.loops.size() - 1;
  Value last = Sum(indices_[keys - 1], arith::SubIOp::create(b_, loc_, sizes_[keys], sizes_[keys - 1]));
  Type scalar = x.getType();
  Value key = current_index_;
  if (auto vector = dyn_cast<VectorType>(x.getType())) {
    scalar = vector.getElementType();
    auto type = VectorType::get({lanes}, b_.getI64Type());
    SmallVector<int64_t> steps;
    for (int64_t l = 0; l < lanes; ++l) steps.push_back(l);
    Value iota = arith::ConstantOp::create(b_, loc_, DenseElementsAttr::get(type, ArrayRef<int64_t>(steps)));
    key = arith::AddIOp::create(b_, loc_, Splat(key, lanes), iota);
    last = Splat(last, lanes);
  }
  Value hidden = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::sgt, key, last);
  auto f = cast<FloatType>(scalar);
  Value infinity = arith::ConstantOp::create(
      b_, loc_, FloatAttr::get(f, llvm::APFloat::getInf(f.getFloatSemantics(), /*Negative=*/true)));
  return arith::SelectOp::create(b_, loc_, hidden, Splat(infinity, lanes), x);
}

Value RowLowering::Apply(Operation* op, ArrayRef<Value> operands, int64_t lanes) {
  Type out = ElementOf(op->getResult(0));
  Type type = TileType(ComputeType(out), lanes);
  if (auto number = dyn_cast<graph::NumberOp>(op)) {
    TypedAttr attr;
    const double value = number.getValue().convertToDouble();
    if (auto f = dyn_cast<FloatType>(ComputeType(out)))
      attr = b_.getFloatAttr(f, value);
    else
      attr = b_.getIntegerAttr(ComputeType(out), static_cast<int64_t>(value));
    return Splat(arith::ConstantOp::create(b_, loc_, attr), lanes);
  }
  if (isa<graph::CausalOp>(op)) return Causal(operands[0], lanes);
  if (auto size = dyn_cast<graph::SizeOp>(op)) {
    const Dim d = DimsOf(size.getX().getType())[static_cast<size_t>(size.getDim())];
    return Splat(arith::SIToFPOp::create(b_, loc_, ComputeType(out), SizeOf(d)), lanes);
  }
  const StringRef name = RowOf(op)->name;
  if (name == "cast") {
    Type in = ElementOf(op->getOperand(0));
    if (in == out) return operands[0];
    Value v = operands[0];
    // Wider than f32 to narrower than f32 rounds once: this form of it keeps what the last rounding needs to know.
    if (IsNarrowFloat(out) && (in.isF64() || in.isInteger(64) || in.isInteger(32)))
      v = Map("pre_" + DTypeName(in).str(), {v}, type);
    else if (ComputeName(in) != ComputeName(out))
      v = Map("cast_" + ComputeName(in).str() + "_" + ComputeName(out).str(), {v}, type);
    return Round(v, out, lanes);
  }
  if (name == "copy" || RowOf(op)->impl == "view") return operands[0];
  // Functions are named after the dtype that they compute in, which is that of the last operand: conditions come
  // first.
  const StringRef dtype = ComputeName(ElementOf(op->getOperands().back()));
  if (op->hasAttr("weight")) return Map(FunctionOf(op, "exp_weight_" + dtype.str()), operands, type);
  Value y = Map(FunctionOf(op, (name + "_" + dtype).str()), operands, type);
  return is_device_ && !bitwise_ ? y : Round(y, out, lanes);
}

}  // namespace tessera::compiler
