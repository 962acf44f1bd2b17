// tsr-lower-kernels-gpu: sums along columns on a CUDA device, and which of them are left to tier 1
// RUN: tessera-opt %s --split-input-file --target=sm_90 --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s

// 16 columns of f32 for each block, 128 threads down along the rows, four rows at a time: all loads come first. 16384 rows
// come out even. What the threads have goes through shared memory, once for each sum; each warp adds a column.
// CHECK-LABEL: tsr_tile.kernel @k2
// CHECK-SAME: tasks [-4225] unit [] {{.*}} plus 16384 team [512, 16, 2, 0]
// CHECK: scf.for
// CHECK: scf.if
// CHECK: scf.for {{.*}} step %c512_i64 iter_args({{.*}}) -> (vector<4xf64>, vector<4xf32>)
// CHECK-COUNT-8: tsr_tile.load {{.*}} aligned : f32 -> vector<4xf32>
// CHECK-NOT: tsr_tile.load
// CHECK: tsr_tile.map "mul_f32"
// CHECK: tsr_tile.store {{.*}} %out0[{{.*}}] aligned : vector<4xf32> -> f32
// CHECK: tsr_tile.widen
// CHECK: arith.addf {{.*}} : vector<4xf64>
// CHECK: scf.yield
// CHECK: tsr_tile.barrier
// CHECK: tsr_tile.store {{.*}} %scratch[{{.*}}] : vector<4xf64> -> f64
// CHECK: tsr_tile.barrier
// CHECK-COUNT-4: tsr_tile.load %scratch[{{.*}}] : f64 -> f64
// CHECK: tsr_tile.team_reduce "add_f64" {{.*}} threads 32
// CHECK: tsr_tile.barrier
// CHECK: tsr_tile.store {{.*}} %scratch[{{.*}}] : vector<4xf32> -> f32
// CHECK: tsr_tile.barrier
// CHECK: tsr_tile.team_reduce "maximum_f32" {{.*}} threads 32
// CHECK: scf.if
// CHECK: tsr_tile.store {{.*}} %out1
// CHECK: tsr_tile.store {{.*}} %out2
// Odd addresses: a column for each thread.
// CHECK: } else {
// CHECK: tsr_tile.load {{.*}} : f32 -> f32
!t = tensor<16384x4224xf32>
!r = tensor<4224xf32>
tsr_graph.trace "two" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [end] : (!t, !t) -> !t
  %v3 = tsr_graph.sum %v2 step 1 values [3] until [end] {axes = array<i64: 0>} : (!t) -> !r
  %v4 = tsr_graph.max %v2 step 2 values [4] until [end] {axes = array<i64: 0>} : (!t) -> !r
}

// -----

// Rows that are not known: the last ones are loaded again, and count for nothing. Functions take more threads, and fewer
// elements of each.
// CHECK-LABEL: tsr_tile.kernel @k2
// CHECK-SAME: plus 32768 team [1024, 32, 1, 0]
// CHECK: arith.minui
// CHECK: tsr_tile.load {{.*}} aligned : bf16 -> vector<4xf32>
// CHECK: arith.select {{.*}} : vector<4xf32>
// CHECK: tsr_tile.map "mean_f64_row"
!t = tensor<?x?xbf16, [0, 1]>
!r = tensor<1x?xbf16, [-1, 1]>
tsr_graph.trace "mean" values [0] strides [[]] likely [4096, 16384] (%v0: !t) {
  %v1 = tsr_graph.gelu %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.mul %v1, %v0 step 1 values [2] until [2] : (!t, !t) -> !t
  %v3 = tsr_graph.mean %v2 step 2 values [3] until [end] {axes = array<i64: 0>, keepdims = true} : (!t) -> !r
}

// -----

// Too few columns, so many that the last blocks are alone, a sum by itself, and sizes of which nothing is known: tier 1
// has them, and what is before them is a kernel as ever.
// CHECK: tsr_tile.kernel @k1
// CHECK-NOT: tsr_tile.team_reduce
// CHECK: tsr_tile.kernel @k4
// CHECK-NOT: tsr_tile.team_reduce
!t = tensor<16384x1024xf32>
!r = tensor<1024xf32>
!u = tensor<16384x3072xf32>
!s = tensor<3072xf32>
tsr_graph.trace "left" values [0, 1] strides [[], []] (%v0: !t, %v1: !u) {
  %v2 = tsr_graph.mul %v0, %v0 step 0 values [2] until [1] : (!t, !t) -> !t
  %v3 = tsr_graph.exp %v2 step 1 values [3] until [end] : (!t) -> !t
  %v4 = tsr_graph.sum %v3 step 2 values [4] until [end] {axes = array<i64: 0>} : (!t) -> !r
  %v5 = tsr_graph.mul %v1, %v1 step 3 values [5] until [4] : (!u, !u) -> !u
  %v6 = tsr_graph.exp %v5 step 4 values [6] until [end] : (!u) -> !u
  %v7 = tsr_graph.sum %v6 step 5 values [7] until [end] {axes = array<i64: 0>} : (!u) -> !s
}

// -----

// CHECK: module
// CHECK-NOT: tsr_tile.kernel
!t = tensor<16384x4224xf32>
!r = tensor<4224xf32>
tsr_graph.trace "alone" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.sum %v0 step 0 values [1] until [end] {axes = array<i64: 0>} : (!t) -> !r
}
