// tsr-lower-kernels: matrix products, one for each form (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --tsr-lower-kernels --canonicalize --cse --schedule=p0:form=packed,rows=4,columns=8,depth=8,mr=2,nr=4+p1:form=stream,rows=2,mr=2,columns=8+p2:form=dot,mr=1,nr=2,rows=4,columns=8 | FileCheck %s

// A panel is copied, a register tile of 2 x 4 is summed up, what follows is computed from it.
// CHECK-LABEL: tsr_tile.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [3] dims [] strides {{\[}}[], [], []] tasks [-9, -9] blocks [4, 8] unit [-3, -9] grain 32768 scratch [] plus 320
// CHECK-NEXT:   %c24_i64 = arith.constant 24 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c32_i64 = arith.constant 32 : i64
// CHECK-NEXT:   %cst = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c12_i64 = arith.constant 12 : i64
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c3_i64 = arith.constant 3 : i64
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %0 = arith.remui %arg0, %c2_i64 : i64
// CHECK-NEXT:     %1 = arith.muli %0, %c4_i64 : i64
// CHECK-NEXT:     %2 = arith.subi %c8_i64, %1 : i64
// CHECK-NEXT:     %3 = arith.minsi %2, %c4_i64 : i64
// CHECK-NEXT:     %4 = arith.muli %0, %c32_i64 : i64
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %c8_i64 step %c4_i64  : i64 {
// CHECK-NEXT:       %5 = arith.muli %arg1, %c8_i64 : i64
// CHECK-NEXT:       %6 = arith.muli %arg1, %c4_i64 : i64
// CHECK-NEXT:       scf.for %arg2 = %c0_i64 to %c8_i64 step %c4_i64  : i64 {
// CHECK-NEXT:         %7 = arith.muli %arg2, %c8_i64 : i64
// CHECK-NEXT:         %8 = arith.addi %6, %7 : i64
// CHECK-NEXT:         %9 = arith.addi %5, %arg2 : i64
// CHECK-NEXT:         %10 = tsr_tile.load %in1[%9] : f32 -> vector<4xf32>
// CHECK-NEXT:         tsr_tile.store %10, %scratch[%8] : vector<4xf32> -> f32
// CHECK-NEXT:         %11 = arith.addi %9, %c8_i64 : i64
// CHECK-NEXT:         %12 = tsr_tile.load %in1[%11] : f32 -> vector<4xf32>
// CHECK-NEXT:         %13 = arith.addi %8, %c4_i64 : i64
// CHECK-NEXT:         tsr_tile.store %12, %scratch[%13] : vector<4xf32> -> f32
// CHECK-NEXT:         %14 = arith.addi %9, %c16_i64 : i64
// CHECK-NEXT:         %15 = tsr_tile.load %in1[%14] : f32 -> vector<4xf32>
// CHECK-NEXT:         %16 = arith.addi %8, %c8_i64 : i64
// CHECK-NEXT:         tsr_tile.store %15, %scratch[%16] : vector<4xf32> -> f32
// CHECK-NEXT:         %17 = arith.addi %9, %c24_i64 : i64
// CHECK-NEXT:         %18 = tsr_tile.load %in1[%17] : f32 -> vector<4xf32>
// CHECK-NEXT:         %19 = arith.addi %8, %c12_i64 : i64
// CHECK-NEXT:         tsr_tile.store %18, %scratch[%19] : vector<4xf32> -> f32
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %c8_i64 step %c4_i64  : i64 {
// CHECK-NEXT:       %5 = arith.muli %arg1, %c8_i64 : i64
// CHECK-NEXT:       scf.for %arg2 = %c0_i64 to %3 step %c2_i64  : i64 {
// CHECK-NEXT:         %6 = arith.subi %3, %arg2 : i64
// CHECK-NEXT:         %7 = arith.minsi %6, %c2_i64 : i64
// CHECK-NEXT:         %8 = tsr_tile.splat %cst : f32 -> vector<4xf32>
// CHECK-NEXT:         %9 = arith.subi %7, %c1_i64 : i64
// CHECK-NEXT:         %10 = arith.muli %arg2, %c8_i64 : i64
// CHECK-NEXT:         %11 = arith.addi %4, %10 : i64
// CHECK-NEXT:         %12 = arith.minsi %9, %c1_i64 : i64
// CHECK-NEXT:         %13 = arith.addi %arg2, %12 : i64
// CHECK-NEXT:         %14 = arith.muli %13, %c8_i64 : i64
// CHECK-NEXT:         %15 = arith.addi %4, %14 : i64
// CHECK-NEXT:         %16:2 = scf.for %arg3 = %c0_i64 to %c8_i64 step %c4_i64 iter_args(%arg4 = %8, %arg5 = %8) -> (vector<4xf32>, vector<4xf32>)  : i64 {
// CHECK-NEXT:           %20 = arith.addi %11, %arg3 : i64
// CHECK-NEXT:           %21 = tsr_tile.load %in0[%20] : f32 -> vector<4xf32>
// CHECK-NEXT:           %22 = arith.addi %15, %arg3 : i64
// CHECK-NEXT:           %23 = tsr_tile.load %in0[%22] : f32 -> vector<4xf32>
// CHECK-NEXT:           %24 = arith.muli %arg3, %c4_i64 : i64
// CHECK-NEXT:           %25 = arith.addi %5, %24 : i64
// CHECK-NEXT:           %26 = tsr_tile.load %scratch[%25] : f32 -> vector<4xf32>
// CHECK-NEXT:           %27 = tsr_tile.lane %21[0] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:           %28 = tsr_tile.fma %27, %26, %arg4 : vector<4xf32>
// CHECK-NEXT:           %29 = tsr_tile.lane %23[0] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:           %30 = tsr_tile.fma %29, %26, %arg5 : vector<4xf32>
// CHECK-NEXT:           %31 = arith.addi %arg3, %c1_i64 : i64
// CHECK-NEXT:           %32 = arith.muli %31, %c4_i64 : i64
// CHECK-NEXT:           %33 = arith.addi %5, %32 : i64
// CHECK-NEXT:           %34 = tsr_tile.load %scratch[%33] : f32 -> vector<4xf32>
// CHECK-NEXT:           %35 = tsr_tile.lane %21[1] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:           %36 = tsr_tile.fma %35, %34, %28 : vector<4xf32>
// CHECK-NEXT:           %37 = tsr_tile.lane %23[1] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:           %38 = tsr_tile.fma %37, %34, %30 : vector<4xf32>
// CHECK-NEXT:           %39 = arith.addi %arg3, %c2_i64 : i64
// CHECK-NEXT:           %40 = arith.muli %39, %c4_i64 : i64
// CHECK-NEXT:           %41 = arith.addi %5, %40 : i64
// CHECK-NEXT:           %42 = tsr_tile.load %scratch[%41] : f32 -> vector<4xf32>
// CHECK-NEXT:           %43 = tsr_tile.lane %21[2] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:           %44 = tsr_tile.fma %43, %42, %36 : vector<4xf32>
// CHECK-NEXT:           %45 = tsr_tile.lane %23[2] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:           %46 = tsr_tile.fma %45, %42, %38 : vector<4xf32>
// CHECK-NEXT:           %47 = arith.addi %arg3, %c3_i64 : i64
// CHECK-NEXT:           %48 = arith.muli %47, %c4_i64 : i64
// CHECK-NEXT:           %49 = arith.addi %5, %48 : i64
// CHECK-NEXT:           %50 = tsr_tile.load %scratch[%49] : f32 -> vector<4xf32>
// CHECK-NEXT:           %51 = tsr_tile.lane %21[3] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:           %52 = tsr_tile.fma %51, %50, %44 : vector<4xf32>
// CHECK-NEXT:           %53 = tsr_tile.lane %23[3] : vector<4xf32> -> vector<4xf32>
// CHECK-NEXT:           %54 = tsr_tile.fma %53, %50, %46 : vector<4xf32>
// CHECK-NEXT:           scf.yield %52, %54 : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         %17 = llvm.getelementptr %scratch[256] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK-NEXT:         tsr_tile.store %16#0, %17[%c0_i64] : vector<4xf32> -> f32
// CHECK-NEXT:         tsr_tile.store %16#1, %17[%c4_i64] : vector<4xf32> -> f32
// CHECK-NEXT:         %18 = arith.addi %arg1, %c4_i64 : i64
// CHECK-NEXT:         %19 = arith.minsi %18, %c8_i64 : i64
// CHECK-NEXT:         scf.for %arg3 = %c0_i64 to %7 step %c1_i64  : i64 {
// CHECK-NEXT:           %20 = arith.addi %arg2, %arg3 : i64
// CHECK-NEXT:           %21 = arith.muli %arg3, %c4_i64 : i64
// CHECK-NEXT:           %22 = arith.addi %1, %20 : i64
// CHECK-NEXT:           %23 = arith.muli %22, %c8_i64 : i64
// CHECK-NEXT:           %24 = arith.subi %21, %arg1 : i64
// CHECK-NEXT:           %25 = arith.subi %19, %arg1 : i64
// CHECK-NEXT:           %26 = arith.divui %25, %c4_i64 : i64
// CHECK-NEXT:           %27 = arith.muli %26, %c4_i64 : i64
// CHECK-NEXT:           %28 = arith.addi %arg1, %27 : i64
// CHECK-NEXT:           scf.for %arg4 = %arg1 to %28 step %c4_i64  : i64 {
// CHECK-NEXT:             %29 = arith.addi %24, %arg4 : i64
// CHECK-NEXT:             %30 = tsr_tile.load %17[%29] : f32 -> vector<4xf32>
// CHECK-NEXT:             %31 = tsr_tile.map "relu_f32"(%30) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:             %32 = arith.addi %23, %arg4 : i64
// CHECK-NEXT:             tsr_tile.store %31, %out0[%32] : vector<4xf32> -> f32
// CHECK-NEXT:           }
// CHECK-NEXT:           scf.for %arg4 = %28 to %19 step %c1_i64  : i64 {
// CHECK-NEXT:             %29 = arith.addi %24, %arg4 : i64
// CHECK-NEXT:             %30 = tsr_tile.load %17[%29] : f32 -> f32
// CHECK-NEXT:             %31 = tsr_tile.map "relu_f32"(%30) : (f32) -> f32
// CHECK-NEXT:             %32 = arith.addi %23, %arg4 : i64
// CHECK-NEXT:             tsr_tile.store %31, %out0[%32] : f32 -> f32
// CHECK-NEXT:           }
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<8x8xf32>
tsr_graph.trace "packed" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!t, !t) -> !t
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!t) -> !t
}

