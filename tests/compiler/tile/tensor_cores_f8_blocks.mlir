// Matrix products of f8 on the tensor cores of sm_90a: factors with scales for blocks of 128 elements along the sum
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90a --tsr-fuse | FileCheck %s --check-prefix=SCHED
// RUN: tessera-opt %s --split-input-file --tier=3 --target=sm_90 --tsr-fuse | FileCheck %s --check-prefix=OTHER

// One scale for each block of a row, one for each 128 x 128 of the weight. Both factors are read as they are. A thread reads
// three scales while it multiplies a piece, those of rows and columns beyond the last ones among those that are there.
// SCHED-LABEL: tsr_graph.trace
// SCHED-NOT: tsr_graph.cast
// SCHED-NOT: tsr_graph.mul
// SCHED: tsr_sched.kernel @k13 at 13 steps [2, 3, 5, 8, 9, 11, 12, 13] inputs [0, 1, 5, 11] outputs [17]
// SCHED-SAME: columns = 128
// SCHED: tsr_graph.matmul %in0, %in1, %in2, %in3 {scales = array<i64: 2, 1, 0, 0, 1, 3, 128, 0, 0, 2>, transpose_b = true}
// SCHED-SAME: (tensor<1000x1024xf8E4M3FN>, tensor<768x1024xf8E4M3FN>, tensor<1000x8x1xf32>, tensor<6x1x8x1xf32>)
// OTHER-LABEL: tsr_graph.trace
// OTHER: tsr_graph.mul
// OTHER: tsr_graph.mul
// OTHER: tsr_graph.matmul {{.*}} (tensor<1000x1024xbf16>, tensor<768x1024xbf16>)
// CHECK-LABEL: tsr_tile.kernel @k13 at 13 steps [2, 3, 5, 8, 9, 11, 12, 13]
// CHECK: tsr_tile.registers 208 more
// CHECK: tsr_tile.signal_wait
// CHECK: %[[ROW:.*]] = arith.minui {{.*}}, %c999_i64
// CHECK: %[[LOWER:.*]] = arith.minui {{.*}}, %c999_i64
// CHECK: %[[COLUMN:.*]] = arith.minui {{.*}}, %c767_i64
// CHECK: arith.divui %[[COLUMN]], %c128_i64
// CHECK: tsr_tile.multiply {{.*}} rows 64 columns 128 depth 128 fresh : f8E4M3FN, vector<64xf32>
// CHECK: %[[X:.*]] = tsr_tile.load %in2
// CHECK: %[[Y:.*]] = tsr_tile.load %in2
// CHECK: %[[S:.*]] = tsr_tile.load %in3
// CHECK: %[[PART:.*]] = tsr_tile.multiplied {{.*}} pending 0
// CHECK: %[[U:.*]] = arith.mulf %[[X]], %[[S]]
// CHECK: %[[L:.*]] = arith.mulf %[[Y]], %[[S]]
// CHECK: tsr_tile.promote %[[PART]], {{.*}}[0] by %[[U]], %[[L]] : vector<64xf32>, vector<64xf32>
!x8 = tensor<1000x1024xf8E4M3FN>
!w8 = tensor<768x1024xf8E4M3FN>
!s = tensor<1000x8xf32>
!t = tensor<6x8xf32>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []]
    (%v0: !x8, %v1: !w8, %v2: !s, %v3: !t) {
  %v4 = tsr_graph.reshape %v0 step 0 values [4] until [2] {"tsr.strides" = array<i64>} : (!x8) -> tensor<1000x8x128xf8E4M3FN>
  %v5 = tsr_graph.reshape %v2 step 1 values [5] until [3] {"tsr.strides" = array<i64>} : (!s) -> tensor<1000x8x1xf32>
  %v6 = tsr_graph.cast %v4 step 2 values [6] until [3] {dtype = "f32"} : (tensor<1000x8x128xf8E4M3FN>) -> tensor<1000x8x128xf32>
  %v7 = tsr_graph.mul %v6, %v5 step 3 values [7] until [5] : (tensor<1000x8x128xf32>, tensor<1000x8x1xf32>) -> tensor<1000x8x128xf32>
  %v8 = tsr_graph.reshape %v7 step 4 values [8] until [5] {"tsr.strides" = array<i64>} : (tensor<1000x8x128xf32>) -> tensor<1000x1024xf32>
  %v9 = tsr_graph.cast %v8 step 5 values [9] until [12] {dtype = "bf16"} : (tensor<1000x1024xf32>) -> tensor<1000x1024xbf16>
  %v10 = tsr_graph.reshape %v1 step 6 values [10] until [8] {"tsr.strides" = array<i64>} : (!w8) -> tensor<6x128x8x128xf8E4M3FN>
  %v11 = tsr_graph.reshape %v3 step 7 values [11] until [9] {"tsr.strides" = array<i64>} : (!t) -> tensor<6x1x8x1xf32>
  %v12 = tsr_graph.cast %v10 step 8 values [12] until [9] {dtype = "bf16"} : (tensor<6x128x8x128xf8E4M3FN>) -> tensor<6x128x8x128xbf16>
  %c0 = tsr_graph.cast %v12 {dtype = "f32"} : (tensor<6x128x8x128xbf16>) -> tensor<6x128x8x128xf32>
  %v13 = tsr_graph.mul %c0, %v11 step 9 values [13] until [11] : (tensor<6x128x8x128xf32>, tensor<6x1x8x1xf32>) -> tensor<6x128x8x128xf32>
  %v14 = tsr_graph.reshape %v13 step 10 values [14] until [11] {"tsr.strides" = array<i64>} : (tensor<6x128x8x128xf32>) -> tensor<768x1024xf32>
  %v15 = tsr_graph.cast %v14 step 11 values [15] until [12] {dtype = "bf16"} : (tensor<768x1024xf32>) -> tensor<768x1024xbf16>
  %v16 = tsr_graph.matmul %v9, %v15 step 12 values [16] until [13] {transpose_b = true} : (tensor<1000x1024xbf16>, tensor<768x1024xbf16>) -> tensor<1000x768xbf16>
  %v17 = tsr_graph.relu %v16 step 13 values [17] until [end] : (tensor<1000x768xbf16>) -> tensor<1000x768xbf16>
}

