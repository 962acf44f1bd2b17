// The ops layer_norm_grad and rms_norm_grad: one pass over the rows of x and g. Each part of the rows sums the
// gradients of weight and bias for itself; which rows are a part follows from dims alone, so results repeat whatever
// the threads.
#include <algorithm>
#include <atomic>
#include <type_traits>

#include "interp/cpu/axis.h"
#include "interp/cpu/convert.h"
#include "interp/cpu/row_loops.h"
#include "interp/cpu/row_scratch.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kWork = 16384;        // elements worth a part
constexpr int64_t kMostParts = 64;      // of the rows
constexpr int64_t kMostSums = 1 << 22;  // elements of all parts' sums
constexpr int64_t kRowsInT = 16;        // added up in the compute type before they go to f64

/// The rows of an operand, one at a time as contiguous T.
template <class T>
class Rows {
 public:
  Rows(const View& v, int first, int64_t n) : v_(v), first_(first), n_(n) {
    gather_ = !ContiguousFrom(v, first);
    narrow_ = v.dtype != kCompute<T>;
  }
  bool Make() { return (!gather_ && !narrow_) || scratch_.Make(n_); }
  const T* At(int64_t row) {
    const void* x = scratch_.raw;
    if (gather_)
      GatherBlock(v_, row * n_, n_, scratch_.raw);
    else
      x = v_.as<char>() + OuterOffset(v_, first_, row) * static_cast<int64_t>(SizeOf(v_.dtype));
    if (!narrow_) return static_cast<const T*>(x);
    Convert(scratch_.wide, kCompute<T>, x, v_.dtype, n_);
    return scratch_.wide;
  }

 private:
  const View& v_;
  const int first_;
  const int64_t n_;
  bool gather_, narrow_;
  RowScratch<T> scratch_;
};

template <class T>
absl::Status NormGrad(const interp::KernelArgs& args, bool rms) {
  const View &x = *args.in[0], &g = *args.in[1], &dx = *args.out[0];
  const View* bias = rms ? nullptr : args.out[2];
  const int first = static_cast<int>(x.rank - args.integer(0));
  const double eps = args.number(1);
  int64_t rows = 1, n = 1;
  for (int d = 0; d < x.rank; ++d) (d < first ? rows : n) *= x.dims[d];
  if (n == 0) return absl::OkStatus();

  Scratch weight_copy, weight_wide;
  const T* weight = nullptr;
  if (args.in.size() > 2 && args.in[2] != nullptr) {
    TSR_ASSIGN_OR_RETURN(const View dense, MakeContiguous(*args.in[2], &weight_copy));
    weight = dense.as<const T>();
    if (dense.dtype != kCompute<T>) {
      TSR_ASSIGN_OR_RETURN(weight_wide, Scratch::Make(static_cast<size_t>(n) * sizeof(T)));
      Convert(weight_wide.data(), kCompute<T>, dense.data, dense.dtype, n);
      weight = weight_wide.as<const T>();
    }
  }

  const int64_t work = n >= kWork ? 1 : kWork / n;  // rows worth a part
  const int64_t most = std::clamp<int64_t>(kMostSums / n, 1, kMostParts);
  const int64_t parts = std::clamp<int64_t>(rows / work, 1, most), each = (rows + parts - 1) / parts;
  TSR_ASSIGN_OR_RETURN(Scratch sums, Scratch::Make(static_cast<size_t>(parts * 2 * n) * sizeof(double)));
  double* all = sums.as<double>();
  std::fill_n(all, parts * 2 * n, 0.0);
  std::atomic<bool> failed = false;
  rt::ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    Rows<T> xs(x, first, n), gs(g, first, n);
    RowScratch<T> out;
    auto few = Scratch::Make(static_cast<size_t>(2 * n) * sizeof(T));
    if (!xs.Make() || !gs.Make() || !out.Make(n) || !few.ok()) {
      failed = true;
      return;
    }
    T* few_sums = few->template as<T>();
    for (int64_t part = begin; part < end; ++part) {
      const int64_t stop = std::min(rows, (part + 1) * each);
      for (int64_t row = part * each; row < stop; row += kRowsInT) {
        std::fill_n(few_sums, 2 * n, T(0));
        for (int64_t r = row; r < std::min(stop, row + kRowsInT); ++r) {
          char* to = dx.as<char>() + r * n * static_cast<int64_t>(SizeOf(dx.dtype));
          T* result = dx.dtype == kCompute<T> ? reinterpret_cast<T*>(to) : out.out;
          LoopsOf<T>().norm_grad_row(xs.At(r), gs.At(r), result, n, eps, weight, rms, few_sums, few_sums + n);
          if (dx.dtype != kCompute<T>) Convert(to, dx.dtype, out.out, kCompute<T>, n);
        }
        for (int64_t i = 0; i < 2 * n; ++i) all[part * 2 * n + i] += static_cast<double>(few_sums[i]);
      }
    }
  });
  if (failed) return ResourceExhausted("no memory for a row of ", n, " elements");
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t i = 0; i < 2 * n; ++i) all[i] += all[part * 2 * n + i];
  const auto write = [&](const double* from, const View& to) {
    for (int64_t i = 0; i < n; ++i)
      FromDouble(from[i], to.as<char>() + i * static_cast<int64_t>(SizeOf(to.dtype)), to.dtype);
  };
  write(all, *args.out[1]);
  if (bias != nullptr) write(all + n, *bias);
  return absl::OkStatus();
}

absl::Status Any(const interp::KernelArgs& args, bool rms) {
  return args.in[0]->dtype == DType::f64 ? NormGrad<double>(args, rms) : NormGrad<float>(args, rms);
}

}  // namespace

absl::Status k_layer_norm_grad(const interp::KernelArgs& args) { return Any(args, false); }
absl::Status k_rms_norm_grad(const interp::KernelArgs& args) { return Any(args, true); }

}  // namespace tessera::cpu
