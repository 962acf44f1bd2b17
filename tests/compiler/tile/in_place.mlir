// A result may be where an operand is: at each point everything is read before anything is written.
// RUN: tessera-opt %s --stage=tile --tier=3 | FileCheck %s
// RUN: tessera-opt %s --stage=tile --tier=3 --target=sm_90 | FileCheck %s --check-prefix=GPU

// Vectors, then the rest one by one.
// CHECK: scf.for
// CHECK-DAG: tsr_tile.load %in0
// CHECK-DAG: tsr_tile.load %in1
// CHECK-NOT: tsr_tile.load
// CHECK: tsr_tile.store {{.*}} %out0
// CHECK-NOT: tsr_tile.load
// CHECK: tsr_tile.store {{.*}} %out1
// CHECK: scf.for
// CHECK-DAG: tsr_tile.load %in0
// CHECK-DAG: tsr_tile.load %in1
// CHECK-NOT: tsr_tile.load
// CHECK: tsr_tile.store {{.*}} %out0
// CHECK-NOT: tsr_tile.load
// CHECK: tsr_tile.store {{.*}} %out1

// GPU-LABEL: tsr_tile.kernel @k3
// GPU: tsr_tile.load {{.*}} aligned
// GPU: tsr_tile.load {{.*}} aligned
// GPU-NOT: tsr_tile.load
// GPU: tsr_tile.store {{.*}} %out0{{.*}} aligned
// GPU-NOT: tsr_tile.load
// GPU: tsr_tile.store {{.*}} %out1{{.*}} aligned
// GPU: scf.for
// GPU-DAG: tsr_tile.load %in0
// GPU-DAG: tsr_tile.load %in1
// GPU-NOT: tsr_tile.load
// GPU: tsr_tile.store {{.*}} %out0
// GPU-NOT: tsr_tile.load
// GPU: tsr_tile.store {{.*}} %out1
!t = tensor<16579xf32>
tsr_graph.trace "eager" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.square %v0 step 0 values [2] until [1] : (!t) -> !t
  %v3 = tsr_graph.neg %v2 step 1 values [3] until [end] : (!t) -> !t
  %v4 = tsr_graph.mul %v1, %v0 step 2 values [4] until [3] : (!t, !t) -> !t
  %v5 = tsr_graph.neg %v4 step 3 values [5] until [end] : (!t) -> !t
}