// -----

// The weight has no whole number of blocks of rows: its scales are repeated for each row, and read as they were. The
// left factor has no scales, and few rows.
// SCHED-LABEL: tsr_graph.trace
// SCHED: tsr_sched.kernel @k10 at 10 steps [0, 7, 8, 10] inputs [0, 1, 4]
// SCHED: tsr_graph.matmul %in0, %in1, %in2 {scales = array<i64: -1, 1, 0, -1, -1, 2, 128, 0, 0, 2>, transpose_b = true}
// CHECK-LABEL: tsr_tile.kernel @k10
// CHECK: tsr_tile.multiply
// CHECK: %[[S:.*]] = tsr_tile.load %in2
// CHECK-NOT: tsr_tile.load
// CHECK: tsr_tile.promote {{.*}} by %[[S]], %[[S]]
!x8 = tensor<16x256xf8E4M3FN>
!w8 = tensor<576x256xf8E5M2>
!t = tensor<5x2xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !x8, %v1: !w8, %v2: !t) {
  %v3 = tsr_graph.cast %v0 step 0 values [3] until [10] {dtype = "bf16"} : (!x8) -> tensor<16x256xbf16>
  %v4 = tsr_graph.reshape %v2 step 1 values [4] until [3] {"tsr.strides" = array<i64>} : (!t) -> tensor<5x1x2xf32>
  %v5 = tsr_graph.broadcast %v4 step 2 values [5] until [3] {"tsr.strides" = array<i64: -1, 0, 1>} : (tensor<5x1x2xf32>) -> tensor<5x128x2xf32>
  %v6 = tsr_graph.reshape %v5 step 3 values [6] until [4] {"tsr.strides" = array<i64>} : (tensor<5x128x2xf32>) -> tensor<640x2xf32>
  %v7 = tsr_graph.slice %v6 step 4 values [7] until [5] {"tsr.strides" = array<i64>, starts = array<i64: 0, 0>, stops = array<i64: 576, 2>} : (tensor<640x2xf32>) -> tensor<576x2xf32>
  %v8 = tsr_graph.reshape %v7 step 5 values [8] until [7] {"tsr.strides" = array<i64>} : (tensor<576x2xf32>) -> tensor<576x2x1xf32>
  %v9 = tsr_graph.reshape %v1 step 6 values [9] until [7] {"tsr.strides" = array<i64>} : (!w8) -> tensor<576x2x128xf8E5M2>
  %c0 = tsr_graph.cast %v9 {dtype = "f32"} : (tensor<576x2x128xf8E5M2>) -> tensor<576x2x128xf32>
  %v10 = tsr_graph.mul %c0, %v8 step 7 values [10] until [9] : (tensor<576x2x128xf32>, tensor<576x2x1xf32>) -> tensor<576x2x128xf32>
  %v11 = tsr_graph.cast %v10 step 8 values [11] until [9] {dtype = "bf16"} : (tensor<576x2x128xf32>) -> tensor<576x2x128xbf16>
  %v12 = tsr_graph.reshape %v11 step 9 values [12] until [10] {"tsr.strides" = array<i64>} : (tensor<576x2x128xbf16>) -> tensor<576x256xbf16>
  %v13 = tsr_graph.matmul %v3, %v12 step 10 values [13] until [end] {transpose_b = true} : (tensor<16x256xbf16>, tensor<576x256xbf16>) -> tensor<16x576xbf16>
}

