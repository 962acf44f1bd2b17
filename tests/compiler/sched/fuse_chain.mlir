// tsr-fuse: which ops join a kernel (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse | FileCheck %s

// What lies between is not written to memory: only v4 leaves the kernel.
// CHECK-LABEL: tsr_graph.trace "chain"
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0, 1] outputs [4] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.add %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.exp %0
// CHECK-NEXT:     %2 = tsr_graph.mul %1, %in0
// CHECK-NEXT:     tsr_sched.yield %2 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "chain" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [1] : (!t, !t) -> !t
  %v3 = tsr_graph.exp %v2 step 1 values [3] until [2] : (!t) -> !t
  %v4 = tsr_graph.mul %v3, %v0 step 2 values [4] until [end] : (!t, !t) -> !t
}

// -----
// One element-wise op stays with tier 1, whose loop is as good.
// CHECK-LABEL: tsr_graph.trace "one_op"
// CHECK-NEXT:   %v1 = tsr_graph.exp %v0 step 0 values [1] until [end]
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "one_op" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [end] : (!t) -> !t
}

// -----
// Two ops that read the same tensor read it once.
// CHECK-LABEL: tsr_graph.trace "shared"
// CHECK-NEXT:   %v1, %v2 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0] outputs [1, 2] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.tanh %in0
// CHECK-NEXT:     tsr_sched.yield %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "shared" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [end] : (!t) -> !t
  %v2 = tsr_graph.tanh %v0 step 1 values [2] until [end] : (!t) -> !t
}

// -----
// Two ops that have nothing in common stay apart.
// CHECK-LABEL: tsr_graph.trace "apart"
// CHECK-NEXT:   %v2 = tsr_graph.exp %v0 step 0 values [2] until [end]
// CHECK-NEXT:   %v3 = tsr_graph.tanh %v1 step 1 values [3] until [end]
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "apart" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.exp %v0 step 0 values [2] until [end] : (!t) -> !t
  %v3 = tsr_graph.tanh %v1 step 1 values [3] until [end] : (!t) -> !t
}

// -----
// Two kernels of the same space become one where an op uses both.
// CHECK-LABEL: tsr_graph.trace "merge"
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0, 1] outputs [4] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.tanh %in1
// CHECK-NEXT:     %2 = tsr_graph.add %0, %1
// CHECK-NEXT:     tsr_sched.yield %2 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "merge" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.exp %v0 step 0 values [2] until [2] : (!t) -> !t
  %v3 = tsr_graph.tanh %v1 step 1 values [3] until [2] : (!t) -> !t
  %v4 = tsr_graph.add %v2, %v3 step 2 values [4] until [end] : (!t, !t) -> !t
}
