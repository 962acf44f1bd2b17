#include "tessera/communicator.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "interp/api/eager.h"
#include "runtime/device.h"
#ifdef TESSERA_CUDA
#include "runtime/cuda/device.h"
#include "runtime/cuda/nccl.h"
#endif

namespace tessera {
namespace {

using Tensors = std::vector<Tensor>;

absl::Status CheckDevices(const std::vector<Device>& devices) {
  if (devices.empty()) return InvalidArgument("a communicator of no device");
  for (size_t i = 0; i < devices.size(); ++i) {
    const rt::Device* device = devices[i].impl();
    if (device->kind() != rt::DeviceKind::cuda)
      return InvalidArgument("device ", std::string(device->name()), " is no CUDA device");
    for (size_t k = 0; k < i; ++k)
      if (devices[k].impl() == device)
        return InvalidArgument("device ", std::string(device->name()), " is there twice");
  }
  return absl::OkStatus();
}

}  // namespace

#ifdef TESSERA_CUDA

struct Communicator::Impl {
  const cuda::Nccl* nccl = nullptr;
  int ranks = 0;
  std::vector<Device> devices;
  std::vector<cuda::NcclComm> comms;

  ~Impl() {
    for (size_t i = 0; i < comms.size(); ++i)
      if (comms[i] != nullptr && At(i).Enter().ok()) nccl->ncclCommDestroy(comms[i]);
  }
  cuda::Device& At(size_t i) const { return cuda::DeviceOf(*devices[i].impl()); }

  static absl::StatusOr<std::shared_ptr<const Impl>> Among(const std::vector<Device>& devices) {
    TSR_RETURN_IF_ERROR(CheckDevices(devices));
    auto impl = std::make_shared<Impl>();
    TSR_ASSIGN_OR_RETURN(impl->nccl, cuda::GetNccl());
    impl->ranks = static_cast<int>(devices.size());
    impl->devices = devices;
    std::vector<int> indices;
    for (size_t i = 0; i < devices.size(); ++i) indices.push_back(impl->At(i).index());
    TSR_RETURN_IF_ERROR(impl->At(0).Enter());
    std::vector<cuda::NcclComm> comms(devices.size());
    TSR_RETURN_IF_ERROR(cuda::CheckNccl(*impl->nccl, "ncclCommInitAll",
                                        impl->nccl->ncclCommInitAll(comms.data(), impl->ranks, indices.data())));
    impl->comms = std::move(comms);
    return impl;
  }

  static absl::StatusOr<std::string> NewId() {
    TSR_ASSIGN_OR_RETURN(const cuda::Nccl* nccl, cuda::GetNccl());
    cuda::NcclId id;
    TSR_RETURN_IF_ERROR(cuda::CheckNccl(*nccl, "ncclGetUniqueId", nccl->ncclGetUniqueId(&id)));
    return std::string(id.bytes, sizeof id.bytes);
  }

  static absl::StatusOr<std::shared_ptr<const Impl>> Join(Device device, const std::string& text, int rank, int ranks) {
    TSR_RETURN_IF_ERROR(CheckDevices({device}));
    cuda::NcclId id;
    if (text.size() != sizeof id.bytes)
      return InvalidArgument("an id has ", sizeof id.bytes, " bytes, this one ", text.size());
    if (ranks < 1 || rank < 0 || rank >= ranks) return InvalidArgument("rank ", rank, " of ", ranks);
    std::memcpy(id.bytes, text.data(), sizeof id.bytes);
    auto impl = std::make_shared<Impl>();
    TSR_ASSIGN_OR_RETURN(impl->nccl, cuda::GetNccl());
    impl->ranks = ranks;
    impl->devices = {device};
    TSR_RETURN_IF_ERROR(impl->At(0).Enter());
    cuda::NcclComm comm = nullptr;
    TSR_RETURN_IF_ERROR(
        cuda::CheckNccl(*impl->nccl, "ncclCommInitRank", impl->nccl->ncclCommInitRank(&comm, ranks, id, rank)));
    impl->comms = {comm};
    return impl;
  }

