// Kernels that write a part of a result: it begins where entry [value, -1000] of the table says, and lies as the whole does.
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --split-input-file --target=sm_90 --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s --check-prefix=GPU

// Batches and heads are one loop; rows of the cache are as many apart as it is long. What is updated is not read. Vectors
// are aligned where the part begins at a whole one.
// CHECK-LABEL: tsr_tile.kernel @k2
// CHECK-SAME: inputs [0, 1, 2] outputs [5] dims {{\[}}[0, 0], [0, 1], [0, 3], [2, 2], [5, -1000]]
// CHECK-SAME: tasks [0, 1] unit [2]
// CHECK-DAG: %[[BEGIN:.*]] = tsr_tile.dim %table[4]
// CHECK-DAG: %[[LENGTH:.*]] = tsr_tile.dim %table[3]
// CHECK-DAG: %[[WIDTH:.*]] = tsr_tile.dim %table[2]
// CHECK: %[[APART:.*]] = arith.muli %[[LENGTH]], %[[WIDTH]]
// CHECK: scf.for %[[TASK:.*]] = %begin to %end
// CHECK: %[[FROM:.*]] = arith.muli %[[TASK]], %[[WIDTH]]
// CHECK: %[[ROW:.*]] = arith.muli %[[TASK]], %[[APART]]
// CHECK: %[[TO:.*]] = arith.addi %[[BEGIN]], %[[ROW]]
// CHECK-NOT: tsr_tile.load %in2
// CHECK: %[[READ:.*]] = arith.addi %[[FROM]], %[[AT:.*]] : i64
// CHECK: tsr_tile.load %in0[%[[READ]]]
// CHECK: %[[WRITTEN:.*]] = arith.addi %[[TO]], %[[AT]]
// CHECK: tsr_tile.store {{.*}}, %out0[%[[WRITTEN]]]
// GPU-LABEL: tsr_tile.kernel @k2
// GPU-SAME: dims {{\[}}[0, 0], [0, 1], [0, 3], [2, 2], [5, -1000]]
// GPU-DAG: %[[BEGIN:.*]] = tsr_tile.dim %table[4]
// GPU: %[[ODD:.*]] = arith.andi %[[BEGIN]], %c7_i64
// GPU: %[[BITS:.*]] = arith.ori %{{.*}}, %[[ODD]]
// GPU-NEXT: arith.cmpi eq, %[[BITS]], %c0_i64
// GPU: arith.addi %[[BEGIN]]
// GPU-NOT: tsr_tile.load %in2
// GPU: tsr_tile.store {{.*}}, %out0[{{.*}}] aligned
!k = tensor<?x?x1x?xf32, [0, 1, -1, 2]>
!w = tensor<?xf32, [2]>
!c = tensor<?x?x?x?xbf16, [0, 1, 3, 2]>
!u = tensor<?x?x1x?xbf16, [0, 1, -1, 2]>
tsr_graph.trace "eager" values [0, 1, 2] strides [[], [], []] likely [32, 8, 128, 4096] (%v0: !k, %v1: !w, %v2: !c) {
  %v3 = tsr_graph.mul %v0, %v1 step 0 values [3] until [1] : (!k, !w) -> !k
  %v4 = tsr_graph.cast %v3 step 1 values [4] until [2] : (!k) -> !u
  %v5 = tsr_graph.update_slice %v2, %v4 step 2 values [5] until [end] {steps = array<i64>} : (!c, !u) -> !c
}

// -----
// Rows of the log that are written as a whole are one run with the part: a task is an element.
// CHECK-LABEL: tsr_tile.kernel @k2
// CHECK-SAME: tasks [0, 1] unit []
// CHECK: %[[BEGIN:.*]] = tsr_tile.dim %table[2]
// CHECK: scf.for
// CHECK: %[[AT:.*]] = arith.addi %[[BEGIN]], %{{.*}} : i64
// CHECK: tsr_tile.store {{.*}}, %out0[%[[AT]]]
// GPU-LABEL: tsr_tile.kernel @k2
// GPU-SAME: tasks [0, 1] unit []
!u = tensor<?x?xf32, [0, 1]>
!l = tensor<?x?xf32, [2, 1]>
tsr_graph.trace "eager" values [0, 1] strides [[], []] (%v0: !u, %v1: !l) {
  %v2 = tsr_graph.exp %v0 step 0 values [2] until [1] : (!u) -> !u
  %v3 = tsr_graph.add %v2, %v0 step 1 values [3] until [2] : (!u, !u) -> !u
  %v4 = tsr_graph.update_slice %v1, %v3 step 2 values [4] until [end] {steps = array<i64>} : (!l, !u) -> !l
}

