// tsr-fuse: matrix products (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tsr-fuse --schedule=*:form=library | FileCheck %s --check-prefix=LIBRARY

// Bias, activation and residual join the product; its schedule is chosen for the sizes.
// CHECK-LABEL: tsr_graph.trace "epilogue"
// CHECK-NEXT:   %v7 = tsr_sched.kernel @k3 at 3 steps [0, 1, 2, 3] inputs [0, 1, 2, 3] outputs [7] strides {{\[}}[], [], [], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.add %0, %in2
// CHECK-NEXT:     %2 = tsr_graph.gelu %1
// CHECK-NEXT:     %3 = tsr_graph.add %2, %in3
// CHECK-NEXT:     tsr_sched.yield %3 : tensor<64x48xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// LIBRARY-LABEL: tsr_graph.trace "epilogue"
// LIBRARY-NEXT:   %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1]
// LIBRARY-NEXT:   %v7 = tsr_sched.kernel @k3 at 3 steps [1, 2, 3] inputs [4, 2, 3] outputs [7] strides {{\[}}[], [], []] row 0
// LIBRARY-NEXT:     %0 = tsr_graph.add %in0, %in1
// LIBRARY-NEXT:     %1 = tsr_graph.gelu %0
// LIBRARY-NEXT:     %2 = tsr_graph.add %1, %in2
// LIBRARY-NEXT:     tsr_sched.yield %2 : tensor<64x48xf32>
// LIBRARY-NEXT:   }
// LIBRARY-NEXT: }
!a = tensor<64x32xf32>
!b = tensor<32x48xf32>
!y = tensor<64x48xf32>
tsr_graph.trace "epilogue" values [0, 1, 2, 3] strides [[], [], [], []] (%v0: !a, %v1: !b, %v2: tensor<48xf32>, %v3: !y) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1] : (!a, !b) -> !y
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!y, tensor<48xf32>) -> !y
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!y) -> !y
  %v7 = tsr_graph.add %v6, %v3 step 3 values [7] until [end] : (!y, !y) -> !y
}

// -----
// One product to a kernel: the second one begins another.
// CHECK-LABEL: tsr_graph.trace "two"
// CHECK-NEXT:   %v2 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0] outputs [2] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in0
// CHECK-NEXT:     %1 = tsr_graph.relu %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<16x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k2 at 2 steps [2] inputs [2, 0] outputs [3] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<16x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// LIBRARY-LABEL: tsr_graph.trace "two"
// LIBRARY-NEXT:   %v1 = tsr_graph.matmul %v0, %v0 step 0 values [1] until [1]
// LIBRARY-NEXT:   %v2 = tsr_graph.relu %v1 step 1 values [2] until [2]
// LIBRARY-NEXT:   %v3 = tsr_graph.matmul %v2, %v0 step 2 values [3] until [end]
// LIBRARY-NEXT: }
!t = tensor<16x16xf32>
tsr_graph.trace "two" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.matmul %v0, %v0 step 0 values [1] until [1] : (!t, !t) -> !t
  %v2 = tsr_graph.relu %v1 step 1 values [2] until [2] : (!t) -> !t
  %v3 = tsr_graph.matmul %v2, %v0 step 2 values [3] until [end] : (!t, !t) -> !t
}

// -----
// Rows of short sums stay in the kernel, and another product may follow: attention.
// CHECK-LABEL: tsr_graph.trace "attention"
// CHECK-NEXT:   %v5 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0, 1, 2] outputs [5] strides {{\[}}[], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_b = true}
// CHECK-NEXT:     %1 = tsr_graph.softmax %0 {axis = -1 : i64}
// CHECK-NEXT:     %2 = tsr_graph.matmul %1, %in2
// CHECK-NEXT:     tsr_sched.yield %2 : tensor<2x4x64x32xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// LIBRARY-LABEL: tsr_graph.trace "attention"
// LIBRARY-NEXT:   %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true}
// LIBRARY-NEXT:   %v4 = tsr_sched.kernel @k1 at 1 steps [1] inputs [3] outputs [4] strides {{\[}}[]] row 1
// LIBRARY-NEXT:     %0 = tsr_graph.softmax %in0 {axis = -1 : i64}
// LIBRARY-NEXT:     tsr_sched.yield %0 : tensor<2x4x64x64xf32>
// LIBRARY-NEXT:   }
// LIBRARY-NEXT:   %v5 = tsr_graph.matmul %v4, %v2 step 2 values [5] until [end]
// LIBRARY-NEXT: }
!q = tensor<2x4x64x32xf32>
!s = tensor<2x4x64x64xf32>
tsr_graph.trace "attention" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !q, %v2: !q) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true} : (!q, !q) -> !s
  %v4 = tsr_graph.softmax %v3 step 1 values [4] until [2] {axis = -1 : i64} : (!s) -> !s
  %v5 = tsr_graph.matmul %v4, %v2 step 2 values [5] until [end] : (!s, !q) -> !q
}

