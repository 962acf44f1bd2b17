#include <math.h>

#include "bench/handwritten.h"
#include "bench/handwritten_simd.h"

namespace bench {

#if TSR_HANDWRITTEN
namespace {

float RowMax(const float* x, int64_t n) {
  Vec m0 = Set(-INFINITY), m1 = m0, m2 = m0, m3 = m0;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    m0 = Max(m0, Load(x + i));
    m1 = Max(m1, Load(x + i + kLanes));
    m2 = Max(m2, Load(x + i + 2 * kLanes));
    m3 = Max(m3, Load(x + i + 3 * kLanes));
  }
  float max = MaxOf(Max(Max(m0, m1), Max(m2, m3)));
  for (; i < n; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

/// y = e^(x - max); returns the sum of y.
float RowExp(const float* x, float* y, int64_t n, float max) {
  const Vec m = Set(max), floor = Set(-87.0f);
  Vec s0 = Set(0), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    const Vec e0 = Exp(Max(Sub(Load(x + i), m), floor));
    const Vec e1 = Exp(Max(Sub(Load(x + i + kLanes), m), floor));
    const Vec e2 = Exp(Max(Sub(Load(x + i + 2 * kLanes), m), floor));
    const Vec e3 = Exp(Max(Sub(Load(x + i + 3 * kLanes), m), floor));
    Store(y + i, e0);
    Store(y + i + kLanes, e1);
    Store(y + i + 2 * kLanes, e2);
    Store(y + i + 3 * kLanes, e3);
    s0 = Add(s0, e0);
    s1 = Add(s1, e1);
    s2 = Add(s2, e2);
    s3 = Add(s3, e3);
  }
  float sum = SumOf(Add(Add(s0, s1), Add(s2, s3)));
  for (; i < n; ++i) sum += y[i] = expf(x[i] - max);
  return sum;
}

void Scale(float* y, int64_t n, float factor) {
  const Vec f = Set(factor);
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock)
    for (int64_t j = 0; j < kBlock; j += kLanes) Store(y + i + j, Mul(Load(y + i + j), f));
  for (; i < n; ++i) y[i] *= factor;
}

}  // namespace

void HandwrittenSoftmax(const float* x, float* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns)
    Scale(y, columns, 1.0f / RowExp(x, y, columns, RowMax(x, columns)));
}

#else

void HandwrittenSoftmax(const float*, float*, int64_t, int64_t) {}

#endif

}  // namespace bench
