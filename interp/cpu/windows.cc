#include "interp/cpu/windows.h"

#include <algorithm>

#include "interp/cpu/convert.h"

namespace tessera::cpu {

Windows MakeWindows(const View& x, const View& y, absl::Span<const int64_t> window, const ir::Ints& stride,
                    absl::Span<const int64_t> default_stride, const ir::Ints& padding, const ir::Ints& dilation) {
  Windows w;
  w.batch = x.dims[0];
  w.channels = x.dims[1];
  w.x_batch = x.strides[0];
  w.x_channel = x.strides[1];
  const int n = x.rank - 2;
  for (int i = 0; i < n; ++i) {
    WindowDim& d = w.dim[3 - n + i];
    d.in = x.dims[2 + i];
    d.out = y.dims[2 + i];
    d.window = window[i];
    d.x_stride = x.strides[2 + i];
    d.stride = !stride.empty() ? stride[i] : !default_stride.empty() ? default_stride[i] : 1;
    d.dilation = dilation.empty() ? 1 : dilation[i];
    d.low = padding.empty() ? 0 : static_cast<int>(padding.size()) == n ? padding[i] : padding[2 * i];
  }
  return w;
}

bool PlaneNeedsCopy(const Windows& w, const View& x) {
  return IsNarrowFloat(x.dtype) || (w.dim[2].x_stride != 1 && w.dim[2].in != 1);
}

const void* PlaneOf(const Windows& w, const View& x, int64_t n, int64_t c, void* buffer, int64_t strides[3]) {
  const int64_t size = static_cast<int64_t>(SizeOf(x.dtype));
  const char* plane = x.as<const char>() + (n * w.x_batch + c * w.x_channel) * size;
  if (!PlaneNeedsCopy(w, x)) {
    for (int i = 0; i < 3; ++i) strides[i] = w.dim[i].x_stride;
    strides[2] = 1;
    return plane;
  }
  View v;
  v.dtype = x.dtype;
  v.rank = 3;
  v.data = const_cast<char*>(plane);
  for (int i = 0; i < 3; ++i) {
    v.dims[i] = w.dim[i].in;
    v.strides[i] = w.dim[i].x_stride;
  }
  strides[0] = v.dims[1] * v.dims[2];
  strides[1] = v.dims[2];
  strides[2] = 1;
  const DType compute = ComputeDType(x.dtype);
  if (compute == x.dtype) {
    GatherBlock(v, 0, v.size(), buffer);
    return buffer;
  }
  constexpr int64_t kBlock = 4096;
  uint16_t raw[kBlock];
  for (int64_t i = 0; i < v.size(); i += kBlock) {
    const int64_t count = std::min(kBlock, v.size() - i);
    GatherBlock(v, i, count, raw);
    Convert(static_cast<float*>(buffer) + i, compute, raw, x.dtype, count);
  }
  return buffer;
}

}  // namespace tessera::cpu
