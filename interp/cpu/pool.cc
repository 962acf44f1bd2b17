// The ops max_pool and avg_pool: plane by plane, each output row gathers its taps row-wise.
#include <algorithm>
#include <limits>

#include "interp/cpu/convert.h"
#include "interp/cpu/gemm.h"
#include "interp/cpu/windows.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

/// Runs row(y, ...) loops over all planes. `combine(y, x, step, n)` adds one tap to a row of T; `finish(y, oz, oy)`
/// completes a row.
template <class T, class Combine, class Finish>
absl::Status Pool(const View& x, const View& y, const Windows& w, T start, Combine combine, Finish finish) {
  const int64_t out = w.positions(), row_length = w.dim[2].out;
  if (out == 0) return absl::OkStatus();
  const DType compute = ComputeDType(x.dtype);
  const bool narrow = compute != x.dtype, copy = PlaneNeedsCopy(w, x);
  const int64_t work = std::max<int64_t>(1, out * w.taps());
  const int64_t grain = std::max<int64_t>(1, rt::options().parallel_grain() / work);
  FirstError error;
  rt::ParallelFor(w.batch * w.channels, grain, [&](int64_t begin, int64_t end) {
    const int64_t plane = copy ? w.plane() : 0, row_room = narrow ? row_length : 0;
    auto scratch = Scratch::Make(sizeof(T) * static_cast<size_t>(plane + row_room));
    if (!scratch.ok()) return error.Add(scratch.status());
    T* row_buffer = scratch->template as<T>() + plane;
    for (int64_t p = begin; p < end; ++p) {
      int64_t strides[3];
      const T* from = static_cast<const T*>(PlaneOf(w, x, p / w.channels, p % w.channels, scratch->data(), strides));
      char* to = y.as<char>() + p * out * static_cast<int64_t>(SizeOf(y.dtype));
      const auto row_at = [&](int64_t row) {
        return narrow ? row_buffer : reinterpret_cast<T*>(to) + row * row_length;
      };
      std::fill_n(row_at(0), row_length, start);
      SlideWindows(
          w, strides,
          [&](int64_t row, int64_t, int64_t first, int64_t last, int64_t source, int64_t step) {
            combine(row_at(row) + first, from + source, step, last - first);
          },
          [&](int64_t row, int64_t oz, int64_t oy) {
            finish(row_at(row), oz, oy);
            if (narrow) {
              Convert(to + row * row_length * static_cast<int64_t>(SizeOf(y.dtype)), y.dtype, row_buffer, compute,
                      row_length);
            }
            if ((row + 1) * row_length < out) std::fill_n(row_at(row + 1), row_length, start);
          });
    }
  });
  return error.Take();
}

const WindowLoops& Loops() {
  static const WindowLoops& loops = TSR_SELECT_ISA(kWindowLoops);
  return loops;
}

/// Taps of output position o that read elements and not padding.
int64_t Count(const WindowDim& d, int64_t o) {
  int64_t count = 0;
  for (int64_t w = 0; w < d.window; ++w) {
    const int64_t i = d.Position(o, w);
    count += i >= 0 && i < d.in;
  }
  return count;
}

template <class T>
absl::Status AvgPool(const View& x, const View& y, const Windows& w, const RowLoops<T>& loops, bool count_padding) {
  absl::InlinedVector<int64_t, 64> counts;
  for (int64_t o = 0; o < w.dim[2].out; ++o) counts.push_back(Count(w.dim[2], o));
  return Pool<T>(x, y, w, T(0), loops.add, [&](T* row, int64_t oz, int64_t oy) {
    const int64_t outer = count_padding ? 0 : Count(w.dim[0], oz) * Count(w.dim[1], oy);
    for (int64_t i = 0; i < w.dim[2].out; ++i) row[i] /= static_cast<T>(count_padding ? w.taps() : outer * counts[i]);
  });
}

template <class T>
absl::Status MaxPool(const View& x, const View& y, const Windows& w, void (*max)(T*, const T*, int64_t, int64_t)) {
  T lowest = std::numeric_limits<T>::lowest();
  if constexpr (std::numeric_limits<T>::has_infinity) lowest = -std::numeric_limits<T>::infinity();
  return Pool<T>(x, y, w, lowest, max, [](T*, int64_t, int64_t) {});
}

Windows WindowsOf(const interp::KernelArgs& args) {
  const ir::Ints& window = args.ints(0);
  return MakeWindows(*args.in[0], *args.out[0], window, args.ints(1), window, args.ints(2), args.ints(3));
}

}  // namespace

absl::Status k_max_pool(const interp::KernelArgs& args) {
  const Windows w = WindowsOf(args);
  const View &x = *args.in[0], &y = *args.out[0];
  const WindowLoops& loops = Loops();
  switch (ComputeDType(x.dtype)) {
    case DType::f32: return MaxPool<float>(x, y, w, loops.f32.max);
    case DType::f64: return MaxPool<double>(x, y, w, loops.f64.max);
    case DType::i64: return MaxPool<int64_t>(x, y, w, loops.max_i64);
    case DType::i32: return MaxPool<int32_t>(x, y, w, loops.max_i32);
    case DType::i8: return MaxPool<int8_t>(x, y, w, loops.max_i8);
    case DType::u8: return MaxPool<uint8_t>(x, y, w, loops.max_u8);
    default: return Unsupported("is not defined for bool; cast to u8");
  }
}

absl::Status k_avg_pool(const interp::KernelArgs& args) {
  const Windows w = WindowsOf(args);
  const View &x = *args.in[0], &y = *args.out[0];
  if (ComputeDType(x.dtype) == DType::f64) return AvgPool<double>(x, y, w, Loops().f64, args.flag(4));
  return AvgPool<float>(x, y, w, Loops().f32, args.flag(4));
}

}  // namespace tessera::cpu
