// tsr-lower-kernels: passes over a row, and what is kept between them (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels --canonicalize --cse | FileCheck %s

// Three passes. The exponential is computed in the second and kept for the third, where the result will be; the
// difference, which is cheap, would not be.
// CHECK-LABEL: tsr_tile.kernel @k10 at 10 steps [10] inputs [0] outputs [1] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %cst = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c128_i64 = arith.constant 128 : i64
// CHECK-NEXT:   %cst_0 = arith.constant 0.000000e+00 : f64
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %cst_1 = arith.constant 0xFF800000 : f32
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:     %4 = tsr_tile.splat %cst_1 : f32 -> vector<16xf32>
// CHECK-NEXT:     %5 = scf.for %arg1 = %c0_i64 to %3 step %c16_i64 iter_args(%arg2 = %4) -> (vector<16xf32>)  : i64 {
// CHECK-NEXT:       %22 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %23 = tsr_tile.load %in0[%22] : f32 -> vector<16xf32>
// CHECK-NEXT:       %24 = tsr_tile.map "larger_f32"(%arg2, %23) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       scf.yield %24 : vector<16xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     %6 = tsr_tile.reduce "larger_f32" %5 : vector<16xf32> -> vector<4xf32>
// CHECK-NEXT:     %7 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %8 = arith.divui %7, %c4_i64 : i64
// CHECK-NEXT:     %9 = arith.muli %8, %c4_i64 : i64
// CHECK-NEXT:     %10 = arith.addi %3, %9 : i64
// CHECK-NEXT:     %11 = scf.for %arg1 = %3 to %10 step %c4_i64 iter_args(%arg2 = %6) -> (vector<4xf32>)  : i64 {
// CHECK-NEXT:       %22 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %23 = tsr_tile.load %in0[%22] : f32 -> vector<4xf32>
// CHECK-NEXT:       %24 = tsr_tile.map "larger_f32"(%arg2, %23) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       scf.yield %24 : vector<4xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     %12 = tsr_tile.reduce "larger_f32" %11 : vector<4xf32> -> f32
// CHECK-NEXT:     %13 = scf.for %arg1 = %10 to %0 step %c1_i64 iter_args(%arg2 = %12) -> (f32)  : i64 {
// CHECK-NEXT:       %22 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %23 = tsr_tile.load %in0[%22] : f32 -> f32
// CHECK-NEXT:       %24 = tsr_tile.map "larger_f32"(%arg2, %23) : (f32, f32) -> f32
// CHECK-NEXT:       scf.yield %24 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %14 = tsr_tile.splat %cst_0 : f64 -> vector<16xf64>
// CHECK-NEXT:     %15 = scf.for %arg1 = %c0_i64 to %3 step %c128_i64 iter_args(%arg2 = %14) -> (vector<16xf64>)  : i64 {
// CHECK-NEXT:       %22 = arith.addi %arg1, %c128_i64 : i64
// CHECK-NEXT:       %23 = arith.minsi %22, %3 : i64
// CHECK-NEXT:       %24 = tsr_tile.splat %cst : f32 -> vector<16xf32>
// CHECK-NEXT:       %25 = scf.for %arg3 = %arg1 to %23 step %c16_i64 iter_args(%arg4 = %24) -> (vector<16xf32>)  : i64 {
// CHECK-NEXT:         %28 = arith.addi %1, %arg3 : i64
// CHECK-NEXT:         %29 = tsr_tile.load %in0[%28] : f32 -> vector<16xf32>
// CHECK-NEXT:         %30 = tsr_tile.splat %13 : f32 -> vector<16xf32>
// CHECK-NEXT:         %31 = tsr_tile.map "sub_f32"(%29, %30) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:         %32 = tsr_tile.map "exp_weight_f32"(%31) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:         tsr_tile.store %32, %out0[%28] : vector<16xf32> -> f32
// CHECK-NEXT:         %33 = arith.addf %arg4, %32 : vector<16xf32>
// CHECK-NEXT:         scf.yield %33 : vector<16xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       %26 = tsr_tile.widen %25 : vector<16xf32> -> vector<16xf64>
// CHECK-NEXT:       %27 = arith.addf %arg2, %26 : vector<16xf64>
// CHECK-NEXT:       scf.yield %27 : vector<16xf64>
// CHECK-NEXT:     }
// CHECK-NEXT:     %16 = tsr_tile.reduce "add_f64" %15 : vector<16xf64> -> vector<4xf64>
// CHECK-NEXT:     %17 = scf.for %arg1 = %3 to %10 step %c4_i64 iter_args(%arg2 = %16) -> (vector<4xf64>)  : i64 {
// CHECK-NEXT:       %22 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %23 = tsr_tile.load %in0[%22] : f32 -> vector<4xf32>
// CHECK-NEXT:       %24 = tsr_tile.splat %13 : f32 -> vector<4xf32>
// CHECK-NEXT:       %25 = tsr_tile.map "sub_f32"(%23, %24) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %26 = tsr_tile.map "exp_weight_f32"(%25) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %26, %out0[%22] : vector<4xf32> -> f32
// CHECK-NEXT:       %27 = tsr_tile.widen %26 : vector<4xf32> -> vector<4xf64>
// CHECK-NEXT:       %28 = arith.addf %arg2, %27 : vector<4xf64>
// CHECK-NEXT:       scf.yield %28 : vector<4xf64>
// CHECK-NEXT:     }
// CHECK-NEXT:     %18 = tsr_tile.reduce "add_f64" %17 : vector<4xf64> -> f64
// CHECK-NEXT:     %19 = scf.for %arg1 = %10 to %0 step %c1_i64 iter_args(%arg2 = %18) -> (f64)  : i64 {
// CHECK-NEXT:       %22 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %23 = tsr_tile.load %in0[%22] : f32 -> f32
// CHECK-NEXT:       %24 = tsr_tile.map "sub_f32"(%23, %13) : (f32, f32) -> f32
// CHECK-NEXT:       %25 = tsr_tile.map "exp_weight_f32"(%24) : (f32) -> f32
// CHECK-NEXT:       tsr_tile.store %25, %out0[%22] : f32 -> f32
// CHECK-NEXT:       %26 = tsr_tile.widen %25 : f32 -> f64
// CHECK-NEXT:       %27 = arith.addf %arg2, %26 : f64
// CHECK-NEXT:       scf.yield %27 : f64
// CHECK-NEXT:     }
// CHECK-NEXT:     %20 = arith.truncf %19 : f64 to f32
// CHECK-NEXT:     %21 = tsr_tile.map "reciprocal_f32"(%20) : (f32) -> f32
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %3 step %c16_i64  : i64 {
// CHECK-NEXT:       %22 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %23 = tsr_tile.load %out0[%22] : f32 -> vector<16xf32>
// CHECK-NEXT:       %24 = tsr_tile.splat %21 : f32 -> vector<16xf32>
// CHECK-NEXT:       %25 = tsr_tile.map "mul_f32"(%23, %24) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %25, %out0[%22] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %3 to %10 step %c4_i64  : i64 {
// CHECK-NEXT:       %22 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %23 = tsr_tile.load %out0[%22] : f32 -> vector<4xf32>
// CHECK-NEXT:       %24 = tsr_tile.splat %21 : f32 -> vector<4xf32>
// CHECK-NEXT:       %25 = tsr_tile.map "mul_f32"(%23, %24) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %25, %out0[%22] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %10 to %0 step %c1_i64  : i64 {
// CHECK-NEXT:       %22 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %23 = tsr_tile.load %out0[%22] : f32 -> f32
// CHECK-NEXT:       %24 = tsr_tile.map "mul_f32"(%23, %21) : (f32, f32) -> f32
// CHECK-NEXT:       tsr_tile.store %24, %out0[%22] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
tsr_graph.trace "softmax" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.softmax %v0 step 10 values [1] until [end] {axis = -1 : i64} : (!t) -> !t
}

