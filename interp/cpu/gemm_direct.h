// Products of bf16 and f16 by instructions of the processor that take them as they are and add in f32. gemm_narrow.h
// has those of other types and processors.
#ifndef TESSERA_INTERP_CPU_GEMM_DIRECT_H_
#define TESSERA_INTERP_CPU_GEMM_DIRECT_H_

#include "interp/cpu/gemm.h"

namespace tessera::cpu {

/// Does this processor have such instructions for that type?
bool HasDirectGemm(DType dtype);

/// One product of a type for which it does; no dim is 0. On the pool or on the calling thread. Elements come out the
/// same whichever it is. c is row-major.
absl::Status DirectGemm(DType dtype, int64_t m, int64_t n, int64_t k, const void* a, BlasMatrix a_form, const void* b,
                        BlasMatrix b_form, void* c, bool threaded);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_GEMM_DIRECT_H_
