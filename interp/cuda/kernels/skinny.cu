// Products of few rows (a token at a time, a small batch) with a large matrix of f16 or bf16: all that counts is how
// fast the matrix is read, and it is read once.
//
// A block computes 64 columns of the result, its eight warps taking turns along k. A warp reads its part of the matrix
// straight into the registers from which mma takes it: which k is which does not matter to a sum, nor which column to
// a product, so both are numbered such that 16 bytes in memory are what one thread needs, and nothing goes through
// shared memory but the sums of the warps in the end.
#include "interp/cuda/kernels/mma.cuh"
#include "interp/cuda/skinny_args.h"

namespace tessera::cuda {
namespace {

/// Of k, for a warp; and how many of them are asked for before the first is used.
constexpr int kStep = 16, kAhead = 3, kStride = kSkinnyWarps * kStep;

/// Of the large matrix, which is read once: it should not push anything out of the cache.
__device__ __forceinline__ uint4 ReadOnce(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

/// What a thread has of a step of b: eight columns of four rows.
struct Part {
  uint4 row[4];

  /// Column j of rows i and i + 1, as mma wants them.
  __device__ __forceinline__ uint32_t Pair(int j, int i) const {
    const uint32_t low = reinterpret_cast<const uint32_t*>(&row[i])[j / 2];
    const uint32_t high = reinterpret_cast<const uint32_t*>(&row[i + 1])[j / 2];
    return __byte_perm(low, high, j % 2 == 0 ? 0x5410 : 0x7632);
  }
};

template <class Of>
__device__ __forceinline__ void Skinny(const SkinnyArgs& args) {
  using T = typename Of::Element;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int column = blockIdx.x * kSkinnyColumns;
  const T* const a = At<const T>(args.a);
  const T* const b = At<const T>(args.b) + column + 8 * g;
  const bool has_columns = column + 8 * g < args.n;
  // In a step at k, mma's k of 2t, 2t+1, 2t+8 and 2t+9 are k + 4t to k + 4t + 3, and its column g of product j is 8g +
  // j.
  float c[8][4] = {};
  for (int k = warp * kStep; k < args.k; k += kAhead * kStride) {
    Part parts[kAhead];
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = k + s * kStride + 4 * t;
        parts[s].row[i] = has_columns && at < args.k ? ReadOnce(b + (at + i) * args.b_row) : uint4{0, 0, 0, 0};
      }
    }
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      uint32_t x[4] = {0, 0, 0, 0};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = 8 * h + g, at = k + s * kStride + 4 * t;
        if (row >= args.m || at >= args.k) continue;
        const uint2 four = *reinterpret_cast<const uint2*>(a + row * args.a_row + at);
        x[h] = four.x;
        x[2 + h] = four.y;
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) Of::Multiply(c[j], x, parts[s].Pair(j, 0), parts[s].Pair(j, 2));
    }
  }
  // A sum is kept by its place in the registers, so that no two threads want the same bank.
  constexpr int kSums = kSkinnyRows * kSkinnyColumns, kThreads = kSkinnyWarps * 32;
  __shared__ float sums[kSkinnyWarps][kSums];
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[warp][j * 128 + i * 32 + lane] = c[j][i];
  __syncthreads();
  T* const out = At<T>(args.c);
#pragma unroll
  for (int q = 0; q < kSums / kThreads; ++q) {
    const int at = q * kThreads + threadIdx.x;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kSkinnyWarps; ++w) sum += sums[w][at];
    const int j = at / 128, i = at / 32 % 4, row = at % 32 / 4 + i / 2 * 8, col = column + 8 * (at % 4 * 2 + i % 2) + j;
    if (row < args.m && col < args.n) Store(sum, out[static_cast<int64_t>(row) * args.n + col]);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kSkinnyWarps * 32, 2) skinny_f16(const __grid_constant__ SkinnyArgs args) {
  Skinny<OfF16>(args);
}
extern "C" __global__ void __launch_bounds__(kSkinnyWarps * 32, 2)
    skinny_bf16(const __grid_constant__ SkinnyArgs args) {
  Skinny<OfBF16>(args);
}

}  // namespace tessera::cuda
