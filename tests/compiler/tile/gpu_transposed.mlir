// tsr-lower-kernels-gpu: operands that lie the other way round, through shared memory
// RUN: tessera-opt %s --split-input-file --target=sm_90 --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s

// Squares of 64 x 64: four times 16 bytes of the operand for each thread and four vectors of the other operand are on
// their way before the barrier, or two where functions take registers; elements down a column of the square are 64
// apart. Sizes are multiples of 64: nothing is compared. Odd addresses take one element at a time, and rows of 65.
// CHECK-LABEL: tsr_tile.kernel @k2
// CHECK-SAME: plus 16640 team [256, 4096, 3, 0]
// CHECK: scf.for
// CHECK: scf.if
// CHECK-COUNT-4: tsr_tile.load %in0[{{.*}}] aligned : i32 -> vector<4xi32>
// CHECK-COUNT-2: tsr_tile.load %in1[{{.*}}] aligned : f32 -> vector<4xf32>
// CHECK-NOT: tsr_tile.load
// CHECK-COUNT-4: tsr_tile.store {{.*}} %scratch[{{.*}}] aligned : vector<4xi32> -> i32
// CHECK-NEXT: tsr_tile.barrier
// CHECK: arith.xori
// CHECK: tsr_tile.load %scratch[{{.*}}] stride %c64_i64 : f32 -> vector<4xf32>
// CHECK: tsr_tile.map "exp_f32"
// CHECK: tsr_tile.store {{.*}} %out0[{{.*}}] aligned : vector<4xf32> -> f32
// CHECK-NOT: arith.minui
// CHECK: } else {
// CHECK: scf.for
// CHECK-COUNT-8: tsr_tile.load %in0[{{.*}}] : i32 -> i32
// CHECK-COUNT-8: tsr_tile.store {{.*}} %scratch
// CHECK: tsr_tile.barrier
// CHECK: scf.for
// CHECK-COUNT-4: tsr_tile.load %in1[{{.*}}] : f32 -> f32
// CHECK: arith.muli {{.*}}, %c65_i64
// CHECK: tsr_tile.load %scratch[{{.*}}] : f32 -> f32
// CHECK: tsr_tile.barrier
!t = tensor<8192x4096xf32>
!x = tensor<4096x8192xf32>
tsr_graph.trace "two" values [0, 1] strides [[], []] (%v0: !x, %v1: !t) {
  %v2 = tsr_graph.transpose %v0 step 0 values [2] until [2] {"tsr.strides" = array<i64: 1, -1>} : (!x) -> !t
  %v3 = tsr_graph.exp %v2 step 1 values [3] until [2] : (!t) -> !t
  %v4 = tsr_graph.add %v3, %v1 step 2 values [4] until [end] : (!t, !t) -> !t
}

// -----

// bf16, batches, sizes that are not known: beyond the edges the last elements are read again, and stores have a
// condition. A number for each row is loaded with its row.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK-SAME: plus 8448 team [256, 4096, 3, 0]
// CHECK: arith.minui
// CHECK-COUNT-2: tsr_tile.load %in0[{{.*}}] aligned : i32 -> vector<4xi32>
// CHECK: tsr_tile.load %in1[{{.*}}] : bf16 -> f32
// CHECK: tsr_tile.barrier
// CHECK: tsr_tile.load %scratch[{{.*}}] stride %c64_i64 : bf16 -> vector<8xf32>
// CHECK: tsr_tile.store {{.*}} %out0[{{.*}}] aligned if {{.*}} : vector<8xf32> -> bf16
!t = tensor<?x?x?xbf16, [0, 1, 2]>
!n = tensor<?x1xbf16, [1, -1]>
tsr_graph.trace "batches" values [0, 1] strides [[-1, 1, -1], []] likely [16, 1024, 4096] (%v0: !t, %v1: !n) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [1] : (!t, !n) -> !t
  %v3 = tsr_graph.neg %v2 step 1 values [3] until [end] : (!t) -> !t
}

// -----

// A height that is no multiple of 16 bytes is never read by vectors.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK-NOT: aligned
// CHECK: tsr_tile.barrier
!t = tensor<1001x4096xf32>
tsr_graph.trace "odd" values [0, 1] strides [[1, -1], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [1] : (!t, !t) -> !t
  %v3 = tsr_graph.neg %v2 step 1 values [3] until [end] : (!t) -> !t
}

// -----

// Three squares of f32 do not fit: the third operand is read with its stride. So is one that runs along another dim.
// CHECK-LABEL: tsr_tile.kernel @k2
// CHECK-SAME: plus 33280
// CHECK: tsr_tile.load %in2[{{.*}}] stride {{.*}} : f32 -> vector<4xf32>
// CHECK: tsr_tile.load %in3[{{.*}}] stride {{.*}} : f32 -> vector<4xf32>
// CHECK: tsr_tile.barrier
!t = tensor<64x512x512xf32>
tsr_graph.trace "three" values [0, 1, 2, 3] strides [[-1, 1, -1], [-1, 1, -1], [-1, 1, -1], [1, -1, -1]]
    (%v0: !t, %v1: !t, %v2: !t, %v3: !t) {
  %v4 = tsr_graph.add %v0, %v1 step 0 values [4] until [1] : (!t, !t) -> !t
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!t, !t) -> !t
  %v6 = tsr_graph.add %v5, %v3 step 2 values [6] until [end] : (!t, !t) -> !t
}

// -----

// Too narrow for squares: as any other kernel.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK-NOT: tsr_tile.barrier
!t = tensor<4096x3xf32>
tsr_graph.trace "narrow" values [0, 1] strides [[1, -1], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [1] : (!t, !t) -> !t
  %v3 = tsr_graph.neg %v2 step 1 values [3] until [end] : (!t) -> !t
}
