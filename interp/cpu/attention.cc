// The op attention. For each head, blocks of query rows: scores by one product into scratch, masks and softmax there,
// then one product with the values. Scratch is a block times the number of keys for each thread, never S times T.
//
// A query all of whose keys are masked gives zeros. Whether a value that is not finite shows through a masked key of
// weight 0 is left open (0 * inf is NaN): causally masked keys are skipped by blocks.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "interp/cpu/attention_heads.h"
#include "interp/cpu/attention_loops.h"
#include "interp/kernel.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

// Elements of q, k and v that are held as f32 at a time when they are of a narrow type.
constexpr int64_t kWideElements = int64_t{8} << 20;
// Multiply-adds worth handing to another thread.
constexpr int64_t kMinTask = 256 * 1024;

template <class T>
class Runner {
 public:
  Runner(const rt::Blas& blas, const AttentionShape& s, const ScoreLoops<T>& loops, MaskRows mask)
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
  void Block(int64_t head, int64_t query, int64_t rows, void* scratch, T* out) const {
    // Of the keys that any of the rows sees.
    const int64_t first = s_.First(query), keys = s_.Seen(query + rows - 1) - first;
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
      const T* from = q.RowAt(head, query);
      const BlasMatrix k_transposed = {!k.form.transposed, k.form.ld};
      BlasGemm(blas_, rows, keys, s_.dim, static_cast<T>(s_.scale), from, q.form, k.RowAt(kv, first), k_transposed,
               T(0), scores, keys);
    }
    for (int64_t r = 0; r < rows; ++r) {
      T* row = scores + r * keys;
      const int64_t begin = s_.First(query + r) - first, end = s_.Seen(query + r) - first, seen = end - begin;
      if (mask_.view != nullptr && seen > 0)
        mask_.Apply<T>(loops_, head, query + r, first + begin, seen, row + begin, raw, wide);
      const T max = loops_.max(row + begin, seen);
      if (max == -std::numeric_limits<T>::infinity()) {
        std::fill_n(row, keys, T(0));
        sums[r] = T(0);
        continue;
      }
      std::fill(row, row + begin, T(0));
      sums[r] = loops_.exp(row + begin, seen, max);
      std::fill(row + end, row + keys, T(0));
    }
    BlasGemm(blas_, rows, s_.value_dim, keys, T(1), scores, {false, keys}, v.RowAt(kv, first), v.form, T(0), out,
             s_.value_dim);
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
  const AttentionShape& s_;
  const ScoreLoops<T>& loops_;
  MaskRows mask_;
  int64_t block_;
};

template <class T>
absl::Status Full(const rt::Blas& blas, const AttentionShape& s, const ScoreLoops<T>& loops, MaskRows mask,
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
absl::Status Narrow(const rt::Blas& blas, const AttentionShape& s, const ScoreLoops<float>& loops, MaskRows mask,
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
  const View &q = *args.in[0], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(const AttentionShape s, AttentionShapeOf(args));
  if (s.keys == 0) {
    std::memset(y.data, 0, static_cast<size_t>(y.size()) * SizeOf(y.dtype));
    return absl::OkStatus();
  }
  View mask;
  const MaskRows mask_rows = MaskRows::Of(args, 3, s, &mask);
  TSR_ASSIGN_OR_RETURN(const rt::Blas* blas, rt::GetBlas());
  static const AttentionLoops& loops = TSR_SELECT_ISA(kAttentionLoops);
  int64_t heads = 1;
  for (int d = 0; d < q.rank - 2; ++d) heads *= q.dims[d];
  if (y.dtype == DType::f64) return Full<double>(*blas, s, loops.f64, mask_rows, args, heads);
  if (y.dtype == DType::f32) return Full<float>(*blas, s, loops.f32, mask_rows, args, heads);
  return Narrow(*blas, s, loops.f32, mask_rows, args, heads);
}

}  // namespace tessera::cpu
