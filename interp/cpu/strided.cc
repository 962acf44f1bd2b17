#include "interp/cpu/strided.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "interp/cpu/copy_loops.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {

absl::StatusOr<Scratch> Scratch::Make(size_t bytes) {
  TSR_ASSIGN_OR_RETURN(void* data, rt::Cpu().Allocate(bytes));
  Scratch s;
  s.data_ = data;
  s.bytes_ = bytes;
  return s;
}

Scratch::Scratch(Scratch&& o) noexcept : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}

Scratch& Scratch::operator=(Scratch&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(bytes_, o.bytes_);
  return *this;
}

Scratch::~Scratch() {
  if (data_ != nullptr) rt::Cpu().Free(data_, bytes_);
}

namespace {

/// The dims of a view with byte strides, those of 1 dropped and those that one stride walks merged; at least one.
struct Walk {
  int rank = 0;
  int64_t dims[kMaxRank];
  int64_t strides[kMaxRank];

  Walk(const View& v, int64_t size) {
    for (int i = 0; i < v.rank; ++i) {
      if (v.dims[i] == 1) continue;
      const int64_t stride = v.strides[i] * size;
      if (rank > 0 && strides[rank - 1] == stride * v.dims[i]) {
        dims[rank - 1] *= v.dims[i];
        strides[rank - 1] = stride;
      } else {
        dims[rank] = v.dims[i];
        strides[rank++] = stride;
      }
    }
    if (rank == 0) {
      dims[0] = 1;
      strides[0] = size;
      rank = 1;
    }
  }
};

/// Calls leaf(offset, row_stride, col_stride, rows, cols) for the 2-d pieces, in order, that make up elements
/// [first, first + n) of the view. offset and strides count bytes of the view.
template <class Leaf>
inline void ForPieces(const View& v, int64_t first, int64_t n, int64_t size, Leaf leaf) {
  const Walk w(v, size);
  const int inner = w.rank - 1;
  const int64_t cols = w.dims[inner], col_stride = w.strides[inner];
  int64_t index[kMaxRank] = {};
  int64_t offset = 0;
  int64_t rest = first;
  for (int i = inner; i > 0 && rest != 0; --i) {
    const int64_t q = rest / w.dims[i];
    index[i] = rest - q * w.dims[i];
    offset += index[i] * w.strides[i];
    rest = q;
  }
  index[0] += rest;
  offset += rest * w.strides[0];
  if (inner == 0) return leaf(offset, col_stride, col_stride, int64_t{1}, n);
  const int64_t row_stride = w.strides[inner - 1];
  for (;;) {
    const int64_t col = index[inner];
    int64_t rows = 1;
    if (col != 0 || n < cols) {
      const int64_t part = std::min(cols - col, n);
      leaf(offset, row_stride, col_stride, int64_t{1}, part);
      n -= part;
      offset -= col * col_stride;
      index[inner] = 0;
    } else {
      rows = std::min(w.dims[inner - 1] - index[inner - 1], n / cols);
      leaf(offset, row_stride, col_stride, rows, cols);
      n -= rows * cols;
    }
    if (n == 0) return;
    index[inner - 1] += rows;
    offset += rows * row_stride;
    for (int i = inner - 1; i > 0 && index[i] == w.dims[i]; --i) {
      offset += w.strides[i - 1] - w.dims[i] * w.strides[i];
      index[i] = 0;
      ++index[i - 1];
    }
  }
}

}  // namespace

void GatherBlock(const View& v, int64_t first, int64_t n, void* dst) {
  if (n <= 0) return;
  const int size = static_cast<int>(SizeOf(v.dtype));
  const char* base = v.as<const char>();
  char* to = static_cast<char*>(dst);
  ForPieces(v, first, n, size, [&](int64_t offset, int64_t row, int64_t col, int64_t rows, int64_t cols) {
    CopyTile({to, cols * size, size, base + offset, row, col, rows, cols}, size);
    to += rows * cols * size;
  });
}

void ScatterBlock(const View& v, int64_t first, int64_t n, const void* src) {
  if (n <= 0) return;
  const int size = static_cast<int>(SizeOf(v.dtype));
  char* base = v.as<char>();
  const char* from = static_cast<const char*>(src);
  ForPieces(v, first, n, size, [&](int64_t offset, int64_t row, int64_t col, int64_t rows, int64_t cols) {
    CopyTile({base + offset, row, col, from, cols * size, size, rows, cols}, size);
    from += rows * cols * size;
  });
}

namespace {

struct CopyDim {
  int64_t dim, dst, src;  // strides in bytes
};

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t Magnitude(int64_t x) { return x < 0 ? -x : x; }

/// The dims of a copy ordered for dst: its strides positive and falling, dims of 1 dropped, dims merged that both walk
/// alike.
struct CopyPlan {
  int rank = 0;
  CopyDim d[kMaxRank];
  char* dst;
  const char* src;

  CopyPlan(const View& to, const View& from, int64_t size) : dst(to.as<char>()), src(from.as<const char>()) {
    for (int i = 0; i < to.rank; ++i) {
      if (to.dims[i] == 1) continue;
      CopyDim x = {to.dims[i], to.strides[i] * size, from.strides[i] * size};
      if (x.dst < 0) {
        dst += (x.dim - 1) * x.dst;
        src += (x.dim - 1) * x.src;
        x.dst = -x.dst;
        x.src = -x.src;
      }
      int at = rank++;
      for (; at > 0 && d[at - 1].dst < x.dst; --at) d[at] = d[at - 1];
      d[at] = x;
    }
    if (rank == 0) d[rank++] = {1, size, size};
    int kept = 0;
    for (int i = 1; i < rank; ++i) {
      if (d[kept].dst == d[i].dst * d[i].dim && d[kept].src == d[i].src * d[i].dim) {
        d[kept] = {d[kept].dim * d[i].dim, d[i].dst, d[i].src};
      } else {
        d[++kept] = d[i];
      }
    }
    rank = kept + 1;
  }
};

}  // namespace

