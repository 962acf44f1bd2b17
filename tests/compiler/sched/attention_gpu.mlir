// tsr-fuse for sm_90a: attention written by hand is one kernel; elsewhere it is not (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tsr-fuse --tsr-decompose --cse | FileCheck %s

// Weights are rounded before they are divided, and a cap of scores is part of the kernel.
// CHECK-LABEL: tsr_graph.trace "capped"
// CHECK-NEXT:   %v10 = tsr_sched.kernel @k5 at 5 steps [0, 1, 2, 3, 4, 5] inputs [0, 1, 3, 4, 2] outputs [10] strides {{\[}}[], [], [], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_b = true}
// CHECK-NEXT:     %1 = tsr_graph.mul %0, %in2
// CHECK-NEXT:     %2 = tsr_graph.tanh %1
// CHECK-NEXT:     %3 = tsr_graph.mul %2, %in3
// CHECK-NEXT:     %4 = tsr_graph.cast %3
// CHECK-NEXT:     %5 = tsr_graph.reduce "max" %4 rank 1 loose : tensor<2x4x512x512xf32> -> tensor<2x4x512x1xf32>
// CHECK-NEXT:     %6 = tsr_graph.sub %4, %5
// CHECK-NEXT:     %7 = tsr_graph.exp %6 {weight}
// CHECK-NEXT:     %8 = tsr_graph.reduce "sum" %7 rank 1 : tensor<2x4x512x512xf32> -> tensor<2x4x512x1xf32>
// CHECK-NEXT:     %9 = tsr_graph.reciprocal %8
// CHECK-NEXT:     %10 = tsr_graph.matmul %7, %in4
// CHECK-NEXT:     %11 = tsr_graph.mul %10, %9
// CHECK-NEXT:     %12 = tsr_graph.cast %11
// CHECK-NEXT:     tsr_sched.yield %12 : tensor<2x4x512x64xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!q = tensor<2x4x512x64xbf16>
!s = tensor<2x4x512x512xbf16>
!n = tensor<bf16>
tsr_graph.trace "capped" values [0, 1, 2, 3, 4] strides [[], [], [], [], []] (%v0: !q, %v1: !q, %v2: !q, %v3: !n, %v4: !n) {
  %v5 = tsr_graph.matmul %v0, %v1 step 0 values [5] until [1] {transpose_b = true} : (!q, !q) -> !s
  %v6 = tsr_graph.mul %v5, %v3 step 1 values [6] until [2] : (!s, !n) -> !s
  %v7 = tsr_graph.tanh %v6 step 2 values [7] until [3] : (!s) -> !s
  %v8 = tsr_graph.mul %v7, %v4 step 3 values [8] until [4] : (!s, !n) -> !s
  %v9 = tsr_graph.softmax %v8 step 4 values [9] until [5] {axis = -1 : i64} : (!s) -> !s
  %v10 = tsr_graph.matmul %v9, %v2 step 5 values [10] until [end] : (!s, !q) -> !q
}

