#include "tessera/upload.h"

#include <mutex>
#include <utility>
#include <vector>

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

namespace {

// Memory that copies went through, until the next one starts. The thread that takes tensors must not give it back:
// blocks of the size of a batch would come to it in another order with every step, and runs of versions are recorded as
// graphs for the addresses of their inputs.
class Retired {
 public:
  static Retired& Get() {
    static auto* const retired = new Retired;
    return *retired;
  }
  void Add(Ref<TensorImpl> tensor) {
    std::lock_guard lock(mutex_);
    tensors_.push_back(std::move(tensor));
  }
  void GiveBack() {
    std::vector<Ref<TensorImpl>> tensors;
    std::lock_guard lock(mutex_);
    tensors.swap(tensors_);
  }

 private:
  std::mutex mutex_;
  std::vector<Ref<TensorImpl>> tensors_;
};

}  // namespace

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
  Retired::Get().GiveBack();
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
  if (impl->copy == nullptr) return api::Wrap(std::move(impl->tensor));
  rt::Device& device = impl->tensor->device();
  Ref<TensorImpl> result = Check(TensorImpl::Make(device, *impl->tensor));
  Check(impl->copy->Join());
  Check(
      device.CopyWithin(result->data, impl->tensor->data, static_cast<size_t>(result->size()) * SizeOf(result->dtype)));
  Retired::Get().Add(std::move(impl->tensor));
  return api::Wrap(std::move(result));
}

}  // namespace tessera
