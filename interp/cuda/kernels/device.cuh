// What kernels of tier 1 share: storage types and their conversions, which are tier 1's own source (interp/cpu); the
// way from an address to data; walks over strided tensors; reductions of a warp and of a block; errors.
#ifndef TESSERA_INTERP_CUDA_KERNELS_DEVICE_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_DEVICE_CUH_

#define TSR_ISA gpu
#include "interp/cpu/ew_ops_isa.h"
#include "interp/cpu/numeric_isa.h"
#include "interp/cuda/args.h"

namespace tessera::cuda {

using namespace cpu::gpu;

// In the order of dtypes.def.
enum class DType : int32_t { f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i8, u8, boolean };

template <class T>
__device__ __forceinline__ T* At(Address a) {
  if (static_cast<int64_t>(a) < 0) a = *reinterpret_cast<const Address*>(a & ~kIndirect);
  return reinterpret_cast<T*>(a);
}

/// n elements that belong together in memory, read and written with one access of up to 16 bytes.
template <class T, int n>
struct alignas(sizeof(T) * n > 16 ? 16 : sizeof(T) * n) Pack {
  T at[n];
};

__device__ __forceinline__ int64_t ThreadIndex() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t ThreadCount() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/// Where element i, counted in row-major order of the layout's dims, lies: elements from the first one.
__device__ __forceinline__ int64_t OffsetOf(const Layout& l, int64_t i) {
  int64_t offset = 0;
  if ((i >> 31) == 0) {
    uint32_t rest = static_cast<uint32_t>(i);
    for (int d = l.rank - 1; d > 0 && rest != 0; --d) {
      const uint64_t dim = static_cast<uint64_t>(l.dims[d]);
      if (dim > rest) return offset + rest * l.strides[d];
      const uint32_t n = static_cast<uint32_t>(dim);
      const uint32_t q = rest / n;
      offset += static_cast<int64_t>(rest - q * n) * l.strides[d];
      rest = q;
    }
    if (l.rank > 0) offset += static_cast<int64_t>(rest) * l.strides[0];
    return offset;
  }
  int64_t rest = i;
  for (int d = l.rank - 1; d > 0 && rest != 0; --d) {
    const int64_t q = rest / l.dims[d];
    offset += (rest - q * l.dims[d]) * l.strides[d];
    rest = q;
  }
  if (l.rank > 0) offset += rest * l.strides[0];
  return offset;
}

/// The first error wins; it is there when the device has been waited for.
__device__ inline void Report(DeviceError* e, int op, int64_t value, int64_t bound) {
  if (atomicCAS(e->taken, 0, 1) == 0) {
    e->op = op;
    e->value = value;
    e->bound = bound;
    e->state = 1;
  }
}

constexpr unsigned kAllLanes = 0xffffffffu;

/// Every lane gets fn over the warp's 32 values. The order is fixed, so results repeat.
template <class T, class Fn>
__device__ __forceinline__ T WarpReduce(T x, Fn fn) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) x = fn(x, __shfl_xor_sync(kAllLanes, x, lanes));
  return x;
}

/// Every thread of the block gets fn over all of them. `shared` has room for 32 values; blockDim.x is a multiple of 32.
template <class T, class Fn>
__device__ __forceinline__ T BlockReduce(T x, T* shared, T identity, Fn fn) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  x = WarpReduce(x, fn);
  if (warps == 1) return x;
  __syncthreads();  // whoever used `shared` before is through
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  x = lane < warps ? shared[lane] : identity;
  return WarpReduce(x, fn);
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_DEVICE_CUH_
