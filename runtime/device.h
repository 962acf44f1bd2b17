// What a device must do. tests/cts runs one conformance suite against every device; null_device.cc is the
// smallest one, to copy from.
#ifndef TESSERA_RUNTIME_DEVICE_H_
#define TESSERA_RUNTIME_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/status.h"

namespace tessera::rt {

enum class DeviceKind : uint8_t { cpu, null, cuda };

struct MemoryStats {
  int64_t bytes_in_use = 0;        // handed out and not given back
  int64_t bytes_cached = 0;        // held by the pool for reuse
  int64_t peak_bytes = 0;          // highest bytes_in_use since the last ResetPeak()
  int64_t limit_bytes = 0;         // 0: no limit
  int64_t allocations = 0;         // calls of Allocate
  int64_t system_allocations = 0;  // those that had to ask the system
};

/// Kernels that were generated for a device, loaded. Freed with the object: nothing of it may be running or waiting.
class DeviceCode {
 public:
  virtual ~DeviceCode() = default;
  /// For Device::Launch.
  virtual absl::StatusOr<const void*> Find(const char* kernel) = 0;
  /// Bytes of each parameter of a kernel that was found; none where the device cannot tell.
  virtual std::optional<std::vector<size_t>> ParameterBytes(const void* /*kernel*/) const { return std::nullopt; }
};

/// Work of a device that was recorded, to be submitted again as one piece.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual absl::Status Launch() = 0;
};

/// Bytes on their way to memory of a device, beside what the device does. Freed before that memory is.
class Upload {
 public:
  virtual ~Upload() = default;
  /// What is submitted to the device from now on comes after the copy. The host waits for nothing. The end of the
  /// object does the same.
  virtual absl::Status Join() = 0;
};

/// How many threads run a generated kernel.
struct LaunchShape {
  int64_t blocks = 1;
  int threads = 1;   // of a block
  int shared = 0;    // bytes of dynamic shared memory
  int resident = 0;  // at most so many blocks for each multiprocessor; 0: any number
  // The other dims of a kernel that the program brought along.
  int blocks_y = 1, blocks_z = 1, threads_y = 1, threads_z = 1;
};

/// A view that a kernel copies pieces of: dims from the innermost on, which lies in one run. Rows of a piece have 128
/// bytes, whose sixteens are exchanged by the row's number modulo eight.
struct PieceShape {
  static constexpr int kMostDims = 5;
  int element_bytes = 0;
  int rank = 0;
  int64_t dims[kMostDims];
  int64_t strides[kMostDims];  // in bytes; that of the innermost is not looked at
  int piece[kMostDims];
  bool to_tf32 = false;  // elements are f32, and what is copied of them is rounded to tf32
};
/// What the device's kernels are given of such a view.
struct alignas(128) PieceMap {
  unsigned char bytes[128];
};

/// One place where tensors live and kernels run. Objects are created at first use, are never destroyed, and all
/// methods may be called from any thread at any time, also while static objects are being destroyed.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;
  virtual DeviceKind kind() const = 0;
  /// False for the null device: its memory has no contents and ops on it are only checked, not run.
  virtual bool executes() const = 0;

  /// Memory of at least `bytes` bytes, aligned to 64. bytes == 0 gives a non-null pointer too. Fails with
  /// resource_exhausted when the limit or the system refuses, after giving cached memory back and trying again.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  /// `bytes` is what Allocate was asked for.
  virtual void Free(void* p, size_t bytes) noexcept = 0;
  /// Gives cached memory back to the system.
  virtual void Trim() = 0;

  virtual absl::Status CopyFromHost(void* dst, const void* src, size_t bytes) = 0;
  virtual absl::Status CopyToHost(void* dst, const void* src, size_t bytes) = 0;
  /// As CopyFromHost, but beside what is submitted until Join() where the device can do that. `src` may change when
  /// this returns. Null: the copy is in its place among what is submitted, and there is nothing to join.
  virtual absl::StatusOr<std::unique_ptr<Upload>> StartUpload(void* dst, const void* src, size_t bytes);
  /// Between two places of this device that do not overlap, in the order of what is submitted to it.
  virtual absl::Status CopyWithin(void* dst, const void* src, size_t bytes) = 0;
  virtual absl::Status Zero(void* p, size_t bytes) = 0;
  /// Returns when everything submitted before has finished, whatever came of it.
  virtual void Wait() = 0;
  /// The same. An error that something of it met is returned here, once.
  virtual absl::Status Synchronize() = 0;

  // ---- generated code, for devices that are not the cpu
  /// What the compiler calls this kind of device ("sm_90"); empty: the machine itself.
  virtual std::string_view code_target() const { return ""; }
  /// `image` is a cubin, or PTX that ends with a NUL.
  virtual absl::StatusOr<std::unique_ptr<DeviceCode>> LoadCode(std::string_view image);
  /// Fills `map` for the view of that shape at `data`. False: the device cannot copy pieces of it.
  virtual bool MapPieces(const PieceShape&, const void* /*data*/, PieceMap* /*map*/) { return false; }
  /// Submits a kernel. `params` points at each of its parameters; they are copied. `name` stays.
  virtual absl::Status Launch(const void* kernel, const char* name, const LaunchShape& shape, void** params);

  /// From here on what this thread submits is recorded and not run. False: not on this device, or not now.
  virtual bool BeginRecording() { return false; }
  /// Null where something cannot be recorded: the host waited or copied, or memory was asked for. Nothing has run then.
  /// `label` is what messages call a run of it, and stays.
  virtual std::unique_ptr<DeviceGraph> EndRecording(const char* /*label*/) { return nullptr; }

  virtual MemoryStats memory_stats() const = 0;
  virtual void ResetPeak() = 0;
  /// 0: no limit. A limit below what is in use only refuses new memory.
  virtual void SetMemoryLimit(int64_t bytes) = 0;
};

Device& Cpu();
Device& Null();
/// CUDA device number `index`: the driver is opened by the first call. not_found says why there is none.
absl::StatusOr<Device*> Cuda(int index);
/// How many there are, 0 where there is no driver.
int NumCudaDevices();
/// "cpu", "null", "cuda" (the first) or "cuda:1"; not_found with the list of devices otherwise.
absl::StatusOr<Device*> FindDevice(std::string_view name);
std::vector<Device*> AllDevices();

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_DEVICE_H_
