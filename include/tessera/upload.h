// Tensors on their way to a device, beside what the device does meanwhile: what a loader of data does for the next
// step.
//
//   Upload next = Upload::start(bytes, i32, {16, 1024}, device);   // on the loader's thread
//   ... the step before runs ...
//   Tensor x = next.take();
#ifndef TESSERA_UPLOAD_H_
#define TESSERA_UPLOAD_H_

#include <cstddef>
#include <memory>
#include <span>

#include "tessera/tensor.h"

namespace tessera {

/// May be started on one thread and taken on another. Where it is never taken, the copy is waited for by the device.
class TSR_API Upload {
 public:
  Upload() noexcept;
  ~Upload();
  Upload(Upload&&) noexcept;
  Upload& operator=(Upload&&) noexcept;

  /// Starts to copy `bytes`, read as dtype in row-major order, to that device: to a GPU from pinned memory, on a stream
  /// of its own. Devices that cannot do that have the values when this returns. The bytes may go then. Throws Error.
  static Upload start(std::span<const std::byte> bytes, DType dtype, const Dims& dims, Device device);
  template <class T>
  static Upload start(std::span<const T> values, const Dims& dims, Device device) {
    return start(std::as_bytes(values), *DTypeOf<T>(), dims, device);
  }

  /// True from start() until take().
  bool defined() const { return impl_ != nullptr; }
  /// The tensor. What is computed from it comes after the copy; the host waits for nothing. Once; throws Error.
  Tensor take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_UPLOAD_H_
