#include "interp/cpu/rows_isa.h"

#include <stdint.h>

#include "interp/cpu/lanes_isa.h"
#include "interp/cpu/math/log.h"

namespace tessera::cpu::TSR_ISA {
namespace {

template <class T>
constexpr T MinusInf() {
  return static_cast<T>(-__builtin_inf());
}

template <class T>
void SoftmaxApply(const T* __restrict x, T* __restrict y, int64_t n, T max, double total, bool log) {
  if (log) {
    const T l = static_cast<T>(Log(total));
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - max) - l;
  } else {
    const T scale = static_cast<T>(1 / total);
    ExpInto(x, y, n, max);
    for (int64_t i = 0; i < n; ++i) y[i] *= scale;
  }
}

/// Sum of exp(x - max), with the terms left as AddExp does.
template <bool kKeep, class T>
TSR_INLINE double ExpSum(const T* x, T* y, int64_t n, T max) {
  LaneSum<T> sum;
  AddExp<kKeep>(&sum, x, y, n, max);
  double lost;
  const double s = sum.Total(&lost);
  return Settled(s, lost);
}

template <class T>
void SoftmaxRow(const T* __restrict x, T* __restrict y, int64_t n, bool log) {
  const T max = ExtremeOf<false>(x, n, MinusInf<T>());
  if (log) {
    alignas(64) T terms[kExpBlock];
    SoftmaxApply(x, y, n, max, ExpSum<false>(x, terms, n, max), true);
    return;
  }
  const T scale = static_cast<T>(1 / ExpSum<true>(x, y, n, max));
  for (int64_t i = 0; i < n; ++i) y[i] *= scale;
}

template <class T>
void SoftmaxCols(const T* __restrict x, int64_t xs, T* __restrict y, int64_t ys, int64_t nrows, int64_t ncols,
                 bool log) {
  alignas(64) T max[kSoftmaxCols];
  alignas(64) T factor[kSoftmaxCols];
  alignas(64) double sum[kSoftmaxCols], lost[kSoftmaxCols];
  for (int64_t c = 0; c < ncols; ++c) max[c] = MinusInf<T>(), sum[c] = 0, lost[c] = 0;
  for (int64_t r = 0; r < nrows; ++r) {
    const T* row = x + r * xs;
    for (int64_t c = 0; c < ncols; ++c) max[c] = Better<false>(max[c], row[c]);
  }
  for (int64_t r = 0; r < nrows; ++r) {
    const T* row = x + r * xs;
    T* out = y + r * ys;
    for (int64_t c = 0; c < ncols; ++c) out[c] = Exp(row[c] - max[c]);
    for (int64_t c = 0; c < ncols; ++c) {
      if constexpr (sizeof(T) == 8)
        TwoSum(sum[c], lost[c], out[c]);
      else
        sum[c] += out[c];
    }
  }
  for (int64_t c = 0; c < ncols; ++c) {
    const double total = Settled(sum[c], lost[c]);
    factor[c] = static_cast<T>(log ? Log(total) : 1 / total);
  }
  for (int64_t r = 0; r < nrows; ++r) {
    const T* row = x + r * xs;
    T* out = y + r * ys;
    if (log) {
      for (int64_t c = 0; c < ncols; ++c) out[c] = (row[c] - max[c]) - factor[c];
    } else {
      for (int64_t c = 0; c < ncols; ++c) out[c] *= factor[c];
    }
  }
}

/// Sum of (x - m)^2.
template <class T>
TSR_INLINE double Squares(const T* __restrict x, int64_t n, T m) {
  using V = typename VectorOf<T>::V;
  constexpr int L = LaneSum<T>::kLanes;
  LaneSum<T> sum;
  int64_t i = 0;
  for (; i + LaneSum<T>::kStep <= n; i += LaneSum<T>::kStep) {
    V q[8];
    for (int k = 0; k < 8; ++k) {
      const V d = Load(x + i + k * L) - m;
      q[k] = d * d;
    }
    const V t = ((q[0] + q[1]) + (q[2] + q[3])) + ((q[4] + q[5]) + (q[6] + q[7]));
    sum.Vector(reinterpret_cast<const T*>(&t));
  }
  for (; i + L <= n; i += L) {
    const V d = Load(x + i) - m;
    const V t = d * d;
    sum.Vector(reinterpret_cast<const T*>(&t));
  }
  for (; i < n; ++i) sum.One((x[i] - m) * (x[i] - m));
  double lost;
  const double s = sum.Total(&lost);
  return Settled(s, lost);
}

template <class T>
void NormApply(const T* __restrict x, T* __restrict y, int64_t n, T mean, T scale, const T* __restrict weight,
               const T* __restrict bias) {
  if (weight != nullptr && bias != nullptr) {
    for (int64_t i = 0; i < n; ++i) y[i] = ((x[i] - mean) * scale) * weight[i] + bias[i];
  } else if (weight != nullptr) {
    for (int64_t i = 0; i < n; ++i) y[i] = ((x[i] - mean) * scale) * weight[i];
  } else if (bias != nullptr) {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale + bias[i];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale;
  }
}

template <class T>
void NormRow(const T* x, T* y, int64_t n, double eps, const T* weight, const T* bias, bool rms) {
  T mean = 0;
  if (!rms) {
    double lost;
    const double s = SumOf(x, n, &lost);
    mean = static_cast<T>(Settled(s, lost) / static_cast<double>(n));
  }
  const double var = Squares(x, n, mean) / static_cast<double>(n);
  NormApply(x, y, n, mean, static_cast<T>(1 / __builtin_sqrt(var + eps)), weight, bias);
}

template <class T>
void NormGradRow(const T* __restrict x, const T* __restrict g, T* __restrict dx, int64_t n, double eps,
                 const T* __restrict weight, bool rms, T* __restrict dweight, T* __restrict dbias) {
  const double count = static_cast<double>(n);
  double lost;
  const auto mean_of = [&](const T* v) {
    const double s = SumOf(v, n, &lost);
    return static_cast<T>(Settled(s, lost) / count);
  };
  const T mean = rms ? T(0) : mean_of(x);
  const T scale = static_cast<T>(1 / __builtin_sqrt(Squares(x, n, mean) / count + eps));
  // dx holds first the gradient of the normalised row, then its products with that.
  if (weight != nullptr) {
    for (int64_t i = 0; i < n; ++i) dx[i] = g[i] * weight[i];
  } else {
    for (int64_t i = 0; i < n; ++i) dx[i] = g[i];
  }
  const T less = rms ? T(0) : mean_of(dx);
  for (int64_t i = 0; i < n; ++i) dx[i] *= (x[i] - mean) * scale;
  const T along = mean_of(dx);
  for (int64_t i = 0; i < n; ++i) {
    const T normed = (x[i] - mean) * scale;
    dx[i] = (((weight != nullptr ? g[i] * weight[i] : g[i]) - less) - normed * along) * scale;
    dweight[i] += g[i] * normed;
    dbias[i] += g[i];
  }
}

template <class T>
void Affine(const T* __restrict x, T* __restrict y, int64_t n, T mean, T scale, T shift) {
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale + shift;
}

template <class T>
void AffineEach(const T* __restrict x, T* __restrict y, int64_t n, const T* __restrict mean, const T* __restrict scale,
                const T* __restrict shift) {
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
}

double LogOf(double x) { return Log(x); }

template <class T>
constexpr RowLoopsOf<T> kRows = {SoftmaxRow<T>,  SoftmaxCols<T>, SoftmaxApply<T>, NormRow<T>,
                                 NormGradRow<T>, NormApply<T>,   Affine<T>,       AffineEach<T>};

}  // namespace

const RowLoops kRowLoops = {kRows<float>, kRows<double>, LogOf};

}  // namespace tessera::cpu::TSR_ISA
