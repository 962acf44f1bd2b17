// What conv and the pools share: how a window slides over the spatial dims of [N,C,spatial...].
#ifndef TESSERA_INTERP_CPU_WINDOWS_H_
#define TESSERA_INTERP_CPU_WINDOWS_H_

#include <cstdint>

#include "interp/cpu/strided.h"
#include "interp/cpu/window_loops.h"
#include "ir/op.h"
#include "runtime/tensor.h"

namespace tessera::cpu {

/// One spatial dim. Tap w of the window at output position o reads input position o * stride + w * dilation - low.
struct WindowDim {
  int64_t in = 1, out = 1, window = 1, stride = 1, dilation = 1, low = 0;
  int64_t x_stride = 0;  // of the input, in elements

  /// The output positions [*first, *last) at which tap w reads an element rather than padding.
  void Valid(int64_t w, int64_t* first, int64_t* last) const {
    const int64_t shift = w * dilation - low;  // o * stride + shift is in [0, in)
    *first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    *last = in <= shift ? 0 : (in - shift + stride - 1) / stride;
    if (*last > out) *last = out;
    if (*first > *last) *first = *last;
  }
  int64_t Position(int64_t o, int64_t w) const { return o * stride + w * dilation - low; }
};

/// Always three spatial dims: 1-d and 2-d get leading ones of size 1.
struct Windows {
  int64_t batch = 0, channels = 0;
  int64_t x_batch = 0, x_channel = 0;  // strides
  WindowDim dim[3];

  int64_t positions() const { return dim[0].out * dim[1].out * dim[2].out; }
  int64_t taps() const { return dim[0].window * dim[1].window * dim[2].window; }
  int64_t plane() const { return dim[0].in * dim[1].in * dim[2].in; }
};

/// The attributes as the shape rule has checked them; an empty stride means `default_stride` (empty: 1).
Windows MakeWindows(const View& x, const View& y, absl::Span<const int64_t> window, const ir::Ints& stride,
                    absl::Span<const int64_t> default_stride, const ir::Ints& padding, const ir::Ints& dilation);

/// Plane (n, c) of x as elements of the compute dtype with adjacent last dim: x itself where it is like that, else a
/// copy in `buffer`, which has room for plane() elements. strides[3] are those of the result.
const void* PlaneOf(const Windows& w, const View& x, int64_t n, int64_t c, void* buffer, int64_t strides[3]);
/// Whether PlaneOf needs its buffer.
bool PlaneNeedsCopy(const Windows& w, const View& x);

/// Calls tap(row, w, first, last, source, step) for every tap that reads elements, output row by output row: `row`
/// numbers the output row, `w` the tap; outputs [first, last) of the row read source, source + step, ...
/// done(row) follows the last tap of a row. `strides` are those of the plane.
template <class Tap, class Done>
void SlideWindows(const Windows& w, const int64_t strides[3], Tap tap, Done done) {
  const WindowDim &dz = w.dim[0], &dy = w.dim[1], &dx = w.dim[2];
  for (int64_t oz = 0; oz < dz.out; ++oz) {
    for (int64_t oy = 0; oy < dy.out; ++oy) {
      const int64_t row = oz * dy.out + oy;
      for (int64_t wz = 0; wz < dz.window; ++wz) {
        const int64_t z = dz.Position(oz, wz);
        if (z < 0 || z >= dz.in) continue;
        for (int64_t wy = 0; wy < dy.window; ++wy) {
          const int64_t y = dy.Position(oy, wy);
          if (y < 0 || y >= dy.in) continue;
          for (int64_t wx = 0; wx < dx.window; ++wx) {
            int64_t first, last;
            dx.Valid(wx, &first, &last);
            if (first >= last) continue;
            tap(row, (wz * dy.window + wy) * dx.window + wx, first, last,
                z * strides[0] + y * strides[1] + dx.Position(first, wx) * strides[2], dx.stride * strides[2]);
          }
        }
      }
      done(row, oz, oy);
    }
  }
}

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_WINDOWS_H_
