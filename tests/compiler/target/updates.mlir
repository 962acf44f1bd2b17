// Where a part begins is a parameter of the launch, as dims are: kernels that write other parts share their code.
// RUN: tessera-opt %s --stage=target | FileCheck %s
// RUN: tessera-opt %s --stage=target --target=sm_90 | FileCheck %s --check-prefix=GPU
// RUN: tessera-opt %s --stage=report | FileCheck %s --check-prefix=REPORT

// CHECK: tsr_target.launch @k1 at 1 steps [0, 1] inputs [0, 2] outputs [5] dims {{\[}}[5, -1000]]
// CHECK: tsr_target.launch @k3 at 3 steps [2, 3] inputs [1, 3] outputs [7] dims {{\[}}[7, -1000]]
// CHECK-SAME: code @k1
// GPU: tsr_target.launch @k1 at 1 steps [0, 1] inputs [0, 2] outputs [5] dims {{\[}}[5, -1000]]
// GPU: tsr_target.launch @k3 at 3 steps [2, 3] inputs [1, 3] outputs [7] dims {{\[}}[7, -1000]]
// GPU-SAME: code @k1
// GPU-SAME: many
// The part is all that is written, and what is updated is not read.
// REPORT: kernel k1 in place of steps 0, 1
// REPORT: reads 2048 bytes
// REPORT: writes 2048 bytes
!u = tensor<8x64xf32>
!x = tensor<9x128xf32>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []] (%v0: !u, %v1: !u, %v2: !x, %v3: !x) {
  %v4 = tsr_graph.exp %v0 step 0 values [4] until [1] : (!u) -> !u
  %v5 = tsr_graph.update_slice %v2, %v4 step 1 values [5] until [end] {starts = array<i64: 1, 0>, steps = array<i64>} : (!x, !u) -> !x
  %v6 = tsr_graph.exp %v1 step 2 values [6] until [3] : (!u) -> !u
  %v7 = tsr_graph.update_slice %v3, %v6 step 3 values [7] until [end] {starts = array<i64: 0, 64>, steps = array<i64>} : (!x, !u) -> !x
}