// -----
// What is written to memory anyway is read back from there: no scratch memory.
// CHECK-LABEL: tsr_tile.kernel @k21 at 21 steps [19, 20, 21] inputs [0] outputs [1, 3] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], [], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %cst = arith.constant 0xFF800000 : f32
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:     %4 = tsr_tile.splat %cst : f32 -> vector<16xf32>
// CHECK-NEXT:     %5 = scf.for %arg1 = %c0_i64 to %3 step %c16_i64 iter_args(%arg2 = %4) -> (vector<16xf32>)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f32 -> vector<16xf32>
// CHECK-NEXT:       %16 = tsr_tile.map "exp_f32"(%15) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %16, %out0[%14] : vector<16xf32> -> f32
// CHECK-NEXT:       %17 = arith.maximumf %arg2, %16 : vector<16xf32>
// CHECK-NEXT:       scf.yield %17 : vector<16xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     %6 = tsr_tile.reduce "maximum_f32" %5 : vector<16xf32> -> vector<4xf32>
// CHECK-NEXT:     %7 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %8 = arith.divui %7, %c4_i64 : i64
// CHECK-NEXT:     %9 = arith.muli %8, %c4_i64 : i64
// CHECK-NEXT:     %10 = arith.addi %3, %9 : i64
// CHECK-NEXT:     %11 = scf.for %arg1 = %3 to %10 step %c4_i64 iter_args(%arg2 = %6) -> (vector<4xf32>)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f32 -> vector<4xf32>
// CHECK-NEXT:       %16 = tsr_tile.map "exp_f32"(%15) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %16, %out0[%14] : vector<4xf32> -> f32
// CHECK-NEXT:       %17 = arith.maximumf %arg2, %16 : vector<4xf32>
// CHECK-NEXT:       scf.yield %17 : vector<4xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     %12 = tsr_tile.reduce "maximum_f32" %11 : vector<4xf32> -> f32
// CHECK-NEXT:     %13 = scf.for %arg1 = %10 to %0 step %c1_i64 iter_args(%arg2 = %12) -> (f32)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f32 -> f32
// CHECK-NEXT:       %16 = tsr_tile.map "exp_f32"(%15) : (f32) -> f32
// CHECK-NEXT:       tsr_tile.store %16, %out0[%14] : f32 -> f32
// CHECK-NEXT:       %17 = arith.maximumf %arg2, %16 : f32
// CHECK-NEXT:       scf.yield %17 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %3 step %c16_i64  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %out0[%14] : f32 -> vector<16xf32>
// CHECK-NEXT:       %16 = tsr_tile.splat %13 : f32 -> vector<16xf32>
// CHECK-NEXT:       %17 = tsr_tile.map "sub_f32"(%15, %16) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %17, %out1[%14] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %3 to %10 step %c4_i64  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %out0[%14] : f32 -> vector<4xf32>
// CHECK-NEXT:       %16 = tsr_tile.splat %13 : f32 -> vector<4xf32>
// CHECK-NEXT:       %17 = tsr_tile.map "sub_f32"(%15, %16) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %17, %out1[%14] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %10 to %0 step %c1_i64  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %out0[%14] : f32 -> f32
// CHECK-NEXT:       %16 = tsr_tile.map "sub_f32"(%15, %13) : (f32, f32) -> f32
// CHECK-NEXT:       tsr_tile.store %16, %out1[%14] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
!c = tensor<?x1xf32, [0, -1]>
tsr_graph.trace "written" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 19 values [1] until [end] : (!t) -> !t
  %v2 = tsr_graph.max %v1 step 20 values [2] until [21] {axes = array<i64: 1>, keepdims = true} : (!t) -> !c
  %v3 = tsr_graph.sub %v1, %v2 step 21 values [3] until [end] : (!t, !c) -> !t
}

