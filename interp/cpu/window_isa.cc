#include "interp/cpu/window_loops.h"

#include "interp/cpu/math/basic.h"

namespace tessera::cpu::TSR_ISA {
namespace {

// op(y[i], x[i * step]); steps 1 and 2 apart, because a constant step is what lets the loop vectorise.
template <class T, class F>
inline __attribute__((always_inline)) void ForSteps(T* __restrict y, const T* __restrict x, int64_t step, int64_t n,
                                                    F op) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = op(y[i], x[i]);
  } else if (step == 2) {
    for (int64_t i = 0; i < n; ++i) y[i] = op(y[i], x[2 * i]);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = op(y[i], x[i * step]);
  }
}

template <class T>
void MultiplyAdd(T* y, const T* x, int64_t step, T w, int64_t n) {
  ForSteps(y, x, step, n, [w](T a, T b) { return a + w * b; });
}
template <class T>
void Add(T* y, const T* x, int64_t step, int64_t n) {
  ForSteps(y, x, step, n, [](T a, T b) { return a + b; });
}
template <class T>
void MaxFloat(T* y, const T* x, int64_t step, int64_t n) {
  ForSteps(y, x, step, n, [](T a, T b) { return Maximum(a, b); });
}
template <class T>
void MaxInt(T* y, const T* x, int64_t step, int64_t n) {
  ForSteps(y, x, step, n, [](T a, T b) { return b > a ? b : a; });
}

}  // namespace

const WindowLoops kWindowLoops = {
    {MultiplyAdd<float>, Add<float>, MaxFloat<float>},
    {MultiplyAdd<double>, Add<double>, MaxFloat<double>},
    MaxInt<int64_t>,
    MaxInt<int32_t>,
    MaxInt<int8_t>,
    MaxInt<uint8_t>,
};

}  // namespace tessera::cpu::TSR_ISA
