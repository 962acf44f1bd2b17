// tsr-lower-kernels-gpu: rows that are too long for registers
// RUN: tessera-opt %s --split-input-file --target=sm_80 --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --split-input-file --target=sm_90 --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s --check-prefix=CLUSTER

// A row of which a thread has too many elements for registers: it is kept in shared memory, and computed from there in
// each pass. Each thread reads only what it has fetched itself, so there is nothing to wait for but its own copies.
// CHECK-LABEL: tsr_tile.kernel @k0
// CHECK-SAME: team [512, 1, 1, 0, 65536]
// CHECK-NOT: scf.for
// CHECK: scf.if
// CHECK-COUNT-8: tsr_tile.fetch %in0[{{.*}}] to {{.*}} lanes 8 : bf16
// CHECK: tsr_tile.await
// CHECK-COUNT-8: tsr_tile.fetched {{.*}} : bf16 -> vector<8xf32>
// CHECK: tsr_tile.team_reduce "maximum_f32"
// CHECK-COUNT-8: tsr_tile.fetched {{.*}} : bf16 -> vector<8xf32>
// CHECK: tsr_tile.team_reduce "add_f32"
// CHECK: tsr_tile.fetched {{.*}} : bf16 -> vector<8xf32>
// CHECK: tsr_tile.map "exp_weight_f32_narrow"
// CHECK: tsr_tile.store {{.*}} aligned : vector<8xf32> -> bf16

// Two blocks share it, so that four of a multiprocessor find room. One thread of each makes the signals for what 16 warps
// send: 4 bytes each. All blocks are there before the first reduction, and nobody waits for anything after the last.
// CLUSTER-LABEL: tsr_tile.kernel @k0
// CLUSTER-SAME: team [256, 1, 4, 0, 33040, 2]
// CLUSTER: %[[THREAD:.*]] = tsr_tile.place "thread"
// CLUSTER: %[[RANK:.*]] = tsr_tile.place "rank"
// CLUSTER: %[[BLOCK:.*]] = tsr_tile.place "block"
// CLUSTER: arith.divui %[[BLOCK]]
// CLUSTER: arith.cmpi eq, %[[THREAD]]
// CLUSTER: tsr_tile.signal_init %[[MAX:.*]] count 1
// CLUSTER-NEXT: tsr_tile.signal_expect %[[MAX]] bytes 64
// CLUSTER-NEXT: tsr_tile.signal_init %[[SUM:.*]] count 1
// CLUSTER-NEXT: tsr_tile.signal_expect %[[SUM]] bytes 64
// CLUSTER-COUNT-8: tsr_tile.fetch %in0[{{.*}}] to {{.*}} lanes 8 : bf16
// CLUSTER-NEXT: tsr_tile.cluster_barrier relaxed
// CLUSTER-NEXT: tsr_tile.await
// CLUSTER-COUNT-8: tsr_tile.fetched {{.*}} : bf16 -> vector<8xf32>
// CLUSTER: tsr_tile.cluster_reduce "maximum_f32"({{.*}}) threads 256 blocks 2 to %{{.*}} signal %[[MAX]] : (f32) -> f32
// CLUSTER-COUNT-8: tsr_tile.fetched {{.*}} : bf16 -> vector<8xf32>
// CLUSTER: tsr_tile.cluster_reduce "add_f32"({{.*}}) threads 256 blocks 2 to %{{.*}} signal %[[SUM]] : (f32) -> f32
// CLUSTER-NOT: barrier
// CLUSTER-COUNT-8: tsr_tile.store {{.*}} aligned : vector<8xf32> -> bf16
// What is not aligned is summed in f64.
// CLUSTER: } else {
// CLUSTER: tsr_tile.signal_expect {{.*}} bytes 64
// CLUSTER: tsr_tile.signal_expect {{.*}} bytes 128
// CLUSTER: tsr_tile.cluster_barrier relaxed
// CLUSTER-NEXT: scf.for
// CLUSTER: tsr_tile.cluster_reduce "maximum_f32"
// CLUSTER: tsr_tile.cluster_reduce "add_f64"
!w = tensor<4096x32768xbf16>
tsr_graph.trace "shared" values [0] strides [[]] (%v0: !w) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] : (!w) -> !w
}

// -----

// Shared memory has no room for all of a row: what is over is in registers, and fetched by nobody.
// CHECK-LABEL: tsr_tile.kernel @k0
// CHECK-SAME: team [512, 1, 1, 0, 163840]
// CHECK-COUNT-20: tsr_tile.fetch %in0
// CHECK-NOT: tsr_tile.fetch
// CHECK-COUNT-2: tsr_tile.load %in0{{.*}} aligned : bf16 -> vector<8xf32>
// CHECK: tsr_tile.await
// CHECK-NOT: tsr_tile.load %in0[{{.*}} aligned
// CHECK-COUNT-20: tsr_tile.fetched
// CHECK: tsr_tile.team_reduce "maximum_f32"

// Eight blocks of a cluster have room for it.
// CLUSTER-LABEL: tsr_tile.kernel @k0
// CLUSTER-SAME: team [256, 1, 4, 0, 25616, 8]
// CLUSTER-COUNT-6: tsr_tile.fetch %in0
// CLUSTER-NOT: tsr_tile.fetch %in0
// CLUSTER: tsr_tile.cluster_barrier
!w = tensor<2048x90112xbf16>
tsr_graph.trace "beyond" values [0] strides [[]] (%v0: !w) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] : (!w) -> !w
}

// -----

// Weights that all rows share are loaded once for two rows, which are reduced together. There are 4095 rows, so the last
// one of the last pair is not stored.
// CLUSTER-LABEL: tsr_tile.kernel @k0
// CLUSTER-SAME: team [256, 2, 4, 0, 33824, 4]
// CLUSTER: tsr_tile.signal_expect {{.*}} bytes 256
// CLUSTER: tsr_tile.signal_expect {{.*}} bytes 256
// CLUSTER-COUNT-8: tsr_tile.fetch %in0
// CLUSTER: tsr_tile.cluster_barrier relaxed
// CLUSTER: %{{.*}}:2 = tsr_tile.cluster_reduce "add_f32"(%{{.*}}, %{{.*}}) threads 256 blocks 4
// CLUSTER: tsr_tile.load %in1[{{.*}}] aligned
// CLUSTER: tsr_tile.load %in2[{{.*}}] aligned
// CLUSTER: %{{.*}}:2 = tsr_tile.cluster_reduce "add_f32"(%{{.*}}, %{{.*}}) threads 256 blocks 4
// CLUSTER: tsr_tile.load %in1[{{.*}}] aligned
// CLUSTER-NEXT: tsr_tile.load %in2[{{.*}}] aligned
// CLUSTER-NOT: tsr_tile.load
// CLUSTER: scf.if
// CLUSTER-NEXT: tsr_tile.store
// CLUSTER-NOT: tsr_tile.load
// CLUSTER: scf.if
// CLUSTER-NEXT: tsr_tile.store
!w = tensor<4095x32768xbf16>
!r = tensor<32768xbf16>
tsr_graph.trace "two_rows" values [0, 1, 2] strides [[], [], []] (%v0: !w, %v1: !r, %v2: !r) {
  %v3 = tsr_graph.layer_norm %v0, %v1, %v2 step 0 values [3] until [end] : (!w, !r, !r) -> !w
}
