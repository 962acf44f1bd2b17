// The scalar functions that compiled kernels call, one for each element-wise op and dtype. They are made from the
// tables that make tier 1's loops, so both tiers give the same bits. This file is compiled to bitcode, which the
// library carries (math_library.h) and from which widen.cc takes what a kernel needs; vectors are made from it too.
//
//   tsr_<op>_<dtype>       the op on operands of that dtype. bool is uint8_t 0 or 1, as operand and as result
//   tsr_where_<dtype>      (cond, a, b); of narrow floats on their bits
//   tsr_exp_weight_<dtype>, tsr_larger_<dtype>   for the weights of a softmax
//   tsr_cast_<from>_<to>   between the dtypes that kernels compute in: f64 f32 i64 i32 i8 u8 bool
//   tsr_load_<narrow>      bits to f32; tsr_store_<narrow>: f32 to bits; tsr_round_<narrow>: f32 to f32, through bits
//   tsr_pre_<from>         f64, i64 or i32 to an f32 that tsr_store_<narrow> rounds as the value itself would be
//
// An op with code for rare arguments has three more, from which its vectors are made:
//
//   tsr_<op>_<dtype>__fast    right where __rest says 0, and straight-line code
//   tsr_<op>_<dtype>__rest    1 where the slow code is needed
//   tsr_<op>_<dtype>__repair  the slow code (repair.h)
//
// Names that end in __soft are for machines without the conversion instructions that the plain one uses.
//
// It is compiled a second time for CUDA devices. There an op with code for rare arguments is a branch to a function
// that is not inlined, and math_narrow.h adds functions for results that are rounded to narrow floats.
#include "interp/cpu/ew_ops_isa.h"
#include "interp/cpu/numeric_isa.h"
#include "tiers/compiler/target/repair.h"
#ifdef __NVPTX__
#include "tiers/compiler/target/math_narrow.h"
#endif

namespace tessera::cpu::TSR_ISA {

#define TSR_C extern "C"

#define TSR_HEAD(T_)             \
  using T [[maybe_unused]] = T_; \
  using U [[maybe_unused]] = typename UnsignedOf<T>::Type;

// (R is the type of the result.)
#define TSR_FN1(name, dtype, T_, R, ...) \
  TSR_C R tsr_##name##_##dtype(T_ x) {   \
    TSR_HEAD(T_)                         \
    return static_cast<R>(__VA_ARGS__);  \
  }
#define TSR_FN2(name, dtype, T_, R, ...)     \
  TSR_C R tsr_##name##_##dtype(T_ a, T_ b) { \
    TSR_HEAD(T_)                             \
    return static_cast<R>(__VA_ARGS__);      \
  }
#define TSR_FN3(name, dtype, T_, R, ...)           \
  TSR_C R tsr_##name##_##dtype(T_ a, T_ b, T_ c) { \
    TSR_HEAD(T_)                                   \
    return static_cast<R>(__VA_ARGS__);            \
  }
#ifdef __NVPTX__
#define TSR_SLOW static __attribute__((noinline, cold))
#define TSR_FN1_REPAIR(name, dtype, T, fast, rest, slow)                   \
  TSR_SLOW T tsr_##name##_##dtype##__slow(T x) { return slow; }            \
  TSR_C T tsr_##name##_##dtype(T x) {                                      \
    if (__builtin_expect(rest, 0)) return tsr_##name##_##dtype##__slow(x); \
    return fast;                                                           \
  }
#define TSR_FN2_REPAIR(name, dtype, T, fast, rest, slow)                      \
  TSR_SLOW T tsr_##name##_##dtype##__slow(T a, T b) { return slow; }          \
  TSR_C T tsr_##name##_##dtype(T a, T b) {                                    \
    if (__builtin_expect(rest, 0)) return tsr_##name##_##dtype##__slow(a, b); \
    return fast;                                                              \
  }
#else
#define TSR_FN1_REPAIR(name, dtype, T, fast, rest, slow)                           \
  TSR_C T tsr_##name##_##dtype##__fast(T x) { return fast; }                       \
  TSR_C uint8_t tsr_##name##_##dtype##__rest(T x) { return rest; }                 \
  TSR_REPAIR_CC void tsr_##name##_##dtype##__repair(T* y, const T* xs, int32_t n); \
  TSR_C T tsr_##name##_##dtype(T x) {                                              \
    if (__builtin_expect(rest, 0)) {                                               \
      T y, in = x;                                                                 \
      tsr_##name##_##dtype##__repair(&y, &in, 1);                                  \
      return y;                                                                    \
    }                                                                              \
    return fast;                                                                   \
  }
#define TSR_FN2_REPAIR(name, dtype, T, fast, rest, slow)                                        \
  TSR_C T tsr_##name##_##dtype##__fast(T a, T b) { return fast; }                               \
  TSR_C uint8_t tsr_##name##_##dtype##__rest(T a, T b) { return rest; }                         \
  TSR_REPAIR_CC void tsr_##name##_##dtype##__repair(T* y, const T* as, const T* bs, int32_t n); \
  TSR_C T tsr_##name##_##dtype(T a, T b) {                                                      \
    if (__builtin_expect(rest, 0)) {                                                            \
      T y, in_a = a, in_b = b;                                                                  \
      tsr_##name##_##dtype##__repair(&y, &in_a, &in_b, 1);                                      \
      return y;                                                                                 \
    }                                                                                           \
    return fast;                                                                                \
  }
