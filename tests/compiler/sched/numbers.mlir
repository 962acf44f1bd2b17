// tsr-numbers: what is known is built in, casts and all; what is not stays an operand (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-numbers --canonicalize | FileCheck %s

// CHECK-LABEL: tsr_graph.trace "known"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 2] outputs [3] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.number 0.10000000149011612 : tensor<f32>
// CHECK-NEXT:     %1 = tsr_graph.mul %in0, %0
// CHECK-NEXT:     %2 = tsr_graph.cast %in1
// CHECK-NEXT:     %3 = tsr_graph.add %1, %2
// CHECK-NEXT:     tsr_sched.yield %3 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
!n = tensor<f64>
!f = tensor<f32>
tsr_graph.trace "known" values [0, 1, 2] strides [[], [], []] numbers {v1 = 1.000000e-01 : f64} (%v0: !t, %v1: !n, %v2: !n) {
%3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [1, 0, 2] outputs [3] strides [[], [], []] row 0 lanes 16 grain 32768 (%in0 = %v1 : !n, %in1 = %v0 : !t, %in2 = %v2 : !n) -> (!t) {
  %a = tsr_graph.cast %in0 : (!n) -> !f
  %b = tsr_graph.mul %in1, %a : (!t, !f) -> !t
  %c = tsr_graph.cast %in2 : (!n) -> !f
  %d = tsr_graph.add %b, %c : (!t, !f) -> !t
  tsr_sched.yield %d : !t
}
}

// -----
// Rounded once: 2^24 + 1 and a little more is more than halfway to the next f32, and bf16 has no 1.00390625000001.
// CHECK-LABEL: tsr_graph.trace "rounded"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0] outputs [3] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.number 0x4170000020000000 : tensor<f32>
// CHECK-NEXT:     %1 = tsr_graph.number 1.0078125 : tensor<bf16>
// CHECK-NEXT:     %2 = tsr_graph.mul %in0, %1
// CHECK-NEXT:     %3 = tsr_graph.cast %2
// CHECK-NEXT:     %4 = tsr_graph.add %3, %0
// CHECK-NEXT:     tsr_sched.yield %4 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xbf16>
!n = tensor<f64>
!b = tensor<bf16>
!f = tensor<f32>
!o = tensor<8x16xf32>
tsr_graph.trace "rounded" values [0, 1, 2] strides [[], [], []] numbers {v1 = 16777217.000001 : f64, v2 = 1.00390625000001 : f64} (%v0: !t, %v1: !n, %v2: !n) {
%3 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1, 2] outputs [3] strides [[], [], []] row 0 lanes 16 grain 32768 (%in0 = %v0 : !t, %in1 = %v1 : !n, %in2 = %v2 : !n) -> (!o) {
  %a = tsr_graph.cast %in1 : (!n) -> !f
  %b = tsr_graph.cast %in2 : (!n) -> !b
  %c = tsr_graph.mul %in0, %b : (!t, !b) -> !t
  %d = tsr_graph.cast %c : (!t) -> !o
  %e = tsr_graph.add %d, %a : (!o, !f) -> !o
  tsr_sched.yield %e : !o
}
}

// -----
// A kernel of numbers alone stays as it is; so does a cast to f8.
// CHECK-LABEL: tsr_graph.trace "alone"
// CHECK-NEXT:   %v3 = tsr_sched.kernel @k1 at 1 steps [0] inputs [0, 1] outputs [3] strides {{\[}}[], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.add %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<f64>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!n = tensor<f64>
!e = tensor<f8E4M3FN>
tsr_graph.trace "alone" values [0, 1] strides [[], []] numbers {v0 = 3.000000e+00 : f64, v1 = 4.000000e+00 : f64} (%v0: !n, %v1: !n) {
%3 = tsr_sched.kernel @k1 at 1 steps [0] inputs [0, 1] outputs [3] strides [[], []] row 0 lanes 16 grain 32768 (%in0 = %v0 : !n, %in1 = %v1 : !n) -> (!n) {
  %a = tsr_graph.add %in0, %in1 : (!n, !n) -> !n
  tsr_sched.yield %a : !n
}
}

// -----
// Where parts of a result begin is said by the position of an operand, which moves.
// CHECK-LABEL: tsr_graph.trace "updates"
// CHECK-NEXT:   %v4 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [1, 2] outputs [4] strides {{\[}}[], []] row 0 updates {{\[}}[0, 1, 4, 0, 1]]
// CHECK-NEXT:     %0 = tsr_graph.number 2.000000e+00 : tensor<f32>
// CHECK-NEXT:     %1 = tsr_graph.mul %in0, %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<4x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
!p = tensor<4x16xf32>
!n = tensor<f64>
tsr_graph.trace "updates" values [0, 1, 2] strides [[], [], []] numbers {v0 = 2.000000e+00 : f64} (%v0: !n, %v1: !p, %v2: !t) {
%4 = tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 1, 2] outputs [4] strides [[], [], []] row 0 updates [[0, 2, 4, 0, 1]] lanes 16 grain 32768 (%in0 = %v0 : !n, %in1 = %v1 : !p, %in2 = %v2 : !t) -> (!t) {
  %n = tsr_graph.cast %in0 : (!n) -> tensor<f32>
  %a = tsr_graph.mul %in1, %n : (!p, tensor<f32>) -> !p
  tsr_sched.yield %a : !p
}
}
