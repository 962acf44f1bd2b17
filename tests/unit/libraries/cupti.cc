// Stands in for CUPTI: the calls that record activity, and what a machine with two GPUs and NVLink would tell. It has
// no device to look at, so what was "launched" is made up: a kernel, its call, and who pushed an owner.
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

namespace {

CUpti_BuffersCallbackRequestFunc g_request = nullptr;
CUpti_BuffersCallbackCompleteFunc g_complete = nullptr;
std::set<CUpti_ActivityKind> g_on;
std::vector<uint64_t> g_owners;
uint32_t g_correlation = 0;
bool g_subscribed = false;

// Records lie at multiples of kRecord in a buffer, whatever their size.
constexpr size_t kRecord = 512;
uint8_t* g_buffer = nullptr;
size_t g_size = 0, g_used = 0;

template <class Record>
void Put(const Record& record) {
  static_assert(sizeof(Record) <= kRecord);
  if (!g_on.contains(record.kind)) return;
  if (g_buffer == nullptr) {
    size_t records = 0;
    g_request(&g_buffer, &g_size, &records);
  }
  std::memcpy(g_buffer + g_used, &record, sizeof record);
  g_used += kRecord;
}

void Flush() {
  if (g_buffer == nullptr) return;
  uint8_t* buffer = g_buffer;
  g_buffer = nullptr;
  const size_t used = g_used;
  g_used = 0;
  g_complete(nullptr, 0, buffer, g_size, used);
}

void Links() {
  CUpti_ActivityNvLink4 link = {};
  link.kind = CUPTI_ACTIVITY_KIND_NVLINK;
  link.nvlinkVersion = 4;
  link.typeDev0 = link.typeDev1 = CUPTI_DEV_TYPE_GPU;
  for (int i = 0; i < 16; ++i) {
    link.idDev0.uuidDev.bytes[i] = static_cast<char>(i);
    link.idDev1.uuidDev.bytes[i] = static_cast<char>(0xf0 + i);
  }
  link.physicalNvLinkCount = 18;
  link.bandwidth = 450'000'000;  // kB/s
  link.nvswitchConnected = 1;
  Put(link);
  link.typeDev1 = CUPTI_DEV_TYPE_NPU;
  link.idDev1.npu.index = 2;
  link.nvswitchConnected = 0;
  link.physicalNvLinkCount = 1;
  Put(link);
}

}  // namespace

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  const char* other = std::getenv("STAND_IN_VERSION");
  *version = other != nullptr ? static_cast<uint32_t>(std::atoi(other)) : CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "the stand-in says so";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
  if (g_subscribed) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  g_subscribed = true;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  g_subscribed = false;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  g_request = request;
  g_complete = complete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_NVLINK && std::getenv("STAND_IN_WITHOUT_NVLINK") != nullptr)
    return CUPTI_ERROR_NOT_COMPATIBLE;
  g_on.insert(kind);
  if (kind == CUPTI_ACTIVITY_KIND_NVLINK) Links();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  g_on.erase(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId, uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityFlushPeriod(uint32_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityFlushAll(uint32_t) {
  Flush();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  auto* at = reinterpret_cast<uint8_t*>(*record);
  at = at == nullptr ? buffer : at + kRecord;
  if (at >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(at);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 3;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t owner) {
  g_owners.push_back(owner);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t* owner) {
  *owner = g_owners.back();
  g_owners.pop_back();
  return CUPTI_SUCCESS;
}

/// For the test: as if a kernel had been launched here and had run from `start` to `end`. Its own record comes first:
/// who launched it is told in the buffer after that.
__attribute__((visibility("default"))) void StandInLaunch(uint64_t start, uint64_t end) {
  CUpti_ActivityKernel10 kernel = {};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.start = start;
  kernel.end = end;
  kernel.correlationId = ++g_correlation;
  kernel.name = "k0";
  kernel.gridX = 26;
  kernel.gridY = kernel.gridZ = kernel.blockY = kernel.blockZ = 1;
  kernel.blockX = 128;
  Put(kernel);
  Flush();
  CUpti_ActivityExternalCorrelation owner = {};
  owner.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  owner.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  owner.correlationId = g_correlation;
  owner.externalId = g_owners.empty() ? 0 : g_owners.back();
  Put(owner);
  CUpti_ActivityAPI call = {};
  call.kind = CUPTI_ACTIVITY_KIND_DRIVER;
  call.start = start - 5;
  call.correlationId = g_correlation;
  Put(call);
}

}  // extern "C"

// The rest is there, and does nothing.
#define STAND_IN(name)                                    \
  extern "C" CUptiResult StandIn_##name() __asm__(#name); \
  extern "C" CUptiResult StandIn_##name() { return CUPTI_ERROR_NOT_SUPPORTED; }
STAND_IN(cuptiProfilerInitialize)
STAND_IN(cuptiProfilerGetCounterAvailability)
STAND_IN(cuptiDeviceGetChipName)
STAND_IN(cuptiProfilerHostInitialize)
STAND_IN(cuptiProfilerHostDeinitialize)
STAND_IN(cuptiProfilerHostConfigAddMetrics)
STAND_IN(cuptiProfilerHostGetConfigImageSize)
STAND_IN(cuptiProfilerHostGetConfigImage)
STAND_IN(cuptiProfilerHostGetNumOfPasses)
STAND_IN(cuptiProfilerHostEvaluateToGpuValues)
STAND_IN(cuptiRangeProfilerEnable)
STAND_IN(cuptiRangeProfilerDisable)
STAND_IN(cuptiRangeProfilerSetConfig)
STAND_IN(cuptiRangeProfilerStart)
STAND_IN(cuptiRangeProfilerStop)
STAND_IN(cuptiRangeProfilerDecodeData)
STAND_IN(cuptiRangeProfilerGetCounterDataSize)
STAND_IN(cuptiRangeProfilerCounterDataImageInitialize)
STAND_IN(cuptiRangeProfilerGetCounterDataInfo)
STAND_IN(cuptiPCSamplingEnable)
STAND_IN(cuptiPCSamplingDisable)
STAND_IN(cuptiPCSamplingStart)
STAND_IN(cuptiPCSamplingStop)
STAND_IN(cuptiPCSamplingGetData)
STAND_IN(cuptiPCSamplingGetNumStallReasons)
STAND_IN(cuptiPCSamplingGetStallReasons)
STAND_IN(cuptiPCSamplingSetConfigurationAttribute)
