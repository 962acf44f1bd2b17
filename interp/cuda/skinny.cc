#include "interp/cuda/skinny.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "interp/cuda/launch.h"
#include "interp/cuda/skinny_args.h"

namespace tessera::cuda {
namespace {

using interp::GemmArgs;

TSR_CUDA_IMAGE(skinny);
// [bf16][b lies along rows][more than 16 rows]
const Kernel kSkinny[2][2][2] = {{{{kImage, "skinny_f16_columns_16"}, {kImage, "skinny_f16_columns_32"}},
                                  {{kImage, "skinny_f16_rows_16"}, {kImage, "skinny_f16_rows_32"}}},
                                 {{{kImage, "skinny_bf16_columns_16"}, {kImage, "skinny_bf16_columns_32"}},
                                  {{kImage, "skinny_bf16_rows_16"}, {kImage, "skinny_bf16_rows_32"}}}};

constexpr int64_t kMostRows = 32;
/// Elements of a matrix that is worth it.
constexpr int64_t kLarge = int64_t{1} << 18;
constexpr int64_t kMostArrivals = 4096;
constexpr int64_t kMostPartial = int64_t{4} << 20;  // bytes
/// Blocks that a multiprocessor holds, and the least of k that one should have.
constexpr int64_t kResident = 2, kLeast = 256;

bool IsAligned(const void* p) { return std::bit_cast<uint64_t>(p) % 16 == 0; }

/// What blocks of one product tell each other, of one device: made once and never freed. Products follow each other on
/// the device's stream, so all share it.
struct Meeting {
  void* arrived = nullptr;
  void* partial = nullptr;
};

absl::StatusOr<const Meeting*> MeetingOn(Device& device) {
  static auto* mutex = new std::mutex;
  static constinit std::atomic<const Meeting*> all[kMaxDevices] = {};
  std::atomic<const Meeting*>& slot = all[device.index()];
  if (const Meeting* known = slot.load(std::memory_order_acquire)) return known;
  std::lock_guard lock(*mutex);
  if (const Meeting* known = slot.load(std::memory_order_acquire)) return known;
  // Zeros that are recorded are not written yet.
  if (device.stream() != device.live_stream()) return nullptr;
  Meeting m;
  TSR_ASSIGN_OR_RETURN(m.arrived, device.Allocate(kMostArrivals * sizeof(uint32_t)));
  TSR_ASSIGN_OR_RETURN(m.partial, device.Allocate(kMostPartial));
  TSR_RETURN_IF_ERROR(device.Zero(m.arrived, kMostArrivals * sizeof(uint32_t)));
  slot.store(new Meeting(m), std::memory_order_release);
  return slot.load(std::memory_order_relaxed);
}

}  // namespace

bool IsSkinny(const GemmArgs& p) {
  if (p.dtype != DType::f16 && p.dtype != DType::bf16) return false;
  if (p.batch_rank != 0 || p.m < 1 || p.m > kMostRows || p.n * p.k < kLarge) return false;
  if (p.n % 8 != 0 || p.k % 8 != 0 || p.n > INT32_MAX / 2 || p.k > INT32_MAX / 2) return false;
  if (p.a.col != 1 || (p.m > 1 && p.a.row % 8 != 0)) return false;
  const bool along_columns = p.b.col == 1 && p.b.row % 8 == 0, along_rows = p.b.row == 1 && p.b.col % 8 == 0;
  return (along_columns || along_rows) && IsAligned(p.a.data) && IsAligned(p.b.data);
}

absl::Status SkinnyProduct(const interp::KernelArgs& args, const GemmArgs& p) {
  Device& device = DeviceOf(*args.device);
  SkinnyArgs s = {};
  s.c = std::bit_cast<Address>(p.c);
  s.a = std::bit_cast<Address>(p.a.data);
  s.b = std::bit_cast<Address>(p.b.data);
  s.m = static_cast<int32_t>(p.m);
  s.n = static_cast<int32_t>(p.n);
  s.k = static_cast<int32_t>(p.k);
  s.a_row = p.m > 1 ? p.a.row : 0;
  const bool along_rows = !(p.b.col == 1 && p.b.row % 8 == 0);
  s.b_ld = along_rows ? p.b.col : p.b.row;
  // As many blocks as the device holds at a time, if k is long enough.
  const int64_t blocks = (p.n + kSkinnyColumns - 1) / kSkinnyColumns;
  const int64_t tiles = p.m > kSkinnyRows ? 2 : 1, block_bytes = tiles * kSkinnySums * int64_t{sizeof(float)};
  const int64_t room = kResident * device.properties().multiprocessors;
  int64_t splits = std::min({room / blocks, p.k / kLeast, kMostPartial / (blocks * block_bytes)});
  if (blocks > kMostArrivals) splits = 1;
  if (splits > 1) {
    TSR_ASSIGN_OR_RETURN(const Meeting* meeting, MeetingOn(device));
    if (meeting != nullptr) {
      s.partial = std::bit_cast<Address>(meeting->partial);
      s.arrived = std::bit_cast<Address>(meeting->arrived);
    } else {
      splits = 1;
    }
  }
  splits = std::max<int64_t>(splits, 1);
  s.each = static_cast<int32_t>(((p.k + splits - 1) / splits + 31) / 32 * 32);
  s.splits = static_cast<int32_t>((p.k + s.each - 1) / s.each);
  const Kernel& kernel = kSkinny[p.dtype == DType::bf16][along_rows][tiles > 1];
  return Launch(args, kernel, Grid{blocks * s.splits, kSkinnyThreads}, s);
}

}  // namespace tessera::cuda