#endif

#define TSR_FLOATS(fn, name, ...) fn(name, f32, float, float, __VA_ARGS__) fn(name, f64, double, double, __VA_ARGS__)
#define TSR_INTS(fn, name, ...)                                                             \
  fn(name, i64, int64_t, int64_t, __VA_ARGS__) fn(name, i32, int32_t, int32_t, __VA_ARGS__) \
      fn(name, i8, int8_t, int8_t, __VA_ARGS__) fn(name, u8, uint8_t, uint8_t, __VA_ARGS__)
#define TSR_BOOLS(fn, name, ...) fn(name, bool, uint8_t, uint8_t, __VA_ARGS__)
#define TSR_ASK_ALL(fn, name, ...)                                                               \
  fn(name, f64, double, uint8_t, __VA_ARGS__) fn(name, f32, float, uint8_t, __VA_ARGS__)         \
      fn(name, i64, int64_t, uint8_t, __VA_ARGS__) fn(name, i32, int32_t, uint8_t, __VA_ARGS__)  \
          fn(name, i8, int8_t, uint8_t, __VA_ARGS__) fn(name, u8, uint8_t, uint8_t, __VA_ARGS__) \
              fn(name, bool, uint8_t, uint8_t, __VA_ARGS__)

#define TSR_FLOATS1(name, ...) TSR_FLOATS(TSR_FN1, name, __VA_ARGS__)
#define TSR_FLOATS2(name, ...) TSR_FLOATS(TSR_FN2, name, __VA_ARGS__)
#define TSR_FLOATS3(name, ...) TSR_FLOATS(TSR_FN3, name, __VA_ARGS__)
#define TSR_REPAIRS1(name, ...) \
  TSR_FN1_REPAIR(name, f32, float, __VA_ARGS__) TSR_FN1_REPAIR(name, f64, double, __VA_ARGS__)
#define TSR_REPAIRS2(name, ...) \
  TSR_FN2_REPAIR(name, f32, float, __VA_ARGS__) TSR_FN2_REPAIR(name, f64, double, __VA_ARGS__)
#define TSR_INTS1(name, ...) TSR_INTS(TSR_FN1, name, __VA_ARGS__)
#define TSR_INTS2(name, ...) TSR_INTS(TSR_FN2, name, __VA_ARGS__)
#define TSR_INTS3(name, ...) TSR_INTS(TSR_FN3, name, __VA_ARGS__)
#define TSR_BOOLS1(name, ...) TSR_BOOLS(TSR_FN1, name, __VA_ARGS__)
#define TSR_BOOLS2(name, ...) TSR_BOOLS(TSR_FN2, name, __VA_ARGS__)
#define TSR_ASKS1(name, ...) TSR_ASK_ALL(TSR_FN1, name, __VA_ARGS__)
#define TSR_ASKS2(name, ...) TSR_ASK_ALL(TSR_FN2, name, __VA_ARGS__)

TSR_FLOAT1(TSR_FLOATS1)
TSR_FLOAT2(TSR_FLOATS2)
TSR_FLOAT3(TSR_FLOATS3)
TSR_MATH1(TSR_FLOATS1)
TSR_MATH2(TSR_FLOATS2)
TSR_REPAIR1(TSR_REPAIRS1)
TSR_REPAIR2(TSR_REPAIRS2)
TSR_INT1(TSR_INTS1)
TSR_INT2(TSR_INTS2)
TSR_INT2_BOOL(TSR_INTS2)
TSR_INT2_BOOL(TSR_BOOLS2)
TSR_INT3(TSR_INTS3)
TSR_INT1_NOT_BOOL(TSR_INTS1)
TSR_INT2_NOT_BOOL(TSR_INTS2)
TSR_BOOL1(TSR_BOOLS1)
TSR_BOOL2(TSR_BOOLS2)
TSR_ASK1(TSR_ASKS1)
TSR_ASK2(TSR_ASKS2)

TSR_FLOATS1(exp_weight, ExpWeight(x))
// The larger of two; of a NaN and another, or of zeros, either. One instruction.
#ifdef TSR_HAS_MAXIMUM
TSR_FLOATS2(larger, Maximum(a, b))
#else
TSR_FLOATS2(larger, a > b ? a : b)
#endif

#define TSR_WHERE(dtype, T) \
  TSR_C T tsr_where_##dtype(uint8_t cond, T a, T b) { return cond != 0 ? a : b; }
