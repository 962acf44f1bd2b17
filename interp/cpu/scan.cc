// Running sums. Floats run in f64 (f64 with what rounding lost kept beside), integers in wrapping i64.
#include <algorithm>
#include <cstring>

#include "interp/cpu/axis.h"
#include "interp/cpu/convert.h"
#include "interp/cpu/reduce.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kBlock = kReduceBlock;
constexpr int64_t kTile = 512;           // columns that run side by side
constexpr int64_t kWork = 32768;         // elements worth a call of the pool
constexpr int64_t kChunk = 16 * kBlock;  // a long row is cut at multiples of it

struct Scan {
  View x, y;
  AxisSplit s;
  DType compute, result;  // y's dtype before it is narrowed
  bool exclusive, reverse;
  const ScanLoop* loop;

  const char* x_at(int64_t offset) const { return x.as<const char>() + offset * static_cast<int64_t>(SizeOf(x.dtype)); }
  char* y_at(int64_t offset) const { return y.as<char>() + offset * static_cast<int64_t>(SizeOf(y.dtype)); }
};

struct Buffers {
  alignas(64) char raw[kBlock * 8];
  alignas(64) char wide[kBlock * 8];
  alignas(64) char out[kBlock * 8];
};

/// A running sum; integers use the bits of `sum`.
struct Carry {
  double sum = 0;
  double lost = 0;
};

/// Elements [r0, r1) of row `outer` where nothing follows the axis.
void ScanRow(const Scan& k, int64_t outer, int64_t r0, int64_t r1, Carry carry, Buffers* b) {
  const int axis = k.s.axis;
  const bool direct = k.x.strides[axis] == 1 && k.compute == k.x.dtype;
  const int64_t base = direct ? OuterOffset(k.x, axis, outer) : 0;
  const int64_t blocks = (r1 - r0 + kBlock - 1) / kBlock;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t r = r0 + (k.reverse ? blocks - 1 - i : i) * kBlock;
    const int64_t n = std::min(kBlock, r1 - r);
    const void* x = b->raw;
    if (direct) {
      x = k.x_at(base + r);
    } else {
      GatherBlock(k.x, outer * k.s.extent + r, n, b->raw);
      if (k.compute != k.x.dtype) {
        Convert(b->wide, k.compute, b->raw, k.x.dtype, n);
        x = b->wide;
      }
    }
    char* y = k.y_at(outer * k.s.extent + r);
    const bool narrow = k.result != k.y.dtype;
    k.loop->row(x, narrow ? b->out : y, n, k.exclusive, k.reverse, &carry.sum, &carry.lost);
    if (narrow) Convert(y, k.y.dtype, b->out, k.result, n);
  }
}

void Advance(DType compute, const double* acc, Carry* carry) {
  if (!IsFloat(compute)) {
    uint64_t a, b;
    std::memcpy(&a, &carry->sum, 8);
    std::memcpy(&b, acc, 8);
    a += b;
    std::memcpy(&carry->sum, &a, 8);
    return;
  }
  FindLoop(Prim::sum, DType::f64).combine(&carry->sum, 1, acc, 1, 1);
}

/// Few long rows: the sums of chunks first, then each chunk from where the one before ends.
void ScanLongRows(const Scan& k) {
  const int64_t chunks = (k.s.extent + kChunk - 1) / kChunk;
  const ReduceLoop& sum = FindLoop(Prim::sum, k.compute);
  for (int64_t outer = 0; outer < k.s.outer; ++outer) {
    absl::InlinedVector<Carry, 64> starts(static_cast<size_t>(chunks));
    rt::ParallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
      Buffers b;
      for (int64_t c = begin; c < end; ++c) {
        double* acc = &starts[static_cast<size_t>(c)].sum;
        sum.init(acc, 1, 1);
        for (int64_t r = c * kChunk; r < std::min((c + 1) * kChunk, k.s.extent); r += kBlock) {
          const int64_t n = std::min(kBlock, k.s.extent - r);
          GatherBlock(k.x, outer * k.s.extent + r, n, b.raw);
          const void* x = b.raw;
          if (k.compute != k.x.dtype) {
            Convert(b.wide, k.compute, b.raw, k.x.dtype, n);
            x = b.wide;
          }
          sum.rows(x, n, 1, n, r, nullptr, acc, 1);
        }
      }
    });
    Carry carry;
    for (int64_t i = 0; i < chunks; ++i) {
      const int64_t c = k.reverse ? chunks - 1 - i : i;
      const Carry of_chunk = starts[static_cast<size_t>(c)];
      starts[static_cast<size_t>(c)] = carry;
      const double acc[2] = {of_chunk.sum, of_chunk.lost};
      Advance(k.compute, acc, &carry);
    }
    rt::ParallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
      Buffers b;
      for (int64_t c = begin; c < end; ++c)
        ScanRow(k, outer, c * kChunk, std::min((c + 1) * kChunk, k.s.extent), starts[static_cast<size_t>(c)], &b);
    });
  }
}

