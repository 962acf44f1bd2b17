#include "runtime/cuda/device.h"

#include <cstring>

#include "runtime/activity.h"
#include "runtime/clock.h"
#include "runtime/cuda/device_error.h"
#include "runtime/cuda/pool.h"
#include "runtime/cuda/staging.h"
#include "runtime/cuda/upload.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/trace/gpu.h"
#include "runtime/trace/recorder.h"

namespace tessera::cuda {
namespace {

/// Copies up to here go through memory of the driver's own, which costs less than an event.
constexpr size_t kSmallCopy = size_t{64} << 10;

absl::Status NotRecorded() {
  return absl::FailedPreconditionError("the host cannot read or write a device while its work is recorded");
}

int Attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  TheDriver().cuDeviceGetAttribute(&value, which, device);
  return value;
}

/// Is a launch an event? What CUPTI tells of a kernel says when it was launched.
bool NoteLaunch() { return rt::RecorderOn() && rt::ActivityRecorder::mode() != rt::ActivityRecorder::Mode::cupti; }

/// What multiprocessors of a generation do in a clock: multiply-adds count for two.
struct Rates {
  int major, minor;
  int64_t matrix, vector;
};
constexpr Rates kRates[] = {{8, 0, 2048, 128}, {9, 0, 4096, 256}, {10, 0, 8192, 256}};

rt::trace::GpuRow RowOf(const Properties& p, CUdevice device, int index, const std::string& target) {
  rt::trace::GpuRow row;
  row.number = index;
  row.name = p.name;
  row.target = target;
  row.multiprocessors = p.multiprocessors;
  row.memory_bytes = static_cast<int64_t>(p.memory_bytes);
  // Two transfers in a clock of the memory's, which is in kHz as the other one is.
  row.bytes_per_s = int64_t{Attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)} * 1000 * 2 *
                    Attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
  const int64_t clocks = int64_t{Attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE)} * 1000 * p.multiprocessors;
  for (const Rates& rates : kRates) {
    if (rates.major != p.major || rates.minor != p.minor) continue;
    row.matrix_flops = clocks * rates.matrix;
    row.vector_flops = clocks * rates.vector;
  }
  row.threads = Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  row.blocks = Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  row.registers = Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  row.shared_bytes = Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  return row;
}

}  // namespace

Device::Device() = default;
Device::~Device() = default;

