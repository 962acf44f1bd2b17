// Matrix products of f8 on the tensor cores of sm_90a: factors that are cast to bf16 for the product alone
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tsr-fuse | FileCheck %s --check-prefix=SCHED
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90 --tsr-fuse | FileCheck %s --check-prefix=OTHER

// Both casts are steps of the kernel, and the factors are read as they are. Groups of 64 rows add up what two times 128
// columns of a piece give.
// SCHED-LABEL: tsr_graph.trace
// SCHED-NOT: tsr_graph.cast
// SCHED: tsr_sched.kernel @k3 at 3 steps [0, 1, 2, 3]
// SCHED-SAME: depth = 128
// SCHED-SAME: form = "tensor", rows = 128
// SCHED-SAME: source = 1
// SCHED: tsr_graph.matmul {{.*}} (tensor<4096x1024xf8E4M3FN>, tensor<3072x1024xf8E5M2>) -> tensor<4096x3072xbf16>
// OTHER-LABEL: tsr_graph.trace
// OTHER: tsr_graph.cast
// OTHER: tsr_graph.cast
// CHECK-LABEL: tsr_tile.kernel @k3 at 3 steps [0, 1, 2, 3]
// CHECK-SAME: team [384, 1, 1,
// CHECK-SAME: maps {{\[}}[0, 1, 128, 0, 128], [1, 1, 128, 0, 256]
// CHECK: tsr_tile.signal_expect {{.*}} bytes 49152
// CHECK: tsr_tile.multiply {{.*}} rows 64 columns 128 depth 128 fresh : f8E4M3FN by f8E5M2, vector<64xf32>
// CHECK: tsr_tile.multiplied {{.*}} pending 0
// CHECK: tsr_tile.promote {{.*}}[0] : vector<64xf32>, vector<128xf32>
// CHECK: tsr_tile.multiply {{.*}} fresh
// CHECK: tsr_tile.multiplied {{.*}} pending 0
// CHECK: tsr_tile.promote {{.*}}[64] : vector<64xf32>, vector<128xf32>
// CHECK: tsr_tile.signal_arrive
!x8 = tensor<4096x1024xf8E4M3FN>
!w8 = tensor<3072x1024xf8E5M2>
!x = tensor<4096x1024xbf16>
!w = tensor<3072x1024xbf16>
!y = tensor<4096x3072xbf16>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !x8, %v1: !w8) {
  %v2 = tsr_graph.cast %v0 step 0 values [2] until [2] {dtype = "bf16"} : (!x8) -> !x
  %v3 = tsr_graph.cast %v1 step 1 values [3] until [2] {dtype = "bf16"} : (!w8) -> !w
  %v4 = tsr_graph.matmul %v2, %v3 step 2 values [4] until [3] {transpose_b = true} : (!x, !w) -> !y
  %v5 = tsr_graph.relu %v4 step 3 values [5] until [end] : (!y) -> !y
}

// -----

// Nothing follows: still a kernel, since the library would have casts before it. What computes the f8 writes that.
// SCHED-LABEL: tsr_graph.trace
// SCHED: tsr_sched.kernel @k1 at 1 steps [0, 1]
// SCHED: tsr_sched.yield {{.*}} : tensor<512x256xf8E4M3FN>
// SCHED: tsr_sched.kernel @k4 at 4 steps [2, 3, 4]
!f = tensor<512x256xf32>
!x8 = tensor<512x256xf8E4M3FN>
!x = tensor<512x256xbf16>
!y = tensor<512x512xbf16>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !f, %v1: !x8) {
  %v2 = tsr_graph.neg %v0 step 0 values [2] until [1] : (!f) -> !f
  %v3 = tsr_graph.cast %v2 step 1 values [3] until [2] {dtype = "f8e4m3"} : (!f) -> !x8
  %v4 = tsr_graph.cast %v3 step 2 values [4] until [4] {dtype = "bf16"} : (!x8) -> !x
  %v5 = tsr_graph.cast %v1 step 3 values [5] until [4] {dtype = "bf16"} : (!x8) -> !x
  %v6 = tsr_graph.matmul %v4, %v5 step 4 values [6] until [end] {transpose_b = true} : (!x, !x) -> !y
}

// -----

// The right factor lies across the sum, and tensor cores do not read f8 so.
// SCHED-LABEL: tsr_graph.trace
// SCHED: tsr_graph.cast
// SCHED: tsr_graph.cast
// SCHED: tsr_graph.matmul {{.*}}xbf16>, tensor<
!x8 = tensor<512x512xf8E4M3FN>
!x = tensor<512x512xbf16>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !x8, %v1: !x8) {
  %v2 = tsr_graph.cast %v0 step 0 values [2] until [2] {dtype = "bf16"} : (!x8) -> !x
  %v3 = tsr_graph.cast %v1 step 1 values [3] until [2] {dtype = "bf16"} : (!x8) -> !x
  %v4 = tsr_graph.matmul %v2, %v3 step 2 values [4] until [end] : (!x, !x) -> !x
}

// -----

// So, with something after it, it is a product of bf16 like any other.
// SCHED-LABEL: tsr_graph.trace
// SCHED: tsr_sched.kernel @k3 {{.*}}depth = 64{{.*}}form = "tensor"
// SCHED: tsr_graph.matmul {{.*}}xbf16>, tensor<
!x8 = tensor<512x512xf8E4M3FN>
!x = tensor<512x512xbf16>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !x8, %v1: !x8) {
  %v2 = tsr_graph.cast %v0 step 0 values [2] until [2] {dtype = "bf16"} : (!x8) -> !x
  %v3 = tsr_graph.cast %v1 step 1 values [3] until [2] {dtype = "bf16"} : (!x8) -> !x
  %v4 = tsr_graph.matmul %v2, %v3 step 2 values [4] until [3] : (!x, !x) -> !x
  %v5 = tsr_graph.gelu %v4 step 3 values [5] until [end] : (!x) -> !x
}
