// Stands in for the CUDA driver: two devices whose memory is the host's. Nothing is computed: a launch only counts. It
// watches what a driver would punish late or not at all: memory, streams and kernels of one device that are used in the
// context of another.
#include <cuda.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kDevices = 2;
constexpr size_t kMemory = size_t{4} << 30;  // of each
/// Devices of 9.0, in place of 8.0: what is made for those can be looked at and timed, too.
bool IsHopper() {
  static const bool is_hopper = std::getenv("STAND_IN_HOPPER") != nullptr;
  return is_hopper;
}

struct Context {
  int device;
};
struct Owned {  // streams, events, pools, modules, functions, graphs
  explicit Owned(Context* context) : context(context) {}
  Context* context;
  bool has_waited = false;                        // streams: for an event, and nothing was read since
  bool is_captured = false;                       // streams
  bool has_graph = false;                         // streams: was launched, and may run
  float ms = 0;                                   // events: when they were recorded; graphs: what a launch takes
  bool is_new = false;                            // events: nobody asked for it since
  bool has_work = false;                          // events: behind a graph
  std::vector<std::unique_ptr<Owned>> functions;  // modules: theirs
  std::vector<std::function<void()>> work;        // graphs, and streams that are captured
};
struct Block {
  size_t bytes;
  int device;
};

struct State {
  std::mutex mutex;
  Context primary[kDevices] = {{0}, {1}};
  std::map<CUdeviceptr, Block> blocks;
  size_t held[kDevices] = {};
  size_t launches[kDevices] = {};
  size_t waits = 0;                   // for streams
  float ms_of_shared = 0;             // what a launch takes for each byte of shared memory
  size_t reads_aside[kDevices] = {};  // copies to the host on streams that had waited for another one
  bool fails = false;                 // a kernel has
  bool is_busy = false;               // who asks for an event for the first time is told to come again
  bool captures = true;               // else the end of a capture fails
  int execs = 0;                      // graphs that can be launched
  float ms = 0;                       // of work done on all devices, as cublaslt.cc says
  std::string violation;              // the first one
};
State& The() {
  static auto* state = new State;
  return *state;
}
thread_local Context* t_current = nullptr;

Context* ContextOf(CUcontext c) { return reinterpret_cast<Context*>(c); }

