// Kernels that place whole operands in their result: concat, stack, pad, tril, triu.
#include "interp/cpu/convert.h"
#include "interp/cuda/join_args.h"
#include "interp/cuda/number.h"

namespace tessera::cuda {

TSR_CUDA_IMAGE(join);

namespace {

// By size of an element: 1, 2, 4, 8 bytes; then units of 16.
const Kernel kJoin[] = {
    {kImage, "join_1"}, {kImage, "join_2"}, {kImage, "join_4"}, {kImage, "join_8"}, {kImage, "join_16"}};
const Kernel kPad[] = {{kImage, "pad_1"}, {kImage, "pad_2"}, {kImage, "pad_4"}, {kImage, "pad_8"}};
const Kernel kBand[] = {{kImage, "band_1"}, {kImage, "band_2"}, {kImage, "band_4"}, {kImage, "band_8"}};

int Axis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

int Log2(size_t size) { return std::countr_zero(size); }

/// May a layout be read in units of 16 bytes? Its last dim must be a run of whole ones, and all steps, too.
bool HasUnits(const Layout& l, int64_t size) {
  if (l.rank == 0) return false;
  int64_t all = l.dims[l.rank - 1];
  for (int d = 0; d + 1 < l.rank; ++d) all |= l.strides[d];
  return l.strides[l.rank - 1] == 1 && all * size % 16 == 0;
}
/// The same, counted in those.
Layout InUnits(Layout l, int64_t size) {
  l.dims[l.rank - 1] = l.dims[l.rank - 1] * size / 16;
  for (int d = 0; d + 1 < l.rank; ++d) l.strides[d] = l.strides[d] * size / 16;
  return l;
}

/// Joins operands that take rows(x) elements of every `pitch` elements of y, one after the other.
template <class Rows>
absl::Status Join(const interp::KernelArgs& args, int64_t pitch, Rows rows) {
  const View& y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  const int64_t size = static_cast<int64_t>(SizeOf(y.dtype));
  int64_t place = 0;
  for (size_t k = 0; k < args.in.size();) {
    Scratch numbers[kMostParts];
    JoinArgs a;
    a.out = AddressOf(y);
    a.pitch = pitch;
    a.parts = 0;
    a.size = static_cast<int32_t>(size);
    a.count = 0;
    bool units = pitch * size % 16 == 0;
    for (; k < args.in.size() && a.parts < kMostParts; ++k) {
      TSR_ASSIGN_OR_RETURN(const View x, OnDevice(args, *args.in[k], y.dtype, &numbers[a.parts]));
      const int64_t count = x.size(), row = rows(x);
      if (count == 0) continue;
      JoinPart& part = a.part[a.parts++];
      part.x.data = AddressOf(x);
      part.x.layout = Merged(x);
      part.first = a.count;
      part.row = row;
      part.place = place;
      units = units && HasUnits(part.x.layout, size) && row * size % 16 == 0 && place * size % 16 == 0;
      a.count += count;
      place += row;
    }
    if (a.parts == 0) continue;
    if (units) {
      a.count = a.count * size / 16;
      a.pitch = a.pitch * size / 16;
      for (int i = 0; i < a.parts; ++i) {
        a.part[i].first = a.part[i].first * size / 16;
        a.part[i].row = a.part[i].row * size / 16;
        a.part[i].place = a.part[i].place * size / 16;
        a.part[i].x.layout = InUnits(a.part[i].x.layout, size);
      }
    }
    TSR_RETURN_IF_ERROR(Launch(args, kJoin[units ? 4 : Log2(SizeOf(y.dtype))], GridFor(a.count), a));
  }
  return absl::OkStatus();
}

absl::Status Band(const interp::KernelArgs& args, bool lower) {
  const View &x = *args.in[0], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  BandArgs a;
  a.x = AddressOf(x);
  a.out = AddressOf(y);
  a.count = y.size();
  a.rows = y.dims[y.rank - 2];
  a.cols = y.dims[y.rank - 1];
  // A diagonal further out than the matrix changes nothing; cut, so that sums with it do not overflow.
  const int64_t k = std::clamp<int64_t>(args.integer(0), -a.rows, a.cols);
  a.low = lower ? -a.rows - 1 : k;
  a.high = lower ? k + 1 : a.cols + 1;
  a.layout = OperandOf(x).layout;
  return Launch(args, kBand[Log2(SizeOf(y.dtype))], GridFor(a.count, 16 / static_cast<int64_t>(SizeOf(y.dtype))), a);
}

}  // namespace

absl::Status k_concat(const interp::KernelArgs& args) {
  const View& y = *args.out[0];
  const int axis = Axis(args.integer(0), y.rank);
  int64_t inner = 1;
  for (int i = axis + 1; i < y.rank; ++i) inner *= y.dims[i];
  return Join(args, y.dims[axis] * inner, [&](const View& x) { return x.dims[axis] * inner; });
}

absl::Status k_stack(const interp::KernelArgs& args) {
  const View& y = *args.out[0];
  const int axis = Axis(args.integer(0), y.rank);
  int64_t inner = 1;
  for (int i = axis + 1; i < y.rank; ++i) inner *= y.dims[i];
  return Join(args, y.dims[axis] * inner, [&](const View&) { return inner; });
}

absl::Status k_pad(const interp::KernelArgs& args) {
  const View& y = *args.out[0];
  const ir::Ints& low = args.ints(0);
  if (y.size() == 0) return absl::OkStatus();
  Scratch number;
  TSR_ASSIGN_OR_RETURN(const View x, OnDevice(args, *args.in[0], y.dtype, &number));
  PadArgs a{};
  a.x = AddressOf(x);
  a.out = AddressOf(y);
  a.count = y.size();
  cpu::FromDouble(args.number(2), &a.value, y.dtype);
  // A dim that is not padded, and goes on in memory where the one before it ends, is one with it.
  for (int i = 0; i < y.rank; ++i) {
    const int64_t n = x.dims[i];
    if (a.rank > 0 && low[i] == 0 && y.dims[i] == n && a.x_strides[a.rank - 1] == n * x.strides[i]) {
      const int d = a.rank - 1;
      a.dims[d] *= n;
      a.low[d] *= n;
      a.x_dims[d] *= n;
      a.x_strides[d] = x.strides[i];
    } else {
      const int d = a.rank++;
      a.dims[d] = y.dims[i];
      a.low[d] = low[i];
      a.x_dims[d] = n;
      a.x_strides[d] = x.strides[i];
    }
  }
  if (a.rank == 0) {
    a.rank = 1;
    a.dims[0] = a.x_dims[0] = a.x_strides[0] = 1;
  }
  return Launch(args, kPad[Log2(SizeOf(y.dtype))], GridFor(a.count, 16 / static_cast<int64_t>(SizeOf(y.dtype))), a);
}

absl::Status k_tril(const interp::KernelArgs& args) { return Band(args, true); }

absl::Status k_triu(const interp::KernelArgs& args) { return Band(args, false); }

}  // namespace tessera::cuda
