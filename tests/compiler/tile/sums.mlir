// tsr-lower-kernels: sums (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-lower-kernels --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tsr-lower-kernels --canonicalize --cse --bitwise | FileCheck %s --check-prefix=BITWISE

// f32: blocks of eight vectors in f32, then f64; with --bitwise f64 throughout.
// CHECK-LABEL: tsr_tile.kernel @k0 at 0 steps [0] inputs [0] outputs [1] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %cst = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c64_i64 = arith.constant 64 : i64
// CHECK-NEXT:   %cst_0 = arith.constant 0.000000e+00 : f64
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c8_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c8_i64 : i64
// CHECK-NEXT:     %4 = tsr_tile.splat %cst_0 : f64 -> vector<8xf64>
// CHECK-NEXT:     %5 = scf.for %arg1 = %c0_i64 to %3 step %c64_i64 iter_args(%arg2 = %4) -> (vector<8xf64>)  : i64 {
// CHECK-NEXT:       %15 = arith.addi %arg1, %c64_i64 : i64
// CHECK-NEXT:       %16 = arith.minsi %15, %3 : i64
// CHECK-NEXT:       %17 = tsr_tile.splat %cst : f32 -> vector<8xf32>
// CHECK-NEXT:       %18 = scf.for %arg3 = %arg1 to %16 step %c8_i64 iter_args(%arg4 = %17) -> (vector<8xf32>)  : i64 {
// CHECK-NEXT:         %21 = arith.addi %1, %arg3 : i64
// CHECK-NEXT:         %22 = tsr_tile.load %in0[%21] : f32 -> vector<8xf32>
// CHECK-NEXT:         %23 = tsr_tile.map "square_f32"(%22) : (vector<8xf32>) -> vector<8xf32>
// CHECK-NEXT:         %24 = arith.addf %arg4, %23 : vector<8xf32>
// CHECK-NEXT:         scf.yield %24 : vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       %19 = tsr_tile.widen %18 : vector<8xf32> -> vector<8xf64>
// CHECK-NEXT:       %20 = arith.addf %arg2, %19 : vector<8xf64>
// CHECK-NEXT:       scf.yield %20 : vector<8xf64>
// CHECK-NEXT:     }
// CHECK-NEXT:     %6 = tsr_tile.reduce "add_f64" %5 : vector<8xf64> -> vector<2xf64>
// CHECK-NEXT:     %7 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %8 = arith.divui %7, %c2_i64 : i64
// CHECK-NEXT:     %9 = arith.muli %8, %c2_i64 : i64
// CHECK-NEXT:     %10 = arith.addi %3, %9 : i64
// CHECK-NEXT:     %11 = scf.for %arg1 = %3 to %10 step %c2_i64 iter_args(%arg2 = %6) -> (vector<2xf64>)  : i64 {
// CHECK-NEXT:       %15 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %16 = tsr_tile.load %in0[%15] : f32 -> vector<2xf32>
// CHECK-NEXT:       %17 = tsr_tile.map "square_f32"(%16) : (vector<2xf32>) -> vector<2xf32>
// CHECK-NEXT:       %18 = tsr_tile.widen %17 : vector<2xf32> -> vector<2xf64>
// CHECK-NEXT:       %19 = arith.addf %arg2, %18 : vector<2xf64>
// CHECK-NEXT:       scf.yield %19 : vector<2xf64>
// CHECK-NEXT:     }
// CHECK-NEXT:     %12 = tsr_tile.reduce "add_f64" %11 : vector<2xf64> -> f64
// CHECK-NEXT:     %13 = scf.for %arg1 = %10 to %0 step %c1_i64 iter_args(%arg2 = %12) -> (f64)  : i64 {
// CHECK-NEXT:       %15 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %16 = tsr_tile.load %in0[%15] : f32 -> f32
// CHECK-NEXT:       %17 = tsr_tile.map "square_f32"(%16) : (f32) -> f32
// CHECK-NEXT:       %18 = tsr_tile.widen %17 : f32 -> f64
// CHECK-NEXT:       %19 = arith.addf %arg2, %18 : f64
// CHECK-NEXT:       scf.yield %19 : f64
// CHECK-NEXT:     }
// CHECK-NEXT:     %14 = arith.truncf %13 : f64 to f32
// CHECK-NEXT:     tsr_tile.store %14, %out0[%arg0] : f32 -> f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
// BITWISE-LABEL: tsr_tile.kernel @k0 at 0 steps [0] inputs [0] outputs [1] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch []
// BITWISE-NEXT:   %cst = arith.constant 0.000000e+00 : f64
// BITWISE-NEXT:   %c8_i64 = arith.constant 8 : i64
// BITWISE-NEXT:   %c0_i64 = arith.constant 0 : i64
// BITWISE-NEXT:   %c1_i64 = arith.constant 1 : i64
// BITWISE-NEXT:   %0 = tsr_tile.dim %table[1]
// BITWISE-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// BITWISE-NEXT:     %1 = arith.muli %arg0, %0 : i64
// BITWISE-NEXT:     %2 = arith.divui %0, %c8_i64 : i64
// BITWISE-NEXT:     %3 = arith.muli %2, %c8_i64 : i64
// BITWISE-NEXT:     %4 = tsr_tile.splat %cst : f64 -> vector<8xf64>
// BITWISE-NEXT:     %5 = scf.for %arg1 = %c0_i64 to %3 step %c8_i64 iter_args(%arg2 = %4) -> (vector<8xf64>)  : i64 {
// BITWISE-NEXT:       %9 = arith.addi %1, %arg1 : i64
// BITWISE-NEXT:       %10 = tsr_tile.load %in0[%9] : f32 -> vector<8xf32>
// BITWISE-NEXT:       %11 = tsr_tile.map "square_f32"(%10) : (vector<8xf32>) -> vector<8xf32>
// BITWISE-NEXT:       %12 = tsr_tile.widen %11 : vector<8xf32> -> vector<8xf64>
// BITWISE-NEXT:       %13 = arith.addf %arg2, %12 : vector<8xf64>
// BITWISE-NEXT:       scf.yield %13 : vector<8xf64>
// BITWISE-NEXT:     }
// BITWISE-NEXT:     %6 = tsr_tile.reduce "add_f64" %5 : vector<8xf64> -> f64
// BITWISE-NEXT:     %7 = scf.for %arg1 = %3 to %0 step %c1_i64 iter_args(%arg2 = %6) -> (f64)  : i64 {
// BITWISE-NEXT:       %9 = arith.addi %1, %arg1 : i64
// BITWISE-NEXT:       %10 = tsr_tile.load %in0[%9] : f32 -> f32
// BITWISE-NEXT:       %11 = tsr_tile.map "square_f32"(%10) : (f32) -> f32
// BITWISE-NEXT:       %12 = tsr_tile.widen %11 : f32 -> f64
// BITWISE-NEXT:       %13 = arith.addf %arg2, %12 : f64
// BITWISE-NEXT:       scf.yield %13 : f64
// BITWISE-NEXT:     }
// BITWISE-NEXT:     %8 = arith.truncf %7 : f64 to f32
// BITWISE-NEXT:     tsr_tile.store %8, %out0[%arg0] : f32 -> f32
// BITWISE-NEXT:   }
// BITWISE-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
!c = tensor<?x1xf32, [0, -1]>
tsr_graph.trace "sum" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides [[]] row 1 lanes 8 grain 32768
      (%in0 = %v0 : !t) -> (!c) {
    %0 = tsr_graph.square %in0 : (!t) -> !t
    %1 = tsr_graph.reduce "sum" %0 rank 1 : !t -> !c
    tsr_sched.yield %1 : !c
  }
}

