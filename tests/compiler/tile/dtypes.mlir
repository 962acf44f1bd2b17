// tsr-lower-kernels: dtypes (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels --canonicalize --cse | FileCheck %s

// f64 is summed as it is.
// CHECK-LABEL: tsr_tile.kernel @k11 at 11 steps [10, 11] inputs [0] outputs [2] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %cst = arith.constant 0.000000e+00 : f64
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c8_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c8_i64 : i64
// CHECK-NEXT:     %4 = tsr_tile.splat %cst : f64 -> vector<8xf64>
// CHECK-NEXT:     %5 = scf.for %arg1 = %c0_i64 to %3 step %c8_i64 iter_args(%arg2 = %4) -> (vector<8xf64>)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f64 -> vector<8xf64>
// CHECK-NEXT:       %16 = tsr_tile.map "square_f64"(%15) : (vector<8xf64>) -> vector<8xf64>
// CHECK-NEXT:       %17 = arith.addf %arg2, %16 : vector<8xf64>
// CHECK-NEXT:       scf.yield %17 : vector<8xf64>
// CHECK-NEXT:     }
// CHECK-NEXT:     %6 = tsr_tile.reduce "add_f64" %5 : vector<8xf64> -> vector<2xf64>
// CHECK-NEXT:     %7 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %8 = arith.divui %7, %c2_i64 : i64
// CHECK-NEXT:     %9 = arith.muli %8, %c2_i64 : i64
// CHECK-NEXT:     %10 = arith.addi %3, %9 : i64
// CHECK-NEXT:     %11 = scf.for %arg1 = %3 to %10 step %c2_i64 iter_args(%arg2 = %6) -> (vector<2xf64>)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f64 -> vector<2xf64>
// CHECK-NEXT:       %16 = tsr_tile.map "square_f64"(%15) : (vector<2xf64>) -> vector<2xf64>
// CHECK-NEXT:       %17 = arith.addf %arg2, %16 : vector<2xf64>
// CHECK-NEXT:       scf.yield %17 : vector<2xf64>
// CHECK-NEXT:     }
// CHECK-NEXT:     %12 = tsr_tile.reduce "add_f64" %11 : vector<2xf64> -> f64
// CHECK-NEXT:     %13 = scf.for %arg1 = %10 to %0 step %c1_i64 iter_args(%arg2 = %12) -> (f64)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f64 -> f64
// CHECK-NEXT:       %16 = tsr_tile.map "square_f64"(%15) : (f64) -> f64
// CHECK-NEXT:       %17 = arith.addf %arg2, %16 : f64
// CHECK-NEXT:       scf.yield %17 : f64
// CHECK-NEXT:     }
// CHECK-NEXT:     tsr_tile.store %13, %out0[%arg0] : f64 -> f64
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf64, [0, 1]>
!c = tensor<?x1xf64, [0, -1]>
tsr_graph.trace "f64" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.square %v0 step 10 values [1] until [11] : (!t) -> !t
  %v2 = tsr_graph.sum %v1 step 11 values [2] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !c
}

