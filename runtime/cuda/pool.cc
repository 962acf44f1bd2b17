#include "runtime/cuda/pool.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>

#include "runtime/cuda/device.h"
#include "runtime/fault.h"
#include "runtime/options.h"
#include "runtime/per_thread.h"
#include "runtime/ring.h"

namespace tessera::cuda {
namespace {

constexpr size_t kLargest = size_t{1} << 46;
constexpr size_t kSmallest = 256;
constexpr size_t kSmallLimit = size_t{1} << 20;
constexpr int kSmallClasses = 52;  // 256, 512, 768, 1024, then 4 per doubling up to 1 MiB

constexpr int SmallClass(size_t bytes) {
  const size_t last = (bytes == 0 ? 0 : bytes - 1) / kSmallest;
  if (last < 4) return static_cast<int>(last);
  const int log = std::bit_width(last) - 1;
  return 4 + (log - 2) * 4 + static_cast<int>((last >> (log - 2)) & 3);
}
constexpr size_t SmallBytes(int c) {
  return c < 4 ? size_t(c + 1) * kSmallest : (size_t(5 + (c & 3)) << ((c - 4) / 4)) * kSmallest;
}
static_assert(SmallBytes(SmallClass(kSmallLimit)) == kSmallLimit && SmallClass(kSmallLimit) < kSmallClasses);

/// Large blocks: a sixteenth apart, but no further than the pages of the driver's pool: of what a version needs at once
/// a sixteenth would be as much as all its parameters.
size_t LargeBytes(size_t bytes) {
  const int log = std::bit_width(bytes - 1) - 1;
  const size_t step = std::clamp<size_t>(size_t{1} << (log - 4), size_t{64} << 10, size_t{2} << 20);
  return (bytes + step - 1) / step * step;
}

size_t SpanBytes(int size_class) { return std::max<size_t>(size_t{2} << 20, 2 * SmallBytes(size_class)); }

/// Blocks of a class that a thread keeps at most; it takes and gives back half as many at a time.
constexpr uint32_t kMostKept = 32;
uint32_t Kept(int size_class) {
  return static_cast<uint32_t>(std::clamp<size_t>((size_t{1} << 20) / SmallBytes(size_class), 2, kMostKept));
}

struct Bin {
  uint32_t count = 0;
  void* blocks[kMostKept];
};
struct Bins {
  Bin bins[kSmallClasses];
  // Written by the owner alone, read by all. in_use is below 0 where others' blocks were freed here.
  std::atomic<int64_t> in_use{0}, allocations{0};
};

constinit std::atomic<Pool*> pools[kMaxDevices] = {};
// Counts of threads that have ended, changed under the lock of PerThread or by threads past their end.
struct Ended {
  std::atomic<int64_t> in_use{0}, allocations{0};
};
constinit Ended ended[kMaxDevices] = {};

void Add(std::atomic<int64_t>& mine, int64_t n) {
  mine.store(mine.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace

/// What one thread keeps of each device.
struct ThreadBlocks {
  std::unique_ptr<Bins> of[kMaxDevices];

  Bins& On(int index) {
    if (of[index] == nullptr) of[index] = std::make_unique<Bins>();
    return *of[index];
  }
  void Empty(int index) {
    if (of[index] == nullptr) return;
    for (int c = 0; c < kSmallClasses; ++c) {
      Bin& bin = of[index]->bins[c];
      if (bin.count > 0) pools[index].load(std::memory_order_relaxed)->GiveBlocks(c, bin.blocks, bin.count);
      bin.count = 0;
    }
  }
  void Retire() {
    for (int i = 0; i < kMaxDevices; ++i) Empty(i);
  }
  void Fold() {
    for (int i = 0; i < kMaxDevices; ++i) {
      if (of[i] == nullptr) continue;
      ended[i].in_use.fetch_add(of[i]->in_use.load(std::memory_order_relaxed), std::memory_order_relaxed);
      ended[i].allocations.fetch_add(of[i]->allocations.load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
  }
};

namespace {

using Threads = rt::PerThread<ThreadBlocks>;

struct SmallSums {
  int64_t in_use = 0, allocations = 0;
};
SmallSums SumThreads(int index) {
  SmallSums sum;
  Threads::ForEach(
      [&](ThreadBlocks& t) {
        if (t.of[index] == nullptr) return;
        sum.in_use += t.of[index]->in_use.load(std::memory_order_relaxed);
        sum.allocations += t.of[index]->allocations.load(std::memory_order_relaxed);
      },
      [&] {
        sum.in_use += ended[index].in_use.load(std::memory_order_relaxed);
        sum.allocations += ended[index].allocations.load(std::memory_order_relaxed);
      });
  return sum;
}

}  // namespace

size_t Pool::BlockBytes(size_t bytes) {
  return bytes <= kSmallLimit ? SmallBytes(SmallClass(bytes)) : LargeBytes(bytes);
}

absl::StatusOr<std::unique_ptr<Pool>> Pool::Make(Device& device, CUdevice handle) {
  std::unique_ptr<Pool> pool(new Pool(device));
  const Driver& driver = TheDriver();
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = handle;
  TSR_RETURN_IF_ERROR(device.Check("cuMemPoolCreate", driver.cuMemPoolCreate(&pool->driver_pool_, &props)));
  // The driver keeps nothing back at a synchronisation on its own: what is cached is this class's to decide.
  cuuint64_t all = ~cuuint64_t{0};
  TSR_RETURN_IF_ERROR(
      device.Check("cuMemPoolSetAttribute",
                   driver.cuMemPoolSetAttribute(pool->driver_pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all)));
  pool->room_.resize(kSmallClasses);
  pool->limit_ = rt::options().cuda_limit_bytes();
  pools[device.index()].store(pool.get(), std::memory_order_release);
  return pool;
}

// ---- what the driver gives

void* Pool::FromDriver(size_t bytes, rt::MemoryReason why) {
  MakeRoom(bytes);
  if (!WithinLimit(bytes) || !device_.Enter().ok()) return nullptr;
  const Driver& driver = TheDriver();
  const rt::MemoryEvent event;
  CUdeviceptr p = 0;
  CUresult result = driver.cuMemAllocFromPoolAsync(&p, bytes, driver_pool_, device_.live_stream());
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    // Everything that is cached goes, what the device still uses is waited for, and the driver's pages become free.
    while (!cached_.empty()) EvictOldest(rt::MemoryReason::refused);
    while (DropEmptySpan(rt::MemoryReason::refused)) {
    }
    driver.cuStreamSynchronize(device_.live_stream());
    driver.cuMemPoolTrimTo(driver_pool_, 0);
    result = driver.cuMemAllocFromPoolAsync(&p, bytes, driver_pool_, device_.live_stream());
  }
  if (result != CUDA_SUCCESS) return nullptr;
  held_ += static_cast<int64_t>(bytes);
  ++system_allocations_;
  event.Done(rt::EventKind::system_allocation, bytes, held_, {why, device_.index()});
  return reinterpret_cast<void*>(p);
}

void Pool::ToDriver(void* p, size_t bytes, rt::MemoryReason why) {
  const rt::MemoryEvent event;
  if (device_.Enter().ok()) TheDriver().cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(p), device_.live_stream());
  held_ -= static_cast<int64_t>(bytes);
  event.Done(rt::EventKind::system_free, bytes, held_, {why, device_.index()});
}

void Pool::EvictOldest(rt::MemoryReason why) {
  const auto last = std::prev(cached_.end());
  const auto [begin, end] = by_size_.equal_range(last->bytes);
  for (auto it = begin; it != end; ++it) {
    if (it->second != last) continue;
    by_size_.erase(it);
    break;
  }
  large_cached_ -= static_cast<int64_t>(last->bytes);
  ToDriver(last->data, last->bytes, why);
  cached_.erase(last);
}

// Blocks of sizes that do not come back would pile up. What goes stays in the driver's pool, which cuts it for other
// sizes. A program whose sizes do come back keeps its blocks: they are hardly more than twice of what it uses at once.
void Pool::EvictUnused(size_t bytes) {
  constexpr int64_t kAlways = int64_t{1} << 30;
  const int64_t most = 2 * std::max(peak_, large_in_use_ + small_taken_) + kAlways;
  while (held_ + static_cast<int64_t>(bytes) > most && !cached_.empty()) EvictOldest(rt::MemoryReason::cache_full);
}

bool Pool::DropEmptySpan(rt::MemoryReason why) {
  for (auto it = spans_.begin(); it != spans_.end(); ++it) {
    if (it->second.used > 0) continue;
    const int c = it->second.size_class;
    std::erase(room_[static_cast<size_t>(c)], it->first);
    ToDriver(reinterpret_cast<void*>(it->first), SpanBytes(c), why);
    spans_.erase(it);
    return true;
  }
  return false;
}

void Pool::MakeRoom(size_t bytes) {
  if (limit_ == 0) return;
  while (!WithinLimit(bytes) && !cached_.empty()) EvictOldest(rt::MemoryReason::limit);
  while (!WithinLimit(bytes) && DropEmptySpan(rt::MemoryReason::limit)) {
  }
}

// ---- small blocks

uint32_t Pool::TakeBlocks(int size_class, uint32_t want, void** blocks) {
  const size_t bytes = SmallBytes(size_class);
  std::vector<uintptr_t>& room = room_[static_cast<size_t>(size_class)];
  uint32_t n = 0;
  std::lock_guard lock(mutex_);
  while (n < want) {
    if (room.empty()) {
      if (n > 0) break;
      const size_t span_bytes = SpanBytes(size_class);
      void* memory = FromDriver(span_bytes, rt::MemoryReason::span);
      if (memory == nullptr) break;
      Span& span = spans_[reinterpret_cast<uintptr_t>(memory)];
      span.size_class = size_class;
      span.has_room = true;
      // The first block is handed out first.
      for (size_t at = span_bytes / bytes; at-- > 0;) span.free.push_back(static_cast<char*>(memory) + at * bytes);
      room.push_back(reinterpret_cast<uintptr_t>(memory));
    }
    Span& span = spans_[room.back()];
    while (n < want && !span.free.empty()) {
      blocks[n++] = span.free.back();
      span.free.pop_back();
      ++span.used;
    }
    if (span.free.empty()) {
      span.has_room = false;
      room.pop_back();
    }
  }
  small_taken_ += static_cast<int64_t>(n * bytes);
  return n;
}

void Pool::GiveBlocks(int size_class, void** blocks, uint32_t n) {
  std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < n; ++i) {
    auto it = std::prev(spans_.upper_bound(reinterpret_cast<uintptr_t>(blocks[i])));
    Span& span = it->second;
    span.free.push_back(blocks[i]);
    --span.used;
    if (!span.has_room) {
      span.has_room = true;
      room_[static_cast<size_t>(size_class)].push_back(it->first);
    }
  }
  small_taken_ -= static_cast<int64_t>(n * SmallBytes(size_class));
}

void* Pool::AllocateSmall(int size_class) {
  const auto bytes = static_cast<int64_t>(SmallBytes(size_class));
  ThreadBlocks* mine = Threads::Get();
  if (mine == nullptr) {
    void* p = nullptr;
    if (TakeBlocks(size_class, 1, &p) == 0) return nullptr;
    ended[device_.index()].in_use.fetch_add(bytes, std::memory_order_relaxed);
    ended[device_.index()].allocations.fetch_add(1, std::memory_order_relaxed);
    return p;
  }
  Bins& bins = mine->On(device_.index());
  Bin& bin = bins.bins[size_class];
  const bool refill = bin.count == 0;
  if (refill) {
    bin.count = TakeBlocks(size_class, std::max(1u, Kept(size_class) / 2), bin.blocks);
    if (bin.count == 0) {
      mine->Empty(device_.index());
      bin.count = TakeBlocks(size_class, 1, bin.blocks);
      if (bin.count == 0) return nullptr;
    }
  }
  void* p = bin.blocks[--bin.count];
  Add(bins.in_use, bytes);
  Add(bins.allocations, 1);
  if (refill) {
    std::lock_guard lock(mutex_);
    UpdatePeak();
  }
  return p;
}

void Pool::FreeSmall(int size_class, void* p) {
  const auto bytes = static_cast<int64_t>(SmallBytes(size_class));
  ThreadBlocks* mine = Threads::Get();
  if (mine == nullptr) {
    ended[device_.index()].in_use.fetch_sub(bytes, std::memory_order_relaxed);
    GiveBlocks(size_class, &p, 1);
    return;
  }
  Bins& bins = mine->On(device_.index());
  Bin& bin = bins.bins[size_class];
  Add(bins.in_use, -bytes);
  const uint32_t most = Kept(size_class);
  if (bin.count == most) {
    const uint32_t half = most - most / 2;
    GiveBlocks(size_class, bin.blocks, half);
    std::move(bin.blocks + half, bin.blocks + most, bin.blocks);
    bin.count -= half;
  }
  bin.blocks[bin.count++] = p;
}

// ---- large blocks

void* Pool::AllocateLarge(size_t bytes) {
  std::lock_guard lock(mutex_);
  void* p = nullptr;
  // One that is a little larger will do: memory that is new to the driver takes longer than most kernels.
  if (const auto it = by_size_.lower_bound(bytes); it != by_size_.end() && it->first <= bytes + bytes / 8) {
    p = it->second->data;
    if (it->first != bytes) larger_.emplace(p, it->first);
    bytes = it->first;
    cached_.erase(it->second);
    by_size_.erase(it);
    large_cached_ -= static_cast<int64_t>(bytes);
  } else {
    EvictUnused(bytes);
    p = FromDriver(bytes, rt::MemoryReason::block);
    if (p == nullptr) return nullptr;
  }
  large_in_use_ += static_cast<int64_t>(bytes);
  ++large_allocations_;
  UpdatePeak();
  return p;
}

void Pool::FreeLarge(void* p, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (const auto it = larger_.find(p); it != larger_.end()) {
    bytes = it->second;
    larger_.erase(it);
  }
  large_in_use_ -= static_cast<int64_t>(bytes);
  large_cached_ += static_cast<int64_t>(bytes);
  cached_.push_front({bytes, p});
  by_size_.emplace(bytes, cached_.begin());
  const int64_t most = rt::options().cuda_cache_bytes();
  while (most >= 0 && large_cached_ > most && !cached_.empty()) EvictOldest(rt::MemoryReason::cache_full);
}

// ---- all

void* Pool::Allocate(size_t bytes) {
  if (bytes > kLargest || rt::FaultFires(rt::Fault::allocation)) [[unlikely]]
    return nullptr;
  if (bytes > kSmallLimit) return AllocateLarge(LargeBytes(bytes));
  return AllocateSmall(SmallClass(bytes));
}

void Pool::Free(void* p, size_t bytes) noexcept {
  if (bytes > kSmallLimit)
    FreeLarge(p, LargeBytes(bytes));
  else
    FreeSmall(SmallClass(bytes), p);
}

void Pool::Trim() {
  if (ThreadBlocks* mine = Threads::Peek()) mine->Empty(device_.index());
  std::lock_guard lock(mutex_);
  while (!cached_.empty()) EvictOldest(rt::MemoryReason::trim);
  while (DropEmptySpan(rt::MemoryReason::trim)) {
  }
  TheDriver().cuStreamSynchronize(device_.live_stream());
  TheDriver().cuMemPoolTrimTo(driver_pool_, 0);
}

/// small_taken_ is an upper bound of what is in use, so the threads are asked only when there may be a new peak.
void Pool::UpdatePeak() {
  if (large_in_use_ + small_taken_ <= peak_) return;
  peak_ = std::max(peak_, large_in_use_ + SumThreads(device_.index()).in_use);
}

rt::MemoryStats Pool::stats() {
  std::lock_guard lock(mutex_);
  const SmallSums sums = SumThreads(device_.index());
  rt::MemoryStats s;
  s.bytes_in_use = large_in_use_ + sums.in_use;
  s.bytes_cached = held_ - s.bytes_in_use;
  peak_ = std::max(peak_, s.bytes_in_use);
  s.peak_bytes = peak_;
  s.limit_bytes = limit_;
  s.allocations = large_allocations_ + sums.allocations;
  s.system_allocations = system_allocations_;
  return s;
}

void Pool::ResetPeak() {
  std::lock_guard lock(mutex_);
  peak_ = large_in_use_ + SumThreads(device_.index()).in_use;
}

void Pool::SetLimit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = std::max<int64_t>(bytes, 0);
}

}  // namespace tessera::cuda
