// tsr-fuse: how products on tensor cores are cut, and what a schedule from outside leaves of that
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tsr-fuse | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --schedule='*:form=tensor,cluster=2' --tsr-fuse | FileCheck %s --check-prefix=CLUSTER
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --schedule='*:form=tensor,stages=2' --tsr-fuse | FileCheck %s --check-prefix=STAGES

// A small one has narrow tiles, for more blocks. These have no clusters, so who asks for a cluster gets others.
// CHECK: tsr_sched.kernel @k1 {{.*}}columns = 64{{.*}}form = "tensor"{{.*}}rows = 128{{.*}}stages = 6
// CLUSTER: tsr_sched.kernel @k1 {{.*}}cluster = 2{{.*}}columns = 128{{.*}}form = "tensor"{{.*}}rows = 128
// STAGES: tsr_sched.kernel @k1 {{.*}}columns = 64{{.*}}form = "tensor"{{.*}}rows = 128{{.*}}stages = 2
!x = tensor<320x320xbf16>
tsr_graph.trace "small" values [0, 1] strides [[], []] (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!x, !x) -> !x
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!x) -> !x
}

// -----

// Rows that do not begin at lines of 128 bytes: a tile that fetches less.
// CHECK: tsr_sched.kernel @k1 {{.*}}apart = 0{{.*}}cluster = 2{{.*}}columns = 128{{.*}}form = "tensor"{{.*}}rows = 256
// CLUSTER: tsr_sched.kernel @k1 {{.*}}cluster = 2
// STAGES: tsr_sched.kernel @k1 {{.*}}stages = 2
!x = tensor<4096x4104xbf16>
!w = tensor<4104x4104xbf16>
tsr_graph.trace "across_lines" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!x, !w) -> !x
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!x) -> !x
}

// -----

// The same where they do: groups with tiles of their own.
// CHECK: tsr_sched.kernel @k1 {{.*}}apart = 1{{.*}}columns = 128{{.*}}form = "tensor"{{.*}}rows = 128
// CLUSTER: tsr_sched.kernel @k1 {{.*}}cluster = 2
// STAGES: tsr_sched.kernel @k1 {{.*}}stages = 2
!x = tensor<4096x4096xbf16>
tsr_graph.trace "at_lines" values [0, 1] strides [[], []] (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!x, !x) -> !x
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!x) -> !x
}