// -----
// Cheap values are computed again.
// CHECK-LABEL: tsr_tile.kernel @k31 at 31 steps [29, 30, 31] inputs [0] outputs [3] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %cst = arith.constant 0xFF800000 : f32
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:     %4 = tsr_tile.splat %cst : f32 -> vector<16xf32>
// CHECK-NEXT:     %5 = scf.for %arg1 = %c0_i64 to %3 step %c16_i64 iter_args(%arg2 = %4) -> (vector<16xf32>)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f32 -> vector<16xf32>
// CHECK-NEXT:       %16 = tsr_tile.map "abs_f32"(%15) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %17 = arith.maximumf %arg2, %16 : vector<16xf32>
// CHECK-NEXT:       scf.yield %17 : vector<16xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     %6 = tsr_tile.reduce "maximum_f32" %5 : vector<16xf32> -> vector<4xf32>
// CHECK-NEXT:     %7 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %8 = arith.divui %7, %c4_i64 : i64
// CHECK-NEXT:     %9 = arith.muli %8, %c4_i64 : i64
// CHECK-NEXT:     %10 = arith.addi %3, %9 : i64
// CHECK-NEXT:     %11 = scf.for %arg1 = %3 to %10 step %c4_i64 iter_args(%arg2 = %6) -> (vector<4xf32>)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f32 -> vector<4xf32>
// CHECK-NEXT:       %16 = tsr_tile.map "abs_f32"(%15) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %17 = arith.maximumf %arg2, %16 : vector<4xf32>
// CHECK-NEXT:       scf.yield %17 : vector<4xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     %12 = tsr_tile.reduce "maximum_f32" %11 : vector<4xf32> -> f32
// CHECK-NEXT:     %13 = scf.for %arg1 = %10 to %0 step %c1_i64 iter_args(%arg2 = %12) -> (f32)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f32 -> f32
// CHECK-NEXT:       %16 = tsr_tile.map "abs_f32"(%15) : (f32) -> f32
// CHECK-NEXT:       %17 = arith.maximumf %arg2, %16 : f32
// CHECK-NEXT:       scf.yield %17 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %3 step %c16_i64  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f32 -> vector<16xf32>
// CHECK-NEXT:       %16 = tsr_tile.map "abs_f32"(%15) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %17 = tsr_tile.splat %13 : f32 -> vector<16xf32>
// CHECK-NEXT:       %18 = tsr_tile.map "sub_f32"(%16, %17) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %18, %out0[%14] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %3 to %10 step %c4_i64  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f32 -> vector<4xf32>
// CHECK-NEXT:       %16 = tsr_tile.map "abs_f32"(%15) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %17 = tsr_tile.splat %13 : f32 -> vector<4xf32>
// CHECK-NEXT:       %18 = tsr_tile.map "sub_f32"(%16, %17) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %18, %out0[%14] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %10 to %0 step %c1_i64  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f32 -> f32
// CHECK-NEXT:       %16 = tsr_tile.map "abs_f32"(%15) : (f32) -> f32
// CHECK-NEXT:       %17 = tsr_tile.map "sub_f32"(%16, %13) : (f32, f32) -> f32
// CHECK-NEXT:       tsr_tile.store %17, %out0[%14] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
!c = tensor<?x1xf32, [0, -1]>
tsr_graph.trace "cheap" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.abs %v0 step 29 values [1] until [31] : (!t) -> !t
  %v2 = tsr_graph.max %v1 step 30 values [2] until [31] {axes = array<i64: 1>, keepdims = true} : (!t) -> !c
  %v3 = tsr_graph.sub %v1, %v2 step 31 values [3] until [end] : (!t, !c) -> !t
}

