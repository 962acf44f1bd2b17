// Operands that lie the other way round, which kernels for CUDA devices read through shared memory
// (tile/lower_transposed_gpu.cc).
#ifndef TESSERA_TIERS_COMPILER_SCHED_TRANSPOSED_H_
#define TESSERA_TIERS_COMPILER_SCHED_TRANSPOSED_H_

#include "tiers/compiler/sched/columns.h"

namespace tessera::compiler {

/// Elements that the operand, and the result, must have next to each other. Fewer leave most threads of a square
/// without work.
constexpr int64_t kShortestSide = 16;

/// Does an operand with these strides (as tsr.strides) run along another dim than the last one, both long enough as far
/// as sizes were seen?
inline bool LiesAcross(graph::TraceOp trace, llvm::ArrayRef<Dim> dims, llvm::ArrayRef<int64_t> strides) {
  if (strides.size() != dims.size()) return false;
  auto is_long = [&](const Dim& d) {
    const int64_t n = LikelyOf(trace, d);
    return !d.is_one() && (n < 0 || n >= kShortestSide);
  };
  size_t last = dims.size();
  while (last > 0 && dims[last - 1].is_one()) --last;
  if (last == 0 || strides[last - 1] >= 0 || !is_long(dims[last - 1])) return false;
  for (size_t d = 0; d + 1 < last; ++d)
    if (strides[d] == 1 && is_long(dims[d])) return true;
  return false;
}

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_TRANSPOSED_H_
