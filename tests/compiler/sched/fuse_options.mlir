// tsr-fuse: its options (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tsr-fuse --no-fusion | FileCheck %s --check-prefix=ALONE
// RUN: tessera-opt %s --split-input-file --tsr-fuse --bitwise | FileCheck %s --check-prefix=BITWISE

// With --bitwise only what gives the bits of tier 1 is generated; a maximum, which only compares, does.
// CHECK-LABEL: tsr_graph.trace "sums"
// CHECK-NEXT:   %v2, %v3, %v4 = tsr_sched.kernel @k3 at 3 steps [0, 1, 2, 3] inputs [0] outputs [2, 3, 4] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.sum %0 {axes = array<i64: 1>}
// CHECK-NEXT:     %2 = tsr_graph.mean %0 {axes = array<i64: 1>}
// CHECK-NEXT:     %3 = tsr_graph.max %0 {axes = array<i64: 1>}
// CHECK-NEXT:     tsr_sched.yield %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// ALONE-LABEL: tsr_graph.trace "sums"
// ALONE-NEXT:   %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides {{\[}}[]] row 0
// ALONE-NEXT:     %0 = tsr_graph.exp %in0
// ALONE-NEXT:     tsr_sched.yield %0 : tensor<8x16xf32>
// ALONE-NEXT:   }
// ALONE-NEXT:   %v2 = tsr_sched.kernel @k1 at 1 steps [1] inputs [1] outputs [2] strides {{\[}}[]] row 1
// ALONE-NEXT:     %0 = tsr_graph.sum %in0 {axes = array<i64: 1>}
// ALONE-NEXT:     tsr_sched.yield %0 : tensor<8xf32>
// ALONE-NEXT:   }
// ALONE-NEXT:   %v3 = tsr_sched.kernel @k2 at 2 steps [2] inputs [1] outputs [3] strides {{\[}}[]] row 1
// ALONE-NEXT:     %0 = tsr_graph.mean %in0 {axes = array<i64: 1>}
// ALONE-NEXT:     tsr_sched.yield %0 : tensor<8xf32>
// ALONE-NEXT:   }
// ALONE-NEXT:   %v4 = tsr_sched.kernel @k3 at 3 steps [3] inputs [1] outputs [4] strides {{\[}}[]] row 1
// ALONE-NEXT:     %0 = tsr_graph.max %in0 {axes = array<i64: 1>}
// ALONE-NEXT:     tsr_sched.yield %0 : tensor<8xf32>
// ALONE-NEXT:   }
// ALONE-NEXT: }
// BITWISE-LABEL: tsr_graph.trace "sums"
// BITWISE-NEXT:   %v1 = tsr_graph.exp %v0 step 0 values [1] until [2]
// BITWISE-NEXT:   %v2 = tsr_graph.sum %v1 step 1 values [2] until [end] {axes = array<i64: 1>}
// BITWISE-NEXT:   %v3 = tsr_graph.mean %v1 step 2 values [3] until [end] {axes = array<i64: 1>}
// BITWISE-NEXT:   %v4 = tsr_graph.max %v1 step 3 values [4] until [end] {axes = array<i64: 1>}
// BITWISE-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "sums" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [2] : (!t) -> !t
  %v2 = tsr_graph.sum %v1 step 1 values [2] until [end] {axes = array<i64: 1>} : (!t) -> tensor<8xf32>
  %v3 = tsr_graph.mean %v1 step 2 values [3] until [end] {axes = array<i64: 1>} : (!t) -> tensor<8xf32>
  %v4 = tsr_graph.max %v1 step 3 values [4] until [end] {axes = array<i64: 1>} : (!t) -> tensor<8xf32>
}