// -----

// Scales for blocks of 64 elements are computed as they are written.
// SCHED-LABEL: tsr_graph.trace
// SCHED: tsr_graph.mul
// SCHED: tsr_graph.matmul {{.*}} (tensor<256x256xbf16>, tensor<256x256xbf16>)
!x8 = tensor<256x256xf8E4M3FN>
!b = tensor<256x4x64xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !x8, %v1: !x8, %v2: tensor<256x4x1xf32>) {
  %v3 = tsr_graph.reshape %v0 step 0 values [3] until [1] {"tsr.strides" = array<i64>} : (!x8) -> tensor<256x4x64xf8E4M3FN>
  %v4 = tsr_graph.cast %v3 step 1 values [4] until [2] {dtype = "f32"} : (tensor<256x4x64xf8E4M3FN>) -> !b
  %v5 = tsr_graph.mul %v4, %v2 step 2 values [5] until [4] : (!b, tensor<256x4x1xf32>) -> !b
  %v6 = tsr_graph.reshape %v5 step 3 values [6] until [4] {"tsr.strides" = array<i64>} : (!b) -> tensor<256x256xf32>
  %v7 = tsr_graph.cast %v6 step 4 values [7] until [6] {dtype = "bf16"} : (tensor<256x256xf32>) -> tensor<256x256xbf16>
  %v8 = tsr_graph.cast %v1 step 5 values [8] until [6] {dtype = "bf16"} : (!x8) -> tensor<256x256xbf16>
  %v9 = tsr_graph.matmul %v7, %v8 step 6 values [9] until [7] {transpose_b = true} : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>
  %v10 = tsr_graph.relu %v9 step 7 values [10] until [end] : (tensor<256x256xbf16>) -> tensor<256x256xbf16>
}

// -----

