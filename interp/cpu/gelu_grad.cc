// The op gelu_tanh_grad. gelu_tanh is x s(v) with the logistic function s and v = c1 x + c3 x^3; its slope is
// s (1 + x (1 - s) v').
#include <algorithm>
#include <cmath>

#include "interp/cpu/attention_loops.h"
#include "interp/cpu/convert.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kBlock = 1024;

template <class T>
void Run(const View& x, const View& g, const View& y, const ScoreLoops<T>& loops) {
  constexpr DType kT = sizeof(T) == 4 ? DType::f32 : DType::f64;
  const T c1 = static_cast<T>(2 * std::sqrt(2 / 3.14159265358979323846)), c3 = c1 * static_cast<T>(0.044715);
  const auto size = static_cast<int64_t>(SizeOf(y.dtype));
  rt::ParallelFor(y.size(), rt::options().parallel_grain(), [&](int64_t begin, int64_t end) {
    uint64_t raw[kBlock];
    T xs[kBlock], gs[kBlock], e[kBlock];
    const auto load = [&](const View& v, int64_t i, int64_t n, T* to) {
      GatherBlock(v, i, n, raw);
      Convert(to, kT, raw, v.dtype, n);
    };
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      load(x, i, n, xs);
      load(g, i, n, gs);
      // Beyond, the slope is 0 or 1 in every dtype; NaN stays.
      for (int64_t k = 0; k < n; ++k) {
        xs[k] = xs[k] > T(25) ? T(25) : xs[k] < T(-25) ? T(-25) : xs[k];
        e[k] = -std::abs(xs[k] * (c1 + c3 * (xs[k] * xs[k])));
      }
      loops.exp(e, n, T(0));
      for (int64_t k = 0; k < n; ++k) {
        // s and 1 - s, neither of them by a difference.
        const T near = T(1) / (T(1) + e[k]), far = e[k] * near;
        const T s = xs[k] < T(0) ? far : near, rest = xs[k] < T(0) ? near : far;
        const T steep = c1 + T(3) * c3 * (xs[k] * xs[k]);
        e[k] = gs[k] * (s * (T(1) + xs[k] * rest * steep));
      }
      Convert(y.as<char>() + i * size, y.dtype, e, kT, n);
    }
  });
}

}  // namespace

absl::Status k_gelu_tanh_grad(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &g = *args.in[1], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  static const AttentionLoops& loops = TSR_SELECT_ISA(kAttentionLoops);
  if (y.dtype == DType::f64)
    Run<double>(x, g, y, loops.f64);
  else
    Run<float>(x, g, y, loops.f32);
  return absl::OkStatus();
}

}  // namespace tessera::cpu
