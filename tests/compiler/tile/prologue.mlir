// tsr-lower-kernels: what is computed before a matrix product (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --tsr-lower-kernels --canonicalize --cse --schedule=*:form=packed,rows=4,columns=8,depth=16,mr=2,nr=4 | FileCheck %s

// Rows of the left factor are computed by vectors of four registers on the way to scratch: a number for each row is read
// before its elements, and again for what follows; one for each column is read with them. The sum is longer than a
// piece.
// CHECK-LABEL: tsr_tile.kernel @k3 at 3 steps [0, 1, 2, 3] inputs [1, 0, 2, 3] outputs [7] dims [] strides {{\[}}[], [], [], [], []] tasks [-9, -9] blocks [4, 8] unit [-3, -21] grain 32768 scratch [] plus 960
// CHECK-NEXT:   %c24_i64 = arith.constant 24 : i64
// CHECK-NEXT:   %c128_i64 = arith.constant 128 : i64
// CHECK-NEXT:   %cst = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c12_i64 = arith.constant 12 : i64
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c3_i64 = arith.constant 3 : i64
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %c20_i64 = arith.constant 20 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %0 = arith.remui %arg0, %c2_i64 : i64
// CHECK-NEXT:     %1 = arith.muli %0, %c4_i64 : i64
// CHECK-NEXT:     %2 = arith.subi %c8_i64, %1 : i64
// CHECK-NEXT:     %3 = arith.minsi %2, %c4_i64 : i64
// CHECK-NEXT:     %4 = llvm.getelementptr %scratch[832] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %c2_i64 step %c1_i64  : i64 {
// CHECK-NEXT:       %5 = arith.muli %arg1, %c16_i64 : i64
// CHECK-NEXT:       %6 = arith.subi %c20_i64, %5 : i64
// CHECK-NEXT:       %7 = arith.minsi %6, %c16_i64 : i64
// CHECK-NEXT:       %8 = arith.cmpi eq, %arg1, %c0_i64 : i64
// CHECK-NEXT:       %9 = arith.cmpi eq, %arg1, %c1_i64 : i64
// CHECK-NEXT:       %10 = llvm.getelementptr %scratch[512] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK-NEXT:       scf.for %arg2 = %c0_i64 to %3 step %c1_i64  : i64 {
// CHECK-NEXT:         %14 = arith.muli %arg2, %c16_i64 : i64
// CHECK-NEXT:         %15 = arith.addi %5, %7 : i64
// CHECK-NEXT:         %16 = arith.subi %14, %5 : i64
// CHECK-NEXT:         %17 = arith.addi %1, %arg2 : i64
// CHECK-NEXT:         %18 = arith.muli %17, %c20_i64 : i64
// CHECK-NEXT:         %19 = tsr_tile.load %in2[%17] : f32 -> f32
// CHECK-NEXT:         %20 = arith.divui %7, %c16_i64 : i64
// CHECK-NEXT:         %21 = arith.muli %20, %c16_i64 : i64
// CHECK-NEXT:         %22 = arith.addi %5, %21 : i64
// CHECK-NEXT:         scf.for %arg3 = %5 to %22 step %c16_i64  : i64 {
// CHECK-NEXT:           %27 = arith.addi %18, %arg3 : i64
// CHECK-NEXT:           %28 = tsr_tile.load %in1[%27] : f32 -> vector<16xf32>
// CHECK-NEXT:           %29 = tsr_tile.load %in0[%arg3] : bf16 -> vector<16xf32>
// CHECK-NEXT:           %30 = tsr_tile.map "add_f32"(%28, %29) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:           %31 = tsr_tile.splat %19 : f32 -> vector<16xf32>
// CHECK-NEXT:           %32 = tsr_tile.map "mul_f32"(%30, %31) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:           %33 = arith.addi %16, %arg3 : i64
// CHECK-NEXT:           tsr_tile.store %32, %10[%33] : vector<16xf32> -> f32
// CHECK-NEXT:         }
// CHECK-NEXT:         %23 = arith.subi %15, %22 : i64
// CHECK-NEXT:         %24 = arith.divui %23, %c4_i64 : i64
// CHECK-NEXT:         %25 = arith.muli %24, %c4_i64 : i64
// CHECK-NEXT:         %26 = arith.addi %22, %25 : i64
// CHECK-NEXT:         scf.for %arg3 = %22 to %26 step %c4_i64  : i64 {
// CHECK-NEXT:           %27 = arith.addi %18, %arg3 : i64
// CHECK-NEXT:           %28 = tsr_tile.load %in1[%27] : f32 -> vector<4xf32>
// CHECK-NEXT:           %29 = tsr_tile.load %in0[%arg3] : bf16 -> vector<4xf32>
// CHECK-NEXT:           %30 = tsr_tile.map "add_f32"(%28, %29) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:           %31 = tsr_tile.splat %19 : f32 -> vector<4xf32>
// CHECK-NEXT:           %32 = tsr_tile.map "mul_f32"(%30, %31) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:           %33 = arith.addi %16, %arg3 : i64
// CHECK-NEXT:           tsr_tile.store %32, %10[%33] : vector<4xf32> -> f32
// CHECK-NEXT:         }
// CHECK-NEXT:         scf.for %arg3 = %26 to %15 step %c1_i64  : i64 {
// CHECK-NEXT:           %27 = arith.addi %18, %arg3 : i64
// CHECK-NEXT:           %28 = tsr_tile.load %in1[%27] : f32 -> f32
// CHECK-NEXT:           %29 = tsr_tile.load %in0[%arg3] : bf16 -> f32
// CHECK-NEXT:           %30 = tsr_tile.map "add_f32"(%28, %29) : (f32, f32) -> f32
// CHECK-NEXT:           %31 = tsr_tile.map "mul_f32"(%30, %19) : (f32, f32) -> f32
// CHECK-NEXT:           %32 = arith.addi %16, %arg3 : i64
// CHECK-NEXT:           tsr_tile.store %31, %10[%32] : f32 -> f32
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:       %11 = arith.muli %arg1, %c128_i64 : i64
// CHECK-NEXT:       %12 = arith.divui %7, %c4_i64 : i64
// CHECK-NEXT:       %13 = arith.muli %12, %c4_i64 : i64
// CHECK-NEXT:       scf.for %arg2 = %c0_i64 to %13 step %c4_i64  : i64 {
// CHECK-NEXT:         %14 = arith.muli %arg2, %c8_i64 : i64
// CHECK-NEXT:         %15 = arith.addi %11, %14 : i64
// CHECK-NEXT:         %16 = arith.muli %arg2, %c4_i64 : i64
// CHECK-NEXT:         scf.for %arg3 = %c0_i64 to %c8_i64 step %c4_i64  : i64 {
// CHECK-NEXT:           %17 = arith.muli %arg3, %c16_i64 : i64
// CHECK-NEXT:           %18 = arith.addi %16, %17 : i64
// CHECK-NEXT:           %19 = arith.addi %15, %arg3 : i64
// CHECK-NEXT:           %20 = tsr_tile.load %in3[%19] : f32 -> vector<4xf32>
// CHECK-NEXT:           tsr_tile.store %20, %scratch[%18] : vector<4xf32> -> f32
// CHECK-NEXT:           %21 = arith.addi %19, %c8_i64 : i64
// CHECK-NEXT:           %22 = tsr_tile.load %in3[%21] : f32 -> vector<4xf32>
// CHECK-NEXT:           %23 = arith.addi %18, %c4_i64 : i64
// CHECK-NEXT:           tsr_tile.store %22, %scratch[%23] : vector<4xf32> -> f32
// CHECK-NEXT:           %24 = arith.addi %19, %c16_i64 : i64
// CHECK-NEXT:           %25 = tsr_tile.load %in3[%24] : f32 -> vector<4xf32>
// CHECK-NEXT:           %26 = arith.addi %18, %c8_i64 : i64
// CHECK-NEXT:           tsr_tile.store %25, %scratch[%26] : vector<4xf32> -> f32
// CHECK-NEXT:           %27 = arith.addi %19, %c24_i64 : i64
// CHECK-NEXT:           %28 = tsr_tile.load %in3[%27] : f32 -> vector<4xf32>
// CHECK-NEXT:           %29 = arith.addi %18, %c12_i64 : i64
// CHECK-NEXT:           tsr_tile.store %28, %scratch[%29] : vector<4xf32> -> f32
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %arg2 = %13 to %7 step %c1_i64  : i64 {
// CHECK-NEXT:         %14 = arith.muli %arg2, %c8_i64 : i64
// CHECK-NEXT:         %15 = arith.addi %11, %14 : i64
// CHECK-NEXT:         %16 = arith.muli %arg2, %c4_i64 : i64
// CHECK-NEXT:         scf.for %arg3 = %c0_i64 to %c8_i64 step %c4_i64  : i64 {
// CHECK-NEXT:           %17 = arith.muli %arg3, %c16_i64 : i64
// CHECK-NEXT:           %18 = arith.addi %16, %17 : i64
// CHECK-NEXT:           %19 = arith.addi %15, %arg3 : i64
// CHECK-NEXT:           %20 = tsr_tile.load %in3[%19] : f32 -> vector<4xf32>
// CHECK-NEXT:           tsr_tile.store %20, %scratch[%18] : vector<4xf32> -> f32
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:       scf.for %arg2 = %c0_i64 to %c8_i64 step %c4_i64  : i64 {
// CHECK-NEXT:         %14 = arith.muli %arg2, %c16_i64 : i64
// CHECK-NEXT:         scf.for %arg3 = %c0_i64 to %3 step %c2_i64  : i64 {
// CHECK-NEXT:           %15 = arith.subi %3, %arg3 : i64
// CHECK-NEXT:           %16 = arith.minsi %15, %c2_i64 : i64
// CHECK-NEXT:           %17 = arith.muli %arg3, %c8_i64 : i64
// CHECK-NEXT:           %18 = arith.addi %17, %arg2 : i64
// CHECK-NEXT:           %19 = tsr_tile.splat %cst : f32 -> vector<4xf32>
// CHECK-NEXT:           %20:2 = scf.if %8 -> (vector<4xf32>, vector<4xf32>) {
// CHECK-NEXT:             scf.yield %19, %19 : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           } else {
// CHECK-NEXT:             %28 = tsr_tile.load %4[%18] : f32 -> vector<4xf32>
// CHECK-NEXT:             %29 = arith.addi %18, %c8_i64 : i64
// CHECK-NEXT:             %30 = tsr_tile.load %4[%29] : f32 -> vector<4xf32>
// CHECK-NEXT:             scf.yield %28, %30 : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           }
// CHECK-NEXT:           %21 = arith.subi %16, %c1_i64 : i64
// CHECK-NEXT:           %22 = arith.muli %arg3, %c16_i64 : i64
// CHECK-NEXT:           %23 = arith.minsi %21, %c1_i64 : i64
// CHECK-NEXT:           %24 = arith.addi %arg3, %23 : i64
// CHECK-NEXT:           %25 = arith.muli %24, %c16_i64 : i64
// CHECK-NEXT:           %26:2 = scf.for %arg4 = %c0_i64 to %13 step %c4_i64 iter_args(%arg5 = %20#0, %arg6 = %20#1) -> (vector<4xf32>, vector<4xf32>)  : i64 {
// CHECK-NEXT:             %28 = arith.addi %22, %arg4 : i64
// CHECK-NEXT:             %29 = tsr_tile.load %10[%28] : f32 -> vector<4xf32>
// CHECK-NEXT:             %30 = arith.addi %25, %arg4 : i64
// CHECK-NEXT:             %31 = tsr_tile.load %10[%30] : f32 -> vector<4xf32>
// CHECK-NEXT:             %32 = arith.muli %arg4, %c4_i64 : i64
// CHECK-NEXT:             %33 = arith.addi %14, %32 : i64
// CHECK-NEXT:             %34 = tsr_tile.load %scratch[%33] : f32 -> vector<4xf32>
// CHECK-NEXT:             %35 = tsr_tile.lane %29[0] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:             %36 = tsr_tile.fma %35, %34, %arg5 : vector<4xf32>
// CHECK-NEXT:             %37 = tsr_tile.lane %31[0] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:             %38 = tsr_tile.fma %37, %34, %arg6 : vector<4xf32>
// CHECK-NEXT:             %39 = arith.addi %arg4, %c1_i64 : i64
// CHECK-NEXT:             %40 = arith.muli %39, %c4_i64 : i64
// CHECK-NEXT:             %41 = arith.addi %14, %40 : i64
// CHECK-NEXT:             %42 = tsr_tile.load %scratch[%41] : f32 -> vector<4xf32>
// CHECK-NEXT:             %43 = tsr_tile.lane %29[1] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:             %44 = tsr_tile.fma %43, %42, %36 : vector<4xf32>
// CHECK-NEXT:             %45 = tsr_tile.lane %31[1] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:             %46 = tsr_tile.fma %45, %42, %38 : vector<4xf32>
// CHECK-NEXT:             %47 = arith.addi %arg4, %c2_i64 : i64
// CHECK-NEXT:             %48 = arith.muli %47, %c4_i64 : i64
// CHECK-NEXT:             %49 = arith.addi %14, %48 : i64
// CHECK-NEXT:             %50 = tsr_tile.load %scratch[%49] : f32 -> vector<4xf32>
// CHECK-NEXT:             %51 = tsr_tile.lane %29[2] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:             %52 = tsr_tile.fma %51, %50, %44 : vector<4xf32>
// CHECK-NEXT:             %53 = tsr_tile.lane %31[2] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:             %54 = tsr_tile.fma %53, %50, %46 : vector<4xf32>
// CHECK-NEXT:             %55 = arith.addi %arg4, %c3_i64 : i64
// CHECK-NEXT:             %56 = arith.muli %55, %c4_i64 : i64
// CHECK-NEXT:             %57 = arith.addi %14, %56 : i64
// CHECK-NEXT:             %58 = tsr_tile.load %scratch[%57] : f32 -> vector<4xf32>
// CHECK-NEXT:             %59 = tsr_tile.lane %29[3] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:             %60 = tsr_tile.fma %59, %58, %52 : vector<4xf32>
// CHECK-NEXT:             %61 = tsr_tile.lane %31[3] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:             %62 = tsr_tile.fma %61, %58, %54 : vector<4xf32>
// CHECK-NEXT:             scf.yield %60, %62 : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           }
// CHECK-NEXT:           %27:2 = scf.for %arg4 = %13 to %7 step %c1_i64 iter_args(%arg5 = %26#0, %arg6 = %26#1) -> (vector<4xf32>, vector<4xf32>)  : i64 {
// CHECK-NEXT:             %28 = arith.muli %arg4, %c4_i64 : i64
// CHECK-NEXT:             %29 = arith.addi %14, %28 : i64
// CHECK-NEXT:             %30 = tsr_tile.load %scratch[%29] : f32 -> vector<4xf32>
// CHECK-NEXT:             %31 = arith.addi %22, %arg4 : i64
// CHECK-NEXT:             %32 = tsr_tile.load %10[%31] : f32 -> f32
// CHECK-NEXT:             %33 = tsr_tile.splat %32 : f32 -> vector<4xf32>
// CHECK-NEXT:             %34 = tsr_tile.fma %33, %30, %arg5 : vector<4xf32>
// CHECK-NEXT:             %35 = arith.addi %25, %arg4 : i64
// CHECK-NEXT:             %36 = tsr_tile.load %10[%35] : f32 -> f32
// CHECK-NEXT:             %37 = tsr_tile.splat %36 : f32 -> vector<4xf32>
// CHECK-NEXT:             %38 = tsr_tile.fma %37, %30, %arg6 : vector<4xf32>
// CHECK-NEXT:             scf.yield %34, %38 : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:           }
// CHECK-NEXT:           scf.if %9 {
// CHECK-NEXT:             %28 = llvm.getelementptr %scratch[768] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK-NEXT:             tsr_tile.store %27#0, %28[%c0_i64] : vector<4xf32> -> f32
// CHECK-NEXT:             tsr_tile.store %27#1, %28[%c4_i64] : vector<4xf32> -> f32
// CHECK-NEXT:             %29 = arith.addi %arg2, %c4_i64 : i64
// CHECK-NEXT:             %30 = arith.minsi %29, %c8_i64 : i64
// CHECK-NEXT:             scf.for %arg4 = %c0_i64 to %16 step %c1_i64  : i64 {
// CHECK-NEXT:               %31 = arith.addi %arg3, %arg4 : i64
// CHECK-NEXT:               %32 = arith.muli %arg4, %c4_i64 : i64
// CHECK-NEXT:               %33 = arith.addi %1, %31 : i64
// CHECK-NEXT:               %34 = arith.muli %33, %c8_i64 : i64
// CHECK-NEXT:               %35 = arith.subi %32, %arg2 : i64
// CHECK-NEXT:               %36 = tsr_tile.load %in2[%33] : f32 -> f32
// CHECK-NEXT:               %37 = arith.subi %30, %arg2 : i64
// CHECK-NEXT:               %38 = arith.divui %37, %c4_i64 : i64
// CHECK-NEXT:               %39 = arith.muli %38, %c4_i64 : i64
// CHECK-NEXT:               %40 = arith.addi %arg2, %39 : i64
// CHECK-NEXT:               scf.for %arg5 = %arg2 to %40 step %c4_i64  : i64 {
// CHECK-NEXT:                 %41 = arith.addi %35, %arg5 : i64
// CHECK-NEXT:                 %42 = tsr_tile.load %28[%41] : f32 -> vector<4xf32>
// CHECK-NEXT:                 %43 = tsr_tile.splat %36 : f32 -> vector<4xf32>
// CHECK-NEXT:                 %44 = tsr_tile.map "mul_f32"(%42, %43) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:                 %45 = arith.addi %34, %arg5 : i64
// CHECK-NEXT:                 tsr_tile.store %44, %out0[%45] : vector<4xf32> -> f32
// CHECK-NEXT:               }
// CHECK-NEXT:               scf.for %arg5 = %40 to %30 step %c1_i64  : i64 {
// CHECK-NEXT:                 %41 = arith.addi %35, %arg5 : i64
// CHECK-NEXT:                 %42 = tsr_tile.load %28[%41] : f32 -> f32
// CHECK-NEXT:                 %43 = tsr_tile.map "mul_f32"(%42, %36) : (f32, f32) -> f32
// CHECK-NEXT:                 %44 = arith.addi %34, %arg5 : i64
// CHECK-NEXT:                 tsr_tile.store %43, %out0[%44] : f32 -> f32
// CHECK-NEXT:               }
// CHECK-NEXT:             }
// CHECK-NEXT:           } else {
// CHECK-NEXT:             tsr_tile.store %27#0, %4[%18] : vector<4xf32> -> f32
// CHECK-NEXT:             %28 = arith.addi %18, %c8_i64 : i64
// CHECK-NEXT:             tsr_tile.store %27#1, %4[%28] : vector<4xf32> -> f32
// CHECK-NEXT:           }
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!x = tensor<8x20xf32>
!r = tensor<20xbf16>
!f = tensor<20xf32>
!c = tensor<8x1xf32>
!w = tensor<20x8xf32>
!y = tensor<8x8xf32>
tsr_graph.trace "rows" values [0, 1, 2, 3] strides [[], [], [], []] (%v0: !x, %v1: !r, %v2: !c, %v3: !w) {
  %c0 = "tsr_graph.cast"(%v1) : (!r) -> !f
  %v4 = tsr_graph.add %v0, %c0 step 0 values [4] until [1] : (!x, !f) -> !x
  %v5 = tsr_graph.mul %v4, %v2 step 1 values [5] until [2] : (!x, !c) -> !x
  %v6 = tsr_graph.matmul %v5, %v3 step 2 values [6] until [3] : (!x, !w) -> !y
  %v7 = tsr_graph.mul %v6, %v2 step 3 values [7] until [end] : (!y, !c) -> !y
}
