// Operands that may be host numbers, on their way to kernels.
#ifndef TESSERA_INTERP_CUDA_NUMBER_H_
#define TESSERA_INTERP_CUDA_NUMBER_H_

#include "interp/cuda/launch.h"
#include "interp/cuda/number_args.h"

namespace tessera::cuda {

/// An operand of one element. A kernel reads it where it runs, so nothing waits for a number on the device.
Number NumberOf(const View& v);

/// The view; or, where it is a host number, a copy of it in that dtype on the device, which lives in *copy.
absl::StatusOr<View> OnDevice(const interp::KernelArgs& op, const View& v, DType dtype, Scratch* copy);

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_NUMBER_H_
