#include "tessera/upload.h"

#include <utility>

#include "interp/api/eager.h"
#include "runtime/device.h"
#include "runtime/tensor.h"

namespace tessera {

using api::Check;
using api::Throw;
using rt::Ref;
using rt::TensorImpl;

struct Upload::Impl {
  Ref<TensorImpl> tensor;
  std::unique_ptr<rt::Upload> copy;  // null: it is done. Goes before the memory does
};

Upload::Upload() noexcept = default;
Upload::~Upload() = default;
Upload::Upload(Upload&&) noexcept = default;
Upload& Upload::operator=(Upload&&) noexcept = default;

Upload Upload::start(std::span<const std::byte> bytes, DType dtype, const Dims& dims, Device device) {
  const TensorType type = api::TypeFor(dtype, dims, "Upload::start");
  const size_t wanted = static_cast<size_t>(type.size()) * SizeOf(dtype);
  if (wanted != bytes.size())
    Throw(InvalidArgument("Upload::start: ", bytes.size(), " bytes do not fill ", ToString(type), ", which has ",
                          wanted));
  Upload upload;
  upload.impl_ = std::make_unique<Impl>();
  upload.impl_->tensor = Check(TensorImpl::Make(*device.impl(), type));
  if (wanted > 0)
    upload.impl_->copy = Check(device.impl()->StartUpload(upload.impl_->tensor->data, bytes.data(), wanted));
  return upload;
}

Tensor Upload::take() {
  if (impl_ == nullptr) Throw(InvalidArgument("Upload::take: nothing was started, or it was taken"));
  const std::unique_ptr<Impl> impl = std::move(impl_);
  if (impl->copy != nullptr) Check(impl->copy->Join());
  return api::Wrap(std::move(impl->tensor));
}

}  // namespace tessera
