// Where the largest or smallest element along one axis stands.
#include <cstring>

#include "interp/cpu/reduce.h"
#include "interp/kernel.h"

namespace tessera::cpu {
namespace {

void FinishIndex(const Reduction&, const AccView& acc, const void*, int64_t n, void* y) {
  std::memcpy(y, acc.component<int64_t>(1), static_cast<size_t>(n) * sizeof(int64_t));
}

absl::Status ArgExtreme(const interp::KernelArgs& args, Prim prim) {
  const View& x = *args.in[0];
  TSR_ASSIGN_OR_RETURN(const int axis, ir::CanonicalAxis(args.integer(0), x.rank));
  if (x.size() == 0 && args.out[0]->size() > 0)
    return InvalidArgument("no elements to choose from in ", ToString(static_cast<const TensorType&>(x)));
  return RunReduction(x, 1u << axis, {.prim = prim, .finish = FinishIndex, .result = DType::i64}, *args.out[0]);
}

}  // namespace

absl::Status k_argmax(const interp::KernelArgs& args) { return ArgExtreme(args, Prim::argmax); }
absl::Status k_argmin(const interp::KernelArgs& args) { return ArgExtreme(args, Prim::argmin); }

}  // namespace tessera::cpu