// So are those of single columns, and those that something else needs, too.
// SCHED-LABEL: tsr_graph.trace
// SCHED: tsr_graph.mul
// SCHED: tsr_graph.matmul {{.*}} (tensor<256x256xbf16>, tensor<256x256xbf16>)
!x8 = tensor<256x256xf8E4M3FN>
!b = tensor<256x2x128xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !x8, %v1: !x8, %v2: tensor<256x2x1xf32>) {
  %v3 = tsr_graph.reshape %v0 step 0 values [3] until [1] {"tsr.strides" = array<i64>} : (!x8) -> tensor<256x2x128xf8E4M3FN>
  %v4 = tsr_graph.cast %v3 step 1 values [4] until [2] {dtype = "f32"} : (tensor<256x2x128xf8E4M3FN>) -> !b
  %v5 = tsr_graph.mul %v4, %v2 step 2 values [5] until [4] : (!b, tensor<256x2x1xf32>) -> !b
  %v6 = tsr_graph.reshape %v5 step 3 values [6] until [4] {"tsr.strides" = array<i64>} : (!b) -> tensor<256x256xf32>
  %v7 = tsr_graph.cast %v6 step 4 values [7] until [6] {dtype = "bf16"} : (tensor<256x256xf32>) -> tensor<256x256xbf16>
  %v8 = tsr_graph.cast %v1 step 5 values [8] until [6] {dtype = "bf16"} : (!x8) -> tensor<256x256xbf16>
  %v9 = tsr_graph.matmul %v8, %v7 step 6 values [9] until [7] {transpose_b = true} : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>
  %v10 = tsr_graph.relu %v9 step 7 values [10] until [end] : (tensor<256x256xbf16>) -> tensor<256x256xbf16>
}

// -----

// SCHED-LABEL: tsr_graph.trace
// SCHED: tsr_graph.mul
// SCHED: tsr_graph.matmul {{.*}} (tensor<256x256xbf16>, tensor<256x256xbf16>)
!x8 = tensor<256x256xf8E4M3FN>
!b = tensor<256x2x128xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !x8, %v1: !x8, %v2: tensor<256x2x1xf32>) {
  %v3 = tsr_graph.reshape %v0 step 0 values [3] until [1] {"tsr.strides" = array<i64>} : (!x8) -> tensor<256x2x128xf8E4M3FN>
  %v4 = tsr_graph.cast %v3 step 1 values [4] until [2] {dtype = "f32"} : (tensor<256x2x128xf8E4M3FN>) -> !b
  %v5 = tsr_graph.mul %v4, %v2 step 2 values [5] until [end] : (!b, tensor<256x2x1xf32>) -> !b
  %v6 = tsr_graph.reshape %v5 step 3 values [6] until [4] {"tsr.strides" = array<i64>} : (!b) -> tensor<256x256xf32>
  %v7 = tsr_graph.cast %v6 step 4 values [7] until [6] {dtype = "bf16"} : (tensor<256x256xf32>) -> tensor<256x256xbf16>
  %v8 = tsr_graph.cast %v1 step 5 values [8] until [6] {dtype = "bf16"} : (!x8) -> tensor<256x256xbf16>
  %v9 = tsr_graph.matmul %v7, %v8 step 6 values [9] until [7] {transpose_b = true} : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>
  %v10 = tsr_graph.relu %v9 step 7 values [10] until [end] : (tensor<256x256xbf16>) -> tensor<256x256xbf16>
}

// -----

