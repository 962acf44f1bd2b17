#include "interp/cpu/attention_loops.h"
#include "interp/cpu/math/exp.h"

namespace tessera::cpu::TSR_ISA {
namespace {

// Sums and maxima run over a fixed number of lanes, combined in a fixed order, so that every instruction set gives the
// same bits.
template <class T>
constexpr int kLanes = 64 / static_cast<int>(sizeof(T));

template <class T>
inline __attribute__((always_inline)) T Larger(T a, T b) {
  return Select((b > a) | (b != b), b, a);
}

template <class T>
T Max(const T* x, int64_t n) {
  constexpr int kN = kLanes<T>;
  T lane[kN];
  for (int j = 0; j < kN; ++j) lane[j] = -Inf(T(0));
  int64_t i = 0;
  for (; i + kN <= n; i += kN) {
    for (int j = 0; j < kN; ++j) lane[j] = Larger(lane[j], x[i + j]);
  }
  for (int j = 0; i < n; ++i, ++j) lane[j] = Larger(lane[j], x[i]);
  for (int width = kN / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lane[j] = Larger(lane[j], lane[j + width]);
  }
  return lane[0];
}

template <class T, bool kStore>
inline __attribute__((always_inline)) T ExpSum(const T* x, T* y, int64_t n, T max) {
  constexpr int kN = kLanes<T>;
  T lane[kN] = {};
  int64_t i = 0;
  for (; i + kN <= n; i += kN) {
    T e[kN];
    for (int j = 0; j < kN; ++j) e[j] = Exp(x[i + j] - max);
    for (int j = 0; j < kN; ++j) lane[j] += e[j];
    if (kStore) {
      for (int j = 0; j < kN; ++j) y[i + j] = e[j];
    }
  }
  for (int j = 0; i < n; ++i, ++j) {
    const T e = Exp(x[i] - max);
    lane[j] += e;
    if (kStore) y[i] = e;
  }
  for (int width = kN / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lane[j] += lane[j + width];
  }
  return lane[0];
}

template <class T>
T SumExp(const T* x, int64_t n, T max) {
  return ExpSum<T, false>(x, nullptr, n, max);
}
template <class T>
T ExpInPlace(T* x, int64_t n, T max) {
  return ExpSum<T, true>(x, x, n, max);
}

template <class T>
void Add(T* __restrict x, const T* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] += y[i];
}
template <class T>
void Mask(T* __restrict x, const uint8_t* __restrict keep, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = Select(keep[i] != 0, x[i], -Inf(T(0)));
}
template <class T>
void Scaled(T* y, const T* x, T by, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * by;
}

template <class T>
void Weigh(T* __restrict x, const T* __restrict weights, T less, T by, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = weights[i] * (x[i] - less) * by;
}

template <class T>
constexpr ScoreLoops<T> kLoops = {Max<T>, SumExp<T>, ExpInPlace<T>, Add<T>, Mask<T>, Scaled<T>, Weigh<T>};

}  // namespace

const AttentionLoops kAttentionLoops = {kLoops<float>, kLoops<double>};

}  // namespace tessera::cpu::TSR_ISA