// -----
// Unsigned maxima start from 0.
// CHECK-LABEL: tsr_tile.kernel @k21 at 21 steps [20, 21] inputs [0] outputs [2] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c0_i8 = arith.constant 0 : i8
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:     %4 = tsr_tile.splat %c0_i8 : i8 -> vector<16xi8>
// CHECK-NEXT:     %5 = scf.for %arg1 = %c0_i64 to %3 step %c16_i64 iter_args(%arg2 = %4) -> (vector<16xi8>)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : ui8 -> vector<16xi8>
// CHECK-NEXT:       %16 = tsr_tile.map "square_u8"(%15) : (vector<16xi8>) -> vector<16xi8>
// CHECK-NEXT:       %17 = arith.maxui %arg2, %16 : vector<16xi8>
// CHECK-NEXT:       scf.yield %17 : vector<16xi8>
// CHECK-NEXT:     }
// CHECK-NEXT:     %6 = tsr_tile.reduce "maximum_u8" %5 : vector<16xi8> -> vector<4xi8>
// CHECK-NEXT:     %7 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %8 = arith.divui %7, %c4_i64 : i64
// CHECK-NEXT:     %9 = arith.muli %8, %c4_i64 : i64
// CHECK-NEXT:     %10 = arith.addi %3, %9 : i64
// CHECK-NEXT:     %11 = scf.for %arg1 = %3 to %10 step %c4_i64 iter_args(%arg2 = %6) -> (vector<4xi8>)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : ui8 -> vector<4xi8>
// CHECK-NEXT:       %16 = tsr_tile.map "square_u8"(%15) : (vector<4xi8>) -> vector<4xi8>
// CHECK-NEXT:       %17 = arith.maxui %arg2, %16 : vector<4xi8>
// CHECK-NEXT:       scf.yield %17 : vector<4xi8>
// CHECK-NEXT:     }
// CHECK-NEXT:     %12 = tsr_tile.reduce "maximum_u8" %11 : vector<4xi8> -> i8
// CHECK-NEXT:     %13 = scf.for %arg1 = %10 to %0 step %c1_i64 iter_args(%arg2 = %12) -> (i8)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : ui8 -> i8
// CHECK-NEXT:       %16 = tsr_tile.map "square_u8"(%15) : (i8) -> i8
// CHECK-NEXT:       %17 = arith.maxui %arg2, %16 : i8
// CHECK-NEXT:       scf.yield %17 : i8
// CHECK-NEXT:     }
// CHECK-NEXT:     tsr_tile.store %13, %out0[%arg0] : i8 -> ui8
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xui8, [0, 1]>
!c = tensor<?x1xui8, [0, -1]>
tsr_graph.trace "u8" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.square %v0 step 20 values [1] until [21] : (!t) -> !t
  %v2 = tsr_graph.max %v1 step 21 values [2] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !c
}

// -----
// Signed minima start from the largest number.
// CHECK-LABEL: tsr_tile.kernel @k31 at 31 steps [30, 31] inputs [0] outputs [2] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c2147483647_i32 = arith.constant 2147483647 : i32
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:     %4 = tsr_tile.splat %c2147483647_i32 : i32 -> vector<16xi32>
// CHECK-NEXT:     %5 = scf.for %arg1 = %c0_i64 to %3 step %c16_i64 iter_args(%arg2 = %4) -> (vector<16xi32>)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : i32 -> vector<16xi32>
// CHECK-NEXT:       %16 = tsr_tile.map "square_i32"(%15) : (vector<16xi32>) -> vector<16xi32>
// CHECK-NEXT:       %17 = arith.minsi %arg2, %16 : vector<16xi32>
// CHECK-NEXT:       scf.yield %17 : vector<16xi32>
// CHECK-NEXT:     }
// CHECK-NEXT:     %6 = tsr_tile.reduce "minimum_i32" %5 : vector<16xi32> -> vector<4xi32>
// CHECK-NEXT:     %7 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %8 = arith.divui %7, %c4_i64 : i64
// CHECK-NEXT:     %9 = arith.muli %8, %c4_i64 : i64
// CHECK-NEXT:     %10 = arith.addi %3, %9 : i64
// CHECK-NEXT:     %11 = scf.for %arg1 = %3 to %10 step %c4_i64 iter_args(%arg2 = %6) -> (vector<4xi32>)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : i32 -> vector<4xi32>
// CHECK-NEXT:       %16 = tsr_tile.map "square_i32"(%15) : (vector<4xi32>) -> vector<4xi32>
// CHECK-NEXT:       %17 = arith.minsi %arg2, %16 : vector<4xi32>
// CHECK-NEXT:       scf.yield %17 : vector<4xi32>
// CHECK-NEXT:     }
// CHECK-NEXT:     %12 = tsr_tile.reduce "minimum_i32" %11 : vector<4xi32> -> i32
// CHECK-NEXT:     %13 = scf.for %arg1 = %10 to %0 step %c1_i64 iter_args(%arg2 = %12) -> (i32)  : i64 {
// CHECK-NEXT:       %14 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : i32 -> i32
// CHECK-NEXT:       %16 = tsr_tile.map "square_i32"(%15) : (i32) -> i32
// CHECK-NEXT:       %17 = arith.minsi %arg2, %16 : i32
// CHECK-NEXT:       scf.yield %17 : i32
// CHECK-NEXT:     }
// CHECK-NEXT:     tsr_tile.store %13, %out0[%arg0] : i32 -> i32
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xi32, [0, 1]>
!c = tensor<?x1xi32, [0, -1]>
tsr_graph.trace "i32" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.square %v0 step 30 values [1] until [31] : (!t) -> !t
  %v2 = tsr_graph.min %v1 step 31 values [2] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !c
}

