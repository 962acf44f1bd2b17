// Copies between the memory of the host and that of a device, through rings of pinned memory: the host fills or empties
// one piece while the device copies another. Copies to the host run beside the device's stream, after what was
// submitted before them: kernels that other threads submit meanwhile do not wait for them. Whoever reads holds what is
// read, so nothing that comes later writes there.
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
  /// One for each direction: neither waits for the other.
  struct Ring {
    std::mutex mutex;
    Piece pieces[kPieces];
    int next = 0;
    Piece& Next() {
      Piece& piece = pieces[next];
      next = (next + 1) % kPieces;
      return piece;
    }
  };

  absl::Status Start(Ring& ring);
  absl::Status WaitFor(Piece& piece);
  /// The stream of copies to the host comes after what the device's stream has by now.
  absl::Status StartAside();

  Device& device_;
  Ring up_, down_;
  CUstream aside_ = nullptr;
  CUevent before_ = nullptr;
};

}  // namespace tessera::cuda

#endif  // TESSERA_RUNTIME_CUDA_STAGING_H_
