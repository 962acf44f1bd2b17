// Reductions: which walk, how many threads an output gets, and whether its elements are cut into chunks.
#include <cstdlib>
#include <utility>

#include "interp/cuda/reduce_plan.h"
#include "ir/op.h"

TSR_CUDA_IMAGE(reduce);

namespace tessera::cuda {
namespace {

constexpr int64_t kMostAcc = 24;        // bytes of an accumulator
constexpr int64_t kShortExtent = 32;    // elements that one thread adds alone
constexpr int64_t kBlockExtent = 4096;  // elements worth a block
constexpr int64_t kManyTimes = 8;       // with a warp for each output the device is full so often: rows may be longer
constexpr int64_t kChunkMin = 8192;     // elements of an output worth a block of their own

/// Appends a dim, merged with the one before where they walk as one.
void Append(Layout* l, int64_t dim, int64_t stride) {
  if (dim == 1) return;
  if (l->rank > 0 && l->strides[l->rank - 1] == stride * dim) {
    l->dims[l->rank - 1] *= dim;
    l->strides[l->rank - 1] = stride;
    return;
  }
  l->dims[l->rank] = dim;
  l->strides[l->rank++] = stride;
}

/// The kept and reduced dims of x.
void SplitDims(const View& x, uint32_t axes, ReduceArgs* a) {
  a->kept.rank = a->reduced.rank = 0;
  a->kept.dtype = a->reduced.dtype = static_cast<int32_t>(x.dtype);
  a->outputs = a->extent = 1;
  int order[kMaxRank], n = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (axes >> d & 1) {
      a->extent *= x.dims[d];
      order[n++] = d;
    } else {
      a->outputs *= x.dims[d];
      Append(&a->kept, x.dims[d], x.strides[d]);
    }
  }
  // Reduced dims may be walked in any order, so in that of memory.
  for (int i = 1; i < n; ++i)
    for (int j = i; j > 0 && std::abs(x.strides[order[j]]) > std::abs(x.strides[order[j - 1]]); --j)
      std::swap(order[j], order[j - 1]);
  if (a->extent > 0)
    for (int i = 0; i < n; ++i) Append(&a->reduced, x.dims[order[i]], x.strides[order[i]]);
  if (a->reduced.rank == 0) {
    a->reduced.rank = 1;
    a->reduced.dims[0] = a->extent;
    a->reduced.strides[0] = 1;
  }
}

/// Outputs that come as neighbours which one access of 16 bytes reads (8 of one-byte integers), or 1.
int32_t ColumnPack(const View& x, const ReduceArgs& a) {
  const int last = a.kept.rank - 1;
  const auto size = static_cast<int64_t>(SizeOf(x.dtype));
  const int64_t pack = size == 1 ? 8 : 16 / size;
  if (last < 0 || size > 4 || (size == 1 && IsFloat(x.dtype)) || a.kept.strides[last] != 1 ||
      a.kept.dims[last] % pack != 0)
    return 1;
  int64_t steps = 0;
  for (int d = 0; d < last; ++d) steps |= a.kept.strides[d];
  for (int d = 0; d < a.reduced.rank; ++d) steps |= a.reduced.strides[d];
  const bool fits = steps % pack == 0 && AddressOf(x) % static_cast<uint64_t>(pack * size) == 0;
  return fits ? static_cast<int32_t>(pack) : 1;
}

/// Chunks of at least `least` elements for as many blocks as are wanted.
void Cut(int64_t blocks, int64_t wanted, int64_t least, ReduceArgs* a) {
  const int64_t most = std::min<int64_t>(wanted / blocks, a->extent / least);
  a->chunks = 1;
  a->chunk = a->extent;
  if (most < 2) return;
  a->chunk = (a->extent + most - 1) / most;
  a->chunk = (a->chunk + 63) / 64 * 64;
  a->chunks = (a->extent + a->chunk - 1) / a->chunk;
}

int64_t PowerOfTwoAbove(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

}  // namespace

absl::Status RunReduction(const interp::KernelArgs& args, uint32_t axes, const Reduction& reduction) {
  const View& x = *args.in[0];
  const View& y = *args.out[0];
  ReduceArgs a = {};
  SplitDims(x, axes, &a);
  if (a.outputs == 0) return absl::OkStatus();
  a.x = AddressOf(x);
  a.y = AddressOf(y);
  a.out_dtype = static_cast<int32_t>(y.dtype);
  a.other = reduction.other;
  a.count = static_cast<double>(a.extent);
  a.correction = reduction.correction;

  // A multiple of what a multiprocessor holds, whether that is two, three or four blocks: the last ones to begin are
  // not alone.
  const int64_t units = DeviceOf(*args.device).properties().multiprocessors, wanted = 12 * units;
  const int last = a.reduced.rank - 1;
  const int64_t run = a.reduced.dims[last], reduced_step = std::abs(a.reduced.strides[last]);
  const int64_t kept_step = a.kept.rank == 0 ? INT64_MAX : std::abs(a.kept.strides[a.kept.rank - 1]);
  const bool alone = a.extent < kShortExtent;
  const bool cols = alone || (kept_step < reduced_step && a.outputs > 1);
  int64_t blocks;
  if (cols) {
    a.pack = reduction.packs && !alone ? ColumnPack(x, a) : 1;
    a.lanes = static_cast<int32_t>(alone ? kThreads : std::min<int64_t>(PowerOfTwoAbove(a.outputs / a.pack), 32));
    blocks = (a.outputs + a.lanes * a.pack - 1) / (a.lanes * a.pack);
    // In packs a few rows for each thread keep enough bytes on their way; two blocks are at work at once.
    if (a.pack > 1)
      Cut(blocks, 2 * units, 8 * kThreads / a.lanes, &a);
    else
      Cut(blocks, wanted, kChunkMin / a.lanes, &a);
    blocks *= a.chunks;
  } else {
    const bool few = a.outputs * 32 < 4 * units * kThreads;
    // With several runs, the threads of a group wait for each other's run.
    const int64_t each = a.reduced.rank == 1 ? a.extent : run;
    a.lanes = 4;
    while (a.lanes < 32 && a.lanes * 8 < each) a.lanes *= 2;
    const bool many = a.outputs * 32 >= kManyTimes * units * kThreads;
    if (each >= (many ? kManyTimes * kBlockExtent : few ? kBlockExtent / 4 : kBlockExtent)) a.lanes = kThreads;
    const int64_t groups = kThreads / a.lanes;
    blocks = (a.outputs + groups - 1) / groups;
    Cut(blocks, wanted, kChunkMin / groups, &a);
    blocks = (a.outputs * a.chunks + groups - 1) / groups;
  }
  const Kernel& walk = cols ? reduction.kernels.cols : reduction.kernels.rows;
  const Grid grid = {std::min<int64_t>(blocks, 1 << 20), kThreads};
  if (a.chunks == 1) return Launch(args, walk, grid, a);

  TSR_ASSIGN_OR_RETURN(const Scratch part,
                       Scratch::Make(*args.device, static_cast<size_t>(a.outputs * a.chunks * kMostAcc)));
  Scratch param;
  a.part = part.address();
  if (reduction.two_passes) {
    TSR_ASSIGN_OR_RETURN(param, Scratch::Make(*args.device, static_cast<size_t>(a.outputs * 8)));
    a.param = param.address();
  }
  for (a.pass = 0; a.pass < (reduction.two_passes ? 2 : 1); ++a.pass) {
    TSR_RETURN_IF_ERROR(Launch(args, walk, grid, a));
    TSR_RETURN_IF_ERROR(Launch(args, reduction.kernels.end, GridFor(a.outputs * 32), a));
  }
  return absl::OkStatus();
}

namespace {

const ReduceKernels kSum[] = {TSR_REDUCE_KERNELS_OF("sum_f64"), TSR_REDUCE_KERNELS_OF("sum_f32"),
                              TSR_REDUCE_KERNELS_OF("sum_int")};
const ReduceKernels kProd[] = {TSR_REDUCE_KERNELS_OF("prod_f64"), TSR_REDUCE_KERNELS_OF("prod_f32"),
                               TSR_REDUCE_KERNELS_OF("prod_int")};
const ReduceKernels kBest[] = {TSR_REDUCE_KERNELS_OF("best_f64"), TSR_REDUCE_KERNELS_OF("best_f32"),
                               TSR_REDUCE_KERNELS_OF("best_int")};
const ReduceKernels kLogic[] = {TSR_REDUCE_KERNELS_OF("logic_f64"), TSR_REDUCE_KERNELS_OF("logic_f32"),
                                TSR_REDUCE_KERNELS_OF("logic_int")};
// These two come with floats only.
const ReduceKernels kVar[] = {TSR_REDUCE_KERNELS_OF("var_f64"), TSR_REDUCE_KERNELS_OF("var_f32")};
const ReduceKernels kLogSumExp[] = {TSR_REDUCE_KERNELS_OF("logsumexp_f64"), TSR_REDUCE_KERNELS_OF("logsumexp_f32")};

absl::Status Reduce(const interp::KernelArgs& args, const Reduction& reduction) {
  TSR_ASSIGN_OR_RETURN(const uint32_t axes, ir::CanonicalAxes(args.ints(0), args.in[0]->rank));
  return RunReduction(args, axes, reduction);
}

int Index(const interp::KernelArgs& args) { return ComputeIndex(args.in[0]->dtype); }

absl::Status Extreme(const interp::KernelArgs& args, bool min) {
  // With the output empty there is nothing to do; without an element there is no answer. Shape inference says so for
  // dims that it knows.
  const View& x = *args.in[0];
  if (x.size() == 0 && args.out[0]->size() > 0)
    return InvalidArgument("no elements to choose from in ", ToString(static_cast<const TensorType&>(x)));
  return Reduce(args, {.kernels = kBest[Index(args)], .other = min, .packs = true});
}

}  // namespace

absl::Status k_sum(const interp::KernelArgs& args) {
  return Reduce(args, {.kernels = kSum[Index(args)], .packs = true});
}
absl::Status k_prod(const interp::KernelArgs& args) { return Reduce(args, {.kernels = kProd[Index(args)]}); }
absl::Status k_mean(const interp::KernelArgs& args) {
  return Reduce(args, {.kernels = kSum[Index(args)], .other = true, .packs = true});
}
absl::Status k_var(const interp::KernelArgs& args) {
  return Reduce(args, {.kernels = kVar[Index(args)], .two_passes = true, .correction = args.number(2)});
}
absl::Status k_max(const interp::KernelArgs& args) { return Extreme(args, false); }
absl::Status k_min(const interp::KernelArgs& args) { return Extreme(args, true); }
absl::Status k_any(const interp::KernelArgs& args) { return Reduce(args, {.kernels = kLogic[Index(args)]}); }
absl::Status k_all(const interp::KernelArgs& args) {
  return Reduce(args, {.kernels = kLogic[Index(args)], .other = true});
}
absl::Status k_logsumexp(const interp::KernelArgs& args) {
  return Reduce(args, {.kernels = kLogSumExp[Index(args)], .two_passes = true});
}

}  // namespace tessera::cuda
