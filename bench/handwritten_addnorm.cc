// Norms of a sum. The sum of a row is formed once, into the place of the result, and stays in the first cache for the
// passes after it.
#include <math.h>

#include "bench/handwritten.h"
#include "bench/handwritten_simd.h"

namespace bench {

#if TSR_HANDWRITTEN
namespace {

/// y = a + b; gives the sum of its elements, or of their squares.
template <bool kSquares>
float AddRow(const float* a, const float* b, float* y, int64_t n) {
  Vec sums[kUnroll];
  for (int j = 0; j < kUnroll; ++j) sums[j] = Set(0);
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    Vec v[kUnroll];
    for (int j = 0; j < kUnroll; ++j) v[j] = Add(Load(a + i + j * kLanes), Load(b + i + j * kLanes));
    for (int j = 0; j < kUnroll; ++j) Store(y + i + j * kLanes, v[j]);
    for (int j = 0; j < kUnroll; ++j) sums[j] = kSquares ? Fma(v[j], v[j], sums[j]) : Add(sums[j], v[j]);
  }
  for (int j = 1; j < kUnroll; ++j) sums[0] = Add(sums[0], sums[j]);
  float sum = SumOf(sums[0]);
  for (; i < n; ++i) {
    y[i] = a[i] + b[i];
    sum += kSquares ? y[i] * y[i] : y[i];
  }
  return sum;
}

float SquaresAbout(const float* y, int64_t n, float mean) {
  const Vec m = Set(mean);
  Vec sums[kUnroll];
  for (int j = 0; j < kUnroll; ++j) sums[j] = Set(0);
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock)
    for (int j = 0; j < kUnroll; ++j) {
      const Vec d = Sub(Load(y + i + j * kLanes), m);
      sums[j] = Fma(d, d, sums[j]);
    }
  for (int j = 1; j < kUnroll; ++j) sums[0] = Add(sums[0], sums[j]);
  float sum = SumOf(sums[0]);
  for (; i < n; ++i) sum += (y[i] - mean) * (y[i] - mean);
  return sum;
}

}  // namespace

void HandwrittenAddLayerNorm(const float* a, const float* b, const float* weight, const float* bias, float* y,
                             int64_t rows, int64_t columns, float eps) {
  const auto n = static_cast<float>(columns);
  for (int64_t r = 0; r < rows; ++r, a += columns, b += columns, y += columns) {
    const float mean = AddRow<false>(a, b, y, columns) / n;
    const float factor = 1.0f / sqrtf(SquaresAbout(y, columns, mean) / n + eps);
    const Vec m = Set(mean), f = Set(factor);
    int64_t i = 0;
    for (; i + kBlock <= columns; i += kBlock)
      for (int64_t j = i; j < i + kBlock; j += kLanes)
        Store(y + j, Fma(Mul(Sub(Load(y + j), m), f), Load(weight + j), Load(bias + j)));
    for (; i < columns; ++i) y[i] = (y[i] - mean) * factor * weight[i] + bias[i];
  }
}

void HandwrittenAddRmsNorm(const float* a, const float* b, const float* weight, float* y, int64_t rows, int64_t columns,
                           float eps) {
  const auto n = static_cast<float>(columns);
  for (int64_t r = 0; r < rows; ++r, a += columns, b += columns, y += columns) {
    const float factor = 1.0f / sqrtf(AddRow<true>(a, b, y, columns) / n + eps);
    const Vec f = Set(factor);
    int64_t i = 0;
    for (; i + kBlock <= columns; i += kBlock)
      for (int64_t j = i; j < i + kBlock; j += kLanes) Store(y + j, Mul(Mul(Load(y + j), f), Load(weight + j)));
    for (; i < columns; ++i) y[i] = y[i] * factor * weight[i];
  }
}

#else

void HandwrittenAddLayerNorm(const float*, const float*, const float*, const float*, float*, int64_t, int64_t, float) {}
void HandwrittenAddRmsNorm(const float*, const float*, const float*, float*, int64_t, int64_t, float) {}

#endif

}  // namespace bench
