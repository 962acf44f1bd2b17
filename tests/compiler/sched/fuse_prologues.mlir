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

// -----
// What is computed element by element for the left factor alone is in the product's kernel: with rows, columns, numbers
// and casts that others need as well.
// CHECK-LABEL: tsr_graph.trace "computed"
// CHECK-NEXT:   %v12 = tsr_sched.kernel @k6 at 6 steps [0, 1, 2, 3, 4, 5, 6] inputs [3, 0, 1, 2, 5, 4] outputs [12] strides {{\[}}[-1], [-1, 1], [], [], [], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.cast %in0
// CHECK-NEXT:     %1 = tsr_graph.mul %in1, %in2
// CHECK-NEXT:     %2 = tsr_graph.add %1, %in3
// CHECK-NEXT:     %3 = tsr_graph.add %2, %0
// CHECK-NEXT:     %4 = tsr_graph.cast %in4
// CHECK-NEXT:     %5 = tsr_graph.mul %3, %4
// CHECK-NEXT:     %6 = tsr_graph.gelu %5
// CHECK-NEXT:     %7 = tsr_graph.matmul %6, %in5
// CHECK-NEXT:     %8 = tsr_graph.mul %7, %4
// CHECK-NEXT:     tsr_sched.yield %8 : tensor<?x?xf32, [0, 2]>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<?x?xf32, [0, 1]>
!h = tensor<?xbf16, [1]>
!c = tensor<?x1xf32, [0, -1]>
!r = tensor<?xf32, [1]>
!w = tensor<?x?xf32, [1, 2]>
!y = tensor<?x?xf32, [0, 2]>
!s = tensor<f64>
!f = tensor<f32>
tsr_graph.trace "computed" values [0, 1, 2, 3, 4, 5] strides [[-1, 1], [], [], [-1], [], []] likely [128, 128, 64]
    (%v0: !x, %v1: !c, %v2: !r, %v3: !h, %v4: !w, %v5: !s) {
  %c0 = "tsr_graph.cast"(%v3) : (!h) -> !r
  %v6 = tsr_graph.mul %v0, %v1 step 0 values [6] until [1] : (!x, !c) -> !x
  %v7 = tsr_graph.add %v6, %v2 step 1 values [7] until [2] : (!x, !r) -> !x
  %v8 = tsr_graph.add %v7, %c0 step 2 values [8] until [3] : (!x, !r) -> !x
  %c1 = "tsr_graph.cast"(%v5) : (!s) -> !f
  %v9 = tsr_graph.mul %v8, %c1 step 3 values [9] until [4] : (!x, !f) -> !x
  %v10 = tsr_graph.gelu %v9 step 4 values [10] until [5] : (!x) -> !x
  %v11 = tsr_graph.matmul %v10, %v4 step 5 values [11] until [6] : (!x, !w) -> !y
  %v12 = tsr_graph.mul %v11, %c1 step 6 values [12] until [end] : (!y, !f) -> !y
}

// -----
// Two operands as large as the factor are read faster by a kernel of their own.
// CHECK-LABEL: tsr_graph.trace "gated"
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [4] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.silu %in0
// CHECK-NEXT:     %1 = tsr_graph.mul %0, %in1
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v5 = tsr_sched.kernel @k2 at 2 steps [2] inputs [4, 2] outputs [5] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<64x64xf32>
tsr_graph.trace "gated" values [0, 1, 2] strides [[], [], []] (%v0: !x, %v1: !x, %v2: !x) {
  %v3 = tsr_graph.silu %v0 step 0 values [3] until [1] : (!x) -> !x
  %v4 = tsr_graph.mul %v3, %v1 step 1 values [4] until [2] : (!x, !x) -> !x
  %v5 = tsr_graph.matmul %v4, %v2 step 2 values [5] until [end] : (!x, !x) -> !x
}