absl::StatusOr<Device*> Device::Make(int index, CUcontext adopted) {
  const int64_t start = rt::NowNs();
  const Driver& driver = TheDriver();
  // Never destroyed; on failure what was made so far stays with it.
  auto* d = new Device;
  d->index_ = index;
  d->name_ = absl::StrCat("cuda:", index);
  CUdevice handle;
  TSR_RETURN_IF_ERROR(d->Check("cuDeviceGet", driver.cuDeviceGet(&handle, index)));
  d->context_ = adopted;
  if (adopted == nullptr)
    TSR_RETURN_IF_ERROR(d->Check("cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(&d->context_, handle)));
  TSR_RETURN_IF_ERROR(d->Enter());
  Properties& p = d->properties_;
  char text[256] = {};
  driver.cuDeviceGetName(text, sizeof text - 1, handle);
  p.name = text;
  p.major = Attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  p.minor = Attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  p.multiprocessors = Attribute(handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  p.shared_bytes = Attribute(handle, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  driver.cuDeviceTotalMem(&p.memory_bytes, handle);
  if (p.major < 8)
    return Unsupported(d->name_, " is ", p.name, " of compute capability ", p.major, ".", p.minor,
                       "; Tessera needs 8.0 or more");
  // Code for a generation runs on its later members, but for what uses the tensor cores of 9.0.
  const int version = p.major * 10 + p.minor;
  d->target_ = absl::StrCat("sm_",
                            p.major == 8 && version >= 86 && version < 89 ? 86
                            : version == 89                               ? 89
                                                                          : p.major * 10,
                            version == 90 ? "a" : "");
  TSR_RETURN_IF_ERROR(d->Check("cuStreamCreate", driver.cuStreamCreate(&d->own_stream_, CU_STREAM_NON_BLOCKING)));
  d->stream_.store(d->own_stream_, std::memory_order_relaxed);
  void* error = nullptr;
  TSR_RETURN_IF_ERROR(d->Check(
      "cuMemHostAlloc",
      driver.cuMemHostAlloc(&error, sizeof(DeviceError), CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)));
  std::memset(error, 0, sizeof(DeviceError));
  d->error_ = static_cast<DeviceError*>(error);
  CUdeviceptr taken = 0;
  TSR_RETURN_IF_ERROR(d->Check("cuMemAlloc", driver.cuMemAlloc(&taken, sizeof(int32_t))));
  d->error_->taken = reinterpret_cast<int32_t*>(taken);
  TSR_RETURN_IF_ERROR(d->Check("cuMemsetD8Async", driver.cuMemsetD8Async(taken, 0, sizeof(int32_t), d->own_stream_)));
  TSR_ASSIGN_OR_RETURN(d->pool_, Pool::Make(*d, handle));
  d->staging_ = std::make_unique<Staging>(*d);
  d->uploads_ = std::make_unique<UploadLane>(*d);
  rt::trace::AddGpu(*d, RowOf(p, handle, index, d->target_));
  TSR_LOG(1, d->name_, " is ", p.name, ", compute capability ", p.major, ".", p.minor, ", ", p.memory_bytes >> 30,
          " GiB; started in ", (rt::NowNs() - start) / 1000000, " ms");
  return d;
}

absl::Status Device::EnterSlow() const {
  const CUresult result = TheDriver().cuCtxSetCurrent(context_);
  if (result != CUDA_SUCCESS) return absl::UnavailableError(Describe("cuCtxSetCurrent", result));
  return absl::OkStatus();
}

absl::Status Device::Failed(const char* call, CUresult result) {
  if (!IsSticky(result)) {
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return ResourceExhausted(name_, ": ", Describe(call, result));
    return Internal(name_, ": ", Describe(call, result));
  }
  std::lock_guard lock(lost_mutex_);
  if (!lost_) {
    std::string kernels;
    const uint32_t launches = launches_.load(std::memory_order_relaxed);
    for (uint32_t i = 1; i <= kRecent && i <= launches; ++i) {
      const char* name = recent_[(launches - i) % kRecent].load(std::memory_order_relaxed);
      if (name != nullptr) absl::StrAppend(&kernels, kernels.empty() ? "" : ", ", name);
    }
    lost_why_ =
        absl::StrCat(name_, " is lost: ", Describe(call, result),
                     kernels.empty() ? "" : absl::StrCat("; launched last, latest first: ", kernels),
                     "; TESSERA_CUDA_SYNC=true names the kernel. Other devices work on; this one needs a new process");
    lost_ = true;
    TSR_LOG(0, lost_why_);
  }
  return absl::UnavailableError(lost_why_);
}

// ---- memory

absl::StatusOr<void*> Device::Allocate(size_t bytes) {
  Spoil();  // a graph would use memory that others get meanwhile
  if (void* p = pool_->Allocate(bytes)) [[likely]]
    return p;
  TSR_RETURN_IF_ERROR(Enter());
  if (lost_) return absl::UnavailableError(lost_why_);
  const rt::MemoryStats now = pool_->stats();
  const size_t rounded = bytes < (size_t{1} << 46) ? Pool::BlockBytes(bytes) : bytes;
  if (now.limit_bytes > 0)
    return ResourceExhausted(name_, " cannot give ", bytes, " bytes (", rounded, " with rounding): ", now.bytes_in_use,
                             " bytes are in use and the limit is ", now.limit_bytes,
                             "; free tensors, or raise the option cuda_limit_bytes");
  return ResourceExhausted(name_, " cannot give ", bytes, " bytes: it has ", properties_.memory_bytes, " and ",
                           now.bytes_in_use, " are in use here; free tensors, or use smaller ones");
}

void Device::Free(void* p, size_t bytes) noexcept { pool_->Free(p, bytes); }
void Device::Trim() {
  if (Enter().ok()) pool_->Trim();
}
rt::MemoryStats Device::memory_stats() const { return pool_->stats(); }
void Device::ResetPeak() { pool_->ResetPeak(); }
void Device::SetMemoryLimit(int64_t bytes) { pool_->SetLimit(bytes); }

// ---- copies

absl::Status Device::CopyFromHost(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (Spoil()) return NotRecorded();
  TSR_RETURN_IF_ERROR(Enter());
  const auto to = reinterpret_cast<CUdeviceptr>(dst);
  if (bytes > kSmallCopy) return staging_->ToDevice(to, static_cast<const char*>(src), bytes);
  return Check("cuMemcpyHtoDAsync", TheDriver().cuMemcpyHtoDAsync(to, src, bytes, stream()));
}

absl::StatusOr<std::unique_ptr<rt::Upload>> Device::StartUpload(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return nullptr;
  if (Spoil()) return NotRecorded();
  TSR_RETURN_IF_ERROR(Enter());
  return uploads_->Start(reinterpret_cast<CUdeviceptr>(dst), static_cast<const char*>(src), bytes);
}

absl::Status Device::CopyToHost(void* dst, const void* src, size_t bytes) {
  if (Spoil()) return NotRecorded();
  TSR_RETURN_IF_ERROR(Enter());
  const auto from = reinterpret_cast<CUdeviceptr>(src);
  if (bytes > kSmallCopy) {
    TSR_RETURN_IF_ERROR(staging_->ToHost(static_cast<char*>(dst), from, bytes));
    return TakeError();
  }
  if (bytes > 0)
    TSR_RETURN_IF_ERROR(Check("cuMemcpyDtoHAsync", TheDriver().cuMemcpyDtoHAsync(dst, from, bytes, stream())));
  return Synchronize();
}

absl::Status Device::CopyWithin(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  TSR_RETURN_IF_ERROR(Enter());
  return Check("cuMemcpyDtoDAsync", TheDriver().cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(dst),
                                                                  reinterpret_cast<CUdeviceptr>(src), bytes, stream()));
}

absl::Status Device::Zero(void* p, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  TSR_RETURN_IF_ERROR(Enter());
  return Check("cuMemsetD8Async", TheDriver().cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(p), 0, bytes, stream()));
}

void Device::Wait() {
  if (!Spoil() && Enter().ok()) TheDriver().cuStreamSynchronize(stream());
}

absl::Status Device::Synchronize() {
  if (Spoil()) return NotRecorded();
  TSR_RETURN_IF_ERROR(Enter());
  TSR_RETURN_IF_ERROR(Check("cuStreamSynchronize", TheDriver().cuStreamSynchronize(stream())));
  return TakeError();
}

absl::Status Device::TakeError() {
  auto& state = reinterpret_cast<std::atomic<int32_t>&>(error_->state);
  if (state.load(std::memory_order_acquire) == 0) [[likely]]
    return absl::OkStatus();
  const DeviceError seen = *error_;
  state.store(0, std::memory_order_release);
  TSR_RETURN_IF_ERROR(Zero(seen.taken, sizeof *seen.taken));
  return OutOfRange(DescribeError(seen));
}

absl::Status Device::UseStream(CUstream stream) {
  TSR_RETURN_IF_ERROR(Enter());
  const Driver& driver = TheDriver();
  if (stream == nullptr) stream = own_stream_;
  const CUstream before = stream_.load(std::memory_order_relaxed);
  if (stream == before) return absl::OkStatus();
  CUevent event = nullptr;
  TSR_RETURN_IF_ERROR(Check("cuEventCreate", driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)));
  absl::Status status = Check("cuEventRecord", driver.cuEventRecord(event, before));
  if (status.ok()) status = Check("cuStreamWaitEvent", driver.cuStreamWaitEvent(stream, event, 0));
  driver.cuEventDestroy(event);
  if (status.ok()) stream_.store(stream, std::memory_order_relaxed);
  return status;
}

// ---- kernels

absl::StatusOr<CUfunction> Device::Load(const Kernel& kernel) {
  const Driver& driver = TheDriver();
  std::lock_guard lock(modules_mutex_);
  CUmodule module = nullptr;
  for (const auto& [image, loaded] : modules_)
    if (image == kernel.image) module = loaded;
  if (module == nullptr) {
    const int64_t start = rt::NowNs();
    TSR_RETURN_IF_ERROR(Check("cuModuleLoadData", driver.cuModuleLoadData(&module, kernel.image())));
    modules_.emplace_back(kernel.image, module);
    TSR_LOG(2, name_, ": loaded the image of kernel ", kernel.name, " in ", (rt::NowNs() - start) / 1000, " us");
  }
  CUfunction function = nullptr;
  const CUresult result = driver.cuModuleGetFunction(&function, module, kernel.name);
  if (result != CUDA_SUCCESS) return Annotate(Check("cuModuleGetFunction", result), absl::StrCat(kernel.name, ": "));
  int wanted = 0;
  driver.cuFuncGetAttribute(&wanted, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  // What is left of a block's shared memory may all be asked for at a launch.
  TSR_RETURN_IF_ERROR(
      Check("cuFuncSetAttribute", driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                            properties_.shared_bytes - wanted)));
  kernel.on[index_].store(function, std::memory_order_release);
  return function;
}

absl::Status Device::Launch(const Kernel& kernel, const Grid& grid, const void* args, size_t) {
  TSR_RETURN_IF_ERROR(Enter());
  CUfunction function = kernel.on[index_].load(std::memory_order_acquire);
  if (function == nullptr) [[unlikely]] {
    TSR_ASSIGN_OR_RETURN(function, Load(kernel));
  }
  void* params[] = {const_cast<void*>(args)};
  return Launch(function, kernel.name, grid, params);
}

namespace {

class LoadedCode final : public rt::DeviceCode {
 public:
  LoadedCode(Device& device, CUmodule module) : device_(device), module_(module) {}
  ~LoadedCode() override {
    // Kernels of it may still wait on the stream.
    if (!device_.Enter().ok()) return;
    TheDriver().cuStreamSynchronize(device_.stream());
    TheDriver().cuModuleUnload(module_);
  }
  absl::StatusOr<const void*> Find(const char* kernel) override {
    TSR_RETURN_IF_ERROR(device_.Enter());
    CUfunction function = nullptr;
    TSR_RETURN_IF_ERROR(
        device_.Check("cuModuleGetFunction", TheDriver().cuModuleGetFunction(&function, module_, kernel)));
    int wanted = 0;
    TheDriver().cuFuncGetAttribute(&wanted, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    TSR_RETURN_IF_ERROR(device_.Check(
        "cuFuncSetAttribute", TheDriver().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                             device_.properties().shared_bytes - wanted)));
    return function;
  }
  std::optional<std::vector<size_t>> ParameterBytes(const void* kernel) const override {
    const auto info = TheDriver().cuFuncGetParamInfo;
    if (info == nullptr || !device_.Enter().ok()) return std::nullopt;
    std::vector<size_t> all;
    size_t offset = 0, bytes = 0;
    while (info(static_cast<CUfunction>(const_cast<void*>(kernel)), all.size(), &offset, &bytes) == CUDA_SUCCESS)
      all.push_back(bytes);
    return all;
  }

 private:
  Device& device_;
  CUmodule module_;
};

}  // namespace

// ---- recording

namespace {

class Graph final : public rt::DeviceGraph {
 public:
  Graph(Device& device, CUgraphExec exec, const char* label) : device_(device), exec_(exec), label_(label) {}
  ~Graph() override {
    // It may be on its way.
    device_.Wait();
    TheDriver().cuGraphExecDestroy(exec_);
  }
  absl::Status Launch() override {
    TSR_RETURN_IF_ERROR(device_.Enter());
    device_.Note(label_);
    const int64_t start = NoteLaunch() ? rt::Ticks() : 0;
    const CUresult result = TheDriver().cuGraphLaunch(exec_, device_.stream());
    if (start != 0) rt::trace::RecordSince(rt::EventKind::launch, start, rt::CurrentOwner(), 2, 0);
    return device_.Check("cuGraphLaunch", result);
  }

 private:
  Device& device_;
  CUgraphExec exec_;
  const char* const label_;
};

}  // namespace

int64_t Device::RecordedNodes() const {
  const Driver& driver = TheDriver();
  CUstreamCaptureStatus status{};
  CUgraph graph = nullptr;
  size_t nodes = 0;
  if (t_recording.device != this || driver.cuStreamGetCaptureInfo == nullptr ||
      driver.cuStreamGetCaptureInfo(recording_stream_, &status, nullptr, &graph, nullptr, nullptr, nullptr) !=
          CUDA_SUCCESS ||
      graph == nullptr || driver.cuGraphGetNodes(graph, nullptr, &nodes) != CUDA_SUCCESS)
    return -1;
  return static_cast<int64_t>(nodes);
}

bool Device::BeginRecording() {
  if (t_recording.device != nullptr || !Enter().ok() || !recording_mutex_.try_lock()) return false;
  const Driver& driver = TheDriver();
  if ((recording_stream_ == nullptr &&
       driver.cuStreamCreate(&recording_stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) ||
      driver.cuStreamBeginCapture(recording_stream_, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS) {
    recording_mutex_.unlock();
    return false;
  }
  t_recording = {this, false};
  return true;
}

std::unique_ptr<rt::DeviceGraph> Device::EndRecording(const char* label) {
  const Driver& driver = TheDriver();
  const bool spoiled = t_recording.spoiled;
  t_recording = {};
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUresult result = driver.cuStreamEndCapture(recording_stream_, &graph);
  recording_mutex_.unlock();
  if (result == CUDA_SUCCESS && !spoiled) result = driver.cuGraphInstantiateWithFlags(&exec, graph, 0);
  if (graph != nullptr) driver.cuGraphDestroy(graph);
  if (result != CUDA_SUCCESS || exec == nullptr) return nullptr;
  return std::make_unique<Graph>(*this, exec, label);
}

absl::StatusOr<std::unique_ptr<rt::DeviceCode>> Device::LoadCode(std::string_view image) {
  TSR_RETURN_IF_ERROR(Enter());
  CUmodule module = nullptr;
  TSR_RETURN_IF_ERROR(Check("cuModuleLoadData", TheDriver().cuModuleLoadData(&module, image.data())));
  return std::make_unique<LoadedCode>(*this, module);
}

bool Device::MapPieces(const rt::PieceShape& shape, const void* data, rt::PieceMap* map) {
  static_assert(sizeof(CUtensorMap) == sizeof(rt::PieceMap) && alignof(CUtensorMap) <= alignof(rt::PieceMap));
  constexpr int kMost = rt::PieceShape::kMostDims;
  if (properties_.major < 9 || reinterpret_cast<uintptr_t>(data) % 16 != 0) return false;
  cuuint64_t dims[kMost], strides[kMost];
  cuuint32_t piece[kMost], steps[kMost];
  for (int d = 0; d < shape.rank; ++d) {
    if (shape.dims[d] < 1 || shape.dims[d] > INT32_MAX) return false;
    dims[d] = static_cast<cuuint64_t>(shape.dims[d]);
    piece[d] = static_cast<cuuint32_t>(shape.piece[d]);
    steps[d] = 1;
    if (d == 0) continue;
    // A dim of one may have any stride.
    const int64_t stride = shape.dims[d] == 1 ? 16 : shape.strides[d];
    if (stride <= 0 || stride % 16 != 0 || stride >= (int64_t{1} << 40)) return false;
    strides[d - 1] = static_cast<cuuint64_t>(stride);
  }
  const CUtensorMapDataType type = shape.to_tf32              ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                                   : shape.element_bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                   : shape.element_bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                                              : CU_TENSOR_MAP_DATA_TYPE_UINT32;
  return TheDriver().cuTensorMapEncodeTiled(
             reinterpret_cast<CUtensorMap*>(map), type, static_cast<cuuint32_t>(shape.rank), const_cast<void*>(data),
             dims, strides, piece, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

absl::Status Device::Launch(const void* kernel, const char* name, const rt::LaunchShape& grid, void** params) {
  const auto function = static_cast<CUfunction>(const_cast<void*>(kernel));
  TSR_RETURN_IF_ERROR(Enter());
  Note(name);
  int64_t blocks = grid.blocks;
  if (grid.resident > 0) blocks = std::min<int64_t>(blocks, int64_t{grid.resident} * properties_.multiprocessors);
  const int64_t start = NoteLaunch() && t_recording.device == nullptr ? rt::Ticks() : 0;
  const CUresult result = TheDriver().cuLaunchKernel(
      function, static_cast<unsigned>(blocks), static_cast<unsigned>(grid.blocks_y),
      static_cast<unsigned>(grid.blocks_z), static_cast<unsigned>(grid.threads), static_cast<unsigned>(grid.threads_y),
      static_cast<unsigned>(grid.threads_z), static_cast<unsigned>(grid.shared), stream(), params, nullptr);
  if (start != 0) [[unlikely]]
    rt::trace::RecordSince(rt::EventKind::launch, start, rt::CurrentOwner(), 1, blocks);
  if (result != CUDA_SUCCESS) [[unlikely]]
    return Annotate(Check("cuLaunchKernel", result), absl::StrCat(name, ": "));
  if (rt::options().cuda_sync()) [[unlikely]]
    return Annotate(Check("cuStreamSynchronize", TheDriver().cuStreamSynchronize(stream())), absl::StrCat(name, ": "));
  return absl::OkStatus();
}

}  // namespace tessera::cuda
