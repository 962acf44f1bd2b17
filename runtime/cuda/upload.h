// Copies from the host that run beside the device's stream: a stream of their own, from pinned memory.
#ifndef TESSERA_RUNTIME_CUDA_UPLOAD_H_
#define TESSERA_RUNTIME_CUDA_UPLOAD_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace tessera::cuda {

class Device;

/// Memory of the pool is reused in the order of the device's stream, so a copy begins when the device has done what was
/// submitted by then, and runs beside what is submitted later, up to its Join().
class UploadLane {
 public:
  explicit UploadLane(Device& device) : device_(device) {}

  /// As rt::Device::StartUpload. The context is current.
  absl::StatusOr<std::unique_ptr<rt::Upload>> Start(CUdeviceptr dst, const char* src, size_t bytes);

 private:
  friend class LaneUpload;
  static constexpr size_t kPiece = size_t{1} << 20;
  static constexpr int kPieces = 8;
  struct Piece {
    char* memory = nullptr;
    CUevent event = nullptr;
    bool busy = false;  // the event was recorded and not waited for
  };

  absl::Status Open();
  absl::StatusOr<CUevent> TakeEvent();
  void GiveEvent(CUevent event);

  Device& device_;
  std::mutex mutex_;
  CUstream stream_ = nullptr;
  Piece pieces_[kPieces];
  int next_ = 0;
  std::vector<CUevent> events_;  // that nobody uses
};

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_UPLOAD_H_