// -----
// One op is enough, rows may follow, and batches are those of the result.
// CHECK-LABEL: tsr_graph.trace "rows_follow"
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0, 1] outputs [4] strides {{\[}}[], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.relu %in0
// CHECK-NEXT:     %1 = tsr_graph.matmul %0, %in1
// CHECK-NEXT:     %2 = tsr_graph.softmax %1 {axis = -1 : i64}
// CHECK-NEXT:     tsr_sched.yield %2 : tensor<3x64x64xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<3x64x64xbf16>
!w = tensor<64x64xbf16>
tsr_graph.trace "rows_follow" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.relu %v0 step 0 values [2] until [1] : (!x) -> !x
  %v3 = tsr_graph.matmul %v2, %v1 step 1 values [3] until [2] : (!x, !w) -> !x
  %v4 = tsr_graph.softmax %v3 step 2 values [4] until [end] {axis = -1 : i64} : (!x) -> !x
}

// -----
// Needed afterwards, needed by another op, and by the product twice.
// CHECK-LABEL: tsr_graph.trace "needed"
// CHECK-NEXT:   %v2 = tsr_graph.relu %v0 step 0 values [2] until [end]
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [1] inputs [2, 1] outputs [3] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v4 = tsr_graph.relu %v0 step 2 values [4] until [4]
// CHECK-NEXT:   %v6 = tsr_sched.kernel @k4 at 4 steps [3, 4] inputs [4, 1] outputs [6] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.add %0, %in0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v7 = tsr_graph.relu %v0 step 5 values [7] until [6]
// CHECK-NEXT:   %v8 = tsr_sched.kernel @k6 at 6 steps [6] inputs [7] outputs [8] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in0
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<64x64xf32>
tsr_graph.trace "needed" values [0, 1] strides [[], []] (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.relu %v0 step 0 values [2] until [end] : (!x) -> !x
  %v3 = tsr_graph.matmul %v2, %v1 step 1 values [3] until [end] : (!x, !x) -> !x
  %v4 = tsr_graph.relu %v0 step 2 values [4] until [4] : (!x) -> !x
  %v5 = tsr_graph.matmul %v4, %v1 step 3 values [5] until [4] : (!x, !x) -> !x
  %v6 = tsr_graph.add %v5, %v4 step 4 values [6] until [end] : (!x, !x) -> !x
  %v7 = tsr_graph.relu %v0 step 5 values [7] until [6] : (!x) -> !x
  %v8 = tsr_graph.matmul %v7, %v7 step 6 values [8] until [end] : (!x, !x) -> !x
}

// -----
// The right factor, a transposed one, one that is the same for all batches, and few rows, which are read where they lie.
// CHECK-LABEL: tsr_graph.trace "elsewhere"
// CHECK-NEXT:   %v6 = tsr_graph.relu %v0 step 0 values [6] until [1]
// CHECK-NEXT:   %v7 = tsr_sched.kernel @k1 at 1 steps [1] inputs [4, 6] outputs [7] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v8 = tsr_graph.relu %v1 step 2 values [8] until [3]
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k3 at 3 steps [3] inputs [8, 4] outputs [9] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_a = true}
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v10 = tsr_graph.relu %v2 step 4 values [10] until [5]
// CHECK-NEXT:   %v11 = tsr_sched.kernel @k5 at 5 steps [5] inputs [10, 5] outputs [11] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<3x64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v12 = tsr_graph.relu %v3 step 6 values [12] until [7]
// CHECK-NEXT:   %v13 = tsr_sched.kernel @k7 at 7 steps [7] inputs [12, 4] outputs [13] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<4x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<64x64xf32>
!b = tensor<3x64x64xf32>
!t = tensor<4x64xf32>
tsr_graph.trace "elsewhere" values [0, 1, 2, 3, 4, 5] strides [[], [], [], [], [], []]
    (%v0: !x, %v1: !x, %v2: !x, %v3: !t, %v4: !x, %v5: !b) {
  %v6 = tsr_graph.relu %v0 step 0 values [6] until [1] : (!x) -> !x
  %v7 = tsr_graph.matmul %v4, %v6 step 1 values [7] until [end] : (!x, !x) -> !x
  %v8 = tsr_graph.relu %v1 step 2 values [8] until [3] : (!x) -> !x
  %v9 = tsr_graph.matmul %v8, %v4 step 3 values [9] until [end] {transpose_a = true} : (!x, !x) -> !x
  %v10 = tsr_graph.relu %v2 step 4 values [10] until [5] : (!x) -> !x
  %v11 = tsr_graph.matmul %v10, %v5 step 5 values [11] until [end] : (!x, !b) -> !b
  %v12 = tsr_graph.relu %v3 step 6 values [12] until [7] : (!t) -> !t
  %v13 = tsr_graph.matmul %v12, %v4 step 7 values [13] until [end] : (!t, !x) -> !t
}

