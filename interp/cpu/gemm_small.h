// Small f32 and f64 matrix products, compiled once per instruction set: what a BLAS spends on looking at its arguments
// and packing its operands is more than these take.
#ifndef TESSERA_INTERP_CPU_GEMM_SMALL_H_
#define TESSERA_INTERP_CPU_GEMM_SMALL_H_

#include <stdint.h>

#include "interp/cpu/isa.h"

namespace tessera {
enum class DType : uint8_t;
}

namespace tessera::cpu {

/// c = a b with any strides of a and b; c is contiguous, only written, and overlaps neither. One thread; nothing is
/// allocated. No dim is 0. How an element is summed depends on the dims and strides, never on where in c it stands.
template <class T>
using SmallGemmFn = void (*)(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col, const T* b,
                             int64_t b_row, int64_t b_col, T* c);

struct SmallGemmLoops {
  SmallGemmFn<float> f32;
  SmallGemmFn<double> f64;
};

TSR_DECLARE_ISA(SmallGemmLoops, kSmallGemmLoops);

/// One product, where it is small: what Gemm() does with it, in the same bits. False, with nothing done, where it is
/// not, has a dim of 0, or is of another dtype.
bool RunSmallGemm(DType dtype, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_row, int64_t a_col,
                  const void* b, int64_t b_row, int64_t b_col, void* c);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_GEMM_SMALL_H_
