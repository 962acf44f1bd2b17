// tsr-fuse: updates of parts, written by the kernels that compute them (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse | FileCheck %s

// Keys of one position go to the cache, of which all else stays.
// CHECK-LABEL: tsr_graph.trace "eager"
// CHECK-NEXT:   %v5 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0, 1, 2] outputs [5] strides {{\[}}[], [], []] row 0 updates {{\[}}[0, 2, 5, 0, 1, -1, 3]]
// CHECK-NEXT:     %0 = tsr_graph.mul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.cast %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<?x?x1x?xbf16, [0, 1, -1, 2]>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!k = tensor<?x?x1x?xf32, [0, 1, -1, 2]>
!w = tensor<?xf32, [2]>
!c = tensor<?x?x?x?xbf16, [0, 1, 3, 2]>
!u = tensor<?x?x1x?xbf16, [0, 1, -1, 2]>
tsr_graph.trace "eager" values [0, 1, 2] strides [[], [], []] (%v0: !k, %v1: !w, %v2: !c) {
  %v3 = tsr_graph.mul %v0, %v1 step 0 values [3] until [1] : (!k, !w) -> !k
  %v4 = tsr_graph.cast %v3 step 1 values [4] until [2] : (!k) -> !u
  %v5 = tsr_graph.update_slice %v2, %v4 step 2 values [5] until [end] {steps = array<i64>} : (!c, !u) -> !c
}

// -----
// A row of a log: the view that gives it the dim of the log is no memory. What is written is needed elsewhere, too.
// CHECK-LABEL: tsr_graph.trace "eager"
// CHECK-NEXT:   %v3, %v5 = tsr_sched.kernel @k3 at 3 steps [0, 1, 3] inputs [0, 1] outputs [3, 5] strides {{\[}}[], []] row 0 updates {{\[}}[1, 1, 5, 1]]
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.add %0, %in0
// CHECK-NEXT:     tsr_sched.yield %1, %1 : tensor<?xf32, [0]>, tensor<?xf32, [0]>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v4 = tsr_graph.reshape %v3 step 2 values [4] until [3] {tsr.strides = array<i64>}
// CHECK-NEXT: }
!r = tensor<?xf32, [0]>
!u = tensor<1x?xf32, [-1, 0]>
!l = tensor<?x?xf32, [1, 0]>
tsr_graph.trace "eager" values [0, 1] strides [[], []] (%v0: !r, %v1: !l) {
  %v2 = tsr_graph.exp %v0 step 0 values [2] until [1] : (!r) -> !r
  %v3 = tsr_graph.add %v2, %v0 step 1 values [3] until [end] : (!r, !r) -> !r
  %v4 = tsr_graph.reshape %v3 step 2 values [4] until [3] {tsr.strides = array<i64>} : (!r) -> !u
  %v5 = tsr_graph.update_slice %v1, %v4 step 3 values [5] until [end] {steps = array<i64: 1, 1>} : (!l, !u) -> !l
}

