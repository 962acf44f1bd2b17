#include "tiers/compiler/sched/facts.h"

#include "tiers/compiler/sched/f8_factors.h"
#include "tiers/compiler/sched/kinds.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

Type ElementOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }

}  // namespace

Dim DepthOf(Operation* product) {
  const SmallVector<Dim> a = DimsOf(product->getOperand(0).getType());
  return a[a.size() - (Transposes(product, "transpose_a") ? 2 : 1)];
}

bool IsAlongSum(graph::TraceOp trace, Operation* product, unsigned k) {
  return RunsAlong(trace, product->getOperand(k),
                   Transposes(product, k == 0 ? "transpose_a" : "transpose_b") == (k == 0) ? 2 : 1);
}

ProductFacts FactsOf(const Group& g, graph::TraceOp trace, const CompileOptions& options, int64_t share) {
  Operation* op = g.product;
  const SmallVector<Dim> dims = g.dims;
  const size_t rank = dims.size();
  ProductFacts facts;
  for (size_t d = 0; d + 2 < rank; ++d) facts.batch *= std::max<int64_t>(1, LikelyOf(trace, dims[d]));
  facts.m = LikelyOf(trace, dims[rank - 2]);
  facts.n = LikelyOf(trace, dims[rank - 1]);
  facts.k = LikelyOf(trace, DepthOf(op));
  facts.is_exact = !dims[rank - 2].is_symbol && !dims[rank - 1].is_symbol && !DepthOf(op).is_symbol;
  Type element = ComputeType(cast<RankedTensorType>(op->getResult(0).getType()).getElementType());
  facts.bytes = element.getIntOrFloatBitWidth() / 8;
  facts.whole_rows = g.row > 0 || g.second != nullptr;
  if (auto causal = op->getAttrOfType<BoolAttr>("causal")) facts.is_causal = causal.getValue();
  facts.has_prologue = g.has_prologue;
  if (share > 1) {
    facts.batch = std::max<int64_t>(1, facts.batch / share);
    if (facts.m > 0) facts.m *= share;
  }
  const Type left = cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
  facts.a_in_place = ComputeType(left) == left;
  facts.a_along_k = facts.a_in_place && RunsAlong(trace, op->getOperand(0), Transposes(op, "transpose_a") ? 2 : 1);
  // The right factor may be widened on the way.
  const bool transposed = !IsProduct(op) || Transposes(op, "transpose_b");
  facts.b_along_k = RunsAlong(trace, op->getOperand(1), transposed ? 1 : 2);
  facts.b_along_n = RunsAlong(trace, op->getOperand(1), transposed ? 2 : 1);
  facts.has_rows = IsProduct(op) && RunsAlong(trace, op->getOperand(0), 1) && !Transposes(op, "transpose_a") &&
                   RunsAlong(trace, op->getOperand(1), 1);
  facts.is_tensor = !options.device.empty();
  facts.is_attention = facts.is_tensor && g.second != nullptr;
  if (facts.is_attention) facts.width = LikelyOf(trace, DimsOf(g.second->getResult(0).getType()).back());
  facts.is_bf16 = !facts.is_tensor && !facts.whole_rows && IsOfBf16(op);
  if (facts.is_tensor && IsProduct(op)) {
    const F8Factors factors = F8FactorsOf(trace, op, options);
    const bool is_folded = !factors.narrow.empty();
    facts.is_f8 = is_folded || IsF8(ElementOf(op->getOperand(0)));
    facts.has_scales = factors.HasScales() || HasScales(op);
    facts.is_tf32 = ElementOf(op->getOperand(0)).isF32();
    facts.is_along_sum = is_folded || (IsAlongSum(trace, op, 0) && IsAlongSum(trace, op, 1));
    facts.has_more = is_folded || !g.folded.empty();
  }
  return facts;
}

}  // namespace tessera::compiler
