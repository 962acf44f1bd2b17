#include "tessera/tensor.h"

#include <cstring>

#include "interp/api/eager.h"
#include "interp/api/tape.h"
#include "interp/cpu/convert.h"
#include "interp/cpu/strided.h"
#include "interp/format.h"
#include "interp/interpreter.h"
#include "interp/stream.h"
#include "ir/slice.h"
#include "runtime/clock.h"
#include "runtime/ring.h"
#include "tessera/ops.h"

namespace tessera {

using api::Check;
using api::ImplOf;
using api::Throw;
using api::Wrap;
using rt::Ref;
using rt::TensorImpl;

namespace {

// Where the host can read it: the same, or an error that says why not.
void CheckReadable(const TensorImpl& x, const char* what) {
  if (!x.device().executes()) {
    Throw(Unsupported(what, ": ", ToString(static_cast<const TensorType&>(x)), " is on device ",
                      std::string(x.device().name()), ", which holds no values; compute it on cpu"));
  }
}

}  // namespace

TensorType api::TypeFor(DType dtype, const Dims& dims, const char* what) {
  TensorType type;
  type.dtype = dtype;
  if (dims.size() > kMaxRank) {
    Throw(InvalidArgument(what, ": dims has ", dims.size(), " entries; the rank is at most ", kMaxRank));
  }
  type.rank = static_cast<uint8_t>(dims.size());
  int64_t bytes = static_cast<int64_t>(SizeOf(dtype));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) Throw(InvalidArgument(what, ": dim ", i, " is ", dims[i], "; dims are at least 0"));
    if (__builtin_mul_overflow(bytes, dims[i], &bytes)) Throw(ResourceExhausted(what, ": the tensor is too large"));
    type.dims[i] = dims[i];
  }
  return type;
}

Result<Device> Device::find(std::string_view name) {
  auto device = rt::FindDevice(name);
  if (!device.ok()) return ToPublic(device.status());
  return Device(*device);
}
Device Device::cpu() { return Device(&rt::Cpu()); }
Device Device::null() { return Device(&rt::Null()); }
std::vector<Device> Device::all() {
  std::vector<Device> devices;
  for (rt::Device* d : rt::AllDevices()) devices.emplace_back(d);
  return devices;
}
std::string_view Device::name() const { return impl_->name(); }

Tensor::Tensor(const Tensor& other) noexcept : impl_(other.impl_) {
  if (impl_ != nullptr) impl_->Retain();
}
Tensor& Tensor::operator=(const Tensor& other) noexcept {
  if (other.impl_ != nullptr) other.impl_->Retain();
  if (impl_ != nullptr) impl_->Release();
  impl_ = other.impl_;
  return *this;
}
void Tensor::Drop() noexcept { impl_->Release(); }

TensorImpl* Tensor::impl() const {
  if (impl_ != nullptr) Check(rt::Ready(*impl_));
  return impl_;
}

Tensor Tensor::FromBytes(DType dtype, const void* data, size_t count, const Dims& dims) {
  const TensorType type = api::TypeFor(dtype, dims, "Tensor::from");
  if (static_cast<size_t>(type.size()) != count) {
    Throw(
        InvalidArgument("Tensor::from: ", count, " values do not fill ", ToString(type), ", which has ", type.size()));
  }
  rt::Device& device = api::DefaultDevice();
  Ref<TensorImpl> x = Check(TensorImpl::Make(device, type));
  if (count > 0) Check(device.CopyFromHost(x->data, data, count * SizeOf(dtype)));
  return Wrap(std::move(x));
}

Tensor Tensor::from_bytes(std::span<const std::byte> bytes, DType dtype, const Dims& dims) {
  if (bytes.size() % SizeOf(dtype) != 0) {
    Throw(InvalidArgument("Tensor::from_bytes: ", bytes.size(), " bytes are no whole number of ",
                          std::string(Name(dtype))));
  }
  return FromBytes(dtype, bytes.data(), bytes.size() / SizeOf(dtype), dims);
}

