// What attention and its gradient share: matrices of heads as BLAS reads them, and the rows of a mask.
#ifndef TESSERA_INTERP_CPU_ATTENTION_HEADS_H_
#define TESSERA_INTERP_CPU_ATTENTION_HEADS_H_

#include <algorithm>
#include <cmath>

#include "interp/cpu/attention_loops.h"
#include "interp/cpu/convert.h"
#include "interp/cpu/gemm.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {

/// Where matrix number i of a view [..., rows, cols] begins, in elements.
inline int64_t MatrixOffset(const View& v, int64_t i) {
  int64_t offset = 0;
  for (int d = v.rank - 3; d >= 0; --d) {
    offset += i % v.dims[d] * v.strides[d];
    i /= v.dims[d];
  }
  return offset;
}

/// One of q, k, v: matrices of rows x cols that BLAS can read.
template <class T>
struct Matrices {
  const View* view = nullptr;  // where each matrix lies in it, when the elements are of type T
  const T* wide = nullptr;     // otherwise: contiguous matrices, the first of which is number `first`
  int64_t first = 0;
  BlasMatrix form;

  const T* At(int64_t i) const {
    if (wide == nullptr) return view->as<const T>() + MatrixOffset(*view, i);
    return wide + (i - first) * view->dims[view->rank - 2] * view->dims[view->rank - 1];
  }
  const T* RowAt(int64_t i, int64_t row) const { return At(i) + row * (form.transposed ? 1 : form.ld); }
};

/// Elements [first, first + n) of v, in order, as f32.
inline void Widen(const View& v, int64_t first, int64_t n, float* to) {
  constexpr int64_t kBlock = 4096;
  rt::ParallelFor(n, 8 * kBlock, [&](int64_t begin, int64_t end) {
    uint16_t raw[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t count = std::min(kBlock, end - i);
      GatherBlock(v, first + i, count, raw);
      Convert(to + i, DType::f32, raw, v.dtype, count);
    }
  });
}

inline int64_t Rows(const View& v) { return v.dims[v.rank - 2]; }
inline int64_t Cols(const View& v) { return v.dims[v.rank - 1]; }

struct AttentionShape {
  int64_t heads, queries, keys, dim, value_dim, share;  // share: heads of q for each head of k and v
  bool causal;
  double scale;
  int64_t window;  // 0: none, nor where it has room for all keys

  /// Query number i may see the keys from First(i) up to, but without, Seen(i).
  int64_t Seen(int64_t i) const { return causal ? std::clamp<int64_t>(i + 1 + keys - queries, 0, keys) : keys; }
  int64_t First(int64_t i) const { return window > 0 ? std::max<int64_t>(0, Seen(i) - window) : 0; }
};

/// Of q, k and v, the first operands, and the attributes.
inline absl::StatusOr<AttentionShape> AttentionShapeOf(const interp::KernelArgs& args) {
  const View &q = *args.in[0], &k = *args.in[1], &v = *args.in[2];
  AttentionShape s;
  s.heads = q.dims[q.rank - 3];
  s.queries = Rows(q);
  s.keys = Rows(k);
  s.dim = Cols(q);
  s.value_dim = Cols(v);
  s.share = s.heads / std::max<int64_t>(1, k.dims[k.rank - 3]);
  s.causal = args.flag(0);
  s.scale = args.number(1);
  s.window = args.integer(2) < s.keys ? args.integer(2) : 0;
  if (s.scale == 0) s.scale = s.dim > 0 ? 1 / std::sqrt(static_cast<double>(s.dim)) : 1;
  if (std::max({s.queries, s.keys, s.dim, s.value_dim}) >= int64_t{1} << 31) {
    return Unsupported("q ", ToString(q), " with k ", ToString(k), ": dims must be below 2^31");
  }
  return s;
}

/// The mask as seen with dims [..., H, S, T].
struct MaskRows {
  const View* view = nullptr;

  /// Operand number i, if it is given; *wide is what `view` points to.
  static MaskRows Of(const interp::KernelArgs& args, size_t i, const AttentionShape& s, View* wide) {
    if (args.in.size() <= i || args.in[i] == nullptr) return {};
    TensorType full = *args.in[0];
    full.dims[full.rank - 1] = s.keys;
    *wide = BroadcastTo(*args.in[i], full);
    return {wide};
  }

  /// Applies row `query` of matrix i to the scores of n keys from `first` on. `raw` has room for n elements of the
  /// mask, `wide` for n of T.
  template <class T>
  void Apply(const ScoreLoops<T>& loops, int64_t i, int64_t query, int64_t first, int64_t n, T* scores, void* raw,
             T* wide) const {
    const View& m = *view;
    View row;
    row.dtype = m.dtype;
    row.rank = 1;
    row.dims[0] = n;
    row.strides[0] = m.strides[m.rank - 1];
    const int64_t at = MatrixOffset(m, i) + query * m.strides[m.rank - 2] + first * m.strides[m.rank - 1];
    row.data = m.as<char>() + at * static_cast<int64_t>(SizeOf(m.dtype));
    const void* elements = row.data;
    if (row.strides[0] != 1) {
      GatherBlock(row, 0, n, raw);
      elements = raw;
    }
    constexpr DType kT = sizeof(T) == 4 ? DType::f32 : DType::f64;
    if (m.dtype == DType::boolean) {
      loops.mask(scores, static_cast<const uint8_t*>(elements), n);
    } else if (m.dtype == kT) {
      loops.add(scores, static_cast<const T*>(elements), n);
    } else {
      Convert(wide, kT, elements, m.dtype, n);
      loops.add(scores, wide, n);
    }
  }
};

/// Lets BLAS read the matrices of v: as they lie, or from a contiguous copy.
template <class T>
absl::Status Prepare(const View& v, View* dense, Scratch* scratch, Matrices<T>* out) {
  *dense = v;
  out->view = dense;
  const int r = v.rank - 2, c = v.rank - 1;
  if (AsBlasMatrix(v.dims[r], v.dims[c], v.strides[r], v.strides[c], &out->form) && out->form.ld < int64_t{1} << 31) {
    return absl::OkStatus();
  }
  TSR_ASSIGN_OR_RETURN(*dense, MakeContiguous(v, scratch));
  out->form = {false, std::max<int64_t>(1, v.dims[c])};
  return absl::OkStatus();
}

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_ATTENTION_HEADS_H_