// The left factor is quantised in the same trace: one kernel does that, and the product reads what it wrote.
// SCHED-LABEL: tsr_graph.trace
// SCHED: %v6, %v8 = tsr_sched.kernel @k5 at 5 steps [1, 2, 3, 4, 5] inputs [3] outputs [6, 8]
// SCHED: %v9 = tsr_graph.reshape %v8
// SCHED: %v13 = tsr_graph.reshape
// SCHED: tsr_sched.kernel @k20 at 20 steps [9, 11, 13, 16, 17, 19, 20] inputs [9, 1, 13, 18]
// SCHED: tsr_graph.matmul %in0, %in1, %in2, %in3 {scales = array<i64: 2, 1, 0, 0, 1, 3, 128, 0, 0, 2>, transpose_b = true}
!f = tensor<256x512xf32>
!b = tensor<256x4x128xf32>
!s = tensor<256x4x1xf32>
!w8 = tensor<256x512xf8E4M3FN>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !f, %v1: !w8, %v2: tensor<2x4xf32>) {
  %v3 = tsr_graph.reshape %v0 step 0 values [3] until [5] {"tsr.strides" = array<i64>} : (!f) -> !b
  %v4 = tsr_graph.abs %v3 step 1 values [4] until [2] : (!b) -> !b
  %v5 = tsr_graph.max %v4 step 2 values [5] until [3] {axes = array<i64: -1>, keepdims = true} : (!b) -> !s
  %n0 = tsr_graph.number 448.0 : tensor<f32>
  %v6 = tsr_graph.div %v5, %n0 step 3 values [6] until [12] : (!s, tensor<f32>) -> !s
  %v7 = tsr_graph.div %v3, %v6 step 4 values [7] until [5] : (!b, !s) -> !b
  %v8 = tsr_graph.cast %v7 step 5 values [8] until [9] {dtype = "f8e4m3"} : (!b) -> tensor<256x4x128xf8E4M3FN>
  %v9 = tsr_graph.reshape %v8 step 6 values [9] until [9] {"tsr.strides" = array<i64>} : (tensor<256x4x128xf8E4M3FN>) -> !w8
  %v10 = tsr_graph.reshape %v6 step 7 values [10] until [10] {"tsr.strides" = array<i64>} : (!s) -> tensor<256x4xf32>
  %v11 = tsr_graph.reshape %v9 step 8 values [11] until [9] {"tsr.strides" = array<i64>} : (!w8) -> tensor<256x4x128xf8E4M3FN>
  %v12 = tsr_graph.cast %v11 step 9 values [12] until [11] {dtype = "f32"} : (tensor<256x4x128xf8E4M3FN>) -> !b
  %v13 = tsr_graph.reshape %v10 step 10 values [13] until [11] {"tsr.strides" = array<i64>} : (tensor<256x4xf32>) -> !s
  %v14 = tsr_graph.mul %v12, %v13 step 11 values [14] until [13] : (!b, !s) -> !b
  %v15 = tsr_graph.reshape %v14 step 12 values [15] until [13] {"tsr.strides" = array<i64>} : (!b) -> !f
  %v16 = tsr_graph.cast %v15 step 13 values [16] until [20] {dtype = "bf16"} : (!f) -> tensor<256x512xbf16>
  %v17 = tsr_graph.reshape %v1 step 14 values [17] until [16] {"tsr.strides" = array<i64>} : (!w8) -> tensor<2x128x4x128xf8E4M3FN>
  %v18 = tsr_graph.reshape %v2 step 15 values [18] until [17] {"tsr.strides" = array<i64>} : (tensor<2x4xf32>) -> tensor<2x1x4x1xf32>
  %v19 = tsr_graph.cast %v17 step 16 values [19] until [17] {dtype = "f32"} : (tensor<2x128x4x128xf8E4M3FN>) -> tensor<2x128x4x128xf32>
  %v20 = tsr_graph.mul %v19, %v18 step 17 values [20] until [19] : (tensor<2x128x4x128xf32>, tensor<2x1x4x1xf32>) -> tensor<2x128x4x128xf32>
  %v21 = tsr_graph.reshape %v20 step 18 values [21] until [19] {"tsr.strides" = array<i64>} : (tensor<2x128x4x128xf32>) -> !f
  %v22 = tsr_graph.cast %v21 step 19 values [22] until [20] {dtype = "bf16"} : (!f) -> tensor<256x512xbf16>
  %v23 = tsr_graph.matmul %v16, %v22 step 20 values [23] until [end] {transpose_b = true} : (tensor<256x512xbf16>, tensor<256x512xbf16>) -> tensor<256x256xbf16>
}
