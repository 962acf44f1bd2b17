// The op paged_attention. For each sequence and head of keys, blocks of rows: the queries that share that head. Scores
// by one product for each page into scratch, softmax there, then one product for each page with the values.
//
// All lengths, and the pages that they ask for, are looked at before anything is computed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "interp/cpu/attention_loops.h"
#include "interp/cpu/convert.h"
#include "interp/cpu/gemm.h"
#include "interp/cpu/ids.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"

namespace tessera::cpu {
namespace {

// Multiply-adds worth handing to another thread.
constexpr int64_t kMinTask = 256 * 1024;

struct Shape {
  int64_t batch, heads, queries, dim, value_dim, groups, share;
  int64_t pages, page, entries;  // of the pool; positions in one; of a row of the table
  double scale;
};

Shape ShapeOf(const interp::KernelArgs& args) {
  const View &q = *args.in[0], &k = *args.in[1], &v = *args.in[2], &table = *args.in[3];
  Shape s = {q.dims[0], q.dims[1], q.dims[2], q.dims[3],     v.dims[3],     k.dims[2],
             0,         k.dims[0], k.dims[1], table.dims[1], args.number(0)};
  s.share = s.heads / std::max<int64_t>(1, s.groups);
  if (s.scale == 0) s.scale = s.dim > 0 ? 1 / std::sqrt(static_cast<double>(s.dim)) : 1;
  return s;
}

int64_t NumberAt(const View& v, int64_t i) {
  int64_t value;
  GatherBlock(v, i, 1, &value);
  return value;
}

absl::Status Check(const Shape& s, const View& table, const View& lengths) {
  const int64_t most = s.entries * s.page;
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t length = NumberAt(lengths, b);
    if (length >= 0 && length <= most) continue;
    return OutOfRange("length ", length, " at ", Position(lengths, b),
                      " of lengths is outside what the pages of a sequence hold; use 0 to ", most);
  }
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t length = NumberAt(lengths, b);
    for (int64_t e = 0; e * s.page < length; ++e) {
      const int64_t at = b * s.entries + e, page = NumberAt(table, at);
      if (page >= 0 && page < s.pages) continue;
      return OutOfRange(
          "page ", page, " at ", Position(table, at), " of table is outside the pool, which has ", s.pages, " pages",
          s.pages == 0 ? std::string("; there is no valid page") : absl::StrCat("; use 0 to ", s.pages - 1));
    }
  }
  return absl::OkStatus();
}

/// Elements [first, first + n) of v, in order, as T.
template <class T>
void Read(const View& v, int64_t first, int64_t n, T* to) {
  constexpr DType kT = sizeof(T) == 4 ? DType::f32 : DType::f64;
  if (v.dtype == kT) return GatherBlock(v, first, n, to);
  constexpr int64_t kBlock = 1024;
  uint16_t raw[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    GatherBlock(v, first + i, count, raw);
    Convert(to + i, kT, raw, v.dtype, count);
  }
}

/// A matrix that BLAS can read.
template <class T>
struct Rows {
  const T* data;
  BlasMatrix form;
};

/// The first n positions of a page, of one head: as they lie, or in `copy`.
template <class T>
Rows<T> PageOf(const View& pool, int64_t page, int64_t group, int64_t n, T* copy) {
  constexpr DType kT = sizeof(T) == 4 ? DType::f32 : DType::f64;
  View rows = pool;
  rows.rank = 2;
  rows.dims[0] = n;
  rows.dims[1] = pool.dims[3];
  rows.strides[0] = pool.strides[1];
  rows.strides[1] = pool.strides[3];
  rows.data =
      pool.as<char>() + (page * pool.strides[0] + group * pool.strides[2]) * static_cast<int64_t>(SizeOf(pool.dtype));
  BlasMatrix form;
  if (pool.dtype == kT && AsBlasMatrix(n, rows.dims[1], rows.strides[0], rows.strides[1], &form) &&
      form.ld < int64_t{1} << 31)
    return {rows.as<const T>(), form};
  Read(rows, 0, n * rows.dims[1], copy);
  return {copy, {false, std::max<int64_t>(1, rows.dims[1])}};
}

template <class T>
class Runner {
 public:
  Runner(const rt::Blas& blas, const Shape& s, const ScoreLoops<T>& loops, const interp::KernelArgs& args)
      : blas_(blas), s_(s), loops_(loops), args_(args) {
    // About 1 MiB of scores, so that they stay in a core's cache between the two products.
    const int64_t row_bytes = static_cast<int64_t>(sizeof(T)) * std::max<int64_t>(1, s.entries * s.page);
    block_ = std::clamp<int64_t>((int64_t{1} << 20) / row_bytes / 16 * 16, 16, 64);
    block_ = std::min(block_, s.share * s.queries);
  }

