// What x[start:stop:step] means on one axis, as in Python: negative positions count from the end, and positions out of
// range are cut. One place, so that the shape rule and the view agree.
#ifndef TESSERA_IR_SLICE_H_
#define TESSERA_IR_SLICE_H_

#include <cstdint>
#include <limits>

#include "ir/symbols.h"

namespace tessera::ir {

/// Python's None for a stop with a positive step, or a start with a negative one: the end of the axis.
inline constexpr int64_t kSliceEnd = std::numeric_limits<int64_t>::max();
/// Python's None for a stop with a negative step: down to and including index 0. (-1 would mean the last element.)
inline constexpr int64_t kSliceThroughFirst = kSymbolBase / 2 + 1;

struct SliceRange {
  int64_t first = 0;  // index of the first element; 0 when there is none
  int64_t count = 0;
};

/// dim >= 0, step != 0. Any values of start and stop.
inline SliceRange ResolveSlice(int64_t dim, int64_t start, int64_t stop, int64_t step) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
  const auto clip = [&](int64_t at) {
    if (at < 0) return at < low - dim ? low : at + dim < low ? low : at + dim;
    return at > high ? high : at;
  };
  const int64_t a = clip(start), b = clip(stop);
  if (step > 0 ? a >= b : a <= b) return {};
  // A step beyond the axis leaves one element; its magnitude may not be representable.
  const int64_t span = step > 0 ? b - a : a - b;
  if (step > 0 ? step >= span : step <= -span) return {a, 1};
  return {a, (span - 1) / (step > 0 ? step : -step) + 1};
}

}  // namespace tessera::ir

#endif  // TESSERA_IR_SLICE_H_