// -----
// bf16: each op of the program rounds; a sum of bf16 is one of f32.
// CHECK-LABEL: tsr_tile.kernel @k41 at 41 steps [40, 41] inputs [0] outputs [2] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %cst = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c128_i64 = arith.constant 128 : i64
// CHECK-NEXT:   %cst_0 = arith.constant 0.000000e+00 : f64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:     %4 = tsr_tile.splat %cst_0 : f64 -> vector<16xf64>
// CHECK-NEXT:     %5 = scf.for %arg1 = %c0_i64 to %3 step %c128_i64 iter_args(%arg2 = %4) -> (vector<16xf64>)  : i64 {
// CHECK-NEXT:       %16 = arith.addi %arg1, %c128_i64 : i64
// CHECK-NEXT:       %17 = arith.minsi %16, %3 : i64
// CHECK-NEXT:       %18 = tsr_tile.splat %cst : f32 -> vector<16xf32>
// CHECK-NEXT:       %19 = scf.for %arg3 = %arg1 to %17 step %c16_i64 iter_args(%arg4 = %18) -> (vector<16xf32>)  : i64 {
// CHECK-NEXT:         %22 = arith.addi %1, %arg3 : i64
// CHECK-NEXT:         %23 = tsr_tile.load %in0[%22] : bf16 -> vector<16xf32>
// CHECK-NEXT:         %24 = tsr_tile.map "square_f32"(%23) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:         %25 = tsr_tile.map "round_bf16"(%24) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:         %26 = arith.addf %arg4, %25 : vector<16xf32>
// CHECK-NEXT:         scf.yield %26 : vector<16xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       %20 = tsr_tile.widen %19 : vector<16xf32> -> vector<16xf64>
// CHECK-NEXT:       %21 = arith.addf %arg2, %20 : vector<16xf64>
// CHECK-NEXT:       scf.yield %21 : vector<16xf64>
// CHECK-NEXT:     }
// CHECK-NEXT:     %6 = tsr_tile.reduce "add_f64" %5 : vector<16xf64> -> vector<4xf64>
// CHECK-NEXT:     %7 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %8 = arith.divui %7, %c4_i64 : i64
// CHECK-NEXT:     %9 = arith.muli %8, %c4_i64 : i64
// CHECK-NEXT:     %10 = arith.addi %3, %9 : i64
// CHECK-NEXT:     %11 = scf.for %arg1 = %3 to %10 step %c4_i64 iter_args(%arg2 = %6) -> (vector<4xf64>)  : i64 {
// CHECK-NEXT:       %16 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %17 = tsr_tile.load %in0[%16] : bf16 -> vector<4xf32>
// CHECK-NEXT:       %18 = tsr_tile.map "square_f32"(%17) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %19 = tsr_tile.map "round_bf16"(%18) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %20 = tsr_tile.widen %19 : vector<4xf32> -> vector<4xf64>
// CHECK-NEXT:       %21 = arith.addf %arg2, %20 : vector<4xf64>
// CHECK-NEXT:       scf.yield %21 : vector<4xf64>
// CHECK-NEXT:     }
// CHECK-NEXT:     %12 = tsr_tile.reduce "add_f64" %11 : vector<4xf64> -> f64
// CHECK-NEXT:     %13 = scf.for %arg1 = %10 to %0 step %c1_i64 iter_args(%arg2 = %12) -> (f64)  : i64 {
// CHECK-NEXT:       %16 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %17 = tsr_tile.load %in0[%16] : bf16 -> f32
// CHECK-NEXT:       %18 = tsr_tile.map "square_f32"(%17) : (f32) -> f32
// CHECK-NEXT:       %19 = tsr_tile.map "round_bf16"(%18) : (f32) -> f32
// CHECK-NEXT:       %20 = tsr_tile.widen %19 : f32 -> f64
// CHECK-NEXT:       %21 = arith.addf %arg2, %20 : f64
// CHECK-NEXT:       scf.yield %21 : f64
// CHECK-NEXT:     }
// CHECK-NEXT:     %14 = arith.truncf %13 : f64 to f32
// CHECK-NEXT:     %15 = tsr_tile.map "round_bf16"(%14) : (f32) -> f32
// CHECK-NEXT:     tsr_tile.store %15, %out0[%arg0] : f32 -> bf16
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xbf16, [0, 1]>
!c = tensor<?x1xbf16, [0, -1]>
tsr_graph.trace "bf16" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.square %v0 step 40 values [1] until [41] : (!t) -> !t
  %v2 = tsr_graph.sum %v1 step 41 values [2] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !c
}

