// Ops whose functions come from interp/cpu/math, as templates that loops_ew_math_f32_isa.cc and
// loops_ew_math_f64_isa.cc instantiate (two files, to share the compile time).
#ifndef TESSERA_INTERP_CPU_LOOPS_EW_MATH_ISA_H_
#define TESSERA_INTERP_CPU_LOOPS_EW_MATH_ISA_H_

#include "interp/cpu/ew_ops_isa.h"
#include "interp/cpu/loops_ew_isa.h"

namespace tessera::cpu {
namespace TSR_ISA {
namespace {

// A block this long is looked through again when one of its elements needs the slow code.
constexpr int64_t kRepairBlock = 256;

#define TSR_EW1_REPAIR(name, fast, rest, slow)                                 \
  template <typename T>                                                        \
  void name##_loop(void* out, const void* const* in, int64_t n) {              \
    T* __restrict y = static_cast<T*>(out);                                    \
    const T* __restrict xs = static_cast<const T*>(in[0]);                     \
    for (int64_t begin = 0; begin < n; begin += kRepairBlock) {                \
      const int64_t end = n - begin < kRepairBlock ? n : begin + kRepairBlock; \
      int any = 0;                                                             \
      TSR_MATH_LOOP                                                            \
      for (int64_t i = begin; i < end; ++i) {                                  \
        const T x = xs[i];                                                     \
        any |= rest;                                                           \
        y[i] = fast;                                                           \
      }                                                                        \
      if (any == 0) continue;                                                  \
      for (int64_t i = begin; i < end; ++i) {                                  \
        const T x = xs[i];                                                     \
        if (rest) y[i] = slow;                                                 \
      }                                                                        \
    }                                                                          \
  }
#define TSR_EW2_REPAIR(name, fast, rest, slow)                                 \
  template <typename T>                                                        \
  void name##_loop(void* out, const void* const* in, int64_t n) {              \
    T* __restrict y = static_cast<T*>(out);                                    \
    const T* __restrict as = static_cast<const T*>(in[0]);                     \
    const T* __restrict bs = static_cast<const T*>(in[1]);                     \
    for (int64_t begin = 0; begin < n; begin += kRepairBlock) {                \
      const int64_t end = n - begin < kRepairBlock ? n : begin + kRepairBlock; \
      int any = 0;                                                             \
      for (int64_t i = begin; i < end; ++i) {                                  \
        const T a = as[i], b = bs[i];                                          \
        any |= rest;                                                           \
        y[i] = fast;                                                           \
      }                                                                        \
      if (any == 0) continue;                                                  \
      for (int64_t i = begin; i < end; ++i) {                                  \
        const T a = as[i], b = bs[i];                                          \
        if (rest) y[i] = slow;                                                 \
      }                                                                        \
    }                                                                          \
  }

#define TSR_EW1_MATH(name, ...)                                   \
  template <typename T>                                           \
  void name##_loop(void* out, const void* const* in, int64_t n) { \
    T* __restrict y = static_cast<T*>(out);                       \
    const T* __restrict xs = static_cast<const T*>(in[0]);        \
    TSR_MATH_LOOP                                                 \
    for (int64_t i = 0; i < n; ++i) {                             \
      const T x = xs[i];                                          \
      y[i] = __VA_ARGS__;                                         \
    }                                                             \
  }

TSR_MATH1(TSR_EW1_MATH)
TSR_MATH2(TSR_EW2)
TSR_REPAIR1(TSR_EW1_REPAIR)
TSR_REPAIR2(TSR_EW2_REPAIR)

}  // namespace
}  // namespace TSR_ISA
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_LOOPS_EW_MATH_ISA_H_
