// Tensor cores as attention uses them (sm_80 and newer): mma.m16n8k16 of f16 and bf16 with sums in f32, matrices from
// shared memory, copies to it that run meanwhile, and powers of two.
#ifndef TESSERA_INTERP_CUDA_KERNELS_MMA_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_MMA_CUH_

#include "interp/cuda/kernels/rows.cuh"

namespace tessera::cuda {

/// Warps of a block.
constexpr int kWarps = 4;

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
/// 16 bytes, or zeros where there are none to read.
__device__ __forceinline__ void CopyAsync(uint32_t to, const void* from, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Of this thread, committed or not; others need a barrier to see them.
__device__ __forceinline__ void WaitForOwnCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
__device__ __forceinline__ void LoadMatrices(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from));
}
__device__ __forceinline__ void LoadTransposed(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from));
}
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

struct OfF16 {
  using Element = Half;
  static __device__ __forceinline__ void Multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  /// Two numbers of which the first is in the lower half.
  static __device__ __forceinline__ uint32_t Pack2(float lo, float hi) {
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
  }
};
struct OfBF16 {
  using Element = BHalf;
  static __device__ __forceinline__ void Multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ uint32_t Pack2(float lo, float hi) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
  }
};

/// Copies `kRows` rows of a matrix from `row` on: kDim columns, of which `cols` are there; the rest are zeros.
template <class T, int kRows, int kDim>
__device__ __forceinline__ void CopyRows(const T* from, int64_t stride, int row, int rows, int cols, uint32_t to) {
  constexpr int kChunks = kDim / 8, kPitch = kDim * 2 + 16, kStep = kWarps * 32 / kChunks;
  const int r = row + static_cast<int>(threadIdx.x) / kChunks, c = static_cast<int>(threadIdx.x) % kChunks;
  to += (r - row) * kPitch + c * 16;
  const T* at = from + r * stride + c * 8;
#pragma unroll
  for (int i = 0; i < kRows / kStep; ++i, at += kStep * stride) {
    const bool inside = r + i * kStep < rows && c * 8 < cols;
    CopyAsync(to + i * kStep * kPitch, inside ? at : from, inside);
  }
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_MMA_CUH_
