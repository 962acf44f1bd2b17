// Products of few rows (a token at a time, a small batch) with a large matrix of f16 or bf16: all that counts is how
// fast the matrix is read, and it is read once.
//
// A block computes 64 columns of the result; its eight warps, and blocks that share these columns, take turns along k.
// A warp reads its part of the matrix straight into the registers from which mma takes it. Which k is which does not
// matter to a sum, nor which column to a product, so both are numbered such that 16 bytes in memory are what one thread
// needs: no shared memory, no shuffles. The sums of warps meet in shared memory, those of blocks in device memory,
// where the last block to come adds them up in the order of k: the result does not depend on who came when.
#include "interp/cuda/kernels/mma.cuh"
#include "interp/cuda/skinny_args.h"

namespace tessera::cuda {
namespace {

/// Of the large matrix, which is read once: it should not push anything out of the cache.
__device__ __forceinline__ uint4 ReadOnce(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

/// The rows of b lie in memory one after the other: a thread has eight columns of four rows.
struct AlongColumns {
  static constexpr int kStep = 16;  // of k
  uint4 b[4];

  template <class T>
  __device__ __forceinline__ void Load(const T* from, int64_t ld, int k, int k_end, int column, int n, int g, int t) {
    const int at = column + 8 * g;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = k + 4 * t + i;
      b[i] = row < k_end && at < n ? ReadOnce(from + row * ld + at) : uint4{0, 0, 0, 0};
    }
  }
  template <class Of, int kTiles>
  __device__ __forceinline__ void Multiply(float (&c)[kTiles][8][4], const typename Of::Element* a, int64_t a_row,
                                           int m, int k, int k_end, int g, int t) const {
    const auto half = [&](int j, int i) {
      const uint32_t low = reinterpret_cast<const uint32_t*>(&b[i])[j / 2];
      const uint32_t high = reinterpret_cast<const uint32_t*>(&b[i + 1])[j / 2];
      return __byte_perm(low, high, j % 2 == 0 ? 0x5410 : 0x7632);
    };
    const int at = k + 4 * t;
#pragma unroll
    for (int r = 0; r < kTiles; ++r) {
      uint32_t x[4] = {0, 0, 0, 0};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = 16 * r + 8 * h + g;
        if (row >= m || at >= k_end) continue;
        const uint2 two = *reinterpret_cast<const uint2*>(a + row * a_row + at);
        x[h] = two.x;
        x[2 + h] = two.y;
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) Of::Multiply(c[r][j], x, half(j, 0), half(j, 2));
    }
  }
  /// The column of c[j][i] and c[j][i + 2].
  static __device__ __forceinline__ int Column(int j, int i, int t) { return 8 * (2 * t + i) + j; }
};

/// The columns of b lie in memory one after the other: a thread has eight rows of eight columns.
struct AlongRows {
  static constexpr int kStep = 32;
  uint4 b[8];

  template <class T>
  __device__ __forceinline__ void Load(const T* from, int64_t ld, int k, int k_end, int column, int n, int g, int t) {
    const int at = k + 8 * t;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int col = column + 8 * j + g;
      b[j] = at < k_end && col < n ? ReadOnce(from + col * ld + at) : uint4{0, 0, 0, 0};
    }
  }
  template <class Of, int kTiles>
  __device__ __forceinline__ void Multiply(float (&c)[kTiles][8][4], const typename Of::Element* a, int64_t a_row,
                                           int m, int k, int k_end, int g, int t) const {
    const int at = k + 8 * t;
#pragma unroll
    for (int r = 0; r < kTiles; ++r) {
      uint4 x[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = 16 * r + 8 * h + g;
        if (row < m && at < k_end) x[h] = *reinterpret_cast<const uint4*>(a + row * a_row + at);
      }
      const uint32_t first[4] = {x[0].x, x[1].x, x[0].y, x[1].y}, second[4] = {x[0].z, x[1].z, x[0].w, x[1].w};
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        Of::Multiply(c[r][j], first, b[j].x, b[j].y);
        Of::Multiply(c[r][j], second, b[j].z, b[j].w);
      }
    }
  }
  static __device__ __forceinline__ int Column(int j, int i, int t) { return 8 * j + 2 * t + i; }
};

