// Ranges for NVIDIA's tools (Nsight Systems and others), with the same ids as recorded traces have. There are none, and
// they cost one load, unless the option nvtx is set or such a tool started the process.
#ifndef TESSERA_RUNTIME_NVTX_H_
#define TESSERA_RUNTIME_NVTX_H_

#include <atomic>
#include <cstdint>
#include <string_view>

namespace tessera::rt {

namespace internal {
[[gnu::visibility("hidden")]] extern constinit std::atomic<bool> g_nvtx;
}
inline bool NvtxOn() { return internal::g_nvtx.load(std::memory_order_relaxed); }

/// Looks at the option and at who started the process.
void StartNvtx();

/// A range of this thread; `id` is its payload.
void PushNvtx(std::string_view name, int64_t id);
void PopNvtx();

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_NVTX_H_
