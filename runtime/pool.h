// The memory of the cpu device: a caching pool over mmap.
//
// Every request is rounded up to a size class, and all numbers count rounded bytes.
//   small  (at most 64 KiB; classes a quarter of a power of two apart): from spans of 512 KiB, through a cache per
//          thread that needs neither lock nor atomic read-modify-write.
//   large  (the rest; classes a sixteenth apart): one mapping each, behind one mutex. Freed ones are kept for reuse up
//          to the option memory_cache_bytes, the longest unused going first; from 2 MiB on with huge pages.
//
// What the numbers mean:
//   bytes_in_use   exact whenever no other thread is inside Allocate or Free.
//   bytes_cached   all memory taken from the system less bytes_in_use: kept large blocks, and unused parts of spans.
//   peak_bytes     exact for large blocks. Small ones are looked at when a thread goes to the shared store and when
//                  statistics are read, so a rise that thread caches served alone (at most kThreadCacheBytes per
//                  thread) can be missed.
//   limit          memory taken from the system never exceeds it. A large block is charged when it is handed out, a
//                  small one with the span that it comes from.
#ifndef TESSERA_RUNTIME_POOL_H_
#define TESSERA_RUNTIME_POOL_H_

#include <cstddef>
#include <cstdint>

#include "runtime/device.h"

namespace tessera::rt {

inline constexpr size_t kPoolAlignment = 64;
inline constexpr size_t kSmallLimit = size_t{64} << 10;
inline constexpr size_t kSpanBytes = size_t{512} << 10;
inline constexpr size_t kHugeBytes = size_t{2} << 20;
inline constexpr size_t kLargestRequest = size_t{1} << 46;
/// Most that one thread's cache holds back, over all size classes.
inline constexpr size_t kThreadCacheBytes = size_t{8} << 20;

/// The bytes that a request of `bytes` (at most kLargestRequest) occupies.
size_t PoolBlockBytes(size_t bytes);

/// One pool per process. All functions may be called from any thread at any time, also by static destructors, and a
/// block may be freed by another thread than the one that took it.

/// Null when the limit or the system refuses, after giving back what is cached and trying again once.
void* PoolAllocate(size_t bytes) noexcept;
/// `bytes` is what PoolAllocate was asked for.
void PoolFree(void* p, size_t bytes) noexcept;
/// Gives back what the shared store and this thread's cache hold. Other threads keep their caches.
void PoolTrim() noexcept;
MemoryStats PoolStats() noexcept;
void PoolResetPeak() noexcept;
void PoolSetLimit(int64_t bytes) noexcept;

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_POOL_H_
