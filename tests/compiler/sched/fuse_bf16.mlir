// tsr-fuse: products of bf16 where the core has instructions for them (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse --library-bf16 | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tsr-fuse | FileCheck %s --check-prefix=OWN

// One with weights is the core's; what follows it is one kernel.
// CHECK-LABEL: tsr_graph.trace "weights"
// CHECK-NEXT:   %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1]
// CHECK-NEXT:   %v5 = tsr_sched.kernel @k2 at 2 steps [1, 2] inputs [3, 2] outputs [5] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.add %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.gelu %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<64x48xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// OWN-LABEL: tsr_graph.trace "weights"
// OWN-NEXT:   %v5 = tsr_sched.kernel @k2 at 2 steps [0, 1, 2] inputs [0, 1, 2] outputs [5] strides {{\[}}[], [], []] row 0
// OWN-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// OWN-NEXT:     %1 = tsr_graph.add %0, %in2
// OWN-NEXT:     %2 = tsr_graph.gelu %1
// OWN-NEXT:     tsr_sched.yield %2 : tensor<64x48xbf16>
// OWN-NEXT:   }
// OWN-NEXT: }
!a = tensor<64x32xbf16>
!y = tensor<64x48xbf16>
tsr_graph.trace "weights" values [0, 1, 2] strides [[], [], []] (%v0: !a, %v1: tensor<32x48xbf16>, %v2: tensor<48xbf16>) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] : (!a, tensor<32x48xbf16>) -> !y
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [2] : (!y, tensor<48xbf16>) -> !y
  %v5 = tsr_graph.gelu %v4 step 2 values [5] until [end] : (!y) -> !y
}

// -----
// A batch of them may be part of attention, and stays.
// CHECK-LABEL: tsr_graph.trace "batch"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [3] strides {{\[}}[], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_b = true}
// CHECK-NEXT:     %1 = tsr_graph.softmax %0 {axis = -1 : i64}
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<2x64x64xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// OWN-LABEL: tsr_graph.trace "batch"
// OWN-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [3] strides {{\[}}[], []] row 1
// OWN-NEXT:     %0 = tsr_graph.matmul %in0, %in1 {transpose_b = true}
// OWN-NEXT:     %1 = tsr_graph.softmax %0 {axis = -1 : i64}
// OWN-NEXT:     tsr_sched.yield %1 : tensor<2x64x64xbf16>
// OWN-NEXT:   }
// OWN-NEXT: }
!q = tensor<2x64x32xbf16>
!s = tensor<2x64x64xbf16>
tsr_graph.trace "batch" values [0, 1] strides [[], []] (%v0: !q, %v1: !q) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_b = true} : (!q, !q) -> !s
  %v3 = tsr_graph.softmax %v2 step 1 values [3] until [end] {axis = -1 : i64} : (!s) -> !s
}

// -----
// So does one of another type.
// CHECK-LABEL: tsr_graph.trace "half"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [3] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// CHECK-NEXT:     %1 = tsr_graph.relu %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<64x48xf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// OWN-LABEL: tsr_graph.trace "half"
// OWN-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [3] strides {{\[}}[], []] row 0
// OWN-NEXT:     %0 = tsr_graph.matmul %in0, %in1
// OWN-NEXT:     %1 = tsr_graph.relu %0
// OWN-NEXT:     tsr_sched.yield %1 : tensor<64x48xf16>
// OWN-NEXT:   }
// OWN-NEXT: }
!h = tensor<64x32xf16>
tsr_graph.trace "half" values [0, 1] strides [[], []] (%v0: !h, %v1: tensor<32x48xf16>) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!h, tensor<32x48xf16>) -> tensor<64x48xf16>
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (tensor<64x48xf16>) -> tensor<64x48xf16>
}
