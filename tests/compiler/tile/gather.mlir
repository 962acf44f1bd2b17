// tsr-lower-kernels: rows at indices (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels --canonicalize --cse | FileCheck %s

// A task is an index; one of i32 is widened, and one below 0 counts from the end of the table.
// CHECK-LABEL: tsr_tile.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [3] dims {{\[}}[1, 0], [0, 1], [0, 0]] strides {{\[}}[], [], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[2]
// CHECK-NEXT:   %1 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %2 = arith.muli %arg0, %1 : i64
// CHECK-NEXT:     %3 = tsr_tile.load %in1[%arg0] : i32 -> i32
// CHECK-NEXT:     %4 = arith.extsi %3 : i32 to i64
// CHECK-NEXT:     %5 = arith.cmpi slt, %4, %c0_i64 : i64
// CHECK-NEXT:     %6 = arith.addi %4, %0 : i64
// CHECK-NEXT:     %7 = arith.select %5, %6, %4 : i64
// CHECK-NEXT:     %8 = arith.muli %7, %1 : i64
// CHECK-NEXT:     %9 = arith.divui %1, %c16_i64 : i64
// CHECK-NEXT:     %10 = arith.muli %9, %c16_i64 : i64
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %10 step %c16_i64  : i64 {
// CHECK-NEXT:       %15 = arith.addi %8, %arg1 : i64
// CHECK-NEXT:       %16 = tsr_tile.load %in0[%15] : f32 -> vector<16xf32>
// CHECK-NEXT:       %17 = tsr_tile.map "exp_f32"(%16) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %18 = arith.addi %2, %arg1 : i64
// CHECK-NEXT:       tsr_tile.store %17, %out0[%18] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %11 = arith.subi %1, %10 : i64
// CHECK-NEXT:     %12 = arith.divui %11, %c4_i64 : i64
// CHECK-NEXT:     %13 = arith.muli %12, %c4_i64 : i64
// CHECK-NEXT:     %14 = arith.addi %10, %13 : i64
// CHECK-NEXT:     scf.for %arg1 = %10 to %14 step %c4_i64  : i64 {
// CHECK-NEXT:       %15 = arith.addi %8, %arg1 : i64
// CHECK-NEXT:       %16 = tsr_tile.load %in0[%15] : f32 -> vector<4xf32>
// CHECK-NEXT:       %17 = tsr_tile.map "exp_f32"(%16) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %18 = arith.addi %2, %arg1 : i64
// CHECK-NEXT:       tsr_tile.store %17, %out0[%18] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %14 to %1 step %c1_i64  : i64 {
// CHECK-NEXT:       %15 = arith.addi %8, %arg1 : i64
// CHECK-NEXT:       %16 = tsr_tile.load %in0[%15] : f32 -> f32
// CHECK-NEXT:       %17 = tsr_tile.map "exp_f32"(%16) : (f32) -> f32
// CHECK-NEXT:       %18 = arith.addi %2, %arg1 : i64
// CHECK-NEXT:       tsr_tile.store %17, %out0[%18] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
!x = tensor<?x?xf32, [2, 1]>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !t, %v1: tensor<?xi32, [2]>) {
  %v2 = tsr_graph.embedding %v0, %v1 step 0 values [2] until [1] : (!t, tensor<?xi32, [2]>) -> !x
  %v3 = tsr_graph.exp %v2 step 1 values [3] until [end] : (!x) -> !x
}

// -----
// Rows of a table whose strides are known at run time, and a single index, which is read once.
// CHECK-LABEL: tsr_tile.kernel @k1 at 1 steps [0, 1] inputs [0, 1] outputs [3] dims {{\[}}[0, -1]] strides {{\[}}[-1, 1], [], []] tasks [-17] unit [] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c9_i64 = arith.constant 9 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[0]
// CHECK-NEXT:   %1 = tsr_tile.load %in1[%c0_i64] : i64 -> i64
// CHECK-NEXT:   %2 = arith.cmpi slt, %1, %c0_i64 : i64
// CHECK-NEXT:   %3 = arith.addi %1, %c9_i64 : i64
// CHECK-NEXT:   %4 = arith.select %2, %3, %1 : i64
// CHECK-NEXT:   %5 = arith.muli %4, %0 : i64
// CHECK-NEXT:   %6 = arith.subi %end, %begin : i64
// CHECK-NEXT:   %7 = arith.divui %6, %c16_i64 : i64
// CHECK-NEXT:   %8 = arith.muli %7, %c16_i64 : i64
// CHECK-NEXT:   %9 = arith.addi %begin, %8 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %9 step %c16_i64  : i64 {
// CHECK-NEXT:     %14 = arith.addi %5, %arg0 : i64
// CHECK-NEXT:     %15 = tsr_tile.load %in0[%14] : f32 -> vector<16xf32>
// CHECK-NEXT:     %16 = tsr_tile.map "neg_f32"(%15) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:     tsr_tile.store %16, %out0[%arg0] : vector<16xf32> -> f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %10 = arith.subi %end, %9 : i64
// CHECK-NEXT:   %11 = arith.divui %10, %c4_i64 : i64
// CHECK-NEXT:   %12 = arith.muli %11, %c4_i64 : i64
// CHECK-NEXT:   %13 = arith.addi %9, %12 : i64
// CHECK-NEXT:   scf.for %arg0 = %9 to %13 step %c4_i64  : i64 {
// CHECK-NEXT:     %14 = arith.addi %5, %arg0 : i64
// CHECK-NEXT:     %15 = tsr_tile.load %in0[%14] : f32 -> vector<4xf32>
// CHECK-NEXT:     %16 = tsr_tile.map "neg_f32"(%15) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:     tsr_tile.store %16, %out0[%arg0] : vector<4xf32> -> f32
// CHECK-NEXT:   }
// CHECK-NEXT:   scf.for %arg0 = %13 to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %14 = arith.addi %5, %arg0 : i64
// CHECK-NEXT:     %15 = tsr_tile.load %in0[%14] : f32 -> f32
// CHECK-NEXT:     %16 = tsr_tile.map "neg_f32"(%15) : (f32) -> f32
// CHECK-NEXT:     tsr_tile.store %16, %out0[%arg0] : f32 -> f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<9x16xf32>
!x = tensor<1x16xf32>
tsr_graph.trace "function" values [0, 1] strides [[-1, 1], []] (%v0: !t, %v1: tensor<1xi64>) {
  %v2 = tsr_graph.embedding %v0, %v1 step 0 values [2] until [1] : (!t, tensor<1xi64>) -> !x
  %v3 = tsr_graph.neg %v2 step 1 values [3] until [end] : (!x) -> !x
}
