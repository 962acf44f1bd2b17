// Matrix products of f32 on tensor cores, in tf32, with the option alone
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tf32 --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tf32 --tsr-fuse | FileCheck %s --check-prefix=SCHED
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tf32 --schedule='*:form=tensor' --tsr-fuse | FileCheck %s --check-prefix=GIVEN
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_80 --tf32 --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s --check-prefix=WARPS
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tsr-fuse | FileCheck %s --check-prefix=EXACT
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tf32 --bitwise --tsr-fuse | FileCheck %s --check-prefix=EXACT

// Copies of factors round them (-1 at the end of their maps), those of the result do not. Pieces are 32 elements deep.
// SCHED-LABEL: tsr_graph.trace "linear"
// SCHED: tsr_sched.kernel @k2 at 2 steps [0, 1, 2]
// SCHED-SAME: depth = 32
// SCHED-SAME: form = "tensor"
// EXACT-LABEL: tsr_graph.trace "linear"
// EXACT-NOT: form =
// CHECK-LABEL: tsr_tile.kernel @k2 at 2 steps [0, 1, 2]
// CHECK-SAME: team [384, 1, 1,
// CHECK-SAME: maps {{\[}}[0, 1, 32, 0, 128, -1], [1, 1, 32, 0, 128, -1], [3, 1, 32, 0, 16]]
// CHECK: tsr_tile.signal_expect {{.*}} bytes 49152
// CHECK: tsr_tile.multiply {{.*}} rows 64 columns 256 depth 32 : tf32, vector<128xf32>
// CHECK: tsr_tile.multiplied {{.*}} pending 1
// CHECK: tsr_tile.multiplied {{.*}} pending 0
// Each half of 64 columns has a place of its own.
// CHECK: tsr_tile.take {{.*}}[0]
// CHECK: tsr_tile.fetched {{.*}} in_pairs : f32 -> vector<8xf32>
// CHECK: tsr_tile.take {{.*}}[16]
// CHECK: tsr_tile.lay_down {{.*}} half 0 : vector<8xf32> -> f32
// CHECK: tsr_tile.copy_out map 2
// CHECK: tsr_tile.lay_down {{.*}} half 0 : vector<8xf32> -> f32
// CHECK: tsr_tile.copy_out map 2
// CHECK: tsr_tile.take {{.*}}[32]
// WARPS-LABEL: tsr_tile.kernel @k2 at 2 steps [0, 1, 2]
// WARPS: tsr_tile.fetch %in0{{.*}} lanes 4 if %{{.*}} : f32
// WARPS: tsr_tile.multiply {{.*}} rows 64 columns 128 depth 32 by_warps : tf32, vector<64xf32>
!x = tensor<8192x1024xf32>
!w = tensor<4096x1024xf32>
!b = tensor<4096xf32>
!y = tensor<8192x4096xf32>
tsr_graph.trace "linear" values [0, 1, 2] strides [[], [], []] (%v0: !x, %v1: !w, %v2: !b) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true} : (!x, !w) -> !y
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [2] : (!y, !b) -> !y
  %v5 = tsr_graph.relu %v4 step 2 values [5] until [end] : (!y) -> !y
}

// -----

// A residual of f32 finds no room beside the ring: it is read to registers, and results are written from there.
// CHECK-LABEL: tsr_tile.kernel @k1 at 1 steps [0, 1] inputs [0, 1, 2]
// CHECK-SAME: maps {{\[}}[0, 1, 32, 0, 128, -1], [1, 1, 32, 0, {{[0-9]+}}, -1]] aligned
// CHECK: tsr_tile.collect
// CHECK-NOT: tsr_tile.lay_down
!x = tensor<4096x4096xf32>
tsr_graph.trace "residual" values [0, 1, 2] strides [[], [], []] (%v0: !x, %v1: !x, %v2: !x) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true} : (!x, !x) -> !x
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [end] : (!x, !x) -> !x
}

// -----

// The right factor lies across the sum, and tensor cores do not read 32 bits so: it is the library's, whatever a
// schedule says.
// SCHED-LABEL: tsr_graph.trace "across"
// SCHED-NOT: form =
// GIVEN-LABEL: tsr_graph.trace "across"
// GIVEN-NOT: form =
!x = tensor<512x512xf32>
tsr_graph.trace "across" values [0, 1] strides [[], []] (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!x, !x) -> !x
  %v3 = tsr_graph.gelu %v2 step 1 values [3] until [end] : (!x) -> !x
}

// -----

// Along the sum by its strides.
// SCHED-LABEL: tsr_graph.trace "transposed"
// GIVEN-LABEL: tsr_graph.trace "transposed"
// SCHED: tsr_sched.kernel @k1 {{.*}}depth = 32{{.*}}form = "tensor"
// CHECK-LABEL: tsr_tile.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs
// CHECK-SAME: maps {{\[}}[0, 1, 32, 0, 128, -1], [1, 0, 32, 1, {{[0-9]+}}, -1],
!x = tensor<512x512xf32>
tsr_graph.trace "transposed" values [0, 1] strides [[], [1, 512]] (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!x, !x) -> !x
  %v3 = tsr_graph.gelu %v2 step 1 values [3] until [end] : (!x) -> !x
}

// -----

// There are no kernels of few rows in tf32.
// SCHED-LABEL: tsr_graph.trace "few"
// SCHED-NOT: form =
!x = tensor<16x4096xf32>
!w = tensor<4096x4096xf32>
tsr_graph.trace "few" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_b = true} : (!x, !w) -> !x
  %v3 = tsr_graph.gelu %v2 step 1 values [3] until [end] : (!x) -> !x
}
