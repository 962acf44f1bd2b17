#include "interp/views.h"

#include "ir/slice.h"

namespace tessera::interp {
namespace {

void Advance(View* v, int64_t elements) { v->data = v->as<char>() + elements * static_cast<int64_t>(SizeOf(v->dtype)); }

void KeepStrides(const View& x, View* y) {
  for (int i = 0; i < x.rank; ++i) y->strides[i] = x.strides[i];
  y->data = x.data;
}

int Axis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// Walks both lists of dims from the right, in the smallest groups of equal product. Each group of x's dims must be one
// run of equally spaced elements; y's dims of the group then divide that run.
bool ReshapeStrides(const View& x, View* y) {
  int yi = y->rank - 1;
  int xi = x.rank - 1;
  while (xi >= 0) {
    if (x.dims[xi] == 1) {
      --xi;
      continue;
    }
    const int64_t step = x.strides[xi];
    int64_t run = x.dims[xi--];
    int64_t covered = 1;
    for (;;) {
      if (covered < run) {
        y->strides[yi] = step * covered;
        covered *= y->dims[yi--];
      } else if (covered > run) {
        while (x.dims[xi] == 1) --xi;
        if (x.strides[xi] != step * run) return false;
        run *= x.dims[xi--];
      } else {
        break;
      }
    }
  }
  for (; yi >= 0; --yi) y->strides[yi] = yi + 1 < y->rank ? y->strides[yi + 1] * y->dims[yi + 1] : 1;
  return true;
}

bool Reshape(const View& x, View* y) {
  y->data = x.data;
  if (x.IsContiguous() || x.size() == 0) {
    y->SetContiguousStrides();
    return true;
  }
  return ReshapeStrides(x, y);
}

void Transpose(const View& x, const ir::Ints& perm, View* y) {
  y->data = x.data;
  for (int i = 0; i < x.rank; ++i) {
    const int from = perm.empty() ? x.rank - 1 - i : Axis(perm[i], x.rank);
    y->strides[i] = x.strides[from];
  }
}

void Broadcast(const View& x, View* y) {
  y->data = x.data;
  const int missing = y->rank - x.rank;
  for (int i = 0; i < y->rank; ++i) {
    const int from = i - missing;
    y->strides[i] = from < 0 || (x.dims[from] == 1 && y->dims[i] != 1) ? 0 : x.strides[from];
  }
}

void Squeeze(const View& x, const ir::Ints& axes, View* y) {
  uint32_t mask = axes.empty() ? ~0u : 0;
  for (int64_t axis : axes) mask |= 1u << Axis(axis, x.rank);
  y->data = x.data;
  for (int i = 0, to = 0; i < x.rank; ++i)
    if (!(mask & (1u << i)) || x.dims[i] != 1) y->strides[to++] = x.strides[i];
}

void Unsqueeze(const View& x, const ir::Ints& axes, View* y) {
  uint32_t mask = 0;
  for (int64_t axis : axes) mask |= 1u << Axis(axis, y->rank);
  y->data = x.data;
  int from = x.rank - 1;
  for (int i = y->rank - 1; i >= 0; --i) {
    if (mask & (1u << i)) {
      y->strides[i] = i + 1 < y->rank ? y->strides[i + 1] * y->dims[i + 1] : 1;
    } else {
      y->strides[i] = x.strides[from--];
    }
  }
}

void Slice(const KernelArgs& args, const View& x, View* y) {
  const ir::Ints &starts = args.ints(0), &stops = args.ints(1), &steps = args.ints(2), &axes = args.ints(3);
  KeepStrides(x, y);
  int64_t offset = 0;
  for (size_t k = 0; k < starts.size(); ++k) {
    const int axis = axes.empty() ? static_cast<int>(k) : Axis(axes[k], x.rank);
    const int64_t step = steps.empty() ? 1 : steps[k];
    const ir::SliceRange range = ir::ResolveSlice(x.dims[axis], starts[k], stops[k], step);
    offset += range.first * x.strides[axis];
    // With one element the step may be of any size; its product with the stride must not overflow.
    if (range.count > 1) y->strides[axis] = x.strides[axis] * step;
  }
  if (y->size() != 0) Advance(y, offset);
}

void Split(const KernelArgs& args, const View& x) {
  const int axis = Axis(args.integer(1), x.rank);
  int64_t at = 0;
  for (View* y : args.out) {
    KeepStrides(x, y);
    if (y->size() != 0) Advance(y, at * x.strides[axis]);
    at += y->dims[axis];
  }
}

void Flip(const View& x, const ir::Ints& axes, View* y) {
  uint32_t mask = axes.empty() ? ~0u : 0;
  for (int64_t axis : axes) mask |= 1u << Axis(axis, x.rank);
  KeepStrides(x, y);
  int64_t offset = 0;
  for (int i = 0; i < x.rank; ++i) {
    if (!(mask & (1u << i))) continue;
    offset += (x.dims[i] - 1) * x.strides[i];
    y->strides[i] = -x.strides[i];
  }
  if (y->size() != 0) Advance(y, offset);
}

}  // namespace

bool MakeViews(const KernelArgs& args) {
  const View& x = *args.in[0];
  View* y = args.out.empty() ? nullptr : args.out[0];
  switch (args.op.op) {
    case ir::Op::k_reshape: return Reshape(x, y);
    case ir::Op::k_transpose: Transpose(x, args.ints(0), y); return true;
    case ir::Op::k_broadcast: Broadcast(x, y); return true;
    case ir::Op::k_squeeze: Squeeze(x, args.ints(0), y); return true;
    case ir::Op::k_unsqueeze: Unsqueeze(x, args.ints(0), y); return true;
    case ir::Op::k_slice: Slice(args, x, y); return true;
    case ir::Op::k_split: Split(args, x); return true;
    case ir::Op::k_flip: Flip(x, args.ints(0), y); return true;
    default: return false;
  }
}

}  // namespace tessera::interp
