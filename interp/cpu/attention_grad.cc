// The op attention_grad. For each head of k and v, blocks of query rows of the heads that share it: the weights are
// computed again into scratch, as attention does, and meet the gradient there. A head's gradients of k and v are the
// sums over its blocks, added in order by one thread.
#include <algorithm>
#include <cstring>
#include <limits>

#include "interp/cpu/attention_heads.h"
#include "interp/cpu/attention_loops.h"
#include "interp/kernel.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

// Elements that are held as f32 at a time when they are of a narrow type.
constexpr int64_t kWideElements = int64_t{8} << 20;

template <class T>
class Runner {
 public:
  Runner(const rt::Blas& blas, const AttentionShape& s, const ScoreLoops<T>& loops, MaskRows mask)
      : blas_(blas), s_(s), loops_(loops), mask_(mask) {
    // Two blocks of scores stay in a core's cache.
    const int64_t row_bytes = static_cast<int64_t>(2 * sizeof(T)) * std::max<int64_t>(1, s.keys);
    block_ = std::clamp<int64_t>((int64_t{1} << 20) / row_bytes / 16 * 16, 16, 64);
  }

  Matrices<T> q, k, v, y, g;

  /// Heads [first, first + count) of k and v; dq, dk and dv point to the results of the first of them.
  absl::Status Heads(int64_t first, int64_t count, T* dq, T* dk, T* dv) const {
    FirstError error;
    ParallelBlas(blas_, count, 1, [&](int64_t begin, int64_t end) {
      auto scratch = Scratch::Make(sizeof(T) * static_cast<size_t>((2 * block_ + 1) * s_.keys) +
                                   sizeof(int64_t) * static_cast<size_t>(s_.keys));
      if (!scratch.ok()) return error.Add(scratch.status());
      for (int64_t i = begin; i < end; ++i) {
        T *k_sum = dk + i * s_.keys * s_.dim, *v_sum = dv + i * s_.keys * s_.value_dim;
        std::fill_n(k_sum, s_.keys * s_.dim, T(0));
        std::fill_n(v_sum, s_.keys * s_.value_dim, T(0));
        for (int64_t h = i * s_.share; h < (i + 1) * s_.share; ++h)
          for (int64_t query = 0; query < s_.queries; query += block_)
            Block(first * s_.share + h, query, std::min(block_, s_.queries - query), scratch->data(),
                  dq + (h * s_.queries + query) * s_.dim, k_sum, v_sum);
      }
    });
    return error.Take();
  }

 private:
  void Block(int64_t head, int64_t query, int64_t rows, void* scratch, T* dq, T* dk, T* dv) const {
    // Of the keys that any of the rows sees.
    const int64_t first = s_.First(query), keys = s_.Seen(query + rows - 1) - first;
    if (keys == 0) {
      std::fill_n(dq, rows * s_.dim, T(0));
      return;
    }
    void* raw = scratch;
    T* p = reinterpret_cast<T*>(static_cast<int64_t*>(scratch) + s_.keys);
    T* e = p + block_ * s_.keys;
    T* wide = e + block_ * s_.keys;
    const int64_t kv = head / s_.share;
    const auto turned = [](BlasMatrix m) { return BlasMatrix{!m.transposed, m.ld}; };
    const T *qs = q.RowAt(head, query), *gs = g.RowAt(head, query), *ks = k.RowAt(kv, first);
    Product(rows, keys, s_.dim, static_cast<T>(s_.scale), qs, q.form, ks, turned(k.form), T(0), p, keys);
    Product(rows, keys, s_.value_dim, T(1), gs, g.form, v.RowAt(kv, first), turned(v.form), T(0), e, keys);
    for (int64_t r = 0; r < rows; ++r) {
      T *weights = p + r * keys, *row = e + r * keys;
      const int64_t begin = s_.First(query + r) - first, end = s_.Seen(query + r) - first, seen = end - begin;
      T *own = weights + begin, *own_row = row + begin;
      if (mask_.view != nullptr && seen > 0)
        mask_.Apply<T>(loops_, head, query + r, first + begin, seen, own, raw, wide);
      const T max = loops_.max(own, seen);
      if (max == -std::numeric_limits<T>::infinity()) {
        std::fill_n(weights, keys, T(0));
        std::fill_n(row, keys, T(0));
        continue;
      }
      const T sum = loops_.exp(own, seen, max);
      loops_.scale(own, own, T(1) / sum, seen);
      loops_.weigh(own_row, own, RowSum(head, query + r), static_cast<T>(s_.scale), seen);
      for (T* x : {weights, row}) {
        std::fill(x, x + begin, T(0));
        std::fill(x + end, x + keys, T(0));
      }
    }
    Product(rows, s_.dim, keys, T(1), e, {false, keys}, ks, k.form, T(0), dq, s_.dim);
    Product(keys, s_.dim, rows, T(1), e, {true, keys}, qs, q.form, T(1), dk + first * s_.dim, s_.dim);
    Product(keys, s_.value_dim, rows, T(1), p, {true, keys}, gs, g.form, T(1), dv + first * s_.value_dim, s_.value_dim);
  }

