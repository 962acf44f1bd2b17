// How linear_cross_entropy goes over its rows: some of them at a time, so that their logits fit a budget of memory.
#ifndef TESSERA_INTERP_ROW_CHUNKS_H_
#define TESSERA_INTERP_ROW_CHUNKS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "runtime/tensor.h"

namespace tessera::interp {

/// Bytes that the logits of a chunk may have, however few its rows are then; 0: what the device's kernel says. Tests
/// have chunks of few rows by it.
inline constinit std::atomic<int64_t> logits_budget{0};

/// What is best on a device.
struct ChunkLimits {
  int64_t bytes;     // of logits, if that is
  int64_t least;     // rows, which a product needs to be fast
  int64_t multiple;  // of rows, likewise
};

/// Rows of a chunk; the last one may have fewer. Chunks are as even as may be: products of one size are chosen once.
inline int64_t RowsOfChunk(int64_t rows, int64_t row_bytes, ChunkLimits limits) {
  if (const int64_t bytes = logits_budget.load(std::memory_order_relaxed); bytes > 0) limits = {bytes, 1, 1};
  const int64_t most = std::max(limits.least, limits.bytes / std::max<int64_t>(1, row_bytes));
  if (rows <= most) return std::max<int64_t>(1, rows);
  const int64_t chunks = (rows + most - 1) / most;
  for (int64_t n = chunks; n < 2 * chunks; ++n)
    if (rows % (n * limits.multiple) == 0) return rows / n;
  const int64_t even = (rows + chunks - 1) / chunks;
  return std::min(most, (even + limits.multiple - 1) / limits.multiple * limits.multiple);
}

/// *out: v with all dims but the last `kept` as one. False: no stride walks those in order.
inline bool FlattenRows(const View& v, int kept, View* out) {
  View flat = v;
  flat.rank = static_cast<uint8_t>(kept + 1);
  int64_t rows = 1, stride = 1;
  bool first = true;
  for (int d = v.rank - kept - 1; d >= 0; --d) {
    const int64_t dim = v.dims[d];
    if (dim == 1) continue;
    if (first)
      stride = v.strides[d];
    else if (v.strides[d] != stride * rows && v.size() != 0)
      return false;
    first = false;
    rows *= dim;
  }
  flat.dims[0] = rows;
  flat.strides[0] = stride;
  for (int i = 0; i < kept; ++i) {
    flat.dims[i + 1] = v.dims[v.rank - kept + i];
    flat.strides[i + 1] = v.strides[v.rank - kept + i];
  }
  *out = flat;
  return true;
}

/// Rows [first, first + n) of a flat view.
inline View RowsAt(const View& v, int64_t first, int64_t n) {
  View part = v;
  part.data = v.as<char>() + first * v.strides[0] * static_cast<int64_t>(SizeOf(v.dtype));
  part.dims[0] = n;
  return part;
}

/// A matrix turned.
inline View Turned(const View& v) {
  View t = v;
  std::swap(t.dims[0], t.dims[1]);
  std::swap(t.strides[0], t.strides[1]);
  return t;
}

/// Rows of `cols` elements that follow each other at `data`.
inline View DenseRows(void* data, DType dtype, int64_t rows, int64_t cols) {
  View v;
  v.data = data;
  v.dtype = dtype;
  v.rank = 2;
  v.dims[0] = rows;
  v.dims[1] = cols;
  v.SetContiguousStrides();
  return v;
}

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_ROW_CHUNKS_H_
