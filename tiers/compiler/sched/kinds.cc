#include "tiers/compiler/sched/kinds.h"

#include "llvm/ADT/StringSet.h"
#include "tiers/compiler/sched/attention.h"
#include "tiers/compiler/sched/gather.h"
#include "tiers/compiler/sched/update.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

bool IsFloat(Value v) { return isa<FloatType>(cast<RankedTensorType>(v.getType()).getElementType()); }
bool HasDType(Value v) { return !DTypeName(cast<RankedTensorType>(v.getType()).getElementType()).empty(); }
int64_t RankOf(Value v) { return cast<RankedTensorType>(v.getType()).getRank(); }

// The reduced axes, when they are the trailing ones: how many; otherwise 0.
int64_t TrailingAxes(Operation* op, int64_t rank) {
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes");
  if (!axes || axes.empty()) return rank;
  uint64_t mask = 0;
  for (int64_t a : axes.asArrayRef()) {
    if (a < -rank || a >= rank) return 0;
    mask |= uint64_t{1} << (a < 0 ? a + rank : a);
  }
  const int64_t k = static_cast<int64_t>(axes.size());
  const uint64_t trailing = ((uint64_t{1} << k) - 1) << (rank - k);
  return mask == trailing ? k : 0;
}

// A variance needs the mean first, a sum of exponentials the largest element.
int Reads(StringRef reduction) { return reduction == "var" || reduction == "logsumexp" ? 2 : 1; }

bool OnlyUnitDimsDiffer(Type a, Type b) {
  auto significant = [](Type t) {
    SmallVector<Dim> dims;
    for (const Dim& d : DimsOf(t))
      if (!d.is_one()) dims.push_back(d);
    return dims;
  };
  return significant(a) == significant(b);
}

// All of one dtype. There may be fewer heads of keys and values than of queries. A window is left to tier 1, which
// skips the keys before it.
bool IsPlainAttention(Operation* op) {
  Value q = op->getOperand(0), k = op->getOperand(1), v = op->getOperand(2);
  const SmallVector<Dim> dims = DimsOf(q.getType()), keys = DimsOf(k.getType()), values = DimsOf(v.getType());
  if (dims.size() < 3 || keys.size() != dims.size() || values.size() != dims.size() || op->hasAttr("absent"))
    return false;
  Type element = cast<RankedTensorType>(q.getType()).getElementType();
  for (Value x : {q, k, v})
    if (cast<RankedTensorType>(x.getType()).getElementType() != element) return false;
  if (auto window = op->getAttrOfType<IntegerAttr>("window"); window && window.getInt() != 0) return false;
  auto batch = [](ArrayRef<Dim> d) { return d.drop_back(3); };
  const size_t heads = dims.size() - 3;
  return !keys[heads + 1].is_one() && batch(keys) == batch(dims) && batch(values) == batch(dims) &&
         keys[heads] == values[heads] && IsFloat(q);
}

// Of bf16 or f16, in heads that a generated kernel takes.
bool HasNarrowHeads(Operation* op) {
  Type element = cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
  auto trace = op->getParentOfType<graph::TraceOp>();
  if (!element.isBF16() && !element.isF16()) return false;
  return IsHead(trace, DimsOf(op->getOperand(0).getType()).back()) &&
         IsHead(trace, DimsOf(op->getOperand(2).getType()).back());
}

// A product of bf16 or f16, of f32 where it may be in tf32, or, on sm_90a, of f8. Factors are results of other ops or
// operands of the trace as they lie: a part of one may begin where a device cannot copy from.
bool IsForTensorCores(Operation* op, const CompileOptions& options) {
  if (options.device.empty() || options.bitwise) return false;
  Type element = cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
  const bool is_f8 = IsF8(element) && options.device == "sm_90a";
  if (!element.isBF16() && !element.isF16() && !(element.isF32() && options.tf32) && !is_f8) return false;
  for (Value v : op->getOperands().take_front(2)) {
    Type own = cast<RankedTensorType>(v.getType()).getElementType();
    if (is_f8 ? !IsF8(own) : own != element) return false;
    for (Operation* def = v.getDefiningOp(); def != nullptr && RowOf(def) != nullptr && RowOf(def)->impl == "view";
         def = def->getOperand(0).getDefiningOp())
      if (!llvm::is_contained({"reshape", "squeeze", "unsqueeze", "transpose", "permute"}, RowOf(def)->name))
        return false;
  }
  return true;
}

}  // namespace

bool IsCheap(Operation* op) {
  static const llvm::StringSet<> cheap = {
      "add",         "sub",         "mul",        "neg",     "abs",       "square",      "maximum",
      "minimum",     "fmax",        "fmin",       "where",   "clamp",     "relu",        "relu6",
      "eq",          "ne",          "lt",         "le",      "gt",        "ge",          "cast",
      "copy",        "reshape",     "unsqueeze",  "squeeze", "broadcast", "logical_and", "logical_or",
      "logical_not", "logical_xor", "leaky_relu", "isnan",   "isfinite",  "isinf",       "sign"};
  if (isa<graph::NumberOp, graph::CausalOp>(op)) return true;
  const TableRow* row = RowOf(op);
  return row != nullptr && cheap.contains(row->name);
}

