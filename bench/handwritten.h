// Kernels written by hand for one job each, as a person would who needs just that: no strides, no other types, no
// special values. They say what the general kernels of the library should reach.
#ifndef TESSERA_BENCH_HANDWRITTEN_H_
#define TESSERA_BENCH_HANDWRITTEN_H_

#include <stdint.h>

namespace bench {

using ExpLoop = void(const float* x, float* y, int64_t n);

/// Null where this machine has not the instructions that the kernels need; then the others must not be called.
ExpLoop* HandwrittenExp();
/// Null where SLEEF is not installed too.
ExpLoop* SleefExp();

/// The chain of bench/programs.h for these sizes and no others; null where there is none for them.
using ChainKernel = void(const float* x, const float* b, float* y);
ChainKernel* HandwrittenChain(int64_t rows, int64_t columns);

void HandwrittenAdd(const float* a, const float* b, float* y, int64_t n);
float HandwrittenSum(const float* x, int64_t n);

/// Rows one after another. softmax(scale x), for a scale above 0
void HandwrittenSoftmax(const float* x, float* y, int64_t rows, int64_t columns, float scale = 1);
void HandwrittenLayerNorm(const float* x, const float* weight, const float* bias, float* y, int64_t rows,
                          int64_t columns, float eps);
/// layer_norm(a + b) and rms_norm(a + b)
void HandwrittenAddLayerNorm(const float* a, const float* b, const float* weight, const float* bias, float* y,
                             int64_t rows, int64_t columns, float eps);
void HandwrittenAddRmsNorm(const float* a, const float* b, const float* weight, float* y, int64_t rows, int64_t columns,
                           float eps);
/// gelu(x weight + bias) / 2 + x
void HandwrittenGeluChain(const float* x, const float* weight, const float* bias, float* y, int64_t rows,
                          int64_t columns);

}  // namespace bench

#endif  // TESSERA_BENCH_HANDWRITTEN_H_
