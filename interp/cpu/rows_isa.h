// Softmax and normalisation of contiguous rows and column tiles in f32 and f64, compiled once per instruction set.
#ifndef TESSERA_INTERP_CPU_ROWS_ISA_H_
#define TESSERA_INTERP_CPU_ROWS_ISA_H_

#include <stdint.h>

#include "interp/cpu/isa.h"

namespace tessera::cpu {

/// The most columns that softmax_cols takes at a time.
inline constexpr int64_t kSoftmaxCols = 512;

/// x and y do not overlap. weight, bias and the like may be null where that is said.
template <class T>
struct RowLoopsOf {
  /// log: log_softmax.
  void (*softmax_row)(const T* x, T* y, int64_t n, bool log);
  /// Softmax down each of ncols columns of nrows elements.
  void (*softmax_cols)(const T* x, int64_t x_stride, T* y, int64_t y_stride, int64_t nrows, int64_t ncols, bool log);
  /// y = exp(x - max) * (1 / total), or x - max - log(total).
  void (*softmax_apply)(const T* x, T* y, int64_t n, T max, double total, bool log);
  /// bias and weight may be null. rms: the mean is not subtracted.
  void (*norm_row)(const T* x, T* y, int64_t n, double eps, const T* weight, const T* bias, bool rms);
  /// dx of the row's norm, where g is the gradient of its result; those of weight and bias are added to dweight and
  /// dbias. weight may be null.
  void (*norm_grad_row)(const T* x, const T* g, T* dx, int64_t n, double eps, const T* weight, bool rms, T* dweight,
                        T* dbias);
  /// y = (x - mean) * scale * weight + bias, with one mean and scale; weight and bias may be null.
  void (*norm_apply)(const T* x, T* y, int64_t n, T mean, T scale, const T* weight, const T* bias);
  /// y = (x - mean) * scale + shift with one of each.
  void (*affine)(const T* x, T* y, int64_t n, T mean, T scale, T shift);
  /// The same with one for each element.
  void (*affine_each)(const T* x, T* y, int64_t n, const T* mean, const T* scale, const T* shift);
};

struct RowLoops {
  RowLoopsOf<float> f32;
  RowLoopsOf<double> f64;
  double (*log)(double x);
};
TSR_DECLARE_ISA(RowLoops, kRowLoops);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_ROWS_ISA_H_