template <class Of, class Way, int kTiles, int kAhead>
__device__ __forceinline__ void Skinny(const SkinnyArgs& args) {
  using T = typename Of::Element;
  __shared__ float sums[kSkinnyWarps][kSkinnySums];
  __shared__ bool is_last;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int column = blockIdx.x / args.splits * kSkinnyColumns, split = blockIdx.x % args.splits;
  const int k_begin = split * args.each, k_end = min(args.k, k_begin + args.each);
  const T* a = At<const T>(args.a);
  const T* b = At<const T>(args.b);
  float c[kTiles][8][4] = {};
  // Everything of some steps is asked for before any of it is used.
  for (int k = k_begin + warp * Way::kStep; k < k_end; k += kAhead * kSkinnyWarps * Way::kStep) {
    Way ways[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      ways[i].Load(b, args.b_ld, k + i * kSkinnyWarps * Way::kStep, k_end, column, args.n, g, t);
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      ways[i].template Multiply<Of, kTiles>(c, a, args.a_row, args.m, k + i * kSkinnyWarps * Way::kStep, k_end, g, t);
  }
  // A sum is kept by its place in the registers, so that no two threads want the same bank.
  T* const out = At<T>(args.c);
  float* const partial = args.splits > 1 ? At<float>(args.partial) : nullptr;
  const auto store = [&](int r, int at, float sum) {
    const int j = at / 128, i = at / 32 % 4, l = at % 32;
    const int row = 16 * r + l / 4 + i / 2 * 8, col = column + Way::Column(j, i % 2, l % 4);
    if (row < args.m && col < args.n) Store(sum, out[static_cast<int64_t>(row) * args.n + col]);
  };
  const auto place = [&](int s, int r) {
    return ((static_cast<int64_t>(blockIdx.x / args.splits) * args.splits + s) * kTiles + r) * kSkinnySums;
  };
#pragma unroll
  for (int r = 0; r < kTiles; ++r) {
    if (r > 0) __syncthreads();
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[warp][j * 128 + i * 32 + lane] = c[r][j][i];
    __syncthreads();
#pragma unroll
    for (int q = 0; q < kSkinnySums / kSkinnyThreads; ++q) {
      const int at = q * kSkinnyThreads + threadIdx.x;
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kSkinnyWarps; ++w) sum += sums[w][at];
      if (partial == nullptr)
        store(r, at, sum);
      else
        partial[place(split, r) + at] = sum;
    }
  }
  if (partial == nullptr) return;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    // Counts up to the last one, and from there to 0 again.
    uint32_t* const arrived = At<uint32_t>(args.arrived) + blockIdx.x / args.splits;
    is_last = atomicInc(arrived, args.splits - 1) == static_cast<uint32_t>(args.splits - 1);
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  for (int r = 0; r < kTiles; ++r) {
    for (int at = threadIdx.x; at < kSkinnySums; at += kSkinnyThreads) {
      float sum = 0;
      for (int s = 0; s < args.splits; ++s) sum += __ldcg(partial + place(s, r) + at);
      store(r, at, sum);
    }
  }
}

}  // namespace

#define TSR_SKINNY(name, Of, Way, tiles, ahead)                                                                   \
  extern "C" __global__ void __launch_bounds__(kSkinnyThreads, 2) name(const __grid_constant__ SkinnyArgs args) { \
    Skinny<Of, Way, tiles, ahead>(args);                                                                          \
  }
TSR_SKINNY(skinny_f16_columns_16, OfF16, AlongColumns, 1, 3)
TSR_SKINNY(skinny_f16_columns_32, OfF16, AlongColumns, 2, 1)
TSR_SKINNY(skinny_f16_rows_16, OfF16, AlongRows, 1, 2)
TSR_SKINNY(skinny_f16_rows_32, OfF16, AlongRows, 2, 1)
TSR_SKINNY(skinny_bf16_columns_16, OfBF16, AlongColumns, 1, 3)
TSR_SKINNY(skinny_bf16_columns_32, OfBF16, AlongColumns, 2, 1)
TSR_SKINNY(skinny_bf16_rows_16, OfBF16, AlongRows, 1, 2)
TSR_SKINNY(skinny_bf16_rows_32, OfBF16, AlongRows, 2, 1)

}  // namespace tessera::cuda
