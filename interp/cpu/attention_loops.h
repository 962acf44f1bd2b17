// Row loops of attention and cross-entropy, compiled once per instruction set.
#ifndef TESSERA_INTERP_CPU_ATTENTION_LOOPS_H_
#define TESSERA_INTERP_CPU_ATTENTION_LOOPS_H_

#include <stdint.h>

#include "interp/cpu/isa.h"

namespace tessera::cpu {

template <class T>
struct ScoreLoops {
  /// The largest; NaN if there is one; -inf of nothing.
  T (*max)(const T* x, int64_t n);
  /// Sum of exp(x - max).
  T (*sum_exp)(const T* x, int64_t n, T max);
  /// The same, and x becomes exp(x - max).
  T (*exp)(T* x, int64_t n, T max);
  /// x += y
  void (*add)(T* x, const T* y, int64_t n);
  /// x becomes -inf where keep is 0.
  void (*mask)(T* x, const uint8_t* keep, int64_t n);
  /// y = x * by
  void (*scale)(T* y, const T* x, T by, int64_t n);
  /// x = weights * (x - less) * by
  void (*weigh)(T* x, const T* weights, T less, T by, int64_t n);
};

struct AttentionLoops {
  ScoreLoops<float> f32;
  ScoreLoops<double> f64;
};

TSR_DECLARE_ISA(AttentionLoops, kAttentionLoops);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_ATTENTION_LOOPS_H_