// -----
// A softmax in f32, by hand; heads of 96 elements, and a bias that heads share.
// CHECK-LABEL: tsr_graph.trace "by_hand"
// CHECK-NEXT:   %v13 = tsr_sched.kernel @k9 at 9 steps [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] inputs [0, 1, 3, 2] outputs [13] strides {{\[}}[], [], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_b = true}
// CHECK-NEXT:     %1 = tsr_graph.cast %0
// CHECK-NEXT:     %2 = tsr_graph.add %1, %in2
// CHECK-NEXT:     %3 = tsr_graph.reduce "max" %2 rank 1 loose : tensor<1x8x?x?xf32, [-1, -1, 0, 1]> -> tensor<1x8x?x1xf32, [-1, -1, 0, -1]>
// CHECK-NEXT:     %4 = tsr_graph.sub %2, %3
// CHECK-NEXT:     %5 = tsr_graph.exp %4 {weight}
// CHECK-NEXT:     %6 = tsr_graph.reduce "sum" %5 rank 1 : tensor<1x8x?x?xf32, [-1, -1, 0, 1]> -> tensor<1x8x?x1xf32, [-1, -1, 0, -1]>
// CHECK-NEXT:     %7 = tsr_graph.reciprocal %6
// CHECK-NEXT:     %8 = tsr_graph.matmul %5, %in3
// CHECK-NEXT:     %9 = tsr_graph.mul %8, %7
// CHECK-NEXT:     %10 = tsr_graph.cast %9
// CHECK-NEXT:     tsr_sched.yield %10 : tensor<1x8x?x96xf16, [-1, -1, 0, -1]>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!q = tensor<1x8x?x96xf16, [-1, -1, 0, -1]>
!k = tensor<1x8x?x96xf16, [-1, -1, 1, -1]>
!s = tensor<1x8x?x?xf16, [-1, -1, 0, 1]>
!f = tensor<1x8x?x?xf32, [-1, -1, 0, 1]>
!r = tensor<1x8x?x1xf32, [-1, -1, 0, -1]>
!b = tensor<?x?xf32, [0, 1]>
tsr_graph.trace "by_hand" values [0, 1, 2, 3] strides [[], [], [], []] likely [1024, 2048]
    (%v0: !q, %v1: !k, %v2: !k, %v3: !b) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1] {transpose_b = true} : (!q, !k) -> !s
  %v5 = tsr_graph.cast %v4 step 1 values [5] until [2] : (!s) -> !f
  %v6 = tsr_graph.add %v5, %v3 step 2 values [6] until [4] : (!f, !b) -> !f
  %v7 = tsr_graph.max %v6 step 3 values [7] until [4] {axes = array<i64: -1>, keepdims = true} : (!f) -> !r
  %v8 = tsr_graph.sub %v6, %v7 step 4 values [8] until [5] : (!f, !r) -> !f
  %v9 = tsr_graph.exp %v8 step 5 values [9] until [7] : (!f) -> !f
  %v10 = tsr_graph.sum %v9 step 6 values [10] until [7] {axes = array<i64: -1>, keepdims = true} : (!f) -> !r
  %v11 = tsr_graph.div %v9, %v10 step 7 values [11] until [8] : (!f, !r) -> !f
  %v12 = tsr_graph.cast %v11 step 8 values [12] until [9] : (!f) -> !s
  %v13 = tsr_graph.matmul %v12, %v2 step 9 values [13] until [end] : (!s, !k) -> !q
}