// -----
// Two parts of one result have a place each.
// CHECK-LABEL: tsr_tile.kernel @k3
// CHECK-SAME: outputs [5, 5] dims {{\[}}[3, -1000], [5, -1000]]
// CHECK-DAG: %[[SECOND:.*]] = tsr_tile.dim %table[1]
// CHECK-DAG: %[[FIRST:.*]] = tsr_tile.dim %table[0]
// CHECK: scf.for
// CHECK: %[[ONE:.*]] = arith.addi %[[FIRST]]
// CHECK: %[[TWO:.*]] = arith.addi %[[SECOND]]
// CHECK: arith.addi %[[ONE]]
// CHECK: tsr_tile.store {{.*}}, %out0[
// CHECK: arith.addi %[[TWO]]
// CHECK: tsr_tile.store {{.*}}, %out1[
// GPU-LABEL: tsr_tile.kernel @k3
// GPU-SAME: outputs [5, 5] dims {{\[}}[3, -1000], [5, -1000]]
// GPU: tsr_tile.store {{.*}}, %out0[
// GPU: tsr_tile.store {{.*}}, %out1[
!h = tensor<8x64xf32>
!c = tensor<8x128xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !h, %v1: !c) {
  %v2 = tsr_graph.exp %v0 step 0 values [2] until [1] : (!h) -> !h
  %v3 = tsr_graph.update_slice %v1, %v2 step 1 values [3] until [3] {starts = array<i64: 0, 0>, steps = array<i64>} : (!c, !h) -> !c
  %v4 = tsr_graph.tanh %v0 step 2 values [4] until [3] : (!h) -> !h
  %v5 = tsr_graph.update_slice %v3, %v4 step 3 values [5] until [end] {starts = array<i64: 0, 64>, steps = array<i64>} : (!c, !h) -> !c
}

// -----
// Rows that are reduced are written to the part, too.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK-SAME: dims {{\[}}[2, -1000]] strides {{\[}}[], [], []] tasks [-9] unit [-65]
// CHECK: %[[BEGIN:.*]] = tsr_tile.dim %table[0]
// CHECK: scf.for
// CHECK: arith.addi %[[BEGIN]]
// CHECK: tsr_tile.store {{.*}}, %out0
// GPU-LABEL: tsr_tile.kernel @k1
// GPU: %[[BEGIN:.*]] = tsr_tile.dim %table[0]
// GPU: arith.addi %[[BEGIN]]
// GPU: tsr_tile.team_reduce
// GPU: tsr_tile.store {{.*}}, %out0
!u = tensor<8x64xf32>
!x = tensor<9x128xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !u, %v1: !x) {
  %v3 = tsr_graph.softmax %v0 step 0 values [3] until [1] {axis = -1 : i64} : (!u) -> !u
  %v2 = tsr_graph.update_slice %v1, %v3 step 1 values [2] until [end] {starts = array<i64: 1, 0>, steps = array<i64>} : (!x, !u) -> !x
}

// -----
// An operand that lies the other way round goes through shared memory to the part.
// GPU-LABEL: tsr_tile.kernel @k1
// GPU: %[[BEGIN:.*]] = tsr_tile.dim %table[0]
// GPU: tsr_tile.barrier
// GPU: tsr_tile.store {{.*}}, %out0
// CHECK-LABEL: tsr_tile.kernel @k1
!t = tensor<256x512xf32>
!x = tensor<1024x512xf32>
tsr_graph.trace "function" values [0, 1] strides [[1, -1], []] (%v0: !t, %v1: !x) {
  %v3 = tsr_graph.exp %v0 step 0 values [3] until [1] : (!t) -> !t
  %v2 = tsr_graph.update_slice %v1, %v3 step 1 values [2] until [end] {starts = array<i64: 1, 0>, steps = array<i64>} : (!x, !t) -> !x
}
