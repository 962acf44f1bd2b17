// tsr-fuse: what comes before a product (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse | FileCheck %s

// Narrow floats are widened where they are read, on both sides.
// CHECK-LABEL: tsr_graph.trace "casts"
// CHECK-NEXT:   %v5 = tsr_sched.kernel @k3 at 3 steps [0, 1, 2, 3] inputs [0, 1] outputs [5] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.tanh %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<?x?xf32, [0, 2]>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<?x?xf16, [0, 1]>
!w = tensor<?x?xbf16, [1, 2]>
!a = tensor<?x?xf32, [0, 1]>
!b = tensor<?x?xf32, [1, 2]>
!y = tensor<?x?xf32, [0, 2]>
tsr_graph.trace "casts" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.cast %v0 step 0 values [2] until [2] {dtype = f32} : (!x) -> !a
  %v3 = tsr_graph.cast %v1 step 1 values [3] until [2] {dtype = f32} : (!w) -> !b
  %v4 = tsr_graph.matmul %v2, %v3 step 2 values [4] until [3] : (!a, !b) -> !y
  %v5 = tsr_graph.tanh %v4 step 3 values [5] until [end] : (!y) -> !y
}

// -----
// Somebody else needs the first one, the second is no cast to f32 of a narrow float, and the third is one op of several.
// CHECK-LABEL: tsr_graph.trace "others"
// CHECK-NEXT:   %v2 = tsr_graph.cast %v0 step 0 values [2] until [end] {dtype = f32}
// CHECK-NEXT:   %v3 = tsr_graph.cast %v1 step 1 values [3] until [2] {dtype = f32}
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k2 at 2 steps [2] inputs [2, 3] outputs [4] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<8x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v6 = tsr_sched.kernel @k4 at 4 steps [3, 4] inputs [0] outputs [6] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.neg %in0
// CHECK-NEXT:     %1 = tsr_graph.cast %0 {dtype = f32}
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<8x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v7 = tsr_sched.kernel @k5 at 5 steps [5] inputs [6, 4] outputs [7] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<8x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!h = tensor<8x8xbf16>
!d = tensor<8x8xf64>
!f = tensor<8x8xf32>
tsr_graph.trace "others" values [0, 1] strides [[], []] (%v0: !h, %v1: !d) {
  %v2 = tsr_graph.cast %v0 step 0 values [2] until [end] {dtype = f32} : (!h) -> !f
  %v3 = tsr_graph.cast %v1 step 1 values [3] until [2] {dtype = f32} : (!d) -> !f
  %v4 = tsr_graph.matmul %v2, %v3 step 2 values [4] until [end] : (!f, !f) -> !f
  %v5 = tsr_graph.neg %v0 step 3 values [5] until [4] : (!h) -> !h
  %v6 = tsr_graph.cast %v5 step 4 values [6] until [5] {dtype = f32} : (!h) -> !f
  %v7 = tsr_graph.matmul %v6, %v4 step 5 values [7] until [end] : (!f, !f) -> !f
}