/// Columns [c0, c0 + n) of one outer index.
void ScanCols(const Scan& k, int64_t outer, int64_t c0, int64_t n, Buffers* b) {
  alignas(64) double carry[kTile] = {}, lost[kTile] = {};
  const int64_t inner = k.s.inner, extent = k.s.extent;
  const bool direct = k.compute == k.x.dtype && InnerContiguous(k.x, k.s.axis);
  const bool narrow = k.result != k.y.dtype;
  const int64_t base = direct ? OuterOffset(k.x, k.s.axis, outer) + c0 : 0;
  const int64_t step = static_cast<int64_t>(SizeOf(k.compute)), y_step = static_cast<int64_t>(SizeOf(k.result));
  const int64_t most = n == inner ? std::max<int64_t>(kBlock / n, 1) : 1;
  const int64_t blocks = (extent + most - 1) / most;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t r0 = (k.reverse ? blocks - 1 - i : i) * most;
    const int64_t rows = std::min(most, extent - r0);
    const char* x = b->raw;
    int64_t x_row = n * step;
    if (direct) {
      x = k.x_at(base + r0 * k.x.strides[k.s.axis]);
      x_row = k.x.strides[k.s.axis] * step;
    } else {
      GatherBlock(k.x, (outer * extent + r0) * inner + c0, rows * n, b->raw);
      if (k.compute != k.x.dtype) {
        Convert(b->wide, k.compute, b->raw, k.x.dtype, rows * n);
        x = b->wide;
      }
    }
    char* y = k.y_at((outer * extent + r0) * inner + c0);
    char* to = narrow ? b->out : y;
    for (int64_t j = 0; j < rows; ++j) {
      const int64_t r = k.reverse ? rows - 1 - j : j;
      k.loop->step(x + r * x_row, to + r * n * y_step, n, k.exclusive, carry, lost);
    }
    if (narrow) Convert(y, k.y.dtype, b->out, k.result, rows * n);
  }
}

}  // namespace

absl::Status k_cumsum(const interp::KernelArgs& args) {
  static const ScanLoops& loops = TSR_SELECT_ISA(kScanLoops);
  Scan k;
  k.x = *args.in[0];
  k.y = *args.out[0];
  TSR_ASSIGN_OR_RETURN(k.s, SplitAtAxis(k.x, args.integer(0)));
  if (k.x.size() == 0) return absl::OkStatus();
  k.exclusive = args.flag(1);
  k.reverse = args.flag(2);
  k.compute = ComputeDType(k.x.dtype);
  k.result = IsFloat(k.compute) ? k.compute : DType::i64;
  k.loop = &loops.loops[static_cast<int>(LoopTypeOf(k.compute))];
  const AxisSplit& s = k.s;
  if (s.inner == 1) {
    if (s.outer < 16 && s.extent > 2 * kChunk) {
      ScanLongRows(k);
      return absl::OkStatus();
    }
    rt::ParallelFor(s.outer, std::max<int64_t>(kWork / s.extent, 1), [&](int64_t begin, int64_t end) {
      Buffers b;
      for (int64_t o = begin; o < end; ++o) ScanRow(k, o, 0, s.extent, Carry(), &b);
    });
    return absl::OkStatus();
  }
  const int64_t tile = std::min(s.inner, std::clamp<int64_t>(s.inner / 16 / 16 * 16, 16, kTile));
  const int64_t tiles = (s.inner + tile - 1) / tile;
  rt::ParallelFor(s.outer * tiles, std::max<int64_t>(kWork / (s.extent * tile), 1), [&](int64_t begin, int64_t end) {
    Buffers b;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c0 = i % tiles * tile;
      ScanCols(k, i / tiles, c0, std::min(tile, s.inner - c0), &b);
    }
  });
  return absl::OkStatus();
}

}  // namespace tessera::cpu
