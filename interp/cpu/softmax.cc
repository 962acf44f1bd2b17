// Softmax along any axis, and logsumexp over any axes. The largest element is subtracted first, so nothing overflows.
// As the formula has it, an infinite largest element (a row of -inf only, or any +inf) makes the row of softmax and
// log_softmax NaN, and so does a NaN. logsumexp, which has limits there, gives -inf and +inf.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "interp/cpu/axis.h"
#include "interp/cpu/reduce.h"
#include "interp/cpu/row_loops.h"
#include "interp/cpu/row_scratch.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kWork = 16384;       // elements worth a call of the pool
constexpr int64_t kLongRow = 1 << 18;  // elements of a row that is worth cutting

const RowLoops& Loops() {
  static const RowLoops& loops = TSR_SELECT_ISA(kRowLoops);
  return loops;
}
size_t Bytes(int64_t n, DType t) { return static_cast<size_t>(n) * SizeOf(t); }

/// Few long rows: each cut over the threads, with exp evaluated twice.
template <class T>
absl::Status LongRows(const View& xp, const View& yp, int64_t rows, int64_t n, bool log) {
  const bool narrow = xp.dtype != kCompute<T>;
  Scratch raw, wide, out;
  TSR_ASSIGN_OR_RETURN(raw, Scratch::Make(Bytes(n, xp.dtype)));
  TSR_ASSIGN_OR_RETURN(out, Scratch::Make(Bytes(n, kCompute<T>)));
  if (narrow) {
    TSR_ASSIGN_OR_RETURN(wide, Scratch::Make(Bytes(n, kCompute<T>)));
  }
  for (int64_t row = 0; row < rows; ++row) {
    constexpr int64_t kPiece = 65536;
    const auto for_pieces = [&](auto&& fn) {
      rt::ParallelFor((n + kPiece - 1) / kPiece, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) fn(i * kPiece, std::min(kPiece, n - i * kPiece));
      });
    };
    const int64_t first = row * n;
    const T* x = (narrow ? wide : raw).template as<T>();
    for_pieces([&](int64_t i, int64_t m) {
      char* to = raw.as<char>() + Bytes(i, xp.dtype);
      GatherBlock(xp, first + i, m, to);
      if (narrow) Convert(wide.as<T>() + i, kCompute<T>, to, xp.dtype, m);
    });
    double acc[3];
    ReduceRow(Prim::max, kCompute<T>, x, n, nullptr, acc);
    T max;
    std::memcpy(&max, acc, sizeof max);
    ReduceRow(Prim::sumexp, kCompute<T>, x, n, &max, acc);
    const double total = AccView{acc, 1}.Value(0, 0, kCompute<T>);
    for_pieces([&](int64_t i, int64_t m) {
      T* y = out.as<T>() + i;
      LoopsOf<T>().softmax_apply(x + i, y, m, max, total, log);
      char* from = reinterpret_cast<char*>(y);
      if (narrow) {
        from = raw.as<char>() + Bytes(i, yp.dtype);
        Convert(from, yp.dtype, y, kCompute<T>, m);
      }
      ScatterBlock(yp, first + i, m, from);
    });
  }
  return absl::OkStatus();
}

/// Rows of n elements, in place where they are contiguous and through scratch where not.
template <class T>
absl::Status Rows(const View& xp, const View& yp, int64_t rows, int64_t n, bool log) {
  const int last = xp.rank - 1;
  const bool narrow = xp.dtype != kCompute<T>;
  const bool gather = n > 1 && xp.strides[last] != 1;
  const bool scatter = n > 1 && yp.strides[last] != 1;
  std::atomic<bool> failed = false;
  rt::ParallelFor(rows, std::max<int64_t>(kWork / n, 1), [&](int64_t begin, int64_t end) {
    RowScratch<T> scratch;
    if ((narrow || gather || scatter) && !scratch.Make(n)) {
      failed = true;
      return;
    }
    char* raw = scratch.raw;
    T* wide = scratch.wide;
    T* out = scratch.out;
    for (int64_t row = begin; row < end; ++row) {
      const void* x = xp.as<char>() + OuterOffset(xp, last, row) * static_cast<int64_t>(SizeOf(xp.dtype));
      void* y = yp.as<char>() + OuterOffset(yp, last, row) * static_cast<int64_t>(SizeOf(yp.dtype));
      if (gather) {
        GatherBlock(xp, row * n, n, raw);
        x = raw;
      }
      if (narrow) {
        Convert(wide, kCompute<T>, x, xp.dtype, n);
        x = wide;
      }
      LoopsOf<T>().softmax_row(static_cast<const T*>(x), narrow || scatter ? out : static_cast<T*>(y), n, log);
      if (narrow) Convert(scatter ? raw : y, yp.dtype, out, kCompute<T>, n);
      if (scatter) ScatterBlock(yp, row * n, n, narrow ? static_cast<const void*>(raw) : out);
    }
  });
  if (failed) return ResourceExhausted("no memory for a row of ", n, " elements");
  return absl::OkStatus();
}

