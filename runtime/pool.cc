#include "runtime/pool.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>

#include "runtime/fault.h"
#include "runtime/memory_events.h"
#include "runtime/options.h"
#include "runtime/per_thread.h"
#include "runtime/sanitizer.h"

namespace tessera::rt {
namespace {

// ---- Size classes ----

constexpr int kSmallClasses = 36;   // 64, 128, 192, 256, then 4 per doubling up to 64 KiB
constexpr int kLargeClasses = 480;  // 16 per doubling from 64 KiB to kLargestRequest

constexpr int SmallClass(size_t bytes) {
  const size_t last = bytes == 0 ? 0 : bytes - 1;
  if (last < 256) return static_cast<int>(last / 64);
  const int log = std::bit_width(last) - 1;
  return 4 + (log - 8) * 4 + static_cast<int>((last >> (log - 2)) & 3);
}
constexpr size_t SmallBytes(int c) { return c < 4 ? size_t(c + 1) * 64 : size_t(5 + (c & 3)) << ((c - 4) / 4 + 6); }
constexpr int LargeClass(size_t bytes) {
  const int log = std::bit_width(bytes - 1) - 1;
  return (log - 16) * 16 + static_cast<int>(((bytes - 1) >> (log - 4)) & 15);
}
constexpr size_t LargeBytes(int c) { return size_t(17 + (c & 15)) << (c / 16 + 12); }
static_assert(SmallClass(kSmallLimit) == kSmallClasses - 1 && SmallBytes(kSmallClasses - 1) == kSmallLimit);
static_assert(LargeClass(kSmallLimit + 1) == 0 && LargeClass(kLargestRequest) == kLargeClasses - 1);

// Blocks of a class that a thread keeps at most; it takes and gives back half as many at a time.
constexpr uint32_t KeptPerThread(size_t size) {
  return static_cast<uint32_t>(std::clamp<size_t>((size_t{256} << 10) / size, 4, 128));
}

// ---- Blocks, spans and caches ----

struct FreeBlock {
  FreeBlock* next;
};

/// The head of a span: kSpanBytes of memory, aligned to that, cut into blocks of one class as they are needed.
struct Span {
  Span *next, *prev;  // among the spans of its class that have room, or among the empty ones
  FreeBlock* free;
  int size_class;
  uint32_t used;    // blocks that threads have
  uint32_t carved;  // blocks cut so far
  uint32_t capacity;
};
constexpr size_t kSpanHead = 64;
static_assert(sizeof(Span) <= kSpanHead);

/// Written into a large block that waits for reuse.
struct CachedBlock {
  CachedBlock *class_next, *class_prev;
  CachedBlock *newer, *older;
  size_t bytes;
  int size_class;
};

void Add(std::atomic<int64_t>& mine, int64_t n) {
  mine.store(mine.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

struct ThreadCache {
  struct Bin {
    FreeBlock* head = nullptr;
    uint16_t count = 0;
    uint16_t most = 0;
    uint32_t bytes = 0;  // of a block
  };
  Bin bins[kSmallClasses];
  // Written by the owner alone, read by all. in_use is below 0 where others' blocks were freed here.
  std::atomic<int64_t> in_use{0}, allocations{0};

  ThreadCache() {
    for (int c = 0; c < kSmallClasses; ++c) {
      bins[c].bytes = static_cast<uint32_t>(SmallBytes(c));
      bins[c].most = static_cast<uint16_t>(KeptPerThread(SmallBytes(c)));
    }
  }
  void Retire();
  void Fold();
};

constexpr size_t MostInThreadCache() {
  size_t sum = 0;
  for (int c = 0; c < kSmallClasses; ++c) sum += KeptPerThread(SmallBytes(c)) * SmallBytes(c);
  return sum;
}
static_assert(MostInThreadCache() <= kThreadCacheBytes);

FreeBlock* Pop(FreeBlock*& head) {
  FreeBlock* block = head;
  Unpoison(block, sizeof *block);
  head = block->next;
  return block;
}
void Push(FreeBlock*& head, void* p) {
  auto* block = static_cast<FreeBlock*>(p);
  block->next = head;
  Poison(block, sizeof *block);
  head = block;
}

// ---- The system ----

/// Null when the system refuses.
void* Map(size_t bytes, size_t alignment) {
  constexpr int kProtection = PROT_READ | PROT_WRITE, kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  if (bytes + alignment < bytes) return nullptr;
  // The system puts mappings side by side, so what comes after an aligned one is aligned mostly. (Gaps of an alignment
  // between blocks also made an addition of three of them 15 % slower on one machine.)
  void* raw = mmap(nullptr, bytes, kProtection, kFlags, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  if (reinterpret_cast<uintptr_t>(raw) % alignment == 0) return raw;
  munmap(raw, bytes);
  const size_t more = alignment;
  raw = mmap(nullptr, bytes + more, kProtection, kFlags, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (begin + alignment - 1) & ~(alignment - 1);
  if (aligned > begin) munmap(raw, aligned - begin);
  if (begin + more > aligned) munmap(reinterpret_cast<void*>(aligned + bytes), begin + more - aligned);
  return reinterpret_cast<void*>(aligned);
}

void Unmap(void* p, size_t bytes) {
  Unpoison(p, bytes);
  munmap(p, bytes);
}

size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

int64_t CacheBytes() {
  const int64_t asked = options().memory_cache_bytes();
  static const int64_t quarter = int64_t{sysconf(_SC_PHYS_PAGES)} * static_cast<int64_t>(PageBytes()) / 4;
  return asked >= 0 ? asked : quarter;
}

// ---- The shared store ----

constexpr int64_t kMostEmptySpans = 16;

/// What leaves the store: unmapped after the lock is released, because that can take milliseconds.
struct Garbage {
  CachedBlock* blocks = nullptr;  // through class_next
  Span* spans = nullptr;          // through next
  int64_t held_after = 0;
  MemoryReason why = MemoryReason::limit;

  void Discard() {
    while (blocks != nullptr) {
      CachedBlock* b = blocks;
      blocks = b->class_next;
      const size_t bytes = b->bytes;
      const MemoryEvent event;
      Unmap(b, bytes);
      event.Done(EventKind::system_free, bytes, held_after, {why});
    }
    while (spans != nullptr) {
      Span* s = spans;
      spans = s->next;
      const MemoryEvent event;
      Unmap(s, kSpanBytes);
      event.Done(EventKind::system_free, kSpanBytes, held_after, {why});
    }
  }
};

/// Everything behind the mutex. Constant-initialised and trivially destructible: usable before and after all others.
struct Store {
  std::mutex mutex;
  Span* with_room[kSmallClasses];
  Span* empty;
  int64_t empty_count;
  CachedBlock* cached[kLargeClasses];
  CachedBlock *newest, *oldest;

  int64_t span_bytes;    // all spans
  int64_t large_in_use;  // handed out
  int64_t large_cached;
  int64_t small_taken;  // blocks that threads have: in use or in their caches
  int64_t peak;
  int64_t limit;  // 0: none
  int64_t large_allocations, system_allocations;

  int64_t held() const { return span_bytes + large_in_use + large_cached; }
  bool WithinLimit(size_t more) const {
    return limit == 0 || span_bytes + large_in_use + static_cast<int64_t>(more) <= limit;
  }

  void EvictOldest(Garbage& garbage) {
    CachedBlock* b = oldest;
    Uncache(b);
    b->class_next = garbage.blocks;
    garbage.blocks = b;
  }
  void Uncache(CachedBlock* b) {
    (b->class_prev ? b->class_prev->class_next : cached[b->size_class]) = b->class_next;
    if (b->class_next != nullptr) b->class_next->class_prev = b->class_prev;
    (b->newer ? b->newer->older : newest) = b->older;
    (b->older ? b->older->newer : oldest) = b->newer;
    large_cached -= static_cast<int64_t>(b->bytes);
  }
  void Cache(CachedBlock* b) {
    b->class_prev = nullptr;
    b->class_next = cached[b->size_class];
    if (b->class_next != nullptr) b->class_next->class_prev = b;
    cached[b->size_class] = b;
    b->newer = nullptr;
    b->older = newest;
    (newest ? newest->newer : oldest) = b;
    newest = b;
    large_cached += static_cast<int64_t>(b->bytes);
  }
  void DropEmptySpan(Garbage& garbage) {
    Span* s = empty;
    empty = s->next;
    --empty_count;
    span_bytes -= kSpanBytes;
    s->next = garbage.spans;
    garbage.spans = s;
  }
  /// Makes held() at most `bytes`, as far as what is cached allows.
  void ShrinkTo(int64_t bytes, Garbage& garbage) {
    while (held() > bytes && oldest != nullptr) EvictOldest(garbage);
    while (held() > bytes && empty != nullptr) DropEmptySpan(garbage);
    garbage.held_after = held();
  }
  /// Gives cached memory up so that a new mapping fits under the limit; false if it still does not. The caller
  /// charges the mapping.
  bool Reserve(size_t bytes, Garbage& garbage) {
    if (limit == 0) return true;
    ShrinkTo(limit - static_cast<int64_t>(bytes), garbage);
    return WithinLimit(bytes);
  }
  void LinkRoom(Span* s) {
    s->prev = nullptr;
    s->next = with_room[s->size_class];
    if (s->next != nullptr) s->next->prev = s;
    with_room[s->size_class] = s;
  }
  void UnlinkRoom(Span* s) {
    (s->prev ? s->prev->next : with_room[s->size_class]) = s->next;
    if (s->next != nullptr) s->next->prev = s->prev;
  }
};
constinit Store store{};

// Counts of threads that have ended. Changed and read under the lock of PerThread, or by threads past their end.
constinit std::atomic<int64_t> ended_in_use{0}, ended_allocations{0};

struct SmallSums {
  int64_t in_use = 0, allocations = 0;
};
SmallSums SumThreads() {
  SmallSums sum;
  PerThread<ThreadCache>::ForEach(
      [&](ThreadCache& t) {
        sum.in_use += t.in_use.load(std::memory_order_relaxed);
        sum.allocations += t.allocations.load(std::memory_order_relaxed);
      },
      [&] {
        sum.in_use += ended_in_use.load(std::memory_order_relaxed);
        sum.allocations += ended_allocations.load(std::memory_order_relaxed);
      });
  return sum;
}

/// Called with the lock held after something was handed out. small_taken is an upper bound of what is in use, so the
/// threads are asked only when there may be a new peak.
void UpdatePeak() {
  if (store.large_in_use + store.small_taken <= store.peak) return;
  store.peak = std::max(store.peak, store.large_in_use + SumThreads().in_use);
}

/// First of all uses of the store: takes the limit from the options, and makes fork() wait for the locks.
void Setup() {
  static const bool done = [] {
    pthread_atfork(
        [] {
          store.mutex.lock();
          internal::g_per_thread_mutex.lock();
        },
        [] {
          internal::g_per_thread_mutex.unlock();
          store.mutex.unlock();
        },
        [] {
          internal::g_per_thread_mutex.unlock();
          store.mutex.unlock();
        });
    {
      std::lock_guard lock(store.mutex);
      store.limit = options().memory_limit_bytes();
    }
    options().OnChange(OptionId::memory_limit_bytes, [] { PoolSetLimit(options().memory_limit_bytes()); });
    return true;
  }();
  (void)done;
}

// ---- Small blocks ----

/// A new empty span in the store; false when the limit or the system refuses. Called with the lock held, and holds it
/// again when it returns.
bool NewSpan(std::unique_lock<std::mutex>& lock) {
  Garbage garbage;
  const bool allowed = store.Reserve(kSpanBytes, garbage);
  if (allowed) store.span_bytes += kSpanBytes;
  const int64_t held = store.held();
  lock.unlock();
  garbage.Discard();
  const MemoryEvent event;
  void* memory = allowed ? Map(kSpanBytes, kSpanBytes) : nullptr;
  if (memory != nullptr) event.Done(EventKind::system_allocation, kSpanBytes, held, {MemoryReason::span});
  lock.lock();
  if (memory == nullptr) {
    if (allowed) store.span_bytes -= kSpanBytes;
    return false;
  }
  ++store.system_allocations;
  auto* s = static_cast<Span*>(memory);
  s->next = store.empty;
  store.empty = s;
  ++store.empty_count;
  return true;
}

/// Takes up to `want` blocks from the store; a chain of *got blocks, null when there is no memory.
FreeBlock* TakeBlocks(int size_class, uint32_t want, uint32_t* got) {
  const size_t bytes = SmallBytes(size_class);
  FreeBlock* chain = nullptr;
  uint32_t n = 0;
  std::unique_lock lock(store.mutex);
  while (n < want) {
    Span* s = store.with_room[size_class];
    if (s == nullptr) {
      if (n > 0) break;
      if (store.empty == nullptr && !NewSpan(lock)) break;
      if (store.empty == nullptr || store.with_room[size_class] != nullptr) continue;  // others were here meanwhile
      s = store.empty;
      store.empty = s->next;
      --store.empty_count;
      *s = {.next = nullptr,
            .prev = nullptr,
            .free = nullptr,
            .size_class = size_class,
            .used = 0,
            .carved = 0,
            .capacity = static_cast<uint32_t>((kSpanBytes - kSpanHead) / bytes)};
      store.LinkRoom(s);
      Poison(reinterpret_cast<char*>(s) + kSpanHead, kSpanBytes - kSpanHead);
    }
    while (n < want && s->used < s->capacity) {
      void* block;
      if (s->free != nullptr) {
        block = Pop(s->free);
      } else {
        block = reinterpret_cast<char*>(s) + kSpanHead + s->carved++ * bytes;
        Unpoison(block, sizeof(FreeBlock));
      }
      ++s->used;
      Push(chain, block);
      ++n;
    }
    if (s->used == s->capacity) store.UnlinkRoom(s);
  }
  store.small_taken += static_cast<int64_t>(n * bytes);
  *got = n;
  return chain;
}

/// Gives the first n blocks of a chain back to the store; `chain` is then the rest.
void GiveBlocks(int size_class, FreeBlock*& chain, uint32_t n) {
  Garbage garbage;
  garbage.why = MemoryReason::empty_spans;
  {
    std::lock_guard lock(store.mutex);
    store.small_taken -= static_cast<int64_t>(n * SmallBytes(size_class));
    for (; n > 0; --n) {
      FreeBlock* block = Pop(chain);
      auto* s = reinterpret_cast<Span*>(reinterpret_cast<uintptr_t>(block) & ~uintptr_t{kSpanBytes - 1});
      if (s->used == s->capacity) store.LinkRoom(s);
      Push(s->free, block);
      if (--s->used > 0) continue;
      store.UnlinkRoom(s);
      s->next = store.empty;
      store.empty = s;
      if (++store.empty_count > kMostEmptySpans) store.DropEmptySpan(garbage);
    }
    garbage.held_after = store.held();
  }
  garbage.Discard();
}

void FlushCache(ThreadCache& cache) {
  for (int c = 0; c < kSmallClasses; ++c) {
    ThreadCache::Bin& bin = cache.bins[c];
    if (bin.count > 0) GiveBlocks(c, bin.head, bin.count);
    bin.count = 0;
  }
}

/// Everything that is cached, but for other threads' small blocks, goes back.
void Trim(MemoryReason why) {
  if (ThreadCache* mine = PerThread<ThreadCache>::Peek()) FlushCache(*mine);
  Garbage garbage;
  garbage.why = why;
  {
    std::lock_guard lock(store.mutex);
    store.ShrinkTo(0, garbage);
  }
  garbage.Discard();
}

[[gnu::noinline]] void* SmallSlow(int size_class, size_t asked) noexcept {
  Setup();
  const auto bytes = static_cast<int64_t>(SmallBytes(size_class));
  ThreadCache* mine = PerThread<ThreadCache>::Get();
  const uint32_t want = mine != nullptr ? mine->bins[size_class].most / 2 : 1;
  uint32_t got = 0;
  FreeBlock* chain = TakeBlocks(size_class, want, &got);
  if (chain == nullptr) {
    Trim(MemoryReason::refused);
    chain = TakeBlocks(size_class, want, &got);
    if (chain == nullptr) return nullptr;
  }
  void* block = Pop(chain);
  if (mine != nullptr) {
    ThreadCache::Bin& bin = mine->bins[size_class];
    bin.head = chain;
    bin.count = static_cast<uint16_t>(got - 1);
    Add(mine->in_use, bytes);
    Add(mine->allocations, 1);
  } else {
    ended_in_use.fetch_add(bytes, std::memory_order_relaxed);
    ended_allocations.fetch_add(1, std::memory_order_relaxed);
  }
  {
    std::lock_guard lock(store.mutex);
    UpdatePeak();
  }
  Unpoison(block, asked);
  return block;
}

[[gnu::noinline]] void FreeSlow(int size_class, void* p) noexcept {
  ThreadCache* mine = PerThread<ThreadCache>::Get();
  const auto bytes = static_cast<int64_t>(SmallBytes(size_class));
  if (mine == nullptr) {
    ended_in_use.fetch_sub(bytes, std::memory_order_relaxed);
    FreeBlock* chain = nullptr;
    Push(chain, p);
    GiveBlocks(size_class, chain, 1);
    return;
  }
  Add(mine->in_use, -bytes);
  ThreadCache::Bin& bin = mine->bins[size_class];
  if (bin.count >= bin.most) {
    GiveBlocks(size_class, bin.head, bin.most / 2);
    bin.count = static_cast<uint16_t>(bin.count - bin.most / 2);
  }
  Push(bin.head, p);
  ++bin.count;
}

void ThreadCache::Retire() { FlushCache(*this); }

void ThreadCache::Fold() {
  ended_in_use.fetch_add(in_use.load(std::memory_order_relaxed), std::memory_order_relaxed);
  ended_allocations.fetch_add(allocations.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

// ---- Large blocks ----

void* TakeLarge(size_t asked) {
  const int size_class = LargeClass(asked);
  const size_t bytes = PoolBlockBytes(asked);
  Garbage garbage;
  int64_t held = 0;
  {
    std::lock_guard lock(store.mutex);
    if (!store.WithinLimit(bytes)) return nullptr;
    CachedBlock* b = store.cached[size_class];
    if (b != nullptr) store.Uncache(b);
    if (b == nullptr) store.Reserve(bytes, garbage);
    store.large_in_use += static_cast<int64_t>(bytes);
    ++store.large_allocations;
    UpdatePeak();
    if (b != nullptr) {
      Unpoison(b, asked);
      return b;
    }
    ++store.system_allocations;
    held = store.held();
  }
  garbage.Discard();
  const bool huge = bytes >= kHugeBytes;
  const MemoryEvent event;
  void* p = Map(bytes, huge ? kHugeBytes : PageBytes());
  if (p == nullptr) {
    std::lock_guard lock(store.mutex);
    store.large_in_use -= static_cast<int64_t>(bytes);
    --store.large_allocations;
    --store.system_allocations;
    return nullptr;
  }
  if (huge && options().huge_pages()) madvise(p, bytes, MADV_HUGEPAGE);
  event.Done(EventKind::system_allocation, bytes, held, {MemoryReason::block});
  Poison(p, bytes);
  Unpoison(p, asked);
  return p;
}

[[gnu::noinline]] void GiveLarge(void* p, size_t asked) noexcept {
  const size_t bytes = PoolBlockBytes(asked);
  const int64_t keep = CacheBytes();
  Garbage garbage;
  Poison(p, bytes);
  Unpoison(p, sizeof(CachedBlock));
  auto* b = static_cast<CachedBlock*>(p);
  b->bytes = bytes;
  b->size_class = LargeClass(asked);
  {
    std::lock_guard lock(store.mutex);
    store.large_in_use -= static_cast<int64_t>(bytes);
    store.Cache(b);
    if (store.large_cached > keep) garbage.why = MemoryReason::cache_full;
    while (store.large_cached > keep) store.EvictOldest(garbage);
    if (store.limit > 0) store.ShrinkTo(store.limit, garbage);
    garbage.held_after = store.held();
  }
  garbage.Discard();
}

[[gnu::noinline]] void* LargeSlow(size_t bytes) noexcept {
  // A system that promises more than it has (overcommit) would end the process later, without a message.
  static const auto physical = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * PageBytes();
  if (bytes > kLargestRequest || bytes > physical) return nullptr;
  Setup();
  if (void* p = TakeLarge(bytes)) return p;
  Trim(MemoryReason::refused);
  return TakeLarge(bytes);
}

inline void* Allocate(size_t bytes) noexcept {
  if (bytes > kSmallLimit) return LargeSlow(bytes);
  const int size_class = SmallClass(bytes);
  ThreadCache* mine = PerThread<ThreadCache>::Peek();
  if (mine == nullptr || mine->bins[size_class].head == nullptr) [[unlikely]]
    return SmallSlow(size_class, bytes);
  ThreadCache::Bin& bin = mine->bins[size_class];
  void* block = Pop(bin.head);
  --bin.count;
  Add(mine->in_use, bin.bytes);
  Add(mine->allocations, 1);
  Unpoison(block, bytes);
  return block;
}

[[gnu::noinline, gnu::cold]] void* AllocateUnlessFault(size_t bytes) noexcept {
  return FaultFires(Fault::allocation) ? nullptr : Allocate(bytes);
}

}  // namespace

size_t PoolBlockBytes(size_t bytes) {
  if (bytes <= kSmallLimit) return SmallBytes(SmallClass(bytes));
  const size_t page = PageBytes();
  return (LargeBytes(LargeClass(bytes)) + page - 1) / page * page;
}

void* PoolAllocate(size_t bytes) noexcept {
  // The slow ways are tail calls, so that the fast one needs no stack frame.
  if (AnyFaultArmed()) [[unlikely]]
    return AllocateUnlessFault(bytes);
  return Allocate(bytes);
}

void PoolFree(void* p, size_t bytes) noexcept {
  if (p == nullptr) return;
  if (bytes > kSmallLimit) return GiveLarge(p, bytes);
  const int size_class = SmallClass(bytes);
  if (kAddressSanitizer) {
    Poison(p, SmallBytes(size_class));
    Unpoison(p, sizeof(FreeBlock));
  }
  ThreadCache* mine = PerThread<ThreadCache>::Peek();
  if (mine == nullptr || mine->bins[size_class].count >= mine->bins[size_class].most) [[unlikely]]
    return FreeSlow(size_class, p);
  ThreadCache::Bin& bin = mine->bins[size_class];
  Push(bin.head, p);
  ++bin.count;
  Add(mine->in_use, -int64_t{bin.bytes});
}

void PoolTrim() noexcept { Trim(MemoryReason::trim); }

MemoryStats PoolStats() noexcept {
  Setup();
  std::lock_guard lock(store.mutex);
  const SmallSums small = SumThreads();
  MemoryStats s;
  s.bytes_in_use = store.large_in_use + small.in_use;
  store.peak = std::max(store.peak, s.bytes_in_use);
  s.bytes_cached = store.held() - s.bytes_in_use;
  s.peak_bytes = store.peak;
  s.limit_bytes = store.limit;
  s.allocations = store.large_allocations + small.allocations;
  s.system_allocations = store.system_allocations;
  return s;
}

void PoolResetPeak() noexcept {
  std::lock_guard lock(store.mutex);
  store.peak = store.large_in_use + SumThreads().in_use;
}

void PoolSetLimit(int64_t bytes) noexcept {
  Setup();
  Garbage garbage;
  {
    std::lock_guard lock(store.mutex);
    store.limit = std::max<int64_t>(bytes, 0);
    if (store.limit > 0) store.ShrinkTo(store.limit, garbage);
  }
  garbage.Discard();
}

}  // namespace tessera::rt
