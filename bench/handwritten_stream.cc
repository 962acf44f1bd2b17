// What memory gives to loops that read and write as add and sum do. A processor that reads with few misses in flight
// writes faster than it reads, so a copy can be out of reach for them.
#include "bench/handwritten.h"
#include "bench/handwritten_simd.h"

namespace bench {

#if TSR_HANDWRITTEN

void HandwrittenAdd(const float* a, const float* b, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    Vec v[kUnroll];
    for (int j = 0; j < kUnroll; ++j) v[j] = Add(Load(a + i + j * kLanes), Load(b + i + j * kLanes));
    for (int j = 0; j < kUnroll; ++j) Store(y + i + j * kLanes, v[j]);
  }
  for (; i < n; ++i) y[i] = a[i] + b[i];
}

float HandwrittenSum(const float* x, int64_t n) {
  constexpr int kSums = 2 * kUnroll;
  Vec sums[kSums];
  for (int j = 0; j < kSums; ++j) sums[j] = Set(0);
  int64_t i = 0;
  for (; i + kSums * kLanes <= n; i += kSums * kLanes)
    for (int j = 0; j < kSums; ++j) sums[j] = Add(sums[j], Load(x + i + j * kLanes));
  for (int j = 1; j < kSums; ++j) sums[0] = Add(sums[0], sums[j]);
  float sum = SumOf(sums[0]);
  for (; i < n; ++i) sum += x[i];
  return sum;
}

#else

void HandwrittenAdd(const float*, const float*, float*, int64_t) {}
float HandwrittenSum(const float*, int64_t) { return 0; }

#endif

}  // namespace bench
