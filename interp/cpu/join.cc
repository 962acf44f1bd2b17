// Kernels that place whole operands in their result: copy, concat, stack, pad, update_slice, tril, triu.
#include <algorithm>
#include <cstring>

#include "interp/cpu/convert.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

/// v from index `at` along axis on, `n` elements.
View Part(const View& v, int axis, int64_t at, int64_t n) {
  View part = v;
  part.dims[axis] = n;
  if (part.size() != 0) part.data = v.as<char>() + at * v.strides[axis] * static_cast<int64_t>(SizeOf(v.dtype));
  return part;
}

int Axis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

/// Writes one element everywhere in dst.
void Fill(const View& dst, void* element) {
  View value = dst;
  for (int i = 0; i < dst.rank; ++i) value.strides[i] = 0;
  value.data = element;
  CopyStrided(dst, value);
}

}  // namespace

absl::Status k_copy(const interp::KernelArgs& args) {
  CopyStrided(*args.out[0], *args.in[0]);
  return absl::OkStatus();
}

absl::Status k_concat(const interp::KernelArgs& args) {
  const View& y = *args.out[0];
  const int axis = Axis(args.integer(0), y.rank);
  int64_t at = 0;
  for (const View* x : args.in) {
    CopyStrided(Part(y, axis, at, x->dims[axis]), *x);
    at += x->dims[axis];
  }
  return absl::OkStatus();
}

absl::Status k_stack(const interp::KernelArgs& args) {
  const View& y = *args.out[0];
  const int axis = Axis(args.integer(0), y.rank);
  for (size_t k = 0; k < args.in.size(); ++k) {
    View place = Part(y, axis, static_cast<int64_t>(k), 1);
    for (int i = axis; i + 1 < y.rank; ++i) {
      place.dims[i] = place.dims[i + 1];
      place.strides[i] = place.strides[i + 1];
    }
    --place.rank;
    CopyStrided(place, *args.in[k]);
  }
  return absl::OkStatus();
}

absl::Status k_pad(const interp::KernelArgs& args) {
  const ir::Ints& low = args.ints(0);
  View src = *args.in[0];
  View dst = *args.out[0];
  alignas(8) char value[8] = {};
  FromDouble(args.number(2), value, dst.dtype);
  // Dim by dim, the parts before and after the operand are filled, and what is left for the next dim gets smaller.
  for (int i = 0; i < dst.rank; ++i) {
    const int64_t n = dst.dims[i];
    const int64_t begin = std::clamp<int64_t>(low[i], 0, n);
    const int64_t end = std::clamp<int64_t>(src.dims[i] + low[i], begin, n);
    if (begin > 0) Fill(Part(dst, i, 0, begin), value);
    if (end < n) Fill(Part(dst, i, end, n - end), value);
    dst = Part(dst, i, begin, end - begin);
    src = Part(src, i, begin - low[i], end - begin);
  }
  CopyStrided(dst, src);
  return absl::OkStatus();
}

absl::Status k_update_slice(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &updates = *args.in[1];
  const ir::Ints &starts = args.ints(0), &steps = args.ints(1);
  View dst = *args.out[0];
  // A version may have put the result where x is (tiers/memory_plan.h).
  if (dst.data != x.data) CopyStrided(dst, x);
  if (updates.size() == 0) return absl::OkStatus();
  int64_t offset = 0;
  for (int i = 0; i < dst.rank; ++i) {
    offset += (starts[i] < 0 ? starts[i] + dst.dims[i] : starts[i]) * dst.strides[i];
    // A single element is not stepped from; its step may be of any size.
    if (!steps.empty() && updates.dims[i] > 1) dst.strides[i] *= steps[i];
    dst.dims[i] = updates.dims[i];
  }
  dst.data = dst.as<char>() + offset * static_cast<int64_t>(SizeOf(dst.dtype));
  CopyStrided(dst, updates);
  return absl::OkStatus();
}

namespace {

/// Copies x, then zeroes columns [first(row), last(row)) of each row.
template <class Range>
void ZeroPart(const interp::KernelArgs& args, Range range) {
  const View& y = *args.out[0];
  CopyStrided(y, *args.in[0]);
  if (y.size() == 0) return;
  const int64_t rows = y.dims[y.rank - 2], cols = y.dims[y.rank - 1], size = SizeOf(y.dtype);
  // A diagonal further out than the matrix changes nothing; cut, so that sums with it do not overflow.
  const int64_t k = std::clamp<int64_t>(args.integer(0), -rows, cols);
  const int64_t grain = std::max<int64_t>(1, rt::options().parallel_grain() / cols);
  rt::ParallelFor(y.size() / cols, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const auto [from, to] = range(r % rows + k, cols);
      if (from < to) std::memset(y.as<char>() + (r * cols + from) * size, 0, (to - from) * size);
    }
  });
}

}  // namespace

absl::Status k_tril(const interp::KernelArgs& args) {
  ZeroPart(args, [](int64_t diagonal, int64_t cols) {
    return std::pair<int64_t, int64_t>(std::clamp<int64_t>(diagonal + 1, 0, cols), cols);
  });
  return absl::OkStatus();
}

absl::Status k_triu(const interp::KernelArgs& args) {
  ZeroPart(args, [](int64_t diagonal, int64_t cols) {
    return std::pair<int64_t, int64_t>(0, std::clamp<int64_t>(diagonal, 0, cols));
  });
  return absl::OkStatus();
}

}  // namespace tessera::cpu
