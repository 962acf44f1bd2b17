// Memory that is about to be written to.
#ifndef TESSERA_RUNTIME_FETCH_H_
#define TESSERA_RUNTIME_FETCH_H_

namespace tessera::rt {

/// Asks for the cache line of `data`, which another core may have: it takes long to come from there. Nothing happens
/// where there is no such memory.
[[gnu::always_inline]] inline void FetchToWrite(const void* data) {
#if defined(__x86_64__)
  // For __builtin_prefetch a compiler that must not assume the instruction asks for the line to be read, and writing
  // asks the other core again. Processors that do not know it do nothing.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(data)));
#else
  __builtin_prefetch(data, 1);
#endif
}

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_FETCH_H_
