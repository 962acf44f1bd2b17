// The few vector operations of the hand-written kernels, for NEON and AVX2 with FMA. Only C headers may be included
// here and in handwritten_*.cc: on x86-64 these files are compiled for AVX2, and an inline function shared with other
// files could carry that to machines without it.
#ifndef TESSERA_BENCH_HANDWRITTEN_SIMD_H_
#define TESSERA_BENCH_HANDWRITTEN_SIMD_H_

#include <stdint.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#define TSR_HANDWRITTEN 1
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define TSR_HANDWRITTEN 1
#else
#define TSR_HANDWRITTEN 0
#endif

#if TSR_HANDWRITTEN
namespace bench {
namespace {

#if defined(__aarch64__)

using Vec = float32x4_t;
inline Vec Load(const float* p) { return vld1q_f32(p); }
inline void Store(float* p, Vec v) { vst1q_f32(p, v); }
inline Vec Set(float x) { return vdupq_n_f32(x); }
inline Vec Add(Vec a, Vec b) { return vaddq_f32(a, b); }
inline Vec Sub(Vec a, Vec b) { return vsubq_f32(a, b); }
inline Vec Mul(Vec a, Vec b) { return vmulq_f32(a, b); }
inline Vec Max(Vec a, Vec b) { return vmaxq_f32(a, b); }
inline Vec Min(Vec a, Vec b) { return vminq_f32(a, b); }
/// a * b + c
inline Vec Fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
/// c - a * b
inline Vec FmaNegated(Vec a, Vec b, Vec c) { return vfmsq_f32(c, a, b); }
inline Vec Abs(Vec a) { return vabsq_f32(a); }
/// 1 / a within 2 ulp
inline Vec Inverse(Vec a) {
  Vec y = vrecpeq_f32(a);
  y = vmulq_f32(y, vrecpsq_f32(a, y));
  return vmulq_f32(y, vrecpsq_f32(a, y));
}
/// a * 2^n, where n is in the low bits of `shifted`.
inline Vec ScaleByLowBits(Vec a, Vec shifted) {
  return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a), vshlq_n_s32(vreinterpretq_s32_f32(shifted), 23)));
}
inline float SumOf(Vec v) { return vaddvq_f32(v); }
inline float MaxOf(Vec v) { return vmaxvq_f32(v); }

#else

using Vec = __m256;
inline Vec Load(const float* p) { return _mm256_loadu_ps(p); }
inline void Store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
inline Vec Set(float x) { return _mm256_set1_ps(x); }
inline Vec Add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec Sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
inline Vec Mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
inline Vec Max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline Vec Min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
/// a * b + c
inline Vec Fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
/// c - a * b
inline Vec FmaNegated(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }
inline Vec Abs(Vec a) { return _mm256_andnot_ps(Set(-0.0f), a); }
/// 1 / a within 2 ulp
inline Vec Inverse(Vec a) { return _mm256_div_ps(Set(1.0f), a); }
/// a * 2^n, where n is in the low bits of `shifted`.
inline Vec ScaleByLowBits(Vec a, Vec shifted) {
  return _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_castps_si256(a), _mm256_slli_epi32(_mm256_castps_si256(shifted), 23)));
}
inline float SumOf(Vec v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
inline float MaxOf(Vec v) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

#endif

constexpr int64_t kLanes = sizeof(Vec) / sizeof(float);
constexpr int kUnroll = 4;
constexpr int64_t kBlock = kUnroll * kLanes;

/// e^x for x in [-87, 88]: x = n log 2 + r, e^x = 2^n (1 + r + r^2 p(r)), |r| <= log(2) / 2. About 1 ulp. Steps of
/// several vectors alternate: one alone is a chain of dependent operations, and the queues of the processor are too
/// short to find the next one behind it.
template <int count>
inline void Exp(Vec* v) {
  const Vec magic = Set(0x1.8p23f);
  Vec shifted[count], p[count];
  for (int i = 0; i < count; ++i) shifted[i] = Fma(v[i], Set(0x1.715476p+0f), magic);
  for (int i = 0; i < count; ++i) p[i] = Sub(shifted[i], magic);
  for (int i = 0; i < count; ++i) v[i] = Fma(p[i], Set(-0x1.62e4p-1f), v[i]);
  for (int i = 0; i < count; ++i) v[i] = Fma(p[i], Set(-0x1.7f7d1cp-20f), v[i]);
  for (int i = 0; i < count; ++i) p[i] = Fma(Set(0x1.6d4328p-10f), v[i], Set(0x1.120b74p-7f));
  for (int i = 0; i < count; ++i) p[i] = Fma(p[i], v[i], Set(0x1.5554eap-5f));
  for (int i = 0; i < count; ++i) p[i] = Fma(p[i], v[i], Set(0x1.5554dcp-3f));
  for (int i = 0; i < count; ++i) p[i] = Fma(p[i], v[i], Set(0x1p-1f));
  for (int i = 0; i < count; ++i) v[i] = Fma(Mul(v[i], v[i]), p[i], v[i]);
  for (int i = 0; i < count; ++i) v[i] = ScaleByLowBits(Add(v[i], Set(1.0f)), shifted[i]);
}

}  // namespace
}  // namespace bench
#endif  // TSR_HANDWRITTEN

#endif  // TESSERA_BENCH_HANDWRITTEN_SIMD_H_
