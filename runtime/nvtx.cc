#include "runtime/nvtx.h"

#include <cstdlib>
#include <string>

#include "runtime/log.h"
#include "runtime/options.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace tessera::rt {

constinit std::atomic<bool> internal::g_nvtx{false};

namespace {
nvtxDomainHandle_t Domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("tessera");
  return domain;
}
}  // namespace

void StartNvtx() {
  // This is how a tool that wants ranges gets into a process.
  const char* injected = std::getenv("NVTX_INJECTION64_PATH");
  const bool on = options().nvtx() || (injected != nullptr && *injected != '\0');
  if (on) Domain();
  internal::g_nvtx.store(on, std::memory_order_relaxed);
  if (on) TSR_LOG(1, "NVTX ranges are on");
}

void PushNvtx(std::string_view name, int64_t id) {
  const std::string text(name);
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = text.c_str();
  event.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  event.payload.llValue = id;
  nvtxDomainRangePushEx(Domain(), &event);
}

void PopNvtx() { nvtxDomainRangePop(Domain()); }

}  // namespace tessera::rt

#else  // no headers of NVTX

namespace tessera::rt {

constinit std::atomic<bool> internal::g_nvtx{false};
void StartNvtx() {
  if (options().nvtx()) TSR_LOG(0, "option nvtx: this was built without the headers of NVTX");
}
void PushNvtx(std::string_view, int64_t) {}
void PopNvtx() {}

}  // namespace tessera::rt

#endif
