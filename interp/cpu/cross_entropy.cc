// The ops cross_entropy, log(sum(exp(row))) - row[target], with one pass over each row, and cross_entropy_grad, with
// two.
#include "interp/cpu/cross_entropy.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "interp/cpu/attention_loops.h"
#include "interp/cpu/convert.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kBlock = 1024;

/// Offset of row-major element number i.
int64_t OffsetOf(const View& v, int rank, int64_t i) {
  int64_t offset = 0;
  for (int d = rank - 1; d >= 0; --d) {
    offset += i % v.dims[d] * v.strides[d];
    i /= v.dims[d];
  }
  return offset;
}

/// A row of logits as blocks of T.
template <class T>
struct RowBlocks {
  static constexpr DType kT = sizeof(T) == 4 ? DType::f32 : DType::f64;
  explicit RowBlocks(const View& r) : row(r) {}
  const View& row;
  T wide[kBlock];
  uint64_t raw[kBlock];

  /// Elements [i, i + n): where they lie, or in this.
  const T* At(int64_t i, int64_t n) {
    if (row.strides[0] == 1 && row.dtype == kT) return row.as<const T>() + i;
    GatherBlock(row, i, n, raw);
    if (row.dtype == kT) return reinterpret_cast<const T*>(raw);
    Convert(wide, kT, raw, row.dtype, n);
    return wide;
  }
};

/// The largest of a row, and the sum of exponentials of distances from it.
template <class T>
struct RowSum {
  T max = -std::numeric_limits<T>::infinity();
  double sum = 0;

  RowSum(const ScoreLoops<T>& loops, RowBlocks<T>& blocks) {
    const int64_t classes = blocks.row.dims[0];
    for (int64_t i = 0; i < classes; i += kBlock) {
      const int64_t n = std::min(kBlock, classes - i);
      const T* block = blocks.At(i, n);
      const T block_max = loops.max(block, n);
      if (!(block_max <= max)) {  // larger, or NaN
        sum *= std::exp(static_cast<double>(max) - static_cast<double>(block_max));
        max = block_max;
      }
      // While all are -inf there is nothing to add, and -inf - -inf would make NaN of what comes.
      if (max != -std::numeric_limits<T>::infinity()) sum += static_cast<double>(loops.sum_exp(block, n, max));
    }
  }
};

/// fn(i, row, target) for each row of logits.
template <class Fn>
void ForRows(const View& logits, const View& targets, Fn fn) {
  const int64_t classes = logits.dims[logits.rank - 1];
  const int64_t grain = std::max<int64_t>(1, rt::options().parallel_grain() / std::max<int64_t>(1, classes));
  rt::ParallelFor(targets.size(), grain, [&](int64_t begin, int64_t end) {
    View row;
    row.dtype = logits.dtype;
    row.rank = 1;
    row.dims[0] = classes;
    row.strides[0] = logits.strides[logits.rank - 1];
    for (int64_t i = begin; i < end; ++i) {
      row.data = logits.as<char>() + OffsetOf(logits, logits.rank - 1, i) * static_cast<int64_t>(SizeOf(row.dtype));
      fn(i, row, targets.as<const int64_t>()[OffsetOf(targets, targets.rank, i)]);
    }
  });
}

template <class T>
void Losses(const View& logits, const View& targets, const View& y, int64_t ignore, const ScoreLoops<T>& loops) {
  ForRows(logits, targets, [&](int64_t i, const View& row, int64_t target) {
    double loss = 0;
    if (target != ignore) {
      RowBlocks<T> blocks(row);
      const RowSum<T> sum(loops, blocks);
      const char* at = row.as<const char>() + target * row.strides[0] * static_cast<int64_t>(SizeOf(row.dtype));
      loss = (static_cast<double>(sum.max) - ToDouble(at, row.dtype)) + std::log(sum.sum);
    }
    FromDouble(loss, y.as<char>() + i * static_cast<int64_t>(SizeOf(y.dtype)), y.dtype);
  });
}

