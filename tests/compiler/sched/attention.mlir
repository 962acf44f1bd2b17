// tsr-fuse, tsr-decompose: the op attention (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --cse | FileCheck %s

// Weights are e^x of numbers that are zero or less; the sum's reciprocal comes after the second product.
// CHECK-LABEL: tsr_graph.trace "plain"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1, 2] outputs [3] strides {{\[}}[], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_b = true}
// CHECK-NEXT:     %1 = tsr_graph.number 0.17677669529663687 : tensor<f32>
// CHECK-NEXT:     %2 = tsr_graph.mul %0, %1
// CHECK-NEXT:     %3 = tsr_graph.reduce "max" %2 rank 1 loose : tensor<2x4x16x16xf32> -> tensor<2x4x16x1xf32>
// CHECK-NEXT:     %4 = tsr_graph.number 0.000000e+00 : tensor<f32>
// CHECK-NEXT:     %5 = tsr_graph.isfinite %3
// CHECK-NEXT:     %6 = tsr_graph.where %5, %3, %4
// CHECK-NEXT:     %7 = tsr_graph.sub %2, %6
// CHECK-NEXT:     %8 = tsr_graph.exp %7 {weight}
// CHECK-NEXT:     %9 = tsr_graph.reduce "sum" %8 rank 1 : tensor<2x4x16x16xf32> -> tensor<2x4x16x1xf32>
// CHECK-NEXT:     %10 = tsr_graph.eq %9, %4
// CHECK-NEXT:     %11 = tsr_graph.reciprocal %9
// CHECK-NEXT:     %12 = tsr_graph.where %10, %4, %11
// CHECK-NEXT:     %13 = tsr_graph.matmul %8, %in2 {transpose_b = false}
// CHECK-NEXT:     %14 = tsr_graph.mul %13, %12
// CHECK-NEXT:     tsr_sched.yield %14 : tensor<2x4x16x32xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!q = tensor<2x4x16x32xf32>
tsr_graph.trace "plain" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !q, %v2: !q) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] : (!q, !q, !q) -> !q
}

// -----
// A depth that is read at run time gives the scale; keys after the query are hidden.
// CHECK-LABEL: tsr_graph.trace "causal"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1, 2] outputs [3] strides {{\[}}[], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_b = true}
// CHECK-NEXT:     %1 = tsr_graph.size %in0 dim 3 : tensor<1x?x?x?xbf16, [-1, 0, 1, 2]> -> tensor<f64>
// CHECK-NEXT:     %2 = tsr_graph.rsqrt %1
// CHECK-NEXT:     %3 = tsr_graph.cast %2
// CHECK-NEXT:     %4 = tsr_graph.mul %0, %3
// CHECK-NEXT:     %5 = tsr_graph.causal %4 : tensor<1x?x?x?xf32, [-1, 0, 1, 1]>
// CHECK-NEXT:     %6 = tsr_graph.reduce "max" %5 rank 1 loose : tensor<1x?x?x?xf32, [-1, 0, 1, 1]> -> tensor<1x?x?x1xf32, [-1, 0, 1, -1]>
// CHECK-NEXT:     %7 = tsr_graph.number 0.000000e+00 : tensor<f32>
// CHECK-NEXT:     %8 = tsr_graph.isfinite %6
// CHECK-NEXT:     %9 = tsr_graph.where %8, %6, %7
// CHECK-NEXT:     %10 = tsr_graph.sub %5, %9
// CHECK-NEXT:     %11 = tsr_graph.exp %10 {weight}
// CHECK-NEXT:     %12 = tsr_graph.reduce "sum" %11 rank 1 : tensor<1x?x?x?xf32, [-1, 0, 1, 1]> -> tensor<1x?x?x1xf32, [-1, 0, 1, -1]>
// CHECK-NEXT:     %13 = tsr_graph.eq %12, %7
// CHECK-NEXT:     %14 = tsr_graph.reciprocal %12
// CHECK-NEXT:     %15 = tsr_graph.where %13, %7, %14
// CHECK-NEXT:     %16 = tsr_graph.matmul %11, %in2 {transpose_b = false}
// CHECK-NEXT:     %17 = tsr_graph.mul %16, %15
// CHECK-NEXT:     %18 = tsr_graph.cast %17
// CHECK-NEXT:     tsr_sched.yield %18 : tensor<1x?x?x?xbf16, [-1, 0, 1, 2]>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!q = tensor<1x?x?x?xbf16, [-1, 0, 1, 2]>
tsr_graph.trace "causal" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !q, %v2: !q) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] {causal = true} : (!q, !q, !q) -> !q
}

