// tsr-fuse: single ops that read an operand which lies the other way round (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --target=sm_90 --tsr-fuse | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tsr-fuse | FileCheck %s --check-prefix=HOST

// A CUDA device would read it with a stride; on the host tier 1 does as well.
// HOST-NOT: tsr_sched.kernel
// CHECK-LABEL: tsr_graph.trace "one"
// CHECK-NEXT:   %v2 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1] outputs [2] strides {{\[}}[1, -1], []] row 0
// CHECK-NEXT:     %0 = tsr_graph.add %in0, %in1
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<4096x8192xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// HOST-LABEL: tsr_graph.trace "one"
// HOST-NEXT:   %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [end]
// HOST-NEXT: }
!t = tensor<4096x8192xf32>
tsr_graph.trace "one" values [0, 1] strides [[1, -1], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [end] : (!t, !t) -> !t
}

// -----
// A cast, with dims of 1 at the end.
// CHECK-LABEL: tsr_graph.trace "cast"
// CHECK-NEXT:   %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides {{\[}}[-1, 1, -1, -1]] row 0
// CHECK-NEXT:     %0 = tsr_graph.cast %in0
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<2x4096x8192x1xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// HOST-LABEL: tsr_graph.trace "cast"
// HOST-NEXT:   %v1 = tsr_graph.cast %v0 step 0 values [1] until [end]
// HOST-NEXT: }
!t = tensor<2x4096x8192x1xf32>
!b = tensor<2x4096x8192x1xbf16>
tsr_graph.trace "cast" values [0] strides [[-1, 1, -1, -1]] (%v0: !t) {
  %v1 = tsr_graph.cast %v0 step 0 values [1] until [end] : (!t) -> !b
}

// -----
// Tier 1 copies through shared memory, too, but by single elements.
// CHECK-LABEL: tsr_graph.trace "copy"
// CHECK-NEXT:   %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides {{\[}}[1, -1]] row 0
// CHECK-NEXT:     %0 = tsr_graph.copy %in0
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<4096x8192xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
// HOST-LABEL: tsr_graph.trace "copy"
// HOST-NEXT:   %v1 = tsr_graph.copy %v0 step 0 values [1] until [end]
// HOST-NEXT: }
!t = tensor<4096x8192xf32>
tsr_graph.trace "copy" values [0] strides [[1, -1]] (%v0: !t) {
  %v1 = tsr_graph.copy %v0 step 0 values [1] until [end] : (!t) -> !t
}

// -----
// Three columns are too few.
// CHECK-LABEL: tsr_graph.trace "narrow"
// CHECK-NEXT:   %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [end]
// CHECK-NEXT: }
// HOST-LABEL: tsr_graph.trace "narrow"
// HOST-NEXT:   %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [end]
// HOST-NEXT: }
!t = tensor<?x3xf32, [0, -1]>
tsr_graph.trace "narrow" values [0, 1] strides [[1, -1], []] likely [4096] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [end] : (!t, !t) -> !t
}

// -----
// No dim that it runs along is known.
// CHECK-LABEL: tsr_graph.trace "steps"
// CHECK-NEXT:   %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [end]
// CHECK-NEXT: }
// HOST-LABEL: tsr_graph.trace "steps"
// HOST-NEXT:   %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [end]
// HOST-NEXT: }
!t = tensor<4096x8192xf32>
tsr_graph.trace "steps" values [0, 1] strides [[-1, -1], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [end] : (!t, !t) -> !t
}
