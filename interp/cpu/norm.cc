// Normalisation of rows (layer_norm, rms_norm) and of channels with given statistics (batch_norm).
#include <algorithm>
#include <atomic>
#include <cmath>
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
constexpr int64_t kBlock = 4096;

size_t Bytes(int64_t n, DType t) { return static_cast<size_t>(n) * SizeOf(t); }

/// A small operand as a contiguous array of T; null stays null.
template <class T>
class Param {
 public:
  absl::Status Set(const View* v) {
    if (v == nullptr) return absl::OkStatus();
    TSR_ASSIGN_OR_RETURN(const View contiguous, MakeContiguous(*v, &copy_));
    data_ = contiguous.as<const T>();
    if (v->dtype == kCompute<T>) return absl::OkStatus();
    TSR_ASSIGN_OR_RETURN(wide_, Scratch::Make(Bytes(v->size(), kCompute<T>)));
    Convert(wide_.data(), kCompute<T>, contiguous.data, v->dtype, v->size());
    data_ = wide_.as<const T>();
    return absl::OkStatus();
  }
  const T* data() const { return data_; }

 private:
  const T* data_ = nullptr;
  Scratch copy_, wide_;
};

template <class T>
struct Norm {
  View x, y;
  int first;  // of the dims that a row spans
  int64_t rows, n;
  const T* weight;
  const T* bias;
  double eps;
  bool rms;
};

/// Few long rows: mean, variance and result are each cut over the threads.
template <class T>
absl::Status NormLongRows(const Norm<T>& k) {
  Scratch copy, wide;
  TSR_ASSIGN_OR_RETURN(const View x, MakeContiguous(k.x, &copy));
  const bool narrow = x.dtype != kCompute<T>;
  if (narrow) {
    TSR_ASSIGN_OR_RETURN(wide, Scratch::Make(Bytes(k.n, kCompute<T>)));
  }
  const auto for_pieces = [&](auto&& fn) {
    const int64_t pieces = (k.n + kBlock - 1) / kBlock;
    rt::ParallelFor(pieces, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) fn(i * kBlock, std::min(kBlock, k.n - i * kBlock));
    });
  };
  for (int64_t row = 0; row < k.rows; ++row) {
    const char* from = x.as<const char>() + Bytes(row * k.n, x.dtype);
    const T* in = reinterpret_cast<const T*>(from);
    if (narrow) {
      for_pieces(
          [&](int64_t i, int64_t m) { Convert(wide.as<T>() + i, kCompute<T>, from + Bytes(i, x.dtype), x.dtype, m); });
      in = wide.as<T>();
    }
    double acc[3];
    T mean = 0;
    if (!k.rms) {
      ReduceRow(Prim::sum, kCompute<T>, in, k.n, nullptr, acc);
      mean = static_cast<T>(AccView{acc, 1}.Value(0, 0, kCompute<T>) / static_cast<double>(k.n));
    }
    ReduceRow(Prim::dev, kCompute<T>, in, k.n, &mean, acc);
    const double var = AccView{acc, 1}.Value(1, 0, kCompute<T>) / static_cast<double>(k.n);
    const T scale = static_cast<T>(1 / std::sqrt(var + k.eps));
    for_pieces([&](int64_t i, int64_t m) {
      char* to = k.y.template as<char>() + Bytes(row * k.n + i, k.y.dtype);
      alignas(64) T buffer[kBlock];
      T* out = narrow ? buffer : reinterpret_cast<T*>(to);
      LoopsOf<T>().norm_apply(in + i, out, m, mean, scale, k.weight == nullptr ? nullptr : k.weight + i,
                              k.bias == nullptr ? nullptr : k.bias + i);
      if (narrow) Convert(to, k.y.dtype, buffer, kCompute<T>, m);
    });
  }
  return absl::OkStatus();
}

template <class T>
absl::Status NormRows(const Norm<T>& k) {
  if (k.rows < 16 && k.n >= kLongRow) return NormLongRows(k);
  const bool narrow = k.x.dtype != kCompute<T>;
  const bool gather = !ContiguousFrom(k.x, k.first);
  std::atomic<bool> failed = false;
  rt::ParallelFor(k.rows, std::max<int64_t>(kWork / k.n, 1), [&](int64_t begin, int64_t end) {
    RowScratch<T> scratch;
    if ((narrow || gather) && !scratch.Make(k.n)) {
      failed = true;
      return;
    }
    char* raw = scratch.raw;
    T* wide = scratch.wide;
    T* out = scratch.out;
    for (int64_t row = begin; row < end; ++row) {
      const void* x = raw;
      if (gather)
        GatherBlock(k.x, row * k.n, k.n, raw);
      else
        x = k.x.template as<char>() + OuterOffset(k.x, k.first, row) * static_cast<int64_t>(SizeOf(k.x.dtype));
      void* y = k.y.template as<char>() + Bytes(row * k.n, k.y.dtype);
      if (narrow) {
        Convert(wide, kCompute<T>, x, k.x.dtype, k.n);
        x = wide;
      }
      LoopsOf<T>().norm_row(static_cast<const T*>(x), narrow ? out : static_cast<T*>(y), k.n, k.eps, k.weight, k.bias,
                            k.rms);
      if (narrow) Convert(y, k.y.dtype, out, kCompute<T>, k.n);
    }
  });
  if (failed) return ResourceExhausted("no memory for a row of ", k.n, " elements");
  return absl::OkStatus();
}