  /// Submits for each device of this process: `submit` gets its number, what is read and what is written, which has
  /// `dims`.
  absl::StatusOr<Tensors> Run(
      const char* what, const Tensors& given, const Dims& dims,
      const std::function<int(size_t i, const void* from, void* to, cuda::Device&)>& submit) const {
    Tensors from, results;
    for (size_t i = 0; i < given.size(); ++i) {
      from.push_back(given[i].contiguous());
      TSR_ASSIGN_OR_RETURN(rt::Ref<rt::TensorImpl> y,
                           rt::TensorImpl::Make(At(i), api::TypeFor(given[i].dtype(), dims, what)));
      results.push_back(api::Wrap(std::move(y)));
    }
    if (given[0].size() == 0) return results;
    // Whatever fails, the group is ended.
    absl::Status status = cuda::CheckNccl(*nccl, "ncclGroupStart", nccl->ncclGroupStart());
    TSR_RETURN_IF_ERROR(status);
    for (size_t i = 0; i < given.size() && status.ok(); ++i) {
      cuda::Device& device = At(i);
      status = device.Enter();
      if (!status.ok()) break;
      status = cuda::CheckNccl(*nccl, what, submit(i, from[i].impl()->data, results[i].impl()->data, device));
      device.Note("a collective of NCCL");
    }
    const absl::Status ended = cuda::CheckNccl(*nccl, "ncclGroupEnd", nccl->ncclGroupEnd());
    TSR_RETURN_IF_ERROR(status);
    TSR_RETURN_IF_ERROR(ended);
    return results;
  }

  absl::Status CheckTensors(const Tensors& x) const {
    if (x.size() != devices.size())
      return InvalidArgument(x.size(), " tensors for ", devices.size(), " devices of this process");
    for (size_t i = 0; i < x.size(); ++i) {
      if (!x[i].defined()) return InvalidArgument("tensor ", i, " is an empty handle");
      if (x[i].device().impl() != devices[i].impl())
        return InvalidArgument("tensor ", i, " is on ", std::string(x[i].device().name()), ", the rank on ",
                               std::string(devices[i].name()));
      if (x[i].dtype() != x[0].dtype() || x[i].dims() != x[0].dims())
        return InvalidArgument("tensors 0 and ", i, " have different types");
    }
    return absl::OkStatus();
  }
  static absl::Status CheckReduction(Reduction how, DType dtype) {
    if (how == Reduction::mean && !IsFloat(dtype))
      return Unsupported("a mean of ", std::string(Name(dtype)), " is no ", std::string(Name(dtype)));
    return absl::OkStatus();
  }

  absl::StatusOr<Tensors> AllReduce(const Tensors& x, Reduction how) const {
    TSR_RETURN_IF_ERROR(CheckTensors(x));
    TSR_RETURN_IF_ERROR(CheckReduction(how, x[0].dtype()));
    TSR_ASSIGN_OR_RETURN(const int dtype, cuda::NcclDType(x[0].dtype()));
    const auto count = static_cast<size_t>(x[0].size());
    return Run("ncclAllReduce", x, x[0].dims(), [&](size_t i, const void* from, void* to, cuda::Device& device) {
      return nccl->ncclAllReduce(from, to, count, dtype, static_cast<int>(how), comms[i], device.stream());
    });
  }
  absl::StatusOr<Tensors> AllGather(const Tensors& x) const {
    TSR_RETURN_IF_ERROR(CheckTensors(x));
    TSR_ASSIGN_OR_RETURN(const int dtype, cuda::NcclDType(x[0].dtype()));
    std::vector<int64_t> dims = {ranks};
    for (const int64_t dim : x[0].dims()) dims.push_back(dim);
    const auto count = static_cast<size_t>(x[0].size());
    return Run("ncclAllGather", x, dims, [&](size_t i, const void* from, void* to, cuda::Device& device) {
      return nccl->ncclAllGather(from, to, count, dtype, comms[i], device.stream());
    });
  }
  absl::StatusOr<Tensors> ReduceScatter(const Tensors& x, Reduction how) const {
    TSR_RETURN_IF_ERROR(CheckTensors(x));
    TSR_RETURN_IF_ERROR(CheckReduction(how, x[0].dtype()));
    TSR_ASSIGN_OR_RETURN(const int dtype, cuda::NcclDType(x[0].dtype()));
    Dims dims = x[0].dims();
    if (dims.empty() || dims[0] % ranks != 0)
      return InvalidArgument("dim 0 of ", dims.empty() ? 0 : dims[0], " elements is not ", ranks, " parts");
    dims[0] /= ranks;
    const auto count = static_cast<size_t>(x[0].size() / ranks);
    return Run("ncclReduceScatter", x, dims, [&](size_t i, const void* from, void* to, cuda::Device& device) {
      return nccl->ncclReduceScatter(from, to, count, dtype, static_cast<int>(how), comms[i], device.stream());
    });
  }
  absl::StatusOr<Tensors> Broadcast(const Tensors& x, int root) const {
    TSR_RETURN_IF_ERROR(CheckTensors(x));
    if (root < 0 || root >= ranks) return InvalidArgument("root ", root, " of ", ranks, " ranks");
    TSR_ASSIGN_OR_RETURN(const int dtype, cuda::NcclDType(x[0].dtype()));
    const auto count = static_cast<size_t>(x[0].size());
    return Run("ncclBroadcast", x, x[0].dims(), [&](size_t i, const void* from, void* to, cuda::Device& device) {
      return nccl->ncclBroadcast(from, to, count, dtype, root, comms[i], device.stream());
    });
  }
};

#else

struct Communicator::Impl {
  int ranks = 0;
  std::vector<Device> devices;