  /// BlasGemm that takes dims of 0; where beta is 0, c has no gaps.
  void Product(int64_t m, int64_t n, int64_t depth, T alpha, const T* a, BlasMatrix a_form, const T* b,
               BlasMatrix b_form, T beta, T* c, int64_t ldc) const {
    if (m == 0 || n == 0) return;
    if (depth > 0) return BlasGemm(blas_, m, n, depth, alpha, a, a_form, b, b_form, beta, c, ldc);
    if (beta == T(0)) std::fill_n(c, m * n, T(0));
  }

  /// The sum of g y over a row: what all weights of the row together add to its gradient.
  T RowSum(int64_t head, int64_t query) const {
    const auto step = [](const Matrices<T>& m) { return m.form.transposed ? m.form.ld : 1; };
    const T *a = y.RowAt(head, query), *b = g.RowAt(head, query);
    double sum = 0;
    for (int64_t i = 0; i < s_.value_dim; ++i)
      sum += static_cast<double>(a[i * step(y)]) * static_cast<double>(b[i * step(g)]);
    return static_cast<T>(sum);
  }

  const rt::Blas& blas_;
  const AttentionShape& s_;
  const ScoreLoops<T>& loops_;
  MaskRows mask_;
  int64_t block_;
};

template <class T>
absl::Status Full(const rt::Blas& blas, const AttentionShape& s, const ScoreLoops<T>& loops, MaskRows mask,
                  const interp::KernelArgs& args, int64_t kv_heads) {
  Runner<T> run(blas, s, loops, mask);
  View views[5];
  Scratch copies[5];
  Matrices<T>* to[] = {&run.q, &run.k, &run.v, &run.y, &run.g};
  for (int i = 0; i < 5; ++i) TSR_RETURN_IF_ERROR(Prepare(*args.in[i], &views[i], &copies[i], to[i]));
  return run.Heads(0, kv_heads, args.out[0]->as<T>(), args.out[1]->as<T>(), args.out[2]->as<T>());
}

/// Narrow types: some heads of k and v at a time, with all that belongs to them, become f32.
absl::Status Narrow(const rt::Blas& blas, const AttentionShape& s, const ScoreLoops<float>& loops, MaskRows mask,
                    const interp::KernelArgs& args, int64_t kv_heads) {
  // Elements of each operand for one head of k and v.
  const int64_t q_size = s.share * s.queries * s.dim, y_size = s.share * s.queries * s.value_dim;
  const int64_t k_size = s.keys * s.dim, v_size = s.keys * s.value_dim;
  const int64_t sizes[] = {q_size, k_size, v_size, y_size, y_size, q_size, k_size, v_size};
  int64_t each = 0;
  for (const int64_t size : sizes) each += size;
  const int64_t step = std::clamp<int64_t>(kWideElements / std::max<int64_t>(1, each), 1, kv_heads);
  TSR_ASSIGN_OR_RETURN(Scratch scratch, Scratch::Make(sizeof(float) * static_cast<size_t>(step * each)));
  float* wide[8];
  float* next = scratch.as<float>();
  for (int i = 0; i < 8; ++i) {
    wide[i] = next;
    next += step * sizes[i];
  }
  Runner<float> run(blas, s, loops, mask);
  Matrices<float>* to[] = {&run.q, &run.k, &run.v, &run.y, &run.g};
  for (int64_t first = 0; first < kv_heads; first += step) {
    const int64_t count = std::min(step, kv_heads - first);
    for (int i = 0; i < 5; ++i) {
      Widen(*args.in[i], first * sizes[i], count * sizes[i], wide[i]);
      const bool of_keys = i == 1 || i == 2;
      *to[i] = {
          args.in[i], wide[i], of_keys ? first : first * s.share, {false, std::max<int64_t>(1, Cols(*args.in[i]))}};
    }
    TSR_RETURN_IF_ERROR(run.Heads(first, count, wide[5], wide[6], wide[7]));
    for (int i = 0; i < 3; ++i) {
      const View& out = *args.out[i];
      const int64_t bytes = static_cast<int64_t>(SizeOf(out.dtype));
      char* at = out.as<char>() + first * sizes[i] * bytes;
      rt::ParallelFor(count * sizes[i], 32 * 1024, [&](int64_t begin, int64_t end) {
        Convert(at + begin * bytes, out.dtype, wide[5 + i] + begin, DType::f32, end - begin);
      });
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status k_attention_grad(const interp::KernelArgs& args) {
  const View& k = *args.in[1];
  TSR_ASSIGN_OR_RETURN(const AttentionShape s, AttentionShapeOf(args));
  int64_t kv_heads = 1;
  for (int d = 0; d < k.rank - 2; ++d) kv_heads *= k.dims[d];
  if (kv_heads == 0) return absl::OkStatus();  // nor are there heads of q
  View mask;
  const MaskRows mask_rows = MaskRows::Of(args, 5, s, &mask);
  TSR_ASSIGN_OR_RETURN(const rt::Blas* blas, rt::GetBlas());
  static const AttentionLoops& loops = TSR_SELECT_ISA(kAttentionLoops);
  const DType dtype = args.out[0]->dtype;
  if (dtype == DType::f64) return Full<double>(*blas, s, loops.f64, mask_rows, args, kv_heads);
  if (dtype == DType::f32) return Full<float>(*blas, s, loops.f32, mask_rows, args, kv_heads);
  return Narrow(*blas, s, loops.f32, mask_rows, args, kv_heads);
}

}  // namespace tessera::cpu
