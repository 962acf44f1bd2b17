// tsr-lower-kernels: heads that share keys and values are rows of one block
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --tsr-lower-kernels --canonicalize --cse --schedule=p0:form=packed,rows=4,depth=8,mr=2,nr=4 | FileCheck %s

// A task is one of three heads of keys and two queries of both heads that have it. Of each query the heads come one after
// the other: the row's remainder says which head, its quotient which query.
// CHECK-LABEL: tsr_tile.kernel @k0 at 0 steps [0] inputs [0, 1, 2] outputs [3]
// CHECK-SAME:    tasks [-4, -6] blocks [1, 2]
// CHECK:       scf.for %arg0 = %begin to %end
// CHECK-NEXT:    %[[BLOCK:.*]] = arith.remui %arg0, %c3_i64
// CHECK:         %[[REST:.*]] = arith.divui %arg0, %c3_i64
// CHECK-NEXT:    %[[GROUP:.*]] = arith.remui %[[REST]], %c3_i64
// CHECK:         scf.for %[[ROW:.*]] = %{{.*}} to %{{.*}} step %c4_i64
// CHECK:           %[[QUERIES:.*]] = arith.muli %[[GROUP]], %c80_i64
// CHECK-NEXT:      %[[KEYS:.*]] = arith.muli %[[GROUP]], %c72_i64
// CHECK:           scf.for %[[I:.*]] = %c0_i64 to %{{.*}} step %c1_i64
// CHECK:             %[[AT:.*]] = arith.addi %[[ROW]], %[[I]]
// CHECK-NEXT:        %[[HEAD:.*]] = arith.remui %[[AT]], %c2_i64
// CHECK-NEXT:        %[[OF_HEAD:.*]] = arith.muli %[[HEAD]], %c40_i64
// CHECK-NEXT:        %[[QUERY:.*]] = arith.divui %[[AT]], %c2_i64
// CHECK-NEXT:        %[[OF_QUERY:.*]] = arith.muli %[[QUERY]], %c8_i64
// CHECK-NEXT:        %[[WITHIN:.*]] = arith.addi %[[OF_HEAD]], %[[OF_QUERY]]
// CHECK-NEXT:        %[[FROM:.*]] = arith.addi %[[QUERIES]], %[[WITHIN]]
// CHECK:               tsr_tile.load %in0
// CHECK:           scf.for
// CHECK:             arith.addi %[[KEYS]]
// CHECK:             tsr_tile.load %in1
// CHECK:             tsr_tile.load %in2
// CHECK:             tsr_tile.store %{{.*}}, %out0
!q = tensor<6x5x8xf32>
!k = tensor<3x9x8xf32>
tsr_graph.trace "heads" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !k, %v2: !k) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] : (!q, !k, !k) -> !q
}

// -----
// How many heads share keys is found when it runs. A task was made for four of them, and does more in turns.
// CHECK-LABEL: tsr_tile.kernel @k0 at 0 steps [0] inputs [0, 1, 2] outputs [3]
// CHECK-SAME:    tasks [2, 1] blocks [1, 1]
// CHECK-DAG:   %[[GROUPS:.*]] = tsr_tile.dim %table[2]
// CHECK-DAG:   %[[HEADS:.*]] = tsr_tile.dim %table[0]
// CHECK:       %[[SOME:.*]] = arith.maxsi %[[GROUPS]], %c1_i64
// CHECK-NEXT:  %[[SHARE:.*]] = arith.divui %[[HEADS]], %[[SOME]]
// CHECK-NEXT:  scf.for %arg0 = %begin to %end
// CHECK:         scf.for %[[ROW:.*]] = %{{.*}} to %{{.*}} step %c4_i64
// CHECK:             arith.remui %{{.*}}, %[[SHARE]]
!q = tensor<?x?x8xf32, [0, 1, -1]>
!k = tensor<?x9x8xf32, [2, -1, -1]>
tsr_graph.trace "seen" values [0, 1, 2] strides [[], [], []] likely [8, 20, 2] (%v0: !q, %v1: !k, %v2: !k) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] : (!q, !k, !k) -> !q
}
