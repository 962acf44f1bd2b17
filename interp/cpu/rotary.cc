// The op rotary: pairs (x1, x2) of each row are turned by position * base^(-2i/D). Angles, sines and cosines are f64.
#include <algorithm>
#include <cmath>
#include <vector>

#include "interp/cpu/convert.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

template <class T>
void Turn(const T* x, T* y, const T* cosines, const T* sines, int64_t half, bool interleaved) {
  if (interleaved) {
    for (int64_t i = 0; i < half; ++i) {
      const T a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] = a * cosines[i] - b * sines[i];
      y[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
    return;
  }
  for (int64_t i = 0; i < half; ++i) {
    const T a = x[i], b = x[half + i];
    y[i] = a * cosines[i] - b * sines[i];
    y[half + i] = b * cosines[i] + a * sines[i];
  }
}

/// Row r of x, whatever its strides, and where it goes. Rows with one position follow each other, so that sines are
/// computed once for all heads that share it.
struct RowOrder {
  int rank = 0;
  int64_t dims[kMaxRank], x[kMaxRank], y[kMaxRank], position[kMaxRank];

  void Add(int64_t dim, int64_t x_stride, int64_t y_stride, int64_t position_stride) {
    dims[rank] = dim;
    x[rank] = x_stride;
    y[rank] = y_stride;
    position[rank++] = position_stride;
  }
  void At(int64_t r, int64_t* x_at, int64_t* y_at, int64_t* position_at) const {
    *x_at = *y_at = *position_at = 0;
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t i = r % dims[d];
      r /= dims[d];
      *x_at += i * x[d];
      *y_at += i * y[d];
      *position_at += i * position[d];
    }
  }
};

template <class T>
void Run(const View& x, const View& positions, const View& y, double base, bool interleaved) {
  const int64_t width = x.dims[x.rank - 1], half = width / 2, x_step = x.strides[x.rank - 1];
  const int64_t size = static_cast<int64_t>(SizeOf(x.dtype));
  constexpr DType kT = sizeof(T) == 4 ? DType::f32 : DType::f64;
  const bool narrow = x.dtype != kT, gather = x_step != 1 || narrow;
  RowOrder order;
  for (const bool varies : {true, false}) {
    for (int d = 0; d < x.rank - 1; ++d) {
      if ((positions.strides[d] != 0) == varies) order.Add(x.dims[d], x.strides[d], y.strides[d], positions.strides[d]);
    }
  }
  std::vector<double> frequency(half);
  for (int64_t i = 0; i < half; ++i) {
    frequency[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  }

  const int64_t rows = width > 0 ? y.size() / width : 0;
  const int64_t grain = std::max<int64_t>(1, rt::options().parallel_grain() / 4 / std::max<int64_t>(1, width));
  rt::ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    std::vector<T> buffer(2 * half + 2 * width);
    std::vector<uint64_t> raw(gather ? width : 0);
    T *cosines = buffer.data(), *sines = cosines + half, *in = sines + half, *out = in + width;
    int64_t known = 0;
    bool any_known = false;
    for (int64_t r = begin; r < end; ++r) {
      int64_t x_at, y_at, position_at;
      order.At(r, &x_at, &y_at, &position_at);
      const int64_t position = positions.as<const int64_t>()[position_at];
      if (!any_known || position != known) {
        known = position;
        any_known = true;
        for (int64_t i = 0; i < half; ++i) {
          const double angle = static_cast<double>(position) * frequency[i];
          cosines[i] = static_cast<T>(std::cos(angle));
          sines[i] = static_cast<T>(std::sin(angle));
        }
      }
      const char* from = x.as<const char>() + x_at * size;
      char* to = y.as<char>() + y_at * size;
      const T* source = reinterpret_cast<const T*>(from);
      if (gather) {
        View row;
        row.dtype = x.dtype;
        row.rank = 1;
        row.dims[0] = width;
        row.strides[0] = x_step;
        row.data = const_cast<char*>(from);
        GatherBlock(row, 0, width, raw.data());
        if (narrow) Convert(in, kT, raw.data(), x.dtype, width);
        source = narrow ? in : reinterpret_cast<const T*>(raw.data());
      }
      Turn(source, narrow ? out : reinterpret_cast<T*>(to), cosines, sines, half, interleaved);
      if (narrow) Convert(to, x.dtype, out, kT, width);
    }
  });
}

}  // namespace

absl::Status k_rotary(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  TensorType outer = x;
  --outer.rank;
  outer.dtype = DType::i64;
  View positions = BroadcastTo(*args.in[1], outer);
  if (y.dtype == DType::f64) {
    Run<double>(x, positions, y, args.number(0), args.flag(1));
  } else {
    Run<float>(x, positions, y, args.number(0), args.flag(1));
  }
  return absl::OkStatus();
}

}  // namespace tessera::cpu