// -----
// Two reductions of one pass; what is one number for each row is computed once.
// CHECK-LABEL: tsr_tile.kernel @k41 at 41 steps [39, 40, 41] inputs [0] outputs [3] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %cst = arith.constant 0x7F800000 : f32
// CHECK-NEXT:   %cst_0 = arith.constant 0xFF800000 : f32
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:     %4 = tsr_tile.splat %cst_0 : f32 -> vector<16xf32>
// CHECK-NEXT:     %5 = tsr_tile.splat %cst : f32 -> vector<16xf32>
// CHECK-NEXT:     %6:2 = scf.for %arg1 = %c0_i64 to %3 step %c16_i64 iter_args(%arg2 = %4, %arg3 = %5) -> (vector<16xf32>, vector<16xf32>)  : i64 {
// CHECK-NEXT:       %18 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %19 = tsr_tile.load %in0[%18] : f32 -> vector<16xf32>
// CHECK-NEXT:       %20 = arith.maximumf %arg2, %19 : vector<16xf32>
// CHECK-NEXT:       %21 = arith.minimumf %arg3, %19 : vector<16xf32>
// CHECK-NEXT:       scf.yield %20, %21 : vector<16xf32>, vector<16xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     %7 = tsr_tile.reduce "maximum_f32" %6#0 : vector<16xf32> -> vector<4xf32>
// CHECK-NEXT:     %8 = tsr_tile.reduce "minimum_f32" %6#1 : vector<16xf32> -> vector<4xf32>
// CHECK-NEXT:     %9 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %10 = arith.divui %9, %c4_i64 : i64
// CHECK-NEXT:     %11 = arith.muli %10, %c4_i64 : i64
// CHECK-NEXT:     %12 = arith.addi %3, %11 : i64
// CHECK-NEXT:     %13:2 = scf.for %arg1 = %3 to %12 step %c4_i64 iter_args(%arg2 = %7, %arg3 = %8) -> (vector<4xf32>, vector<4xf32>)  : i64 {
// CHECK-NEXT:       %18 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %19 = tsr_tile.load %in0[%18] : f32 -> vector<4xf32>
// CHECK-NEXT:       %20 = arith.maximumf %arg2, %19 : vector<4xf32>
// CHECK-NEXT:       %21 = arith.minimumf %arg3, %19 : vector<4xf32>
// CHECK-NEXT:       scf.yield %20, %21 : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     %14 = tsr_tile.reduce "maximum_f32" %13#0 : vector<4xf32> -> f32
// CHECK-NEXT:     %15 = tsr_tile.reduce "minimum_f32" %13#1 : vector<4xf32> -> f32
// CHECK-NEXT:     %16:2 = scf.for %arg1 = %12 to %0 step %c1_i64 iter_args(%arg2 = %14, %arg3 = %15) -> (f32, f32)  : i64 {
// CHECK-NEXT:       %18 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %19 = tsr_tile.load %in0[%18] : f32 -> f32
// CHECK-NEXT:       %20 = arith.maximumf %arg2, %19 : f32
// CHECK-NEXT:       %21 = arith.minimumf %arg3, %19 : f32
// CHECK-NEXT:       scf.yield %20, %21 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %17 = tsr_tile.map "sub_f32"(%16#0, %16#1) : (f32, f32) -> f32
// CHECK-NEXT:     tsr_tile.store %17, %out0[%arg0] : f32 -> f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
!c = tensor<?x1xf32, [0, -1]>
tsr_graph.trace "two" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.max %v0 step 39 values [1] until [41] {axes = array<i64: 1>, keepdims = true} : (!t) -> !c
  %v2 = tsr_graph.min %v0 step 40 values [2] until [41] {axes = array<i64: 1>, keepdims = true} : (!t) -> !c
  %v3 = tsr_graph.sub %v1, %v2 step 41 values [3] until [end] : (!c, !c) -> !c
}
