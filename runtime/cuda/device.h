// A CUDA device: memory, one stream for everything that computes, copies, kernels.
//
// Everything of a device is ordered by its stream, whichever thread it comes from. So memory that is given back may be
// handed out again at once: what uses it next runs after what used it last. The host waits only where it reads values.
//
// Errors that a kernel finds in values (an index out of range) are kept on the device and returned by the next call
// that waits for it. After an error that ends the context (a kernel that reads where there is no memory) every call
// returns what is known about it; the process goes on with the other devices.
#ifndef TESSERA_RUNTIME_CUDA_DEVICE_H_
#define TESSERA_RUNTIME_CUDA_DEVICE_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace tessera::cuda {

struct DeviceError;
/// The text of an error that a kernel left. Defined where the ops are known (interp/cuda/errors.cc).
std::string DescribeError(const DeviceError& error);

class Device;
class Pool;
class Staging;
class UploadLane;

inline constexpr int kMaxDevices = 16;

/// Gives a fatbin that is part of the program.
using Image = const unsigned char* (*)();

/// A kernel of an image, loaded on each device when it is first launched there.
struct Kernel {
  constexpr Kernel(Image image, const char* name) : image(image), name(name) {}
  Image image;
  const char* name;
  mutable std::atomic<CUfunction> on[kMaxDevices] = {};
};

using Grid = rt::LaunchShape;

/// What is known of a device when it starts.
struct Properties {
  std::string name;  // "NVIDIA H200"
  int major = 0, minor = 0;
  int multiprocessors = 0;
  int shared_bytes = 0;  // most of one block
  size_t memory_bytes = 0;
};

/// What a thread records, if anything.
struct Recording {
  const Device* device = nullptr;
  bool spoiled = false;
};

class Device final : public rt::Device {
 public:
  /// `adopted`: a context to use; null: the primary one.
  static absl::StatusOr<Device*> Make(int index, CUcontext adopted);

  std::string_view name() const override { return name_; }
  rt::DeviceKind kind() const override { return rt::DeviceKind::cuda; }
  bool executes() const override { return true; }

  absl::StatusOr<void*> Allocate(size_t bytes) override;
  void Free(void* p, size_t bytes) noexcept override;
  void Trim() override;
  absl::Status CopyFromHost(void* dst, const void* src, size_t bytes) override;
  absl::StatusOr<std::unique_ptr<rt::Upload>> StartUpload(void* dst, const void* src, size_t bytes) override;
  absl::Status CopyToHost(void* dst, const void* src, size_t bytes) override;
  absl::Status CopyWithin(void* dst, const void* src, size_t bytes) override;
  absl::Status Zero(void* p, size_t bytes) override;
  void Wait() override;
  absl::Status Synchronize() override;
  std::string_view code_target() const override { return target_; }
  absl::StatusOr<std::unique_ptr<rt::DeviceCode>> LoadCode(std::string_view image) override;
  bool MapPieces(const rt::PieceShape& shape, const void* data, rt::PieceMap* map) override;
  absl::Status Launch(const void* kernel, const char* name, const rt::LaunchShape& shape, void** params) override;
  bool BeginRecording() override;
  /// As rt::RecordedNodes.
  int64_t RecordedNodes() const;
  std::unique_ptr<rt::DeviceGraph> EndRecording(const char* label) override;
  rt::MemoryStats memory_stats() const override;
  void ResetPeak() override;
  void SetMemoryLimit(int64_t bytes) override;

  // ---- for kernels
  int index() const { return index_; }
  const Properties& properties() const { return properties_; }
  CUcontext context() const { return context_; }
  /// Where this thread's work goes: the device's stream, or a recording.
  CUstream stream() const {
    if (t_recording.device == this) [[unlikely]]
      return recording_stream_;
    return live_stream();
  }
  /// The device's stream, also while this thread records.
  CUstream live_stream() const { return stream_.load(std::memory_order_relaxed); }
  /// In memory that both sides see.
  DeviceError* error() const { return error_; }

  /// Puts a kernel, which takes one struct, on the stream.
  absl::Status Launch(const Kernel& kernel, const Grid& grid, const void* args, size_t size);
  /// Something was put on the stream. A message about what was launched last names it; the name stays.
  void Note(const char* name) {
    const uint32_t n = launches_.load(std::memory_order_relaxed);
    recent_[n % kRecent].store(name, std::memory_order_relaxed);
    launches_.store(n + 1, std::memory_order_relaxed);
  }
  /// Makes the context the calling thread's, where it is not: the application may have set another one meanwhile.
  absl::Status Enter() const {
    CUcontext current = nullptr;
    if (TheDriver().cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context_) [[likely]]
      return absl::OkStatus();
    return EnterSlow();
  }
  /// OK, or the status of a failed driver call; after an error that ends the context, that of all calls from then on.
  absl::Status Check(const char* call, CUresult result) {
    if (result == CUDA_SUCCESS) [[likely]]
      return absl::OkStatus();
    return Failed(call, result);
  }
  /// Everything after this call runs on `stream`, after everything that was submitted before. It belongs to the caller
  /// and must be of this device's context. Null: the device's own stream again.
  absl::Status UseStream(CUstream stream);

 private:
  Device();
  ~Device() override;
  absl::Status EnterSlow() const;
  [[gnu::cold]] absl::Status Failed(const char* call, CUresult result);
  absl::StatusOr<CUfunction> Load(const Kernel& kernel);
  /// What kernels found in values since the last look.
  absl::Status TakeError();

  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit Recording t_recording = {};
  /// Called by whatever cannot be recorded: true while this thread records, and then nothing may be done.
  bool Spoil() const {
    if (t_recording.device != this) [[likely]]
      return false;
    t_recording.spoiled = true;
    return true;
  }

  int index_ = 0;
  std::string name_, target_;
  Properties properties_;
  CUcontext context_ = nullptr;
  CUstream own_stream_ = nullptr;
  std::atomic<CUstream> stream_{nullptr};
  DeviceError* error_ = nullptr;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<UploadLane> uploads_;

  std::mutex recording_mutex_;  // one thread records at a time
  CUstream recording_stream_ = nullptr;

  std::mutex modules_mutex_;
  std::vector<std::pair<Image, CUmodule>> modules_;

  std::atomic<bool> lost_{false};
  std::mutex lost_mutex_;
  std::string lost_why_;
  // Names of the kernels launched last, for messages.
  static constexpr int kRecent = 16;
  std::atomic<const char*> recent_[kRecent] = {};
  std::atomic<uint32_t> launches_{0};
};

/// The device is not made yet: it will use that context.
absl::Status AdoptContext(int index, CUcontext context);

inline Device& DeviceOf(rt::Device& device) { return static_cast<Device&>(device); }

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_DEVICE_H_
