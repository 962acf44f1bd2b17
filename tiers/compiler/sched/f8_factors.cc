// Programs have no product of f8 with a result of another dtype: they cast both factors for the product alone. bf16 and
// f16 have all numbers of f8, so tensor cores can read what was there before the cast.
//
// Where each block of 128 elements along the sum has a scale of its own, programs write what the factors are:
//
//   x [M, K] in f8, s [M, K/128]         cast(reshape(reshape(x, [M, K/128, 128]) * s[:, :, 1], [M, K]), bf16)
//   w [N, K] in f8, t [N/128, K/128]     the same with [N/128, 128, K/128, 128] and t[:, 1, :, 1]
//
// with casts to f32 or bf16 on the way. Where N is no multiple of 128 the scales of w are repeated for each row
// instead:
//
//   slice(reshape(broadcast(t[:, 1, :], [R, 128, K/128]), [R * 128, K/128]), [N, K/128])[:, :, 1]
//
// A sum over a block is that of the f8 numbers times both scales, so the product's kernel multiplies where it adds up
// what each 128 elements give (tsr_tile.promote). That leaves out the rounding of each element to bf16, and nothing of
// the range of numbers: scales are f32, and so is what they are multiplied with.
#include "tiers/compiler/sched/f8_factors.h"

#include "tiers/compiler/sched/columns.h"
#include "tiers/compiler/sched/group.h"
#include "tiers/compiler/sched/kinds.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr size_t kEntries = 5;  // of the attribute, for each factor

Type ElementOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }
StringRef NameOf(Operation* op) { return op == nullptr || RowOf(op) == nullptr ? StringRef() : RowOf(op)->name; }

bool Is(const Dim& d, int64_t n) { return !d.is_symbol && d.value == n; }
/// Are so many blocks all of a dim? With `cut` the last one may have less.
bool AreBlocks(const Dim& blocks, const Dim& of, bool cut = false) {
  if (blocks.is_symbol || of.is_symbol) return false;
  const int64_t all = blocks.value * kScaleBlock;
  return all == of.value || (cut && all > of.value && all - kScaleBlock < of.value);
}

/// Do the scales have a number for each block of a factor with these dims?
bool Fit(const BlockScales& s, ArrayRef<Dim> factor) {
  const SmallVector<Dim> dims = DimsOf(s.values.getType());
  const size_t n = factor.size(), outer = static_cast<size_t>(s.outer);
  if (n < 2 || !ElementOf(s.values).isF32() || s.outer < 0 || outer > n - 2 || (s.rows != 1 && s.rows != kScaleBlock))
    return false;
  for (auto [k, d] : llvm::enumerate(dims)) {
    if (d.is_one()) continue;
    const auto at = static_cast<int64_t>(k);
    const bool fits = k < outer     ? d == factor[n - 2 - outer + k]
                      : at == s.row ? (s.rows == 1 ? d == factor[n - 2] : AreBlocks(d, factor[n - 2], /*cut=*/true))
                                    : at == s.along && AreBlocks(d, factor[n - 1]);
    if (!fits) return false;
  }
  return s.row < static_cast<int64_t>(dims.size()) && s.along < static_cast<int64_t>(dims.size()) &&
         dims.size() >= outer;
}

/// The scales of a factor with dims [..., R, K] that was [..., R, K/128, 128] or [..., R/128, 128, K/128, 128] when it
/// was multiplied with these; without rows: it was something else.
BlockScales AsScales(Value values, ArrayRef<Dim> factor, ArrayRef<Dim> blocked) {
  BlockScales s{values, 0};
  const size_t n = factor.size(), last = blocked.size() - 1;
  if (n < 2 || blocked.size() < n + 1 || blocked.size() > n + 2 || !Is(blocked[last], kScaleBlock) ||
      !AreBlocks(blocked[last - 1], factor[n - 1]) || blocked.take_front(n - 2) != factor.take_front(n - 2))
    return s;
  const bool has_rows = blocked.size() == n + 1;
  if (has_rows ? blocked[n - 2] != factor[n - 2]
               : !Is(blocked[n - 1], kScaleBlock) || !AreBlocks(blocked[n - 2], factor[n - 2]))
    return s;
  // Dims that they do not have are in front.
  const SmallVector<Dim> dims = DimsOf(values.getType());
  const auto rank = static_cast<int64_t>(dims.size()), missing = static_cast<int64_t>(blocked.size()) - rank;
  auto own = [&](size_t of_blocked) {
    const int64_t d = static_cast<int64_t>(of_blocked) - missing;
    return d < 0 || dims[static_cast<size_t>(d)].is_one() ? -1 : d;
  };
  s.row = own(n - 2), s.along = own(last - 1);
  s.outer = std::max<int64_t>(0, static_cast<int64_t>(n) - 2 - missing);
  s.rows = has_rows ? 1 : kScaleBlock;
  if (!Fit(s, factor)) s.rows = 0;
  return s;
}

