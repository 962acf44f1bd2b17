// Products of integers, which wrap: tiles of 32 x 32 through shared memory, a thread for four elements of the result.
//
//   gemm_<dtype>
#include "interp/cuda/gemm_args.h"
#include "interp/cuda/kernels/device.cuh"

namespace tessera::cuda {

/// T: storage, U: the unsigned type that sums wrap in.
template <class T, class U>
__device__ __forceinline__ void GemmAny(const GemmAnyArgs& g) {
  constexpr int kTile = 32;
  __shared__ U a_tile[kTile][kTile + 1], b_tile[kTile][kTile + 1];
  const T* const a = At<const T>(g.a);
  const T* const b = At<const T>(g.b);
  T* const c = At<T>(g.c);
  const int64_t rows = (g.m + kTile - 1) / kTile, cols = (g.n + kTile - 1) / kTile;
  const int64_t tiles = rows * cols * g.batches;
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;  // 256 threads: y is 0 to 7
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t col = t % cols * kTile, row = t / cols % rows * kTile, batch = t / cols / rows;
    const T* const pa = a + OffsetOf(g.a_batch, batch);
    const T* const pb = b + OffsetOf(g.b_batch, batch);
    U sum[4] = {};
    for (int64_t k = 0; k < g.k; k += kTile) {
      __syncthreads();
      for (int i = 0; i < 4; ++i) {
        const int r = y + 8 * i;
        a_tile[r][x] = row + r < g.m && k + x < g.k ? static_cast<U>(pa[(row + r) * g.a_row + (k + x) * g.a_col]) : 0;
        b_tile[r][x] = k + r < g.k && col + x < g.n ? static_cast<U>(pb[(k + r) * g.b_row + (col + x) * g.b_col]) : 0;
      }
      __syncthreads();
      for (int j = 0; j < kTile; ++j)
        for (int i = 0; i < 4; ++i) sum[i] += a_tile[y + 8 * i][j] * b_tile[j][x];
    }
    for (int i = 0; i < 4; ++i) {
      const int64_t r = row + y + 8 * i;
      if (r < g.m && col + x < g.n) c[(batch * g.m + r) * g.n + col + x] = static_cast<T>(sum[i]);
    }
  }
}
#define TSR_GEMM(dtype, T, U)                                                                         \
  extern "C" __global__ void __launch_bounds__(256) gemm_##dtype(const __grid_constant__ GemmAnyArgs g) { \
    GemmAny<T, U>(g);                                                                                 \
  }
TSR_GEMM(i64, int64_t, uint64_t)
TSR_GEMM(i32, int32_t, uint32_t)
TSR_GEMM(i8, int8_t, uint32_t)
TSR_GEMM(u8, uint8_t, uint32_t)

}  // namespace tessera::cuda