// -----
// The sums are long: the norm is a kernel of its own.
// CHECK-LABEL: tsr_graph.trace "norm"
// CHECK-NEXT:   %v2 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1] outputs [2] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<64x1024xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [1] inputs [2] outputs [3] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.rms_norm %in0
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<64x1024xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// LIBRARY-LABEL: tsr_graph.trace "norm"
// LIBRARY-NEXT:   %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1]
// LIBRARY-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [1] inputs [2] outputs [3] strides {{\[}}[]] row 1
// LIBRARY-NEXT:     %0 = tsr_graph.rms_norm %in0
// LIBRARY-NEXT:     tsr_sched.yield %0 : tensor<64x1024xf32>
// LIBRARY-NEXT:   }
// LIBRARY-NEXT: }
!x = tensor<64x1024xf32>
!w = tensor<1024x1024xf32>
tsr_graph.trace "norm" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!x, !w) -> !x
  %v3 = tsr_graph.rms_norm %v2 step 1 values [3] until [end] : (!x) -> !x
}

// -----
// Few rows, of a size that was seen but may be another: no copy of the right factor.
// CHECK-LABEL: tsr_graph.trace "seen"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [3] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.relu %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<?x512xf32, [0, -1]>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// LIBRARY-LABEL: tsr_graph.trace "seen"
// LIBRARY-NEXT:   %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1]
// LIBRARY-NEXT:   %v3 = tsr_graph.relu %v2 step 1 values [3] until [end]
// LIBRARY-NEXT: }
!m = tensor<?x512xf32, [0, -1]>
!r = tensor<512x512xf32>
tsr_graph.trace "seen" values [0, 1] strides [[], []] likely [4] (%v0: !m, %v1: !r) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!m, !r) -> !m
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!m) -> !m
}

// -----
// A single column, integers, vectors and mixed dtypes are the library's.
// CHECK-LABEL: tsr_graph.trace "left"
// CHECK-NEXT:   %v4 = tsr_graph.matmul %v0, %v0 step 0 values [4] until [end]
// CHECK-NEXT:   %v5 = tsr_graph.matmul %v1, %v2 step 1 values [5] until [end]
// CHECK-NEXT:   %v6 = tsr_graph.matmul %v1, %v3 step 2 values [6] until [end]
// CHECK-NEXT: }
// LIBRARY-LABEL: tsr_graph.trace "left"
// LIBRARY-NEXT:   %v4 = tsr_graph.matmul %v0, %v0 step 0 values [4] until [end]
// LIBRARY-NEXT:   %v5 = tsr_graph.matmul %v1, %v2 step 1 values [5] until [end]
// LIBRARY-NEXT:   %v6 = tsr_graph.matmul %v1, %v3 step 2 values [6] until [end]
// LIBRARY-NEXT: }
!i = tensor<8x8xi32>
!f = tensor<8x8xf32>
!d = tensor<8x8xf64>
tsr_graph.trace "left" values [0, 1, 2, 3] strides [[], [], [], []] (%v0: !i, %v1: !f, %v2: !d, %v3: tensor<8x1xf32>) {
  %v4 = tsr_graph.matmul %v0, %v0 step 0 values [4] until [end] : (!i, !i) -> !i
  %v5 = tsr_graph.matmul %v1, %v2 step 1 values [5] until [end] : (!f, !d) -> !d
  %v6 = tsr_graph.matmul %v1, %v3 step 2 values [6] until [end] : (!f, tensor<8x1xf32>) -> tensor<8x1xf32>
}
