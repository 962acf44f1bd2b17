// rotary: pairs (x1, x2) of each row are turned by position * base^(-2i/D). Angles, sines and cosines are f64, worked
// out once for each position and kept in a table.
#include "interp/cuda/kernels/rows.cuh"
#include "interp/cuda/rotary_args.h"

namespace tessera::cuda {
namespace {

// The reduction of large angles in interp/cpu/math/trig.h is host code, so the CUDA library's takes its place.
__device__ __forceinline__ double CosOf(double x) { return CosNeedsLarge(x) ? ::cos(x) : CosFast(x); }
__device__ __forceinline__ double SinOf(double x) { return SinNeedsLarge(x) ? ::sin(x) : SinFast(x); }

template <class C>
__device__ __forceinline__ void Table(const RotaryArgs& a) {
  C* cosines = At<C>(a.table);
  C* sines = cosines + a.n_table * a.half;
  for (int64_t i = ThreadIndex(); i < a.n_table * a.half; i += ThreadCount()) {
    const int64_t row = i / a.half, pair = i - row * a.half;
    const int64_t position = At<const int64_t>(a.positions.data)[OffsetOf(a.positions.layout, row)];
    const double power = -2.0 * static_cast<double>(pair) / static_cast<double>(2 * a.half);
    const double angle = static_cast<double>(position) * Pow(a.base, power);
    cosines[i] = static_cast<C>(CosOf(angle));
    sines[i] = static_cast<C>(SinOf(angle));
  }
}

/// V pairs from number `pair` on; where V > 1, everything they touch lies together and is aligned.
template <class T, class C, int V>
__device__ __forceinline__ void Turn(const RotaryArgs& a, const T* x, T* y, const C* cosines, const C* sines,
                                     int64_t pair) {
  C a1[V], a2[V];
  T p1[V], p2[V];
  const int64_t low = a.interleaved ? 2 * pair : pair, high = a.interleaved ? 2 * pair + V : a.half + pair;
  if constexpr (V > 1) {
    const Pack<T, V> q1 = *reinterpret_cast<const Pack<T, V>*>(x + low);
    const Pack<T, V> q2 = *reinterpret_cast<const Pack<T, V>*>(x + high);
    if (a.interleaved) {
#pragma unroll
      for (int k = 0; k < V; ++k) {
        p1[k] = 2 * k < V ? q1.at[2 * k % V] : q2.at[2 * k % V];
        p2[k] = 2 * k < V ? q1.at[(2 * k + 1) % V] : q2.at[(2 * k + 1) % V];
      }
    } else {
#pragma unroll
      for (int k = 0; k < V; ++k) p1[k] = q1.at[k], p2[k] = q2.at[k];
    }
  } else {
    p1[0] = x[low * a.step];
    p2[0] = x[high * a.step];
  }
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const C u = Get<C>(p1[k]), v = Get<C>(p2[k]);
    a1[k] = u * cosines[pair + k] - v * sines[pair + k];
    a2[k] = v * cosines[pair + k] + u * sines[pair + k];
  }
  if constexpr (V > 1) {
    Pack<T, V> q1, q2;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      // Of result element k of the first pack and of the second.
      const C first = a.interleaved ? (k % 2 ? a2[k / 2] : a1[k / 2]) : a1[k];
      const C second = a.interleaved ? (k % 2 ? a2[V / 2 + k / 2] : a1[V / 2 + k / 2]) : a2[k];
      Put(first, q1.at[k]);
      Put(second, q2.at[k]);
    }
    *reinterpret_cast<Pack<T, V>*>(y + low) = q1;
    *reinterpret_cast<Pack<T, V>*>(y + high) = q2;
  } else {
    Put(a1[0], y[low]);
    Put(a2[0], y[high]);
  }
}

template <class C>
__device__ __forceinline__ void Rows(const RotaryArgs& a) {
  const C* table = At<const C>(a.table);
  WithStorage<C>(a.x.layout.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int V = sizeof(T) == 8 ? 2 : 4;
    const int each = a.step == 1 && a.half % V == 0 ? V : 1;
    const int64_t parts = a.half / each;
#pragma unroll 1
    for (int64_t i = ThreadIndex(); i < a.rows * parts; i += ThreadCount()) {
      const int64_t row = i / parts, pair = (i - row * parts) * each;
      const T* x = At<const T>(a.x.data) + OffsetOf(a.x.layout, row);
      T* y = At<T>(a.y) + row * 2 * a.half;
      const C* cosines = table + OffsetOf(a.table_rows, row) * a.half;
      const C* sines = cosines + a.n_table * a.half;
      if (each == 1) {
        Turn<T, C, 1>(a, x, y, cosines, sines, pair);
      } else if (Aligned<T, V>(x) && Aligned<T, V>(y)) {
        Turn<T, C, V>(a, x, y, cosines, sines, pair);
      } else {
#pragma unroll 1
        for (int k = 0; k < V; ++k) Turn<T, C, 1>(a, x, y, cosines, sines, pair + k);
      }
    }
  });
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) rotary_table_f32(const __grid_constant__ RotaryArgs a) {
  Table<float>(a);
}
extern "C" __global__ void __launch_bounds__(256) rotary_table_f64(const __grid_constant__ RotaryArgs a) {
  Table<double>(a);
}
extern "C" __global__ void __launch_bounds__(256) rotary_rows_f32(const __grid_constant__ RotaryArgs a) {
  Rows<float>(a);
}
extern "C" __global__ void __launch_bounds__(256) rotary_rows_f64(const __grid_constant__ RotaryArgs a) {
  Rows<double>(a);
}

}  // namespace tessera::cuda
