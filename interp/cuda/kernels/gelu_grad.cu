// gelu_tanh_grad: with v = c1 x + c3 x^3 and the logistic function s of it, g s (1 + x (1 - s) v').
#include "interp/cuda/gelu_grad_args.h"
#include "interp/cuda/kernels/rows.cuh"

namespace tessera::cuda {
namespace {

template <class C>
constexpr C kC1 = C(1.5957691216057307117597842397375);
template <class C>
constexpr C kC3 = C(0.044715) * kC1<C>;
/// Beyond, the slope is 0 or 1 in every dtype.
template <class C>
constexpr C kLimit = C(25);

template <class C>
__device__ __forceinline__ C GradOf(C x, C g) {
  x = x > kLimit<C> ? kLimit<C> : x < -kLimit<C> ? -kLimit<C> : x;  // NaN stays
  const C v = x * (kC1<C> + kC3<C> * (x * x));
  const C e = Exp(v < C(0) ? v : -v), near = C(1) / (C(1) + e), far = e * near;
  const C s = x < C(0) ? far : near, rest = x < C(0) ? near : far;
  return g * (s * (C(1) + x * rest * (kC1<C> + C(3) * kC3<C> * (x * x))));
}

/// For results of 11 bits or fewer, where the device's own power of two and reciprocal do.
__device__ __forceinline__ float NarrowGradOf(float x, float g) {
  constexpr float kLog2E = 0x1.715476p+0f;
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(kLimit<float>));
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(-kLimit<float>));
  const float square = x * x;
  const float v = x * fmaf(kC3<float> * kLog2E, square, kC1<float> * kLog2E);
  float e, near;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-fabsf(v)));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(1.0f + e));
  const float far = e * near, s = x < 0 ? far : near, rest = x < 0 ? near : far;
  return g * (s * fmaf(x * rest, fmaf(3 * kC3<float>, square, kC1<float>), 1.0f));
}

template <class C>
__device__ __forceinline__ void Run(const GeluGradArgs& a) {
  WithStorage<C>(a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int V = kPack<T>;
    const auto grad_of = [](T x, T g, T& y) {
      if constexpr (sizeof(T) < 4)
        Put(NarrowGradOf(Get<float>(x), Get<float>(g)), y);
      else
        Put(GradOf(Get<C>(x), Get<C>(g)), y);
    };
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
        for (int k = 0; k < V; ++k) grad_of(xs.at[k], gs.at[k], out.at[k]);
        reinterpret_cast<Pack<T, V>*>(y)[p] = out;
      }
    }
#pragma unroll 1
    for (int64_t i = done + ThreadIndex(); i < a.size; i += ThreadCount()) grad_of(x[i], g[i], y[i]);
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
