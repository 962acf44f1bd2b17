// Kernels that a program brings along, in CUDA C++:
//
//   auto kernel = CudaKernel::compile(device, R"(
//     __global__ void scale(float* y, const float* x, float by, int n) {
//       const int i = blockIdx.x * blockDim.x + threadIdx.x;
//       if (i < n) y[i] = by * x[i];
//     })", "scale").value();
//   Tensor y = kernel.run({.blocks = {(n + 255) / 256}, .threads = {256}}, {{f32, {n}}}, {x, 2.0f, n}).value()[0];
//
// NVRTC compiles them at once; where it is not installed, that is what the status says. A kernel is no op: what it
// reads is computed before, a trace ends at it, and it has no gradient.
#ifndef TESSERA_CUDA_KERNEL_H_
#define TESSERA_CUDA_KERNEL_H_

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/export.h"
#include "tessera/status.h"
#include "tessera/tensor.h"

namespace tessera {

class TSR_API CudaKernel {
 public:
  struct Size {
    int64_t x = 1, y = 1, z = 1;
  };
  struct Grid {
    Size blocks = {}, threads = {};  // threads: of a block
    int64_t shared_bytes = 0;        // of dynamic shared memory, for each block
  };
  /// A result: the kernel must write all of it.
  struct Output {
    DType dtype;
    Dims dims;
  };
  /// A tensor, of which the kernel gets the address, or a number, which must have the type that the kernel declares.
  class Parameter {
   public:
    Parameter(const Tensor& tensor) : tensor_(tensor) {}  // NOLINT(google-explicit-constructor)
    template <class T>
      requires std::is_arithmetic_v<T>
    Parameter(T number) : bytes_(sizeof(T)) {  // NOLINT(google-explicit-constructor)
      std::memcpy(&number_, &number, sizeof(T));
    }

   private:
    friend class CudaKernel;
    Tensor tensor_;
    uint64_t number_ = 0;
    size_t bytes_ = 0;  // 0: a tensor
  };

  /// `name`: of the __global__ function, with its template arguments if it has any ("scale<float>"). `options` are
  /// NVRTC's, such as -I/usr/local/cuda/include. Faults of the source come back with the compiler's messages.
  static Result<CudaKernel> compile(Device device, const std::string& source, const std::string& name,
                                    const std::vector<std::string>& options = {});

  /// Submits it after everything before it on the device. The kernel's parameters are the addresses of `outputs`, then
  /// `parameters`; their number and sizes are checked (with drivers of CUDA 12.4 and newer, which know them), and
  /// tensors must be contiguous and on the kernel's device.
  Result<std::vector<Tensor>> run(const Grid& grid, const std::vector<Output>& outputs,
                                  const std::vector<Parameter>& parameters) const;

 private:
  struct Impl;
  explicit CudaKernel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_CUDA_KERNEL_H_