int Tensor::rank() const { return api::TypeOf(*this, "rank").rank; }
Dims Tensor::dims() const {
  const TensorImpl& x = api::TypeOf(*this, "dims");
  return Dims(std::span<const int64_t>(x.dims, x.rank));
}
int64_t Tensor::dim(int axis) const {
  const TensorImpl& x = api::TypeOf(*this, "dim");
  auto a = ir::CanonicalAxis(axis, x.rank);
  if (!a.ok()) Throw(Annotate(a.status(), "dim: "));
  return x.dims[*a];
}
int64_t Tensor::size() const { return api::TypeOf(*this, "size").size(); }
DType Tensor::dtype() const { return api::TypeOf(*this, "dtype").dtype; }
Device Tensor::device() const { return Device(&api::TypeOf(*this, "device").device()); }
Dims Tensor::strides() const {
  const TensorImpl& x = api::TypeOf(*this, "strides");
  return Dims(std::span<const int64_t>(x.strides, x.rank));
}
bool Tensor::is_contiguous() const { return api::TypeOf(*this, "is_contiguous").IsContiguous(); }
bool Tensor::shares_storage_with(const Tensor& other) const {
  return defined() && other.defined() && impl()->storage() == other.impl()->storage();
}

void* Tensor::data() const { return impl_->data; }

Tensor Tensor::HostReadable(DType dtype) const {
  TensorImpl& x = ImplOf(*this, "read");
  if (x.dtype != dtype) {
    Throw(InvalidArgument("read: the tensor is ", ToString(static_cast<const TensorType&>(x)), ", not ",
                          std::string(Name(dtype)), "; read<T>() with the matching T, or cast() first"));
  }
  CheckReadable(x, "read");
  return Wrap(Check(interp::Contiguous(*Check(interp::OnHost(x)))));
}

void Tensor::MakeHostWritable(DType dtype) {
  TensorImpl& x = ImplOf(*this, "write");
  if (x.dtype != dtype) {
    Throw(InvalidArgument("write: the tensor is ", ToString(static_cast<const TensorType&>(x)), ", not ",
                          std::string(Name(dtype)), "; write<T>() with the matching T, or cast() first"));
  }
  CheckReadable(x, "write");
  // Ops that wait to run may hold this tensor: once they have run, it need not be copied.
  if (!x.unique()) {
    if (interp::Stream* stream = interp::CurrentStream()) interp::CurrentStreamHook()->OnWrite(*stream);
  }
  if (x.unique() && x.storage()->unique() && x.IsContiguous()) return;
  *this = clone();
  impl();
}

Tensor Tensor::WritableCopy(DType dtype) {
  MakeHostWritable(dtype);
  TensorImpl& x = *impl_;
  return x.device().kind() == rt::DeviceKind::cpu ? *this : Wrap(Check(interp::OnHost(x)));
}

void Tensor::WriteBack(const Tensor& values) noexcept {
  if (values.impl_ == impl_) return;
  // A device that refuses is lost, and says so at the next op.
  (void)impl_->device().CopyFromHost(impl_->data, values.impl_->data,
                                     static_cast<size_t>(impl_->size()) * SizeOf(impl_->dtype));
}

std::vector<std::byte> Tensor::to_bytes() const {
  TensorImpl& x = ImplOf(*this, "to_bytes");
  CheckReadable(x, "to_bytes");
  std::vector<std::byte> bytes(static_cast<size_t>(x.size()) * SizeOf(x.dtype));
  cpu::GatherBlock(*Check(interp::OnHost(x)), 0, x.size(), bytes.data());
  return bytes;
}

void Tensor::CopyOut(DType dtype, void* out) const {
  TensorImpl& x = ImplOf(*this, "to_vector");
  CheckReadable(x, "to_vector");
  Ref<TensorImpl> c = Check(interp::Contiguous(*Check(interp::OnHost(x))));
  cpu::Convert(out, dtype, c->data, c->dtype, c->size());
}

void Tensor::Item(DType dtype, void* out) const {
  TensorImpl& x = ImplOf(*this, "item");
  if (x.size() != 1) {
    Throw(InvalidArgument("item: ", ToString(static_cast<const TensorType&>(x)), " has ", x.size(),
                          " elements; item() takes the one element of a tensor of size 1"));
  }
  CheckReadable(x, "item");
  alignas(8) char element[8];
  Check(interp::ReadElement(x, x.device(), element));
  cpu::Convert(out, dtype, element, x.dtype, 1);
}

std::string Tensor::to_string() const {
  if (!defined()) return "(empty Tensor handle)";
  return Check(interp::Format(*impl()));
}
void Tensor::print() const { interp::PrintLine(to_string()); }

