// Running sums along an axis.
#include "interp/cpu/axis.h"
#include "interp/cuda/launch.h"
#include "interp/cuda/reduce_plan.h"
#include "interp/cuda/scan_args.h"

TSR_CUDA_IMAGE(scan);

namespace tessera::cuda {
namespace {

// In the order of ComputeIndex().
const Kernel kRows[] = {{kImage, "scan_rows_f64"}, {kImage, "scan_rows_f32"}, {kImage, "scan_rows_int"}};
const Kernel kLines[] = {{kImage, "scan_lines_f64"}, {kImage, "scan_lines_f32"}, {kImage, "scan_lines_int"}};
const Kernel kJoin[] = {{kImage, "scan_join_f64"}, {kImage, "scan_join_f32"}, {kImage, "scan_join_int"}};

constexpr int64_t kShortLine = 64;  // a thread does it alone
constexpr int64_t kRowTile = 1024;  // places that a block does at a time
constexpr int64_t kMostChunks = 4096;
constexpr int64_t kSumBytes = 16;

}  // namespace

absl::Status k_cumsum(const interp::KernelArgs& args) {
  const View& x = *args.in[0];
  TSR_ASSIGN_OR_RETURN(const cpu::AxisSplit s, cpu::SplitAtAxis(x, args.integer(0)));
  if (x.size() == 0) return absl::OkStatus();
  ScanArgs a = {};
  View lines = x;
  lines.rank = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (d == s.axis) continue;
    lines.dims[lines.rank] = x.dims[d];
    lines.strides[lines.rank++] = x.strides[d];
  }
  a.x = {AddressOf(x), Merged(lines)};
  a.x.layout.dtype = static_cast<int32_t>(x.dtype);
  a.y = AddressOf(*args.out[0]);
  a.lines = s.outer * s.inner;
  a.extent = s.extent;
  a.inner = s.inner;
  a.step = x.strides[s.axis];
  a.exclusive = args.flag(1);
  a.reverse = args.flag(2);

  const int64_t units = DeviceOf(*args.device).properties().multiprocessors;
  const bool rows = s.inner == 1 && s.extent > kShortLine;
  const int64_t least = rows ? 8 * kRowTile : kShortLine, unit = rows ? kRowTile : 1;
  const int64_t wanted = rows ? 4 * units : 1024 * units;
  a.lanes = s.extent <= kRowTile ? 32 : kThreads;
  a.chunk = a.extent;
  a.chunks = 1;
  if (const int64_t most = std::min({wanted / a.lines, a.extent / least, kMostChunks}); most > 1) {
    a.chunk = ((a.extent + most - 1) / most + unit - 1) / unit * unit;
    a.chunks = (a.extent + a.chunk - 1) / a.chunk;
  }
  const int index = ComputeIndex(x.dtype);
  const Kernel& kernel = rows ? kRows[index] : kLines[index];
  const Grid grid = GridFor(a.lines * a.chunks * (rows ? a.lanes : 1));
  if (a.chunks == 1) return Launch(args, kernel, grid, a);
  TSR_ASSIGN_OR_RETURN(const Scratch sums,
                       Scratch::Make(*args.device, static_cast<size_t>(a.lines * a.chunks * kSumBytes)));
  a.sums = sums.address();
  a.mode = kScanSums;
  TSR_RETURN_IF_ERROR(Launch(args, kernel, grid, a));
  TSR_RETURN_IF_ERROR(Launch(args, kJoin[index], GridFor(a.lines * 32), a));
  a.mode = kScanApply;
  return Launch(args, kernel, grid, a);
}

}  // namespace tessera::cuda