// -----
// The right factor is read once, four rows at a time.
// CHECK-LABEL: tsr_tile.kernel @k1 at 1 steps [1] inputs [0, 1] outputs [3] dims [] strides {{\[}}[], [], []] tasks [-3, -9] blocks [2, 8] unit [-2, -9] grain 32768 scratch [] plus 128
// CHECK-NEXT:   %c11_i64 = arith.constant 11 : i64
// CHECK-NEXT:   %c10_i64 = arith.constant 10 : i64
// CHECK-NEXT:   %c9_i64 = arith.constant 9 : i64
// CHECK-NEXT:   %c3_i64 = arith.constant 3 : i64
// CHECK-NEXT:   %cst = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %0 = llvm.getelementptr %scratch[64] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %c2_i64 step %c1_i64  : i64 {
// CHECK-NEXT:       %1 = arith.muli %arg1, %c8_i64 : i64
// CHECK-NEXT:       scf.for %arg2 = %c0_i64 to %c8_i64 step %c4_i64  : i64 {
// CHECK-NEXT:         %2 = tsr_tile.splat %cst : f32 -> vector<4xf32>
// CHECK-NEXT:         %3 = arith.addi %1, %arg2 : i64
// CHECK-NEXT:         tsr_tile.store %2, %0[%3] : vector<4xf32> -> f32
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %c8_i64 step %c4_i64  : i64 {
// CHECK-NEXT:       %1 = tsr_tile.load %in0[%arg1] : f32 -> f32
// CHECK-NEXT:       %2 = arith.addi %arg1, %c1_i64 : i64
// CHECK-NEXT:       %3 = tsr_tile.load %in0[%2] : f32 -> f32
// CHECK-NEXT:       %4 = arith.addi %arg1, %c2_i64 : i64
// CHECK-NEXT:       %5 = tsr_tile.load %in0[%4] : f32 -> f32
// CHECK-NEXT:       %6 = arith.addi %arg1, %c3_i64 : i64
// CHECK-NEXT:       %7 = tsr_tile.load %in0[%6] : f32 -> f32
// CHECK-NEXT:       %8 = arith.addi %arg1, %c8_i64 : i64
// CHECK-NEXT:       %9 = tsr_tile.load %in0[%8] : f32 -> f32
// CHECK-NEXT:       %10 = arith.addi %arg1, %c9_i64 : i64
// CHECK-NEXT:       %11 = tsr_tile.load %in0[%10] : f32 -> f32
// CHECK-NEXT:       %12 = arith.addi %arg1, %c10_i64 : i64
// CHECK-NEXT:       %13 = tsr_tile.load %in0[%12] : f32 -> f32
// CHECK-NEXT:       %14 = arith.addi %arg1, %c11_i64 : i64
// CHECK-NEXT:       %15 = tsr_tile.load %in0[%14] : f32 -> f32
// CHECK-NEXT:       %16 = arith.muli %arg1, %c8_i64 : i64
// CHECK-NEXT:       %17 = arith.muli %2, %c8_i64 : i64
// CHECK-NEXT:       %18 = arith.muli %4, %c8_i64 : i64
// CHECK-NEXT:       %19 = arith.muli %6, %c8_i64 : i64
// CHECK-NEXT:       scf.for %arg2 = %c0_i64 to %c8_i64 step %c4_i64  : i64 {
// CHECK-NEXT:         %20 = arith.addi %16, %arg2 : i64
// CHECK-NEXT:         %21 = tsr_tile.load %in1[%20] : f32 -> vector<4xf32>
// CHECK-NEXT:         %22 = arith.addi %17, %arg2 : i64
// CHECK-NEXT:         %23 = tsr_tile.load %in1[%22] : f32 -> vector<4xf32>
// CHECK-NEXT:         %24 = arith.addi %18, %arg2 : i64
// CHECK-NEXT:         %25 = tsr_tile.load %in1[%24] : f32 -> vector<4xf32>
// CHECK-NEXT:         %26 = arith.addi %19, %arg2 : i64
// CHECK-NEXT:         %27 = tsr_tile.load %in1[%26] : f32 -> vector<4xf32>
// CHECK-NEXT:         %28 = tsr_tile.load %0[%arg2] : f32 -> vector<4xf32>
// CHECK-NEXT:         %29 = tsr_tile.splat %1 : f32 -> vector<4xf32>
// CHECK-NEXT:         %30 = tsr_tile.fma %29, %21, %28 : vector<4xf32>
// CHECK-NEXT:         %31 = tsr_tile.splat %3 : f32 -> vector<4xf32>
// CHECK-NEXT:         %32 = tsr_tile.fma %31, %23, %30 : vector<4xf32>
// CHECK-NEXT:         %33 = tsr_tile.splat %5 : f32 -> vector<4xf32>
// CHECK-NEXT:         %34 = tsr_tile.fma %33, %25, %32 : vector<4xf32>
// CHECK-NEXT:         %35 = tsr_tile.splat %7 : f32 -> vector<4xf32>
// CHECK-NEXT:         %36 = tsr_tile.fma %35, %27, %34 : vector<4xf32>
// CHECK-NEXT:         tsr_tile.store %36, %0[%arg2] : vector<4xf32> -> f32
// CHECK-NEXT:         %37 = arith.addi %arg2, %c8_i64 : i64
// CHECK-NEXT:         %38 = tsr_tile.load %0[%37] : f32 -> vector<4xf32>
// CHECK-NEXT:         %39 = tsr_tile.splat %9 : f32 -> vector<4xf32>
// CHECK-NEXT:         %40 = tsr_tile.fma %39, %21, %38 : vector<4xf32>
// CHECK-NEXT:         %41 = tsr_tile.splat %11 : f32 -> vector<4xf32>
// CHECK-NEXT:         %42 = tsr_tile.fma %41, %23, %40 : vector<4xf32>
// CHECK-NEXT:         %43 = tsr_tile.splat %13 : f32 -> vector<4xf32>
// CHECK-NEXT:         %44 = tsr_tile.fma %43, %25, %42 : vector<4xf32>
// CHECK-NEXT:         %45 = tsr_tile.splat %15 : f32 -> vector<4xf32>
// CHECK-NEXT:         %46 = tsr_tile.fma %45, %27, %44 : vector<4xf32>
// CHECK-NEXT:         tsr_tile.store %46, %0[%37] : vector<4xf32> -> f32
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %c2_i64 step %c1_i64  : i64 {
// CHECK-NEXT:       %1 = arith.muli %arg1, %c8_i64 : i64
// CHECK-NEXT:       scf.for %arg2 = %c0_i64 to %c8_i64 step %c4_i64  : i64 {
// CHECK-NEXT:         %2 = arith.addi %1, %arg2 : i64
// CHECK-NEXT:         %3 = tsr_tile.load %0[%2] : f32 -> vector<4xf32>
// CHECK-NEXT:         tsr_tile.store %3, %out0[%2] : vector<4xf32> -> f32
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<2x8xf32>
tsr_graph.trace "stream" values [0, 1] strides [[], []] (%v0: !t, %v1: tensor<8x8xf32>) {
  %v2 = tsr_graph.neg %v0 step 0 values [2] until [end] : (!t) -> !t
  %v3 = tsr_graph.matmul %v0, %v1 step 1 values [3] until [end] : (!t, tensor<8x8xf32>) -> !t
}

// -----
// Vectors run along the sum.
// CHECK-LABEL: tsr_tile.kernel @k1 at 1 steps [0, 1] inputs [0] outputs [2, 3] dims [] strides {{\[}}[], [], []] tasks [-5, -9] unit [] grain 32768 scratch []
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %0 = arith.subi %end, %begin : i64
// CHECK-NEXT:   %1 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:   %2 = arith.muli %1, %c16_i64 : i64
// CHECK-NEXT:   %3 = arith.addi %begin, %2 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %3 step %c16_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f32 -> vector<16xf32>
// CHECK-NEXT:     %9 = tsr_tile.map "neg_f32"(%8) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:     tsr_tile.store %9, %out0[%arg0] : vector<16xf32> -> f32
// CHECK-NEXT:     tsr_tile.store %9, %out1[%arg0] : vector<16xf32> -> f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %4 = arith.subi %end, %3 : i64
// CHECK-NEXT:   %5 = arith.divui %4, %c4_i64 : i64
// CHECK-NEXT:   %6 = arith.muli %5, %c4_i64 : i64
// CHECK-NEXT:   %7 = arith.addi %3, %6 : i64
// CHECK-NEXT:   scf.for %arg0 = %3 to %7 step %c4_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f32 -> vector<4xf32>
// CHECK-NEXT:     %9 = tsr_tile.map "neg_f32"(%8) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:     tsr_tile.store %9, %out0[%arg0] : vector<4xf32> -> f32
// CHECK-NEXT:     tsr_tile.store %9, %out1[%arg0] : vector<4xf32> -> f32
// CHECK-NEXT:   }
// CHECK-NEXT:   scf.for %arg0 = %7 to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f32 -> f32
// CHECK-NEXT:     %9 = tsr_tile.map "neg_f32"(%8) : (f32) -> f32
// CHECK-NEXT:     tsr_tile.store %9, %out0[%arg0] : f32 -> f32
// CHECK-NEXT:     tsr_tile.store %9, %out1[%arg0] : f32 -> f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK-LABEL: tsr_tile.kernel @k2 at 2 steps [2] inputs [0, 1] outputs [4] dims [] strides {{\[}}[], [], []] tasks [-5, -9] blocks [4, 8] unit [-3, -9] grain 32768 scratch [] plus 64
// CHECK-NEXT:   %c7_i64 = arith.constant 7 : i64
// CHECK-NEXT:   %cst = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %c8_i64 step %c2_i64  : i64 {
// CHECK-NEXT:       %0 = arith.muli %arg1, %c8_i64 : i64
// CHECK-NEXT:       scf.for %arg2 = %c0_i64 to %c4_i64 step %c1_i64  : i64 {
// CHECK-NEXT:         %1 = arith.subi %c4_i64, %arg2 : i64
// CHECK-NEXT:         %2 = arith.minsi %1, %c1_i64 : i64
// CHECK-NEXT:         %3 = arith.subi %2, %c1_i64 : i64
// CHECK-NEXT:         %4 = arith.minsi %3, %c0_i64 : i64
// CHECK-NEXT:         %5 = arith.addi %arg2, %4 : i64
// CHECK-NEXT:         %6 = arith.muli %5, %c8_i64 : i64
// CHECK-NEXT:         %7 = arith.subi %c7_i64, %arg1 : i64
// CHECK-NEXT:         %8 = arith.minsi %7, %c0_i64 : i64
// CHECK-NEXT:         %9 = arith.muli %8, %c8_i64 : i64
// CHECK-NEXT:         %10 = arith.addi %0, %9 : i64
// CHECK-NEXT:         %11 = arith.minsi %7, %c1_i64 : i64
// CHECK-NEXT:         %12 = arith.muli %11, %c8_i64 : i64
// CHECK-NEXT:         %13 = arith.addi %0, %12 : i64
// CHECK-NEXT:         %14 = tsr_tile.splat %cst : f32 -> vector<4xf32>
// CHECK-NEXT:         %15:2 = scf.for %arg3 = %c0_i64 to %c8_i64 step %c4_i64 iter_args(%arg4 = %14, %arg5 = %14) -> (vector<4xf32>, vector<4xf32>)  : i64 {
// CHECK-NEXT:           %20 = arith.addi %6, %arg3 : i64
// CHECK-NEXT:           %21 = tsr_tile.load %in0[%20] : f32 -> vector<4xf32>
// CHECK-NEXT:           %22 = arith.addi %10, %arg3 : i64
// CHECK-NEXT:           %23 = tsr_tile.load %in1[%22] : f32 -> vector<4xf32>
// CHECK-NEXT:           %24 = arith.addi %13, %arg3 : i64
// CHECK-NEXT:           %25 = tsr_tile.load %in1[%24] : f32 -> vector<4xf32>
// CHECK-NEXT:           %26 = tsr_tile.fma %21, %23, %arg4 : vector<4xf32>
// CHECK-NEXT:           %27 = tsr_tile.fma %21, %25, %arg5 : vector<4xf32>
// CHECK-NEXT:           scf.yield %26, %27 : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:         }
// CHECK-NEXT:         %16 = tsr_tile.reduce "add_f32" %15#0 : vector<4xf32> -> f32
// CHECK-NEXT:         %17 = tsr_tile.reduce "add_f32" %15#1 : vector<4xf32> -> f32
// CHECK-NEXT:         tsr_tile.store %16, %scratch[%c0_i64] : f32 -> f32
// CHECK-NEXT:         tsr_tile.store %17, %scratch[%c1_i64] : f32 -> f32
// CHECK-NEXT:         %18 = arith.addi %arg1, %c2_i64 : i64
// CHECK-NEXT:         %19 = arith.minsi %18, %c8_i64 : i64
// CHECK-NEXT:         scf.for %arg3 = %c0_i64 to %2 step %c1_i64  : i64 {
// CHECK-NEXT:           %20 = arith.addi %arg2, %arg3 : i64
// CHECK-NEXT:           %21 = arith.muli %arg3, %c4_i64 : i64
// CHECK-NEXT:           %22 = arith.muli %20, %c8_i64 : i64
// CHECK-NEXT:           %23 = arith.subi %21, %arg1 : i64
// CHECK-NEXT:           %24 = arith.subi %19, %arg1 : i64
// CHECK-NEXT:           %25 = arith.divui %24, %c2_i64 : i64
// CHECK-NEXT:           %26 = arith.muli %25, %c2_i64 : i64
// CHECK-NEXT:           %27 = arith.addi %arg1, %26 : i64
// CHECK-NEXT:           scf.for %arg4 = %arg1 to %27 step %c2_i64  : i64 {
// CHECK-NEXT:             %28 = arith.addi %23, %arg4 : i64
// CHECK-NEXT:             %29 = tsr_tile.load %scratch[%28] : f32 -> vector<2xf32>
// CHECK-NEXT:             %30 = arith.addi %22, %arg4 : i64
// CHECK-NEXT:             tsr_tile.store %29, %out0[%30] : vector<2xf32> -> f32
// CHECK-NEXT:           }
// CHECK-NEXT:           scf.for %arg4 = %27 to %19 step %c1_i64  : i64 {
// CHECK-NEXT:             %28 = arith.addi %23, %arg4 : i64
// CHECK-NEXT:             %29 = tsr_tile.load %scratch[%28] : f32 -> f32
// CHECK-NEXT:             %30 = arith.addi %22, %arg4 : i64
// CHECK-NEXT:             tsr_tile.store %29, %out0[%30] : f32 -> f32
// CHECK-NEXT:           }
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<4x8xf32>
tsr_graph.trace "dot" values [0, 1] strides [[], []] (%v0: !t, %v1: tensor<8x8xf32>) {
  %v2 = tsr_graph.neg %v0 step 0 values [2] until [end] : (!t) -> !t
  %v3 = tsr_graph.neg %v0 step 1 values [3] until [end] : (!t) -> !t
  %v4 = tsr_graph.matmul %v0, %v1 step 2 values [4] until [end] {transpose_b = true} : (!t, tensor<8x8xf32>) -> !t
}
