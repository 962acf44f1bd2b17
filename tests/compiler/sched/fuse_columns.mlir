// tsr-fuse, tsr-decompose: sums along columns and of everything (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose | FileCheck %s

// A gradient, which is needed elsewhere, and its sum over the batch: one kernel, cut for the sizes that were seen.
// CHECK-LABEL: tsr_graph.trace "bias"
// CHECK-NEXT:   %v2, %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [2, 3] strides {{\[}}[], []] row 0 cut [0, 2, 2, 512]
// CHECK-NEXT:     %0 = tsr_graph.mul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.reduce "sum" %0 rank 2 from 0 : tensor<?x?x?xf32, [0, 1, 2]> -> tensor<1x1x?xf32, [-1, -1, 2]>
// CHECK-NEXT:     %2 = tsr_graph.reshape %1
// CHECK-NEXT:     tsr_sched.yield %0, %2 : tensor<?x?x?xf32, [0, 1, 2]>, tensor<?xf32, [2]>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<?x?x?xf32, [0, 1, 2]>
!c = tensor<?xf32, [2]>
tsr_graph.trace "bias" values [0, 1] strides [[], []] likely [16, 128, 512] (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [end] : (!x, !x) -> !x
  %v3 = tsr_graph.sum %v2 step 1 values [3] until [end] {axes = array<i64: 0, 1>} : (!x) -> !c
}

// -----
// Two sums over the same dims share the kernel; the maximum over others, and what uses a sum, do not.
// CHECK-LABEL: tsr_graph.trace "several"
// CHECK-NEXT:   %v2, %v3, %v4 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0, 1] outputs [2, 3, 4] strides {{\[}}[], []] row 0 cut [1, 1, 2048, 64]
// CHECK-NEXT:     %0 = tsr_graph.mul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.cast %0
// CHECK-NEXT:     %2 = tsr_graph.reduce "mean" %1 rank 1 from 1 : tensor<32x8x64xf32> -> tensor<32x1x64xf32>
// CHECK-NEXT:     %3 = tsr_graph.cast %2
// CHECK-NEXT:     %4 = tsr_graph.cast %in0
// CHECK-NEXT:     %5 = tsr_graph.reduce "sum" %4 rank 1 from 1 : tensor<32x8x64xf32> -> tensor<32x1x64xf32>
// CHECK-NEXT:     %6 = tsr_graph.cast %5
// CHECK-NEXT:     tsr_sched.yield %0, %3, %6 : tensor<32x8x64xbf16>, tensor<32x1x64xbf16>, tensor<32x1x64xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v5 = tsr_graph.max %v2 step 3 values [5] until [end] {axes = array<i64: 0, 1>}
// CHECK-NEXT:   %v7 = tsr_sched.kernel @k5 at 5 steps [4, 5] inputs [4, 3] outputs [7] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     %1 = tsr_graph.mul %0, %in1
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<32x1x64xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<32x8x64xbf16>
!c = tensor<32x1x64xbf16>
tsr_graph.trace "several" values [0, 1] strides [[], []] (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [5] : (!x, !x) -> !x
  %v3 = tsr_graph.mean %v2 step 1 values [3] until [end] {axes = array<i64: 1>, keepdims = true} : (!x) -> !c
  %v4 = tsr_graph.sum %v0 step 2 values [4] until [5] {axes = array<i64: 1>, keepdims = true} : (!x) -> !c
  %v5 = tsr_graph.max %v2 step 3 values [5] until [end] {axes = array<i64: 0, 1>} : (!x) -> tensor<64xbf16>
  %v6 = tsr_graph.exp %v4 step 4 values [6] until [5] : (!c) -> !c
  %v7 = tsr_graph.mul %v6, %v3 step 5 values [7] until [end] : (!c, !c) -> !c
}

