// How a reduction finds its elements. The view is seen with kept dims first and reduced dims last, each group with
// neighbouring dims merged where strides allow. Then one of three walks applies:
//
//   rows    the innermost reduced dim is contiguous and long, or all there is: rows are read in place
//   cols    the innermost kept dim is contiguous: whole rows are added into a tile of accumulators
//   gather  anything else: blocks are copied together, then as rows
//
// Outputs are cut into tiles. Where those are too few to occupy the threads, the reduced extent is cut too, into
// chunks whose results are combined in order. All cuts depend on dims and strides alone.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "interp/cpu/reduce.h"
#include "interp/cpu/strided.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {

const ReduceLoop& FindLoop(Prim prim, DType compute) {
  static const ReduceLoops& loops = TSR_SELECT_ISA(kReduceLoops);
  return loops.loops[static_cast<int>(prim)][static_cast<int>(LoopTypeOf(compute))];
}

namespace {

constexpr int64_t kTile = 1024;        // outputs that one tile holds
constexpr int64_t kWork = 32768;       // elements that a tile or a call of the pool should have at least
constexpr int64_t kChunkWork = 65536;  // elements of one chunk of a reduced extent
constexpr int64_t kMaxSplit = 64;      // chunks of one reduced extent
constexpr int64_t kEnoughTiles = 16;   // no need to cut the reduced extent
constexpr int64_t kLongRun = 256;      // contiguous elements worth reading in place
constexpr int kMaxComponents = 3;

enum class Walk { rows, cols, gather };

struct Plan {
  Walk walk;
  View v;  // kept dims, then reduced dims
  int kept, reduced;
  int64_t outputs = 1, extent = 1;
  DType compute;
  bool narrow;
  int64_t tile;           // outputs per tile
  int64_t tiles_per_row;  // cols: tiles of one contiguous run of outputs
  int64_t tiles;
  int64_t chunk, chunks;  // of the reduced extent

  int64_t run_cols() const { return v.dims[kept - 1]; }
  const char* at(int64_t offset) const {
    return static_cast<const char*>(v.data) + offset * static_cast<int64_t>(SizeOf(v.dtype));
  }
  void TileRange(int64_t t, int64_t* begin, int64_t* end) const {
    if (walk == Walk::cols) {
      const int64_t row = t / tiles_per_row, part = t % tiles_per_row;
      *begin = row * run_cols() + part * tile;
      *end = std::min(*begin + tile, (row + 1) * run_cols());
    } else {
      *begin = t * tile;
      *end = std::min(*begin + tile, outputs);
    }
  }
};

/// The offset of row-major element `i` of `n` dims.
int64_t Offset(const int64_t* dims, const int64_t* strides, int n, int64_t i) {
  int64_t offset = 0;
  for (int d = n - 1; d >= 0; --d) {
    offset += i % dims[d] * strides[d];
    i /= dims[d];
  }
  return offset;
}

/// Appends dims to v, merging each with the one before where they walk as one. `first` is where the group began.
void Append(View* v, int first, int64_t dim, int64_t stride) {
  if (dim == 1) return;
  if (v->rank > first && v->strides[v->rank - 1] == stride * dim) {
    v->dims[v->rank - 1] *= dim;
    v->strides[v->rank - 1] = stride;
    return;
  }
  v->dims[v->rank] = dim;
  v->strides[v->rank] = stride;
  ++v->rank;
}

Plan MakePlan(const View& x, uint32_t axes) {
  Plan p;
  p.v.dtype = x.dtype;
  p.v.data = x.data;
  p.v.rank = 0;
  int order[kMaxRank], n = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (axes >> d & 1) {
      p.extent *= x.dims[d];
      order[n++] = d;
    } else {
      p.outputs *= x.dims[d];
      Append(&p.v, 0, x.dims[d], x.strides[d]);
    }
  }
  p.kept = p.v.rank;
  if (p.outputs == 0) return p;
  // Reduced dims may be walked in any order, so in that of memory.
  for (int i = 1; i < n; ++i)
    for (int j = i; j > 0 && std::abs(x.strides[order[j]]) > std::abs(x.strides[order[j - 1]]); --j)
      std::swap(order[j], order[j - 1]);
  for (int i = 0; i < n; ++i) Append(&p.v, p.kept, x.dims[order[i]], x.strides[order[i]]);
  p.reduced = p.v.rank - p.kept;
  p.compute = ComputeDType(x.dtype);
  p.narrow = p.compute != x.dtype;

