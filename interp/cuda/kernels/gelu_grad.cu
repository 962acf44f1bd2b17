// gelu_tanh_grad: with v = c1 x + c3 x^3 and the logistic function s of it, g s (1 + x (1 - s) v').
#include "interp/cuda/gelu_grad_args.h"
#include "interp/cuda/kernels/rows.cuh"

namespace tessera::cuda {
namespace {

/// kNarrow: results have 11 bits or fewer, so the device's own power of two and reciprocal do.
template <bool kNarrow, class C>
__device__ __forceinline__ C GradOf(C x, C g) {
  constexpr C kC1 = C(1.5957691216057307117597842397375), kC3 = C(0.044715) * kC1;
  // Beyond, the slope is 0 or 1 in every dtype; NaN stays.
  const C limit = C(25);
  x = x > limit ? limit : x < -limit ? -limit : x;
  const C v = x * (kC1 + kC3 * (x * x)), down = v < C(0) ? v : -v;
  C e, near;
  if constexpr (kNarrow) {
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(down * 0x1.715476p+0f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(1.0f + e));
  } else {
    e = Exp(down);
    near = C(1) / (C(1) + e);
  }
  const C far = e * near, s = x < C(0) ? far : near, rest = x < C(0) ? near : far;
  return g * (s * (C(1) + x * rest * (kC1 + C(3) * kC3 * (x * x))));
}

template <class C>
__device__ __forceinline__ void Run(const GeluGradArgs& a) {
  WithStorage<C>(a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int V = kPack<T>;
    constexpr bool kNarrow = sizeof(T) < 4;
    const T *x = At<const T>(a.x), *g = At<const T>(a.g);
    T* y = At<T>(a.y);
    int64_t done = 0;
    if (Aligned<T, V>(x) && Aligned<T, V>(g) && Aligned<T, V>(y)) {
      const int64_t packs = a.size / V;
      done = packs * V;
      for (int64_t p = ThreadIndex(); p < packs; p += ThreadCount()) {
        const Pack<T, V> xs = reinterpret_cast<const Pack<T, V>*>(x)[p], gs = reinterpret_cast<const Pack<T, V>*>(g)[p];
        Pack<T, V> out;
#pragma unroll
        for (int k = 0; k < V; ++k) Put(GradOf<kNarrow>(Get<C>(xs.at[k]), Get<C>(gs.at[k])), out.at[k]);
        reinterpret_cast<Pack<T, V>*>(y)[p] = out;
      }
    }
#pragma unroll 1
    for (int64_t i = done + ThreadIndex(); i < a.size; i += ThreadCount())
      Put(GradOf<kNarrow>(Get<C>(x[i]), Get<C>(g[i])), y[i]);
  });
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) gelu_tanh_grad_f32(const __grid_constant__ GeluGradArgs a) {
  Run<float>(a);
}
extern "C" __global__ void __launch_bounds__(256) gelu_tanh_grad_f64(const __grid_constant__ GeluGradArgs a) {
  Run<double>(a);
}

}  // namespace tessera::cuda