  absl::Status Run() const {
    const int64_t rows = s_.share * s_.queries, blocks = (rows + block_ - 1) / block_;
    const int64_t room = s_.entries * s_.page;
    const int64_t work = std::max<int64_t>(1, block_ * room * (s_.dim + s_.value_dim));
    FirstError error;
    ParallelBlas(
        blas_, s_.batch * s_.groups * blocks, std::max<int64_t>(1, kMinTask / work), [&](int64_t begin, int64_t end) {
          const int64_t columns = std::max(s_.dim, s_.value_dim);
          auto scratch = Scratch::Make(
              sizeof(T) * static_cast<size_t>(block_ * (room + s_.dim + s_.value_dim) + block_ + s_.page * columns));
          if (!scratch.ok()) return error.Add(scratch.status());
          for (int64_t i = begin; i < end; ++i) {
            const int64_t head = i / blocks, row = i % blocks * block_;
            Block(head / s_.groups, head % s_.groups, row, std::min(block_, rows - row), scratch->as<T>());
          }
        });
    return error.Take();
  }

 private:
  /// Rows are queries, of the first head that shares `group`, then of the next.
  void Block(int64_t sequence, int64_t group, int64_t row, int64_t rows, T* scratch) const {
    const View &k = *args_.in[1], &v = *args_.in[2], &table = *args_.in[3], &y = *args_.out[0];
    const int64_t length = NumberAt(*args_.in[4], sequence);
    T* scores = scratch;
    T* q = scores + block_ * s_.entries * s_.page;
    T* out = q + block_ * s_.dim;
    T* sums = out + block_ * s_.value_dim;
    T* copy = sums + block_;
    const int64_t first = (sequence * s_.groups + group) * s_.share * s_.queries + row;
    std::fill_n(out, rows * s_.value_dim, T(0));
    const auto for_pages = [&](auto fn) {
      for (int64_t at = 0; at < length; at += s_.page)
        fn(at, std::min(s_.page, length - at), NumberAt(table, sequence * s_.entries + at / s_.page));
    };
    if (s_.dim == 0) {
      std::fill_n(scores, rows * length, T(0));
    } else {
      Read(*args_.in[0], first * s_.dim, rows * s_.dim, q);
      for_pages([&](int64_t at, int64_t n, int64_t page) {
        const Rows<T> keys = PageOf(k, page, group, n, copy);
        BlasGemm(blas_, rows, n, s_.dim, static_cast<T>(s_.scale), q, {false, s_.dim}, keys.data,
                 {!keys.form.transposed, keys.form.ld}, T(0), scores + at, length);
      });
    }
    for (int64_t r = 0; r < rows; ++r) {
      T* scores_of = scores + r * length;
      const int64_t seen = std::max<int64_t>(0, length - s_.queries + (row + r) % s_.queries + 1);
      const T max = loops_.max(scores_of, seen);
      const bool none = max == -std::numeric_limits<T>::infinity();
      sums[r] = none ? T(0) : loops_.exp(scores_of, seen, max);
      std::fill(scores_of + (none ? 0 : seen), scores_of + length, T(0));
    }
    for_pages([&](int64_t at, int64_t n, int64_t page) {
      const Rows<T> values = PageOf(v, page, group, n, copy);
      BlasGemm(blas_, rows, s_.value_dim, n, T(1), scores + at, {false, length}, values.data, values.form, T(1), out,
               s_.value_dim);
    });
    for (int64_t r = 0; r < rows; ++r) {
      T* x = out + r * s_.value_dim;
      if (sums[r] == T(0))
        std::fill_n(x, s_.value_dim, T(0));
      else
        loops_.scale(x, x, T(1) / sums[r], s_.value_dim);
    }
    Convert(y.as<char>() + first * s_.value_dim * static_cast<int64_t>(SizeOf(y.dtype)), y.dtype, out,
            sizeof(T) == 4 ? DType::f32 : DType::f64, rows * s_.value_dim);
  }

  const rt::Blas& blas_;
  const Shape& s_;
  const ScoreLoops<T>& loops_;
  const interp::KernelArgs& args_;
  int64_t block_;
};

}  // namespace

absl::Status k_paged_attention(const interp::KernelArgs& args) {
  const View& y = *args.out[0];
  const Shape s = ShapeOf(args);
  if (std::max({s.queries, s.dim, s.value_dim, s.pages, s.page, s.entries}) >= int64_t{1} << 31 ||
      s.entries * s.page >= int64_t{1} << 31) {
    return Unsupported("q ", ToString(*args.in[0]), " with k ", ToString(*args.in[1]), " and table ",
                       ToString(*args.in[3]), ": dims, and the positions of a sequence, must be below 2^31");
  }
  TSR_RETURN_IF_ERROR(Check(s, *args.in[3], *args.in[4]));
  if (y.size() == 0) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(const rt::Blas* blas, rt::GetBlas());
  static const AttentionLoops& loops = TSR_SELECT_ISA(kAttentionLoops);
  if (y.dtype == DType::f64) return Runner<double>(*blas, s, loops.f64, args).Run();
  return Runner<float>(*blas, s, loops.f32, args).Run();
}

}  // namespace tessera::cpu
