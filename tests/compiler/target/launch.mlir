// The plan: one tsr_target.launch, and one function, for exactly those kernels that passed through tsr_tile.
// RUN: tessera-opt %s --stage=sched | FileCheck %s --check-prefix=SCHED
// RUN: tessera-opt %s --stage=tile | FileCheck %s --check-prefix=TILE
// RUN: tessera-opt %s --stage=target | FileCheck %s
// RUN: tessera-opt %s --stage=target | FileCheck %s --check-prefix=FUNCTION
// RUN: diff <(tessera-opt %s --stage=tile | grep -o 'tsr_tile.kernel @k[0-9]*' | grep -o '@.*') \
// RUN:   <(tessera-opt %s --stage=target | grep -o 'tsr_target.launch @k[0-9]*' | grep -o '@.*')
// RUN: diff <(tessera-opt %s --stage=tile | grep -o 'tsr_tile.kernel @k[0-9]*' | grep -o '@.*') \
// RUN:   <(tessera-opt %s --stage=target | grep -o 'llvm.func @k[0-9]*' | grep -o '@.*')
// RUN: diff <(tessera-opt %s --stage=tile --no-fusion --bitwise | grep -o 'tsr_tile.kernel @k[0-9]*' | grep -o '@.*') \
// RUN:   <(tessera-opt %s --stage=target --no-fusion --bitwise | grep -o 'tsr_target.launch @k[0-9]*' | grep -o '@.*')

// SCHED: tsr_sched.kernel @k1
// SCHED: tsr_sched.kernel @k4
// SCHED: tsr_sched.kernel @k6
// SCHED: tsr_sched.kernel @k8

// Nothing of the trace is left. The rows of @k8 are two dims, which its operand's strides keep from being one loop: the
// exp before it is not in it.
// TILE-NOT: tsr_graph
// TILE-NOT: tsr_sched
// TILE: tsr_tile.kernel @k1
// TILE: tsr_tile.kernel @k4
// TILE: tsr_tile.kernel @k6
// TILE: tsr_tile.kernel @k8

// CHECK-NOT: tsr_tile
// A task is an element: 8 * 16 of them, whatever the core knows.
// CHECK: tsr_target.launch @k1 at 1 steps [0, 1] inputs [0] outputs [4] dims [] strides {{\[}}[], []] tasks [-9, -17] unit [] grain 32768 scratch []
// A task is a row of 16, and a thread needs no memory besides: the result holds what is kept.
// CHECK: tsr_target.launch @k4 at 4 steps [3, 4] inputs [4, 1] outputs [6] dims [] strides {{\[}}[], [], []] tasks [-9] unit [-17] grain 32768 scratch []
// As many rows as dim 0 of value 2 has; the stride of that dim is read, too.
// CHECK: tsr_target.launch @k6 at 6 steps [5, 6] inputs [2] outputs [8] dims {{\[}}[2, 0], [2, -1]] strides {{\[}}[-1, 1], []] tasks [0] unit [-17] grain 32768 scratch []
// CHECK: tsr_target.launch @k8 at 8 steps [8]
// CHECK-NOT: tsr_target.launch

// FUNCTION: llvm.func @k1({{.*}}: !llvm.ptr, {{.*}}: !llvm.ptr, {{.*}}: !llvm.ptr, {{.*}}: i64, {{.*}}: i64) {
// FUNCTION-NOT: scf.
// FUNCTION-NOT: arith.
// FUNCTION-NOT: cf.
// FUNCTION: llvm.func @k4
// FUNCTION-NOT: unrealized_conversion_cast
!t = tensor<8x16xf32>
!s = tensor<?x16xf32, [0, -1]>
!u = tensor<4x8x16xf32>
tsr_graph.trace "function" values [0, 1, 2, 10] strides [[], [], [-1, 1], [-1, -1, 1]]
    (%v0: !t, %v1: !t, %v2: !s, %v10: !u) {
  %v3 = tsr_graph.exp %v0 step 0 values [3] until [1] : (!t) -> !t
  %v4 = tsr_graph.neg %v3 step 1 values [4] until [3] : (!t) -> !t
  tsr_graph.step "branch" step 2 values [] until [] : () -> ()
  %v5 = tsr_graph.add %v4, %v1 step 3 values [5] until [4] : (!t, !t) -> !t
  %v6 = tsr_graph.softmax %v5 step 4 values [6] until [end] {axis = 1 : i64} : (!t) -> !t
  %v7 = tsr_graph.exp %v2 step 5 values [7] until [6] : (!s) -> !s
  %v8 = tsr_graph.neg %v7 step 6 values [8] until [end] : (!s) -> !s
  %v11 = tsr_graph.exp %v10 step 7 values [11] until [8] : (!u) -> !u
  %v12 = tsr_graph.rms_norm %v11 step 8 values [12] until [end] {dims = 2 : i64, eps = 1.0e-06 : f64} : (!u) -> !u
}