// -----
// Fewer heads of keys than of queries: a task has queries of all heads that share keys. The result's dims have other
// names where they were not inferred.
// CHECK-LABEL: tsr_graph.trace "grouped"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1, 2] outputs [3] strides {{\[}}[], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_b = true}
// CHECK-NEXT:     %1 = tsr_graph.number 0.17677669529663687 : tensor<f32>
// CHECK-NEXT:     %2 = tsr_graph.mul %0, %1
// CHECK-NEXT:     %3 = tsr_graph.reduce "max" %2 rank 1 loose : tensor<1x4x16x16xf32> -> tensor<1x4x16x1xf32>
// CHECK-NEXT:     %4 = tsr_graph.number 0.000000e+00 : tensor<f32>
// CHECK-NEXT:     %5 = tsr_graph.isfinite %3
// CHECK-NEXT:     %6 = tsr_graph.where %5, %3, %4
// CHECK-NEXT:     %7 = tsr_graph.sub %2, %6
// CHECK-NEXT:     %8 = tsr_graph.exp %7 {weight}
// CHECK-NEXT:     %9 = tsr_graph.reduce "sum" %8 rank 1 : tensor<1x4x16x16xf32> -> tensor<1x4x16x1xf32>
// CHECK-NEXT:     %10 = tsr_graph.eq %9, %4
// CHECK-NEXT:     %11 = tsr_graph.reciprocal %9
// CHECK-NEXT:     %12 = tsr_graph.where %10, %4, %11
// CHECK-NEXT:     %13 = tsr_graph.matmul %8, %in2 {transpose_b = false}
// CHECK-NEXT:     %14 = tsr_graph.mul %13, %12
// CHECK-NEXT:     tsr_sched.yield %14 : tensor<1x4x16x32xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!q = tensor<1x4x16x32xf32>
!k = tensor<1x2x16x32xf32>
tsr_graph.trace "grouped" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !k, %v2: !k) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] : (!q, !k, !k) -> !q
}

// -----
// CHECK-LABEL: tsr_graph.trace "other_names"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1, 2] outputs [3] strides {{\[}}[], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_b = true}
// CHECK-NEXT:     %1 = tsr_graph.number 0.35355339059327373 : tensor<f32>
// CHECK-NEXT:     %2 = tsr_graph.mul %0, %1
// CHECK-NEXT:     %3 = tsr_graph.reduce "max" %2 rank 1 loose : tensor<1x?x?x?xf32, [-1, 0, 1, 1]> -> tensor<1x?x?x1xf32, [-1, 0, 1, -1]>
// CHECK-NEXT:     %4 = tsr_graph.number 0.000000e+00 : tensor<f32>
// CHECK-NEXT:     %5 = tsr_graph.isfinite %3
// CHECK-NEXT:     %6 = tsr_graph.where %5, %3, %4
// CHECK-NEXT:     %7 = tsr_graph.sub %2, %6
// CHECK-NEXT:     %8 = tsr_graph.exp %7 {weight}
// CHECK-NEXT:     %9 = tsr_graph.reduce "sum" %8 rank 1 : tensor<1x?x?x?xf32, [-1, 0, 1, 1]> -> tensor<1x?x?x1xf32, [-1, 0, 1, -1]>
// CHECK-NEXT:     %10 = tsr_graph.eq %9, %4
// CHECK-NEXT:     %11 = tsr_graph.reciprocal %9
// CHECK-NEXT:     %12 = tsr_graph.where %10, %4, %11
// CHECK-NEXT:     %13 = tsr_graph.matmul %8, %in2 {transpose_b = false}
// CHECK-NEXT:     %14 = tsr_graph.mul %13, %12
// CHECK-NEXT:     %15 = tsr_graph.cast %14
// CHECK-NEXT:     %16 = tsr_graph.reshape %15
// CHECK-NEXT:     tsr_sched.yield %16 : tensor<1x?x?x8xbf16, [-1, 3, 4, -1]>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!q = tensor<1x?x?x8xbf16, [-1, 0, 1, -1]>
!k = tensor<1x?x?x8xbf16, [-1, 2, 1, -1]>
!y = tensor<1x?x?x8xbf16, [-1, 3, 4, -1]>
tsr_graph.trace "other_names" values [0, 1, 2] strides [[], [], []] likely [8, 32, 2, 8, 32] (%v0: !q, %v1: !k, %v2: !k) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] : (!q, !k, !k) -> !y
}

// -----
// Heads of keys that differ from those of values are left to tier 1, which says so.
// CHECK-LABEL: tsr_graph.trace "differ"
// CHECK-NEXT: }
!q = tensor<1x4x16x32xf32>
!k = tensor<1x2x16x32xf32>
!v = tensor<1x1x16x32xf32>
tsr_graph.trace "differ" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !k, %v2: !v) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] : (!q, !k, !v) -> !q
}

// -----
// So is a window: tier 1 leaves out the keys before it.
// CHECK-LABEL: tsr_graph.trace "window"
// CHECK-NEXT: }
!q = tensor<2x4x16x32xf32>
tsr_graph.trace "window" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !q, %v2: !q) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] {causal = true, window = 8 : i64} : (!q, !q, !q) -> !q
}
