#include "tessera/cuda_kernel.h"

#include <bit>
#include <mutex>
#include <string>
#include <unordered_set>

#include "interp/api/eager.h"
#include "runtime/device.h"
#ifdef TESSERA_CUDA
#include "runtime/cuda/nvrtc.h"
#endif

namespace tessera {
namespace {

/// A message of the device may name a kernel long after it is gone.
const char* Kept(const std::string& name) {
  static auto* mutex = new std::mutex;
  static auto* all = new std::unordered_set<std::string>;
  std::lock_guard lock(*mutex);
  return all->insert(name).first->c_str();
}

absl::Status CheckSize(const char* what, const CudaKernel::Size& size, const CudaKernel::Size& most) {
  if (size.x >= 1 && size.y >= 1 && size.z >= 1 && size.x <= most.x && size.y <= most.y && size.z <= most.z)
    return absl::OkStatus();
  return InvalidArgument("a grid of ", size.x, "x", size.y, "x", size.z, " ", what, ": each is at least 1 and at most ",
                         most.x, ", ", most.y, " and ", most.z);
}

}  // namespace

struct CudaKernel::Impl {
  rt::Device* device;
  std::string name;
  std::unique_ptr<rt::DeviceCode> code;
  const void* kernel = nullptr;
  std::optional<std::vector<size_t>> parameter_bytes;

  static absl::StatusOr<std::shared_ptr<const Impl>> Compile(rt::Device& device, const std::string& source,
                                                             const std::string& name,
                                                             const std::vector<std::string>& options) {
    if (device.kind() != rt::DeviceKind::cuda)
      return InvalidArgument("device ", std::string(device.name()), " is no CUDA device");
#ifdef TESSERA_CUDA
    auto impl = std::make_shared<Impl>();
    impl->device = &device;
    impl->name = name;
    TSR_ASSIGN_OR_RETURN(const cuda::CompiledSource compiled,
                         cuda::CompileSource(std::string(device.code_target()), source, name, options));
    TSR_ASSIGN_OR_RETURN(impl->code, device.LoadCode(compiled.cubin));
    TSR_ASSIGN_OR_RETURN(impl->kernel, impl->code->Find(compiled.kernel.c_str()));
    impl->parameter_bytes = impl->code->ParameterBytes(impl->kernel);
    return impl;
#else
    (void)source, (void)name, (void)options;
    return rt::Cuda(0).status();
#endif
  }

  absl::StatusOr<std::vector<Tensor>> Run(const Grid& grid, const std::vector<Output>& outputs,
                                          const std::vector<Parameter>& parameters) const {
    TSR_RETURN_IF_ERROR(CheckSize("blocks", grid.blocks, {INT32_MAX, 65535, 65535}));
    TSR_RETURN_IF_ERROR(CheckSize("threads of a block", grid.threads, {1024, 1024, 64}));
    if (grid.threads.x * grid.threads.y * grid.threads.z > 1024)
      return InvalidArgument("a block of ", grid.threads.x, "x", grid.threads.y, "x", grid.threads.z,
                             " threads: 1024 is the most");
    if (grid.shared_bytes < 0 || grid.shared_bytes > INT32_MAX)
      return InvalidArgument(grid.shared_bytes, " bytes of shared memory");
    std::vector<uint64_t> words;
    std::vector<size_t> bytes;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& p = parameters[i];
      bytes.push_back(p.bytes_ == 0 ? sizeof(void*) : p.bytes_);
      words.push_back(p.number_);
      if (p.bytes_ != 0) continue;
      if (!p.tensor_.defined()) return InvalidArgument("parameter ", i, " is an empty Tensor handle");
      if (p.tensor_.device().impl() != device)
        return InvalidArgument("parameter ", i, " is on ", std::string(p.tensor_.device().name()), ", the kernel on ",
                               std::string(device->name()));
      if (!p.tensor_.is_contiguous()) return InvalidArgument("parameter ", i, " is not contiguous; use contiguous()");
      words.back() = std::bit_cast<uint64_t>(p.tensor_.impl()->data);
    }
    bytes.insert(bytes.begin(), outputs.size(), sizeof(void*));
    if (parameter_bytes) TSR_RETURN_IF_ERROR(CheckParameters(bytes, outputs.size()));
    std::vector<Tensor> results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      TSR_ASSIGN_OR_RETURN(rt::Ref<rt::TensorImpl> y,
                           rt::TensorImpl::Make(*device, api::TypeFor(outputs[i].dtype, outputs[i].dims, "output")));
      words.insert(words.begin() + static_cast<ptrdiff_t>(i), std::bit_cast<uint64_t>(y->data));
      results.push_back(api::Wrap(std::move(y)));
    }
    std::vector<void*> addresses;
    for (uint64_t& word : words) addresses.push_back(&word);
    rt::LaunchShape shape = {grid.blocks.x, static_cast<int>(grid.threads.x), static_cast<int>(grid.shared_bytes)};
    shape.blocks_y = static_cast<int>(grid.blocks.y);
    shape.blocks_z = static_cast<int>(grid.blocks.z);
    shape.threads_y = static_cast<int>(grid.threads.y);
    shape.threads_z = static_cast<int>(grid.threads.z);
    TSR_RETURN_IF_ERROR(device->Launch(kernel, Kept(name), shape, addresses.data()));
    return results;
  }

  absl::Status CheckParameters(const std::vector<size_t>& given, size_t outputs) const {
    const std::vector<size_t>& wanted = *parameter_bytes;
    if (given.size() != wanted.size())
      return InvalidArgument("it has ", wanted.size(), " parameters, and is given ", outputs, " outputs and ",
                             given.size() - outputs, " parameters");
    for (size_t i = 0; i < given.size(); ++i)
      if (given[i] != wanted[i])
        return InvalidArgument("what the kernel declares in place ", i, " has ", wanted[i], " bytes, what it is given ",
                               given[i], i < outputs ? " (an output)" : "");
    return absl::OkStatus();
  }
};

Result<CudaKernel> CudaKernel::compile(Device device, const std::string& source, const std::string& name,
                                       const std::vector<std::string>& options) {
  absl::StatusOr<std::shared_ptr<const Impl>> impl = Impl::Compile(*device.impl(), source, name, options);
  if (!impl.ok()) return ToPublic(impl.status());
  return CudaKernel(*std::move(impl));
}

Result<std::vector<Tensor>> CudaKernel::run(const Grid& grid, const std::vector<Output>& outputs,
                                            const std::vector<Parameter>& parameters) const {
  try {
    absl::StatusOr<std::vector<Tensor>> results = impl_->Run(grid, outputs, parameters);
    if (!results.ok()) return ToPublic(Annotate(results.status(), "kernel " + impl_->name + ": "));
    return *std::move(results);
  } catch (const Error& e) {  // of what computes a parameter
    return Status(e.code(), e.what());
  }
}

}  // namespace tessera