  static absl::StatusOr<std::shared_ptr<const Impl>> Among(const std::vector<Device>& devices) {
    TSR_RETURN_IF_ERROR(CheckDevices(devices));
    return rt::Cuda(0).status();
  }
  static absl::StatusOr<std::string> NewId() { return rt::Cuda(0).status(); }
  static absl::StatusOr<std::shared_ptr<const Impl>> Join(Device device, const std::string&, int, int) {
    return Among({device});
  }
  absl::StatusOr<Tensors> AllReduce(const Tensors&, Reduction) const { return rt::Cuda(0).status(); }
  absl::StatusOr<Tensors> AllGather(const Tensors&) const { return rt::Cuda(0).status(); }
  absl::StatusOr<Tensors> ReduceScatter(const Tensors&, Reduction) const { return rt::Cuda(0).status(); }
  absl::StatusOr<Tensors> Broadcast(const Tensors&, int) const { return rt::Cuda(0).status(); }
};

#endif

namespace {

/// What a public function returns. Computing what a collective takes may throw.
template <class T, class F>
Result<T> Public(const char* what, F f) {
  try {
    auto value = f();
    if (!value.ok()) return ToPublic(Annotate(value.status(), std::string(what) + ": "));
    return T(*std::move(value));
  } catch (const Error& e) {
    return Status(e.code(), e.what());
  }
}

}  // namespace

Result<Communicator> Communicator::among(const std::vector<Device>& devices) {
  absl::StatusOr<std::shared_ptr<const Impl>> impl = Impl::Among(devices);
  if (!impl.ok()) return ToPublic(Annotate(impl.status(), "communicator: "));
  return Communicator(*std::move(impl));
}
Result<std::string> Communicator::new_id() {
  return Public<std::string>("communicator", [] { return Impl::NewId(); });
}
Result<Communicator> Communicator::join(Device device, const std::string& id, int rank, int ranks) {
  absl::StatusOr<std::shared_ptr<const Impl>> impl = Impl::Join(device, id, rank, ranks);
  if (!impl.ok()) return ToPublic(Annotate(impl.status(), "communicator: "));
  return Communicator(*std::move(impl));
}

int Communicator::ranks() const { return impl_->ranks; }
const std::vector<Device>& Communicator::devices() const { return impl_->devices; }

Result<Tensors> Communicator::all_reduce(const Tensors& x, Reduction how) const {
  return Public<Tensors>("all_reduce", [&] { return impl_->AllReduce(x, how); });
}
Result<Tensors> Communicator::all_gather(const Tensors& x) const {
  return Public<Tensors>("all_gather", [&] { return impl_->AllGather(x); });
}
Result<Tensors> Communicator::reduce_scatter(const Tensors& x, Reduction how) const {
  return Public<Tensors>("reduce_scatter", [&] { return impl_->ReduceScatter(x, how); });
}
Result<Tensors> Communicator::broadcast(const Tensors& x, int root) const {
  return Public<Tensors>("broadcast", [&] { return impl_->Broadcast(x, root); });
}

}  // namespace tessera
