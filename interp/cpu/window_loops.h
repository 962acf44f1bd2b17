// Inner loops of depthwise convolution and pooling, compiled once per instruction set.
#ifndef TESSERA_INTERP_CPU_WINDOW_LOOPS_H_
#define TESSERA_INTERP_CPU_WINDOW_LOOPS_H_

#include <stdint.h>

#include "interp/cpu/isa.h"

namespace tessera::cpu {

template <class T>
struct RowLoops {
  /// y[i] += w * x[i * step]
  void (*multiply_add)(T* y, const T* x, int64_t step, T w, int64_t n);
  /// y[i] += x[i * step]
  void (*add)(T* y, const T* x, int64_t step, int64_t n);
  /// y[i] = the larger of y[i] and x[i * step]; NaN if either is.
  void (*max)(T* y, const T* x, int64_t step, int64_t n);
};

struct WindowLoops {
  RowLoops<float> f32;
  RowLoops<double> f64;
  void (*max_i64)(int64_t* y, const int64_t* x, int64_t step, int64_t n);
  void (*max_i32)(int32_t* y, const int32_t* x, int64_t step, int64_t n);
  void (*max_i8)(int8_t* y, const int8_t* x, int64_t step, int64_t n);
  void (*max_u8)(uint8_t* y, const uint8_t* x, int64_t step, int64_t n);
};

TSR_DECLARE_ISA(WindowLoops, kWindowLoops);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_WINDOW_LOOPS_H_
