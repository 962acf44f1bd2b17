// How a loop is made from an expression. A file lists its ops as X(name, expression) and expands the list twice:
//
//   #define TSR_MY_OPS(X) X(neg, -x) X(square, x * x)
//   TSR_MY_OPS(TSR_EW1)                               // templates neg_loop<T>, square_loop<T>
//   const EwEntry kEntries[] = {TSR_MY_OPS(TSR_EW_FLOATS)};
//
// In an expression x is the operand of a unary op; a and b those of a binary one; a, b and c those of a ternary one;
// T is their type, and U the unsigned type of its size where T is an integer.
#ifndef TESSERA_INTERP_CPU_LOOPS_EW_ISA_H_
#define TESSERA_INTERP_CPU_LOOPS_EW_ISA_H_

#include "interp/cpu/ew_ops_isa.h"
#include "interp/cpu/loops_ew.h"

#define TSR_EW_HEAD(R)                                     \
  using U [[maybe_unused]] = typename UnsignedOf<T>::Type; \
  R* __restrict y = static_cast<R*>(out);

#define TSR_EW1_TO(name, R, ...)                                         \
  template <typename T>                                                  \
  static void name##_loop(void* out, const void* const* in, int64_t n) { \
    TSR_EW_HEAD(R)                                                       \
    const T* __restrict xs = static_cast<const T*>(in[0]);               \
    for (int64_t i = 0; i < n; ++i) {                                    \
      const T x = xs[i];                                                 \
      y[i] = static_cast<R>(__VA_ARGS__);                                \
    }                                                                    \
  }
#define TSR_EW2_TO(name, R, ...)                                         \
  template <typename T>                                                  \
  static void name##_loop(void* out, const void* const* in, int64_t n) { \
    TSR_EW_HEAD(R)                                                       \
    const T* __restrict as = static_cast<const T*>(in[0]);               \
    const T* __restrict bs = static_cast<const T*>(in[1]);               \
    for (int64_t i = 0; i < n; ++i) {                                    \
      const T a = as[i], b = bs[i];                                      \
      y[i] = static_cast<R>(__VA_ARGS__);                                \
    }                                                                    \
  }

#define TSR_EW1(name, ...) TSR_EW1_TO(name, T, __VA_ARGS__)
#define TSR_EW2(name, ...) TSR_EW2_TO(name, T, __VA_ARGS__)
/// Results are bool.
#define TSR_EW1_BOOL(name, ...) TSR_EW1_TO(name, uint8_t, __VA_ARGS__)
#define TSR_EW2_BOOL(name, ...) TSR_EW2_TO(name, uint8_t, __VA_ARGS__)
#define TSR_EW3(name, ...)                                               \
  template <typename T>                                                  \
  static void name##_loop(void* out, const void* const* in, int64_t n) { \
    TSR_EW_HEAD(T)                                                       \
    const T* __restrict as = static_cast<const T*>(in[0]);               \
    const T* __restrict bs = static_cast<const T*>(in[1]);               \
    const T* __restrict cs = static_cast<const T*>(in[2]);               \
    for (int64_t i = 0; i < n; ++i) {                                    \
      const T a = as[i], b = bs[i], c = cs[i];                           \
      y[i] = static_cast<T>(__VA_ARGS__);                                \
    }                                                                    \
  }

#define TSR_EW_ENTRY(name, dtype, T) {ir::Op::k_##name, DType::dtype, name##_loop<T>},
#define TSR_EW_F32(name, ...) TSR_EW_ENTRY(name, f32, float)
#define TSR_EW_F64(name, ...) TSR_EW_ENTRY(name, f64, double)
#define TSR_EW_FLOATS(name, ...) TSR_EW_F32(name) TSR_EW_F64(name)
#define TSR_EW_INTS(name, ...)     \
  TSR_EW_ENTRY(name, i64, int64_t) \
  TSR_EW_ENTRY(name, i32, int32_t) \
  TSR_EW_ENTRY(name, i8, int8_t)   \
  TSR_EW_ENTRY(name, u8, uint8_t)

#define TSR_EW_LIST(symbol, entries) \
  const EwList symbol = {entries, static_cast<int>(sizeof(entries) / sizeof(entries[0]))}

#endif  // TESSERA_INTERP_CPU_LOOPS_EW_ISA_H_
