#include "tiers/compiler/sched/columns.h"

#include "llvm/ADT/bit.h"

using namespace mlir;

namespace tessera::compiler {

int64_t LikelyOf(graph::TraceOp trace, const Dim& d) {
  if (!d.is_symbol) return d.value;
  auto seen = trace.getLikely();
  return seen && d.value >= 0 && d.value < static_cast<int64_t>(seen->size()) ? (*seen)[static_cast<size_t>(d.value)]
                                                                              : -1;
}

Columns ColumnsOf(Operation* op) {
  constexpr int64_t kFewest = 4;  // columns that are worth vectors
  const SmallVector<Dim> dims = DimsOf(op->getOperand(0).getType());
  const int64_t rank = static_cast<int64_t>(dims.size());
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes");
  if (!axes || axes.empty()) return {};
  SmallVector<int64_t> sorted;
  for (int64_t a : axes.asArrayRef()) sorted.push_back(a < 0 ? a + rank : a);
  llvm::sort(sorted);
  const int64_t count = static_cast<int64_t>(sorted.size()), first = rank - 1 - count;
  if (first < 0) return {};
  bool any = false;
  for (int64_t k = 0; k < count; ++k) {
    if (sorted[static_cast<size_t>(k)] != first + k) return {};
    any |= !dims[static_cast<size_t>(first + k)].is_one();
  }
  auto trace = dyn_cast<graph::TraceOp>(op->getParentOp());
  const int64_t width = trace ? LikelyOf(trace, dims.back()) : -1;
  if (!any || (width >= 0 && width < kFewest)) return {};
  return {first, count};
}

bool SuitsDevice(Operation* op, Columns columns) {
  constexpr int64_t kMultiprocessors = 132, kFewestRows = 64, kMost = int64_t{1} << 40;
  auto trace = dyn_cast<graph::TraceOp>(op->getParentOp());
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  if (!trace || columns.count == 0 || !isa<FloatType>(type.getElementType())) return false;
  const SmallVector<Dim> dims = DimsOf(type);
  int64_t outer = 1, rows = 1;
  for (size_t d = 0; d + 1 < dims.size(); ++d) {
    const int64_t n = LikelyOf(trace, dims[d]);
    if (n < 0) return false;
    int64_t& size = static_cast<int64_t>(d) < columns.first ? outer : rows;
    size = std::min(kMost, size * std::min(n, kMost));
  }
  const int64_t width = LikelyOf(trace, dims.back()), bytes = type.getElementTypeBitWidth() / 8;
  if (width <= 0 || rows < kFewestRows) return false;
  // The last ones to begin must not be alone.
  const int64_t blocks = outer * ((std::min(width, kMost) * bytes + kColumnBytes - 1) / kColumnBytes);
  const int64_t rounds = (blocks + kMultiprocessors - 1) / kMultiprocessors;
  return blocks * 5 >= rounds * kMultiprocessors * 4;
}

DenseI64ArrayAttr CutOf(graph::TraceOp trace, ArrayRef<Dim> space, Columns summed) {
  constexpr int64_t kElements = 131072, kColumns = 1024, kUnknown = 1024;
  auto likely = [&](const Dim& d) {
    const int64_t n = LikelyOf(trace, d);
    return n < 0 ? kUnknown : std::clamp<int64_t>(n, 1, kElements);
  };
  const bool all = summed.count == 0;
  const size_t first = all ? 0 : static_cast<size_t>(summed.first);
  const size_t end = all ? space.size() : first + static_cast<size_t>(summed.count);
  int64_t columns = 0;
  if (!all) {
    const auto width = static_cast<uint64_t>(likely(space.back()));
    columns = std::min(kColumns, static_cast<int64_t>(llvm::bit_ceil(width)));
  }
  size_t cut = first;
  while (cut + 1 < end && space[cut].is_one()) ++cut;
  int64_t rest = std::max<int64_t>(1, columns);
  for (size_t d = cut + 1; d < end; ++d) rest = std::min(kElements, rest * likely(space[d]));
  return Builder(trace.getContext())
      .getDenseI64ArrayAttr({static_cast<int64_t>(first), static_cast<int64_t>(end - first),
                             std::max<int64_t>(1, kElements / rest), columns});
}

}  // namespace tessera::compiler
