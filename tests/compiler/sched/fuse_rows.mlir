// tsr-fuse: kernels with a row (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse | FileCheck %s

// A reduction with its dims kept, what is computed of it, and what that is spread over.
// CHECK-LABEL: tsr_graph.trace "rows"
// CHECK-NEXT:   %v5 = tsr_sched.kernel @k3 at 3 steps [0, 1, 2, 3] inputs [0, 1] outputs [5] strides {{\[}}[], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.mul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.sum %0 {axes = array<i64: -1>, keepdims = true}
// CHECK-NEXT:     %2 = tsr_graph.sqrt %1
// CHECK-NEXT:     %3 = tsr_graph.div %0, %2
// CHECK-NEXT:     tsr_sched.yield %3 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
!c = tensor<8x1xf32>
tsr_graph.trace "rows" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [1] : (!t, !t) -> !t
  %v3 = tsr_graph.sum %v2 step 1 values [3] until [2] {axes = array<i64: -1>, keepdims = true} : (!t) -> !c
  %v4 = tsr_graph.sqrt %v3 step 2 values [4] until [3] : (!c) -> !c
  %v5 = tsr_graph.div %v2, %v4 step 3 values [5] until [end] : (!t, !c) -> !t
}

// -----
// A reduction without its dims, and an operand that lies along the outer ones.
// CHECK-LABEL: tsr_graph.trace "dropped"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [3] strides {{\[}}[], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.max %in0 {axes = array<i64: 1>}
// CHECK-NEXT:     %1 = tsr_graph.add %0, %in1
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "dropped" values [0, 1] strides [[], []] (%v0: !t, %v1: tensor<8xf32>) {
  %v2 = tsr_graph.max %v0 step 0 values [2] until [1] {axes = array<i64: 1>} : (!t) -> tensor<8xf32>
  %v3 = tsr_graph.add %v2, %v1 step 1 values [3] until [end] : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
}

// -----
// All dims are the row.
// CHECK-LABEL: tsr_graph.trace "scalar_sum"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0] outputs [3] strides {{\[}}[]] row 2 cut [0, 2, 8192, 0]
// CHECK-NEXT:     %0 = tsr_graph.square %in0
// CHECK-NEXT:     %1 = tsr_graph.sum %0
// CHECK-NEXT:     %2 = tsr_graph.sqrt %1
// CHECK-NEXT:     tsr_sched.yield %2 : tensor<f32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "scalar_sum" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.square %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.sum %v1 step 1 values [2] until [2] : (!t) -> tensor<f32>
  %v3 = tsr_graph.sqrt %v2 step 2 values [3] until [end] : (tensor<f32>) -> tensor<f32>
}

// -----
// One normalisation is worth a kernel of its own.
// CHECK-LABEL: tsr_graph.trace "softmax"
// CHECK-NEXT:   %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.softmax %in0 {axis = -1 : i64}
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "softmax" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] {axis = -1 : i64} : (!t) -> !t
}

// -----
// Weights lie along the row.
// CHECK-LABEL: tsr_graph.trace "norm"
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1, 2] outputs [4] strides {{\[}}[], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.gelu %in0
// CHECK-NEXT:     %1 = tsr_graph.layer_norm %0, %in1, %in2 {dims = 1 : i64, eps = 1.000000e-05 : f64}
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
!r = tensor<16xf32>
tsr_graph.trace "norm" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !r, %v2: !r) {
  %v3 = tsr_graph.gelu %v0 step 0 values [3] until [1] : (!t) -> !t
  %v4 = tsr_graph.layer_norm %v3, %v1, %v2 step 1 values [4] until [end] {dims = 1 : i64, eps = 1.0e-05 : f64} : (!t, !r, !r) -> !t
}

// -----
// Another row does not join: softmax is along one dim, the norm along two.
// CHECK-LABEL: tsr_graph.trace "other_row"
// CHECK-NEXT:   %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.softmax %in0 {axis = 2 : i64}
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<4x8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v2 = tsr_sched.kernel @k1 at 1 steps [1] inputs [1] outputs [2] strides {{\[}}[]] row 2
// CHECK-NEXT:     %0 = tsr_graph.rms_norm %in0 {dims = 2 : i64, eps = 9.9999999999999995E-7 : f64}
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<4x8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!u = tensor<4x8x16xf32>
tsr_graph.trace "other_row" values [0] strides [[]] (%v0: !u) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [1] {axis = 2 : i64} : (!u) -> !u
  %v2 = tsr_graph.rms_norm %v1 step 1 values [2] until [end] {dims = 2 : i64, eps = 1.0e-06 : f64} : (!u) -> !u
}

// -----
// A weight that the kernel itself computes cannot be read along the row.
// CHECK-LABEL: tsr_graph.trace "own_weight"
// CHECK-NEXT:   %v1, %v2 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0] outputs [1, 2] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.tanh %0
// CHECK-NEXT:     tsr_sched.yield %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k2 at 2 steps [2] inputs [1, 2] outputs [3] strides {{\[}}[], []] row 2
// CHECK-NEXT:     %0 = tsr_graph.layer_norm %in0, %in1 {dims = 2 : i64, eps = 1.000000e-05 : f64}
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "own_weight" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [2] : (!t) -> !t
  %v2 = tsr_graph.tanh %v1 step 1 values [2] until [2] : (!t) -> !t
  %v3 = tsr_graph.layer_norm %v1, %v2 step 2 values [3] until [end] {dims = 2 : i64, eps = 1.0e-05 : f64} : (!t, !t) -> !t
}

// -----
// Numbers of rows without their dims would be spread along the wrong dim: sub is outside.
// CHECK-LABEL: tsr_graph.trace "square"
// CHECK-NEXT:   %v1, %v2 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0] outputs [1, 2] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.max %0 {axes = array<i64: 1>}
// CHECK-NEXT:     tsr_sched.yield %0, %1 : tensor<8x8xf32>, tensor<8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v3 = tsr_graph.sub %v1, %v2 step 2 values [3] until [end]
// CHECK-NEXT: }
!s = tensor<8x8xf32>
tsr_graph.trace "square" values [0] strides [[]] (%v0: !s) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [2] : (!s) -> !s
  %v2 = tsr_graph.max %v1 step 1 values [2] until [2] {axes = array<i64: 1>} : (!s) -> tensor<8xf32>
  %v3 = tsr_graph.sub %v1, %v2 step 2 values [3] until [end] : (!s, tensor<8xf32>) -> !s
}

// -----
// Integers: their sums, which wrap in i64, and their maxima.
// CHECK-LABEL: tsr_graph.trace "integers"
// CHECK-NEXT:   %v2, %v3 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0] outputs [2, 3] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.abs %in0
// CHECK-NEXT:     %1 = tsr_graph.max %0 {axes = array<i64: 1>}
// CHECK-NEXT:     %2 = tsr_graph.sum %0 {axes = array<i64: 1>}
// CHECK-NEXT:     tsr_sched.yield %1, %2 : tensor<8xi32>, tensor<8xi64>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!i = tensor<8x16xi32>
tsr_graph.trace "integers" values [0] strides [[]] (%v0: !i) {
  %v1 = tsr_graph.abs %v0 step 0 values [1] until [2] : (!i) -> !i
  %v2 = tsr_graph.max %v1 step 1 values [2] until [end] {axes = array<i64: 1>} : (!i) -> tensor<8xi32>
  %v3 = tsr_graph.sum %v1 step 2 values [3] until [end] {axes = array<i64: 1>} : (!i) -> tensor<8xi64>
}
