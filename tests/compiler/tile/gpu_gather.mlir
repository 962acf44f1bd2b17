// tsr-lower-kernels-gpu: rows of tables, at indices that the kernel looks at
// RUN: tessera-opt %s --split-input-file --target=sm_90 --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s

// The index of a row is loaded by all threads of its team. One that is outside is reported to the address in the entry
// [-1, 0] of the table, and the first row stands for it. Indices of an eager trace may be results.
// CHECK-LABEL: tsr_tile.kernel @k2
// CHECK-SAME: dims {{\[}}[-1, 0]]
// CHECK: %[[ERROR:.*]] = tsr_tile.dim %table[0]
// CHECK: %[[GIVEN:.*]] = tsr_tile.load %in1[{{.*}}] : i64 -> i64
// CHECK: arith.cmpi slt, %[[GIVEN]]
// CHECK: %[[ID:.*]] = arith.select
// CHECK: %[[OUTSIDE:.*]] = arith.cmpi uge, %[[ID]], %c50000_i64
// CHECK-NEXT: scf.if %[[OUTSIDE]] {
// CHECK-NEXT: tsr_tile.report "embedding" %[[GIVEN]] of %c50000_i64 to %[[ERROR]]
// CHECK: %[[ROW:.*]] = arith.select %[[OUTSIDE]], %c0_i64, %[[ID]]
// CHECK-NEXT: %[[AT:.*]] = arith.muli %[[ROW]], %c1024_i64
// CHECK: scf.if
// CHECK: %[[FIRST:.*]] = arith.addi %[[AT]]
// CHECK: tsr_tile.load %in0[%[[FIRST]]] aligned : bf16 -> vector<8xf32>
// CHECK: tsr_tile.store {{.*}} %out0
!t = tensor<50000x1024xbf16>
!i = tensor<16384xi64>
!x = tensor<16384x1024xbf16>
tsr_graph.trace "eager" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !i, %v2: !x) {
  %v3 = tsr_graph.abs %v1 step 0 values [3] until [1] : (!i) -> !i
  %v4 = tsr_graph.embedding %v0, %v3 step 1 values [4] until [2] : (!t, !i) -> !x
  %v5 = tsr_graph.add %v4, %v2 step 2 values [5] until [end] : (!x, !x) -> !x
}

// -----

// Rows in registers, with a table whose rows are apart: whether vectors can be loaded depends on how far.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK: tsr_tile.dim %table
// CHECK: arith.andi {{.*}}, %c3_i64
// CHECK: tsr_tile.report "take"
// CHECK: tsr_tile.load %in0[{{.*}}] aligned : f32 -> vector<4xf32>
// CHECK: tsr_tile.team_reduce
// CHECK: } else {
// CHECK: tsr_tile.load %in0[{{.*}}] : f32 -> f32
!t = tensor<500x2048xf32>
!i = tensor<4000xi32>
!x = tensor<4000x2048xf32>
tsr_graph.trace "function" values [0, 1] strides [[-1, 1], []] (%v0: !t, %v1: !i) {
  %v2 = tsr_graph.take %v0, %v1 step 0 values [2] until [1] {axis = 0 : i64} : (!t, !i) -> !x
  %v3 = tsr_graph.softmax %v2 step 1 values [3] until [end] {axis = -1 : i64} : (!x) -> !x
}

// -----

// Nothing stands for an index where the table has no rows: left to tier 1.
// CHECK-NOT: tsr_tile.kernel
!t = tensor<0x64xf32>
!i = tensor<40xi64>
!x = tensor<40x64xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !t, %v1: !i) {
  %v2 = tsr_graph.embedding %v0, %v1 step 0 values [2] until [1] : (!t, !i) -> !x
  %v3 = tsr_graph.exp %v2 step 1 values [3] until [end] : (!x) -> !x
}