// -----
// A variance and a softmax do not.
// CHECK-LABEL: tsr_graph.trace "others"
// CHECK-NEXT:   %v2, %v3 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0] outputs [2, 3] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.var %0 {axes = array<i64: 1>, correction = 1.000000e+00 : f64}
// CHECK-NEXT:     %2 = tsr_graph.softmax %0 {axis = -1 : i64}
// CHECK-NEXT:     tsr_sched.yield %1, %2 : tensor<8xf32>, tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// ALONE-LABEL: tsr_graph.trace "others"
// ALONE-NEXT:   %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides {{\[}}[]] row 0
// ALONE-NEXT:     %0 = tsr_graph.exp %in0
// ALONE-NEXT:     tsr_sched.yield %0 : tensor<8x16xf32>
// ALONE-NEXT:   }
// ALONE-NEXT:   %v2 = tsr_sched.kernel @k1 at 1 steps [1] inputs [1] outputs [2] strides {{\[}}[]] row 1
// ALONE-NEXT:     %0 = tsr_graph.var %in0 {axes = array<i64: 1>, correction = 1.000000e+00 : f64}
// ALONE-NEXT:     tsr_sched.yield %0 : tensor<8xf32>
// ALONE-NEXT:   }
// ALONE-NEXT:   %v3 = tsr_sched.kernel @k2 at 2 steps [2] inputs [1] outputs [3] strides {{\[}}[]] row 1
// ALONE-NEXT:     %0 = tsr_graph.softmax %in0 {axis = -1 : i64}
// ALONE-NEXT:     tsr_sched.yield %0 : tensor<8x16xf32>
// ALONE-NEXT:   }
// ALONE-NEXT: }
// BITWISE-LABEL: tsr_graph.trace "others"
// BITWISE-NEXT:   %v1 = tsr_graph.exp %v0 step 0 values [1] until [2]
// BITWISE-NEXT:   %v2 = tsr_graph.var %v1 step 1 values [2] until [end] {axes = array<i64: 1>, correction = 1.000000e+00 : f64}
// BITWISE-NEXT:   %v3 = tsr_graph.softmax %v1 step 2 values [3] until [end] {axis = -1 : i64}
// BITWISE-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "others" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [2] : (!t) -> !t
  %v2 = tsr_graph.var %v1 step 1 values [2] until [end] {axes = array<i64: 1>, correction = 1.0 : f64} : (!t) -> tensor<8xf32>
  %v3 = tsr_graph.softmax %v1 step 2 values [3] until [end] {axis = -1 : i64} : (!t) -> !t
}

// -----
// Nor do sums of narrow floats.
// CHECK-LABEL: tsr_graph.trace "narrow"
// CHECK-NEXT:   %v2, %v3 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0] outputs [2, 3] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.sum %0 {axes = array<i64: 1>}
// CHECK-NEXT:     %2 = tsr_graph.max %0 {axes = array<i64: 1>}
// CHECK-NEXT:     tsr_sched.yield %1, %2 : tensor<8xbf16>, tensor<8xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// ALONE-LABEL: tsr_graph.trace "narrow"
// ALONE-NEXT:   %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides {{\[}}[]] row 0
// ALONE-NEXT:     %0 = tsr_graph.exp %in0
// ALONE-NEXT:     tsr_sched.yield %0 : tensor<8x16xbf16>
// ALONE-NEXT:   }
// ALONE-NEXT:   %v2 = tsr_sched.kernel @k1 at 1 steps [1] inputs [1] outputs [2] strides {{\[}}[]] row 1
// ALONE-NEXT:     %0 = tsr_graph.sum %in0 {axes = array<i64: 1>}
// ALONE-NEXT:     tsr_sched.yield %0 : tensor<8xbf16>
// ALONE-NEXT:   }
// ALONE-NEXT:   %v3 = tsr_sched.kernel @k2 at 2 steps [2] inputs [1] outputs [3] strides {{\[}}[]] row 1
// ALONE-NEXT:     %0 = tsr_graph.max %in0 {axes = array<i64: 1>}
// ALONE-NEXT:     tsr_sched.yield %0 : tensor<8xbf16>
// ALONE-NEXT:   }
// ALONE-NEXT: }
// BITWISE-LABEL: tsr_graph.trace "narrow"
// BITWISE-NEXT:   %v1 = tsr_graph.exp %v0 step 0 values [1] until [2]
// BITWISE-NEXT:   %v2 = tsr_graph.sum %v1 step 1 values [2] until [end] {axes = array<i64: 1>}
// BITWISE-NEXT:   %v3 = tsr_graph.max %v1 step 2 values [3] until [end] {axes = array<i64: 1>}
// BITWISE-NEXT: }
!h = tensor<8x16xbf16>
tsr_graph.trace "narrow" values [0] strides [[]] (%v0: !h) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [2] : (!h) -> !h
  %v2 = tsr_graph.sum %v1 step 1 values [2] until [end] {axes = array<i64: 1>} : (!h) -> tensor<8xbf16>
  %v3 = tsr_graph.max %v1 step 2 values [3] until [end] {axes = array<i64: 1>} : (!h) -> tensor<8xbf16>
}
