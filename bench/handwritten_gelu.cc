// gelu(x w + b) / 2 + x with the formula of the library's gelu, which is within 3 ulp: x Phi(x) by the tail of the
// normal distribution, Phi(-a) = exp(-a^2 / 2) p(t) / (2 (a + 4)) with t = (a - 4) / (a + 4), rounding errors carried
// along. A formula of fewer digits would be faster, and something else.
#include <math.h>

#include "bench/handwritten.h"
#include "bench/handwritten_simd.h"

namespace bench {

#if TSR_HANDWRITTEN
namespace {

/// x Phi(x). The tail ends at 13, where the result is still a normal number. Steps of several vectors alternate, as in
/// Exp.
template <int count>
inline void Gelu(Vec* x) {
  const Vec one = Set(1.0f), magic = Set(0x1.8p23f);
  Vec half[count], e[count], e_lo[count], shifted[count];
  for (int i = 0; i < count; ++i) {
    const Vec a = Min(Abs(x[i]), Set(13.0f));
    half[i] = Mul(Set(-0.5f), a);
    const Vec square = Mul(half[i], a), square_lo = Fma(half[i], a, Sub(Set(0.0f), square));
    shifted[i] = Fma(square, Set(0x1.715476p+0f), magic);
    const Vec n = Sub(shifted[i], magic);
    e_lo[i] = Add(Fma(n, Set(-0x1.62e43p-1f), square), Fma(n, Set(0x1.05c61p-29f), square_lo));
  }
  for (int i = 0; i < count; ++i) e[i] = Fma(Set(0x1.a19f2ap-13f), e_lo[i], Set(0x1.6d704ap-10f));
  constexpr float kExp[] = {0x1.111092p-7f, 0x1.5554b4p-5f, 0x1.555556p-3f, 0x1.0p-1f};
  for (const float c : kExp)
    for (int i = 0; i < count; ++i) e[i] = Fma(e[i], e_lo[i], Set(c));
  for (int i = 0; i < count; ++i) {
    const Vec r = Fma(Mul(e_lo[i], e_lo[i]), e[i], e_lo[i]);
    e[i] = Add(one, r);
    e_lo[i] = Add(Sub(one, e[i]), r);
  }
  Vec t[count], p[count], inverse[count], missing[count];
  for (int i = 0; i < count; ++i) {
    const Vec a = Mul(half[i], Set(-2.0f)), four = Set(4.0f);
    const Vec sum = Add(a, four), b = Sub(sum, a), sum_lo = Add(Sub(a, Sub(sum, b)), Sub(four, b));
    inverse[i] = Inverse(sum);
    const Vec above = Sub(sum, Set(8.0f)), q = Mul(above, inverse[i]);
    t[i] = Fma(FmaNegated(q, sum, above), inverse[i], q);
    const Vec slope = Fma(Mul(Set(8.0f), inverse[i]), Fma(Set(0.63f), t[i], Set(-1.0f)), Set(-1.0f));
    missing[i] = Fma(Mul(sum_lo, inverse[i]), slope, FmaNegated(inverse[i], sum, one));
  }
  for (int i = 0; i < count; ++i) p[i] = Fma(Set(-0x1.15059ap-12f), t[i], Set(0x1.7306cp-12f));
  constexpr float kTail[] = {0x1.9a5e9cp-9f,  -0x1.cc85e4p-8f, -0x1.ed02ccp-7f, 0x1.eed64ep-4f,
                             -0x1.7e003ap-2f, 0x1.8c6d9p-1f,   -0x1.373e38p+0f, 0x1.82b4bcp+0f};
  for (const float c : kTail)
    for (int i = 0; i < count; ++i) p[i] = Fma(p[i], t[i], Set(c));
  for (int i = 0; i < count; ++i) {
    const Vec y = Mul(p[i], e[i]), minus_y = Sub(Set(0.0f), y);
    const Vec y_lo = Fma(p[i], e_lo[i], Fma(p[i], e[i], minus_y));
    const Vec z = Mul(y, inverse[i]);
    const Vec z_lo = Fma(z, missing[i], Fma(y_lo, inverse[i], Fma(y, inverse[i], Sub(Set(0.0f), z))));
    // half is negative: so is the tail.
    const Vec tail = ScaleByLowBits(Fma(half[i], z, Mul(half[i], z_lo)), shifted[i]);
    x[i] = Add(Max(x[i], Set(0.0f)), tail);
  }
}

constexpr int kVectors = 3;  // measured: the registers hold no more

}  // namespace

void HandwrittenGeluChain(const float* x, const float* weight, const float* bias, float* y, int64_t rows,
                          int64_t columns) {
  constexpr int64_t kStep = kVectors * kLanes;
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    int64_t i = 0;
    for (; i + kStep <= columns; i += kStep) {
      Vec v[kVectors];
      for (int j = 0; j < kVectors; ++j) {
        const int64_t at = i + j * kLanes;
        v[j] = Fma(Load(x + at), Load(weight + at), Load(bias + at));
      }
      Gelu<kVectors>(v);
      for (int j = 0; j < kVectors; ++j) Store(y + i + j * kLanes, Fma(v[j], Set(0.5f), Load(x + i + j * kLanes)));
    }
    for (; i < columns; ++i) {
      const float u = x[i] * weight[i] + bias[i];
      y[i] = 0.25f * u * erfcf(-u * 0x1.6a09e6p-1f) + x[i];
    }
  }
}

#else

void HandwrittenGeluChain(const float*, const float*, const float*, float*, int64_t, int64_t) {}

#endif

}  // namespace bench
