// Products of few rows with a large matrix of f16 or bf16, where reading the matrix is all the work
// (kernels/skinny.cu).
#ifndef TESSERA_INTERP_CUDA_SKINNY_H_
#define TESSERA_INTERP_CUDA_SKINNY_H_

#include "interp/kernel.h"
#include "interp/product.h"
#include "runtime/cuda/device.h"

namespace tessera::cuda {

/// Whether SkinnyProduct() computes it, faster than cuBLASLt does: rows are few, and the matrix lies by rows and is so
/// wide that all of the device is busy. The batch was made rows where it could be.
bool IsSkinny(const Device& device, const interp::GemmArgs& p);
/// Submits the product.
absl::Status SkinnyProduct(const interp::KernelArgs& args, const interp::GemmArgs& p);

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_SKINNY_H_