// -----
// A mask that two layers share, from positions: each kernel computes it, and nobody else.
// CHECK-LABEL: tsr_graph.trace "positions"
// CHECK-NEXT:   %v11 = tsr_sched.kernel @k6 at 6 steps [3, 4, 5, 6] inputs [0, 1, 3, 4, 2] outputs [11] strides {{\[}}[], [], [], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_b = true}
// CHECK-NEXT:     %1 = tsr_graph.iota %in2, %in3 {axis = 0 : i64}
// CHECK-NEXT:     %2 = tsr_graph.iota %in2, %in3
// CHECK-NEXT:     %3 = tsr_graph.ge %1, %2
// CHECK-NEXT:     %4 = tsr_graph.where %3, %0, %in4
// CHECK-NEXT:     %5 = tsr_graph.cast %4
// CHECK-NEXT:     %6 = tsr_graph.reduce "max" %5 rank 1 loose : tensor<2x4x512x512xf32> -> tensor<2x4x512x1xf32>
// CHECK-NEXT:     %7 = tsr_graph.sub %5, %6
// CHECK-NEXT:     %8 = tsr_graph.exp %7 {weight}
// CHECK-NEXT:     %9 = tsr_graph.reduce "sum" %8 rank 1 : tensor<2x4x512x512xf32> -> tensor<2x4x512x1xf32>
// CHECK-NEXT:     %10 = tsr_graph.reciprocal %9
// CHECK-NEXT:     %11 = tsr_graph.matmul %8, %in1
// CHECK-NEXT:     %12 = tsr_graph.mul %11, %10
// CHECK-NEXT:     %13 = tsr_graph.cast %12
// CHECK-NEXT:     tsr_sched.yield %13 : tensor<2x4x512x64xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v15 = tsr_sched.kernel @k10 at 10 steps [0, 2, 7, 8, 9, 10] inputs [11, 1, 3, 4, 2] outputs [15] strides {{\[}}[], [], [], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_b = true}
// CHECK-NEXT:     %1 = tsr_graph.iota %in2, %in3 {axis = 0 : i64}
// CHECK-NEXT:     %2 = tsr_graph.iota %in2, %in3
// CHECK-NEXT:     %3 = tsr_graph.ge %1, %2
// CHECK-NEXT:     %4 = tsr_graph.where %3, %0, %in4
// CHECK-NEXT:     %5 = tsr_graph.cast %4
// CHECK-NEXT:     %6 = tsr_graph.reduce "max" %5 rank 1 loose : tensor<2x4x512x512xf32> -> tensor<2x4x512x1xf32>
// CHECK-NEXT:     %7 = tsr_graph.sub %5, %6
// CHECK-NEXT:     %8 = tsr_graph.exp %7 {weight}
// CHECK-NEXT:     %9 = tsr_graph.reduce "sum" %8 rank 1 : tensor<2x4x512x512xf32> -> tensor<2x4x512x1xf32>
// CHECK-NEXT:     %10 = tsr_graph.reciprocal %9
// CHECK-NEXT:     %11 = tsr_graph.matmul %8, %in1
// CHECK-NEXT:     %12 = tsr_graph.mul %11, %10
// CHECK-NEXT:     %13 = tsr_graph.cast %12
// CHECK-NEXT:     tsr_sched.yield %13 : tensor<2x4x512x64xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!q = tensor<2x4x512x64xbf16>
!s = tensor<2x4x512x512xbf16>
!n = tensor<bf16>
!i = tensor<i64>
!p = tensor<512xi64>
!c = tensor<512x1xi64>
!m = tensor<512x512xi1>
tsr_graph.trace "positions" values [0, 1, 2, 3, 4] strides [[], [], [], [], []] (%v0: !q, %v1: !q, %v2: !n, %v3: !i, %v4: !i) {
  %v5 = tsr_graph.iota %v3, %v4 step 0 values [5] until [2] : (!i, !i) -> !p
  %v6 = tsr_graph.unsqueeze %v5 step 1 values [6] until [2] {tsr.strides = array<i64>} : (!p) -> !c
  %v7 = tsr_graph.ge %v6, %v5 step 2 values [7] until [8] : (!c, !p) -> !m
  %v8 = tsr_graph.matmul %v0, %v1 step 3 values [8] until [4] {transpose_b = true} : (!q, !q) -> !s
  %v9 = tsr_graph.where %v7, %v8, %v2 step 4 values [9] until [5] : (!m, !s, !n) -> !s
  %v10 = tsr_graph.softmax %v9 step 5 values [10] until [6] {axis = -1 : i64} : (!s) -> !s
  %v11 = tsr_graph.matmul %v10, %v1 step 6 values [11] until [7] : (!s, !q) -> !q
  %v12 = tsr_graph.matmul %v11, %v1 step 7 values [12] until [8] {transpose_b = true} : (!q, !q) -> !s
  %v13 = tsr_graph.where %v7, %v12, %v2 step 8 values [13] until [9] : (!m, !s, !n) -> !s
  %v14 = tsr_graph.softmax %v13 step 9 values [14] until [10] {axis = -1 : i64} : (!s) -> !s
  %v15 = tsr_graph.matmul %v14, %v1 step 10 values [15] until [end] : (!s, !q) -> !q
}

// -----
// Scores that are needed elsewhere are in memory, and so they are everywhere.
// CHECK-LABEL: tsr_graph.trace "needed"
// CHECK-NEXT:   %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [end] {transpose_b = true}
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k1 at 1 steps [1] inputs [3] outputs [4] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.cast %in0
// CHECK-NEXT:     %1 = tsr_graph.reduce "max" %0 rank 1 loose : tensor<2x4x512x512xf32> -> tensor<2x4x512x1xf32>
// CHECK-NEXT:     %2 = tsr_graph.sub %0, %1
// CHECK-NEXT:     %3 = tsr_graph.exp %2 {weight}
// CHECK-NEXT:     %4 = tsr_graph.reduce "sum" %3 rank 1 : tensor<2x4x512x512xf32> -> tensor<2x4x512x1xf32>
// CHECK-NEXT:     %5 = tsr_graph.reciprocal %4
// CHECK-NEXT:     %6 = tsr_graph.mul %3, %5
// CHECK-NEXT:     %7 = tsr_graph.cast %6
// CHECK-NEXT:     tsr_sched.yield %7 : tensor<2x4x512x512xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!q = tensor<2x4x512x64xbf16>
!s = tensor<2x4x512x512xbf16>
tsr_graph.trace "needed" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !q, %v2: !q) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [end] {transpose_b = true} : (!q, !q) -> !s
  %v4 = tsr_graph.softmax %v3 step 1 values [4] until [2] {axis = -1 : i64} : (!s) -> !s
  %v5 = tsr_graph.matmul %v4, %v2 step 2 values [5] until [end] : (!s, !q) -> !q
}