// -----
// A mean divides by the size of the row, less the correction, in f64.
// CHECK-LABEL: tsr_tile.kernel @k0 at 0 steps [0] inputs [0] outputs [1] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %cst = arith.constant 1.000000e+00 : f64
// CHECK-NEXT:   %c2_i64 = arith.constant 2 : i64
// CHECK-NEXT:   %cst_0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %c64_i64 = arith.constant 64 : i64
// CHECK-NEXT:   %cst_1 = arith.constant 0.000000e+00 : f64
// CHECK-NEXT:   %c8_i64 = arith.constant 8 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c8_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c8_i64 : i64
// CHECK-NEXT:     %4 = tsr_tile.splat %cst_1 : f64 -> vector<8xf64>
// CHECK-NEXT:     %5 = scf.for %arg1 = %c0_i64 to %3 step %c64_i64 iter_args(%arg2 = %4) -> (vector<8xf64>)  : i64 {
// CHECK-NEXT:       %18 = arith.addi %arg1, %c64_i64 : i64
// CHECK-NEXT:       %19 = arith.minsi %18, %3 : i64
// CHECK-NEXT:       %20 = tsr_tile.splat %cst_0 : f32 -> vector<8xf32>
// CHECK-NEXT:       %21 = scf.for %arg3 = %arg1 to %19 step %c8_i64 iter_args(%arg4 = %20) -> (vector<8xf32>)  : i64 {
// CHECK-NEXT:         %24 = arith.addi %1, %arg3 : i64
// CHECK-NEXT:         %25 = tsr_tile.load %in0[%24] : f32 -> vector<8xf32>
// CHECK-NEXT:         %26 = tsr_tile.map "square_f32"(%25) : (vector<8xf32>) -> vector<8xf32>
// CHECK-NEXT:         %27 = arith.addf %arg4, %26 : vector<8xf32>
// CHECK-NEXT:         scf.yield %27 : vector<8xf32>
// CHECK-NEXT:       }
// CHECK-NEXT:       %22 = tsr_tile.widen %21 : vector<8xf32> -> vector<8xf64>
// CHECK-NEXT:       %23 = arith.addf %arg2, %22 : vector<8xf64>
// CHECK-NEXT:       scf.yield %23 : vector<8xf64>
// CHECK-NEXT:     }
// CHECK-NEXT:     %6 = tsr_tile.reduce "add_f64" %5 : vector<8xf64> -> vector<2xf64>
// CHECK-NEXT:     %7 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %8 = arith.divui %7, %c2_i64 : i64
// CHECK-NEXT:     %9 = arith.muli %8, %c2_i64 : i64
// CHECK-NEXT:     %10 = arith.addi %3, %9 : i64
// CHECK-NEXT:     %11 = scf.for %arg1 = %3 to %10 step %c2_i64 iter_args(%arg2 = %6) -> (vector<2xf64>)  : i64 {
// CHECK-NEXT:       %18 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %19 = tsr_tile.load %in0[%18] : f32 -> vector<2xf32>
// CHECK-NEXT:       %20 = tsr_tile.map "square_f32"(%19) : (vector<2xf32>) -> vector<2xf32>
// CHECK-NEXT:       %21 = tsr_tile.widen %20 : vector<2xf32> -> vector<2xf64>
// CHECK-NEXT:       %22 = arith.addf %arg2, %21 : vector<2xf64>
// CHECK-NEXT:       scf.yield %22 : vector<2xf64>
// CHECK-NEXT:     }
// CHECK-NEXT:     %12 = tsr_tile.reduce "add_f64" %11 : vector<2xf64> -> f64
// CHECK-NEXT:     %13 = scf.for %arg1 = %10 to %0 step %c1_i64 iter_args(%arg2 = %12) -> (f64)  : i64 {
// CHECK-NEXT:       %18 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %19 = tsr_tile.load %in0[%18] : f32 -> f32
// CHECK-NEXT:       %20 = tsr_tile.map "square_f32"(%19) : (f32) -> f32
// CHECK-NEXT:       %21 = tsr_tile.widen %20 : f32 -> f64
// CHECK-NEXT:       %22 = arith.addf %arg2, %21 : f64
// CHECK-NEXT:       scf.yield %22 : f64
// CHECK-NEXT:     }
// CHECK-NEXT:     %14 = arith.sitofp %0 : i64 to f64
// CHECK-NEXT:     %15 = arith.subf %14, %cst : f64
// CHECK-NEXT:     %16 = arith.divf %13, %15 : f64
// CHECK-NEXT:     %17 = arith.truncf %16 : f64 to f32
// CHECK-NEXT:     tsr_tile.store %17, %out0[%arg0] : f32 -> f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
// BITWISE-LABEL: tsr_tile.kernel @k0 at 0 steps [0] inputs [0] outputs [1] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch []
// BITWISE-NEXT:   %cst = arith.constant 1.000000e+00 : f64
// BITWISE-NEXT:   %cst_0 = arith.constant 0.000000e+00 : f64
// BITWISE-NEXT:   %c8_i64 = arith.constant 8 : i64
// BITWISE-NEXT:   %c0_i64 = arith.constant 0 : i64
// BITWISE-NEXT:   %c1_i64 = arith.constant 1 : i64
// BITWISE-NEXT:   %0 = tsr_tile.dim %table[1]
// BITWISE-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// BITWISE-NEXT:     %1 = arith.muli %arg0, %0 : i64
// BITWISE-NEXT:     %2 = arith.divui %0, %c8_i64 : i64
// BITWISE-NEXT:     %3 = arith.muli %2, %c8_i64 : i64
// BITWISE-NEXT:     %4 = tsr_tile.splat %cst_0 : f64 -> vector<8xf64>
// BITWISE-NEXT:     %5 = scf.for %arg1 = %c0_i64 to %3 step %c8_i64 iter_args(%arg2 = %4) -> (vector<8xf64>)  : i64 {
// BITWISE-NEXT:       %12 = arith.addi %1, %arg1 : i64
// BITWISE-NEXT:       %13 = tsr_tile.load %in0[%12] : f32 -> vector<8xf32>
// BITWISE-NEXT:       %14 = tsr_tile.map "square_f32"(%13) : (vector<8xf32>) -> vector<8xf32>
// BITWISE-NEXT:       %15 = tsr_tile.widen %14 : vector<8xf32> -> vector<8xf64>
// BITWISE-NEXT:       %16 = arith.addf %arg2, %15 : vector<8xf64>
// BITWISE-NEXT:       scf.yield %16 : vector<8xf64>
// BITWISE-NEXT:     }
// BITWISE-NEXT:     %6 = tsr_tile.reduce "add_f64" %5 : vector<8xf64> -> f64
// BITWISE-NEXT:     %7 = scf.for %arg1 = %3 to %0 step %c1_i64 iter_args(%arg2 = %6) -> (f64)  : i64 {
// BITWISE-NEXT:       %12 = arith.addi %1, %arg1 : i64
// BITWISE-NEXT:       %13 = tsr_tile.load %in0[%12] : f32 -> f32
// BITWISE-NEXT:       %14 = tsr_tile.map "square_f32"(%13) : (f32) -> f32
// BITWISE-NEXT:       %15 = tsr_tile.widen %14 : f32 -> f64
// BITWISE-NEXT:       %16 = arith.addf %arg2, %15 : f64
// BITWISE-NEXT:       scf.yield %16 : f64
// BITWISE-NEXT:     }
// BITWISE-NEXT:     %8 = arith.sitofp %0 : i64 to f64
// BITWISE-NEXT:     %9 = arith.subf %8, %cst : f64
// BITWISE-NEXT:     %10 = arith.divf %7, %9 : f64
// BITWISE-NEXT:     %11 = arith.truncf %10 : f64 to f32
// BITWISE-NEXT:     tsr_tile.store %11, %out0[%arg0] : f32 -> f32
// BITWISE-NEXT:   }
// BITWISE-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
!c = tensor<?x1xf32, [0, -1]>
tsr_graph.trace "mean" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides [[]] row 1 lanes 8 grain 32768
      (%in0 = %v0 : !t) -> (!c) {
    %0 = tsr_graph.square %in0 : (!t) -> !t
    %1 = tsr_graph.reduce "mean" %0 rank 1 correction 1.0 : !t -> !c
    tsr_sched.yield %1 : !c
  }
}
