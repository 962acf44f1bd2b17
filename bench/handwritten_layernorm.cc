#include <math.h>

#include "bench/handwritten.h"
#include "bench/handwritten_simd.h"

namespace bench {

#if TSR_HANDWRITTEN
namespace {

float RowMean(const float* x, int64_t n) {
  Vec s0 = Set(0), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    s0 = Add(s0, Load(x + i));
    s1 = Add(s1, Load(x + i + kLanes));
    s2 = Add(s2, Load(x + i + 2 * kLanes));
    s3 = Add(s3, Load(x + i + 3 * kLanes));
  }
  float sum = SumOf(Add(Add(s0, s1), Add(s2, s3)));
  for (; i < n; ++i) sum += x[i];
  return sum / static_cast<float>(n);
}

float RowVariance(const float* x, int64_t n, float mean) {
  const Vec m = Set(mean);
  Vec s0 = Set(0), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    const Vec d0 = Sub(Load(x + i), m);
    const Vec d1 = Sub(Load(x + i + kLanes), m);
    const Vec d2 = Sub(Load(x + i + 2 * kLanes), m);
    const Vec d3 = Sub(Load(x + i + 3 * kLanes), m);
    s0 = Fma(d0, d0, s0);
    s1 = Fma(d1, d1, s1);
    s2 = Fma(d2, d2, s2);
    s3 = Fma(d3, d3, s3);
  }
  float sum = SumOf(Add(Add(s0, s1), Add(s2, s3)));
  for (; i < n; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum / static_cast<float>(n);
}

}  // namespace

void HandwrittenLayerNorm(const float* x, const float* weight, const float* bias, float* y, int64_t rows,
                          int64_t columns, float eps) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const float mean = RowMean(x, columns);
    const float factor = 1.0f / sqrtf(RowVariance(x, columns, mean) + eps);
    const Vec m = Set(mean), f = Set(factor);
    int64_t i = 0;
    for (; i + kBlock <= columns; i += kBlock)
      for (int64_t j = i; j < i + kBlock; j += kLanes)
        Store(y + j, Fma(Mul(Sub(Load(x + j), m), f), Load(weight + j), Load(bias + j)));
    for (; i < columns; ++i) y[i] = (x[i] - mean) * factor * weight[i] + bias[i];
  }
}

#else

void HandwrittenLayerNorm(const float*, const float*, const float*, float*, int64_t, int64_t, float) {}

#endif

}  // namespace bench