/// With the lock held.
void Require(bool holds, const char* call, const char* what) {
  if (!holds && The().violation.empty()) The().violation = std::string(call) + ": " + what;
}
/// -1: not the device's memory.
int OwnerOf(CUdeviceptr p) {
  auto it = The().blocks.upper_bound(p);
  if (it == The().blocks.begin()) return -1;
  --it;
  return p < it->first + std::max<size_t>(it->second.bytes, 1) ? it->second.device : -1;
}
void RequireStream(CUstream stream, const char* call) {
  Require(t_current != nullptr, call, "no context is current");
  Require(stream != nullptr, call, "the default stream");
  if (stream != nullptr)
    Require(reinterpret_cast<Owned*>(stream)->context == t_current, call, "a stream of another context");
}
void RequireMemory(CUdeviceptr p, const char* call) {
  Require(t_current != nullptr && OwnerOf(p) == t_current->device, call, "memory of another device");
}
CUresult Allocate(CUdeviceptr* p, size_t bytes) {
  State& s = The();
  const int device = t_current->device;
  if (s.held[device] + bytes > kMemory) return CUDA_ERROR_OUT_OF_MEMORY;
  // Pages that nobody touches cost nothing.
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *p = reinterpret_cast<CUdeviceptr>(memory);
  s.blocks[*p] = {bytes, device};
  s.held[device] += bytes;
  return CUDA_SUCCESS;
}
template <class Handle>
CUresult Make(Handle* handle) {
  *handle = reinterpret_cast<Handle>(new Owned(t_current));
  return CUDA_SUCCESS;
}
template <class Handle>
CUresult Drop(Handle handle) {
  delete reinterpret_cast<Owned*>(handle);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// ---- for tests

const char* StandInViolation() {
  std::lock_guard lock(The().mutex);
  return The().violation.c_str();
}
size_t StandInLaunches(int device) {
  std::lock_guard lock(The().mutex);
  return The().launches[device];
}
size_t StandInReadsAside(int device) {
  std::lock_guard lock(The().mutex);
  return The().reads_aside[device];
}
void StandInSetBusy(bool is_busy) {
  std::lock_guard lock(The().mutex);
  The().is_busy = is_busy;
}
void StandInSetCaptures(bool captures) {
  std::lock_guard lock(The().mutex);
  The().captures = captures;
}
/// Kernels that are launched from now on take so long for each byte of a block's shared memory.
void StandInSetSharedMs(float ms) {
  std::lock_guard lock(The().mutex);
  The().ms_of_shared = ms;
}
size_t StandInWaits() {
  std::lock_guard lock(The().mutex);
  return The().waits;
}
int StandInExecs() {
  std::lock_guard lock(The().mutex);
  return The().execs;
}
/// Work that takes so long: done at once, or when the graph is launched that the stream is captured for.
void StandInSubmit(CUstream stream, float ms, float ms_in_graph, const std::function<void()>& work) {
  {
    std::lock_guard lock(The().mutex);
    RequireStream(stream, "a product");
    Owned* const s = reinterpret_cast<Owned*>(stream);
    (s->is_captured ? s->ms : The().ms) += s->is_captured ? ms_in_graph : ms;
    if (s->is_captured) {
      s->work.push_back(work);
      return;
    }
  }
  work();
}
/// From now on waiting for a stream finds that a kernel has read where there is no memory.
void StandInFail() {
  std::lock_guard lock(The().mutex);
  The().fails = true;
}
/// -1: not the memory of a device.
int StandInOwner(const void* p) {
  std::lock_guard lock(The().mutex);
  return OwnerOf(reinterpret_cast<CUdeviceptr>(p));
}
int StandInCurrent() { return t_current != nullptr ? t_current->device : -1; }
CUcontext StandInContext(int device) { return reinterpret_cast<CUcontext>(new Context{device}); }

// ---- the driver

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** text) {
  *text = "STAND_IN";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "an error of the stand-in";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = index;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = kDevices;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  std::strncpy(name, device == 0 ? "Stand-in A" : "Stand-in B", static_cast<size_t>(size));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid, device, sizeof *uuid);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  const bool is_hopper = IsHopper();
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = is_hopper ? 9 : 8; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = is_hopper ? 132 : 4; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = (is_hopper ? 227 : 100) << 10; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = kMemory;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(&The().primary[device]);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(t_current);
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  t_current = ContextOf(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  *device = StandInCurrent();
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  std::lock_guard lock(The().mutex);
  *total = kMemory;
  *free = kMemory - The().held[t_current->device];
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* p, size_t bytes) {
  std::lock_guard lock(The().mutex);
  return Allocate(p, bytes);
}
CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* props) {
  std::lock_guard lock(The().mutex);
  Require(props->location.id == t_current->device, "cuMemPoolCreate", "a pool of another device");
  return Make(pool);
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t) { return CUDA_SUCCESS; }
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* p, size_t bytes, CUmemoryPool pool, CUstream stream) {
  std::lock_guard lock(The().mutex);
  RequireStream(stream, "cuMemAllocFromPoolAsync");
  Require(reinterpret_cast<Owned*>(pool)->context->device == t_current->device, "cuMemAllocFromPoolAsync",
          "a pool of another device");
  return Allocate(p, bytes);
}
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
  State& s = The();
  std::lock_guard lock(s.mutex);
  RequireStream(stream, "cuMemFreeAsync");
  RequireMemory(p, "cuMemFreeAsync");
  auto it = s.blocks.find(p);
  if (it == s.blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  s.held[it->second.device] -= it->second.bytes;
  munmap(reinterpret_cast<void*>(p), it->second.bytes);
  s.blocks.erase(it);
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** p, size_t bytes, unsigned) {
  *p = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *p != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFreeHost(void* p) {
  std::free(p);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  std::lock_guard lock(The().mutex);
  RequireStream(stream, "cuMemcpyHtoDAsync");
  RequireMemory(to, "cuMemcpyHtoDAsync");
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  std::lock_guard lock(The().mutex);
  RequireStream(stream, "cuMemcpyDtoHAsync");
  RequireMemory(from, "cuMemcpyDtoHAsync");
  The().reads_aside[t_current->device] += std::exchange(reinterpret_cast<Owned*>(stream)->has_waited, false);
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  std::lock_guard lock(The().mutex);
  RequireStream(stream, "cuMemcpyDtoDAsync");
  RequireMemory(to, "cuMemcpyDtoDAsync");
  RequireMemory(from, "cuMemcpyDtoDAsync");
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
  std::lock_guard lock(The().mutex);
  RequireStream(stream, "cuMemcpyPeerAsync");
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t bytes, CUstream stream) {
  std::lock_guard lock(The().mutex);
  RequireStream(stream, "cuMemsetD8Async");
  RequireMemory(p, "cuMemsetD8Async");
  std::memset(reinterpret_cast<void*>(p), value, bytes);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned) { return Make(stream); }
CUresult cuStreamDestroy(CUstream stream) { return Drop(stream); }
CUresult cuStreamSynchronize(CUstream stream) {
  std::lock_guard lock(The().mutex);
  reinterpret_cast<Owned*>(stream)->has_graph = false;
  ++The().waits;
  return The().fails ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamWaitEvent(CUstream stream, CUevent, unsigned) {
  std::lock_guard lock(The().mutex);
  RequireStream(stream, "cuStreamWaitEvent");
  reinterpret_cast<Owned*>(stream)->has_waited = true;
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  std::lock_guard lock(The().mutex);
  RequireStream(stream, "cuStreamBeginCapture");
  Owned* const s = reinterpret_cast<Owned*>(stream);
  Require(!s->is_captured, "cuStreamBeginCapture", "a stream that is captured");
  s->is_captured = true;
  s->ms = 0;
  s->work.clear();
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  std::lock_guard lock(The().mutex);
  Owned* const s = reinterpret_cast<Owned*>(stream);
  Require(s->is_captured, "cuStreamEndCapture", "a stream that is not captured");
  s->is_captured = false;
  *graph = nullptr;
  if (!The().captures) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  Make(graph);
  reinterpret_cast<Owned*>(*graph)->ms = s->ms;
  reinterpret_cast<Owned*>(*graph)->work = std::move(s->work);
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned) { return Make(event); }
CUresult cuEventDestroy(CUevent event) { return Drop(event); }
CUresult cuEventRecord(CUevent event, CUstream stream) {
  std::lock_guard lock(The().mutex);
  RequireStream(stream, "cuEventRecord");
  Require(reinterpret_cast<Owned*>(event)->context == t_current, "cuEventRecord", "an event of another context");
  Owned* const e = reinterpret_cast<Owned*>(event);
  e->ms = The().ms;
  e->is_new = true;
  e->has_work = reinterpret_cast<Owned*>(stream)->has_graph;
  return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent event) {
  std::lock_guard lock(The().mutex);
  Owned* const e = reinterpret_cast<Owned*>(event);
  return std::exchange(e->is_new, false) && (The().is_busy || e->has_work) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventElapsedTime(float* ms, CUevent first, CUevent last) {
  *ms = reinterpret_cast<Owned*>(last)->ms - reinterpret_cast<Owned*>(first)->ms;
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void*) { return Make(module); }
CUresult cuModuleUnload(CUmodule module) { return Drop(module); }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char*) {
  std::lock_guard lock(The().mutex);
  Owned* const owner = reinterpret_cast<Owned*>(module);
  Require(owner->context == t_current, "cuModuleGetFunction", "a module of another context");
  owner->functions.push_back(std::make_unique<Owned>(t_current));
  *function = reinterpret_cast<CUfunction>(owner->functions.back().get());
  return CUDA_SUCCESS;
}
/// All functions are kernel(float*, const float*, float, int).
CUresult cuFuncGetParamInfo(CUfunction, size_t i, size_t* offset, size_t* bytes) {
  constexpr size_t kOffsets[] = {0, 8, 16, 20}, kBytes[] = {8, 8, 4, 4};
  if (i >= 4) return CUDA_ERROR_INVALID_VALUE;
  *offset = kOffsets[i];
  *bytes = kBytes[i];
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  *value = 0;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned shared, CUstream stream, void**, void**) {
  std::lock_guard lock(The().mutex);
  RequireStream(stream, "cuLaunchKernel");
  Require(reinterpret_cast<Owned*>(function)->context == t_current, "cuLaunchKernel", "a kernel of another context");
  ++The().launches[t_current->device];
  Owned* const s = reinterpret_cast<Owned*>(stream);
  (s->is_captured ? s->ms : The().ms) += The().ms_of_shared * static_cast<float>(shared);
  return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return IsHopper() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  std::lock_guard lock(The().mutex);
  Make(exec);
  reinterpret_cast<Owned*>(*exec)->ms = reinterpret_cast<Owned*>(graph)->ms;
  reinterpret_cast<Owned*>(*exec)->work = reinterpret_cast<Owned*>(graph)->work;
  ++The().execs;
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  for (const std::function<void()>& work : reinterpret_cast<Owned*>(exec)->work) work();
  std::lock_guard lock(The().mutex);
  RequireStream(stream, "cuGraphLaunch");
  Require(reinterpret_cast<Owned*>(exec)->context == t_current, "cuGraphLaunch", "a graph of another context");
  The().ms += reinterpret_cast<Owned*>(exec)->ms;
  reinterpret_cast<Owned*>(stream)->has_graph = true;
  return CUDA_SUCCESS;
}
CUresult cuGraphGetNodes(CUgraph, CUgraphNode*, size_t* count) {
  *count = 0;
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) { return Drop(graph); }
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  std::lock_guard lock(The().mutex);
  --The().execs;
  return Drop(exec);
}

}  // extern "C"
