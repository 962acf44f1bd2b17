// Where the largest or smallest element along one axis stands.
#include "interp/cuda/reduce_plan.h"
#include "ir/op.h"

TSR_CUDA_IMAGE(arg_reduce);

namespace tessera::cuda {
namespace {

const ReduceKernels kWhere[] = {TSR_REDUCE_KERNELS_OF("where_f64"), TSR_REDUCE_KERNELS_OF("where_f32"),
                                TSR_REDUCE_KERNELS_OF("where_int")};

absl::Status ArgExtreme(const interp::KernelArgs& args, bool min) {
  const View& x = *args.in[0];
  TSR_ASSIGN_OR_RETURN(const int axis, ir::CanonicalAxis(args.integer(0), x.rank));
  if (x.size() == 0 && args.out[0]->size() > 0)
    return InvalidArgument("no elements to choose from in ", ToString(static_cast<const TensorType&>(x)));
  return RunReduction(args, 1u << axis, {.kernels = kWhere[ComputeIndex(x.dtype)], .other = min});
}

}  // namespace

absl::Status k_argmax(const interp::KernelArgs& args) { return ArgExtreme(args, false); }
absl::Status k_argmin(const interp::KernelArgs& args) { return ArgExtreme(args, true); }

}  // namespace tessera::cuda
