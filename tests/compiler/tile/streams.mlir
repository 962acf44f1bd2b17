// Whole vectors go past the caches where all results begin with a line; the rest of a row, and rows that begin elsewhere,
// do not.
// RUN: tessera-opt %s --split-input-file --stage=tile --tier=3 --lanes=64 | FileCheck %s

// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK: scf.for
// CHECK: %[[OUT:.*]] = llvm.ptrtoint %out0
// CHECK: %[[LINE:.*]] = arith.cmpi eq
// CHECK: scf.if %[[LINE]] {
// CHECK: scf.for {{.*}} step %c64_i64
// CHECK: tsr_tile.store {{.*}} %out0{{.*}} streams : vector<64xf32> -> f32
// CHECK: } else {
// CHECK: scf.for {{.*}} step %c64_i64
// CHECK-NOT: streams
// CHECK: tsr_tile.store {{.*}} : vector<64xf32> -> f32
// CHECK-NOT: streams
!t = tensor<4000x4099xf32>
!r = tensor<4099xf32>
tsr_graph.trace "rows" values [0, 1] strides [[], []] (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [1] : (!t, !r) -> !t
  %v3 = tsr_graph.add %v2, %v0 step 1 values [3] until [end] : (!t, !t) -> !t
}

// -----
// Both results, of different widths.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK: llvm.ptrtoint %out0
// CHECK: llvm.ptrtoint %out1
// CHECK: arith.ori
// CHECK: tsr_tile.store {{.*}} %out0{{.*}} streams : vector<64xf32> -> f32
// CHECK-NEXT: tsr_tile.store {{.*}} %out1{{.*}} streams : vector<64xi8> -> i1
!t = tensor<4096x4096xf32>
!b = tensor<4096x4096xi1>
!n = tensor<f64>
tsr_graph.trace "two" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [end] : (!t, !t) -> !t
  %v3 = tsr_graph.gt %v2, %v1 step 1 values [3] until [end] : (!t, !t) -> !b
}