// -----
// Integers become i64 first. All of it is one row, which is cut.
// CHECK-LABEL: tsr_graph.trace "integers"
// CHECK-NEXT:   %v2 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0] outputs [2] strides {{\[}}[]] row 2 cut [0, 2, 3276, 0]
// CHECK-NEXT:     %0 = tsr_graph.abs %in0
// CHECK-NEXT:     %1 = tsr_graph.cast %0
// CHECK-NEXT:     %2 = tsr_graph.reduce "sum" %1 rank 2 : tensor<300x40xi64> -> tensor<1x1xi64>
// CHECK-NEXT:     %3 = tsr_graph.reshape %2
// CHECK-NEXT:     tsr_sched.yield %3 : tensor<i64>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!i = tensor<300x40xi32>
tsr_graph.trace "integers" values [0] strides [[]] (%v0: !i) {
  %v1 = tsr_graph.abs %v0 step 0 values [1] until [1] : (!i) -> !i
  %v2 = tsr_graph.sum %v1 step 1 values [2] until [end] : (!i) -> tensor<i64>
}

// -----
// Few columns, dims of 1, dims with others between them, and products of elements: tier 1's.
// CHECK-LABEL: tsr_graph.trace "others"
// CHECK-NEXT:   %v3 = tsr_graph.exp %v0 step 0 values [3] until [1]
// CHECK-NEXT:   %v4 = tsr_graph.sum %v3 step 1 values [4] until [end] {axes = array<i64: 0>}
// CHECK-NEXT:   %v5 = tsr_graph.exp %v1 step 2 values [5] until [3]
// CHECK-NEXT:   %v6 = tsr_graph.sum %v5 step 3 values [6] until [end] {axes = array<i64: 0, 1>}
// CHECK-NEXT:   %v7 = tsr_graph.exp %v2 step 4 values [7] until [6]
// CHECK-NEXT:   %v8 = tsr_graph.sum %v7 step 5 values [8] until [end] {axes = array<i64: 0, 2>}
// CHECK-NEXT:   %v9 = tsr_graph.prod %v7 step 6 values [9] until [end] {axes = array<i64: 0, 1, 2>}
// CHECK-NEXT: }
!n = tensor<300x3xf32>
!o = tensor<1x1x64xf32>
!x = tensor<8x9x8x64xf32>
tsr_graph.trace "others" values [0, 1, 2] strides [[], [], []] (%v0: !n, %v1: !o, %v2: !x) {
  %v3 = tsr_graph.exp %v0 step 0 values [3] until [1] : (!n) -> !n
  %v4 = tsr_graph.sum %v3 step 1 values [4] until [end] {axes = array<i64: 0>} : (!n) -> tensor<3xf32>
  %v5 = tsr_graph.exp %v1 step 2 values [5] until [3] : (!o) -> !o
  %v6 = tsr_graph.sum %v5 step 3 values [6] until [end] {axes = array<i64: 0, 1>} : (!o) -> tensor<64xf32>
  %v7 = tsr_graph.exp %v2 step 4 values [7] until [6] : (!x) -> !x
  %v8 = tsr_graph.sum %v7 step 5 values [8] until [end] {axes = array<i64: 0, 2>} : (!x) -> tensor<9x64xf32>
  %v9 = tsr_graph.prod %v7 step 6 values [9] until [end] {axes = array<i64: 0, 1, 2>} : (!x) -> tensor<64xf32>
}

// -----
// Variances and logsumexp along columns are kernels of their own, and join what is cheap to compute twice.
// CHECK-LABEL: tsr_graph.trace "spread"
// CHECK-NEXT:   %v2, %v3 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0] outputs [2, 3] strides {{\[}}[]] row 0 cut [0, 1, 4096, 32]
// CHECK-NEXT:     %0 = tsr_graph.neg %in0
// CHECK-NEXT:     %1 = tsr_graph.reduce "var" %0 rank 1 from 0 correction 1.000000e+00 : tensor<64x32xf32> -> tensor<1x32xf32>
// CHECK-NEXT:     %2 = tsr_graph.reshape %1
// CHECK-NEXT:     %3 = tsr_graph.reduce "logsumexp" %0 rank 1 from 0 : tensor<64x32xf32> -> tensor<1x32xf32>
// CHECK-NEXT:     %4 = tsr_graph.reshape %3
// CHECK-NEXT:     tsr_sched.yield %2, %4 : tensor<32xf32>, tensor<32xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<64x32xf32>
!r = tensor<32xf32>
tsr_graph.trace "spread" values [0] strides [[]] (%v0: !x) {
  %v1 = tsr_graph.neg %v0 step 0 values [1] until [2] : (!x) -> !x
  %v2 = tsr_graph.var %v1 step 1 values [2] until [end] {axes = array<i64: 0>, correction = 1.0 : f64} : (!x) -> !r
  %v3 = tsr_graph.logsumexp %v1 step 2 values [3] until [end] {axes = array<i64: 0>} : (!x) -> !r
}