// Only dims of 1 are new, or gone.
Value WithoutOnes(Value v) {
  auto significant = [](Value x) {
    SmallVector<Dim> dims = DimsOf(x.getType());
    llvm::erase_if(dims, [](const Dim& d) { return d.is_one(); });
    return dims;
  };
  while (llvm::is_contained({"reshape", "unsqueeze", "squeeze"}, NameOf(v.getDefiningOp())) &&
         significant(v.getDefiningOp()->getOperand(0)) == significant(v))
    v = v.getDefiningOp()->getOperand(0);
  return v;
}

/// The first rows of something; null: `op` is no such slice.
Value RowsOf(Operation* op) {
  if (NameOf(op) != "slice") return Value();
  const SmallVector<Dim> from = DimsOf(op->getOperand(0).getType()), to = DimsOf(op->getResult(0).getType());
  auto starts = op->getAttrOfType<DenseI64ArrayAttr>("starts"), steps = op->getAttrOfType<DenseI64ArrayAttr>("steps");
  auto is_not = [](int64_t n) { return [n](int64_t x) { return x != n; }; };
  if (!starts || from.size() != 2 || from[1] != to[1] || llvm::any_of(starts.asArrayRef(), is_not(0)) ||
      (steps && llvm::any_of(steps.asArrayRef(), is_not(1))))
    return Value();
  return op->getOperand(0);
}

/// Scales of single rows that were those of blocks, repeated for each row.
BlockScales Repeated(const BlockScales& each, ArrayRef<Dim> factor) {
  if (each.rows != 1 || factor.size() != 2) return each;
  Value v = WithoutOnes(each.values);
  if (Value all = RowsOf(v.getDefiningOp())) v = all;
  const SmallVector<Dim> rows = DimsOf(v.getType());
  Operation* regrouped = v.getDefiningOp();
  if (rows.size() != 2 || NameOf(regrouped) != "reshape") return each;
  Operation* repeated = regrouped->getOperand(0).getDefiningOp();
  if (NameOf(repeated) != "broadcast") return each;
  const SmallVector<Dim> all = DimsOf(repeated->getResult(0).getType());
  const SmallVector<Dim> blocks = DimsOf(repeated->getOperand(0).getType());
  if (all.size() != 3 || blocks.size() != 3 || !Is(all[1], kScaleBlock) || !blocks[1].is_one() ||
      !AreBlocks(all[0], rows[0]) || all[2] != rows[1] || blocks[0] != all[0] || blocks[2] != all[2])
    return each;
  const BlockScales s{repeated->getOperand(0), kScaleBlock, 0, blocks[0].is_one() ? -1 : 0,
                      blocks[2].is_one() ? -1 : 2};
  return Fit(s, factor) ? s : each;
}

struct Factor {
  Value narrow;
  BlockScales scales;
  SmallVector<Operation*> ops;
};

/// What an operand of a product is made of.
std::optional<Factor> FactorOf(Value operand) {
  if (!ElementOf(operand).isBF16() && !ElementOf(operand).isF16()) return std::nullopt;
  const SmallVector<Dim> dims = DimsOf(operand.getType());
  Factor f;
  bool is_f16 = false;
  Value v = operand;
  while (!IsF8(ElementOf(v))) {
    Operation* op = v.getDefiningOp();
    const StringRef name = NameOf(op);
    if ((name != "reshape" && name != "cast" && name != "mul") || !op->hasOneUse()) return std::nullopt;
    f.ops.push_back(op);
    if (name == "mul") {
      const SmallVector<Dim> blocked = DimsOf(op->getResult(0).getType());
      const unsigned other = DimsOf(op->getOperand(1).getType()) != blocked ? 1 : 0;
      Value scales = op->getOperand(other), x = op->getOperand(1 - other);
      // What is scaled may be larger than numbers of f16 are.
      if (f.scales.values || is_f16 || IsLoose(scales.getDefiningOp()) || DimsOf(x.getType()) != blocked)
        return std::nullopt;
      f.scales = AsScales(scales, dims, blocked);
      if (f.scales.rows == 0) return std::nullopt;
      f.scales = Repeated(f.scales, dims);
      v = x;
      continue;
    }
    const Type to = ElementOf(v);
    if (!to.isBF16() && !to.isF16() && !to.isF32()) return std::nullopt;
    is_f16 |= to.isF16();
    v = op->getOperand(0);
  }
  while (DimsOf(v.getType()) != dims) {
    if (NameOf(v.getDefiningOp()) != "reshape") return std::nullopt;
    v = v.getDefiningOp()->getOperand(0);
  }
  if (Through(v) != v) return std::nullopt;
  f.narrow = v;
  return f;
}

