// tsr-fuse: views, and casts that are no steps (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse | FileCheck %s

// A view that only adds dims of 1 is part of the kernel.
// CHECK-LABEL: tsr_graph.trace "alias"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k2 at 2 steps [0, 2] inputs [0] outputs [3] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.sum %in0 {axes = array<i64: 1>}
// CHECK-NEXT:     %1 = tsr_graph.unsqueeze %0
// CHECK-NEXT:     %2 = tsr_graph.sub %in0, %1
// CHECK-NEXT:     tsr_sched.yield %2 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
!c = tensor<8x1xf32>
tsr_graph.trace "alias" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.sum %v0 step 0 values [1] until [1] {axes = array<i64: 1>} : (!t) -> tensor<8xf32>
  %v2 = tsr_graph.unsqueeze %v1 step 1 values [2] until [2] {"tsr.strides" = array<i64>} : (tensor<8xf32>) -> !c
  %v3 = tsr_graph.sub %v0, %v2 step 2 values [3] until [end] : (!t, !c) -> !t
}

// -----
// It is made by the core, too, where something needs it: v1, which it looks at, is written.
// CHECK-LABEL: tsr_graph.trace "alias_kept"
// CHECK-NEXT:   %v1, %v3 = tsr_sched.kernel @k2 at 2 steps [0, 2] inputs [0] outputs [1, 3] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.sum %in0 {axes = array<i64: 1>}
// CHECK-NEXT:     %1 = tsr_graph.unsqueeze %0
// CHECK-NEXT:     %2 = tsr_graph.sub %in0, %1
// CHECK-NEXT:     tsr_sched.yield %0, %2 : tensor<8xf32>, tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v2 = tsr_graph.unsqueeze %v1 step 1 values [2] until [end] {tsr.strides = array<i64>}
// CHECK-NEXT: }
!t = tensor<8x16xf32>
!c = tensor<8x1xf32>
tsr_graph.trace "alias_kept" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.sum %v0 step 0 values [1] until [1] {axes = array<i64: 1>} : (!t) -> tensor<8xf32>
  %v2 = tsr_graph.unsqueeze %v1 step 1 values [2] until [end] {"tsr.strides" = array<i64>} : (tensor<8xf32>) -> !c
  %v3 = tsr_graph.sub %v0, %v2 step 2 values [3] until [end] : (!t, !c) -> !t
}

// -----
// Other views are operands, with what is known of their strides.
// CHECK-LABEL: tsr_graph.trace "view"
// CHECK-NEXT:   %v1 = tsr_graph.transpose %v0 step 0 values [1] until [1] {tsr.strides = array<i64: 1, -1>}
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k2 at 2 steps [1, 2] inputs [1] outputs [3] strides {{\[}}[1, -1]] row 0
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.neg %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<16x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "view" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.transpose %v0 step 0 values [1] until [1] {"tsr.strides" = array<i64: 1, -1>} : (!t) -> tensor<16x8xf32>
  %v2 = tsr_graph.exp %v1 step 1 values [2] until [2] : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %v3 = tsr_graph.neg %v2 step 2 values [3] until [end] : (tensor<16x8xf32>) -> tensor<16x8xf32>
}

// -----
// Casts of operands belong to whoever needs them.
// CHECK-LABEL: tsr_graph.trace "casts"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [1, 0] outputs [3] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.cast %in0
// CHECK-NEXT:     %1 = tsr_graph.add %in1, %0
// CHECK-NEXT:     %2 = tsr_graph.cast %in0
// CHECK-NEXT:     %3 = tsr_graph.mul %1, %2
// CHECK-NEXT:     tsr_sched.yield %3 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "casts" values [0, 1] strides [[], []] (%v0: !t, %v1: tensor<8x16xi32>) {
  %c0 = tsr_graph.cast %v1 : (tensor<8x16xi32>) -> !t
  %v2 = tsr_graph.add %v0, %c0 step 0 values [2] until [1] : (!t, !t) -> !t
  %c1 = tsr_graph.cast %v1 : (tensor<8x16xi32>) -> !t
  %v3 = tsr_graph.mul %v2, %c1 step 1 values [3] until [end] : (!t, !t) -> !t
}

// -----
// A cast that two kernels need is in both.
// CHECK-LABEL: tsr_graph.trace "cast_twice"
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [1, 0] outputs [4] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.cast %in0
// CHECK-NEXT:     %1 = tsr_graph.add %in1, %0
// CHECK-NEXT:     %2 = tsr_graph.exp %1
// CHECK-NEXT:     tsr_sched.yield %2 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v6 = tsr_sched.kernel @k3 at 3 steps [2, 3] inputs [1, 2] outputs [6] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.cast %in0
// CHECK-NEXT:     %1 = tsr_graph.add %in1, %0
// CHECK-NEXT:     %2 = tsr_graph.exp %1
// CHECK-NEXT:     tsr_sched.yield %2 : tensor<16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
!r = tensor<16xf32>
tsr_graph.trace "cast_twice" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: tensor<f64>, %v2: !r) {
  %c0 = tsr_graph.cast %v1 : (tensor<f64>) -> tensor<f32>
  %v3 = tsr_graph.add %v0, %c0 step 0 values [3] until [1] : (!t, tensor<f32>) -> !t
  %v4 = tsr_graph.exp %v3 step 1 values [4] until [end] : (!t) -> !t
  %v5 = tsr_graph.add %v2, %c0 step 2 values [5] until [3] : (!r, tensor<f32>) -> !r
  %v6 = tsr_graph.exp %v5 step 3 values [6] until [end] : (!r) -> !r
}

// -----
// An optional operand that is absent before one that is given: not generated.
// CHECK-LABEL: tsr_graph.trace "absent"
// CHECK-NEXT:   %v2 = tsr_graph.exp %v0 step 0 values [2] until [1]
// CHECK-NEXT:   %v3 = tsr_graph.layer_norm %v2, %v1 step 1 values [3] until [end] {absent = array<i32: 1>, dims = 1 : i64, eps = 1.000000e-05 : f64}
// CHECK-NEXT: }
!t = tensor<8x16xf32>
!r = tensor<16xf32>
tsr_graph.trace "absent" values [0, 1] strides [[], []] (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.exp %v0 step 0 values [2] until [1] : (!t) -> !t
  %v3 = tsr_graph.layer_norm %v2, %v1 step 1 values [3] until [end] {absent = array<i32: 1>, dims = 1 : i64, eps = 1.0e-05 : f64} : (!t, !r) -> !t
}
