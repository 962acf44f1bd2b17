// Random numbers, the same as on every device: interp/cpu/random_loops.h says what they are.
#include "interp/cuda/kernels/moves.cuh"
#include "interp/cuda/random_args.h"

namespace tessera::cuda {
namespace {

struct Words {
  uint32_t at[4];
  __device__ __forceinline__ uint64_t wide(int i) const {
    return at[2 * i] | static_cast<uint64_t>(at[2 * i + 1]) << 32;
  }
};

/// Philox 4x32-10.
__device__ __forceinline__ Words MakeWords(uint64_t seed, uint64_t counter) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xd2511f53} * c0;
    const uint64_t p1 = uint64_t{0xcd9e8d57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Writes n elements for each group of words: make(words, C values[n]) makes them.
template <class D, class C, int n, class Args, class Make>
__device__ __forceinline__ void Groups(const Args& a, Make make) {
  D* out = At<D>(a.out);
  const uint64_t seed = static_cast<uint64_t>(IntOf(a.seed)), offset = static_cast<uint64_t>(IntOf(a.offset));
  const int64_t groups = a.count / n + (a.count % n != 0);
  for (int64_t g = ThreadIndex(); g < groups; g += ThreadCount()) {
    C values[n];
    make(MakeWords(seed, offset + static_cast<uint64_t>(g)), values);
    Pack<D, n> r;
#pragma unroll
    for (int i = 0; i < n; ++i) Store(values[i], r.at[i]);
    StorePack(out, g * n, a.count, r);
  }
}

template <class T>
__device__ __forceinline__ T Place(T u, const UniformArgs<T>& a) {
  return AtMost(AtLeast(Fma(a.width, u, a.low), a.first), a.last);
}

template <class D>
__device__ __forceinline__ void Uniform(const UniformArgs<float>& a) {
  Groups<D, float, 4>(a, [&](const Words& w, float* values) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      values[i] = Place(static_cast<float>(static_cast<int32_t>(w.at[i] >> 8)) * 0x1p-24f, a);
  });
}

__device__ __forceinline__ void UniformWide(const UniformArgs<double>& a) {
  Groups<double, double, 2>(a, [&](const Words& w, double* values) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      values[i] = Place(static_cast<double>(static_cast<int64_t>(w.wide(i) >> 11)) * 0x1p-53, a);
  });
}

// 2 pi t for t = turns / 2^bits, reduced to within an eighth of a turn. pi / 2 = hi + lo.
template <class T, class I>
__device__ __forceinline__ TrigReduced<T> Angle(I turns, int bits, T scale, T hi, T lo) {
  const I quadrant = (turns + (I{1} << (bits - 3))) >> (bits - 2);
  const T f = static_cast<T>(turns - (quadrant << (bits - 2))) * scale;
  const T r = f * hi;
  return {r, Fma(f, hi, -r) + f * lo, static_cast<uint32_t>(quadrant)};
}

template <class T>
__device__ __forceinline__ void BoxMuller(T u, TrigReduced<T> angle, T mean, T std, T* out) {
  const T radius = Sqrt(T(-2) * Log(u));
  const T sine = SinFromReduced(angle);
  angle.quadrant += 1;
  const T cosine = SinFromReduced(angle);
  out[0] = Fma(std, radius * cosine, mean);
  out[1] = Fma(std, radius * sine, mean);
}

template <class D>
__device__ __forceinline__ void Normal(const NormalArgs<float>& a) {
  Groups<D, float, 4>(a, [&](const Words& w, float* values) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float u = Fma(static_cast<float>(w.at[2 * i]), 0x1p-32f, 0x1p-33f);
      const int32_t turns = static_cast<int32_t>(w.at[2 * i + 1] >> 8);
      BoxMuller(u, Angle<float>(turns, 24, 0x1p-22f, 0x1.921fb6p+0f, -0x1.777a5cp-25f), a.mean, a.std, values + 2 * i);
    }
  });
}

__device__ __forceinline__ void NormalWide(const NormalArgs<double>& a) {
  Groups<double, double, 2>(a, [&](const Words& w, double* values) {
    const double u = static_cast<double>(static_cast<int64_t>((w.wide(0) >> 11) + 1)) * 0x1p-53;
    const int64_t turns = static_cast<int64_t>(w.wide(1) >> 11);
    BoxMuller(u, Angle<double>(turns, 53, 0x1p-51, 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54), a.mean, a.std, values);
  });
}

template <class D>
__device__ __forceinline__ void Integers(const RandomIntArgs& a) {
  Groups<D, int64_t, 2>(a, [&](const Words& w, int64_t* values) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      values[i] = static_cast<int64_t>(static_cast<uint64_t>(a.low) + __umul64hi(w.wide(i), a.width));
  });
}

}  // namespace

#define TSR_KERNELS(name, D)                                                                                       \
  extern "C" __global__ void random_uniform_##name(const __grid_constant__ UniformArgs<float> a) { Uniform<D>(a); } \
  extern "C" __global__ void random_normal_##name(const __grid_constant__ NormalArgs<float> a) { Normal<D>(a); }
TSR_KERNELS(f32, float)
TSR_KERNELS(f16, Half)
TSR_KERNELS(bf16, BHalf)
TSR_KERNELS(f8e4m3, E4M3)
TSR_KERNELS(f8e5m2, E5M2)
#undef TSR_KERNELS
extern "C" __global__ void random_uniform_f64(const __grid_constant__ UniformArgs<double> a) { UniformWide(a); }
extern "C" __global__ void random_normal_f64(const __grid_constant__ NormalArgs<double> a) { NormalWide(a); }

#define TSR_KERNELS(name, D) \
  extern "C" __global__ void random_int_##name(const __grid_constant__ RandomIntArgs a) { Integers<D>(a); }
TSR_KERNELS(i64, int64_t)
TSR_KERNELS(i32, int32_t)
TSR_KERNELS(i8, int8_t)
TSR_KERNELS(u8, uint8_t)
TSR_KERNELS(boolean, BoolByte)
#undef TSR_KERNELS

}  // namespace tessera::cuda
