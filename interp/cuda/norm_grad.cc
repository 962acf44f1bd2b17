// The ops layer_norm_grad and rms_norm_grad: how rows are given to threads, and how many parts there are of the sums
// over rows. All follows from dims and the device, so results repeat.
#include "interp/cpu/axis.h"
#include "interp/cuda/launch.h"
#include "interp/cuda/norm_grad_args.h"

TSR_CUDA_IMAGE(norm_grad);

namespace tessera::cuda {
namespace {

struct RowKernel {
  int held;
  int threads;   // of a block whose groups are warps
  int resident;  // blocks of that many threads that a multiprocessor holds
  Kernel f32, f16, bf16;
};
#define TSR_ROW_KERNEL(held, threads, resident)                                                    \
  {                                                                                                \
    held, threads, resident, {kImage, "norm_grad_f32_" #held}, {kImage, "norm_grad_f16_" #held}, { \
      kImage, "norm_grad_bf16_" #held                                                              \
    }                                                                                              \
  }
const RowKernel kByRegisters[] = {TSR_ROW_KERNEL(8, 256, 2), TSR_ROW_KERNEL(16, 256, 2), TSR_ROW_KERNEL(24, 192, 2)};
const Kernel kPlainRows[] = {{kImage, "norm_grad_rows_f32"}, {kImage, "norm_grad_rows_f64"}};
const Kernel kPlainColumns[] = {{kImage, "norm_grad_cols_f32"}, {kImage, "norm_grad_cols_f64"}};
const Kernel kEnd[] = {{kImage, "norm_grad_end_f32"}, {kImage, "norm_grad_end_f64"}};

const Kernel& OfDType(const RowKernel& k, DType t) {
  return t == DType::f32 ? k.f32 : t == DType::f16 ? k.f16 : k.bf16;
}

/// A warp for rows of up to 768 elements; beyond, a block with 16 elements a thread. Null: too long.
const RowKernel* KernelFor(int64_t n, int32_t* lanes) {
  *lanes = 32;
  for (const RowKernel& k : kByRegisters)
    if (n <= 32 * k.held) return &k;
  const RowKernel& wide = kByRegisters[1];
  *lanes = static_cast<int32_t>((n + wide.held * 32 - 1) / (wide.held * 32) * 32);
  return *lanes <= kNormGradThreads ? &wide : nullptr;
}

Layout RowsOf(const View& v, int first) {
  View rows = v;
  rows.rank = static_cast<uint8_t>(first);
  Layout l = Merged(rows);
  l.dtype = static_cast<int32_t>(v.dtype);
  return l;
}

absl::Status NormGrad(const interp::KernelArgs& args, bool rms) {
  View x = *args.in[0], g = *args.in[1];
  const int first = static_cast<int>(x.rank - args.integer(0)), wide = x.dtype == DType::f64;
  Scratch x_copy, g_copy, weight_copy;
  NormGradArgs a = {};
  a.n_rows = a.n = 1;
  for (int d = 0; d < x.rank; ++d) (d < first ? a.n_rows : a.n) *= x.dims[d];
  if (a.n == 0) return absl::OkStatus();
  if (!cpu::ContiguousFrom(x, first)) {
    TSR_ASSIGN_OR_RETURN(x, MakeContiguous(args, x, &x_copy));
  }
  if (!cpu::ContiguousFrom(g, first)) {
    TSR_ASSIGN_OR_RETURN(g, MakeContiguous(args, g, &g_copy));
  }
  if (args.in.size() > 2 && args.in[2] != nullptr) {
    TSR_ASSIGN_OR_RETURN(const View dense, MakeContiguous(args, *args.in[2], &weight_copy));
    a.weight = AddressOf(dense);
  }
  a.x = AddressOf(x);
  a.g = AddressOf(g);
  a.dx = AddressOf(*args.out[0]);
  a.dweight = AddressOf(*args.out[1]);
  if (!rms) a.dbias = AddressOf(*args.out[2]);
  a.x_rows = RowsOf(x, first);
  a.g_rows = RowsOf(g, first);
  a.eps = args.number(1);
  a.rms = rms;

  const int64_t units = DeviceOf(*args.device).properties().multiprocessors;
  const bool by_registers = x.dtype == DType::f32 || x.dtype == DType::f16 || x.dtype == DType::bf16;
  const RowKernel* kernel = by_registers ? KernelFor(a.n, &a.lanes) : nullptr;
  Scratch parts, stats;
  const size_t sum_bytes = wide ? 8 : 4;
  const auto make_parts = [&]() -> absl::Status {
    const auto sums = static_cast<size_t>(std::max<int64_t>(a.n_parts, 1) * 2 * a.slots);
    TSR_ASSIGN_OR_RETURN(parts, Scratch::Make(*args.device, sums * sum_bytes));
    a.parts = parts.address();
    return absl::OkStatus();
  };
  if (kernel != nullptr) {
    const int threads = a.lanes > 32 ? a.lanes : kernel->threads;
    const int64_t groups = threads / a.lanes;
    const int64_t resident = units * std::max(1, kernel->resident * kernel->threads / threads);
    const int64_t most = std::max(resident, a.n_rows / (groups * kNormGradRows));
    a.n_parts = std::min((a.n_rows + groups - 1) / groups, most);
    a.slots = int64_t{a.lanes} * kernel->held;
    TSR_RETURN_IF_ERROR(make_parts());
    const int shared = threads * kernel->held * static_cast<int>(sizeof(float));
    if (a.n_parts > 0) TSR_RETURN_IF_ERROR(Launch(args, OfDType(*kernel, x.dtype), {a.n_parts, threads, shared}, a));
  } else {
    a.lanes = 0;
    a.slots = a.n;
    // Enough parts for the threads of the device, of at least 16 rows.
    const int64_t most = std::clamp<int64_t>(units * 1024 / a.n, 1, 256);
    a.chunk = std::max<int64_t>(16, (a.n_rows + most - 1) / most);
    a.n_parts = (a.n_rows + a.chunk - 1) / a.chunk;
    TSR_RETURN_IF_ERROR(make_parts());
    if (a.n_rows > 0) {
      TSR_ASSIGN_OR_RETURN(stats, Scratch::Make(*args.device, static_cast<size_t>(2 * a.n_rows) * sum_bytes));
      a.stats = stats.address();
      TSR_RETURN_IF_ERROR(Launch(args, kPlainRows[wide], {std::min<int64_t>(a.n_rows, 1 << 20), kThreads}, a));
      TSR_RETURN_IF_ERROR(Launch(args, kPlainColumns[wide], GridFor(a.n_parts * a.n), a));
    }
  }
  const int64_t slots = rms ? a.slots : 2 * a.slots;
  return Launch(args, kEnd[wide], {std::min<int64_t>((slots + 31) / 32, 1 << 20), kThreads}, a);
}

}  // namespace

absl::Status k_layer_norm_grad(const interp::KernelArgs& args) { return NormGrad(args, false); }
absl::Status k_rms_norm_grad(const interp::KernelArgs& args) { return NormGrad(args, true); }

}  // namespace tessera::cuda
