// The chain of ten ops of tier_ratio, by a person who knows its sizes: rows and columns are constants, every loop comes
// out even, and nothing is asked at run time.
#include "bench/handwritten.h"
#include "bench/handwritten_simd.h"

namespace bench {

#if TSR_HANDWRITTEN
namespace {

template <int64_t rows, int64_t columns>
void Chain(const float* x, const float* b, float* y) {
  static_assert(columns % kBlock == 0);
  const Vec zero = Set(0.0f);
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    for (int64_t i = 0; i < columns; i += kBlock) {
      Vec v[kUnroll];
      for (int j = 0; j < kUnroll; ++j) {
        const Vec bias = Load(b + i + j * kLanes);
        v[j] = Add(Mul(Load(x + i + j * kLanes), bias), bias);
        v[j] = Min(Max(v[j], Set(-87.0f)), Set(88.0f));
      }
      Exp<kUnroll>(v);
      for (int j = 0; j < kUnroll; ++j) {
        const Vec in = Load(x + i + j * kLanes), bias = Load(b + i + j * kLanes);
        const Vec u = Sub(Max(Mul(Add(v[j], in), bias), zero), in);
        Store(y + i + j * kLanes, Mul(Add(Abs(u), bias), in));
      }
    }
  }
}

}  // namespace

ChainKernel* HandwrittenChain(int64_t rows, int64_t columns) {
  if (HandwrittenExp() == nullptr) return nullptr;
  if (rows == 16 && columns == 64) return Chain<16, 64>;
  // By one of two threads.
  if (rows == 128 && columns == 256) return Chain<128, 256>;
  if (rows == 256 && columns == 256) return Chain<256, 256>;
  return nullptr;
}

#else

ChainKernel* HandwrittenChain(int64_t, int64_t) { return nullptr; }

#endif

}  // namespace bench
