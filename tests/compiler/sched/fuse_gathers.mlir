// tsr-fuse: gathers of rows and what follows them (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse | FileCheck %s

// Tokens and positions, which have no dim for the batch and another dtype, are one kernel with the norm.
// CHECK-LABEL: tsr_graph.trace "function"
// CHECK-NEXT:   %v7 = tsr_sched.kernel @k3 at 3 steps [0, 1, 2, 3] inputs [0, 1, 2, 3] outputs [7] strides {{\[}}[], [], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.embedding %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.take %in2, %in3 {axis = 0 : i64}
// CHECK-NEXT:     %2 = tsr_graph.cast %1
// CHECK-NEXT:     %3 = tsr_graph.add %0, %2
// CHECK-NEXT:     %4 = tsr_graph.layer_norm %3
// CHECK-NEXT:     tsr_sched.yield %4 : tensor<?x?x?xf32, [2, 3, 1]>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
!p = tensor<?x?xbf16, [3, 1]>
!x = tensor<?x?x?xf32, [2, 3, 1]>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []] (%v0: !t, %v1: tensor<?x?xi64, [2, 3]>, %v2: tensor<?x?xbf16, [4, 1]>, %v3: tensor<?xi32, [3]>) {
  %v4 = tsr_graph.embedding %v0, %v1 step 0 values [4] until [3] : (!t, tensor<?x?xi64, [2, 3]>) -> !x
  %v5 = tsr_graph.take %v2, %v3 step 1 values [5] until [2] {axis = 0 : i64} : (tensor<?x?xbf16, [4, 1]>, tensor<?xi32, [3]>) -> !p
  %c = tsr_graph.cast %v5 : (!p) -> tensor<?x?xf32, [3, 1]>
  %v6 = tsr_graph.add %v4, %c step 2 values [6] until [3] : (!x, tensor<?x?xf32, [3, 1]>) -> !x
  %v7 = tsr_graph.layer_norm %v6 step 3 values [7] until [end] : (!x) -> !x
}

// -----
// A gather may leave the trace: what comes before it is in memory, and tanh, which comes after, reads it there.
// CHECK-LABEL: tsr_graph.trace "function"
// CHECK-NEXT:   %v3, %v4 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [2] outputs [3, 4] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.neg %in0
// CHECK-NEXT:     %1 = tsr_graph.exp %0
// CHECK-NEXT:     tsr_sched.yield %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v7 = tsr_sched.kernel @k4 at 4 steps [2, 3, 4] inputs [0, 1, 4] outputs [7] strides {{\[}}[], [], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.embedding %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.tanh %in2
// CHECK-NEXT:     %2 = tsr_graph.mul %0, %1
// CHECK-NEXT:     tsr_sched.yield %2 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<9x16xf32>
!x = tensor<8x16xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: tensor<8xi64>, %v2: !x) {
  %v3 = tsr_graph.neg %v2 step 0 values [3] until [4] : (!x) -> !x
  %v4 = tsr_graph.exp %v3 step 1 values [4] until [4] : (!x) -> !x
  %v5 = tsr_graph.embedding %v0, %v1 step 2 values [5] until [4] : (!t, tensor<8xi64>) -> !x
  %v6 = tsr_graph.tanh %v4 step 3 values [6] until [4] : (!x) -> !x
  %v7 = tsr_graph.mul %v5, %v6 step 4 values [7] until [end] : (!x, !x) -> !x
}

// -----
// The indices of the second gather are not there when the first one is due: it begins another kernel.
// CHECK-LABEL: tsr_graph.trace "function"
// CHECK-NEXT:   %v2, %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [2, 3] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.embedding %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.neg %0
// CHECK-NEXT:     tsr_sched.yield %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v4 = tsr_graph.neg %v1 step 2 values [4] until [3]
// CHECK-NEXT:   %v6 = tsr_sched.kernel @k4 at 4 steps [3, 4] inputs [0, 4, 3] outputs [6] strides {{\[}}[], [], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.embedding %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.add %in2, %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<9x16xf32>
!x = tensor<8x16xf32>
!i = tensor<8xi64>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !t, %v1: !i) {
  %v2 = tsr_graph.embedding %v0, %v1 step 0 values [2] until [4] : (!t, !i) -> !x
  %v3 = tsr_graph.neg %v2 step 1 values [3] until [4] : (!x) -> !x
  %v4 = tsr_graph.neg %v1 step 2 values [4] until [3] : (!i) -> !i
  %v5 = tsr_graph.embedding %v0, %v4 step 3 values [5] until [4] : (!t, !i) -> !x
  %v6 = tsr_graph.add %v3, %v5 step 4 values [6] until [end] : (!x, !x) -> !x
}

// -----
// An eager op raises its error at once, and there only operands of the trace can be looked at: these are computed.
// CHECK-LABEL: tsr_graph.trace "eager"
// CHECK-NEXT:   %v2 = tsr_graph.neg %v1 step 0 values [2] until [1]
// CHECK-NEXT:   %v3 = tsr_graph.embedding %v0, %v2 step 1 values [3] until [2]
// CHECK-NEXT:   %v4 = tsr_graph.exp %v3 step 2 values [4] until [end]
// CHECK-NEXT: }
!t = tensor<9x16xf32>
!x = tensor<8x16xf32>
!i = tensor<8xi64>
tsr_graph.trace "eager" values [0, 1] strides [[], []] (%v0: !t, %v1: !i) {
  %v2 = tsr_graph.neg %v1 step 0 values [2] until [1] : (!i) -> !i
  %v3 = tsr_graph.embedding %v0, %v2 step 1 values [3] until [2] : (!t, !i) -> !x
  %v4 = tsr_graph.exp %v3 step 2 values [4] until [end] : (!x) -> !x
}