  const bool one_run = p.reduced == 0 || (p.reduced == 1 && p.v.strides[p.kept] == 1);
  const bool long_run = p.reduced > 0 && p.v.strides[p.v.rank - 1] == 1 && p.v.dims[p.v.rank - 1] >= kLongRun;
  const bool contiguous_cols = p.kept > 0 && p.v.strides[p.kept - 1] == 1;
  if (p.narrow ? long_run : (one_run && p.extent > 1) || long_run) {
    p.walk = Walk::rows;
  } else if (contiguous_cols && (p.run_cols() >= 16 || p.run_cols() * p.extent >= 1024)) {
    p.walk = Walk::cols;
  } else {
    p.walk = Walk::gather;
  }

  if (p.walk == Walk::cols) {
    p.tile = std::min(p.run_cols(), p.narrow ? kTile / 2 : kTile);
    p.tiles_per_row = (p.run_cols() + p.tile - 1) / p.tile;
    p.tiles = p.outputs / p.run_cols() * p.tiles_per_row;
  } else {
    p.tile = std::clamp<int64_t>(kWork / std::max<int64_t>(p.extent, 1), 1, kTile);
    p.tiles_per_row = 1;
    p.tiles = (p.outputs + p.tile - 1) / p.tile;
  }
  const int64_t unit = p.walk == Walk::cols ? kReduceRowGroup : kReduceBlock;
  const int64_t per_output = p.walk == Walk::cols ? kChunkWork / p.tile : kChunkWork;
  p.chunk = std::max(per_output, (p.extent + kMaxSplit - 1) / kMaxSplit);
  p.chunk = (p.chunk + unit - 1) / unit * unit;
  p.chunks = p.tiles >= kEnoughTiles ? 1 : std::max<int64_t>(1, (p.extent + p.chunk - 1) / p.chunk);
  if (p.chunks == 1) p.chunk = p.extent;
  return p;
}

struct Buffers {
  alignas(64) char raw[kReduceBlock * 8];
  alignas(64) float wide[kReduceBlock];
};

/// Brings n contiguous elements to the compute dtype.
const void* Widen(const Plan& p, const void* x, int64_t n, Buffers* b) {
  if (!p.narrow) return x;
  Convert(b->wide, DType::f32, x, p.v.dtype, n);
  return b->wide;
}

const void* ParamAt(const Plan& p, const void* param, int64_t i) {
  return param == nullptr ? nullptr : static_cast<const char*>(param) + i * static_cast<int64_t>(SizeOf(p.compute));
}

void GatherRows(const Plan& p, const ReduceLoop& loop, int64_t k0, int64_t k1, int64_t r0, int64_t r1,
                const void* param, char* acc, Buffers* b) {
  if (r0 == 0 && r1 == p.extent && p.extent <= kReduceBlock) {
    const int64_t most = kReduceBlock / p.extent;
    for (int64_t k = k0; k < k1; k += most) {
      const int64_t n = std::min(most, k1 - k);
      GatherBlock(p.v, k * p.extent, n * p.extent, b->raw);
      loop.rows(Widen(p, b->raw, n * p.extent, b), p.extent, n, p.extent, 0, ParamAt(p, param, k - k0),
                acc + (k - k0) * loop.acc_bytes, kTile);
    }
    return;
  }
  for (int64_t k = k0; k < k1; ++k) {
    for (int64_t r = r0; r < r1; r += kReduceBlock) {
      const int64_t n = std::min(kReduceBlock, r1 - r);
      GatherBlock(p.v, k * p.extent + r, n, b->raw);
      loop.rows(Widen(p, b->raw, n, b), n, 1, n, r, ParamAt(p, param, k - k0), acc + (k - k0) * loop.acc_bytes, kTile);
    }
  }
}

