// tsr-lower-kernels-gpu: attention written in ops, on tensor cores
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s

// Queries come once for a task, keys a tile ahead of values. Scores of a tile are those of two pieces of the sum; the
// product with values of the tile before is on its way while they become weights.
// CHECK-LABEL: tsr_tile.kernel @k2
// CHECK-SAME: tasks [-3, -5, -1001] blocks [1, 1, 128]
// CHECK-SAME: team [384, 1, 1, 196688] maps {{\[}}[0, 3, 64, 2, 128, 1, 1, 0, 1], [1, 3, 64, 2, 128, 1, 1, 0, 1], [2, 3, 64, 2, 64, 1, 1, 0, 1], [3, 3, 64, 2, 16, 1, 1, 0, 1]]
// CHECK: tsr_tile.signal_init %{{.*}} count 8
// CHECK: tsr_tile.registers 40
// CHECK: tsr_tile.copy map 0
// CHECK: tsr_tile.copy map 1
// CHECK: scf.for
// CHECK: tsr_tile.copy map 1
// CHECK: tsr_tile.copy map 2
// CHECK: tsr_tile.registers 232 more
// CHECK: %[[FIRST:.*]] = tsr_tile.multiply %{{.*}} rows 64 columns 128 depth 64 fresh : bf16
// CHECK: %[[SCORES:.*]] = tsr_tile.multiply %[[FIRST]], %{{.*}} rows 64 columns 128 depth 64 : bf16
// CHECK: %[[READY:.*]] = tsr_tile.multiplied %[[SCORES]] pending 0
// CHECK: tsr_tile.take %[[READY]][0]
// CHECK: tsr_tile.reduce "maximum_f32"
// CHECK: tsr_tile.team_reduce "maximum_f32" %{{.*}} threads 4
// CHECK: tsr_tile.map "exp2_f32_narrow"
// CHECK: tsr_tile.weights
// CHECK: scf.for
// CHECK: %[[NEXT:.*]] = tsr_tile.multiply %{{.*}} rows 64 columns 128 depth 64 : bf16
// CHECK: %[[SUMS:.*]] = tsr_tile.multiply_weights %{{.*}} columns 128 pitch 16384 right_across : bf16
// CHECK: tsr_tile.multiplied %[[NEXT]] pending 1
// CHECK: tsr_tile.weighed %[[SUMS]]
// CHECK: tsr_tile.any
// CHECK: tsr_tile.scale_rows
// CHECK: tsr_tile.multiply_weights
// CHECK: tsr_tile.weighed
// CHECK: tsr_tile.lay_down
// CHECK: tsr_tile.copy_out map 3
!q = tensor<2x4x1000x128xbf16>
!s = tensor<2x4x1000x1000xbf16>
tsr_graph.trace "plain" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !q, %v2: !q) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true} : (!q, !q) -> !s
  %v4 = tsr_graph.softmax %v3 step 1 values [4] until [2] {axis = -1 : i64} : (!s) -> !s
  %v5 = tsr_graph.matmul %v4, %v2 step 2 values [5] until [end] : (!s, !q) -> !q
}

// -----
// A bias is read where scores lie: in pairs where rows begin at multiples of 16 bytes, and not beyond the last key. A
// number of rows that follows is part of the kernel. Sizes of heads that are read at run time are at most 64.
// CHECK-LABEL: tsr_tile.kernel @k4
// CHECK-SAME: maps {{\[}}[0, 2, 64, 1, 128, 0, 1, -64], [1, 2, 64, 1, 128, 0, 1], [3, 2, 64, 1, 64, 0, 1, -64], [5, 2, 64, 1, 16, 0, 1]] aligned []
// CHECK: tsr_tile.load_pairs %in2[%{{.*}}] left %{{.*}} : f16 -> vector<8xf32>
// CHECK: tsr_tile.copy_out map 3
!q = tensor<?x?x?xf16, [0, 1, 3]>
!k = tensor<?x?x?xf16, [0, 2, 3]>
!s = tensor<?x?x?xf16, [0, 1, 2]>
!b = tensor<?x?xf16, [1, 2]>
!r = tensor<?x?x1xf16, [0, 1, -1]>
tsr_graph.trace "bias" values [0, 1, 2, 3, 4] strides [[], [], [], [], []] likely [4, 512, 1024, 64]
    (%v0: !q, %v1: !k, %v2: !k, %v3: !b, %v4: !r) {
  %v5 = tsr_graph.matmul %v0, %v1 step 0 values [5] until [1] {transpose_b = true} : (!q, !k) -> !s
  %v6 = tsr_graph.add %v5, %v3 step 1 values [6] until [2] : (!s, !b) -> !s
  %v7 = tsr_graph.softmax %v6 step 2 values [7] until [3] {axis = -1 : i64} : (!s) -> !s
  %v8 = tsr_graph.matmul %v7, %v2 step 3 values [8] until [4] : (!s, !k) -> !q
  %v9 = tsr_graph.mul %v8, %v4 step 4 values [9] until [end] : (!q, !r) -> !q
}

// -----
// Whether a mask that compares positions hides keys after the query is known at run time. If it does, tiles that no
// query sees are left out, and positions are compared in those that some query sees in part.
// CHECK-LABEL: tsr_tile.kernel @k6
// CHECK: arith.cmpf olt, %{{.*}}, %{{.*}} : f32
// CHECK: arith.select
// CHECK: tsr_tile.registers 232 more
// CHECK: scf.for
// CHECK: tsr_tile.multiply_weights
// CHECK: scf.if %{{.*}} -> (vector<8xf32>
// CHECK: tsr_tile.map "ge_i64"
// CHECK: tsr_tile.map "where_f32"
!q = tensor<2x4x1024x64xbf16>
!s = tensor<2x4x1024x1024xbf16>
!n = tensor<bf16>
!i = tensor<i64>
!c = tensor<1024x1xi64>
!r = tensor<1x1024xi64>
!m = tensor<1024x1024xi1>
tsr_graph.trace "causal" values [0, 1, 2, 3, 4] strides [[], [], [], [], []]
    (%v0: !q, %v1: !q, %v2: !n, %v3: !i, %v4: !i) {
  %v5 = tsr_graph.matmul %v0, %v1 step 0 values [5] until [4] {transpose_b = true} : (!q, !q) -> !s
  %v6 = tsr_graph.iota %v3, %v4 step 1 values [6] until [3] {axis = 0 : i64} : (!i, !i) -> !c
  %v7 = tsr_graph.iota %v3, %v4 step 2 values [7] until [3] {axis = 1 : i64} : (!i, !i) -> !r
  %v8 = tsr_graph.ge %v6, %v7 step 3 values [8] until [4] : (!c, !r) -> !m
  %v9 = tsr_graph.where %v8, %v5, %v2 step 4 values [9] until [5] : (!m, !s, !n) -> !s
  %v10 = tsr_graph.softmax %v9 step 5 values [10] until [6] {axis = -1 : i64} : (!s) -> !s
  %v11 = tsr_graph.matmul %v10, %v1 step 6 values [11] until [end] : (!s, !q) -> !q
}