// -----
// Two halves of a row: two parts of one result.
// CHECK-LABEL: tsr_graph.trace "function"
// CHECK-NEXT:   %v12, %v12_0 = tsr_sched.kernel @k7 at 7 steps [0, 1, 2, 3, 4, 5, 6, 7] inputs [0, 2, 1, 3, 4] outputs [12, 12] strides {{\[}}[], [], [], [], []] row 0 updates {{\[}}[0, 4, 8, 0, 1], [1, 4, 12, 0, 1]]
// CHECK-NEXT:     %0 = tsr_graph.mul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.mul %in2, %in3
// CHECK-NEXT:     %2 = tsr_graph.sub %0, %1
// CHECK-NEXT:     %3 = tsr_graph.mul %in2, %in1
// CHECK-NEXT:     %4 = tsr_graph.mul %in0, %in3
// CHECK-NEXT:     %5 = tsr_graph.add %3, %4
// CHECK-NEXT:     tsr_sched.yield %2, %5 : tensor<8x64xf32>, tensor<8x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!h = tensor<8x64xf32>
!c = tensor<8x128xf32>
tsr_graph.trace "function" values [0, 1, 2, 3, 4] strides [[], [], [], [], []] (%v0: !h, %v1: !h, %v2: !h, %v3: !h, %v4: !c) {
  %v5 = tsr_graph.mul %v0, %v2 step 0 values [5] until [2] : (!h, !h) -> !h
  %v6 = tsr_graph.mul %v1, %v3 step 1 values [6] until [2] : (!h, !h) -> !h
  %v7 = tsr_graph.sub %v5, %v6 step 2 values [7] until [3] : (!h, !h) -> !h
  %v8 = tsr_graph.update_slice %v4, %v7 step 3 values [8] until [7] {starts = array<i64: 0, 0>, steps = array<i64>} : (!c, !h) -> !c
  %v9 = tsr_graph.mul %v1, %v2 step 4 values [9] until [6] : (!h, !h) -> !h
  %v10 = tsr_graph.mul %v0, %v3 step 5 values [10] until [6] : (!h, !h) -> !h
  %v11 = tsr_graph.add %v9, %v10 step 6 values [11] until [7] : (!h, !h) -> !h
  %v12 = tsr_graph.update_slice %v8, %v11 step 7 values [12] until [end] {starts = array<i64: 0, 64>, steps = array<i64>} : (!c, !h) -> !c
}

// -----
// The first of two updates is needed by itself: the second one is of what the first kernel wrote.
// CHECK-LABEL: tsr_graph.trace "function"
// CHECK-NEXT:   %v3, %v4, %v5 = tsr_sched.kernel @k3 at 3 steps [0, 1, 2, 3] inputs [0, 1] outputs [3, 4, 5] strides {{\[}}[], []] row 0 updates {{\[}}[0, 1, 3, 0, 1]]
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.tanh %in0
// CHECK-NEXT:     %2 = tsr_graph.neg %1
// CHECK-NEXT:     tsr_sched.yield %0, %1, %2 : tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v6 = tsr_graph.update_slice %v3, %v5 step 4 values [6] until [end] {steps = array<i64>}
// CHECK-NEXT: }
!h = tensor<8x64xf32>
!c = tensor<8x128xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !h, %v1: !c) {
  %v2 = tsr_graph.exp %v0 step 0 values [2] until [1] : (!h) -> !h
  %v3 = tsr_graph.update_slice %v1, %v2 step 1 values [3] until [end] {steps = array<i64>} : (!c, !h) -> !c
  %v4 = tsr_graph.tanh %v0 step 2 values [4] until [4] : (!h) -> !h
  %v5 = tsr_graph.neg %v4 step 3 values [5] until [4] : (!h) -> !h
  %v6 = tsr_graph.update_slice %v3, %v5 step 4 values [6] until [end] {steps = array<i64>} : (!c, !h) -> !c
}

// -----
// Rows of a softmax; what uses the result is a kernel of its own, although it has the same dims.
// CHECK-LABEL: tsr_graph.trace "function"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [3] strides {{\[}}[], []] row 1 updates {{\[}}[0, 1, 3, 0, 1]]
// CHECK-NEXT:     %0 = tsr_graph.softmax %in0 {axis = -1 : i64}
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<8x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v5 = tsr_sched.kernel @k3 at 3 steps [2, 3] inputs [3] outputs [5] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.add %0, %in0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<8x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<8x64xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.softmax %v0 step 0 values [2] until [1] {axis = -1 : i64} : (!x) -> !x
  %v3 = tsr_graph.update_slice %v1, %v2 step 1 values [3] until [3] {steps = array<i64>} : (!x, !x) -> !x
  %v4 = tsr_graph.exp %v3 step 2 values [4] until [3] : (!x) -> !x
  %v5 = tsr_graph.add %v4, %v3 step 3 values [5] until [end] : (!x, !x) -> !x
}

