// Copies between the memory of the host and that of a device, through a ring of pinned memory: the host fills or
// empties one piece while the device copies another.
#ifndef TESSERA_RUNTIME_CUDA_STAGING_H_
#define TESSERA_RUNTIME_CUDA_STAGING_H_

#include <cstddef>
#include <memory>
#include <mutex>

#include "runtime/cuda/driver.h"

namespace tessera::cuda {

class Device;

class Staging {
 public:
  explicit Staging(Device& device) : device_(device) {}

  /// Returns when `src` may be changed; the copy itself is part of the device's stream.
  absl::Status ToDevice(CUdeviceptr dst, const char* src, size_t bytes);
  /// Returns when the bytes are there.
  absl::Status ToHost(char* dst, CUdeviceptr src, size_t bytes);

 private:
  static constexpr size_t kPiece = size_t{4} << 20;
  static constexpr int kPieces = 4;
  struct Piece {
    char* memory = nullptr;
    CUevent event = nullptr;
    bool busy = false;  // the event was recorded and not waited for
  };

  absl::Status Start();
  absl::Status WaitFor(Piece& piece);

  Device& device_;
  std::mutex mutex_;
  Piece pieces_[kPieces];
  int next_ = 0;
};

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_STAGING_H_
