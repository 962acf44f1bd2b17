// tsr-fuse: what ends a kernel, and what must be in memory behind it (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse | FileCheck %s

// A use from outside closes a kernel: neg, which comes later, does not join, though it reads v2.
// CHECK-LABEL: tsr_graph.trace "closed"
// CHECK-NEXT:   %v1, %v2 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0] outputs [1, 2] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.tanh %0
// CHECK-NEXT:     tsr_sched.yield %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v3 = tsr_graph.transpose %v2 step 2 values [3] until [3] {tsr.strides = array<i64: 1, -1>}
// CHECK-NEXT:   %v4 = tsr_graph.neg %v2 step 3 values [4] until [end]
// CHECK-NEXT:   %v6 = tsr_sched.kernel @k5 at 5 steps [4, 5] inputs [3] outputs [6] strides {{\[}}[1, -1]] row 0
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.exp %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<16x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "closed" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [3] : (!t) -> !t
  %v2 = tsr_graph.tanh %v1 step 1 values [2] until [3] : (!t) -> !t
  %v3 = tsr_graph.transpose %v2 step 2 values [3] until [3] {"tsr.strides" = array<i64: 1, -1>} : (!t) -> tensor<16x8xf32>
  %v4 = tsr_graph.neg %v2 step 3 values [4] until [end] : (!t) -> !t
  %v5 = tsr_graph.exp %v3 step 4 values [5] until [5] : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %v6 = tsr_graph.exp %v5 step 5 values [6] until [end] : (tensor<16x8xf32>) -> tensor<16x8xf32>
}

// -----
// A guard may leave the trace: v2 must be there.
// CHECK-LABEL: tsr_graph.trace "barrier"
// CHECK-NEXT:   %v2 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0] outputs [2] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.tanh %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   tsr_graph.step "branch" step 2 values [] until []
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k4 at 4 steps [3, 4] inputs [2] outputs [4] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.neg %in0
// CHECK-NEXT:     %1 = tsr_graph.exp %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "barrier" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.tanh %v1 step 1 values [2] until [end] : (!t) -> !t
  tsr_graph.step "branch" step 2 values [] until [] : () -> ()
  %v3 = tsr_graph.neg %v2 step 3 values [3] until [4] : (!t) -> !t
  %v4 = tsr_graph.exp %v3 step 4 values [4] until [end] : (!t) -> !t
}

// -----
// A general product is the library's, and may fail: kernels do not reach across it.
// CHECK-LABEL: tsr_graph.trace "library"
// CHECK-NEXT:   %v2 = tsr_graph.exp %v0 step 0 values [2] until [1]
// CHECK-NEXT:   %v3 = tsr_graph.dot_general %v2, %v1 step 1 values [3] until [2] {contract_a = array<i64: 1>, contract_b = array<i64: 0>}
// CHECK-NEXT:   %v5 = tsr_sched.kernel @k3 at 3 steps [2, 3] inputs [3] outputs [5] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.neg %in0
// CHECK-NEXT:     %1 = tsr_graph.exp %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "library" values [0, 1] strides [[], []] (%v0: !t, %v1: tensor<16x16xf32>) {
  %v2 = tsr_graph.exp %v0 step 0 values [2] until [1] : (!t) -> !t
  %v3 = tsr_graph.dot_general %v2, %v1 step 1 values [3] until [2] {contract_a = array<i64: 1>, contract_b = array<i64: 0>} : (!t, tensor<16x16xf32>) -> !t
  %v4 = tsr_graph.neg %v3 step 2 values [4] until [3] : (!t) -> !t
  %v5 = tsr_graph.exp %v4 step 3 values [5] until [end] : (!t) -> !t
}

// -----
// v2 is used in the kernel alone, but a snapshot needs it until step 5; v1 is not needed behind the kernel.
// CHECK-LABEL: tsr_graph.trace "until"
// CHECK-NEXT:   %v2, %v3 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0] outputs [2, 3] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.tanh %0
// CHECK-NEXT:     %2 = tsr_graph.neg %1
// CHECK-NEXT:     tsr_sched.yield %1, %2 : tensor<8x16xf32>, tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   tsr_graph.step "branch" step 3 values [] until []
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "until" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.tanh %v1 step 1 values [2] until [5] : (!t) -> !t
  %v3 = tsr_graph.neg %v2 step 2 values [3] until [end] : (!t) -> !t
  tsr_graph.step "branch" step 3 values [] until [] : () -> ()
}

// -----
// A product of elements is not generated; exp alone stays with tier 1.
// CHECK-LABEL: tsr_graph.trace "leading"
// CHECK-NEXT:   %v1 = tsr_graph.exp %v0 step 0 values [1] until [1]
// CHECK-NEXT:   %v2 = tsr_graph.prod %v1 step 1 values [2] until [end] {axes = array<i64: 0>}
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "leading" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.prod %v1 step 1 values [2] until [end] {axes = array<i64: 0>} : (!t) -> tensor<16xf32>
}
