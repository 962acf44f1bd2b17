// The host side of reductions, for the files that have kernels of the walks in kernels/reduce_walk.cuh.
#ifndef TESSERA_INTERP_CUDA_REDUCE_PLAN_H_
#define TESSERA_INTERP_CUDA_REDUCE_PLAN_H_

#include "interp/cuda/launch.h"
#include "interp/cuda/reduce_args.h"

namespace tessera::cuda {

/// An op in one compute type.
struct ReduceKernels {
  Kernel rows, cols, end;
};
#define TSR_REDUCE_KERNELS_OF(name) \
  {Kernel(kImage, name "_rows"), Kernel(kImage, name "_cols"), Kernel(kImage, name "_end")}

/// The row of a table over compute types: f64, f32, integers.
inline int ComputeIndex(DType t) { return t == DType::f64 ? 0 : IsFloat(t) ? 1 : 2; }

struct Reduction {
  const ReduceKernels& kernels;
  bool two_passes = false;
  bool other = false;  // ReduceArgs::other
  double correction = 0;
  bool packs = false;  // the kernel takes ReduceArgs::pack
};

/// Reduces args.in[0] over the axes in the mask into args.out[0].
absl::Status RunReduction(const interp::KernelArgs& args, uint32_t axes, const Reduction& reduction);

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_REDUCE_PLAN_H_