/// Will nobody need these but the product, and does none of the steps until then leave the trace or multiply?
bool MayFold(ArrayRef<Operation*> ops, Operation* product, const CompileOptions& options) {
  Operation* first = product;
  for (Operation* op : ops) {
    if (op->isBeforeInBlock(first)) first = op;
    if (IsLoose(op)) continue;
    auto until = op->getAttrOfType<DenseI32ArrayAttr>("until");
    if (!until || until[0] > StepOf(product)) return false;
  }
  for (Operation* between = first->getNextNode(); between != product; between = between->getNextNode())
    if (llvm::is_contained({Class::barrier, Class::product}, KindOf(between, options).c)) return false;
  return true;
}

}  // namespace

F8Factors F8FactorsOf(graph::TraceOp trace, Operation* product, const CompileOptions& options) {
  constexpr int64_t kFewRows = 128;  // there are no tiles for fewer
  if (options.device != "sm_90a" || !options.fuse || !IsProduct(product) || product->getNumOperands() != 2) return {};
  F8Factors all;
  for (auto [k, operand] : llvm::enumerate(product->getOperands())) {
    std::optional<Factor> f = FactorOf(operand);
    const bool is_across = Transposes(product, k == 0 ? "transpose_a" : "transpose_b") == (k == 0);
    if (!f || !RunsAlong(trace, f->narrow, is_across ? 2 : 1) || !MayFold(f->ops, product, options)) return {};
    // Blocks of the last dim are blocks of the sum. A thread has few rows of the result, but many columns.
    if (f->scales.values && (is_across || (k == 1 && f->scales.rows == 1 && f->scales.row >= 0))) return {};
    all.narrow.push_back(f->narrow);
    all.scales[k] = f->scales;
    all.ops.append(f->ops);
  }
  // Without scales few rows are read as bf16 by kernels of their own, or by the library; with them tiles that are
  // mostly empty take less than to write the factors down.
  const SmallVector<Dim> dims = DimsOf(product->getResult(0).getType());
  const int64_t rows = LikelyOf(trace, dims[dims.size() - 2]);
  if (!all.HasScales() && rows >= 0 && rows < kFewRows) return {};
  return all;
}

void SetFactors(Operation* product, const F8Factors& factors) {
  for (auto [k, narrow] : llvm::enumerate(factors.narrow)) product->setOperand(static_cast<unsigned>(k), narrow);
  if (!factors.HasScales()) return;
  SmallVector<int64_t> entries;
  for (const BlockScales& s : factors.scales) {
    entries.append({s.values ? static_cast<int64_t>(product->getNumOperands()) : -1, s.rows, s.outer, s.row, s.along});
    if (s.values) product->insertOperands(product->getNumOperands(), s.values);
  }
  product->setAttr("scales", DenseI64ArrayAttr::get(product->getContext(), entries));
}

BlockScales ScalesOf(Operation* product, unsigned factor) {
  auto entries = product->getAttrOfType<DenseI64ArrayAttr>("scales");
  const auto own = entries ? entries.asArrayRef().slice(factor * kEntries, kEntries) : ArrayRef<int64_t>();
  if (own.empty() || own[0] < 0) return {};
  return {product->getOperand(static_cast<unsigned>(own[0])), own[1], own[2], own[3], own[4]};
}

bool HasScales(Operation* product) { return product->hasAttr("scales"); }

const char* WrongScales(Operation* product) {
  auto entries = product->getAttrOfType<DenseI64ArrayAttr>("scales");
  if (!entries) return product->getNumOperands() > 2 ? "has a product with more operands than factors" : nullptr;
  if (entries.size() != 2 * kEntries) return "has a product whose scales are not those of two factors";
  if (Transposes(product, "transpose_a") || !Transposes(product, "transpose_b"))
    return "has scales for blocks of factors that do not lie along the sum";
  for (unsigned k = 0; k < 2; ++k) {
    const int64_t operand = entries[k * kEntries];
    if (operand >= static_cast<int64_t>(product->getNumOperands())) return "has scales that are no operands";
    if (operand < 0) continue;
    const BlockScales s = ScalesOf(product, k);
    if (!IsF8(ElementOf(product->getOperand(k))) || !Fit(s, DimsOf(product->getOperand(k).getType())))
      return "has scales that do not fit the blocks of their factor";
    if (k == 1 && s.rows == 1 && s.row >= 0) return "has scales for single columns of a product";
  }
  return nullptr;
}

}  // namespace tessera::compiler
