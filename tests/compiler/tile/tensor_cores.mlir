// tsr-lower-kernels-gpu: matrix products on the tensor cores of sm_90a, with what follows them
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a "--schedule=*:rows=128,columns=128,stages=5,apart=1,cluster=2" --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tsr-fuse | FileCheck %s --check-prefix=SCHED
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90 --tsr-fuse | FileCheck %s --check-prefix=OTHER

// Two groups have tiles in turn, and two blocks share the right factor. The bias is a row for all. (The model would
// not have the blocks share.)
// SCHED-LABEL: tsr_sched.kernel @k2
// SCHED-SAME: apart = 1 : i64, columns = 128
// SCHED-SAME: form = "tensor", rows = 128
// OTHER-LABEL: tsr_sched.kernel @k2 at 2 steps [0, 1, 2]
// OTHER-SAME: form = "tensor", rows = 256
// OTHER-SAME: warps = 1
// CHECK-LABEL: tsr_tile.kernel @k2 at 2 steps [0, 1, 2]
// CHECK-SAME: tasks [-4097, -4097] blocks [256, 128]
// CHECK-SAME: team [384, 1, 1, {{[0-9]+}}, 0, 2]
// CHECK-SAME: maps {{\[}}[0, 1, 64, 0, 128], [1, 1, 64, 0, 64], [3, 1, 64, 0, 16]] aligned [2, 3]
// CHECK-COUNT-4: tsr_tile.signal_init {{.*}}
// CHECK: tsr_tile.signals_ready
// CHECK: tsr_tile.cluster_barrier
// The producer: what it copies of the right factor goes to both blocks.
// CHECK: tsr_tile.registers 40
// CHECK: tsr_tile.place "rank"
// CHECK: scf.for
// CHECK: scf.for
// CHECK: tsr_tile.signal_wait
// CHECK: tsr_tile.signal_expect {{.*}} bytes 32768
// CHECK: tsr_tile.copy map 0
// CHECK-NOT: blocks
// CHECK: tsr_tile.copy map 1{{.*}} blocks 2
// A group: the bias is on its way while it multiplies.
// CHECK: tsr_tile.registers 232 more
// CHECK: tsr_tile.signal_wait
// CHECK: tsr_tile.fetch %in2
// CHECK: scf.for
// CHECK: tsr_tile.signal_wait
// CHECK: tsr_tile.multiply {{.*}} rows 128 columns 128 depth 64 right_across : bf16, vector<128xf32>
// CHECK: tsr_tile.multiplied {{.*}} pending 1
// CHECK: tsr_tile.signal_arrive {{.*}} of
// CHECK: tsr_tile.multiplied {{.*}} pending 0
// CHECK: tsr_tile.await
// CHECK: tsr_tile.group_barrier
// Sums as they lie; each warp copies pieces of 16 x 64 elements out.
// CHECK: tsr_tile.take {{.*}}[0] : vector<128xf32> -> vector<8xf32>
// CHECK: tsr_tile.fetched {{.*}} in_pairs : bf16 -> vector<8xf32>
// CHECK: tsr_tile.map "gelu_f32_narrow"
// CHECK: tsr_tile.take {{.*}}[16] : vector<128xf32> -> vector<8xf32>
// CHECK: tsr_tile.await_out pending 3
// CHECK: tsr_tile.warp_barrier
// CHECK: tsr_tile.lay_down {{.*}} half 0 : vector<8xf32> -> bf16
// CHECK: tsr_tile.lay_down {{.*}} half 1 : vector<8xf32> -> bf16
// CHECK: tsr_tile.publish
// CHECK: tsr_tile.warp_barrier
// CHECK: tsr_tile.copy_out map 2
// CHECK: tsr_tile.take {{.*}}[112] : vector<128xf32> -> vector<8xf32>
// CHECK: tsr_tile.await_out pending 0 written
// CHECK: tsr_tile.cluster_barrier
!t = tensor<4096x4096xbf16>
!r = tensor<4096xbf16>
tsr_graph.trace "linear" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !t, %v2: !r) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] : (!t, !t) -> !t
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [2] : (!t, !r) -> !t
  %v5 = tsr_graph.gelu %v4 step 2 values [5] until [end] : (!t) -> !t
}

// -----

// A matrix that is read comes to the places of the result while the group multiplies: to all of them.
// CHECK-LABEL: tsr_tile.kernel @k1 at 1 steps [0, 1]
// CHECK-SAME: maps {{\[}}[0, 1, 64, 0, 128], [1, 1, 64, 0, 64], [3, 1, 64, 0, 16], [2, 1, 64, 0, 16]]
// CHECK: tsr_tile.multiplied {{.*}} pending 1
// CHECK: tsr_tile.await_out pending 0
// CHECK: tsr_tile.signal_expect {{.*}} bytes 2048
// CHECK-COUNT-4: tsr_tile.copy map 3
// CHECK: tsr_tile.signal_wait
// CHECK: tsr_tile.take {{.*}}[0]
// CHECK: tsr_tile.take_up {{.*}} half 0 : bf16 -> vector<8xf32>
// CHECK-NOT: tsr_tile.await_out
// CHECK: tsr_tile.copy_out map 2
!t = tensor<4096x4096xbf16>
tsr_graph.trace "residual" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !t, %v2: !t) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] : (!t, !t) -> !t
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [end] : (!t, !t) -> !t
}

// -----

// Results that are wider than two bytes are written from registers.
// CHECK-LABEL: tsr_tile.kernel @k2
// CHECK: tsr_tile.collect {{.*}}[0] : vector<128xf32> -> vector<8xf32>
// CHECK: tsr_tile.store {{.*}} aligned if {{.*}} : vector<8xf32> -> f32
// CHECK-NOT: tsr_tile.copy_out
!t = tensor<4096x4096xbf16>
!f = tensor<4096x4096xf32>
tsr_graph.trace "wide" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !t, %v2: !f) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] : (!t, !t) -> !t
  %v4 = tsr_graph.cast %v3 step 1 values [4] until [2] : (!t) -> !f
  %v5 = tsr_graph.add %v4, %v2 step 2 values [5] until [end] : (!f, !f) -> !f
}

// -----

// Nothing follows, too few rows for a tile and too many for registers, f32, or what follows stands behind a barrier: the library's.
// SCHED-LABEL: tsr_graph.trace "library"
// SCHED-NOT: tsr_sched.kernel
!t = tensor<4096x4096xbf16>
!m = tensor<100x4096xbf16>
!f = tensor<4096x4096xf32>
tsr_graph.trace "library" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !m, %v2: !f) {
  %v3 = tsr_graph.matmul %v0, %v0 step 0 values [3] until [end] : (!t, !t) -> !t
  %v4 = tsr_graph.matmul %v1, %v0 step 1 values [4] until [2] : (!m, !t) -> !m
  %v5 = tsr_graph.relu %v4 step 2 values [5] until [end] : (!m) -> !m
  %v6 = tsr_graph.matmul %v2, %v2 step 3 values [6] until [4] : (!f, !f) -> !f
  %v7 = tsr_graph.relu %v6 step 4 values [7] until [end] : (!f) -> !f
  %v8 = tsr_graph.matmul %v0, %v0 step 5 values [8] until [7] : (!t, !t) -> !t
  %v9 = tsr_graph.matmul %v2, %v2 step 6 values [9] until [end] : (!f, !f) -> !f
  %v10 = tsr_graph.relu %v8 step 7 values [10] until [end] : (!t) -> !t
}
