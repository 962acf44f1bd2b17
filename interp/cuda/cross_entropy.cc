// The ops cross_entropy and cross_entropy_grad. A target that is no class is found by the kernel: the host hears of it
// when it next waits.
#include "interp/cuda/cross_entropy_args.h"
#include "interp/cuda/launch.h"

TSR_CUDA_IMAGE(cross_entropy);
extern "C" const unsigned char* tessera_cuda_image_cross_entropy_rows();
extern "C" const unsigned char* tessera_cuda_image_cross_entropy_rows_hopper();

namespace tessera::cuda {

namespace {

constexpr Image kRows = tessera_cuda_image_cross_entropy_rows, kHopper = tessera_cuda_image_cross_entropy_rows_hopper;
constexpr int64_t kAccess = 16;       // bytes
constexpr int64_t kFewAccesses = 64;  // of a row: no more than a warp, or a part of one, has at a time
// Threads of a row are as many as an H200 was fastest with: up to so many accesses of it, so many. Rows that are only
// read have few, as long as there are rows for all multiprocessors: then each has more on its way.
struct Lanes {
  int64_t accesses;
  int lanes;
};
constexpr Lanes kReading[] = {{256, 8}, {512, 16}, {2048, 32}, {4096, 64}, {16384, 128}, {INT64_MAX, kRowThreads}};
constexpr Lanes kWriting[] = {{128, 16}, {256, 32}, {1024, 64}, {2048, 128}, {INT64_MAX, kRowThreads}};
constexpr int64_t kLeastAccesses = 4, kBusyThreads = 128 << 10;  // of a thread; of a device
constexpr int kSmallBlock = 128;                                 // of several rows
// Rows that are written are in shared memory. From so many bytes on they are shared by a cluster, of which a block has
// about so many, so that there are several blocks of a multiprocessor, which cover each other's waits; or more, up to
// what there is. Without clusters a block holds what a multiprocessor does.
constexpr int64_t kClusterBytes = 64 << 10, kPartBytes = 32 << 10, kMostPartBytes = 72 << 10, kMostRowBytes = 110 << 10;

struct Kernels {
  Kernel f32, f64;  // any layout; f32 computes for all narrow types, too
  Kernel rows[3];   // dense rows: f32, f16, bf16
};
#define TSR_CLUSTERS(name)                     \
  {{kHopper, "cross_entropy_grad_" name "_2"}, \
   {kHopper, "cross_entropy_grad_" name "_4"}, \
   {kHopper, "cross_entropy_grad_" name "_8"}}
const Kernel kClusters[3][3] = {TSR_CLUSTERS("f32"), TSR_CLUSTERS("f16"), TSR_CLUSTERS("bf16")};
#undef TSR_CLUSTERS

int IndexOf(DType dtype) { return dtype == DType::f32 ? 0 : dtype == DType::f16 ? 1 : dtype == DType::bf16 ? 2 : -1; }

/// May rows be read, and results be written, 16 bytes at a time?
bool HasAlignedRows(const CrossEntropyArgs& a, int64_t bytes, bool grad) {
  if (a.step != 1 || a.classes * bytes < kFewAccesses * kAccess || a.classes > INT32_MAX / 4) return false;
  int64_t steps = grad ? a.classes : 0;  // rows of the result follow each other
  for (int d = 0; d < a.logits.layout.rank; ++d) steps |= a.logits.layout.strides[d];
  return steps * bytes % kAccess == 0 && a.logits.data % kAccess == 0 && (!grad || a.y % kAccess == 0);
}

/// Threads for a row.
int LanesFor(const CrossEntropyArgs& a, int64_t accesses, bool grad) {
  const Lanes* row = grad ? kWriting : kReading;
  while (accesses > row->accesses) ++row;
  int lanes = row->lanes;
  while (lanes < kRowThreads && lanes * kLeastAccesses < accesses && a.rows * lanes < kBusyThreads) lanes *= 2;
  return lanes;
}

absl::Status Run(const interp::KernelArgs& args, const View* g, const Kernels& kernels) {
  const View &logits = *args.in[0], &targets = *args.in[1], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  const int last = logits.rank - 1;
  CrossEntropyArgs a = {};
  View rows = logits;
  rows.rank = static_cast<uint8_t>(last);
  a.logits = {AddressOf(logits), Merged(rows)};
  a.logits.layout.dtype = static_cast<int32_t>(logits.dtype);
  a.targets = {AddressOf(targets), Merged(targets)};
  if (g != nullptr) a.g = {AddressOf(*g), Merged(*g)};
  a.y = AddressOf(y);
  a.rows = targets.size();
  a.classes = logits.dims[last];
  a.step = logits.strides[last];
  a.ignore = args.integer(0);
  a.error = DeviceOf(*args.device).error();
  a.op = static_cast<int32_t>(args.op.op);
  const int which = IndexOf(logits.dtype);
  const int64_t bytes = which == 0 ? 4 : 2, row = a.classes * bytes;
  if (which >= 0 && a.rows <= INT32_MAX / 8 && HasAlignedRows(a, bytes, g != nullptr)) {
    const Properties& device = DeviceOf(*args.device).properties();
    if (g != nullptr && row > kClusterBytes && device.major == 9 && device.minor == 0 && row <= 8 * kMostPartBytes) {
      int size = 0;
      while (size < 2 && row > (kPartBytes << (size + 1))) ++size;
      const int64_t blocks = 2 << size, part = (row / kAccess + blocks - 1) / blocks * kAccess;
      return Launch(args, kClusters[which][size], {a.rows * blocks, kRowThreads, static_cast<int>(part)}, a);
    }
    if (g == nullptr || row <= std::min<int64_t>(kMostRowBytes, device.shared_bytes - (1 << 10))) {
      a.lanes = LanesFor(a, row / kAccess, g != nullptr);
      // A row of several warps has a block for itself.
      const int threads = a.lanes > 32 ? a.lanes : kSmallBlock;
      const int64_t of_block = threads / a.lanes;
      Grid grid = {(a.rows + of_block - 1) / of_block, threads, 0};
      if (g != nullptr) grid.shared = static_cast<int>(row * of_block);
      return Launch(args, kernels.rows[which], grid, a);
    }
  }
  a.lanes = 4;
  while (a.lanes < 32 && a.lanes * 8 < a.classes) a.lanes *= 2;
  if (a.classes >= 4096 || (a.classes >= 1024 && a.rows < 4096)) a.lanes = kThreads;
  return Launch(args, logits.dtype == DType::f64 ? kernels.f64 : kernels.f32, GridFor(a.rows * a.lanes), a);
}

}  // namespace

absl::Status k_cross_entropy(const interp::KernelArgs& args) {
  static const Kernels kernels = {
      {kImage, "cross_entropy_f32"},
      {kImage, "cross_entropy_f64"},
      {{kRows, "cross_entropy_rows_f32"}, {kRows, "cross_entropy_rows_f16"}, {kRows, "cross_entropy_rows_bf16"}}};
  return Run(args, nullptr, kernels);
}

absl::Status k_cross_entropy_grad(const interp::KernelArgs& args) {
  static const Kernels kernels = {{kImage, "cross_entropy_grad_f32"},
                                  {kImage, "cross_entropy_grad_f64"},
                                  {{kRows, "cross_entropy_grad_rows_f32"},
                                   {kRows, "cross_entropy_grad_rows_f16"},
                                   {kRows, "cross_entropy_grad_rows_bf16"}}};
  return Run(args, args.in[2], kernels);
}

}  // namespace tessera::cuda