TSR_WHERE(f64, double)
TSR_WHERE(f32, float)
TSR_WHERE(i64, int64_t)
TSR_WHERE(i32, int32_t)
TSR_WHERE(i8, int8_t)
TSR_WHERE(u8, uint8_t)
TSR_WHERE(bool, uint8_t)
// Of narrow floats it takes and gives bits: through f32 a signalling NaN would change.
TSR_WHERE(f16, uint16_t)
TSR_WHERE(bf16, uint16_t)
TSR_WHERE(f8e4m3, uint8_t)
TSR_WHERE(f8e5m2, uint8_t)

// ---- conversions: dtypes with the types of values, and of storage

#define TSR_COMPUTED(X, ...)            \
  X(f64, double, double, __VA_ARGS__)   \
  X(f32, float, float, __VA_ARGS__)     \
  X(i64, int64_t, int64_t, __VA_ARGS__) \
  X(i32, int32_t, int32_t, __VA_ARGS__) \
  X(i8, int8_t, int8_t, __VA_ARGS__)    \
  X(u8, uint8_t, uint8_t, __VA_ARGS__)  \
  X(bool, uint8_t, BoolByte, __VA_ARGS__)

#define TSR_CAST(to, V, S, from, F)     \
  TSR_C V tsr_cast_##from##_##to(F x) { \
    S y;                                \
    Store(x, y);                        \
    return Load(y);                     \
  }
TSR_COMPUTED(TSR_CAST, f64, double)
TSR_COMPUTED(TSR_CAST, f32, float)
TSR_COMPUTED(TSR_CAST, i64, int64_t)
TSR_COMPUTED(TSR_CAST, i32, int32_t)
TSR_COMPUTED(TSR_CAST, i8, int8_t)
TSR_COMPUTED(TSR_CAST, u8, uint8_t)
TSR_COMPUTED(TSR_CAST, bool, uint8_t)

#define TSR_NARROW(name, S, bits_t)                                   \
  TSR_C float tsr_load_##name(bits_t bits) { return ToF32(S{bits}); } \
  TSR_C bits_t tsr_store_##name(float x) {                            \
    S y;                                                              \
    FromF32(x, y);                                                    \
    return y.bits;                                                    \
  }                                                                   \
  TSR_C float tsr_round_##name(float x) {                             \
    S y;                                                              \
    FromF32(x, y);                                                    \
    return ToF32(y);                                                  \
  }
TSR_NARROW(f16, Half, uint16_t)
TSR_NARROW(bf16, BHalf, uint16_t)
TSR_NARROW(f8e4m3, E4M3, uint8_t)
TSR_NARROW(f8e5m2, E5M2, uint8_t)

#if defined(TSR_HARDWARE_F16) && !defined(__aarch64__)
TSR_C float tsr_load_f16__soft(uint16_t bits) { return SoftFromF16(bits); }
TSR_C uint16_t tsr_store_f16__soft(float x) { return SoftToF16(x); }
TSR_C float tsr_round_f16__soft(float x) { return SoftFromF16(SoftToF16(x)); }
TSR_C float tsr_load_f8e5m2__soft(uint8_t bits) { return SoftFromF16(static_cast<uint16_t>(bits << 8)); }
TSR_C float tsr_round_f8e5m2__soft(float x) {
  E5M2 y;
  FromF32(x, y);
  return SoftFromF16(static_cast<uint16_t>(y.bits << 8));
}
#endif

#ifdef __NVPTX__
#define TSR_NARROW_FN(name, expression) \
  TSR_C float tsr_##name##_f32_narrow(float x) { return expression; }
TSR_NARROW_FN(exp, ExpNarrow(x))
TSR_NARROW_FN(exp_weight, ExpNarrow(x))
TSR_NARROW_FN(exp2, __nvvm_ex2_approx_ftz_f(x))
TSR_NARROW_FN(sigmoid, SigmoidNarrow(x))
TSR_NARROW_FN(silu, SiluNarrow(x))
TSR_NARROW_FN(tanh, TanhNarrow(x))
TSR_NARROW_FN(gelu, GeluNarrow(x))
TSR_NARROW_FN(gelu_tanh, GeluTanhNarrow(x))
TSR_NARROW_FN(rsqrt, RsqrtNarrow(x))
#define TSR_CONTRACTED_FN(name, expression) \
  TSR_C float tsr_##name##_f32_narrow(float a, float b) { _Pragma("clang fp contract(fast)") return expression; }
TSR_CONTRACTED_FN(add, a + b)
TSR_CONTRACTED_FN(sub, a - b)
TSR_CONTRACTED_FN(mul, a* b)
TSR_C float tsr_rsqrt_f32_row(float x) { return RsqrtRow(x); }
TSR_C float tsr_mean_f32_row(float sum, float n) { return MeanRow(sum, n); }
TSR_C double tsr_mean_f64_row(double sum, double n) { return MeanRow(sum, n); }
TSR_C float tsr_exp_weight_f32_row(float x) { return ExpWeightRow(x); }
#endif

TSR_C float tsr_pre_f64(double x) { return Pre(x); }
TSR_C float tsr_pre_i64(int64_t x) { return Pre(x); }
TSR_C float tsr_pre_i32(int32_t x) { return Pre(x); }

}  // namespace tessera::cpu::TSR_ISA
