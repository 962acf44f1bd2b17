// The memory of a CUDA device: a caching pool over a memory pool of the driver.
//
// Every request is rounded up to a size class, and all numbers count rounded bytes.
//   small  (at most 1 MiB; classes a quarter of a power of two apart): from spans, through a cache per thread that
//          needs neither lock nor atomic read-modify-write.
//   large  (the rest; classes a sixteenth apart, but at most 2 MiB): one piece of the driver's pool each, behind one
//          mutex. Freed ones are kept for reuse, by requests of an eighth less too, up to the option cuda_cache_bytes,
//          the longest unused going first. What is given back to the driver can serve other sizes, because it maps
//          pages anew: that keeps memory from falling to pieces.
//
// Blocks are reused in the order of the device's stream (device.h). The device's context is entered only where the
// driver is asked. Numbers mean what runtime/pool.h says.
#ifndef TESSERA_RUNTIME_CUDA_POOL_H_
#define TESSERA_RUNTIME_CUDA_POOL_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/device.h"
#include "runtime/memory_events.h"

namespace tessera::cuda {

class Device;

class Pool {
 public:
  /// The device's context is current.
  static absl::StatusOr<std::unique_ptr<Pool>> Make(Device& device, CUdevice handle);

  /// Null when the limit or the driver refuses, after giving back what is cached and trying again.
  void* Allocate(size_t bytes);
  void Free(void* p, size_t bytes) noexcept;
  void Trim();
  rt::MemoryStats stats();
  void ResetPeak();
  void SetLimit(int64_t bytes);
  static size_t BlockBytes(size_t bytes);

 private:
  struct Span {
    int size_class;
    uint32_t used = 0;
    std::vector<void*> free;
    bool has_room = false;
  };
  struct Large {
    size_t bytes;
    void* data;
  };

  explicit Pool(Device& device) : device_(device) {}
  void* AllocateSmall(int size_class);
  void FreeSmall(int size_class, void* p);
  void* AllocateLarge(size_t bytes);
  void FreeLarge(void* p, size_t bytes);
  friend struct ThreadBlocks;
  uint32_t TakeBlocks(int size_class, uint32_t want, void** blocks);
  void GiveBlocks(int size_class, void** blocks, uint32_t n);
  // The rest with the lock held.
  bool WithinLimit(size_t more) const { return limit_ == 0 || held_ + static_cast<int64_t>(more) <= limit_; }
  void* FromDriver(size_t bytes, rt::MemoryReason why);
  void ToDriver(void* p, size_t bytes, rt::MemoryReason why);
  void EvictOldest(rt::MemoryReason why);
  /// Before more is asked of the driver: what has long been unused goes, if it is much.
  void EvictUnused(size_t bytes);
  bool DropEmptySpan(rt::MemoryReason why);
  /// Gives cached memory up until that many bytes more may be held.
  void MakeRoom(size_t bytes);
  void UpdatePeak();

  Device& device_;
  CUmemoryPool driver_pool_ = nullptr;
  std::mutex mutex_;
  std::map<uintptr_t, Span> spans_;           // by address
  std::vector<std::vector<uintptr_t>> room_;  // spans with free blocks, by class
  std::list<Large> cached_;                   // the one freed last is first
  std::multimap<size_t, std::list<Large>::iterator> by_size_;
  std::unordered_map<void*, size_t> larger_;  // blocks in use that are larger than what they were taken for
  int64_t held_ = 0;                          // from the driver
  int64_t large_in_use_ = 0, large_cached_ = 0, small_taken_ = 0;
  int64_t peak_ = 0, limit_ = 0;
  int64_t large_allocations_ = 0, system_allocations_ = 0;
};

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_POOL_H_