// -----
// Heads of 256 elements have no room in registers, and few queries are the library's.
// CHECK-LABEL: tsr_graph.trace "wide"
// CHECK-NEXT:   %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true}
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k1 at 1 steps [1] inputs [3] outputs [4] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.cast %in0
// CHECK-NEXT:     %1 = tsr_graph.reduce "max" %0 rank 1 loose : tensor<2x4x512x512xf32> -> tensor<2x4x512x1xf32>
// CHECK-NEXT:     %2 = tsr_graph.sub %0, %1
// CHECK-NEXT:     %3 = tsr_graph.exp %2 {weight}
// CHECK-NEXT:     %4 = tsr_graph.reduce "sum" %3 rank 1 : tensor<2x4x512x512xf32> -> tensor<2x4x512x1xf32>
// CHECK-NEXT:     %5 = tsr_graph.reciprocal %4
// CHECK-NEXT:     %6 = tsr_graph.mul %3, %5
// CHECK-NEXT:     %7 = tsr_graph.cast %6
// CHECK-NEXT:     tsr_sched.yield %7 : tensor<2x4x512x512xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!q = tensor<2x4x512x256xbf16>
!s = tensor<2x4x512x512xbf16>
tsr_graph.trace "wide" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !q, %v2: !q) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true} : (!q, !q) -> !s
  %v4 = tsr_graph.softmax %v3 step 1 values [4] until [2] {axis = -1 : i64} : (!s) -> !s
  %v5 = tsr_graph.matmul %v4, %v2 step 2 values [5] until [end] : (!s, !q) -> !q
}

// -----
// CHECK-LABEL: tsr_graph.trace "few"
// CHECK-NEXT:   %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true}
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k1 at 1 steps [1] inputs [3] outputs [4] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.cast %in0
// CHECK-NEXT:     %1 = tsr_graph.reduce "max" %0 rank 1 loose : tensor<2x4x8x512xf32> -> tensor<2x4x8x1xf32>
// CHECK-NEXT:     %2 = tsr_graph.sub %0, %1
// CHECK-NEXT:     %3 = tsr_graph.exp %2 {weight}
// CHECK-NEXT:     %4 = tsr_graph.reduce "sum" %3 rank 1 : tensor<2x4x8x512xf32> -> tensor<2x4x8x1xf32>
// CHECK-NEXT:     %5 = tsr_graph.reciprocal %4
// CHECK-NEXT:     %6 = tsr_graph.mul %3, %5
// CHECK-NEXT:     %7 = tsr_graph.cast %6
// CHECK-NEXT:     tsr_sched.yield %7 : tensor<2x4x8x512xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!q = tensor<2x4x8x64xbf16>
!k = tensor<2x4x512x64xbf16>
!s = tensor<2x4x8x512xbf16>
tsr_graph.trace "few" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !k, %v2: !k) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true} : (!q, !k) -> !s
  %v4 = tsr_graph.softmax %v3 step 1 values [4] until [2] {axis = -1 : i64} : (!s) -> !s
  %v5 = tsr_graph.matmul %v4, %v2 step 2 values [5] until [end] : (!s, !k) -> !q
}

// -----
// The op has kernels of its own in tier 1.
// CHECK-LABEL: tsr_graph.trace "op"
// CHECK-NEXT: }
!q = tensor<2x4x512x64xbf16>
tsr_graph.trace "op" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !q, %v2: !q) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] : (!q, !q, !q) -> !q
}
