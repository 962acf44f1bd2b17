#include "runtime/cuda/cupti.h"

#if __has_include(<cupti.h>)
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/clock.h"
#include "runtime/cuda/cupti_table.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/library.h"
#include "runtime/log.h"

namespace tessera::cuda {
namespace {

using rt::Activity;
using rt::ActivityKind;

constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_OVERHEAD,
    // Without calls there are no owners; cuBLASLt has a CUDA runtime of its own...
    CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
/// ...but these of the driver launch nothing, and there are many of them. (Where only those that launch were named, in
/// place of all but these, nothing had an owner.)
constexpr CUpti_CallbackId kIdleCalls[] = {
    CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent, CUPTI_DRIVER_TRACE_CBID_cuCtxSetCurrent,
    CUPTI_DRIVER_TRACE_CBID_cuCtxGetDevice,  CUPTI_DRIVER_TRACE_CBID_cuEventQuery,
    CUPTI_DRIVER_TRACE_CBID_cuEventRecord,   CUPTI_DRIVER_TRACE_CBID_cuStreamQuery,
    CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync,  CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync};
constexpr size_t kBufferBytes = size_t{4} << 20;
/// Buffers that are not full are given to us after so long.
constexpr uint32_t kFlushMs = 500;
constexpr CUpti_ExternalCorrelationKind kOwner = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

absl::StatusOr<const Cupti*> Open() {
  TSR_ASSIGN_OR_RETURN(void* library, OpenLibrary({"libcupti.so.13", "libcupti.so.12", "libcupti.so"},
                                                  "times of kernels on a GPU need CUPTI"));
  auto* table = new Cupti;
  const char* missing = nullptr;
#define TSR_CUPTI(name)                                                         \
  table->name = reinterpret_cast<decltype(table->name)>(dlsym(library, #name)); \
  if (table->name == nullptr) missing = #name;
#include "runtime/cuda/cupti.def"
  uint32_t version = 0;
  if (missing == nullptr) table->cuptiGetVersion(&version);
  // The layout of its records changes from one of its versions to the next.
  const bool same = version / 10000 == CUPTI_API_VERSION / 10000;
  if (missing != nullptr || !same) {
    delete table;
    if (missing != nullptr) return NotFound("CUPTI has no function ", missing, ": it is too old");
    return NotFound("CUPTI is version ", version, ", and this was built for ", CUPTI_API_VERSION,
                    ": its records cannot be read");
  }
  return table;
}

}  // namespace

absl::StatusOr<const Cupti*> GetCupti() {
  static const auto* opened = new absl::StatusOr<const Cupti*>(Open());
  return *opened;
}

absl::Status CheckCupti(const Cupti& cupti, const char* call, CUptiResult result) {
  if (result == CUPTI_SUCCESS) return absl::OkStatus();
  const char *text = nullptr, *why = "";
  cupti.cuptiGetResultString(result, &text);
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) why = "; another tool holds CUPTI in this process";
  if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
    why = "; counters are for administrators here (the driver's option NVreg_RestrictProfilingToAdminUsers)";
  return Unsupported(call, ": ", text == nullptr ? "unknown error" : text, why);
}

namespace {

struct Call {
  int64_t owner = 0, start_ns = 0;
};

struct State {
  std::mutex mutex;
  rt::ActivityRecorder::Sink sink;           // null: off
  rt::ActivityRecorder::LinkSink link_sink;  // may be null
  std::unordered_map<uint32_t, Call> calls;  // by correlation, while their activity is still to come
  std::vector<Activity> pending;             // read, and not given yet
  std::unordered_set<std::string> names;     // of kernels
  std::atomic<int64_t> lost{0};
};
// Never destroyed: a thread of CUPTI's may outlive whatever ends with the process.
State& TheState() {
  static auto* state = new State;
  return *state;
}
std::atomic<const Cupti*> g_on{nullptr};
CUpti_SubscriberHandle g_subscriber = nullptr;

uint64_t CUPTIAPI Timestamp() { return static_cast<uint64_t>(rt::NowNs()); }

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

/// A record that is neither an owner's nor of a call.
Activity Read(const CUpti_Activity& record, State& state) {
  Activity a;
  const auto times = [&](const auto& r) {
    a.start_ns = static_cast<int64_t>(r.start);
    a.end_ns = static_cast<int64_t>(r.end);
    a.correlation = r.correlationId;
    a.stream = r.streamId;
  };
  const auto moves = [&](const auto& r, ActivityKind kind) {
    times(r);
    a.kind = kind;
    a.device = r.deviceId;
    a.bytes = static_cast<int64_t>(r.bytes);
    a.graph_node = r.graphNodeId;
  };
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& r = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      moves(r, r.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? ActivityKind::copy_in
               : r.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? ActivityKind::copy_out
                                                               : ActivityKind::copy);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      moves(reinterpret_cast<const CUpti_ActivityMemset4&>(record), ActivityKind::set);
      break;
    }
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: {
      times(reinterpret_cast<const CUpti_ActivitySynchronization2&>(record));
      a.kind = ActivityKind::wait;
      break;
    }
    case CUPTI_ACTIVITY_KIND_OVERHEAD: {
      const auto& r = reinterpret_cast<const CUpti_ActivityOverhead3&>(record);
      a.kind = ActivityKind::overhead;
      a.start_ns = static_cast<int64_t>(r.start);
      a.end_ns = static_cast<int64_t>(r.end);
      std::free(r.overheadData);
      break;
    }
    default: {
      const auto& r = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      times(r);
      a.device = r.deviceId;
      a.graph_node = r.graphNodeId;
      a.name = *state.names.emplace(r.name == nullptr ? "" : r.name).first;
      a.blocks = static_cast<uint32_t>(r.gridX) * static_cast<uint32_t>(r.gridY) * static_cast<uint32_t>(r.gridZ);
      a.threads = static_cast<uint32_t>(r.blockX) * static_cast<uint32_t>(r.blockY) * static_cast<uint32_t>(r.blockZ);
      a.registers = r.registersPerThread;
      a.shared_bytes = static_cast<uint32_t>(r.staticSharedMemory) + static_cast<uint32_t>(r.dynamicSharedMemory);
    }
  }
  return a;
}

int GpuOf(const CUuuid& uuid) {
  const auto driver = GetDriver();
  int count = 0;
  if (!driver.ok() || (*driver)->cuDeviceGetCount(&count) != CUDA_SUCCESS) return -1;
  for (int i = 0; i < count; ++i) {
    CUdevice device;
    CUuuid its = {};
    if ((*driver)->cuDeviceGet(&device, i) == CUDA_SUCCESS &&
        (*driver)->cuDeviceGetUuid(&its, device) == CUDA_SUCCESS && std::memcmp(&its, &uuid, sizeof its) == 0)
      return i;
  }
  return -1;
}

/// "GPU-" and 32 digits in groups of 8, 4, 4, 4 and 12.
std::string UuidText(const CUuuid& uuid) {
  const std::string digits = absl::BytesToHexString(absl::string_view(uuid.bytes, sizeof uuid.bytes));
  std::string text = "GPU";
  size_t at = 0;
  for (const size_t n : {8, 4, 4, 4, 12}) {
    absl::StrAppend(&text, "-", digits.substr(at, n));
    at += n;
  }
  return text;
}

rt::GpuLink ReadLink(const CUpti_ActivityNvLink4& r) {
  rt::GpuLink link;
  const auto end = [](CUpti_DevType type, const auto& id) {
    if (type == CUPTI_DEV_TYPE_GPU) return rt::GpuLink::End{GpuOf(id.uuidDev), UuidText(id.uuidDev)};
    return rt::GpuLink::End{-1, absl::StrCat("processor ", id.npu.index)};
  };
  link.ends[0] = end(r.typeDev0, r.idDev0);
  link.ends[1] = end(r.typeDev1, r.idDev1);
  link.links = r.physicalNvLinkCount;
  link.bytes_per_s = static_cast<int64_t>(r.bandwidth) * 1000;
  link.version = r.nvlinkVersion;
  link.by_switch = r.nvswitchConnected != 0;
  return link;
}

/// Gives what the buffer before brought to the sink.
void Deliver(State& state) {
  for (Activity& a : state.pending) {
    const auto found = a.correlation == 0 ? state.calls.end() : state.calls.find(a.correlation);
    if (found == state.calls.end()) continue;
    a.owner = found->second.owner;
    a.launched_ns = found->second.start_ns;
  }
  if (state.sink && !state.pending.empty()) state.sink(state.pending);
  state.pending.clear();
  // A graph's launch has many records, perhaps in several buffers; what is this far behind is through.
  constexpr size_t kMostCalls = size_t{1} << 20;
  if (state.calls.size() > kMostCalls) state.calls.clear();
}

void CUPTIAPI TakeBuffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  State& state = TheState();
  const absl::StatusOr<const Cupti*> cupti = GetCupti();
  std::lock_guard lock(state.mutex);
  std::vector<Activity> activities;
  CUpti_Activity* record = nullptr;
  while (valid > 0 && (*cupti)->cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
      const auto& r = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(*record);
      if (r.externalKind == kOwner) state.calls[r.correlationId].owner = static_cast<int64_t>(r.externalId);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_DRIVER || record->kind == CUPTI_ACTIVITY_KIND_RUNTIME) {
      const auto& r = reinterpret_cast<const CUpti_ActivityAPI&>(*record);
      state.calls[r.correlationId].start_ns = static_cast<int64_t>(r.start);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_NVLINK) {
      if (state.link_sink) state.link_sink(ReadLink(reinterpret_cast<const CUpti_ActivityNvLink4&>(*record)));
    } else {
      activities.push_back(Read(*record, state));
    }
  }
  size_t dropped = 0;
  (*cupti)->cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
  state.lost.fetch_add(static_cast<int64_t>(dropped), std::memory_order_relaxed);
  std::free(buffer);
  // The owner of what is in one buffer may be in the next.
  Deliver(state);
  state.pending = std::move(activities);
}

