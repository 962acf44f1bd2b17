#include "interp/cuda/skinny.h"

#include "interp/cuda/launch.h"
#include "interp/cuda/skinny_args.h"

namespace tessera::cuda {
namespace {

TSR_CUDA_IMAGE(skinny);
const Kernel kF16(kImage, "skinny_f16"), kBF16(kImage, "skinny_bf16");

bool IsAligned(const void* p) { return std::bit_cast<uint64_t>(p) % 16 == 0; }

}  // namespace

bool IsSkinny(const Device& device, const interp::GemmArgs& p) {
  if (p.dtype != DType::f16 && p.dtype != DType::bf16) return false;
  if (p.batch_rank != 0 || p.m < 1 || p.m > kSkinnyRows) return false;
  // Each multiprocessor needs a block, and blocks enough to do that starting them does not count.
  constexpr int64_t kShortest = 512;
  const int64_t narrowest = int64_t{device.properties().multiprocessors} * kSkinnyColumns;
  if (p.n < narrowest || p.n > INT32_MAX / 2 || p.k < kShortest || p.k > INT32_MAX / 2) return false;
  if (p.n % 8 != 0 || p.k % 8 != 0 || p.a.col != 1 || p.b.col != 1) return false;
  return p.b.row % 8 == 0 && (p.m == 1 || p.a.row % 8 == 0) && IsAligned(p.a.data) && IsAligned(p.b.data);
}

absl::Status SkinnyProduct(const interp::KernelArgs& args, const interp::GemmArgs& p) {
  SkinnyArgs s;
  s.c = std::bit_cast<Address>(p.c);
  s.a = std::bit_cast<Address>(p.a.data);
  s.b = std::bit_cast<Address>(p.b.data);
  s.a_row = p.m > 1 ? p.a.row : 0;
  s.b_row = p.b.row;
  s.m = static_cast<int32_t>(p.m);
  s.n = static_cast<int32_t>(p.n);
  s.k = static_cast<int32_t>(p.k);
  const Grid grid{(p.n + kSkinnyColumns - 1) / kSkinnyColumns, kSkinnyWarps * 32};
  return Launch(args, p.dtype == DType::bf16 ? kBF16 : kF16, grid, s);
}

}  // namespace tessera::cuda
