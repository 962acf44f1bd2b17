// tsr-fuse: which products of few rows are generated for a CUDA device
// RUN: tessera-opt %s --tier=3 --target=sm_90a --split-input-file --tsr-fuse | FileCheck %s
// RUN: tessera-opt %s --tier=3 --target=sm_80 --split-input-file --tsr-fuse | FileCheck %s --check-prefix=OLD

// With something after them or not. Only later devices have clusters.
// CHECK-LABEL: tsr_graph.trace "alone"
// CHECK: tsr_sched.kernel @k0 {{.*}}form = "few"{{.*}}rows = 8
// OLD-LABEL: tsr_graph.trace "alone"
// OLD: tsr_sched.kernel @k0 {{.*}}cluster = 0{{.*}}form = "few"
!x = tensor<8x4096xbf16>
!w = tensor<4096x4096xbf16>
tsr_graph.trace "alone" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [end] : (!x, !w) -> !x
}

// -----

// Symbols were seen to be small. From nine rows on, groups of warps share the sum on sm_90a.
// CHECK-LABEL: tsr_graph.trace "seen"
// CHECK: tsr_sched.kernel @k1 {{.*}}cluster = 2{{.*}}columns = 64{{.*}}form = "split"{{.*}}rows = 64
// OLD-LABEL: tsr_graph.trace "seen"
// OLD: tsr_sched.kernel @k1 {{.*}}form = "few"{{.*}}rows = 16
!x = tensor<?x?xbf16, [0, 1]>
!w = tensor<?x?xbf16, [2, 1]>
!y = tensor<?x?xbf16, [0, 2]>
tsr_graph.trace "seen" values [0, 1] strides [[], []] likely [13, 4096, 4096] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_b = true} : (!x, !w) -> !y
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!y) -> !y
}

// -----

// Rows of 600 bytes cannot be read by vectors.
// CHECK-LABEL: tsr_graph.trace "odd"
// CHECK-NOT: tsr_sched.kernel
!x = tensor<8x4096xbf16>
!w = tensor<4096x300xbf16>
!y = tensor<8x300xbf16>
tsr_graph.trace "odd" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [end] : (!x, !w) -> !y
}

// -----

// The left factor lies across the sum.
// CHECK-LABEL: tsr_graph.trace "left"
// CHECK-NOT: tsr_sched.kernel
!x = tensor<4096x8xbf16>
!w = tensor<4096x4096xbf16>
!y = tensor<8x4096xbf16>
tsr_graph.trace "left" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [end] {transpose_a = true} : (!x, !w) -> !y
}

// -----

// The library does batches of matrices, and what is small.
// CHECK-LABEL: tsr_graph.trace "others"
// CHECK-NOT: tsr_sched.kernel
!x = tensor<4x8x4096xbf16>
!w = tensor<4x4096x4096xbf16>
!a = tensor<8x128xbf16>
!c = tensor<128x128xbf16>
tsr_graph.trace "others" values [0, 1, 2, 3] strides [[], [], [], []] (%v0: !x, %v1: !w, %v2: !a, %v3: !c) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [end] : (!x, !w) -> !x
  %v5 = tsr_graph.matmul %v2, %v3 step 1 values [5] until [end] : (!a, !c) -> !a
}

// -----

// With more rows each block has some of the sum; with many columns no other block has. With nothing after it, or still
// more rows, the library is faster.
// CHECK-LABEL: tsr_graph.trace "more"
// CHECK: tsr_sched.kernel @k1 {{.*}}cluster = 2{{.*}}columns = 64{{.*}}form = "split"
// CHECK: tsr_sched.kernel @k3 {{.*}}cluster = 0{{.*}}columns = 128{{.*}}form = "split"
// CHECK-NOT: form = "split"
// OLD-LABEL: tsr_graph.trace "more"
// OLD-NOT: form = "few"
!x = tensor<64x4096xbf16>
!w = tensor<4096x4096xbf16>
!v = tensor<4096x14336xbf16>
!y = tensor<64x14336xbf16>
!z = tensor<100x4096xbf16>
tsr_graph.trace "more" values [0, 1, 2, 3] strides [[], [], [], []] (%v0: !x, %v1: !w, %v2: !v, %v3: !z) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1] : (!x, !w) -> !x
  %v5 = tsr_graph.relu %v4 step 1 values [5] until [end] : (!x) -> !x
  %v6 = tsr_graph.matmul %v0, %v2 step 2 values [6] until [3] : (!x, !v) -> !y
  %v7 = tsr_graph.relu %v6 step 3 values [7] until [end] : (!y) -> !y
  %v8 = tsr_graph.matmul %v0, %v1 step 4 values [8] until [end] : (!x, !w) -> !x
  %v9 = tsr_graph.matmul %v3, %v1 step 5 values [9] until [6] : (!z, !w) -> !z
  %v10 = tsr_graph.relu %v9 step 6 values [10] until [end] : (!z) -> !z
}

// -----

// More rows, with a sum so long, and so few tiles, that most multiprocessors would be idle.
// CHECK-LABEL: tsr_graph.trace
// CHECK: tsr_sched.kernel @k1 {{.*}}form = "split"
// OLD-LABEL: tsr_graph.trace
// OLD-NOT: form = "split"
!x = tensor<256x16384xbf16>
!w = tensor<256x16384xbf16>
!y = tensor<256x256xbf16>
tsr_graph.trace "few_tiles" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_b = true} : (!x, !w) -> !y
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!y) -> !y
}

// -----

// The same where sizes may differ, and where there are tiles for everybody.
// CHECK-LABEL: tsr_graph.trace
// CHECK-NOT: form = "split"
!x = tensor<?x16384xbf16, [0, -1]>
!w = tensor<256x16384xbf16>
!y = tensor<?x256xbf16, [0, -1]>
tsr_graph.trace "any_rows" values [0, 1] strides [[], []] likely [256] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_b = true} : (!x, !w) -> !y
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!y) -> !y
}

// -----

// CHECK-LABEL: tsr_graph.trace
// CHECK-NOT: form = "split"
!x = tensor<512x4096xbf16>
!w = tensor<8192x4096xbf16>
!y = tensor<512x8192xbf16>
tsr_graph.trace "many_tiles" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_b = true} : (!x, !w) -> !y
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!y) -> !y
}
