// What the memory code tells AddressSanitizer: memory that waits in a pool must not be touched; and whether
// ThreadSanitizer watches, which does not know of barriers that one thread makes another one pass.
#ifndef TESSERA_RUNTIME_SANITIZER_H_
#define TESSERA_RUNTIME_SANITIZER_H_

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define TSR_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TSR_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define TSR_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSR_THREAD_SANITIZER 1
#endif
#endif

#ifdef TSR_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace tessera::rt {

#ifdef TSR_THREAD_SANITIZER
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#ifdef TSR_ADDRESS_SANITIZER
inline constexpr bool kAddressSanitizer = true;
inline void Poison(const void* p, size_t bytes) { __asan_poison_memory_region(p, bytes); }
inline void Unpoison(const void* p, size_t bytes) { __asan_unpoison_memory_region(p, bytes); }
#else
inline constexpr bool kAddressSanitizer = false;
inline void Poison(const void*, size_t) {}
inline void Unpoison(const void*, size_t) {}
#endif

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_SANITIZER_H_
