// tsr-lower-kernels: sums that many tasks do parts of (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels --canonicalize --cse | FileCheck %s

// Along columns, with what is computed before written on the way.
// CHECK-LABEL: tsr_tile.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [2, 3] dims {{\[}}[0, 0], [0, 1], [0, 2]] strides {{\[}}[], [], [], []] tasks [0, 2] blocks [2, 512] unit [-3, 1, -513] grain 32768 scratch [] partial 4096
// CHECK-NEXT:   %cst = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %c4096_i64 = arith.constant 4096 : i64
// CHECK-NEXT:   %cst_0 = arith.constant 0.000000e+00 : f64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c512_i64 = arith.constant 512 : i64
// CHECK-NEXT:   %c511_i64 = arith.constant 511 : i64
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[2]
// CHECK-NEXT:   %1 = tsr_tile.dim %table[1]
// CHECK-NEXT:   %2 = tsr_tile.dim %table[0]
// CHECK-NEXT:   %3 = arith.addi %2, %c1_i64 : i64
// CHECK-NEXT:   %4 = arith.divui %3, %c2_i64 : i64
// CHECK-NEXT:   %5 = arith.muli %1, %c2_i64 : i64
// CHECK-NEXT:   %6 = arith.muli %2, %1 : i64
// CHECK-NEXT:   %7 = arith.addi %0, %c511_i64 : i64
// CHECK-NEXT:   %8 = arith.divui %7, %c512_i64 : i64
// CHECK-NEXT:   %9 = arith.cmpi slt, %end, %c0_i64 : i64
// CHECK-NEXT:   scf.if %9 {
// CHECK-NEXT:     scf.for %arg0 = %c0_i64 to %8 step %c1_i64  : i64 {
// CHECK-NEXT:       %10 = arith.muli %arg0, %c512_i64 : i64
// CHECK-NEXT:       %11 = arith.addi %10, %c512_i64 : i64
// CHECK-NEXT:       %12 = arith.minsi %11, %0 : i64
// CHECK-NEXT:       %13 = arith.subi %12, %10 : i64
// CHECK-NEXT:       %14 = arith.divui %13, %c16_i64 : i64
// CHECK-NEXT:       %15 = arith.muli %14, %c16_i64 : i64
// CHECK-NEXT:       %16 = arith.addi %10, %15 : i64
// CHECK-NEXT:       scf.for %arg1 = %10 to %16 step %c16_i64  : i64 {
// CHECK-NEXT:         %21 = arith.subi %arg1, %10 : i64
// CHECK-NEXT:         %22 = tsr_tile.splat %cst_0 : f64 -> vector<16xf64>
// CHECK-NEXT:         %23 = scf.for %arg2 = %c0_i64 to %4 step %c1_i64 iter_args(%arg3 = %22) -> (vector<16xf64>)  : i64 {
// CHECK-NEXT:           %25 = arith.muli %arg2, %8 : i64
// CHECK-NEXT:           %26 = arith.addi %25, %arg0 : i64
// CHECK-NEXT:           %27 = arith.muli %26, %c4096_i64 : i64
// CHECK-NEXT:           %28 = arith.muli %21, %c8_i64 : i64
// CHECK-NEXT:           %29 = arith.addi %27, %28 : i64
// CHECK-NEXT:           %30 = llvm.getelementptr %partial[%29] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %31 = tsr_tile.load %30[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:           %32 = arith.addf %arg3, %31 : vector<16xf64>
// CHECK-NEXT:           scf.yield %32 : vector<16xf64>
// CHECK-NEXT:         }
// CHECK-NEXT:         %24 = arith.truncf %23 : vector<16xf64> to vector<16xf32>
// CHECK-NEXT:         tsr_tile.store %24, %out1[%arg1] : vector<16xf32> -> f32
// CHECK-NEXT:       }
// CHECK-NEXT:       %17 = arith.subi %12, %16 : i64
// CHECK-NEXT:       %18 = arith.divui %17, %c4_i64 : i64
// CHECK-NEXT:       %19 = arith.muli %18, %c4_i64 : i64
// CHECK-NEXT:       %20 = arith.addi %16, %19 : i64
// CHECK-NEXT:       scf.for %arg1 = %16 to %20 step %c4_i64  : i64 {
// CHECK-NEXT:         %21 = arith.subi %arg1, %10 : i64
// CHECK-NEXT:         %22 = tsr_tile.splat %cst_0 : f64 -> vector<4xf64>
// CHECK-NEXT:         %23 = scf.for %arg2 = %c0_i64 to %4 step %c1_i64 iter_args(%arg3 = %22) -> (vector<4xf64>)  : i64 {
// CHECK-NEXT:           %25 = arith.muli %arg2, %8 : i64
// CHECK-NEXT:           %26 = arith.addi %25, %arg0 : i64
// CHECK-NEXT:           %27 = arith.muli %26, %c4096_i64 : i64
// CHECK-NEXT:           %28 = arith.muli %21, %c8_i64 : i64
// CHECK-NEXT:           %29 = arith.addi %27, %28 : i64
// CHECK-NEXT:           %30 = llvm.getelementptr %partial[%29] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %31 = tsr_tile.load %30[%c0_i64] : f64 -> vector<4xf64>
// CHECK-NEXT:           %32 = arith.addf %arg3, %31 : vector<4xf64>
// CHECK-NEXT:           scf.yield %32 : vector<4xf64>
// CHECK-NEXT:         }
// CHECK-NEXT:         %24 = arith.truncf %23 : vector<4xf64> to vector<4xf32>
// CHECK-NEXT:         tsr_tile.store %24, %out1[%arg1] : vector<4xf32> -> f32
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %arg1 = %20 to %12 step %c1_i64  : i64 {
// CHECK-NEXT:         %21 = arith.subi %arg1, %10 : i64
// CHECK-NEXT:         %22 = scf.for %arg2 = %c0_i64 to %4 step %c1_i64 iter_args(%arg3 = %cst_0) -> (f64)  : i64 {
// CHECK-NEXT:           %24 = arith.muli %arg2, %8 : i64
// CHECK-NEXT:           %25 = arith.addi %24, %arg0 : i64
// CHECK-NEXT:           %26 = arith.muli %25, %c4096_i64 : i64
// CHECK-NEXT:           %27 = arith.muli %21, %c8_i64 : i64
// CHECK-NEXT:           %28 = arith.addi %26, %27 : i64
// CHECK-NEXT:           %29 = llvm.getelementptr %partial[%28] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %30 = tsr_tile.load %29[%c0_i64] : f64 -> f64
// CHECK-NEXT:           %31 = arith.addf %arg3, %30 : f64
// CHECK-NEXT:           scf.yield %31 : f64
// CHECK-NEXT:         }
// CHECK-NEXT:         %23 = arith.truncf %22 : f64 to f32
// CHECK-NEXT:         tsr_tile.store %23, %out1[%arg1] : f32 -> f32
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   } else {
// CHECK-NEXT:     scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:       %10 = arith.remui %arg0, %8 : i64
// CHECK-NEXT:       %11 = arith.divui %arg0, %8 : i64
// CHECK-NEXT:       %12 = arith.remui %11, %4 : i64
// CHECK-NEXT:       %13 = arith.muli %10, %c512_i64 : i64
// CHECK-NEXT:       %14 = arith.addi %13, %c512_i64 : i64
// CHECK-NEXT:       %15 = arith.minsi %14, %0 : i64
// CHECK-NEXT:       %16 = arith.muli %12, %5 : i64
// CHECK-NEXT:       %17 = arith.addi %16, %5 : i64
// CHECK-NEXT:       %18 = arith.minsi %17, %6 : i64
// CHECK-NEXT:       %19 = arith.muli %arg0, %c4096_i64 : i64
// CHECK-NEXT:       %20 = arith.subi %15, %13 : i64
// CHECK-NEXT:       %21 = arith.divui %20, %c16_i64 : i64
// CHECK-NEXT:       %22 = arith.muli %21, %c16_i64 : i64
// CHECK-NEXT:       %23 = arith.addi %13, %22 : i64
// CHECK-NEXT:       scf.for %arg1 = %13 to %23 step %c16_i64  : i64 {
// CHECK-NEXT:         %28 = arith.subi %arg1, %13 : i64
// CHECK-NEXT:         %29 = tsr_tile.splat %cst_0 : f64 -> vector<16xf64>
// CHECK-NEXT:         %30 = arith.muli %28, %c8_i64 : i64
// CHECK-NEXT:         %31 = arith.addi %19, %30 : i64
// CHECK-NEXT:         %32 = llvm.getelementptr %partial[%31] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         tsr_tile.store %29, %32[%c0_i64] : vector<16xf64> -> f64
// CHECK-NEXT:       }
// CHECK-NEXT:       %24 = arith.subi %15, %23 : i64
// CHECK-NEXT:       %25 = arith.divui %24, %c4_i64 : i64
// CHECK-NEXT:       %26 = arith.muli %25, %c4_i64 : i64
// CHECK-NEXT:       %27 = arith.addi %23, %26 : i64
// CHECK-NEXT:       scf.for %arg1 = %23 to %27 step %c4_i64  : i64 {
// CHECK-NEXT:         %28 = arith.subi %arg1, %13 : i64
// CHECK-NEXT:         %29 = tsr_tile.splat %cst_0 : f64 -> vector<4xf64>
// CHECK-NEXT:         %30 = arith.muli %28, %c8_i64 : i64
// CHECK-NEXT:         %31 = arith.addi %19, %30 : i64
// CHECK-NEXT:         %32 = llvm.getelementptr %partial[%31] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         tsr_tile.store %29, %32[%c0_i64] : vector<4xf64> -> f64
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %arg1 = %27 to %15 step %c1_i64  : i64 {
// CHECK-NEXT:         %28 = arith.subi %arg1, %13 : i64
// CHECK-NEXT:         %29 = arith.muli %28, %c8_i64 : i64
// CHECK-NEXT:         %30 = arith.addi %19, %29 : i64
// CHECK-NEXT:         %31 = llvm.getelementptr %partial[%30] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         tsr_tile.store %cst_0, %31[%c0_i64] : f64 -> f64
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %arg1 = %16 to %18 step %c8_i64  : i64 {
// CHECK-NEXT:         %28 = arith.addi %arg1, %c8_i64 : i64
// CHECK-NEXT:         %29 = arith.minsi %28, %18 : i64
// CHECK-NEXT:         scf.for %arg2 = %13 to %23 step %c16_i64  : i64 {
// CHECK-NEXT:           %30 = arith.subi %arg2, %13 : i64
// CHECK-NEXT:           %31 = tsr_tile.splat %cst : f32 -> vector<16xf32>
// CHECK-NEXT:           %32 = scf.for %arg3 = %arg1 to %29 step %c1_i64 iter_args(%arg4 = %31) -> (vector<16xf32>)  : i64 {
// CHECK-NEXT:             %39 = arith.muli %arg3, %0 : i64
// CHECK-NEXT:             %40 = arith.addi %39, %arg2 : i64
// CHECK-NEXT:             %41 = tsr_tile.load %in0[%40] : f32 -> vector<16xf32>
// CHECK-NEXT:             %42 = tsr_tile.load %in1[%40] : f32 -> vector<16xf32>
// CHECK-NEXT:             %43 = tsr_tile.map "mul_f32"(%41, %42) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:             %44 = arith.addf %arg4, %43 : vector<16xf32>
// CHECK-NEXT:             tsr_tile.store %43, %out0[%40] : vector<16xf32> -> f32
// CHECK-NEXT:             scf.yield %44 : vector<16xf32>
// CHECK-NEXT:           }
// CHECK-NEXT:           %33 = arith.muli %30, %c8_i64 : i64
// CHECK-NEXT:           %34 = arith.addi %19, %33 : i64
// CHECK-NEXT:           %35 = llvm.getelementptr %partial[%34] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %36 = tsr_tile.load %35[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:           %37 = tsr_tile.widen %32 : vector<16xf32> -> vector<16xf64>
// CHECK-NEXT:           %38 = arith.addf %36, %37 : vector<16xf64>
// CHECK-NEXT:           tsr_tile.store %38, %35[%c0_i64] : vector<16xf64> -> f64
// CHECK-NEXT:         }
// CHECK-NEXT:         scf.for %arg2 = %23 to %27 step %c4_i64  : i64 {
// CHECK-NEXT:           %30 = arith.subi %arg2, %13 : i64
// CHECK-NEXT:           %31 = tsr_tile.splat %cst : f32 -> vector<4xf32>
// CHECK-NEXT:           %32 = scf.for %arg3 = %arg1 to %29 step %c1_i64 iter_args(%arg4 = %31) -> (vector<4xf32>)  : i64 {
// CHECK-NEXT:             %39 = arith.muli %arg3, %0 : i64
// CHECK-NEXT:             %40 = arith.addi %39, %arg2 : i64
// CHECK-NEXT:             %41 = tsr_tile.load %in0[%40] : f32 -> vector<4xf32>
// CHECK-NEXT:             %42 = tsr_tile.load %in1[%40] : f32 -> vector<4xf32>
// CHECK-NEXT:             %43 = tsr_tile.map "mul_f32"(%41, %42) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:             %44 = arith.addf %arg4, %43 : vector<4xf32>
// CHECK-NEXT:             tsr_tile.store %43, %out0[%40] : vector<4xf32> -> f32
// CHECK-NEXT:             scf.yield %44 : vector<4xf32>
// CHECK-NEXT:           }
// CHECK-NEXT:           %33 = arith.muli %30, %c8_i64 : i64
// CHECK-NEXT:           %34 = arith.addi %19, %33 : i64
// CHECK-NEXT:           %35 = llvm.getelementptr %partial[%34] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %36 = tsr_tile.load %35[%c0_i64] : f64 -> vector<4xf64>
// CHECK-NEXT:           %37 = tsr_tile.widen %32 : vector<4xf32> -> vector<4xf64>
// CHECK-NEXT:           %38 = arith.addf %36, %37 : vector<4xf64>
// CHECK-NEXT:           tsr_tile.store %38, %35[%c0_i64] : vector<4xf64> -> f64
// CHECK-NEXT:         }
// CHECK-NEXT:         scf.for %arg2 = %27 to %15 step %c1_i64  : i64 {
// CHECK-NEXT:           %30 = arith.subi %arg2, %13 : i64
// CHECK-NEXT:           %31 = scf.for %arg3 = %arg1 to %29 step %c1_i64 iter_args(%arg4 = %cst) -> (f32)  : i64 {
// CHECK-NEXT:             %38 = arith.muli %arg3, %0 : i64
// CHECK-NEXT:             %39 = arith.addi %38, %arg2 : i64
// CHECK-NEXT:             %40 = tsr_tile.load %in0[%39] : f32 -> f32
// CHECK-NEXT:             %41 = tsr_tile.load %in1[%39] : f32 -> f32
// CHECK-NEXT:             %42 = tsr_tile.map "mul_f32"(%40, %41) : (f32, f32) -> f32
// CHECK-NEXT:             %43 = arith.addf %arg4, %42 : f32
// CHECK-NEXT:             tsr_tile.store %42, %out0[%39] : f32 -> f32
// CHECK-NEXT:             scf.yield %43 : f32
// CHECK-NEXT:           }
// CHECK-NEXT:           %32 = arith.muli %30, %c8_i64 : i64
// CHECK-NEXT:           %33 = arith.addi %19, %32 : i64
// CHECK-NEXT:           %34 = llvm.getelementptr %partial[%33] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %35 = tsr_tile.load %34[%c0_i64] : f64 -> f64
// CHECK-NEXT:           %36 = tsr_tile.widen %31 : f32 -> f64
// CHECK-NEXT:           %37 = arith.addf %35, %36 : f64
// CHECK-NEXT:           tsr_tile.store %37, %34[%c0_i64] : f64 -> f64
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<?x?x?xf32, [0, 1, 2]>
!c = tensor<?xf32, [2]>
tsr_graph.trace "columns" values [0, 1] strides [[], []] likely [16, 128, 512] (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [end] : (!x, !x) -> !x
  %v3 = tsr_graph.sum %v2 step 1 values [3] until [end] {axes = array<i64: 0, 1>} : (!x) -> !c
}

// -----
// Of everything: a task does so many rows.
// CHECK-LABEL: tsr_tile.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [3] dims [] strides {{\[}}[], [], []] tasks [-601] blocks [436] unit [-437, -301] grain 32768 scratch [] partial 8
// CHECK-NEXT:   %cst = arith.constant 1.800000e+05 : f64
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %cst_0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c128_i64 = arith.constant 128 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %cst_1 = arith.constant 0.000000e+00 : f64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %c180000_i64 = arith.constant 180000 : i64
// CHECK-NEXT:   %c130800_i64 = arith.constant 130800 : i64
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %0 = arith.cmpi slt, %end, %c0_i64 : i64
// CHECK-NEXT:   scf.if %0 {
// CHECK-NEXT:     %1 = scf.for %arg0 = %c0_i64 to %c2_i64 step %c1_i64 iter_args(%arg1 = %cst_1) -> (f64)  : i64 {
// CHECK-NEXT:       %4 = arith.muli %arg0, %c8_i64 : i64
// CHECK-NEXT:       %5 = llvm.getelementptr %partial[%4] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:       %6 = tsr_tile.load %5[%c0_i64] : f64 -> f64
// CHECK-NEXT:       %7 = arith.addf %arg1, %6 : f64
// CHECK-NEXT:       scf.yield %7 : f64
// CHECK-NEXT:     }
// CHECK-NEXT:     %2 = arith.divf %1, %cst : f64
// CHECK-NEXT:     %3 = arith.truncf %2 : f64 to f32
// CHECK-NEXT:     tsr_tile.store %3, %out0[%c0_i64] : f32 -> f32
// CHECK-NEXT:   } else {
// CHECK-NEXT:     scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:       %1 = arith.muli %arg0, %c130800_i64 : i64
// CHECK-NEXT:       %2 = arith.addi %1, %c130800_i64 : i64
// CHECK-NEXT:       %3 = arith.minsi %2, %c180000_i64 : i64
// CHECK-NEXT:       %4 = arith.muli %arg0, %c8_i64 : i64
// CHECK-NEXT:       %5 = arith.subi %3, %1 : i64
// CHECK-NEXT:       %6 = arith.divui %5, %c16_i64 : i64
// CHECK-NEXT:       %7 = arith.muli %6, %c16_i64 : i64
// CHECK-NEXT:       %8 = arith.addi %1, %7 : i64
// CHECK-NEXT:       %9 = tsr_tile.splat %cst_1 : f64 -> vector<16xf64>
// CHECK-NEXT:       %10 = scf.for %arg1 = %1 to %8 step %c128_i64 iter_args(%arg2 = %9) -> (vector<16xf64>)  : i64 {
// CHECK-NEXT:         %20 = arith.addi %arg1, %c128_i64 : i64
// CHECK-NEXT:         %21 = arith.minsi %20, %8 : i64
// CHECK-NEXT:         %22 = tsr_tile.splat %cst_0 : f32 -> vector<16xf32>
// CHECK-NEXT:         %23 = scf.for %arg3 = %arg1 to %21 step %c16_i64 iter_args(%arg4 = %22) -> (vector<16xf32>)  : i64 {
// CHECK-NEXT:           %26 = tsr_tile.load %in0[%arg3] : f32 -> vector<16xf32>
// CHECK-NEXT:           %27 = tsr_tile.load %in1[%arg3] : f32 -> vector<16xf32>
// CHECK-NEXT:           %28 = tsr_tile.map "mul_f32"(%26, %27) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:           %29 = arith.addf %arg4, %28 : vector<16xf32>
// CHECK-NEXT:           scf.yield %29 : vector<16xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         %24 = tsr_tile.widen %23 : vector<16xf32> -> vector<16xf64>
// CHECK-NEXT:         %25 = arith.addf %arg2, %24 : vector<16xf64>
// CHECK-NEXT:         scf.yield %25 : vector<16xf64>
// CHECK-NEXT:       }
// CHECK-NEXT:       %11 = tsr_tile.reduce "add_f64" %10 : vector<16xf64> -> vector<4xf64>
// CHECK-NEXT:       %12 = arith.subi %3, %8 : i64
// CHECK-NEXT:       %13 = arith.divui %12, %c4_i64 : i64
// CHECK-NEXT:       %14 = arith.muli %13, %c4_i64 : i64
// CHECK-NEXT:       %15 = arith.addi %8, %14 : i64
// CHECK-NEXT:       %16 = scf.for %arg1 = %8 to %15 step %c4_i64 iter_args(%arg2 = %11) -> (vector<4xf64>)  : i64 {
// CHECK-NEXT:         %20 = tsr_tile.load %in0[%arg1] : f32 -> vector<4xf32>
// CHECK-NEXT:         %21 = tsr_tile.load %in1[%arg1] : f32 -> vector<4xf32>
// CHECK-NEXT:         %22 = tsr_tile.map "mul_f32"(%20, %21) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:         %23 = tsr_tile.widen %22 : vector<4xf32> -> vector<4xf64>
// CHECK-NEXT:         %24 = arith.addf %arg2, %23 : vector<4xf64>
// CHECK-NEXT:         scf.yield %24 : vector<4xf64>
// CHECK-NEXT:       }
// CHECK-NEXT:       %17 = tsr_tile.reduce "add_f64" %16 : vector<4xf64> -> f64
// CHECK-NEXT:       %18 = scf.for %arg1 = %15 to %3 step %c1_i64 iter_args(%arg2 = %17) -> (f64)  : i64 {
// CHECK-NEXT:         %20 = tsr_tile.load %in0[%arg1] : f32 -> f32
// CHECK-NEXT:         %21 = tsr_tile.load %in1[%arg1] : f32 -> f32
// CHECK-NEXT:         %22 = tsr_tile.map "mul_f32"(%20, %21) : (f32, f32) -> f32
// CHECK-NEXT:         %23 = tsr_tile.widen %22 : f32 -> f64
// CHECK-NEXT:         %24 = arith.addf %arg2, %23 : f64
// CHECK-NEXT:         scf.yield %24 : f64
// CHECK-NEXT:       }
// CHECK-NEXT:       %19 = llvm.getelementptr %partial[%4] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:       tsr_tile.store %18, %19[%c0_i64] : f64 -> f64
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<600x300xf32>
tsr_graph.trace "everything" values [0, 1] strides [[], []] (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [1] : (!x, !x) -> !x
  %v3 = tsr_graph.mean %v2 step 1 values [3] until [end] : (!x) -> tensor<f32>
}

// -----
// A variance: two turns through the rows of a task, the second for distances from their mean and the squares of those. The
// last call moves squares to the mean of all rows.
// CHECK-LABEL: tsr_tile.kernel @k0 at 0 steps [0] inputs [0] outputs [1] dims [] strides {{\[}}[], []] tasks [-4097, -65] blocks [2048, 64] unit [-2049, -65] grain 32768 scratch [] partial 1536
// CHECK-NEXT:   %cst = arith.constant 4.095000e+03 : f64
// CHECK-NEXT:   %cst_0 = arith.constant 4.096000e+03 : f64
// CHECK-NEXT:   %cst_1 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c1024_i64 = arith.constant 1024 : i64
// CHECK-NEXT:   %c512_i64 = arith.constant 512 : i64
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %c1536_i64 = arith.constant 1536 : i64
// CHECK-NEXT:   %cst_2 = arith.constant 0.000000e+00 : f64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c4096_i64 = arith.constant 4096 : i64
// CHECK-NEXT:   %c64_i64 = arith.constant 64 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %c2048_i64 = arith.constant 2048 : i64
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %0 = arith.cmpi slt, %end, %c0_i64 : i64
// CHECK-NEXT:   scf.if %0 {
// CHECK-NEXT:     scf.for %arg0 = %c0_i64 to %c64_i64 step %c16_i64  : i64 {
// CHECK-NEXT:       %1 = tsr_tile.splat %cst_2 : f64 -> vector<16xf64>
// CHECK-NEXT:       %2:3 = scf.for %arg1 = %c0_i64 to %c2_i64 step %c1_i64 iter_args(%arg2 = %1, %arg3 = %1, %arg4 = %1) -> (vector<16xf64>, vector<16xf64>, vector<16xf64>)  : i64 {
// CHECK-NEXT:         %9 = arith.muli %arg1, %c1536_i64 : i64
// CHECK-NEXT:         %10 = arith.muli %arg0, %c8_i64 : i64
// CHECK-NEXT:         %11 = arith.addi %9, %10 : i64
// CHECK-NEXT:         %12 = llvm.getelementptr %partial[%11] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         %13 = tsr_tile.load %12[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:         %14 = arith.addf %arg2, %13 : vector<16xf64>
// CHECK-NEXT:         %15 = arith.addi %10, %c512_i64 : i64
// CHECK-NEXT:         %16 = arith.addi %9, %15 : i64
// CHECK-NEXT:         %17 = llvm.getelementptr %partial[%16] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         %18 = tsr_tile.load %17[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:         %19 = arith.addf %arg3, %18 : vector<16xf64>
// CHECK-NEXT:         %20 = arith.addi %10, %c1024_i64 : i64
// CHECK-NEXT:         %21 = arith.addi %9, %20 : i64
// CHECK-NEXT:         %22 = llvm.getelementptr %partial[%21] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         %23 = tsr_tile.load %22[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:         %24 = arith.addf %arg4, %23 : vector<16xf64>
// CHECK-NEXT:         scf.yield %14, %19, %24 : vector<16xf64>, vector<16xf64>, vector<16xf64>
// CHECK-NEXT:       }
// CHECK-NEXT:       %3 = tsr_tile.splat %cst_0 : f64 -> vector<16xf64>
// CHECK-NEXT:       %4 = arith.divf %2#0, %3 : vector<16xf64>
// CHECK-NEXT:       %5 = scf.for %arg1 = %c0_i64 to %c2_i64 step %c1_i64 iter_args(%arg2 = %1) -> (vector<16xf64>)  : i64 {
// CHECK-NEXT:         %9 = arith.muli %arg1, %c1536_i64 : i64
// CHECK-NEXT:         %10 = arith.muli %arg1, %c2048_i64 : i64
// CHECK-NEXT:         %11 = arith.addi %10, %c2048_i64 : i64
// CHECK-NEXT:         %12 = arith.minsi %11, %c4096_i64 : i64
// CHECK-NEXT:         %13 = arith.subi %12, %10 : i64
// CHECK-NEXT:         %14 = arith.sitofp %13 : i64 to f64
// CHECK-NEXT:         %15 = tsr_tile.splat %14 : f64 -> vector<16xf64>
// CHECK-NEXT:         %16 = arith.muli %arg0, %c8_i64 : i64
// CHECK-NEXT:         %17 = arith.addi %16, %c512_i64 : i64
// CHECK-NEXT:         %18 = arith.addi %9, %17 : i64
// CHECK-NEXT:         %19 = llvm.getelementptr %partial[%18] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         %20 = tsr_tile.load %19[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:         %21 = arith.addi %16, %c1024_i64 : i64
// CHECK-NEXT:         %22 = arith.addi %9, %21 : i64
// CHECK-NEXT:         %23 = llvm.getelementptr %partial[%22] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         %24 = tsr_tile.load %23[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:         %25 = arith.mulf %20, %20 : vector<16xf64>
// CHECK-NEXT:         %26 = arith.divf %25, %15 : vector<16xf64>
// CHECK-NEXT:         %27 = arith.subf %24, %26 : vector<16xf64>
// CHECK-NEXT:         %28 = arith.cmpf olt, %27, %1 : vector<16xf64>
// CHECK-NEXT:         %29 = arith.select %28, %1, %27 : vector<16xi1>, vector<16xf64>
// CHECK-NEXT:         %30 = arith.addi %9, %16 : i64
// CHECK-NEXT:         %31 = llvm.getelementptr %partial[%30] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         %32 = tsr_tile.load %31[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:         %33 = arith.divf %32, %15 : vector<16xf64>
// CHECK-NEXT:         %34 = arith.subf %33, %4 : vector<16xf64>
// CHECK-NEXT:         %35 = arith.mulf %34, %34 : vector<16xf64>
// CHECK-NEXT:         %36 = arith.mulf %35, %15 : vector<16xf64>
// CHECK-NEXT:         %37 = arith.addf %29, %36 : vector<16xf64>
// CHECK-NEXT:         %38 = arith.addf %arg2, %37 : vector<16xf64>
// CHECK-NEXT:         scf.yield %38 : vector<16xf64>
// CHECK-NEXT:       }
// CHECK-NEXT:       %6 = tsr_tile.splat %cst : f64 -> vector<16xf64>
// CHECK-NEXT:       %7 = arith.divf %5, %6 : vector<16xf64>
// CHECK-NEXT:       %8 = arith.truncf %7 : vector<16xf64> to vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %8, %out0[%arg0] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   } else {
// CHECK-NEXT:     scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:       %1 = arith.remui %arg0, %c2_i64 : i64
// CHECK-NEXT:       %2 = arith.muli %1, %c2048_i64 : i64
// CHECK-NEXT:       %3 = arith.addi %2, %c2048_i64 : i64
// CHECK-NEXT:       %4 = arith.minsi %3, %c4096_i64 : i64
// CHECK-NEXT:       %5 = arith.muli %arg0, %c1536_i64 : i64
// CHECK-NEXT:       scf.for %arg1 = %c0_i64 to %c64_i64 step %c16_i64  : i64 {
// CHECK-NEXT:         %8 = tsr_tile.splat %cst_2 : f64 -> vector<16xf64>
// CHECK-NEXT:         %9 = arith.muli %arg1, %c8_i64 : i64
// CHECK-NEXT:         %10 = arith.addi %5, %9 : i64
// CHECK-NEXT:         %11 = llvm.getelementptr %partial[%10] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         tsr_tile.store %8, %11[%c0_i64] : vector<16xf64> -> f64
// CHECK-NEXT:         %12 = arith.addi %9, %c512_i64 : i64
// CHECK-NEXT:         %13 = arith.addi %5, %12 : i64
// CHECK-NEXT:         %14 = llvm.getelementptr %partial[%13] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         tsr_tile.store %8, %14[%c0_i64] : vector<16xf64> -> f64
// CHECK-NEXT:         %15 = arith.addi %9, %c1024_i64 : i64
// CHECK-NEXT:         %16 = arith.addi %5, %15 : i64
// CHECK-NEXT:         %17 = llvm.getelementptr %partial[%16] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         tsr_tile.store %8, %17[%c0_i64] : vector<16xf64> -> f64
// CHECK-NEXT:       }
// CHECK-NEXT:       %6 = arith.subi %4, %2 : i64
// CHECK-NEXT:       %7 = arith.sitofp %6 : i64 to f64
// CHECK-NEXT:       scf.for %arg1 = %2 to %4 step %c8_i64  : i64 {
// CHECK-NEXT:         %8 = arith.addi %arg1, %c8_i64 : i64
// CHECK-NEXT:         %9 = arith.minsi %8, %4 : i64
// CHECK-NEXT:         scf.for %arg2 = %c0_i64 to %c64_i64 step %c16_i64  : i64 {
// CHECK-NEXT:           %10 = tsr_tile.splat %cst_1 : f32 -> vector<16xf32>
// CHECK-NEXT:           %11 = scf.for %arg3 = %arg1 to %9 step %c1_i64 iter_args(%arg4 = %10) -> (vector<16xf32>)  : i64 {
// CHECK-NEXT:             %18 = arith.muli %arg3, %c64_i64 : i64
// CHECK-NEXT:             %19 = arith.addi %18, %arg2 : i64
// CHECK-NEXT:             %20 = tsr_tile.load %in0[%19] : f32 -> vector<16xf32>
// CHECK-NEXT:             %21 = arith.addf %arg4, %20 : vector<16xf32>
// CHECK-NEXT:             scf.yield %21 : vector<16xf32>
// CHECK-NEXT:           }
// CHECK-NEXT:           %12 = arith.muli %arg2, %c8_i64 : i64
// CHECK-NEXT:           %13 = arith.addi %5, %12 : i64
// CHECK-NEXT:           %14 = llvm.getelementptr %partial[%13] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %15 = tsr_tile.load %14[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:           %16 = tsr_tile.widen %11 : vector<16xf32> -> vector<16xf64>
// CHECK-NEXT:           %17 = arith.addf %15, %16 : vector<16xf64>
// CHECK-NEXT:           tsr_tile.store %17, %14[%c0_i64] : vector<16xf64> -> f64
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %arg1 = %2 to %4 step %c8_i64  : i64 {
// CHECK-NEXT:         %8 = arith.addi %arg1, %c8_i64 : i64
// CHECK-NEXT:         %9 = arith.minsi %8, %4 : i64
// CHECK-NEXT:         scf.for %arg2 = %c0_i64 to %c64_i64 step %c16_i64  : i64 {
// CHECK-NEXT:           %10 = tsr_tile.splat %cst_1 : f32 -> vector<16xf32>
// CHECK-NEXT:           %11 = arith.muli %arg2, %c8_i64 : i64
// CHECK-NEXT:           %12 = arith.addi %5, %11 : i64
// CHECK-NEXT:           %13 = llvm.getelementptr %partial[%12] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %14 = tsr_tile.load %13[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:           %15 = tsr_tile.splat %7 : f64 -> vector<16xf64>
// CHECK-NEXT:           %16 = arith.divf %14, %15 : vector<16xf64>
// CHECK-NEXT:           %17 = arith.truncf %16 : vector<16xf64> to vector<16xf32>
// CHECK-NEXT:           %18:2 = scf.for %arg3 = %arg1 to %9 step %c1_i64 iter_args(%arg4 = %10, %arg5 = %10) -> (vector<16xf32>, vector<16xf32>)  : i64 {
// CHECK-NEXT:             %31 = arith.muli %arg3, %c64_i64 : i64
// CHECK-NEXT:             %32 = arith.addi %31, %arg2 : i64
// CHECK-NEXT:             %33 = tsr_tile.load %in0[%32] : f32 -> vector<16xf32>
// CHECK-NEXT:             %34 = arith.subf %33, %17 : vector<16xf32>
// CHECK-NEXT:             %35 = arith.addf %arg4, %34 : vector<16xf32>
// CHECK-NEXT:             %36 = arith.mulf %34, %34 : vector<16xf32>
// CHECK-NEXT:             %37 = arith.addf %arg5, %36 : vector<16xf32>
// CHECK-NEXT:             scf.yield %35, %37 : vector<16xf32>, vector<16xf32>
// CHECK-NEXT:           }
// CHECK-NEXT:           %19 = arith.addi %11, %c512_i64 : i64
// CHECK-NEXT:           %20 = arith.addi %5, %19 : i64
// CHECK-NEXT:           %21 = llvm.getelementptr %partial[%20] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %22 = tsr_tile.load %21[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:           %23 = tsr_tile.widen %18#0 : vector<16xf32> -> vector<16xf64>
// CHECK-NEXT:           %24 = arith.addf %22, %23 : vector<16xf64>
// CHECK-NEXT:           tsr_tile.store %24, %21[%c0_i64] : vector<16xf64> -> f64
// CHECK-NEXT:           %25 = arith.addi %11, %c1024_i64 : i64
// CHECK-NEXT:           %26 = arith.addi %5, %25 : i64
// CHECK-NEXT:           %27 = llvm.getelementptr %partial[%26] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %28 = tsr_tile.load %27[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:           %29 = tsr_tile.widen %18#1 : vector<16xf32> -> vector<16xf64>
// CHECK-NEXT:           %30 = arith.addf %28, %29 : vector<16xf64>
// CHECK-NEXT:           tsr_tile.store %30, %27[%c0_i64] : vector<16xf64> -> f64
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<4096x64xf32>
!r = tensor<64xf32>
tsr_graph.trace "variance" values [0] strides [[]] (%v0: !x) {
  %v1 = tsr_graph.var %v0 step 0 values [1] until [end] {axes = array<i64: 0>, correction = 1.0 : f64} : (!x) -> !r
}

// -----
// Exponentials are of distances from the largest element of a task; the last call weighs their sums.
// CHECK-LABEL: tsr_tile.kernel @k0 at 0 steps [0] inputs [0] outputs [1] dims [] strides {{\[}}[], []] tasks [-4097, -65] blocks [2048, 64] unit [-2049, -65] grain 32768 scratch [] partial 1024
// CHECK-NEXT:   %cst = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %c512_i64 = arith.constant 512 : i64
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c1024_i64 = arith.constant 1024 : i64
// CHECK-NEXT:   %cst_0 = arith.constant 0.000000e+00 : f64
// CHECK-NEXT:   %cst_1 = arith.constant 0xFF800000 : f32
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c4096_i64 = arith.constant 4096 : i64
// CHECK-NEXT:   %c64_i64 = arith.constant 64 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %c2048_i64 = arith.constant 2048 : i64
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %0 = arith.cmpi slt, %end, %c0_i64 : i64
// CHECK-NEXT:   scf.if %0 {
// CHECK-NEXT:     scf.for %arg0 = %c0_i64 to %c64_i64 step %c16_i64  : i64 {
// CHECK-NEXT:       %1 = tsr_tile.splat %cst_1 : f32 -> vector<16xf32>
// CHECK-NEXT:       %2 = tsr_tile.splat %cst_0 : f64 -> vector<16xf64>
// CHECK-NEXT:       %3:2 = scf.for %arg1 = %c0_i64 to %c2_i64 step %c1_i64 iter_args(%arg2 = %1, %arg3 = %2) -> (vector<16xf32>, vector<16xf64>)  : i64 {
// CHECK-NEXT:         %13 = arith.muli %arg1, %c1024_i64 : i64
// CHECK-NEXT:         %14 = arith.muli %arg0, %c4_i64 : i64
// CHECK-NEXT:         %15 = arith.addi %13, %14 : i64
// CHECK-NEXT:         %16 = llvm.getelementptr %partial[%15] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         %17 = tsr_tile.load %16[%c0_i64] : f32 -> vector<16xf32>
// CHECK-NEXT:         %18 = arith.maximumf %arg2, %17 : vector<16xf32>
// CHECK-NEXT:         %19 = arith.muli %arg0, %c8_i64 : i64
// CHECK-NEXT:         %20 = arith.addi %19, %c512_i64 : i64
// CHECK-NEXT:         %21 = arith.addi %13, %20 : i64
// CHECK-NEXT:         %22 = llvm.getelementptr %partial[%21] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         %23 = tsr_tile.load %22[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:         %24 = arith.addf %arg3, %23 : vector<16xf64>
// CHECK-NEXT:         scf.yield %18, %24 : vector<16xf32>, vector<16xf64>
// CHECK-NEXT:       }
// CHECK-NEXT:       %4 = tsr_tile.splat %cst : f32 -> vector<16xf32>
// CHECK-NEXT:       %5 = arith.subf %3#0, %3#0 : vector<16xf32>
// CHECK-NEXT:       %6 = arith.cmpf oeq, %5, %4 : vector<16xf32>
// CHECK-NEXT:       %7 = arith.select %6, %3#0, %4 : vector<16xi1>, vector<16xf32>
// CHECK-NEXT:       %8 = scf.for %arg1 = %c0_i64 to %c2_i64 step %c1_i64 iter_args(%arg2 = %2) -> (vector<16xf64>)  : i64 {
// CHECK-NEXT:         %13 = arith.muli %arg1, %c1024_i64 : i64
// CHECK-NEXT:         %14 = arith.muli %arg0, %c4_i64 : i64
// CHECK-NEXT:         %15 = arith.addi %13, %14 : i64
// CHECK-NEXT:         %16 = llvm.getelementptr %partial[%15] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         %17 = tsr_tile.load %16[%c0_i64] : f32 -> vector<16xf32>
// CHECK-NEXT:         %18 = arith.subf %17, %7 : vector<16xf32>
// CHECK-NEXT:         %19 = tsr_tile.map "exp_f32"(%18) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:         %20 = tsr_tile.widen %19 : vector<16xf32> -> vector<16xf64>
// CHECK-NEXT:         %21 = arith.muli %arg0, %c8_i64 : i64
// CHECK-NEXT:         %22 = arith.addi %21, %c512_i64 : i64
// CHECK-NEXT:         %23 = arith.addi %13, %22 : i64
// CHECK-NEXT:         %24 = llvm.getelementptr %partial[%23] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         %25 = tsr_tile.load %24[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:         %26 = arith.mulf %25, %20 : vector<16xf64>
// CHECK-NEXT:         %27 = arith.addf %arg2, %26 : vector<16xf64>
// CHECK-NEXT:         scf.yield %27 : vector<16xf64>
// CHECK-NEXT:       }
// CHECK-NEXT:       %9 = tsr_tile.map "log_f64"(%8) : (vector<16xf64>) -> vector<16xf64>
// CHECK-NEXT:       %10 = tsr_tile.widen %7 : vector<16xf32> -> vector<16xf64>
// CHECK-NEXT:       %11 = arith.addf %10, %9 : vector<16xf64>
// CHECK-NEXT:       %12 = arith.truncf %11 : vector<16xf64> to vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %12, %out0[%arg0] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   } else {
// CHECK-NEXT:     scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:       %1 = arith.remui %arg0, %c2_i64 : i64
// CHECK-NEXT:       %2 = arith.muli %1, %c2048_i64 : i64
// CHECK-NEXT:       %3 = arith.addi %2, %c2048_i64 : i64
// CHECK-NEXT:       %4 = arith.minsi %3, %c4096_i64 : i64
// CHECK-NEXT:       %5 = arith.muli %arg0, %c1024_i64 : i64
// CHECK-NEXT:       scf.for %arg1 = %c0_i64 to %c64_i64 step %c16_i64  : i64 {
// CHECK-NEXT:         %6 = tsr_tile.splat %cst_1 : f32 -> vector<16xf32>
// CHECK-NEXT:         %7 = arith.muli %arg1, %c4_i64 : i64
// CHECK-NEXT:         %8 = arith.addi %5, %7 : i64
// CHECK-NEXT:         %9 = llvm.getelementptr %partial[%8] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         tsr_tile.store %6, %9[%c0_i64] : vector<16xf32> -> f32
// CHECK-NEXT:         %10 = tsr_tile.splat %cst_0 : f64 -> vector<16xf64>
// CHECK-NEXT:         %11 = arith.muli %arg1, %c8_i64 : i64
// CHECK-NEXT:         %12 = arith.addi %11, %c512_i64 : i64
// CHECK-NEXT:         %13 = arith.addi %5, %12 : i64
// CHECK-NEXT:         %14 = llvm.getelementptr %partial[%13] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:         tsr_tile.store %10, %14[%c0_i64] : vector<16xf64> -> f64
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %arg1 = %2 to %4 step %c8_i64  : i64 {
// CHECK-NEXT:         %6 = arith.addi %arg1, %c8_i64 : i64
// CHECK-NEXT:         %7 = arith.minsi %6, %4 : i64
// CHECK-NEXT:         scf.for %arg2 = %c0_i64 to %c64_i64 step %c16_i64  : i64 {
// CHECK-NEXT:           %8 = tsr_tile.splat %cst_1 : f32 -> vector<16xf32>
// CHECK-NEXT:           %9 = scf.for %arg3 = %arg1 to %7 step %c1_i64 iter_args(%arg4 = %8) -> (vector<16xf32>)  : i64 {
// CHECK-NEXT:             %15 = arith.muli %arg3, %c64_i64 : i64
// CHECK-NEXT:             %16 = arith.addi %15, %arg2 : i64
// CHECK-NEXT:             %17 = tsr_tile.load %in0[%16] : f32 -> vector<16xf32>
// CHECK-NEXT:             %18 = arith.maximumf %arg4, %17 : vector<16xf32>
// CHECK-NEXT:             scf.yield %18 : vector<16xf32>
// CHECK-NEXT:           }
// CHECK-NEXT:           %10 = arith.muli %arg2, %c4_i64 : i64
// CHECK-NEXT:           %11 = arith.addi %5, %10 : i64
// CHECK-NEXT:           %12 = llvm.getelementptr %partial[%11] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %13 = tsr_tile.load %12[%c0_i64] : f32 -> vector<16xf32>
// CHECK-NEXT:           %14 = arith.maximumf %13, %9 : vector<16xf32>
// CHECK-NEXT:           tsr_tile.store %14, %12[%c0_i64] : vector<16xf32> -> f32
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %arg1 = %2 to %4 step %c8_i64  : i64 {
// CHECK-NEXT:         %6 = arith.addi %arg1, %c8_i64 : i64
// CHECK-NEXT:         %7 = arith.minsi %6, %4 : i64
// CHECK-NEXT:         scf.for %arg2 = %c0_i64 to %c64_i64 step %c16_i64  : i64 {
// CHECK-NEXT:           %8 = tsr_tile.splat %cst : f32 -> vector<16xf32>
// CHECK-NEXT:           %9 = arith.muli %arg2, %c4_i64 : i64
// CHECK-NEXT:           %10 = arith.addi %5, %9 : i64
// CHECK-NEXT:           %11 = llvm.getelementptr %partial[%10] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %12 = tsr_tile.load %11[%c0_i64] : f32 -> vector<16xf32>
// CHECK-NEXT:           %13 = arith.subf %12, %12 : vector<16xf32>
// CHECK-NEXT:           %14 = arith.cmpf oeq, %13, %8 : vector<16xf32>
// CHECK-NEXT:           %15 = arith.select %14, %12, %8 : vector<16xi1>, vector<16xf32>
// CHECK-NEXT:           %16 = scf.for %arg3 = %arg1 to %7 step %c1_i64 iter_args(%arg4 = %8) -> (vector<16xf32>)  : i64 {
// CHECK-NEXT:             %24 = arith.muli %arg3, %c64_i64 : i64
// CHECK-NEXT:             %25 = arith.addi %24, %arg2 : i64
// CHECK-NEXT:             %26 = tsr_tile.load %in0[%25] : f32 -> vector<16xf32>
// CHECK-NEXT:             %27 = arith.subf %26, %15 : vector<16xf32>
// CHECK-NEXT:             %28 = tsr_tile.map "exp_f32"(%27) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:             %29 = arith.addf %arg4, %28 : vector<16xf32>
// CHECK-NEXT:             scf.yield %29 : vector<16xf32>
// CHECK-NEXT:           }
// CHECK-NEXT:           %17 = arith.muli %arg2, %c8_i64 : i64
// CHECK-NEXT:           %18 = arith.addi %17, %c512_i64 : i64
// CHECK-NEXT:           %19 = arith.addi %5, %18 : i64
// CHECK-NEXT:           %20 = llvm.getelementptr %partial[%19] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:           %21 = tsr_tile.load %20[%c0_i64] : f64 -> vector<16xf64>
// CHECK-NEXT:           %22 = tsr_tile.widen %16 : vector<16xf32> -> vector<16xf64>
// CHECK-NEXT:           %23 = arith.addf %21, %22 : vector<16xf64>
// CHECK-NEXT:           tsr_tile.store %23, %20[%c0_i64] : vector<16xf64> -> f64
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<4096x64xf32>
!r = tensor<64xf32>
tsr_graph.trace "logsumexp" values [0] strides [[]] (%v0: !x) {
  %v1 = tsr_graph.logsumexp %v0 step 0 values [1] until [end] {axes = array<i64: 0>} : (!x) -> !r
}