template <class T>
void Gradients(const View& logits, const View& targets, const View& g, const View& y, int64_t ignore,
               const ScoreLoops<T>& loops) {
  const int64_t classes = logits.dims[logits.rank - 1], bytes = static_cast<int64_t>(SizeOf(y.dtype));
  ForRows(logits, targets, [&](int64_t r, const View& row, int64_t target) {
    char* to = y.as<char>() + r * classes * bytes;
    if (target == ignore) {
      std::memset(to, 0, static_cast<size_t>(classes * bytes));
      return;
    }
    const double grad =
        ToDouble(g.as<const char>() + OffsetOf(g, g.rank, r) * static_cast<int64_t>(SizeOf(g.dtype)), g.dtype);
    RowBlocks<T> blocks(row);
    const RowSum<T> sum(loops, blocks);
    const T by = static_cast<T>(1 / sum.sum), times = static_cast<T>(grad);
    T block[kBlock];
    for (int64_t i = 0; i < classes; i += kBlock) {
      const int64_t n = std::min(kBlock, classes - i);
      std::copy_n(blocks.At(i, n), n, block);
      loops.exp(block, n, sum.max);
      loops.scale(block, block, by, n);
      if (target >= i && target < i + n) block[target - i] -= T(1);
      loops.scale(block, block, times, n);
      Convert(to + i * bytes, y.dtype, block, RowBlocks<T>::kT, n);
    }
  });
}

/// The index of the first target that is neither a class nor `ignore`, or -1.
int64_t FirstBad(const View& targets, int64_t classes, int64_t ignore) {
  std::atomic<int64_t> bad = std::numeric_limits<int64_t>::max();
  rt::ParallelFor(targets.size(), rt::options().parallel_grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t t = targets.as<const int64_t>()[OffsetOf(targets, targets.rank, i)];
      if ((t >= 0 && t < classes) || t == ignore) continue;
      int64_t seen = bad.load();
      while (i < seen && !bad.compare_exchange_weak(seen, i)) {
      }
      return;
    }
  });
  const int64_t found = bad.load();
  return found == std::numeric_limits<int64_t>::max() ? -1 : found;
}

}  // namespace

absl::Status CheckTargets(const View& targets, int64_t ignore, int64_t classes, std::string_view of,
                          const View& whose) {
  const int64_t bad = FirstBad(targets, classes, ignore);
  if (bad < 0) return absl::OkStatus();
  std::string position;
  int64_t rest = bad;
  for (int d = targets.rank - 1; d >= 0; --d) {
    position = absl::StrCat(rest % targets.dims[d], position.empty() ? "" : ",", position);
    rest /= targets.dims[d];
  }
  return OutOfRange("targets[", position, "] is ", targets.as<const int64_t>()[OffsetOf(targets, targets.rank, bad)],
                    "; it must be in [0, ", classes, "), the classes of ", std::string(of), " ", ToString(whose),
                    ", or ignore (", ignore, ")");
}

void CrossEntropyRows(const View& logits, const View& targets, const View& y, int64_t ignore) {
  static const AttentionLoops& loops = TSR_SELECT_ISA(kAttentionLoops);
  if (logits.dtype == DType::f64)
    Losses<double>(logits, targets, y, ignore, loops.f64);
  else
    Losses<float>(logits, targets, y, ignore, loops.f32);
}

void CrossEntropyGradRows(const View& logits, const View& targets, const View& g, const View& y, int64_t ignore) {
  static const AttentionLoops& loops = TSR_SELECT_ISA(kAttentionLoops);
  if (logits.dtype == DType::f64)
    Gradients<double>(logits, targets, g, y, ignore, loops.f64);
  else
    Gradients<float>(logits, targets, g, y, ignore, loops.f32);
}

absl::Status k_cross_entropy(const interp::KernelArgs& args) {
  const View &logits = *args.in[0], &targets = *args.in[1];
  const int64_t ignore = args.integer(0);
  TSR_RETURN_IF_ERROR(CheckTargets(targets, ignore, logits.dims[logits.rank - 1], "logits", logits));
  CrossEntropyRows(logits, targets, *args.out[0], ignore);
  return absl::OkStatus();
}

absl::Status k_cross_entropy_grad(const interp::KernelArgs& args) {
  const View &logits = *args.in[0], &targets = *args.in[1];
  const int64_t ignore = args.integer(0);
  TSR_RETURN_IF_ERROR(CheckTargets(targets, ignore, logits.dims[logits.rank - 1], "logits", logits));
  CrossEntropyGradRows(logits, targets, *args.in[2], *args.out[0], ignore);
  return absl::OkStatus();
}

}  // namespace tessera::cpu