void ReadRows(const Plan& p, const ReduceLoop& loop, int64_t k0, int64_t k1, int64_t r0, int64_t r1, const void* param,
              char* acc, Buffers* b) {
  const int64_t* rdims = p.v.dims + p.kept;
  const int64_t* rstrides = p.v.strides + p.kept;
  const int64_t run = p.reduced == 0 ? 1 : rdims[p.reduced - 1];
  const int64_t rows = p.kept == 0 ? 1 : p.v.dims[p.kept - 1];
  const int64_t row_stride = p.kept == 0 ? 0 : p.v.strides[p.kept - 1];
  for (int64_t k = k0; k < k1;) {
    const int64_t base = Offset(p.v.dims, p.v.strides, p.kept, k);
    // Rows k to k + n stand at equal distances.
    const int64_t n = p.narrow ? 1 : std::min(k1 - k, rows - k % rows);
    for (int64_t r = r0; r < r1;) {
      int64_t m = std::min(r1 - r, run - r % run);
      if (p.narrow) m = std::min(m, kReduceBlock);
      const void* x = p.at(base + Offset(rdims, rstrides, p.reduced, r));
      loop.rows(Widen(p, x, m, b), row_stride, n, m, r, ParamAt(p, param, k - k0), acc + (k - k0) * loop.acc_bytes,
                kTile);
      r += m;
    }
    k += n;
  }
}

void ReadCols(const Plan& p, const ReduceLoop& loop, int64_t k0, int64_t k1, int64_t r0, int64_t r1, const void* param,
              char* acc, Buffers* b) {
  const int64_t* rdims = p.v.dims + p.kept;
  const int64_t* rstrides = p.v.strides + p.kept;
  const int64_t run = p.reduced == 0 ? 1 : rdims[p.reduced - 1];
  const int64_t row_stride = p.reduced == 0 ? 0 : rstrides[p.reduced - 1];
  const int64_t base = Offset(p.v.dims, p.v.strides, p.kept, k0);
  const int64_t n = k1 - k0;
  const int64_t group =
      p.narrow ? std::max<int64_t>(kReduceBlock / n / kReduceRowGroup, 1) * kReduceRowGroup : INT64_MAX;
  for (int64_t r = r0; r < r1;) {
    const int64_t m = std::min({r1 - r, run - r % run, group});
    const char* x = p.at(base + Offset(rdims, rstrides, p.reduced, r));
    if (p.narrow) {
      for (int64_t i = 0; i < m; ++i)
        Convert(b->wide + i * n, DType::f32, x + i * row_stride * static_cast<int64_t>(SizeOf(p.v.dtype)), p.v.dtype,
                n);
      loop.cols(b->wide, n, m, n, r, param, acc, kTile);
    } else {
      loop.cols(x, row_stride, m, n, r, param, acc, kTile);
    }
    r += m;
  }
}

/// Adds elements [r0, r1) of outputs [k0, k1), which are one tile.
void Accumulate(const Plan& p, const ReduceLoop& loop, int64_t k0, int64_t k1, int64_t r0, int64_t r1,
                const void* param, void* acc, Buffers* b) {
  if (r0 >= r1) return;
  char* a = static_cast<char*>(acc);
  switch (p.walk) {
    case Walk::rows: return ReadRows(p, loop, k0, k1, r0, r1, param, a, b);
    case Walk::cols: return ReadCols(p, loop, k0, k1, r0, r1, param, a, b);
    case Walk::gather: return GatherRows(p, loop, k0, k1, r0, r1, param, a, b);
  }
}

void Finish(const Reduction& red, const AccView& acc, const void* param, int64_t k0, int64_t n, const View& out) {
  char* y = out.as<char>() + k0 * static_cast<int64_t>(SizeOf(out.dtype));
  if (red.result == out.dtype) {
    red.finish(red, acc, param, n, y);
  } else {
    alignas(64) char results[kTile * 8];
    red.finish(red, acc, param, n, results);
    Convert(y, out.dtype, results, red.result, n);
  }
}

struct TileSpace {
  alignas(64) double acc[kMaxComponents * kTile];
  alignas(64) double param[kTile];
  Buffers buffers;
};

void RunTile(const Plan& p, const Reduction& red, int64_t t, const View& out, TileSpace* s) {
  int64_t k0, k1;
  p.TileRange(t, &k0, &k1);
  const int64_t n = k1 - k0;
  const ReduceLoop* loop = &FindLoop(red.prim, p.compute);
  loop->init(s->acc, kTile, n);
  Accumulate(p, *loop, k0, k1, 0, p.extent, nullptr, s->acc, &s->buffers);
  const void* param = nullptr;
  if (red.param != nullptr) {
    red.param(red, {s->acc, kTile}, n, s->param);
    param = s->param;
    loop = &FindLoop(red.second, p.compute);
    loop->init(s->acc, kTile, n);
    Accumulate(p, *loop, k0, k1, 0, p.extent, param, s->acc, &s->buffers);
  }
  Finish(red, {s->acc, kTile}, param, k0, n, out);
}

