// Pieces of tensors (rt::PieceShape) on their way to shared memory by the copy engine of sm_90, and the barriers there
// that count what has come and who has used it.
//
// A barrier lies at a multiple of 8 bytes and has a phase: it ends when all arrivals and all bytes of it are there.
// Who waits names the parity of the phase that must be over: 0 for the first one, and 1 lets everybody pass at first.
#ifndef TESSERA_INTERP_CUDA_KERNELS_PIECES_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_PIECES_CUH_

#include "interp/cuda/kernels/mma.cuh"

namespace tessera::cuda {

__device__ __forceinline__ void InitBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// What InitBarrier has written is seen by the copy engine. The other threads still need __syncthreads().
__device__ __forceinline__ void ShowBarriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives, and says how many bytes the copies of this phase bring.
__device__ __forceinline__ void ArriveExpecting(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void WaitAt(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// One thread starts the copy of the piece that begins there, innermost dim first. What is outside of the tensor comes
/// as zeros, and counts.
__device__ __forceinline__ void CopyPiece(uint32_t to, const void* map, uint32_t barrier, int c0, int c1, int c2,
                                          int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

/// The same of a run of bytes, a multiple of 16 that begins at one.
__device__ __forceinline__ void CopyRun(uint32_t to, Address from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/// One thread starts the copy of a piece to a tensor; what is outside is left out. The barriers have no part in it:
/// shared memory may be written again when the thread has waited for its copies.
__device__ __forceinline__ void StorePiece(const void* map, uint32_t from, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(from), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
__device__ __forceinline__ void CommitStores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void WaitForStores() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

/// A ring of stages in shared memory as one of its users walks it. The barriers of stage i are at full(i) and empty(i).
template <int kStages>
struct Ring {
  uint32_t barriers;
  int stage = 0;
  uint32_t parity = 0;

  static constexpr int kBytes = 16 * kStages;
  __device__ __forceinline__ uint32_t full() const { return barriers + stage * 8; }
  __device__ __forceinline__ uint32_t empty() const { return barriers + (kStages + stage) * 8; }
  __device__ __forceinline__ void Init(int users) const {
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(barriers + i * 8, 1);
      InitBarrier(barriers + (kStages + i) * 8, users);
    }
  }
  __device__ __forceinline__ void Next() {
    if constexpr (kStages == 1) {
      parity ^= 1;
    } else if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Registers of each thread of the warpgroup from here on; all of its warps say so. A multiple of 8.
template <int kCount>
__device__ __forceinline__ void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Barriers of the multiprocessor, by number: `threads` threads come, of which some do not wait.
__device__ __forceinline__ void MeetAt(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void PassBy(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_PIECES_CUH_
