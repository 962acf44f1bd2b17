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

/// y = e^(scale (x - max)); returns the sum of y.
float RowExp(const float* x, float* y, int64_t n, float max, float scale) {
  const Vec m = Set(-max * scale), factor = Set(scale), floor = Set(-87.0f);
  Vec v[kUnroll], sums[kUnroll];
  for (int j = 0; j < kUnroll; ++j) sums[j] = Set(0);
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    for (int j = 0; j < kUnroll; ++j) v[j] = Max(Fma(Load(x + i + j * kLanes), factor, m), floor);
    Exp<kUnroll>(v);
    for (int j = 0; j < kUnroll; ++j) Store(y + i + j * kLanes, v[j]);
    for (int j = 0; j < kUnroll; ++j) sums[j] = Add(sums[j], v[j]);
  }
  for (int j = 1; j < kUnroll; ++j) sums[0] = Add(sums[0], sums[j]);
  float sum = SumOf(sums[0]);
  for (; i < n; ++i) sum += y[i] = expf(scale * (x[i] - max));
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

void HandwrittenSoftmax(const float* x, float* y, int64_t rows, int64_t columns, float scale) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns)
    Scale(y, columns, 1.0f / RowExp(x, y, columns, RowMax(x, columns), scale));
}

#else

void HandwrittenSoftmax(const float*, float*, int64_t, int64_t, float) {}

#endif

}  // namespace bench
