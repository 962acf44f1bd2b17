// Products of few rows with a large matrix of f16 or bf16, where reading the matrix is all the work
// (kernels/skinny.cu).
#ifndef TESSERA_INTERP_CUDA_SKINNY_H_
#define TESSERA_INTERP_CUDA_SKINNY_H_

#include "interp/kernel.h"
#include "interp/product.h"

namespace tessera::cuda {

/// Whether SkinnyProduct() computes it: rows are few, the matrix is large and lies as it can be read. The batch was
/// made rows where it could be.
bool IsSkinny(const interp::GemmArgs& p);
/// Submits the product.
absl::Status SkinnyProduct(const interp::KernelArgs& args, const interp::GemmArgs& p);

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_SKINNY_H_
