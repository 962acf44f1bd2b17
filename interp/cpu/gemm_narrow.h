// Products of f16, bf16 and f8: by instructions of the processor that take them as they are (gemm_direct.h), or panels of
// the operands become f32 and BLAS multiplies. The result is rounded once.
#ifndef TESSERA_INTERP_CPU_GEMM_NARROW_H_
#define TESSERA_INTERP_CPU_GEMM_NARROW_H_

#include "interp/cpu/gemm.h"

namespace tessera::cpu {

/// Where the operand of product number `item` begins, in elements.
int64_t BatchOffset(const GemmArgs& p, const GemmOperand& x, int64_t item);
/// Unsupported when a dim or stride does not fit the 32 bits of BLAS.
absl::Status CheckFitsBlas(const GemmArgs& p, BlasMatrix fa, BlasMatrix fb);

/// `count` products whose operands BLAS could read if they were f32; no dim is 0. Scratch memory is bounded whatever
/// the size of the operands.
absl::Status NarrowGemm(const rt::Blas& blas, const GemmArgs& p, int64_t count, BlasMatrix fa, BlasMatrix fb);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_GEMM_NARROW_H_
