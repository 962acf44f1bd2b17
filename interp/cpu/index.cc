// Kernels that read at indices: take, embedding, take_along_axis, gather; and one_hot.
#include <algorithm>
#include <cstring>

#include "interp/cpu/convert.h"
#include "interp/cpu/ids.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

int Axis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

int64_t GrainOf(int64_t elements) {
  return std::max<int64_t>(1, rt::options().parallel_grain() / std::max<int64_t>(1, elements));
}

template <class T>
void CopyElements(char* dst, const char* base, const int64_t* offsets, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * sizeof(T), base + offsets[i] * int64_t{sizeof(T)}, sizeof(T));
}

/// Copies rows: the dims of x from `from` on, at any offset, to contiguous memory.
class RowReader {
 public:
  RowReader(const View& x, int from) : row_(x), size_(SizeOf(x.dtype)) {
    row_.rank = static_cast<uint8_t>(x.rank - from);
    for (int i = from; i < x.rank; ++i) {
      row_.dims[i - from] = x.dims[i];
      row_.strides[i - from] = x.strides[i];
    }
    length_ = row_.size();
    contiguous_ = row_.IsContiguous();
  }
  int64_t length() const { return length_; }

  /// Rows at x.data + offsets[i], counted in elements, for i < n.
  void Read(const int64_t* offsets, int64_t n, char* dst) const {
    const char* base = row_.as<const char>();
    const int64_t bytes = length_ * size_;
    if (length_ == 1) {
      switch (size_) {
        case 1: return CopyElements<uint8_t>(dst, base, offsets, n);
        case 2: return CopyElements<uint16_t>(dst, base, offsets, n);
        case 4: return CopyElements<uint32_t>(dst, base, offsets, n);
        default: return CopyElements<uint64_t>(dst, base, offsets, n);
      }
    }
    if (contiguous_) {
      for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * bytes, base + offsets[i] * size_, bytes);
      return;
    }
    View row = row_;
    for (int64_t i = 0; i < n; ++i) {
      row.data = const_cast<char*>(base) + offsets[i] * size_;
      GatherBlock(row, 0, length_, dst + i * bytes);
    }
  }

 private:
  View row_;
  int64_t size_;
  int64_t length_;
  bool contiguous_;
};

/// The offset, in elements, of row-major index number `at` of x's first n dims.
int64_t OffsetOf(const View& x, int n, int64_t at) {
  int64_t offset = 0;
  for (int i = n - 1; i >= 0; --i) {
    const int64_t q = at / x.dims[i];
    offset += (at - q * x.dims[i]) * x.strides[i];
    at = q;
  }
  return offset;
}

absl::Status TakeAlong(const View& x, const View& ids, int axis, const char* name, const View& y) {
  TSR_ASSIGN_OR_RETURN(const Scratch checked, CheckedIds(ids, x.dims[axis], axis, name));
  if (y.size() == 0) return absl::OkStatus();
  const int64_t* id = checked.as<int64_t>();
  const int64_t count = ids.size(), stride = x.strides[axis];
  const RowReader reader(x, axis + 1);
  const int64_t row_bytes = reader.length() * static_cast<int64_t>(SizeOf(x.dtype));
  const int64_t rows = y.size() / reader.length();
  rt::ParallelFor(rows, GrainOf(reader.length()), [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 256;
    int64_t offsets[kBlock];
    int64_t outer = begin / count, i = begin - outer * count;
    for (int64_t r = begin; r < end;) {
      const int64_t n = std::min({kBlock, end - r, count - i});
      const int64_t base = OffsetOf(x, axis, outer);
      for (int64_t k = 0; k < n; ++k) offsets[k] = base + id[i + k] * stride;
      reader.Read(offsets, n, y.as<char>() + r * row_bytes);
      r += n;
      i += n;
      if (i == count) {
        i = 0;
        ++outer;
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status k_take(const interp::KernelArgs& args) {
  const View& x = *args.in[0];
  return TakeAlong(x, *args.in[1], Axis(args.integer(0), x.rank), "x", *args.out[0]);
}

absl::Status k_embedding(const interp::KernelArgs& args) {
  return TakeAlong(*args.in[0], *args.in[1], 0, "table", *args.out[0]);
}

absl::Status k_gather(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &ids = *args.in[1], &y = *args.out[0];
  TSR_ASSIGN_OR_RETURN(const Scratch checked, CheckedOffsets(ids, x, x.strides));
  if (y.size() == 0) return absl::OkStatus();
  const RowReader reader(x, static_cast<int>(ids.dims[ids.rank - 1]));
  const int64_t row_bytes = reader.length() * static_cast<int64_t>(SizeOf(x.dtype));
  rt::ParallelFor(y.size() / reader.length(), GrainOf(reader.length()), [&](int64_t begin, int64_t end) {
    reader.Read(checked.as<int64_t>() + begin, end - begin, y.as<char>() + begin * row_bytes);
  });
  return absl::OkStatus();
}

absl::Status k_take_along_axis(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &ids = *args.in[1], &y = *args.out[0];
  const int axis = Axis(args.integer(0), x.rank);
  TSR_ASSIGN_OR_RETURN(const Scratch checked, CheckedIds(ids, x.dims[axis], axis, "x"));
  if (y.size() == 0) return absl::OkStatus();
  // x with ids' dims and no step along axis: the index makes that step.
  View walk = x;
  walk.dims[axis] = ids.dims[axis];
  walk.strides[axis] = 0;
  const int last = x.rank - 1;
  const int64_t cols = walk.dims[last], col_stride = walk.strides[last], stride = x.strides[axis];
  const int64_t size = SizeOf(x.dtype);
  const RowReader element(x, x.rank);
  rt::ParallelFor(y.size() / cols, GrainOf(cols), [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 256;
    int64_t offsets[kBlock];
    int64_t filled = 0, written = begin * cols;
    const auto flush = [&] {
      element.Read(offsets, filled, y.as<char>() + written * size);
      written += filled;
      filled = 0;
    };
    for (int64_t r = begin; r < end; ++r) {
      const int64_t base = OffsetOf(walk, last, r);
      const int64_t* id = checked.as<int64_t>() + r * cols;
      for (int64_t c = 0; c < cols; ++c) {
        offsets[filled++] = base + c * col_stride + id[c] * stride;
        if (filled == kBlock) flush();
      }
    }
    flush();
  });
  return absl::OkStatus();
}

absl::Status k_one_hot(const interp::KernelArgs& args) {
  const View &ids = *args.in[0], &y = *args.out[0];
  const int64_t depth = args.integer(0), size = SizeOf(y.dtype), rows = ids.size();
  if (y.size() == 0) return absl::OkStatus();
  alignas(8) char one[8] = {};
  FromInt64(1, one, y.dtype);
  rt::ParallelFor(rows, GrainOf(depth), [&](int64_t begin, int64_t end) {
    std::memset(y.as<char>() + begin * depth * size, 0, (end - begin) * depth * size);
    constexpr int64_t kBlock = 256;
    int64_t block[kBlock];
    for (int64_t r = begin; r < end; r += kBlock) {
      const int64_t n = std::min(kBlock, end - r);
      GatherBlock(ids, r, n, block);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t id = block[i] < 0 ? block[i] + depth : block[i];
        if (id >= 0 && id < depth) std::memcpy(y.as<char>() + ((r + i) * depth + id) * size, one, size);
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace tessera::cpu