// -----
// Rows, and what follows another product, have kernels of their own.
// CHECK-LABEL: tsr_graph.trace "others_before"
// CHECK-NEXT:   %v2 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [2] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.softmax %in0 {axis = -1 : i64}
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k2 at 2 steps [1, 2] inputs [2, 1] outputs [4] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.relu %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v5 = tsr_sched.kernel @k3 at 3 steps [3] inputs [4, 1] outputs [5] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<64x64xf32>
tsr_graph.trace "others_before" values [0, 1] strides [[], []] (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.softmax %v0 step 0 values [2] until [1] {axis = -1 : i64} : (!x) -> !x
  %v3 = tsr_graph.matmul %v2, %v1 step 1 values [3] until [2] : (!x, !x) -> !x
  %v4 = tsr_graph.relu %v3 step 2 values [4] until [3] : (!x) -> !x
  %v5 = tsr_graph.matmul %v4, %v1 step 3 values [5] until [end] : (!x, !x) -> !x
}

// -----
// A result with many columns is computed by tasks that each would take the exponential; relu is cheap enough for two.
// CHECK-LABEL: tsr_graph.trace "wide"
// CHECK-NEXT:   %v3 = tsr_graph.gelu %v0 step 0 values [3] until [1]
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k1 at 1 steps [1] inputs [3, 2] outputs [4] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<1024x4096xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v6 = tsr_sched.kernel @k3 at 3 steps [2, 3] inputs [1, 2] outputs [6] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.relu %in0
// CHECK-NEXT:     %1 = tsr_graph.matmul %0, %in1
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<1024x4096xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<1024x512xf32>
!w = tensor<512x4096xf32>
!y = tensor<1024x4096xf32>
tsr_graph.trace "wide" values [0, 1, 2] strides [[], [], []] (%v0: !x, %v1: !x, %v2: !w) {
  %v3 = tsr_graph.gelu %v0 step 0 values [3] until [1] : (!x) -> !x
  %v4 = tsr_graph.matmul %v3, %v2 step 1 values [4] until [end] : (!x, !w) -> !y
  %v5 = tsr_graph.relu %v1 step 2 values [5] until [3] : (!x) -> !x
  %v6 = tsr_graph.matmul %v5, %v2 step 3 values [6] until [end] : (!x, !w) -> !y
}

// -----
// The trace may be left at the gather, and what comes before it must be in memory then.
// CHECK-LABEL: tsr_graph.trace "gather_between"
// CHECK-NEXT:   %v4 = tsr_graph.relu %v2 step 0 values [4] until [3]
// CHECK-NEXT:   %v5 = tsr_graph.cast %v3 step 1 values [5] until [4] {dtype = f32}
// CHECK-NEXT:   %v6 = tsr_graph.embedding %v0, %v1 step 2 values [6] until [end]
// CHECK-NEXT:   %v7 = tsr_sched.kernel @k3 at 3 steps [3] inputs [4, 6] outputs [7] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v8 = tsr_sched.kernel @k4 at 4 steps [4] inputs [5, 7] outputs [8] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<64x64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!e = tensor<100x64xf32>
!i = tensor<64xi64>
!x = tensor<64x64xf32>
!h = tensor<64x64xbf16>
tsr_graph.trace "gather_between" values [0, 1, 2, 3] strides [[], [], [], []] (%v0: !e, %v1: !i, %v2: !x, %v3: !h) {
  %v4 = tsr_graph.relu %v2 step 0 values [4] until [3] : (!x) -> !x
  %v5 = tsr_graph.cast %v3 step 1 values [5] until [4] {dtype = f32} : (!h) -> !x
  %v6 = tsr_graph.embedding %v0, %v1 step 2 values [6] until [end] : (!e, !i) -> !x
  %v7 = tsr_graph.matmul %v4, %v6 step 3 values [7] until [end] : (!x, !x) -> !x
  %v8 = tsr_graph.matmul %v5, %v7 step 4 values [8] until [end] : (!x, !x) -> !x
}