// -----
// What is broadcast is in no memory, and something else needs it: no kernel.
// CHECK-LABEL: tsr_graph.trace "function"
// CHECK-NEXT:   %v3 = tsr_graph.embedding %v0, %v1 step 0 values [3] until [2]
// CHECK-NEXT:   %v4 = tsr_graph.embedding %v0, %v2 step 1 values [4] until [end]
// CHECK-NEXT:   %v5 = tsr_graph.add %v3, %v4 step 2 values [5] until [end]
// CHECK-NEXT: }
!t = tensor<9x16xf32>
!x = tensor<2x8x16xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: tensor<2x8xi64>, %v2: tensor<8xi64>) {
  %v3 = tsr_graph.embedding %v0, %v1 step 0 values [3] until [2] : (!t, tensor<2x8xi64>) -> !x
  %v4 = tsr_graph.embedding %v0, %v2 step 1 values [4] until [end] : (!t, tensor<8xi64>) -> tensor<8x16xf32>
  %v5 = tsr_graph.add %v3, %v4 step 2 values [5] until [end] : (!x, tensor<8x16xf32>) -> !x
}

// -----
// Other axes, elements in place of rows, a single index, f8 (whose infinities a store would lose) and a product's kernel.
// CHECK-LABEL: tsr_graph.trace "function"
// CHECK-NEXT:   %v6 = tsr_graph.take %v0, %v1 step 0 values [6] until [1] {axis = 1 : i64}
// CHECK-NEXT:   %v7 = tsr_graph.exp %v6 step 1 values [7] until [end]
// CHECK-NEXT:   %v8 = tsr_graph.take %v2, %v1 step 2 values [8] until [3] {axis = 0 : i64}
// CHECK-NEXT:   %v9 = tsr_graph.exp %v8 step 3 values [9] until [end]
// CHECK-NEXT:   %v10 = tsr_graph.embedding %v0, %v3 step 4 values [10] until [5]
// CHECK-NEXT:   %v11 = tsr_graph.exp %v10 step 5 values [11] until [end]
// CHECK-NEXT:   %v12 = tsr_graph.embedding %v4, %v1 step 6 values [12] until [7]
// CHECK-NEXT:   %v13 = tsr_graph.exp %v12 step 7 values [13] until [end]
// CHECK-NEXT:   %v14 = tsr_graph.embedding %v0, %v1 step 8 values [14] until [10]
// CHECK-NEXT:   %v16 = tsr_sched.kernel @k10 at 10 steps [9, 10] inputs [7, 5, 14] outputs [16] strides {{\[}}[], [], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.add %0, %in2
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<9x16xf32>
!x = tensor<8x16xf32>
!i = tensor<8xi64>
!f = tensor<9x16xf8E4M3FN>
tsr_graph.trace "function" values [0, 1, 2, 3, 4, 5] strides [[], [], [], [], [], []] (%v0: !t, %v1: !i, %v2: tensor<9xf32>, %v3: tensor<i64>, %v4: !f, %v5: tensor<16x16xf32>) {
  %v6 = tsr_graph.take %v0, %v1 step 0 values [6] until [1] {axis = 1 : i64} : (!t, !i) -> tensor<9x8xf32>
  %v7 = tsr_graph.exp %v6 step 1 values [7] until [end] : (tensor<9x8xf32>) -> tensor<9x8xf32>
  %v8 = tsr_graph.take %v2, %v1 step 2 values [8] until [3] {axis = 0 : i64} : (tensor<9xf32>, !i) -> tensor<8xf32>
  %v9 = tsr_graph.exp %v8 step 3 values [9] until [end] : (tensor<8xf32>) -> tensor<8xf32>
  %v10 = tsr_graph.embedding %v0, %v3 step 4 values [10] until [5] : (!t, tensor<i64>) -> tensor<16xf32>
  %v11 = tsr_graph.exp %v10 step 5 values [11] until [end] : (tensor<16xf32>) -> tensor<16xf32>
  %v12 = tsr_graph.embedding %v4, %v1 step 6 values [12] until [7] : (!f, !i) -> tensor<8x16xf8E4M3FN>
  %v13 = tsr_graph.exp %v12 step 7 values [13] until [end] : (tensor<8x16xf8E4M3FN>) -> tensor<8x16xf8E4M3FN>
  %v14 = tsr_graph.embedding %v0, %v1 step 8 values [14] until [10] : (!t, !i) -> !x
  %v15 = tsr_graph.matmul %v7, %v5 step 9 values [15] until [10] : (tensor<9x8xf32>, tensor<16x16xf32>) -> !x
  %v16 = tsr_graph.add %v15, %v14 step 10 values [16] until [end] : (!x, !x) -> !x
}