/// Down the axis for tiles of columns. Tiles are wide, though three passes over narrow ones would stay in cache: rows
/// a power of two apart share few places there.
template <class T>
absl::Status Cols(const View& x, const View& y, const AxisSplit& s, bool log) {
  const bool direct = x.dtype == kCompute<T> && InnerContiguous(x, s.axis);
  const bool narrow = x.dtype != kCompute<T>;
  const int64_t tile = std::min(s.inner, std::clamp<int64_t>(s.inner / 8 / 16 * 16, 64, kSoftmaxCols));
  const int64_t tiles = (s.inner + tile - 1) / tile;
  std::atomic<bool> failed = false;
  rt::ParallelFor(s.outer * tiles, std::max<int64_t>(kWork / (s.extent * tile), 1), [&](int64_t begin, int64_t end) {
    Scratch memory;
    if (!direct) {
      auto made = Scratch::Make(Bytes(2 * s.extent * tile, kCompute<T>));
      if (!made.ok()) {
        failed = true;
        return;
      }
      memory = *std::move(made);
    }
    T* wide = memory.as<T>();
    T* out = direct ? nullptr : wide + s.extent * tile;
    alignas(64) char raw[kSoftmaxCols * 8];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t outer = i / tiles, c0 = i % tiles * tile;
      const int64_t n = std::min(tile, s.inner - c0);
      const int64_t first = outer * s.extent * s.inner + c0;
      if (direct) {
        LoopsOf<T>().softmax_cols(x.as<T>() + OuterOffset(x, s.axis, outer) + c0, x.strides[s.axis], y.as<T>() + first,
                                  s.inner, s.extent, n, log);
        continue;
      }
      for (int64_t r = 0; r < s.extent; ++r) {
        GatherBlock(x, first + r * s.inner, n, narrow ? static_cast<void*>(raw) : wide + r * n);
        if (narrow) Convert(wide + r * n, kCompute<T>, raw, x.dtype, n);
      }
      if (!narrow) {
        LoopsOf<T>().softmax_cols(wide, n, y.as<T>() + first, s.inner, s.extent, n, log);
        continue;
      }
      LoopsOf<T>().softmax_cols(wide, n, out, n, s.extent, n, log);
      for (int64_t r = 0; r < s.extent; ++r)
        Convert(y.as<char>() + Bytes(first + r * s.inner, y.dtype), y.dtype, out + r * n, kCompute<T>, n);
    }
  });
  if (failed) return ResourceExhausted("no memory for ", tile, " columns of ", s.extent, " elements");
  return absl::OkStatus();
}

template <class T>
absl::Status SoftmaxOf(const View& x, const View& y, const AxisSplit& s, bool log) {
  // Few columns leave vectors half empty.
  if (s.inner >= 16) return Cols<T>(x, y, s, log);
  const View xp = AxisLast(x, s.axis), yp = AxisLast(y, s.axis);
  const int64_t rows = s.outer * s.inner;
  if (rows < 16 && s.extent >= kLongRow) return LongRows<T>(xp, yp, rows, s.extent, log);
  return Rows<T>(xp, yp, rows, s.extent, log);
}

absl::Status Softmax(const interp::KernelArgs& args, bool log) {
  const View& x = *args.in[0];
  const View& y = *args.out[0];
  TSR_ASSIGN_OR_RETURN(const AxisSplit s, SplitAtAxis(x, args.integer(0)));
  if (x.size() == 0) return absl::OkStatus();
  return x.dtype == DType::f64 ? SoftmaxOf<double>(x, y, s, log) : SoftmaxOf<float>(x, y, s, log);
}

// An infinite maximum would leave inf - inf; with 0 in its place the sum is 0, infinite or NaN, as is its logarithm.
template <class T>
void ShiftParam(const Reduction&, const AccView& acc, int64_t n, void* param) {
  for (int64_t i = 0; i < n; ++i) {
    const T m = acc.component<T>(0)[i];
    static_cast<T*>(param)[i] = m - m == 0 ? m : 0;
  }
}

template <class T>
void FinishLogSumExp(const Reduction& red, const AccView& acc, const void* param, int64_t n, void* y) {
  for (int64_t i = 0; i < n; ++i) {
    const double shift = static_cast<const T*>(param)[i];
    static_cast<T*>(y)[i] = static_cast<T>(shift + Loops().log(acc.Value(0, i, red.compute)));
  }
}

}  // namespace

absl::Status k_softmax(const interp::KernelArgs& args) { return Softmax(args, false); }
absl::Status k_log_softmax(const interp::KernelArgs& args) { return Softmax(args, true); }

absl::Status k_logsumexp(const interp::KernelArgs& args) {
  const View& x = *args.in[0];
  TSR_ASSIGN_OR_RETURN(const uint32_t axes, ir::CanonicalAxes(args.ints(0), x.rank));
  const bool f64 = x.dtype == DType::f64;
  return RunReduction(x, axes,
                      {.prim = Prim::max,
                       .param = f64 ? ShiftParam<double> : ShiftParam<float>,
                       .second = Prim::sumexp,
                       .finish = f64 ? FinishLogSumExp<double> : FinishLogSumExp<float>,
                       .result = ComputeDType(x.dtype)},
                      *args.out[0]);
}

}  // namespace tessera::cpu