// -----
// Not these: by steps of 2, of another dtype, a column, what no kernel computes.
// CHECK-LABEL: tsr_graph.trace "function"
// CHECK-NEXT:   %v3 = tsr_graph.exp %v0 step 0 values [3] until [1]
// CHECK-NEXT:   %v4 = tsr_graph.update_slice %v1, %v3 step 1 values [4] until [end] {steps = array<i64: 2, 2>}
// CHECK-NEXT:   %v5 = tsr_graph.tanh %v0 step 2 values [5] until [3]
// CHECK-NEXT:   %v6 = tsr_graph.update_slice %v2, %v5 step 3 values [6] until [end] {steps = array<i64>}
// CHECK-NEXT:   %v7, %v8 = tsr_sched.kernel @k5 at 5 steps [4, 5] inputs [0] outputs [7, 8] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.sum %in0 {axes = array<i64: 1>, keepdims = true}
// CHECK-NEXT:     %1 = tsr_graph.exp %0
// CHECK-NEXT:     tsr_sched.yield %0, %1 : tensor<8x1xf32>, tensor<8x1xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v9 = tsr_graph.update_slice %v1, %v8 step 6 values [9] until [end] {steps = array<i64>}
// CHECK-NEXT:   %v10 = tsr_graph.update_slice %v1, %v0 step 7 values [10] until [end] {steps = array<i64>}
// CHECK-NEXT: }
!x = tensor<8x64xf32>
!c = tensor<16x128xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []] (%v0: !x, %v1: !c, %v2: tensor<16x128xf64>) {
  %v3 = tsr_graph.exp %v0 step 0 values [3] until [1] : (!x) -> !x
  %v4 = tsr_graph.update_slice %v1, %v3 step 1 values [4] until [end] {steps = array<i64: 2, 2>} : (!c, !x) -> !c
  %v5 = tsr_graph.tanh %v0 step 2 values [5] until [3] : (!x) -> !x
  %v6 = tsr_graph.update_slice %v2, %v5 step 3 values [6] until [end] {steps = array<i64>} : (tensor<16x128xf64>, !x) -> tensor<16x128xf64>
  %v7 = tsr_graph.sum %v0 step 4 values [7] until [6] {axes = array<i64: 1>, keepdims = true} : (!x) -> tensor<8x1xf32>
  %v8 = tsr_graph.exp %v7 step 5 values [8] until [6] : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %v9 = tsr_graph.update_slice %v1, %v8 step 6 values [9] until [end] {steps = array<i64>} : (!c, tensor<8x1xf32>) -> !c
  %v10 = tsr_graph.update_slice %v1, %v0 step 7 values [10] until [end] {steps = array<i64>} : (!c, !x) -> !c
}

// -----
// An update that tier 1 does is a barrier: neither what comes before nor what comes after reaches across.
// CHECK-LABEL: tsr_graph.trace "function"
// CHECK-NEXT:   %v2, %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0] outputs [2, 3] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.neg %0
// CHECK-NEXT:     tsr_sched.yield %0, %1 : tensor<8x64xf32>, tensor<8x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v4 = tsr_graph.update_slice %v1, %v0 step 2 values [4] until [end] {steps = array<i64>}
// CHECK-NEXT:   %v6 = tsr_sched.kernel @k4 at 4 steps [3, 4] inputs [2, 3] outputs [6] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.add %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.tanh %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<8x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<8x64xf32>
!c = tensor<16x128xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !x, %v1: !c) {
  %v2 = tsr_graph.exp %v0 step 0 values [2] until [3] : (!x) -> !x
  %v3 = tsr_graph.neg %v2 step 1 values [3] until [3] : (!x) -> !x
  %v4 = tsr_graph.update_slice %v1, %v0 step 2 values [4] until [end] {steps = array<i64>} : (!c, !x) -> !c
  %v5 = tsr_graph.add %v2, %v3 step 3 values [5] until [4] : (!x, !x) -> !x
  %v6 = tsr_graph.tanh %v5 step 4 values [6] until [end] : (!x) -> !x
}
