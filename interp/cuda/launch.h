// What the host side of tier 1's CUDA kernels is written with. A kernel is found by its name in the image of its .cu
// file (interp/cuda/kernels), takes one struct by value, and is put on the device's stream: nothing waits. Memory that
// is freed after a launch is used again only by what comes later on that stream, so scratch memory may be given back at
// once.
#ifndef TESSERA_INTERP_CUDA_LAUNCH_H_
#define TESSERA_INTERP_CUDA_LAUNCH_H_

#include <algorithm>
#include <bit>
#include <utility>

#include "interp/cuda/args.h"
#include "interp/kernel.h"
#include "runtime/cuda/device.h"

/// The image of kernels/NAME.cu.
#define TSR_CUDA_IMAGE(name)                                   \
  extern "C" const unsigned char* tessera_cuda_image_##name(); \
  static constexpr ::tessera::cuda::Image kImage = tessera_cuda_image_##name

namespace tessera::interp {
struct Epilogue;
}

namespace tessera::cuda {

/// "The device's address of a view's first element", as kernels take it.
inline Address AddressOf(const View& v) { return std::bit_cast<Address>(v.data); }

/// A view as kernels see it, with its dims as they are.
inline Operand OperandOf(const View& v) {
  Operand o;
  o.data = AddressOf(v);
  o.layout.rank = v.rank;
  o.layout.dtype = static_cast<int32_t>(v.dtype);
  for (int i = 0; i < v.rank; ++i) {
    o.layout.dims[i] = v.dims[i];
    o.layout.strides[i] = v.strides[i];
  }
  return o;
}

/// Neighbouring dims that lie in memory as one are made one; dims of 1 go. The order of elements stays.
Layout Merged(const View& v);

/// Threads of a block, unless a kernel wants others.
inline constexpr int kThreads = 256;

/// Enough blocks for `items`, of which a thread does `each` at a time; kernels loop over what is left.
inline Grid GridFor(int64_t items, int64_t each = 1, int threads = kThreads) {
  const int64_t per_block = each * threads;
  return {std::clamp<int64_t>((items + per_block - 1) / per_block, 1, 1 << 20), threads, 0};
}

/// Puts a kernel on the stream of args.device. Args is the struct that the kernel takes.
template <class Args>
absl::Status Launch(const interp::KernelArgs& op, const Kernel& kernel, const Grid& grid, const Args& args) {
  static_assert(sizeof(Args) <= 4000);
  return DeviceOf(*op.device).Launch(kernel, grid, &args, sizeof args);
}

/// Memory of the device for the time of an op.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& o) noexcept
      : device_(std::exchange(o.device_, nullptr)), data_(std::exchange(o.data_, nullptr)), bytes_(o.bytes_) {}
  Scratch& operator=(Scratch&& o) noexcept {
    std::swap(device_, o.device_);
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~Scratch() {
    if (device_ != nullptr) device_->Free(data_, bytes_);
  }
  static absl::StatusOr<Scratch> Make(rt::Device& device, size_t bytes) {
    Scratch s;
    TSR_ASSIGN_OR_RETURN(s.data_, device.Allocate(bytes));
    s.device_ = &device;
    s.bytes_ = bytes;
    return s;
  }
  void* data() const { return data_; }
  Address address() const { return std::bit_cast<Address>(data_); }

 private:
  rt::Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// The view with its elements in row-major order: itself, or a copy that lives in *copy.
absl::StatusOr<View> MakeContiguous(const interp::KernelArgs& op, const View& v, Scratch* copy);

// One function for each row of ops.def whose impl is `kernel`: cuda::k_sum, cuda::k_matmul, ...
#define TSR_IMPL_ew(name)
#define TSR_IMPL_view(name)
#define TSR_IMPL_host(name)
#define TSR_IMPL_control(name)
#define TSR_IMPL_kernel(name) absl::Status k_##name(const interp::KernelArgs& args);
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary) \
  TSR_IMPL_##impl(name)
#include "ir/ops.def"
#undef TSR_IMPL_ew
#undef TSR_IMPL_view
#undef TSR_IMPL_host
#undef TSR_IMPL_control
#undef TSR_IMPL_kernel
/// See interp/product.h.
absl::Status MatmulWithEpilogue(const interp::KernelArgs& args, const interp::Epilogue& epilogue, bool submit);
/// All rows whose impl is `ew`.
absl::Status RunElementwise(const interp::KernelArgs& args);

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_LAUNCH_H_
