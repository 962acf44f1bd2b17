// The op attention. For each head, blocks of query rows: scores by one product into scratch, masks and softmax there,
// then one product with the values. Scratch is a block times the number of keys for each thread, never S times T.
//
// A query all of whose keys are masked gives zeros. Whether a value that is not finite shows through a masked key of
// weight 0 is left open (0 * inf is NaN): causally masked keys are skipped by blocks.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "interp/cpu/attention_loops.h"
#include "interp/cpu/convert.h"
#include "interp/cpu/gemm.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

// Elements of q, k and v that are held as f32 at a time when they are of a narrow type.
constexpr int64_t kWideElements = int64_t{8} << 20;
// Multiply-adds worth handing to another thread.
constexpr int64_t kMinTask = 256 * 1024;

/// Where matrix number i of a view [..., rows, cols] begins, in elements.
int64_t MatrixOffset(const View& v, int64_t i) {
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
};

int64_t Rows(const View& v) { return v.dims[v.rank - 2]; }
int64_t Cols(const View& v) { return v.dims[v.rank - 1]; }

/// Elements [first, first + n) of v, in order, as f32.
void Widen(const View& v, int64_t first, int64_t n, float* to) {
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

/// The mask as seen with dims [..., H, S, T].
struct MaskRows {
  const View* view = nullptr;

  /// Applies row `query` of matrix i to n scores. `raw` has room for n elements of the mask, `wide` for n of T.
  template <class T>
  void Apply(const ScoreLoops<T>& loops, int64_t i, int64_t query, int64_t n, T* scores, void* raw, T* wide) const {
    const View& m = *view;
    View row;
    row.dtype = m.dtype;
    row.rank = 1;
    row.dims[0] = n;
    row.strides[0] = m.strides[m.rank - 1];
    row.data =
        m.as<char>() + (MatrixOffset(m, i) + query * m.strides[m.rank - 2]) * static_cast<int64_t>(SizeOf(m.dtype));
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

struct Shape {
  int64_t heads, queries, keys, dim, value_dim, share;  // share: heads of q for each head of k and v
  bool causal;
  double scale;
};

template <class T>
class Runner {
 public:
  Runner(const rt::Blas& blas, const Shape& s, const ScoreLoops<T>& loops, MaskRows mask)
      : blas_(blas), s_(s), loops_(loops), mask_(mask) {
    // About 1 MiB of scores, so that they stay in a core's cache between the two products.
    const int64_t row_bytes = static_cast<int64_t>(sizeof(T)) * std::max<int64_t>(1, s.keys);
    block_ = std::clamp<int64_t>((int64_t{1} << 20) / row_bytes / 16 * 16, 16, 64);
    block_ = std::min(block_, std::max<int64_t>(1, s.queries));
  }

  Matrices<T> q, k, v;

  /// Heads [first, first + count), numbered over all batch dims; out points to the result of head `first`.
  absl::Status Heads(int64_t first, int64_t count, T* out) const {
    const int64_t blocks = (s_.queries + block_ - 1) / block_;
    const int64_t work = std::max<int64_t>(1, block_ * s_.keys * (s_.dim + s_.value_dim));
    FirstError error;
    ParallelBlas(blas_, count * blocks, std::max<int64_t>(1, kMinTask / work), [&](int64_t begin, int64_t end) {
      auto scratch = Scratch::Make(sizeof(T) * static_cast<size_t>((block_ + 1) * s_.keys + block_) +
                                   sizeof(int64_t) * static_cast<size_t>(s_.keys));
      if (!scratch.ok()) return error.Add(scratch.status());
      for (int64_t i = begin; i < end; ++i) {
        const int64_t head = i / blocks;
        // Later blocks see more keys under a causal mask: the longest go first, so that threads end together.
        const int64_t query = (blocks - 1 - i % blocks) * block_;
        Block(first + head, query, std::min(block_, s_.queries - query), scratch->data(),
              out + (head * s_.queries + query) * s_.value_dim);
      }
    });
    return error.Take();
  }

 private:
  /// Keys that query number i may see.
  int64_t Seen(int64_t i) const {
    return s_.causal ? std::clamp<int64_t>(i + 1 + s_.keys - s_.queries, 0, s_.keys) : s_.keys;
  }

  void Block(int64_t head, int64_t query, int64_t rows, void* scratch, T* out) const {
    const int64_t keys = Seen(query + rows - 1);
    // What a mask row is gathered into comes first: its elements have up to 8 bytes.
    void* raw = scratch;
    T* scores = reinterpret_cast<T*>(static_cast<int64_t*>(scratch) + s_.keys);
    T* wide = scores + block_ * s_.keys;
    T* sums = wide + s_.keys;
    if (keys == 0 || s_.value_dim == 0) {
      std::fill_n(out, rows * s_.value_dim, T(0));
      return;
    }
    const int64_t kv = head / s_.share;
    if (s_.dim == 0) {
      std::fill_n(scores, rows * keys, T(0));
    } else {
      const T* from = q.At(head) + query * (q.form.transposed ? 1 : q.form.ld);
      const BlasMatrix k_transposed = {!k.form.transposed, k.form.ld};
      BlasGemm(blas_, rows, keys, s_.dim, static_cast<T>(s_.scale), from, q.form, k.At(kv), k_transposed, T(0), scores,
               keys);
    }
    for (int64_t r = 0; r < rows; ++r) {
      T* row = scores + r * keys;
      const int64_t seen = Seen(query + r);
      if (mask_.view != nullptr && seen > 0) mask_.Apply<T>(loops_, head, query + r, seen, row, raw, wide);
      const T max = loops_.max(row, seen);
      if (max == -std::numeric_limits<T>::infinity()) {
        std::fill_n(row, keys, T(0));
        sums[r] = T(0);
        continue;
      }
      sums[r] = loops_.exp(row, seen, max);
      std::fill(row + seen, row + keys, T(0));
    }
    BlasGemm(blas_, rows, s_.value_dim, keys, T(1), scores, {false, keys}, v.At(kv), v.form, T(0), out, s_.value_dim);
    for (int64_t r = 0; r < rows; ++r) {
      T* row = out + r * s_.value_dim;
      if (sums[r] == T(0)) {
        std::fill_n(row, s_.value_dim, T(0));
      } else {
        loops_.scale(row, row, T(1) / sums[r], s_.value_dim);
      }
    }
  }

  const rt::Blas& blas_;
  const Shape& s_;
  const ScoreLoops<T>& loops_;
  MaskRows mask_;
  int64_t block_;
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

template <class T>
absl::Status Full(const rt::Blas& blas, const Shape& s, const ScoreLoops<T>& loops, MaskRows mask,
                  const interp::KernelArgs& args, int64_t heads) {
  Runner<T> run(blas, s, loops, mask);
  View q, k, v;
  Scratch sq, sk, sv;
  TSR_RETURN_IF_ERROR(Prepare(*args.in[0], &q, &sq, &run.q));
  TSR_RETURN_IF_ERROR(Prepare(*args.in[1], &k, &sk, &run.k));
  TSR_RETURN_IF_ERROR(Prepare(*args.in[2], &v, &sv, &run.v));
  return run.Heads(0, heads, args.out[0]->as<T>());
}

/// Narrow types: some heads of k and v at a time, with the heads of q that use them, become f32.
absl::Status Narrow(const rt::Blas& blas, const Shape& s, const ScoreLoops<float>& loops, MaskRows mask,
                    const interp::KernelArgs& args, int64_t heads) {
  const View &q = *args.in[0], &k = *args.in[1], &v = *args.in[2], &y = *args.out[0];
  const int64_t q_size = s.queries * s.dim, k_size = s.keys * s.dim, v_size = s.keys * s.value_dim;
  const int64_t y_size = s.queries * s.value_dim, kv_heads = heads / s.share;
  const int64_t each = k_size + v_size + s.share * (q_size + y_size);
  const int64_t step = std::clamp<int64_t>(kWideElements / std::max<int64_t>(1, each), 1, kv_heads);
  TSR_ASSIGN_OR_RETURN(Scratch scratch, Scratch::Make(sizeof(float) * static_cast<size_t>(step * each)));
  float* wq = scratch.as<float>();
  float* wk = wq + step * s.share * q_size;
  float* wv = wk + step * k_size;
  float* wy = wv + step * v_size;
  Runner<float> run(blas, s, loops, mask);
  run.q = {&q, wq, 0, {false, std::max<int64_t>(1, s.dim)}};
  run.k = {&k, wk, 0, {false, std::max<int64_t>(1, s.dim)}};
  run.v = {&v, wv, 0, {false, std::max<int64_t>(1, s.value_dim)}};
  for (int64_t first = 0; first < kv_heads; first += step) {
    const int64_t count = std::min(step, kv_heads - first);
    Widen(q, first * s.share * q_size, count * s.share * q_size, wq);
    Widen(k, first * k_size, count * k_size, wk);
    Widen(v, first * v_size, count * v_size, wv);
    run.q.first = first * s.share;
    run.k.first = run.v.first = first;
    TSR_RETURN_IF_ERROR(run.Heads(first * s.share, count * s.share, wy));
    char* to = y.as<char>() + first * s.share * y_size * static_cast<int64_t>(SizeOf(y.dtype));
    rt::ParallelFor(count * s.share * y_size, 32 * 1024, [&](int64_t begin, int64_t end) {
      Convert(to + begin * static_cast<int64_t>(SizeOf(y.dtype)), y.dtype, wy + begin, DType::f32, end - begin);
    });
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status k_attention(const interp::KernelArgs& args) {
  const View &q = *args.in[0], &k = *args.in[1], &v = *args.in[2], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  Shape s;
  s.heads = q.dims[q.rank - 3];
  s.queries = Rows(q);
  s.keys = Rows(k);
  s.dim = Cols(q);
  s.value_dim = Cols(v);
  s.share = s.heads / k.dims[k.rank - 3];
  s.causal = args.flag(0);
  s.scale = args.number(1);
  if (s.scale == 0) s.scale = s.dim > 0 ? 1 / std::sqrt(static_cast<double>(s.dim)) : 1;
  int64_t heads = 1;
  for (int d = 0; d < q.rank - 2; ++d) heads *= q.dims[d];
  if (s.keys == 0) {
    std::memset(y.data, 0, static_cast<size_t>(y.size()) * SizeOf(y.dtype));
    return absl::OkStatus();
  }
  if (std::max({s.queries, s.keys, s.dim, s.value_dim}) >= int64_t{1} << 31) {
    return Unsupported("q ", ToString(q), " with k ", ToString(k), ": dims must be below 2^31");
  }
  View mask;
  MaskRows mask_rows;
  if (args.in.size() > 3 && args.in[3] != nullptr) {
    TensorType full = q;
    full.dims[full.rank - 1] = s.keys;
    mask = BroadcastTo(*args.in[3], full);
    mask_rows.view = &mask;
  }
  TSR_ASSIGN_OR_RETURN(const rt::Blas* blas, rt::GetBlas());
  static const AttentionLoops& loops = TSR_SELECT_ISA(kAttentionLoops);
  if (y.dtype == DType::f64) return Full<double>(*blas, s, loops.f64, mask_rows, args, heads);
  if (y.dtype == DType::f32) return Full<float>(*blas, s, loops.f32, mask_rows, args, heads);
  return Narrow(*blas, s, loops.f32, mask_rows, args, heads);
}

}  // namespace tessera::cpu
