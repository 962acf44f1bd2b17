// Integer matrix products, compiled once per instruction set.
#ifndef TESSERA_INTERP_CPU_GEMM_LOOPS_H_
#define TESSERA_INTERP_CPU_GEMM_LOOPS_H_

#include <stdint.h>

#include "interp/cpu/isa.h"

namespace tessera::cpu {

/// c = a b with any strides of a and b; c's rows are ldc apart. One thread. All arithmetic wraps at the width of the
/// elements, which gives the same low bits as a wider sum, signed or not.
template <class U>
using IntGemmFn = void (*)(int64_t m, int64_t n, int64_t k, const U* a, int64_t a_row, int64_t a_col, const U* b,
                           int64_t b_row, int64_t b_col, U* c, int64_t ldc);

struct GemmLoops {
  IntGemmFn<uint64_t> i64;
  IntGemmFn<uint32_t> i32;
  IntGemmFn<uint8_t> i8;
};

TSR_DECLARE_ISA(GemmLoops, kGemmLoops);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_GEMM_LOOPS_H_