void Disable(const Cupti& cupti) {
  for (const CUpti_ActivityKind kind : kKinds) cupti.cuptiActivityDisable(kind);
  cupti.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_NVLINK);
}

void CUPTIAPI Ignore(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

}  // namespace

absl::Status StartCupti(rt::ActivityRecorder::Sink sink, rt::ActivityRecorder::LinkSink links) {
  TSR_ASSIGN_OR_RETURN(const Cupti* cupti, GetCupti());
  State& state = TheState();
  const auto check = [&](const char* call, CUptiResult result) { return CheckCupti(*cupti, call, result); };
  // There is one set of buffers in a process. Whoever uses it is a subscriber, and there is only one of these.
  TSR_RETURN_IF_ERROR(check("cuptiSubscribe", cupti->cuptiSubscribe(&g_subscriber, Ignore, nullptr)));
  {
    std::lock_guard lock(state.mutex);
    state.sink = std::move(sink);
    state.link_sink = std::move(links);
    state.calls.clear();
    state.pending.clear();
    state.lost.store(0);
  }
  absl::Status status =
      check("cuptiActivityRegisterCallbacks", cupti->cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer));
  if (status.ok())
    status = check("cuptiActivityRegisterTimestampCallback", cupti->cuptiActivityRegisterTimestampCallback(Timestamp));
  for (const CUpti_ActivityKind kind : kKinds)
    if (status.ok()) status = check("cuptiActivityEnable", cupti->cuptiActivityEnable(kind));
  for (const CUpti_CallbackId call : kIdleCalls)
    if (status.ok()) status = check("cuptiActivityEnableDriverApi", cupti->cuptiActivityEnableDriverApi(call, 0));
  if (!status.ok()) {
    Disable(*cupti);
    cupti->cuptiUnsubscribe(g_subscriber);
    std::lock_guard lock(state.mutex);
    state.sink = nullptr;
    state.link_sink = nullptr;
    return status;
  }
  // Tells of all links at once. Where there are none, it may refuse.
  if (const CUptiResult result = cupti->cuptiActivityEnable(CUPTI_ACTIVITY_KIND_NVLINK); result != CUPTI_SUCCESS)
    TSR_LOG(2, "CUPTI tells nothing of NVLink: ", std::string(check("cuptiActivityEnable", result).message()));
  cupti->cuptiActivityFlushPeriod(kFlushMs);
  g_on.store(cupti);
  return absl::OkStatus();
}

