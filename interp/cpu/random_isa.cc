#include "interp/cpu/math/math.h"
#include "interp/cpu/random_loops.h"

namespace tessera::cpu::TSR_ISA {
namespace {

void Words(uint64_t seed, uint64_t counter, uint64_t counter_high, int64_t groups, uint32_t* __restrict out) {
  for (int64_t g = 0; g < groups; ++g) {
    const uint64_t low = counter + static_cast<uint64_t>(g);
    uint32_t c0 = static_cast<uint32_t>(low), c1 = static_cast<uint32_t>(low >> 32);
    uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
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
    out[4 * g] = c0;
    out[4 * g + 1] = c1;
    out[4 * g + 2] = c2;
    out[4 * g + 3] = c3;
  }
}

TSR_MATH uint64_t Double(const uint32_t* words, int64_t i) {
  return words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32;
}

template <typename T>
TSR_MATH T Place(T u, UniformRange<T> r) {
  return AtMost(AtLeast(Fma(r.width, u, r.low), r.first), r.last);
}

void UniformF32(const uint32_t* __restrict words, int64_t n, UniformRange<float> range, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = Place(static_cast<float>(static_cast<int32_t>(words[i] >> 8)) * 0x1p-24f, range);
}

void UniformF64(const uint32_t* __restrict words, int64_t n, UniformRange<double> range, double* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = Place(static_cast<double>(static_cast<int64_t>(Double(words, i) >> 11)) * 0x1p-53, range);
  }
}

// 2 pi t for t = turns / 2^bits, reduced to within an eighth of a turn. pi / 2 = hi + lo.
template <typename T, typename I>
TSR_MATH TrigReduced<T> Angle(I turns, int bits, T scale, T hi, T lo) {
  const I quadrant = (turns + (I{1} << (bits - 3))) >> (bits - 2);
  const T f = static_cast<T>(turns - (quadrant << (bits - 2))) * scale;
  const T r = f * hi;
  return {r, Fma(f, hi, -r) + f * lo, static_cast<uint32_t>(quadrant)};
}

template <typename T>
TSR_MATH void BoxMuller(T u, TrigReduced<T> angle, T mean, T std, T* out) {
  const T radius = Sqrt(T(-2) * Log(u));
  const T sine = SinFromReduced(angle);
  angle.quadrant += 1;
  const T cosine = SinFromReduced(angle);
  out[0] = Fma(std, radius * cosine, mean);
  out[1] = Fma(std, radius * sine, mean);
}

void NormalF32(const uint32_t* __restrict words, int64_t n, float mean, float std, float* __restrict out) {
  for (int64_t i = 0; i < n / 2; ++i) {
    const float u = Fma(static_cast<float>(words[2 * i]), 0x1p-32f, 0x1p-33f);
    const int32_t turns = static_cast<int32_t>(words[2 * i + 1] >> 8);
    BoxMuller(u, Angle<float>(turns, 24, 0x1p-22f, 0x1.921fb6p+0f, -0x1.777a5cp-25f), mean, std, out + 2 * i);
  }
}

void NormalF64(const uint32_t* __restrict words, int64_t n, double mean, double std, double* __restrict out) {
  for (int64_t i = 0; i < n / 2; ++i) {
    const double u = static_cast<double>(static_cast<int64_t>((Double(words, 2 * i) >> 11) + 1)) * 0x1p-53;
    const int64_t turns = static_cast<int64_t>(Double(words, 2 * i + 1) >> 11);
    BoxMuller(u, Angle<double>(turns, 53, 0x1p-51, 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54), mean, std,
              out + 2 * i);
  }
}

void Integer(const uint32_t* __restrict words, int64_t n, int64_t low, uint64_t width, int64_t* __restrict out) {
  if (width >> 32 == 0) {
    const uint64_t w = static_cast<uint32_t>(width);
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t product = words[2 * i + 1] * w + (words[2 * i] * w >> 32);
      out[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + (product >> 32));
    }
    return;
  }
  typedef unsigned __int128 Wide;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t high = static_cast<uint64_t>(static_cast<Wide>(Double(words, i)) * width >> 64);
    out[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + high);
  }
}

}  // namespace

const RandomLoops kRandomLoops = {Words, UniformF32, UniformF64, NormalF32, NormalF64, Integer};

}  // namespace tessera::cpu::TSR_ISA