#define TSR_METHOD(name, type)                                                 \
  Tensor Tensor::name(const type& list, Where where) const {                   \
    const Arg self(*this, where);                                              \
    return api::Run(ir::Op::k_##name, {&self}, {api::ToInts(list)}, TSR_SITE); \
  }
TSR_METHOD(reshape, Dims)
TSR_METHOD(transpose, Dims)
TSR_METHOD(broadcast, Dims)
TSR_METHOD(squeeze, Axes)
TSR_METHOD(unsqueeze, Axes)
TSR_METHOD(flip, Axes)

Tensor Tensor::clone(Where where) const {
  const Arg self(*this, where);
  return api::Run(ir::Op::k_copy, self, TSR_SITE);
}
Tensor Tensor::cast(DType dtype, Where where) const {
  if (this->dtype() == dtype) return *this;
  const Arg self(*this, where);
  return api::Run(ir::Op::k_cast, {&self}, {dtype}, TSR_SITE);
}

Tensor Tensor::operator[](std::initializer_list<Slice> slices) const {
  ir::Ints starts, stops, steps, axes;
  for (const Slice& s : slices) {
    starts.push_back(s.start != none ? s.start : s.step < 0 ? ir::kSliceEnd : 0);
    stops.push_back(s.stop != none ? s.stop : s.step < 0 ? ir::kSliceThroughFirst : ir::kSliceEnd);
    steps.push_back(s.step);
    axes.push_back(static_cast<int64_t>(axes.size()));
  }
  if (axes.empty()) return *this;
  // An initializer_list leaves no room for the place of the call; the call site still tells calls apart.
  const Arg self(*this, std::source_location());
  return api::Run(ir::Op::k_slice, {&self}, {starts, stops, steps, axes}, TSR_SITE);
}

Tensor Tensor::operator[](int64_t i) const {
  const TensorImpl& x = api::TypeOf(*this, "operator[]");
  if (x.rank == 0) Throw(InvalidArgument("operator[]: a scalar has no rows"));
  const int64_t n = x.dims[0];
  if (i < -n || i >= n) {
    Throw(OutOfRange("operator[]: row ", i, " of ", ToString(static_cast<const TensorType&>(x)), " is outside 0 to ",
                     n - 1));
  }
  if (i < 0) i += n;
  const Arg self(*this, std::source_location());
  const ir::Ints start(1, i), stop(1, i + 1), step(1, 1), axis(1, 0);
  const Tensor row = api::Run(ir::Op::k_slice, {&self}, {start, stop, step, axis}, TSR_SITE);
  const Arg sliced(row, std::source_location());
  return api::Run(ir::Op::k_squeeze, {&sliced}, {axis}, TSR_SITE);
}

Tensor Tensor::contiguous() const {
  if (api::TypeOf(*this, "contiguous").IsContiguous()) return *this;
  const Arg self(*this, std::source_location());
  return api::Run(ir::Op::k_copy, self, TSR_SITE);
}

Tensor Tensor::to(Device device) const {
  TensorImpl& x = ImplOf(*this, "to");
  if (&x.device() == device.impl()) return *this;
  CheckReadable(x, "to");
  const int64_t start = rt::EventsOn() ? rt::NowNs() : 0;
  Ref<TensorImpl> source = Check(interp::Contiguous(x));
  Ref<TensorImpl> y = Check(TensorImpl::Make(*device.impl(), x));
  // Between two devices the values pass through the memory of the host.
  Ref<TensorImpl> values = Check(interp::OnHost(*source));
  const size_t bytes = static_cast<size_t>(x.size()) * SizeOf(x.dtype);
  if (bytes > 0) Check(device.impl()->CopyFromHost(y->data, values->data, bytes));
  if (start != 0) {
    const auto is_host = [](const rt::Device& d) { return d.kind() == rt::DeviceKind::cpu; };
    rt::RecordFor(rt::EventKind::copy, rt::NowNs() - start, static_cast<int64_t>(bytes),
                  is_host(x.device())       ? 1
                  : is_host(*device.impl()) ? 2
                                            : 3);
  }
  Tensor result = Wrap(std::move(y));
  if (api::AnyTapes()) {
    api::RecordCustom(
        "to", {*this}, {result},
        [from = this->device()](const std::vector<Tensor>& grads, const std::vector<bool>&) {
          return std::vector<Tensor>{grads[0].to(from)};
        },
        TSR_SITE);
  }
  return result;
}

}  // namespace tessera
