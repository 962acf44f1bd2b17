// tsr-fuse: ops that read the same tensor share a kernel, which reads it once; ops that read the same number do not.
// RUN: tessera-opt %s --tsr-fuse | FileCheck %s

// CHECK-LABEL: tsr_graph.trace "tensor"
// CHECK: tsr_sched.kernel @k3 at 3 steps [0, 1, 2, 3] inputs [0, 2, 1] outputs [4, 6]
// CHECK-LABEL: tsr_graph.trace "number"
// CHECK: tsr_sched.kernel @k1 at 1 steps [0, 1] inputs [0, 2] outputs [4]
// CHECK: tsr_sched.kernel @k3 at 3 steps [2, 3] inputs [1, 2] outputs [6]
!t = tensor<64xf32>
!n = tensor<f32>
tsr_graph.trace "tensor" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !t, %v2: !t) {
  %v3 = tsr_graph.mul %v0, %v2 step 0 values [3] until [1] : (!t, !t) -> !t
  %v4 = tsr_graph.neg %v3 step 1 values [4] until [end] : (!t) -> !t
  %v5 = tsr_graph.mul %v1, %v2 step 2 values [5] until [3] : (!t, !t) -> !t
  %v6 = tsr_graph.neg %v5 step 3 values [6] until [end] : (!t) -> !t
}
tsr_graph.trace "number" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !t, %v2: !n) {
  %v3 = tsr_graph.mul %v0, %v2 step 0 values [3] until [1] : (!t, !n) -> !t
  %v4 = tsr_graph.neg %v3 step 1 values [4] until [end] : (!t) -> !t
  %v5 = tsr_graph.mul %v1, %v2 step 2 values [5] until [3] : (!t, !n) -> !t
  %v6 = tsr_graph.neg %v5 step 3 values [6] until [end] : (!t) -> !t
}