// -----
// An exponential is computed once, before.
// CHECK-LABEL: tsr_graph.trace "heavy"
// CHECK-NEXT:   %v1 = tsr_graph.gelu %v0 step 0 values [1] until [1]
// CHECK-NEXT:   %v2 = tsr_sched.kernel @k1 at 1 steps [1] inputs [1] outputs [2] strides {{\[}}[]] row 0 cut [0, 1, 4096, 32]
// CHECK-NEXT:     %0 = tsr_graph.reduce "var" %in0 rank 1 from 0 : tensor<64x32xf32> -> tensor<1x32xf32>
// CHECK-NEXT:     %1 = tsr_graph.reshape %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<32xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<64x32xf32>
!r = tensor<32xf32>
tsr_graph.trace "heavy" values [0] strides [[]] (%v0: !x) {
  %v1 = tsr_graph.gelu %v0 step 0 values [1] until [1] : (!x) -> !x
  %v2 = tsr_graph.var %v1 step 1 values [2] until [end] {axes = array<i64: 0>} : (!x) -> !r
}

// -----
// A sum of few elements is worth a kernel of its own, which is done before tier 1 has made its plan; one of many, or of
// an unknown number, is not.
// CHECK-LABEL: tsr_graph.trace "alone"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [3] strides {{\[}}[]] row 0 cut [0, 1, 8192, 16]
// CHECK-NEXT:     %0 = tsr_graph.reduce "sum" %in0 rank 1 from 0 : tensor<8x16xf32> -> tensor<1x16xf32>
// CHECK-NEXT:     %1 = tsr_graph.reshape %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v4 = tsr_graph.sum %v1 step 1 values [4] until [end] {axes = array<i64: 0>}
// CHECK-NEXT:   %v5 = tsr_graph.sum %v2 step 2 values [5] until [end] {axes = array<i64: 0>}
// CHECK-NEXT: }
!x = tensor<8x16xf32>
!r = tensor<16xf32>
!y = tensor<512x16xf32>
!z = tensor<?x16xf32, [0, -1]>
tsr_graph.trace "alone" values [0, 1, 2] strides [[], [], []] likely [8] (%v0: !x, %v1: !y, %v2: !z) {
  %v3 = tsr_graph.sum %v0 step 0 values [3] until [end] {axes = array<i64: 0>} : (!x) -> !r
  %v4 = tsr_graph.sum %v1 step 1 values [4] until [end] {axes = array<i64: 0>} : (!y) -> !r
  %v5 = tsr_graph.sum %v2 step 2 values [5] until [end] {axes = array<i64: 0>} : (!z) -> !r
}

// -----
// So many elements that no number counts them.
// CHECK-LABEL: tsr_graph.trace "huge"
// CHECK-NEXT:   %v1 = tsr_graph.sum %v0 step 0 values [1] until [end] {axes = array<i64: 5>}
// CHECK-NEXT: }
!x = tensor<9000x9000x9000x9000x9000x9000x16xf32>
!r = tensor<9000x9000x9000x9000x9000x16xf32>
tsr_graph.trace "huge" values [0] strides [[]] (%v0: !x) {
  %v1 = tsr_graph.sum %v0 step 0 values [1] until [end] {axes = array<i64: 5>} : (!x) -> !r
}
