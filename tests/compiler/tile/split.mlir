// tsr-lower-kernels-gpu: products whose sum is shared by groups of warps and by the blocks of a cluster
// RUN: tessera-opt %s --tier=3 --target=sm_90a "--schedule=*:form=split,rows=64,columns=128,stages=8,cluster=4" --split-input-file --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s

// A cluster of four blocks for each tile. No more than 16 lines of the left factor are copied. A group takes every other
// piece of its block, whose pieces are every fourth of the sum. Sums take the ring's place when all have met.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK-SAME: blocks [64, 128]
// CHECK-SAME: team [384, 1, 1, 0, 196736, 4]
// CHECK-SAME: maps {{\[}}[0, 1, 64, 0, 16], [1, 1, 64, 0, 128]] aligned [2, 3]
// CHECK: tsr_tile.place "rank"
// CHECK: tsr_tile.load %in2
// CHECK: tsr_tile.signals_ready
// CHECK: tsr_tile.barrier
// CHECK: scf.for
// CHECK: tsr_tile.signal_expect {{.*}} bytes 18432
// CHECK-COUNT-1: tsr_tile.copy map 1
// CHECK-COUNT-1: tsr_tile.copy map 0
// CHECK: tsr_tile.barrier
// CHECK: } else {
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c2_i64
// CHECK: tsr_tile.signal_wait
// CHECK: tsr_tile.multiply {{.*}} rows 64 columns 128 depth 64 : bf16, vector<64xf32>
// CHECK: tsr_tile.multiplied {{.*}} pending 1
// CHECK: tsr_tile.multiplied {{.*}} pending 0
// CHECK-NEXT: tsr_tile.barrier
// CHECK: tsr_tile.leave_group {{.*}} pitch 544 columns 128 : vector<64xf32>
// CHECK: tsr_tile.cluster_barrier
// CHECK-COUNT-2: tsr_tile.fetched {{.*}} of %c0_i64
// CHECK-COUNT-2: tsr_tile.fetched {{.*}} of %c1_i64
// CHECK-COUNT-2: tsr_tile.fetched {{.*}} of %c2_i64
// CHECK-COUNT-2: tsr_tile.fetched {{.*}} of %c3_i64
// CHECK: tsr_tile.map "add_f32_narrow"
// CHECK: tsr_tile.store {{.*}} aligned
// CHECK: tsr_tile.cluster_barrier
!x = tensor<13x4096xbf16>
!w = tensor<4096x4096xbf16>
!b = tensor<4096xbf16>
tsr_graph.trace "along" values [0, 1, 2] strides [[], [], []] (%v0: !x, %v1: !w, %v2: !b) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true} : (!x, !w) -> !x
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [end] : (!x, !b) -> !x
}

// -----

// Across the sum, and any number of rows: all lines of a tile are copied, the right factor by 64 columns.
// CHECK-LABEL: tsr_tile.kernel @k0
// CHECK-SAME: maps {{\[}}[0, 1, 64, 0, 64], [1, 1, 64, 0, 64]]
// CHECK: tsr_tile.signal_expect {{.*}} bytes 24576
// CHECK-COUNT-2: tsr_tile.copy map 1
// CHECK-COUNT-1: tsr_tile.copy map 0
// CHECK: tsr_tile.multiply {{.*}} rows 64 columns 128 depth 64 right_across : f16, vector<64xf32>
!x = tensor<?x?xf16, [0, 1]>
!w = tensor<?x?xf16, [1, 2]>
!y = tensor<?x?xf16, [0, 2]>
tsr_graph.trace "across" values [0, 1] strides [[], []] likely [40, 4096, 4096] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [end] : (!x, !w) -> !y
}
