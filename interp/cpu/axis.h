// A tensor seen from one of its axes: [outer, extent, inner].
#ifndef TESSERA_INTERP_CPU_AXIS_H_
#define TESSERA_INTERP_CPU_AXIS_H_

#include <cstdint>

#include "ir/op.h"
#include "runtime/status.h"
#include "runtime/tensor.h"

namespace tessera::cpu {

struct AxisSplit {
  int axis = 0;
  int64_t outer = 1, extent = 1, inner = 1;
};

inline absl::StatusOr<AxisSplit> SplitAtAxis(const TensorType& x, int64_t axis) {
  AxisSplit s;
  TSR_ASSIGN_OR_RETURN(s.axis, ir::CanonicalAxis(axis, x.rank));
  for (int d = 0; d < x.rank; ++d) (d < s.axis ? s.outer : d > s.axis ? s.inner : s.extent) *= x.dims[d];
  return s;
}

/// The offset of the row-major index over the dims before `axis`.
inline int64_t OuterOffset(const View& x, int axis, int64_t index) {
  int64_t offset = 0;
  for (int d = axis - 1; d >= 0; --d) {
    offset += index % x.dims[d] * x.strides[d];
    index /= x.dims[d];
  }
  return offset;
}

/// Whether the dims from `first` on are one contiguous stretch.
inline bool ContiguousFrom(const View& x, int first) {
  int64_t want = 1;
  for (int d = x.rank - 1; d >= first; --d) {
    if (x.dims[d] != 1 && x.strides[d] != want) return false;
    want *= x.dims[d];
  }
  return true;
}
inline bool InnerContiguous(const View& x, int axis) { return ContiguousFrom(x, axis + 1); }

/// x with `axis` moved to the end.
inline View AxisLast(const View& x, int axis) {
  View v = x;
  int n = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (d == axis) continue;
    v.dims[n] = x.dims[d];
    v.strides[n++] = x.strides[d];
  }
  v.dims[n] = x.dims[axis];
  v.strides[n] = x.strides[axis];
  return v;
}

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_AXIS_H_
