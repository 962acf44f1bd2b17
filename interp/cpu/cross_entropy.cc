// The op cross_entropy: log(sum(exp(row))) - row[target], with one pass over each row.
#include <algorithm>
#include <atomic>
#include <cmath>
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

template <class T>
double RowLoss(const ScoreLoops<T>& loops, const View& row, int64_t target) {
  constexpr DType kT = sizeof(T) == 4 ? DType::f32 : DType::f64;
  const int64_t classes = row.dims[0];
  T max = -std::numeric_limits<T>::infinity();
  double sum = 0;
  for (int64_t i = 0; i < classes; i += kBlock) {
    const int64_t n = std::min(kBlock, classes - i);
    T wide[kBlock];
    uint64_t raw[kBlock];
    const T* block = row.as<const T>() + i;
    if (row.strides[0] != 1 || row.dtype != kT) {
      GatherBlock(row, i, n, raw);
      block = reinterpret_cast<const T*>(raw);
      if (row.dtype != kT) {
        Convert(wide, kT, raw, row.dtype, n);
        block = wide;
      }
    }
    const T block_max = loops.max(block, n);
    if (!(block_max <= max)) {  // larger, or NaN
      sum *= std::exp(static_cast<double>(max) - static_cast<double>(block_max));
      max = block_max;
    }
    // While all are -inf there is nothing to add, and -inf - -inf would make NaN of what comes.
    if (max != -std::numeric_limits<T>::infinity()) sum += static_cast<double>(loops.sum_exp(block, n, max));
  }
  const char* at = row.as<const char>() + target * row.strides[0] * static_cast<int64_t>(SizeOf(row.dtype));
  return (static_cast<double>(max) - ToDouble(at, row.dtype)) + std::log(sum);
}

template <class T>
void Run(const View& logits, const View& targets, const View& y, int64_t ignore, const ScoreLoops<T>& loops) {
  const int64_t classes = logits.dims[logits.rank - 1];
  const int64_t grain = std::max<int64_t>(1, rt::options().parallel_grain() / std::max<int64_t>(1, classes));
  rt::ParallelFor(y.size(), grain, [&](int64_t begin, int64_t end) {
    View row;
    row.dtype = logits.dtype;
    row.rank = 1;
    row.dims[0] = classes;
    row.strides[0] = logits.strides[logits.rank - 1];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t target = targets.as<const int64_t>()[OffsetOf(targets, targets.rank, i)];
      row.data = logits.as<char>() + OffsetOf(logits, logits.rank - 1, i) * static_cast<int64_t>(SizeOf(row.dtype));
      const double loss = target == ignore ? 0 : RowLoss(loops, row, target);
      FromDouble(loss, y.as<char>() + i * static_cast<int64_t>(SizeOf(y.dtype)), y.dtype);
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

absl::Status k_cross_entropy(const interp::KernelArgs& args) {
  const View &logits = *args.in[0], &targets = *args.in[1], &y = *args.out[0];
  const int64_t ignore = args.integer(0), classes = logits.dims[logits.rank - 1];
  if (const int64_t bad = FirstBad(targets, classes, ignore); bad >= 0) {
    std::string position;
    int64_t rest = bad;
    for (int d = targets.rank - 1; d >= 0; --d) {
      position = absl::StrCat(rest % targets.dims[d], position.empty() ? "" : ",", position);
      rest /= targets.dims[d];
    }
    return OutOfRange("targets[", position, "] is ", targets.as<const int64_t>()[OffsetOf(targets, targets.rank, bad)],
                      "; it must be in [0, ", classes, "), the classes of logits ", ToString(logits), ", or ignore (",
                      ignore, ")");
  }
  static const AttentionLoops& loops = TSR_SELECT_ISA(kAttentionLoops);
  if (logits.dtype == DType::f64) {
    Run<double>(logits, targets, y, ignore, loops.f64);
  } else {
    Run<float>(logits, targets, y, ignore, loops.f32);
  }
  return absl::OkStatus();
}

}  // namespace tessera::cpu