bool HasWeights(ArrayRef<Operation*> ops) {
  auto has = [&](StringRef name) {
    return llvm::any_of(ops, [&](Operation* op) { return RowOf(op) != nullptr && RowOf(op)->name == name; });
  };
  return has("softmax") || has("log_softmax") || (has("max") && has("exp") && has("sum") && has("div"));
}

Kind KindOf(Operation* op, const CompileOptions& options) {
  const bool bitwise = options.bitwise;
  if (isa<graph::StepOp>(op)) return {};
  if (isa<graph::NumberOp>(op)) return {Class::elementwise};
  const TableRow* row = RowOf(op);
  if (row == nullptr || op->getNumResults() == 0) return {};
  for (Value v : op->getOperands())
    if (!HasDType(v)) return {};
  // Depends on nothing but sizes: it may stand anywhere, and what reads it is generated.
  if (IsPositions(op) && options.device == "sm_90a") return {Class::view};
  if (row->impl == "view") {
    const bool regroups = row->name == "reshape" || row->name == "squeeze" || row->name == "unsqueeze";
    if (regroups && OnlyUnitDimsDiffer(op->getOperand(0).getType(), op->getResult(0).getType())) return {Class::alias};
    return {Class::view};
  }
  if (op->hasAttr("absent")) return {};
  // Moves bits, among them infinities, which a store of f8 would turn into the largest number.
  Type moved = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  if (isa<FloatType>(moved) && moved.getIntOrFloatBitWidth() == 8) {
    const bool same = op->getNumOperands() > 0 &&
                      cast<RankedTensorType>(op->getOperands().back().getType()).getElementType() == moved;
    if (row->name == "copy" || row->name == "where" || IsGather(op) || (row->name == "cast" && same)) return {};
  }
  if (IsCheckedGather(op, options)) return {Class::gather};
  if (IsUpdate(op)) return {Class::update};
  if (row->impl == "ew" || row->name == "cast" || row->name == "copy") return {Class::elementwise};
  if (op->getNumOperands() == 0) return {};
  Value x = op->getOperand(0);
  const int64_t rank = RankOf(x);
  if (row->name == "sum" || row->name == "mean" || row->name == "max" || row->name == "min" || row->name == "var" ||
      row->name == "logsumexp") {
    Type element = cast<RankedTensorType>(x.getType()).getElementType();
    const bool order = row->name == "max" || row->name == "min";
    // Integers: their sums wrap in i64, in any order; their means are another matter.
    const bool exact = !IsFloat(x) && row->name == "sum" && options.device.empty();
    if (!IsFloat(x) && !(order && !element.isInteger(1)) && !exact) return {};
    if (bitwise && !order && !exact) return {};
    if (const int64_t k = TrailingAxes(op, rank); k > 0) return {Class::reduction, k};
    if (Reads(row->name) > 1 && !options.device.empty()) return {};
    const Columns columns = ColumnsOf(op);
    if (!options.device.empty() && !SuitsDevice(op, columns)) return {};
    return columns.count > 0 ? Kind{Class::column, 0, columns, Reads(row->name)} : Kind{};
  }
  if (bitwise) return {};
  // CUDA devices have a library for those that are not for tensor cores.
  if (!options.device.empty() && row->name == "attention")
    return WantsAttention(op, options) && IsPlainAttention(op) && HasNarrowHeads(op) ? Kind{Class::product} : Kind{};
  if (!options.device.empty() && IsProduct(op) && !IsForTensorCores(op, options)) return {};
  if (IsProduct(op)) {
    auto computes = [](Value v) { return ComputeType(cast<RankedTensorType>(v.getType()).getElementType()); };
    for (Value v : op->getOperands().take_front(2))
      if (!IsFloat(v) || RankOf(v) < 2 || computes(v) != computes(op->getResult(0))) return {};
    // A single column is no row.
    return DimsOf(op->getResult(0).getType()).back().is_one() ? Kind{} : Kind{Class::product};
  }
  if (row->name == "attention") return IsPlainAttention(op) ? Kind{Class::product} : Kind{};
  if (row->name == "softmax" || row->name == "log_softmax") {
    auto axis = op->getAttrOfType<IntegerAttr>("axis");
    const int64_t a = axis ? axis.getInt() : -1;
    return rank > 0 && (a == -1 || a == rank - 1) ? Kind{Class::row, 1} : Kind{};
  }
  if (row->name == "layer_norm" || row->name == "rms_norm") {
    auto dims = op->getAttrOfType<IntegerAttr>("dims");
    const int64_t k = dims ? dims.getInt() : 1;
    return k > 0 && k <= rank ? Kind{Class::row, k} : Kind{};
  }
  return {};
}

}  // namespace tessera::compiler