void FlushCupti() {
  const Cupti* cupti = g_on.load();
  if (cupti == nullptr) return;
  cupti->cuptiActivityFlushAll(0);
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  Deliver(state);
}

void StopCupti() {
  const Cupti* cupti = g_on.exchange(nullptr);
  if (cupti == nullptr) return;
  cupti->cuptiActivityFlushPeriod(0);
  Disable(*cupti);
  cupti->cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  cupti->cuptiUnsubscribe(g_subscriber);
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  Deliver(state);
  state.sink = nullptr;
  state.link_sink = nullptr;
}

int64_t LostByCupti() { return TheState().lost.load(std::memory_order_relaxed); }

std::string CuptiVersion() {
  const absl::StatusOr<const Cupti*> cupti = GetCupti();
  uint32_t version = 0;
  if (!cupti.ok() || (*cupti)->cuptiGetVersion(&version) != CUPTI_SUCCESS) return "";
  return absl::StrCat("CUPTI ", version / 10000, ".", version / 100 % 100);
}

bool PushOwner(int64_t owner) {
  const Cupti* cupti = g_on.load(std::memory_order_relaxed);
  return cupti != nullptr &&
         cupti->cuptiActivityPushExternalCorrelationId(kOwner, static_cast<uint64_t>(owner)) == CUPTI_SUCCESS;
}

void PopOwner() {
  uint64_t owner = 0;
  if (const absl::StatusOr<const Cupti*> cupti = GetCupti(); cupti.ok())
    (*cupti)->cuptiActivityPopExternalCorrelationId(kOwner, &owner);
}

}  // namespace tessera::cuda

#else  // no headers of CUPTI

namespace tessera::cuda {

absl::Status StartCupti(rt::ActivityRecorder::Sink, rt::ActivityRecorder::LinkSink) {
  return NotFound("times of kernels on a GPU need CUPTI, and this was built without its headers");
}
void FlushCupti() {}
void StopCupti() {}
int64_t LostByCupti() { return 0; }
std::string CuptiVersion() { return ""; }
bool PushOwner(int64_t) { return false; }
void PopOwner() {}

}  // namespace tessera::cuda

#endif
