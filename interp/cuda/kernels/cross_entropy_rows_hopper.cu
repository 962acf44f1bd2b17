// cross_entropy_grad of rows that are too long for a block: a cluster of blocks has a row, each a part of it in its
// shared memory. Each warp sends what it has added up to all blocks (st.async), which puts it together in one order.
//
// Blocks meet once, before the first of them writes to another's memory, and without waiting for any memory. A block
// may leave as soon as everything that is sent to it has come, because nobody reads another's memory.
#include "interp/cuda/kernels/cross_entropy_rows.cuh"
#include "interp/cuda/kernels/pieces.cuh"

namespace tessera::cuda {
namespace {

constexpr int kWarps = kRowThreads / 32;

__device__ __forceinline__ void MeetCluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// To block `rank` of the cluster: 8 bytes to where this block has them at `at`, counted by its barrier.
__device__ __forceinline__ void Send(uint32_t at, uint32_t barrier, int rank, uint64_t word) {
  asm volatile(
      "{\n"
      ".reg .b32 there, counter;\n"
      "mapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 counter, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [there], %3, [counter];\n"
      "}\n" ::"r"(at),
      "r"(barrier), "r"(rank), "l"(word)
      : "memory");
}

template <class T, int kBlocks>
__device__ __forceinline__ void PartOfRow(const CrossEntropyArgs& a) {
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int kAll = kBlocks * kWarps;
  __shared__ RunningRow<T> sent[kAll];
  __shared__ __align__(8) uint64_t counter;
  static_assert(sizeof(RunningRow<T>) == 8 && (kAll == 16 || kAll % 32 == 0));
  const int t = threadIdx.x, lane = t % 32, rank = blockIdx.x % kBlocks;
  const int64_t row = blockIdx.x / kBlocks;
  const int count = static_cast<int>(a.classes) / kOfAccess<T>, part = (count + kBlocks - 1) / kBlocks;
  const int first = rank * part, last = first + part < count ? first + part : count;
  const uint32_t barrier = SharedAddress(&counter);
  if (t == 0) {
    InitBarrier(barrier, 1);
    ArriveExpecting(barrier, kAll * 8);
    ShowBarriers();
  }
  const auto* x = reinterpret_cast<const Access*>(At<const T>(a.logits.data) + OffsetOf(a.logits.layout, row));
  Access* kept = reinterpret_cast<Access*>(memory) - first;
  // The row is on its way before its target is known: that would be another wait.
  for (int i = first + t; i < last; i += kRowThreads) BeginCopy(kept + i, x + i);
  const float g = GradOfRow<T>(a, row);
  const TargetOfRow of(a, row, rank == 0 && t == 0);
  // All blocks of the cluster see the same.
  if (!of.counts) {
    WaitForOwnCopies();
    return WriteZeros<T>(a, row, first + t, last, kRowThreads);
  }
  MeetCluster();
  WaitForOwnCopies();
  RunningRow<T> r = RunningRow<T>::Start();
  AddKept(kept, first + t, last, kRowThreads, r);
#pragma unroll
  for (int l = 16; l > 0; l /= 2) r.Merge(FromLaneXor(r, l));
  r = FromLane(r, 0);
  uint64_t word;
  memcpy(&word, &r, 8);
  if (lane < kBlocks) Send(SharedAddress(&sent[rank * kWarps + t / 32]), barrier, lane, word);
  WaitAt(barrier, 0);
  r = sent[lane % kAll];
#pragma unroll
  for (int k = 32; k < kAll; k += 32) r.Merge(sent[lane + k]);
#pragma unroll
  for (int l = (kAll < 32 ? kAll : 32) / 2; l > 0; l /= 2) r.Merge(FromLaneXor(r, l));
  r = FromLane(r, 0);
  WriteGrad(a, row, kept, first + t, last, kRowThreads, r, static_cast<int>(of.target), g);
}

}  // namespace

#define TSR_OF_CLUSTER(name, T, blocks)                                                       \
  extern "C" __global__ void __cluster_dims__(blocks, 1, 1) __launch_bounds__(kRowThreads, 3) \
      cross_entropy_grad_##name##_##blocks(const __grid_constant__ CrossEntropyArgs a) {      \
    PartOfRow<T, blocks>(a);                                                                  \
  }
#define TSR_CLUSTERS(name, T) TSR_OF_CLUSTER(name, T, 2) TSR_OF_CLUSTER(name, T, 4) TSR_OF_CLUSTER(name, T, 8)
TSR_CLUSTERS(f32, float)
TSR_CLUSTERS(f16, Half)
TSR_CLUSTERS(bf16, BHalf)

}  // namespace tessera::cuda
