#include "tessera/cuda.h"

#include "interp/api/eager.h"
#ifdef TESSERA_CUDA
#include "runtime/cuda/device.h"
#endif

namespace tessera::cuda {
namespace {

absl::Status NotCuda(const tessera::Device& device) {
  return InvalidArgument("device ", std::string(device.name()), " is no CUDA device");
}
bool IsCuda(const tessera::Device& device) { return device.impl()->kind() == rt::DeviceKind::cuda; }

}  // namespace

#ifdef TESSERA_CUDA
Status adopt_context(int index, void* context) {
  return ToPublic(AdoptContext(index, static_cast<CUcontext>(context)));
}
Status use_stream(tessera::Device device, void* stream) {
  if (!IsCuda(device)) return ToPublic(NotCuda(device));
  return ToPublic(DeviceOf(*device.impl()).UseStream(static_cast<CUstream>(stream)));
}
void* stream(tessera::Device device) { return IsCuda(device) ? DeviceOf(*device.impl()).stream() : nullptr; }
void* context(tessera::Device device) { return IsCuda(device) ? DeviceOf(*device.impl()).context() : nullptr; }
#else
Status adopt_context(int index, void*) { return ToPublic(rt::Cuda(index).status()); }
Status use_stream(tessera::Device device, void*) { return ToPublic(NotCuda(device)); }
void* stream(tessera::Device) { return nullptr; }
void* context(tessera::Device) { return nullptr; }
#endif

Result<Tensor> wrap(tessera::Device device, void* data, DType dtype, const Dims& dims, void (*release)(void*),
                    void* argument) {
  if (!IsCuda(device)) return ToPublic(NotCuda(device));
  if (dims.size() > kMaxRank)
    return ToPublic(InvalidArgument("wrap: dims has ", dims.size(), " entries; the rank is at most ", kMaxRank));
  TensorType type;
  type.dtype = dtype;
  type.rank = static_cast<uint8_t>(dims.size());
  int64_t bytes = static_cast<int64_t>(SizeOf(dtype));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || __builtin_mul_overflow(bytes, dims[i], &bytes))
      return ToPublic(InvalidArgument("wrap: dim ", i, " is ", dims[i], "; dims are at least 0 and not too large"));
    type.dims[i] = dims[i];
  }
  rt::TensorImpl* x = rt::TensorImpl::New();
  static_cast<TensorType&>(*x) = type;
  x->SetContiguousStrides();
  x->data = data;
  x->set_storage(
      rt::Storage::Wrap(
          *device.impl(), data, static_cast<size_t>(bytes), release != nullptr ? release : [](void*) {}, argument)
          .release());
  return Tensor::Adopt(x);
}

Result<void*> address(const Tensor& x) {
  if (!x.defined()) return ToPublic(InvalidArgument("address: the Tensor handle is empty"));
  if (!IsCuda(x.device())) return ToPublic(NotCuda(x.device()));
  if (!x.is_contiguous()) return ToPublic(InvalidArgument("address: the tensor is not contiguous; use contiguous()"));
  try {
    return x.impl()->data;
  } catch (const Error& e) {
    return Status(e.code(), e.what());
  }
}

}  // namespace tessera::cuda
