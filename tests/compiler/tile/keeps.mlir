// tsr-lower-kernels: where a pass over a row leaves what later ones need
// RUN: tessera-opt %s --split-input-file --stage=tile --tier=3 | FileCheck %s

// A softmax of a sum. The row of the result holds the sum first, in place of two operands, then the weights.
// CHECK-LABEL: tsr_tile.kernel @k1 {{.*}} scratch []
// CHECK: scf.for {{.*}} iter_args
// CHECK: tsr_tile.load %in0
// CHECK: tsr_tile.load %in1
// CHECK: [[S:%.*]] = tsr_tile.map "add_f32"
// CHECK: tsr_tile.store [[S]], %out0
// CHECK: tsr_tile.reduce "larger_f32"
// CHECK: scf.for {{.*}} step %c128_i64
// CHECK: scf.for
// CHECK: tsr_tile.load %out0
// CHECK-NOT: tsr_tile.load
// CHECK: [[E:%.*]] = tsr_tile.map "exp_weight_f32"
// CHECK: tsr_tile.store [[E]], %out0
// CHECK: "reciprocal_f32"
// CHECK: tsr_tile.load %out0
// CHECK-NOT: tsr_tile.load
// CHECK: tsr_tile.store {{.*}} %out0
!t = tensor<8x32xf32>
tsr_graph.trace "softmax" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [1] : (!t, !t) -> !t
  %v3 = tsr_graph.softmax %v2 step 1 values [3] until [end] {axis = -1 : i64} : (!t) -> !t
}

// -----
// A sum that is a result too is read where it was written.
// CHECK-LABEL: tsr_tile.kernel @k1 {{.*}} outputs [2, 3] {{.*}} scratch []
// CHECK: scf.for
// CHECK: tsr_tile.load %in0
// CHECK: tsr_tile.load %in1
// CHECK: [[S:%.*]] = tsr_tile.map "add_f32"
// CHECK: tsr_tile.store [[S]], %out0
// CHECK-NOT: %out1
// CHECK: "rsqrt_f32"
// CHECK: tsr_tile.load %out0
// CHECK-NOT: tsr_tile.load
// CHECK: tsr_tile.store {{.*}} %out1
!t = tensor<8x32xf32>
tsr_graph.trace "residual" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [end] : (!t, !t) -> !t
  %v3 = tsr_graph.rms_norm %v2 step 1 values [3] until [end] : (!t) -> !t
}

// -----
// Weights do not fit a narrow result: they are in scratch memory.
// CHECK-LABEL: tsr_tile.kernel @k0 {{.*}} scratch [4]
// CHECK: [[E:%.*]] = tsr_tile.map "exp_weight_f32"
// CHECK: [[ROW:%.*]] = llvm.getelementptr %scratch
// CHECK: tsr_tile.store [[E]], [[ROW]]
!t = tensor<8x32xbf16>
tsr_graph.trace "narrow" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] {axis = -1 : i64} : (!t) -> !t
}

// -----
// One result is there before the last pass that needs the exponential, and the other is narrow.
// CHECK-LABEL: tsr_tile.kernel @k5 {{.*}} outputs [3, 6] {{.*}} scratch [4]
// CHECK: [[E:%.*]] = tsr_tile.map "exp_f32"
// CHECK: [[ROW:%.*]] = llvm.getelementptr %scratch
// CHECK: tsr_tile.store [[E]], [[ROW]]
// CHECK: tsr_tile.reduce "maximum_f32"
// CHECK: tsr_tile.store {{.*}}, %out0
// CHECK: tsr_tile.reduce "add_f64"
// CHECK-NOT: tsr_tile.load %out0
!t = tensor<8x32xf32>
!n = tensor<8x32xbf16>
!c = tensor<8x1xf32>
tsr_graph.trace "needed" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [2] : (!t) -> !t
  %v2 = tsr_graph.max %v1 step 1 values [2] until [3] {axes = array<i64: 1>, keepdims = true} : (!t) -> !c
  %v3 = tsr_graph.sub %v1, %v2 step 2 values [3] until [end] : (!t, !c) -> !t
  %v4 = tsr_graph.sum %v3 step 3 values [4] until [4] {axes = array<i64: 1>, keepdims = true} : (!t) -> !c
  %v5 = tsr_graph.mul %v3, %v4 step 4 values [5] until [5] : (!t, !c) -> !t
  %v6 = tsr_graph.cast %v5 step 5 values [6] until [end] : (!t) -> !n
}
