// tsr-lower-kernels-gpu: groups of warps that have a tile each, and groups that share one
// RUN: tessera-opt %s --tier=3 --target=sm_90a --schedule=*:form=tensor,rows=128,columns=128,stages=5,apart=1,cluster=0 --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --tier=3 --target=sm_90a --schedule=*:form=tensor,rows=128,columns=256,stages=4,apart=0,cluster=0 --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s --check-prefix=SHARED

// Groups have tiles of their own and multiply in turns: the other one's begins when two products are left. Transposed
// factors are read as they lie, batches have an index.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK-SAME: tasks [-9, -4097, -4097] blocks [1, 128, 128]
// CHECK-SAME: maps {{\[}}[0, 2, 64, 1, 64, 0, 1], [1, 2, 64, 1, 128, 0, 1], [2, 2, 64, 1, 16, 0, 1]] aligned [2]
// CHECK: tsr_tile.barrier
// CHECK: tsr_tile.copy map 0[%{{.*}}, %{{.*}}, %{{.*}}]
// CHECK: tsr_tile.copy map 0[%{{.*}}, %{{.*}}, %{{.*}}]
// CHECK: tsr_tile.copy map 1[%{{.*}}, %{{.*}}, %{{.*}}]
// CHECK: tsr_tile.registers 232 more
// CHECK: scf.for
// CHECK: tsr_tile.signal_wait
// CHECK: scf.for
// CHECK: tsr_tile.multiply {{.*}} rows 128 columns 128 depth 64 left_across : f16, vector<128xf32>
// CHECK: tsr_tile.signal_arrive
// CHECK: tsr_tile.signal_arrive
// CHECK: tsr_tile.copy_out map 2[%{{.*}}, %{{.*}}, %{{.*}}]

// Both groups have rows of one tile. The second one waits, once, until the first is two pieces ahead.
// SHARED-LABEL: tsr_tile.kernel @k1
// SHARED-SAME: blocks [1, 128, 256]
// SHARED: tsr_tile.registers 232 more
// SHARED: tsr_tile.signal_wait
// SHARED: scf.for
// SHARED: scf.for
// SHARED: tsr_tile.signal_wait
// SHARED: tsr_tile.multiply {{.*}} rows 64 columns 256 depth 64 left_across : f16, vector<128xf32>
// SHARED: tsr_tile.signal_arrive
// SHARED: tsr_tile.signal_arrive
// SHARED: tsr_tile.await_out pending 1
!a = tensor<8x512x4096xf16>
!b = tensor<8x4096x512xf16>
!y = tensor<8x4096x4096xf16>
tsr_graph.trace "batched" values [0, 1] strides [[], []] (%v0: !a, %v1: !b) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_a = true, transpose_b = true} : (!a, !b) -> !y
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!y) -> !y
}
