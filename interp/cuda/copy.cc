// cast and copy on a CUDA device.
#include "interp/cuda/copy.h"

#include <cstring>

#include "interp/cuda/copy_args.h"
#include "interp/cuda/ew_args.h"

namespace tessera::cuda {
namespace {

TSR_CUDA_IMAGE(cast);

#define TSR_DTYPE(name, bytes, kind, rank, summary) Kernel(kImage, "cast_" #name),
const Kernel kCast[] = {
#include "tessera/dtypes.def"
};
const Kernel kCopy[] = {
    {kImage, "copy_1"}, {kImage, "copy_2"}, {kImage, "copy_4"}, {kImage, "copy_8"}, {kImage, "copy_16"}};
const Kernel kCopyTiles[] = {
    {kImage, "copy_tiles_1"}, {kImage, "copy_tiles_2"}, {kImage, "copy_tiles_4"}, {kImage, "copy_tiles_8"}};

int SizeIndex(DType dtype) { return std::countr_zero(SizeOf(dtype)); }

absl::Status RunCast(const interp::KernelArgs& op, const View& in, const View& out, int through) {
  if (out.size() == 0) return absl::OkStatus();
  CastArgs a = {};
  a.out = AddressOf(out);
  a.through = static_cast<int8_t>(through);
  a.size = out.size();
  if (in.weak) {
    std::memcpy(&a.in, in.data, SizeOf(in.dtype));
    a.kind = OperandKind::immediate;
  } else {
    a.in = AddressOf(in);
    a.kind = OperandKind::elements;
  }
  a.from = Merged(in);
  const bool is_run = a.kind == OperandKind::elements && a.from.rank <= 1 && a.size % 4 == 0;
  return Launch(op, kCast[static_cast<int>(out.dtype)], GridFor(a.size, is_run ? 4 : 1), a);
}

/// Runs of elements become fewer and wider ones, of up to 16 bytes; returns how often their size was doubled.
int Widened(CopyArgs& a, size_t size) {
  const int last = a.from.rank - 1;
  if (last < 0 || a.from.strides[last] != 1) return 0;
  int64_t all = a.from.dims[last];
  for (int d = 0; d < last; ++d) all |= a.from.strides[d];
  int doubled = 0;
  while (size < 16 && all % 2 == 0 && (a.in | a.out) % (2 * size) == 0) {
    size *= 2;
    all /= 2;
    ++doubled;
  }
  a.size >>= doubled;
  a.from.dims[last] >>= doubled;
  for (int d = 0; d < last; ++d) a.from.strides[d] /= int64_t{1} << doubled;
  return doubled;
}

/// Elements of one dtype. Where memory runs along the last dim but one, through tiles.
absl::Status Move(const interp::KernelArgs& op, const View& in, const View& out) {
  const Layout from = Merged(in);
  const int last = from.rank - 1;
  constexpr int64_t kFewest = 8;
  if (from.rank >= 2 && from.strides[last] != 1 && from.strides[last - 1] == 1 && from.dims[last] >= kFewest &&
      from.dims[last - 1] >= kFewest) {
    CopyTilesArgs a = {};
    a.out = AddressOf(out);
    a.in = AddressOf(in);
    a.rows = from.dims[last - 1];
    a.cols = from.dims[last];
    a.row = from.strides[last - 1];
    a.col = from.strides[last];
    a.batch = from;
    a.batch.rank = from.rank - 2;
    a.batches = 1;
    for (int d = 0; d < a.batch.rank; ++d) a.batches *= from.dims[d];
    const auto size = static_cast<int64_t>(SizeOf(in.dtype)), word = std::max<int64_t>(1, 4 / size);
    int64_t all = a.rows | a.cols | a.col;
    for (int d = 0; d < a.batch.rank; ++d) all |= a.batch.strides[d];
    a.in_words = size <= 4 && all % word == 0 && (a.in | a.out) % 4 == 0;
    const int64_t side = a.in_words ? 32 * word : 32;
    const int64_t tiles = a.batches * ((a.rows + side - 1) / side) * ((a.cols + side - 1) / side);
    return Launch(op, kCopyTiles[SizeIndex(in.dtype)], Grid{std::min<int64_t>(tiles, 1 << 20), kThreads}, a);
  }
  CopyArgs a = {};
  a.out = AddressOf(out);
  a.in = AddressOf(in);
  a.size = out.size();
  a.from = from;
  const int wider = Widened(a, SizeOf(in.dtype));
  return Launch(op, kCopy[SizeIndex(in.dtype) + wider], GridFor(a.size), a);
}

}  // namespace

Layout Merged(const View& v) {
  Layout l = {};
  l.dtype = static_cast<int32_t>(v.dtype);
  int64_t dims[kMaxRank], strides[kMaxRank];
  int rank = 0;
  for (int d = v.rank - 1; d >= 0; --d) {
    if (v.dims[d] == 1) continue;
    if (rank > 0 && v.strides[d] == strides[rank - 1] * dims[rank - 1]) {
      dims[rank - 1] *= v.dims[d];
      continue;
    }
    dims[rank] = v.dims[d];
    strides[rank++] = v.strides[d];
  }
  l.rank = rank;
  for (int d = 0; d < rank; ++d) {
    l.dims[d] = dims[rank - 1 - d];
    l.strides[d] = strides[rank - 1 - d];
  }
  return l;
}

absl::Status Cast(const interp::KernelArgs& op, const View& in, const View& out) {
  if (in.dtype != out.dtype || in.weak) return RunCast(op, in, out, -1);
  if (out.size() == 0) return absl::OkStatus();
  if (in.IsContiguous())
    return op.device->CopyWithin(out.data, in.data, static_cast<size_t>(out.size()) * SizeOf(out.dtype));
  return Move(op, in, out);
}

absl::Status CastTo(const interp::KernelArgs& op, const View& v, DType through, DType to, View* out, Scratch* scratch) {
  View y = v;
  y.dtype = to;
  y.weak = false;
  y.SetContiguousStrides();
  TSR_ASSIGN_OR_RETURN(*scratch, Scratch::Make(*op.device, static_cast<size_t>(y.size()) * SizeOf(to)));
  y.data = scratch->data();
  *out = y;
  const bool rounds = through != to && through != v.dtype && IsNarrowFloat(through);
  return rounds ? RunCast(op, v, y, static_cast<int>(through)) : Cast(op, v, y);
}

absl::StatusOr<View> MakeContiguous(const interp::KernelArgs& op, const View& v, Scratch* copy) {
  if (v.IsContiguous()) return v;
  View y;
  TSR_RETURN_IF_ERROR(CastTo(op, v, v.dtype, v.dtype, &y, copy));
  return y;
}

absl::Status k_cast(const interp::KernelArgs& args) { return Cast(args, *args.in[0], *args.out[0]); }
absl::Status k_copy(const interp::KernelArgs& args) { return Cast(args, *args.in[0], *args.out[0]); }

}  // namespace tessera::cuda
