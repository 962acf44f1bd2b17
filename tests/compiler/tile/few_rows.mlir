// tsr-lower-kernels-gpu: products of few rows, whose right factor is read once, to registers
// RUN: tessera-opt %s --tier=3 --target=sm_80 "--schedule=*:form=few,rows=8,columns=32,nr=16,depth=64,stages=2,warps=8" --split-input-file --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --tier=3 --target=sm_90a "--schedule=*:form=few,rows=64,columns=64,nr=64,depth=32,stages=1,warps=4,cluster=2" --split-input-file --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s --check-prefix=CLUSTER

// Along the sum: a thread reads two runs of 16 columns and one of the rows, for 32 elements of the sum at a time. The
// first piece, and what follows needs, are read before the loop. Sizes are multiples of everything: no condition.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK-SAME: blocks [8, 32]
// CHECK-SAME: team [256, 1, 2, 0, 4608] aligned [0, 1, 2, 3]
// CHECK: tsr_tile.load %in2
// CHECK-COUNT-4: tsr_tile.read %in1[%{{[0-9]+}}] : bf16 -> vector<4xi32>
// CHECK-COUNT-2: tsr_tile.read %in0[%{{[0-9]+}}] shared : bf16 -> vector<4xi32>
// CHECK: scf.for %{{.*}} = %c0_i64 to %c15_i64
// CHECK-COUNT-4: tsr_tile.read %in1
// CHECK-COUNT-2: tsr_tile.read %in0
// CHECK-COUNT-2: tsr_tile.multiply_read{{.*}} : bf16, vector<4xi32>
// CHECK: scf.yield
// CHECK: tsr_tile.leave %{{.*}} pitch 144 apart 32
// CHECK-NEXT: tsr_tile.barrier
// CHECK: scf.if
// CHECK-COUNT-4: tsr_tile.fetched
// CHECK-NOT: tsr_tile.fetched
// CHECK: tsr_tile.map "add_f32_narrow"
// CHECK: tsr_tile.store {{.*}} aligned : vector<2xf32> -> bf16
// CHECK: tsr_tile.barrier

// More rows come through a ring in shared memory: one piece is there for all warps, and the next one on its way. With
// blocks that share a sum, threads of both add up what all have left, from either's memory.
// CLUSTER-LABEL: tsr_tile.kernel @k1
// CLUSTER-SAME: blocks [64, 64]
// CLUSTER-SAME: team [128, 1, 2, 0, 110592, 2]
// CLUSTER: tsr_tile.place "rank"
// CLUSTER-COUNT-8: tsr_tile.fetch %in0{{.*}} lanes 8 if %{{.*}} : bf16
// CLUSTER: tsr_tile.commit
// CLUSTER: scf.for
// CLUSTER-COUNT-8: tsr_tile.read %in1
// CLUSTER: tsr_tile.await pending 0
// CLUSTER-NEXT: tsr_tile.barrier
// CLUSTER-COUNT-8: tsr_tile.fetch %in0
// CLUSTER: tsr_tile.commit
// CLUSTER-COUNT-4: tsr_tile.fetched {{.*}} : i32 -> vector<4xi32>
// CLUSTER: tsr_tile.multiply_read
// CLUSTER-COUNT-4: tsr_tile.fetched {{.*}} : i32 -> vector<4xi32>
// CLUSTER: tsr_tile.multiply_read
// CLUSTER: scf.yield
// CLUSTER: tsr_tile.await{{$}}
// CLUSTER-COUNT-32: tsr_tile.leave
// CLUSTER: tsr_tile.cluster_barrier
// CLUSTER-COUNT-4: tsr_tile.fetched {{.*}} of %c0_i64 : f32 -> vector<8xf32>
// CLUSTER-COUNT-4: tsr_tile.fetched {{.*}} of %c1_i64 : f32 -> vector<8xf32>
// CLUSTER: tsr_tile.cluster_barrier
!x = tensor<8x4096xbf16>
!w = tensor<4096x4096xbf16>
!b = tensor<4096xbf16>
tsr_graph.trace "along" values [0, 1, 2] strides [[], [], []] (%v0: !x, %v1: !w, %v2: !b) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true} : (!x, !w) -> !x
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [end] : (!x, !b) -> !x
}

// -----

// Across the sum: rows of the right factor, of which a thread has two columns, and a condition for all that may not be
// there.
// CHECK-LABEL: tsr_tile.kernel @k0
// CHECK-COUNT-16: tsr_tile.read %in1[%{{[0-9]+}}] if %{{.*}} : f16 -> i32
// CHECK-COUNT-2: tsr_tile.read %in0[%{{[0-9]+}}] if %{{.*}} shared : f16 -> vector<4xi32>
// CHECK: scf.for
// CHECK: tsr_tile.multiply_read{{.*}} across : f16, i32
// CHECK: tsr_tile.leave %{{.*}} pitch 144 apart 4
// CLUSTER-LABEL: tsr_tile.kernel @k0
// CLUSTER-COUNT-8: tsr_tile.read %in1[%{{[0-9]+}}] if %{{.*}} : f16 -> vector<4xi32>
!x = tensor<5x1032xf16>
!w = tensor<1032x776xf16>
!y = tensor<5x776xf16>
tsr_graph.trace "across" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [end] : (!x, !w) -> !y
}