void CopyStrided(const View& dst, const View& src) {
  const int64_t n = dst.size();
  if (n == 0) return;
  const int size = static_cast<int>(SizeOf(dst.dtype));
  const CopyPlan p(dst, src, size);
  const int64_t grain = rt::options().parallel_grain();
  const CopyDim col = p.d[p.rank - 1];
  if (p.rank == 1) {
    rt::ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
      CopyTile({p.dst + begin * col.dst, 0, col.dst, p.src + begin * col.src, 0, col.src, 1, end - begin}, size);
    });
    return;
  }

  // Tiles over two dims: the one along which dst is dense, and either the next one or, for a transpose, the one along
  // which src is denser than that.
  int row_at = p.rank - 2;
  bool transpose = false;
  if (col.src != 0 && col.src != size) {
    int64_t best = Magnitude(col.src);
    for (int i = p.rank - 2; i >= 0; --i) {
      if (p.d[i].src != 0 && Magnitude(p.d[i].src) < best) {
        best = Magnitude(p.d[i].src);
        row_at = i;
        transpose = true;
      }
    }
  }
  const CopyDim row = p.d[row_at];
  CopyDim outer[kMaxRank];
  int outer_rank = 0;
  for (int i = 0; i < p.rank - 1; ++i)
    if (i != row_at) outer[outer_rank++] = p.d[i];
  const int64_t tile_cols = std::min<int64_t>(col.dim, transpose ? kTransposeCols : 16384);
  const int64_t tile_rows =
      std::min<int64_t>(row.dim, transpose ? kTransposeRunBytes / size : std::max<int64_t>(1, 16384 / tile_cols));
  const int64_t row_tiles = CeilDiv(row.dim, tile_rows), col_tiles = CeilDiv(col.dim, tile_cols);
  int64_t tiles = row_tiles * col_tiles;
  for (int i = 0; i < outer_rank; ++i) tiles *= outer[i].dim;

  rt::ParallelFor(tiles, std::max<int64_t>(1, grain / (tile_rows * tile_cols)), [&](int64_t begin, int64_t end) {
    int64_t index[kMaxRank] = {};
    int64_t rest = begin;
    int64_t c = rest % col_tiles;
    rest /= col_tiles;
    int64_t r = rest % row_tiles;
    rest /= row_tiles;
    char* to = p.dst;
    const char* from = p.src;
    for (int i = outer_rank - 1; i >= 0; --i) {
      index[i] = rest % outer[i].dim;
      rest /= outer[i].dim;
      to += index[i] * outer[i].dst;
      from += index[i] * outer[i].src;
    }
    for (int64_t t = begin; t < end; ++t) {
      const int64_t r0 = r * tile_rows, c0 = c * tile_cols;
      CopyTile({to + r0 * row.dst + c0 * col.dst, row.dst, col.dst, from + r0 * row.src + c0 * col.src, row.src,
                col.src, std::min(tile_rows, row.dim - r0), std::min(tile_cols, col.dim - c0)},
               size);
      if (++c < col_tiles) continue;
      c = 0;
      if (++r < row_tiles) continue;
      r = 0;
      for (int i = outer_rank - 1; i >= 0; --i) {
        to += outer[i].dst;
        from += outer[i].src;
        if (++index[i] < outer[i].dim) break;
        index[i] = 0;
        to -= outer[i].dim * outer[i].dst;
        from -= outer[i].dim * outer[i].src;
      }
    }
  });
}

absl::StatusOr<View> MakeContiguous(const View& v, Scratch* scratch) {
  if (v.IsContiguous()) return v;
  TSR_ASSIGN_OR_RETURN(*scratch, Scratch::Make(v.size() * SizeOf(v.dtype)));
  View copy = v;
  copy.SetContiguousStrides();
  copy.data = scratch->data();
  CopyStrided(copy, v);
  return copy;
}

View Permuted(const View& v, const int* perm) {
  View out = v;
  for (int i = 0; i < v.rank; ++i) {
    out.dims[i] = v.dims[perm[i]];
    out.strides[i] = v.strides[perm[i]];
  }
  return out;
}

View BroadcastTo(const View& v, const TensorType& out) {
  View y = v;
  y.rank = out.rank;
  const int missing = out.rank - v.rank;
  for (int i = 0; i < out.rank; ++i) {
    y.dims[i] = out.dims[i];
    const int j = i - missing;
    y.strides[i] = j < 0 || (v.dims[j] == 1 && out.dims[i] != 1) ? 0 : v.strides[j];
  }
  return y;
}

void Coalesce(View* views, int n) {
  View& first = views[0];
  int kept = 0;
  for (int i = 0; i < first.rank; ++i) {
    const int64_t dim = first.dims[i];
    if (dim == 1) continue;
    bool merge = kept > 0;
    for (int v = 0; v < n && merge; ++v) merge = views[v].strides[kept - 1] == views[v].strides[i] * dim;
    if (merge) --kept;
    for (int v = 0; v < n; ++v) {
      views[v].dims[kept] = merge ? views[v].dims[kept] * dim : dim;
      views[v].strides[kept] = views[v].strides[i];
    }
    ++kept;
  }
  for (int v = 0; v < n; ++v) views[v].rank = static_cast<uint8_t>(kept);
}

}  // namespace tessera::cpu