template <class T>
absl::Status NormOf(const interp::KernelArgs& args, bool rms) {
  const View& x = *args.in[0];
  if (x.size() == 0) return absl::OkStatus();
  Param<T> weight, bias;
  TSR_RETURN_IF_ERROR(weight.Set(args.in.size() > 1 ? args.in[1] : nullptr));
  if (!rms) TSR_RETURN_IF_ERROR(bias.Set(args.in.size() > 2 ? args.in[2] : nullptr));
  Norm<T> k = {
      x,  *args.out[0], static_cast<int>(x.rank - args.integer(0)), 1, 1, weight.data(), bias.data(), args.number(1),
      rms};
  for (int d = 0; d < x.rank; ++d) (d < k.first ? k.rows : k.n) *= x.dims[d];
  return NormRows(k);
}

absl::Status NormAny(const interp::KernelArgs& args, bool rms) {
  return args.in[0]->dtype == DType::f64 ? NormOf<double>(args, rms) : NormOf<float>(args, rms);
}

/// mean, scale and shift of each channel, or, where `inner` is short, of each element of one outer index.
template <class T>
struct Channels {
  const T* mean;
  const T* scale;
  const T* shift;
  int64_t run;     // elements that share one channel, or 0 when there is an entry for each
  int64_t period;  // entries (run 0), else channels
};

template <class T>
void ApplyChannels(const Channels<T>& c, const T* x, T* y, int64_t first, int64_t n) {
  for (int64_t i = 0; i < n;) {
    if (c.run == 0) {
      const int64_t at = (first + i) % c.period;
      const int64_t m = std::min(n - i, c.period - at);
      LoopsOf<T>().affine_each(x + i, y + i, m, c.mean + at, c.scale + at, c.shift + at);
      i += m;
    } else {
      const int64_t at = (first + i) / c.run % c.period;
      const int64_t m = std::min(n - i, c.run - (first + i) % c.run);
      LoopsOf<T>().affine(x + i, y + i, m, c.mean[at], c.scale[at], c.shift[at]);
      i += m;
    }
  }
}

template <class T>
absl::Status BatchNormOf(const interp::KernelArgs& args) {
  const View& x = *args.in[0];
  const View& y = *args.out[0];
  TSR_ASSIGN_OR_RETURN(const AxisSplit s, SplitAtAxis(x, args.integer(0)));
  if (x.size() == 0) return absl::OkStatus();
  const auto operand = [&](size_t i) { return i < args.in.size() ? args.in[i] : nullptr; };
  Param<T> mean, var, weight, bias;
  TSR_RETURN_IF_ERROR(mean.Set(operand(1)));
  TSR_RETURN_IF_ERROR(var.Set(operand(2)));
  TSR_RETURN_IF_ERROR(weight.Set(operand(3)));
  TSR_RETURN_IF_ERROR(bias.Set(operand(4)));

  constexpr int64_t kShortRun = 64, kMostEntries = 1 << 20;
  const bool each = s.inner < kShortRun && s.extent * s.inner <= kMostEntries;
  const int64_t repeat = each ? s.inner : 1, entries = s.extent * repeat;
  TSR_ASSIGN_OR_RETURN(Scratch memory, Scratch::Make(Bytes(3 * entries, kCompute<T>)));
  T* means = memory.as<T>();
  T* scales = means + entries;
  T* shifts = scales + entries;
  for (int64_t c = 0; c < s.extent; ++c) {
    const double w = weight.data() == nullptr ? 1 : weight.data()[c];
    const T scale = static_cast<T>(w / std::sqrt(static_cast<double>(var.data()[c]) + args.number(1)));
    const T shift = bias.data() == nullptr ? T{0} : bias.data()[c];
    for (int64_t i = c * repeat; i < (c + 1) * repeat; ++i)
      means[i] = mean.data()[c], scales[i] = scale, shifts[i] = shift;
  }
  const Channels<T> channels = {means, scales, shifts, each ? 0 : s.inner, each ? entries : s.extent};

  const bool narrow = x.dtype != kCompute<T>;
  const bool gather = !x.IsContiguous();
  rt::ParallelFor(x.size(), kWork, [&](int64_t begin, int64_t end) {
    alignas(64) char raw[kBlock * 8];
    alignas(64) T wide[kBlock], out[kBlock];
    // In place there is no need for blocks.
    const int64_t step = narrow || gather ? kBlock : end - begin;
    for (int64_t first = begin; first < end; first += step) {
      const int64_t n = std::min(step, end - first);
      const void* in = x.as<const char>() + Bytes(first, x.dtype);
      if (gather) {
        GatherBlock(x, first, n, raw);
        in = raw;
      }
      if (narrow) {
        Convert(wide, kCompute<T>, in, x.dtype, n);
        in = wide;
      }
      char* to = y.as<char>() + Bytes(first, y.dtype);
      ApplyChannels(channels, static_cast<const T*>(in), narrow ? out : reinterpret_cast<T*>(to), first, n);
      if (narrow) Convert(to, y.dtype, out, kCompute<T>, n);
    }
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status k_layer_norm(const interp::KernelArgs& args) { return NormAny(args, false); }
absl::Status k_rms_norm(const interp::KernelArgs& args) { return NormAny(args, true); }
absl::Status k_batch_norm(const interp::KernelArgs& args) {
  return args.in[0]->dtype == DType::f64 ? BatchNormOf<double>(args) : BatchNormOf<float>(args);
}

}  // namespace tessera::cpu