// -----
// f8, and a comparison: bool is i8.
// CHECK-LABEL: tsr_tile.kernel @k50 at 50 steps [49, 50] inputs [0, 1] outputs [2, 3] dims {{\[}}[0, 0]] strides {{\[}}[], [], [], []] tasks [0] unit [] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = arith.subi %end, %begin : i64
// CHECK-NEXT:   %1 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:   %2 = arith.muli %1, %c16_i64 : i64
// CHECK-NEXT:   %3 = arith.addi %begin, %2 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %3 step %c16_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f8E4M3FN -> vector<16xf32>
// CHECK-NEXT:     %9 = tsr_tile.load %in1[%arg0] : f8E4M3FN -> vector<16xf32>
// CHECK-NEXT:     %10 = tsr_tile.map "add_f32"(%8, %9) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:     %11 = tsr_tile.map "round_f8e4m3"(%10) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:     %12 = tsr_tile.map "lt_f32"(%11, %9) : (vector<16xf32>, vector<16xf32>) -> vector<16xi8>
// CHECK-NEXT:     tsr_tile.store %11, %out0[%arg0] : vector<16xf32> -> f8E4M3FN
// CHECK-NEXT:     tsr_tile.store %12, %out1[%arg0] : vector<16xi8> -> i1
// CHECK-NEXT:   }
// CHECK-NEXT:   %4 = arith.subi %end, %3 : i64
// CHECK-NEXT:   %5 = arith.divui %4, %c4_i64 : i64
// CHECK-NEXT:   %6 = arith.muli %5, %c4_i64 : i64
// CHECK-NEXT:   %7 = arith.addi %3, %6 : i64
// CHECK-NEXT:   scf.for %arg0 = %3 to %7 step %c4_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f8E4M3FN -> vector<4xf32>
// CHECK-NEXT:     %9 = tsr_tile.load %in1[%arg0] : f8E4M3FN -> vector<4xf32>
// CHECK-NEXT:     %10 = tsr_tile.map "add_f32"(%8, %9) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:     %11 = tsr_tile.map "round_f8e4m3"(%10) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:     %12 = tsr_tile.map "lt_f32"(%11, %9) : (vector<4xf32>, vector<4xf32>) -> vector<4xi8>
// CHECK-NEXT:     tsr_tile.store %11, %out0[%arg0] : vector<4xf32> -> f8E4M3FN
// CHECK-NEXT:     tsr_tile.store %12, %out1[%arg0] : vector<4xi8> -> i1
// CHECK-NEXT:   }
// CHECK-NEXT:   scf.for %arg0 = %7 to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f8E4M3FN -> f32
// CHECK-NEXT:     %9 = tsr_tile.load %in1[%arg0] : f8E4M3FN -> f32
// CHECK-NEXT:     %10 = tsr_tile.map "add_f32"(%8, %9) : (f32, f32) -> f32
// CHECK-NEXT:     %11 = tsr_tile.map "round_f8e4m3"(%10) : (f32) -> f32
// CHECK-NEXT:     %12 = tsr_tile.map "lt_f32"(%11, %9) : (f32, f32) -> i8
// CHECK-NEXT:     tsr_tile.store %11, %out0[%arg0] : f32 -> f8E4M3FN
// CHECK-NEXT:     tsr_tile.store %12, %out1[%arg0] : i8 -> i1
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?xf8E4M3FN, [0]>
!b = tensor<?xi1, [0]>
tsr_graph.trace "f8" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.add %v0, %v1 step 49 values [2] until [50] : (!t, !t) -> !t
  %v3 = tsr_graph.lt %v2, %v1 step 50 values [3] until [51] : (!t, !t) -> !b
  %v4 = tsr_graph.where %v3, %v0, %v2 step 51 values [4] until [end] : (!b, !t, !t) -> !t
}

