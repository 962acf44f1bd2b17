// What kernels in CUDA C++ (target/cuda_source.h) stand on: names for integers, and functions around single instructions
// of PTX. Names begin with tsr_.
#ifndef TESSERA_TIERS_COMPILER_TARGET_CUDA_WRAPPERS_H_
#define TESSERA_TIERS_COMPILER_TARGET_CUDA_WRAPPERS_H_

namespace tessera::compiler {

inline constexpr const char* kCudaWrappers = R"(// Made by Tessera.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned __int128 u128;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef __int128 s128;
struct __align__(8) tsr_w2 { u32 x, y; };
struct __align__(16) tsr_w4 { u32 x, y, z, w; };
template <int size, int align> struct alignas(align) tsr_given { u8 bytes[size]; };
#define TSR_FN static __device__ __forceinline__

TSR_FN u16 tsr_bits(u16 x) { return x; }
TSR_FN u8 tsr_bits(u8 x) { return x; }
TSR_FN u32 tsr_bits(u32 x) { return x; }
TSR_FN u64 tsr_bits(u64 x) { return x; }
TSR_FN u32 tsr_bits(float x) { return __float_as_uint(x); }
TSR_FN u64 tsr_bits(double x) { return (u64)__double_as_longlong(x); }
TSR_FN float tsr_f32(u32 x) { return __uint_as_float(x); }
TSR_FN double tsr_f64(u64 x) { return __longlong_as_double((s64)x); }

TSR_FN float tsr_from_f16(u16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
TSR_FN float tsr_from_bf16(u16 x) { return __uint_as_float((u32)x << 16); }
TSR_FN u16 tsr_to_f16(float x) { u16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
TSR_FN u16 tsr_to_bf16(float x) { u16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
TSR_FN u32 tsr_f16x2(float a, float b) { u32 y; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(a), "f"(b)); return y; }
TSR_FN u32 tsr_bf16x2(float a, float b) { u32 y; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(a), "f"(b)); return y; }
TSR_FN float tsr_ex2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
TSR_FN float tsr_rcp(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
TSR_FN float tsr_rsqrt(float x) { float y; asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
TSR_FN float tsr_maximum(float a, float b) { float y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
TSR_FN float tsr_minimum(float a, float b) { float y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
TSR_FN double tsr_maximum(double a, double b) {
  return a != a || b != b ? a + b : a == b ? tsr_f64(tsr_bits(a) & tsr_bits(b)) : a > b ? a : b;
}
TSR_FN double tsr_minimum(double a, double b) {
  return a != a || b != b ? a + b : a == b ? tsr_f64(tsr_bits(a) | tsr_bits(b)) : a < b ? a : b;
}
TSR_FN u32 tsr_shuffle_bfly(u32 mask, u32 x, u32 lane, u32 c) {
  u32 y; asm volatile("shfl.sync.bfly.b32 %0, %1, %2, %3, %4;" : "=r"(y) : "r"(x), "r"(lane), "r"(c), "r"(mask)); return y;
}
TSR_FN u32 tsr_shuffle_idx(u32 mask, u32 x, u32 lane, u32 c) {
  u32 y; asm volatile("shfl.sync.idx.b32 %0, %1, %2, %3, %4;" : "=r"(y) : "r"(x), "r"(lane), "r"(c), "r"(mask)); return y;
}
TSR_FN u32 tsr_rank() { u32 y; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(y)); return y; }
TSR_FN u32 tsr_shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }
TSR_FN void tsr_fetch(const void* to, const void* from, u32 bytes) {
  if (bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(tsr_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory");
  if (bytes == 8) asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(tsr_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory");
  if (bytes == 4) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(tsr_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory");
}
TSR_FN bool tsr_is(u64 bits, int fraction, int exponent, u32 classes) {
  const u64 sign = bits >> (fraction + exponent), f = bits & ((1ull << fraction) - 1);
  const u64 most = (1ull << exponent) - 1, e = (bits >> fraction) & most;
  u32 is;
  if (e == most && f != 0) is = f >> (fraction - 1) ? 2 : 1;
  else if (e == most) is = sign ? 4 : 512;
  else if (e != 0) is = sign ? 8 : 256;
  else if (f != 0) is = sign ? 16 : 128;
  else is = sign ? 32 : 64;
  return (is & classes) != 0;
}

)";

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_CUDA_WRAPPERS_H_
