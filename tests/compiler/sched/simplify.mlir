// tsr-simplify: each rule, and what is none (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-simplify --cse | FileCheck %s

// Only v1 * v0 is left of all this.
// CHECK-LABEL: tsr_graph.trace "rules"
// CHECK-NEXT:   %v1 = tsr_sched.kernel @k9 at 9 steps [0, 9] inputs [0] outputs [1] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.mul %in0, %in0
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "rules" values [0] strides [[]] (%v0: !t) {
%1 = tsr_sched.kernel @k9 at 9 steps [0, 9] inputs [0] outputs [1] strides [[]] row 0 lanes 16 grain 32768 (%in0 = %v0 : !t) -> (!t) {
  %one = tsr_graph.number 1.0 : tensor<f32>
  %zero = tsr_graph.number 0.0 : tensor<f32>
  %minus = tsr_graph.number -0.0 : tensor<f32>
  %a = tsr_graph.mul %in0, %one : (!t, tensor<f32>) -> !t
  %b = tsr_graph.sub %a, %zero : (!t, tensor<f32>) -> !t
  %c = tsr_graph.add %b, %minus : (!t, tensor<f32>) -> !t
  %d = tsr_graph.neg %c : (!t) -> !t
  %e = tsr_graph.neg %d : (!t) -> !t
  %f = tsr_graph.maximum %e, %e : (!t, !t) -> !t
  %g = tsr_graph.copy %f : (!t) -> !t
  %h = tsr_graph.mul %g, %in0 : (!t, !t) -> !t
  tsr_sched.yield %h : !t
}
}

// -----
// x + 0 turns -0 into 0; x / 3 has no exact reciprocal; x / 4 has.
// CHECK-LABEL: tsr_graph.trace "none"
// CHECK-NEXT:   %v1 = tsr_sched.kernel @k9 at 9 steps [0, 9] inputs [0] outputs [1] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.number 0.000000e+00 : tensor<f32>
// CHECK-NEXT:     %1 = tsr_graph.number 3.000000e+00 : tensor<f32>
// CHECK-NEXT:     %2 = tsr_graph.add %in0, %0
// CHECK-NEXT:     %3 = tsr_graph.div %2, %1
// CHECK-NEXT:     %4 = tsr_graph.number 2.500000e-01 : tensor<f32>
// CHECK-NEXT:     %5 = tsr_graph.mul %3, %4
// CHECK-NEXT:     tsr_sched.yield %5 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x16xf32>
tsr_graph.trace "none" values [0] strides [[]] (%v0: !t) {
%1 = tsr_sched.kernel @k9 at 9 steps [0, 9] inputs [0] outputs [1] strides [[]] row 0 lanes 16 grain 32768 (%in0 = %v0 : !t) -> (!t) {
  %zero = tsr_graph.number 0.0 : tensor<f32>
  %three = tsr_graph.number 3.0 : tensor<f32>
  %four = tsr_graph.number 4.0 : tensor<f32>
  %a = tsr_graph.add %in0, %zero : (!t, tensor<f32>) -> !t
  %b = tsr_graph.div %a, %three : (!t, tensor<f32>) -> !t
  %c = tsr_graph.div %b, %four : (!t, tensor<f32>) -> !t
  tsr_sched.yield %c : !t
}
}

// -----
// Through a wider dtype nothing is lost; through a narrower one something is.
// CHECK-LABEL: tsr_graph.trace "casts"
// CHECK-NEXT:   %v1, %v2 = tsr_sched.kernel @k9 at 9 steps [0, 9] inputs [0] outputs [1, 2] strides {{\[}}[]] row 0
// CHECK-NEXT:     %0 = tsr_graph.cast %in0
// CHECK-NEXT:     %1 = tsr_graph.cast %in0
// CHECK-NEXT:     %2 = tsr_graph.relu %1
// CHECK-NEXT:     tsr_sched.yield %0, %2 : tensor<8x16xf64>, tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
!h = tensor<8x16xbf16>
!t = tensor<8x16xf32>
!d = tensor<8x16xf64>
tsr_graph.trace "casts" values [0] strides [[]] (%v0: !h) {
%1, %2 = tsr_sched.kernel @k9 at 9 steps [0, 9] inputs [0] outputs [1, 2] strides [[]] row 0 lanes 16 grain 32768 (%in0 = %v0 : !h) -> (!d, !t) {
  %a = tsr_graph.cast %in0 : (!h) -> !t
  %b = tsr_graph.cast %a : (!t) -> !d
  %c = tsr_graph.cast %b : (!d) -> !h
  %e = tsr_graph.cast %c : (!h) -> !t
  %f = tsr_graph.relu %e : (!t) -> !t
  %g = tsr_graph.relu %f : (!t) -> !t
  tsr_sched.yield %b, %g : !d, !t
}
}

// -----
// Twice not is the bool itself, but of a number it is whether that is not 0.
// CHECK-LABEL: tsr_graph.trace "not_twice"
// CHECK: tsr_graph.logical_not %in0
// CHECK-NEXT: tsr_graph.logical_not
// CHECK-NEXT: tsr_sched.yield
!t = tensor<8x16xf32>
!b = tensor<8x16xi1>
tsr_graph.trace "not_twice" values [0] strides [[]] (%v0: !t) {
%1 = tsr_sched.kernel @k9 at 9 steps [0, 9] inputs [0] outputs [1] strides [[]] row 0 lanes 16 grain 32768 (%in0 = %v0 : !t) -> (!b) {
  %a = tsr_graph.logical_not %in0 : (!t) -> !b
  %b = tsr_graph.logical_not %a : (!b) -> !b
  %c = tsr_graph.logical_not %b : (!b) -> !b
  %d = tsr_graph.logical_not %c : (!b) -> !b
  tsr_sched.yield %d : !b
}
}
