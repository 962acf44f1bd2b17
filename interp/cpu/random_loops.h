// Random numbers, defined so that any device can give the same ones: element i (row-major) is a function of seed,
// offset, i and the dtype alone.
//
// Words. Philox 4x32-10 with key (seed's low 32 bits, high 32 bits) and counter (low and high 32 bits of c, 0, 0) gives
// four 32-bit words w0..w3 for each 64-bit c = offset + g (modulo 2^64), g = 0, 1, 2, ... A call for n elements uses
// c = offset ... offset + ceil(n / 4) - 1, or ceil(n / 2) - 1 for f64 and for random_int; so an offset that grows by n
// from call to call never meets the same words again.
//
//   f32 and narrower   element 4g+j uses word wj of group g (normal: w0, w1 make elements 4g, 4g+1; w2, w3 the others)
//   f64, integers      element 2g uses d0 = w0 + 2^32 w1, element 2g+1 uses d1 = w2 + 2^32 w3 (normal: both use both)
//
// random_uniform. u = floor(w / 2^8) 2^-24 (f64: floor(d / 2^11) 2^-53). The value is fma(high' - low', u, low'), where
// low' and high' are low and high rounded to f32 (f64), then brought into [first, last], which are the smallest
// number of the dtype that is not below low and the largest one below high; at last it is rounded to the dtype.
//
// random_normal. From the pair (a, b) of words: r = sqrt(-2 log u), u = fma(a, 2^-32, 2^-33) with a rounded to f32
// (f64: u = (floor(d0 / 2^11) + 1) 2^-53), and the angle 2 pi t, t = floor(b / 2^8) 2^-24 (f64: floor(d1 / 2^11)
// 2^-53). The two values are fma(std, r cos, mean) and fma(std, r sin, mean) in f32 (f64), rounded to the dtype.
// Functions are those of interp/cpu/math; the angle is reduced exactly, in quarter turns, before it is multiplied by pi
// / 2.
//
// random_int. low + floor(d (high - low) / 2^64). No value's probability is off by more than 2^-64.
#ifndef TESSERA_INTERP_CPU_RANDOM_LOOPS_H_
#define TESSERA_INTERP_CPU_RANDOM_LOOPS_H_

#include <stdint.h>

#include "interp/cpu/isa.h"

namespace tessera::cpu {

template <class T>
struct UniformRange {
  T low, width;  // low' and high' - low'
  T first, last;
};

struct RandomLoops {
  /// 4 * groups words for counters counter_high * 2^64 + counter, + 1, ... (the low half wraps).
  void (*words)(uint64_t seed, uint64_t counter, uint64_t counter_high, int64_t groups, uint32_t* out);
  // n values from n words (f32) or 2 n words (the others). n is a multiple of 2 for normal.
  void (*uniform_f32)(const uint32_t* words, int64_t n, UniformRange<float> range, float* out);
  void (*uniform_f64)(const uint32_t* words, int64_t n, UniformRange<double> range, double* out);
  void (*normal_f32)(const uint32_t* words, int64_t n, float mean, float std, float* out);
  void (*normal_f64)(const uint32_t* words, int64_t n, double mean, double std, double* out);
  /// width = high - low modulo 2^64.
  void (*integer)(const uint32_t* words, int64_t n, int64_t low, uint64_t width, int64_t* out);
};
TSR_DECLARE_ISA(RandomLoops, kRandomLoops);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_RANDOM_LOOPS_H_