// -----
// Casts: through f32 where that is exact, rounded once where it is not.
// CHECK-LABEL: tsr_tile.kernel @k60 at 60 steps [59, 60] inputs [0] outputs [2] dims {{\[}}[0, 0]] strides {{\[}}[], []] tasks [0] unit [] grain 32768 scratch []
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = arith.subi %end, %begin : i64
// CHECK-NEXT:   %1 = arith.divui %0, %c8_i64 : i64
// CHECK-NEXT:   %2 = arith.muli %1, %c8_i64 : i64
// CHECK-NEXT:   %3 = arith.addi %begin, %2 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %3 step %c8_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f64 -> vector<8xf64>
// CHECK-NEXT:     %9 = tsr_tile.map "pre_f64"(%8) : (vector<8xf64>) -> vector<8xf32>
// CHECK-NEXT:     %10 = tsr_tile.map "round_f16"(%9) : (vector<8xf32>) -> vector<8xf32>
// CHECK-NEXT:     %11 = tsr_tile.map "cast_f32_i64"(%10) : (vector<8xf32>) -> vector<8xi64>
// CHECK-NEXT:     tsr_tile.store %11, %out0[%arg0] : vector<8xi64> -> i64
// CHECK-NEXT:   }
// CHECK-NEXT:   %4 = arith.subi %end, %3 : i64
// CHECK-NEXT:   %5 = arith.divui %4, %c2_i64 : i64
// CHECK-NEXT:   %6 = arith.muli %5, %c2_i64 : i64
// CHECK-NEXT:   %7 = arith.addi %3, %6 : i64
// CHECK-NEXT:   scf.for %arg0 = %3 to %7 step %c2_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f64 -> vector<2xf64>
// CHECK-NEXT:     %9 = tsr_tile.map "pre_f64"(%8) : (vector<2xf64>) -> vector<2xf32>
// CHECK-NEXT:     %10 = tsr_tile.map "round_f16"(%9) : (vector<2xf32>) -> vector<2xf32>
// CHECK-NEXT:     %11 = tsr_tile.map "cast_f32_i64"(%10) : (vector<2xf32>) -> vector<2xi64>
// CHECK-NEXT:     tsr_tile.store %11, %out0[%arg0] : vector<2xi64> -> i64
// CHECK-NEXT:   }
// CHECK-NEXT:   scf.for %arg0 = %7 to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f64 -> f64
// CHECK-NEXT:     %9 = tsr_tile.map "pre_f64"(%8) : (f64) -> f32
// CHECK-NEXT:     %10 = tsr_tile.map "round_f16"(%9) : (f32) -> f32
// CHECK-NEXT:     %11 = tsr_tile.map "cast_f32_i64"(%10) : (f32) -> i64
// CHECK-NEXT:     tsr_tile.store %11, %out0[%arg0] : i64 -> i64
// CHECK-NEXT:   }
// CHECK-NEXT: }
!d = tensor<?xf64, [0]>
!h = tensor<?xf16, [0]>
!i = tensor<?xi64, [0]>
tsr_graph.trace "casts" values [0] strides [[]] (%v0: !d) {
  %v1 = tsr_graph.cast %v0 step 59 values [1] until [60] {dtype = f16} : (!d) -> !h
  %v2 = tsr_graph.cast %v1 step 60 values [2] until [end] {dtype = i64} : (!h) -> !i
}