/// Few outputs, each of many elements: one accumulator tile per chunk, combined into that of chunk 0.
absl::Status RunSplit(const Plan& p, const Reduction& red, const View& out) {
  constexpr int64_t kTileBytes = kMaxComponents * kTile * 8;
  TSR_ASSIGN_OR_RETURN(Scratch acc_memory, Scratch::Make(static_cast<size_t>(p.tiles * p.chunks * kTileBytes)));
  TSR_ASSIGN_OR_RETURN(Scratch param_memory, Scratch::Make(static_cast<size_t>(p.tiles * kTile * 8)));
  char* accs = acc_memory.as<char>();
  char* params = param_memory.as<char>();
  const auto pass = [&](Prim prim, bool with_param) {
    const ReduceLoop& loop = FindLoop(prim, p.compute);
    rt::ParallelFor(p.tiles * p.chunks, 1, [&](int64_t begin, int64_t end) {
      Buffers buffers;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t t = i / p.chunks, r0 = i % p.chunks * p.chunk;
        int64_t k0, k1;
        p.TileRange(t, &k0, &k1);
        loop.init(accs + i * kTileBytes, kTile, k1 - k0);
        Accumulate(p, loop, k0, k1, r0, std::min(r0 + p.chunk, p.extent), with_param ? params + t * kTile * 8 : nullptr,
                   accs + i * kTileBytes, &buffers);
      }
    });
    for (int64_t t = 0; t < p.tiles; ++t) {
      int64_t k0, k1;
      p.TileRange(t, &k0, &k1);
      for (int64_t c = 1; c < p.chunks; ++c)
        loop.combine(accs + t * p.chunks * kTileBytes, kTile, accs + (t * p.chunks + c) * kTileBytes, kTile, k1 - k0);
    }
  };
  pass(red.prim, false);
  for (int phase = 0; phase < 2; ++phase) {
    for (int64_t t = 0; t < p.tiles; ++t) {
      int64_t k0, k1;
      p.TileRange(t, &k0, &k1);
      const AccView acc = {accs + t * p.chunks * kTileBytes, kTile};
      char* param = params + t * kTile * 8;
      if (phase == 0 && red.param != nullptr) red.param(red, acc, k1 - k0, param);
      if (phase == 1) Finish(red, acc, red.param != nullptr ? param : nullptr, k0, k1 - k0, out);
    }
    if (phase == 0 && red.param != nullptr) pass(red.second, true);
  }
  return absl::OkStatus();
}

}  // namespace

void ReduceRow(Prim prim, DType compute, const void* x, int64_t n, const void* param, double* acc) {
  const ReduceLoop& loop = FindLoop(prim, compute);
  int64_t chunk = std::max(kChunkWork, (n + kMaxSplit - 1) / kMaxSplit);
  chunk = (chunk + kReduceBlock - 1) / kReduceBlock * kReduceBlock;
  const int64_t chunks = std::max<int64_t>(1, (n + chunk - 1) / chunk);
  double parts[kMaxSplit][kMaxComponents];
  rt::ParallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * chunk;
      loop.init(parts[i], 1, 1);
      loop.rows(static_cast<const char*>(x) + first * static_cast<int64_t>(SizeOf(compute)), 0, 1,
                std::min(chunk, n - first), first, param, parts[i], 1);
    }
  });
  for (int64_t i = 1; i < chunks; ++i) loop.combine(parts[0], 1, parts[i], 1, 1);
  std::memcpy(acc, parts[0], sizeof(parts[0]));
}

absl::Status RunReduction(const View& x, uint32_t axes, Reduction red, const View& out) {
  const Plan p = MakePlan(x, axes);
  if (p.outputs == 0) return absl::OkStatus();
  red.compute = p.compute;
  red.count = p.extent;
  if (p.chunks > 1) return RunSplit(p, red, out);
  const int64_t work = std::max<int64_t>(p.tile * p.extent, 1);
  rt::ParallelFor(p.tiles, std::max<int64_t>(kWork / work, 1), [&](int64_t begin, int64_t end) {
    TileSpace space;
    for (int64_t t = begin; t < end; ++t) RunTile(p, red, t, out, &space);
  });
  return absl::OkStatus();
}

}  // namespace tessera::cpu
