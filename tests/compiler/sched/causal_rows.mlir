// tsr-fuse: a causal block computes the keys of its last query for all of its queries, so it is short.
// RUN: tessera-opt %s --split-input-file --tsr-fuse --lanes=64 | FileCheck %s

// CHECK-LABEL: tsr_graph.trace "all"
// CHECK: tsr_sched.kernel @k0 {{.*}}mr = 12{{.*}}rows = 192
!q = tensor<2x8x512x64xf32>
tsr_graph.trace "all" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !q, %v2: !q) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] : (!q, !q, !q) -> !q
}

// -----
// CHECK-LABEL: tsr_graph.trace "causal"
// CHECK: tsr_sched.kernel @k0 {{.*}}mr = 12{{.*}}rows = 48
!q = tensor<2x8x512x64xf32>
tsr_graph.trace "causal" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !q, %v2: !q) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] {causal = true} : (!q, !q, !q) -> !q
}

// -----
// Long rows have room for as many as ever.
// CHECK-LABEL: tsr_graph.trace "long"
// CHECK: tsr_sched.kernel @k0 {{.*}}mr = 12{{.*}}rows = 96
!q = tensor<2x8x1024x64xf32>
tsr_graph.trace "long" values [0, 1, 2] strides [[], [], []] (%v0: !q, %v1: !q, %v2: !q) {
  %v3 = tsr_graph.attention %v0, %v1, %v2 step 0 values [3] until [end] {causal = true} : (!q, !q, !q) -> !q
}
