// Sums of floats in a fixed order that does not depend on the instruction set: eight vectors are added as a tree in
// the element type, the result goes to one accumulator a lane. f32 accumulates in f64, f64 keeps what rounding lost.
// So the error is that of three additions plus one rounding, whatever the number of elements.
//
// Only for files that are compiled once per instruction set: define TSR_ISA before.
#ifndef TESSERA_INTERP_CPU_LANES_ISA_H_
#define TESSERA_INTERP_CPU_LANES_ISA_H_

#include <stdint.h>
#include <string.h>

#include "interp/cpu/math/exp.h"

#if defined(__GNUC__) && !defined(__clang__)
// Vectors wider than the registers are passed between inlined functions only.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#define TSR_INLINE inline __attribute__((always_inline))

namespace tessera::cpu::TSR_ISA {
namespace {

typedef float F16 __attribute__((vector_size(64)));
typedef double D8 __attribute__((vector_size(64)));
typedef double D16 __attribute__((vector_size(128)));

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using V = F16;
  static constexpr int kLanes = 16;
};
template <>
struct VectorOf<double> {
  using V = D8;
  static constexpr int kLanes = 8;
};

template <class T>
TSR_INLINE typename VectorOf<T>::V Load(const T* p) {
  typename VectorOf<T>::V v;
  memcpy(&v, p, sizeof(v));
  return v;
}

/// s + x, with what rounding took from it added to c.
TSR_INLINE void TwoSum(double& s, double& c, double x) {
  const double t = s + x;
  const double z = t - s;
  c += (s - (t - z)) + (x - z);
  s = t;
}

template <class T>
TSR_INLINE typename VectorOf<T>::V Tree(const T* x) {
  constexpr int L = VectorOf<T>::kLanes;
  return ((Load(x) + Load(x + L)) + (Load(x + 2 * L) + Load(x + 3 * L))) +
         ((Load(x + 4 * L) + Load(x + 5 * L)) + (Load(x + 6 * L) + Load(x + 7 * L)));
}

/// The sum of a stretch of a row. Step() takes kStep elements, Vector() kLanes, One() a single one.
template <class T>
struct LaneSum;

template <>
struct LaneSum<float> {
  static constexpr int kLanes = 16;
  static constexpr int kStep = 128;
  D16 lanes = {};
  double rest = 0;
  TSR_INLINE void Step(const float* x) { lanes += __builtin_convertvector(Tree(x), D16); }
  TSR_INLINE void Vector(const float* x) { lanes += __builtin_convertvector(Load(x), D16); }
  TSR_INLINE void One(float x) { rest += x; }
  TSR_INLINE double Total(double* lost) const {
    double t[16];
    memcpy(t, &lanes, sizeof(t));
    for (int w = 8; w > 0; w /= 2)
      for (int i = 0; i < w; ++i) t[i] += t[i + w];
    *lost = 0;
    return t[0] + rest;
  }
};

template <>
struct LaneSum<double> {
  static constexpr int kLanes = 8;
  static constexpr int kStep = 64;
  D8 sum = {}, lost_ = {};
  double rest = 0, rest_lost = 0;
  TSR_INLINE void Add(D8 x) {
    const D8 t = sum + x;
    const D8 z = t - sum;
    lost_ += (sum - (t - z)) + (x - z);
    sum = t;
  }
  TSR_INLINE void Step(const double* x) { Add(Tree(x)); }
  TSR_INLINE void Vector(const double* x) { Add(Load(x)); }
  TSR_INLINE void One(double x) { TwoSum(rest, rest_lost, x); }
  TSR_INLINE double Total(double* lost) const {
    double s = rest, c = rest_lost;
    for (int i = 0; i < 8; ++i) {
      TwoSum(s, c, sum[i]);
      c += lost_[i];
    }
    *lost = c;
    return s;
  }
};

/// A sum and what rounding lost of it. Once the sum is infinite or NaN the second is meaningless.
TSR_INLINE double Settled(double s, double lost) { return s - s == 0 ? s + lost : s; }

template <class T>
TSR_INLINE double SumOf(const T* x, int64_t n, double* lost) {
  LaneSum<T> acc;
  int64_t i = 0;
  for (; i + LaneSum<T>::kStep <= n; i += LaneSum<T>::kStep) acc.Step(x + i);
  for (; i + LaneSum<T>::kLanes <= n; i += LaneSum<T>::kLanes) acc.Vector(x + i);
  for (; i < n; ++i) acc.One(x[i]);
  return acc.Total(lost);
}

/// y = exp(x - m). A function of its own, so that the constants of Exp have the registers to themselves.
template <class T>
__attribute__((noinline)) void ExpInto(const T* __restrict x, T* __restrict y, int64_t n, T m) {
  TSR_MATH_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = Exp(x[i] - m);
}

/// Adds exp(x - m) to the sum. The terms are left in y, or in y's first kExpBlock elements over and over.
inline constexpr int64_t kExpBlock = 1024;
template <bool kKeep, class T>
TSR_INLINE void AddExp(LaneSum<T>* sum, const T* x, T* y, int64_t n, T m) {
  for (int64_t i = 0; i < n; i += kExpBlock) {
    const int64_t block = n - i < kExpBlock ? n - i : kExpBlock;
    T* t = kKeep ? y + i : y;
    ExpInto(x + i, t, block, m);
    int64_t k = 0;
    for (; k + LaneSum<T>::kStep <= block; k += LaneSum<T>::kStep) sum->Step(t + k);
    for (; k + LaneSum<T>::kLanes <= block; k += LaneSum<T>::kLanes) sum->Vector(t + k);
    for (; k < block; ++k) sum->One(t[k]);
  }
}

/// The larger (or smaller) of two numbers, or of each lane; NaN if either is; +0 > -0, so that no order matters.
template <bool kMin, class T>
TSR_INLINE T Better(T a, T b) {
  if constexpr (kMin)
    return Minimum(a, b);
  else
    return Maximum(a, b);
}
template <bool kMin, class V>
TSR_INLINE V BetterLanes(V a, V b) {
#ifdef TSR_HAS_MAXIMUM
  if constexpr (kMin)
    return __builtin_elementwise_minimum(a, b);
  else
    return __builtin_elementwise_maximum(a, b);
#else
  // Of equal ones the first, unless it is the zero that loses. A NaN in a stays: no comparison with it holds.
  const auto negative = (decltype(a < b))(kMin ? b : a) < 0;
  return ((kMin ? b < a : b > a) | (b != b) | ((a == b) & negative)) ? b : a;
#endif
}

/// The largest (or smallest) of a row, NaN if there is one; `start` for nothing.
template <bool kMin, class T>
TSR_INLINE T ExtremeOf(const T* x, int64_t n, T start) {
  using V = typename VectorOf<T>::V;
  constexpr int L = VectorOf<T>::kLanes;
  T best = start;
  int64_t i = 0;
  if (n >= L) {
    V a = Load(x), b = a;
    for (; i + 2 * L <= n; i += 2 * L) {
      const V u = Load(x + i), v = Load(x + i + L);
      a = BetterLanes<kMin>(a, u);
      b = BetterLanes<kMin>(b, v);
    }
    for (; i + L <= n; i += L) {
      const V u = Load(x + i);
      a = BetterLanes<kMin>(a, u);
    }
    a = BetterLanes<kMin>(a, b);
    for (int j = 0; j < L; ++j) best = Better<kMin>(best, static_cast<T>(a[j]));
  }
  for (; i < n; ++i) best = Better<kMin>(best, x[i]);
  return best;
}

}  // namespace
}  // namespace tessera::cpu::TSR_ISA

#endif  // TESSERA_INTERP_CPU_LANES_ISA_H_
