// tsr-lower-kernels: which dims become one loop (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels --canonicalize --cse | FileCheck %s

// Everything is one run: one loop, a task is an element.
// CHECK-LABEL: tsr_tile.kernel @k11 at 11 steps [10, 11] inputs [0, 1] outputs [9] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], [], []] tasks [0, 1] unit [] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = arith.subi %end, %begin : i64
// CHECK-NEXT:   %1 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:   %2 = arith.muli %1, %c16_i64 : i64
// CHECK-NEXT:   %3 = arith.addi %begin, %2 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %3 step %c16_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f32 -> vector<16xf32>
// CHECK-NEXT:     %9 = tsr_tile.load %in1[%arg0] : f32 -> vector<16xf32>
// CHECK-NEXT:     %10 = tsr_tile.map "add_f32"(%8, %9) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:     %11 = tsr_tile.map "neg_f32"(%10) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:     tsr_tile.store %11, %out0[%arg0] : vector<16xf32> -> f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %4 = arith.subi %end, %3 : i64
// CHECK-NEXT:   %5 = arith.divui %4, %c4_i64 : i64
// CHECK-NEXT:   %6 = arith.muli %5, %c4_i64 : i64
// CHECK-NEXT:   %7 = arith.addi %3, %6 : i64
// CHECK-NEXT:   scf.for %arg0 = %3 to %7 step %c4_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f32 -> vector<4xf32>
// CHECK-NEXT:     %9 = tsr_tile.load %in1[%arg0] : f32 -> vector<4xf32>
// CHECK-NEXT:     %10 = tsr_tile.map "add_f32"(%8, %9) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:     %11 = tsr_tile.map "neg_f32"(%10) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:     tsr_tile.store %11, %out0[%arg0] : vector<4xf32> -> f32
// CHECK-NEXT:   }
// CHECK-NEXT:   scf.for %arg0 = %7 to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f32 -> f32
// CHECK-NEXT:     %9 = tsr_tile.load %in1[%arg0] : f32 -> f32
// CHECK-NEXT:     %10 = tsr_tile.map "add_f32"(%8, %9) : (f32, f32) -> f32
// CHECK-NEXT:     %11 = tsr_tile.map "neg_f32"(%10) : (f32) -> f32
// CHECK-NEXT:     tsr_tile.store %11, %out0[%arg0] : f32 -> f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
tsr_graph.trace "contiguous" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v8 = tsr_graph.add %v0, %v1 step 10 values [8] until [11] : (!t, !t) -> !t
  %v9 = tsr_graph.neg %v8 step 11 values [9] until [end] : (!t) -> !t
}

// -----
// A row that is the same for all: it stands still in the outer loop.
// CHECK-LABEL: tsr_tile.kernel @k21 at 21 steps [20, 21] inputs [0, 1] outputs [9] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], [], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %3 step %c16_i64  : i64 {
// CHECK-NEXT:       %8 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %9 = tsr_tile.load %in0[%8] : f32 -> vector<16xf32>
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%arg1] : f32 -> vector<16xf32>
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%9, %10) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %12, %out0[%8] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %4 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %5 = arith.divui %4, %c4_i64 : i64
// CHECK-NEXT:     %6 = arith.muli %5, %c4_i64 : i64
// CHECK-NEXT:     %7 = arith.addi %3, %6 : i64
// CHECK-NEXT:     scf.for %arg1 = %3 to %7 step %c4_i64  : i64 {
// CHECK-NEXT:       %8 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %9 = tsr_tile.load %in0[%8] : f32 -> vector<4xf32>
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%arg1] : f32 -> vector<4xf32>
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%9, %10) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %12, %out0[%8] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %7 to %0 step %c1_i64  : i64 {
// CHECK-NEXT:       %8 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %9 = tsr_tile.load %in0[%8] : f32 -> f32
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%arg1] : f32 -> f32
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%9, %10) : (f32, f32) -> f32
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (f32) -> f32
// CHECK-NEXT:       tsr_tile.store %12, %out0[%8] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
!r = tensor<?xf32, [1]>
tsr_graph.trace "row" values [0, 1] strides [[], []] (%v0: !t, %v1: !r) {
  %v8 = tsr_graph.add %v0, %v1 step 20 values [8] until [21] : (!t, !r) -> !t
  %v9 = tsr_graph.neg %v8 step 21 values [9] until [end] : (!t) -> !t
}

// -----
// A column: it stands still in the inner loop, and is read once for each row.
// CHECK-LABEL: tsr_tile.kernel @k31 at 31 steps [30, 31] inputs [0, 1] outputs [9] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], [], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = tsr_tile.load %in1[%arg0] : f32 -> f32
// CHECK-NEXT:     %3 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %4 = arith.muli %3, %c16_i64 : i64
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %4 step %c16_i64  : i64 {
// CHECK-NEXT:       %9 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %10 = tsr_tile.load %in0[%9] : f32 -> vector<16xf32>
// CHECK-NEXT:       %11 = tsr_tile.splat %2 : f32 -> vector<16xf32>
// CHECK-NEXT:       %12 = tsr_tile.map "add_f32"(%10, %11) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %13 = tsr_tile.map "neg_f32"(%12) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %13, %out0[%9] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %5 = arith.subi %0, %4 : i64
// CHECK-NEXT:     %6 = arith.divui %5, %c4_i64 : i64
// CHECK-NEXT:     %7 = arith.muli %6, %c4_i64 : i64
// CHECK-NEXT:     %8 = arith.addi %4, %7 : i64
// CHECK-NEXT:     scf.for %arg1 = %4 to %8 step %c4_i64  : i64 {
// CHECK-NEXT:       %9 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %10 = tsr_tile.load %in0[%9] : f32 -> vector<4xf32>
// CHECK-NEXT:       %11 = tsr_tile.splat %2 : f32 -> vector<4xf32>
// CHECK-NEXT:       %12 = tsr_tile.map "add_f32"(%10, %11) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %13 = tsr_tile.map "neg_f32"(%12) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %13, %out0[%9] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %8 to %0 step %c1_i64  : i64 {
// CHECK-NEXT:       %9 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %10 = tsr_tile.load %in0[%9] : f32 -> f32
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%10, %2) : (f32, f32) -> f32
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (f32) -> f32
// CHECK-NEXT:       tsr_tile.store %12, %out0[%9] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
!c = tensor<?x1xf32, [0, -1]>
tsr_graph.trace "column" values [0, 1] strides [[], []] (%v0: !t, %v1: !c) {
  %v8 = tsr_graph.add %v0, %v1 step 30 values [8] until [31] : (!t, !c) -> !t
  %v9 = tsr_graph.neg %v8 step 31 values [9] until [end] : (!t) -> !t
}

// -----
// A number: it is read once, before all loops, and is no reason for a second loop.
// CHECK-LABEL: tsr_tile.kernel @k41 at 41 steps [40, 41] inputs [0, 1] outputs [9] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], [], []] tasks [0, 1] unit [] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.load %in1[%c0_i64] : f32 -> f32
// CHECK-NEXT:   %1 = arith.subi %end, %begin : i64
// CHECK-NEXT:   %2 = arith.divui %1, %c16_i64 : i64
// CHECK-NEXT:   %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:   %4 = arith.addi %begin, %3 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %4 step %c16_i64  : i64 {
// CHECK-NEXT:     %9 = tsr_tile.load %in0[%arg0] : f32 -> vector<16xf32>
// CHECK-NEXT:     %10 = tsr_tile.splat %0 : f32 -> vector<16xf32>
// CHECK-NEXT:     %11 = tsr_tile.map "add_f32"(%9, %10) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:     %12 = tsr_tile.map "neg_f32"(%11) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:     tsr_tile.store %12, %out0[%arg0] : vector<16xf32> -> f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %5 = arith.subi %end, %4 : i64
// CHECK-NEXT:   %6 = arith.divui %5, %c4_i64 : i64
// CHECK-NEXT:   %7 = arith.muli %6, %c4_i64 : i64
// CHECK-NEXT:   %8 = arith.addi %4, %7 : i64
// CHECK-NEXT:   scf.for %arg0 = %4 to %8 step %c4_i64  : i64 {
// CHECK-NEXT:     %9 = tsr_tile.load %in0[%arg0] : f32 -> vector<4xf32>
// CHECK-NEXT:     %10 = tsr_tile.splat %0 : f32 -> vector<4xf32>
// CHECK-NEXT:     %11 = tsr_tile.map "add_f32"(%9, %10) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:     %12 = tsr_tile.map "neg_f32"(%11) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:     tsr_tile.store %12, %out0[%arg0] : vector<4xf32> -> f32
// CHECK-NEXT:   }
// CHECK-NEXT:   scf.for %arg0 = %8 to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %9 = tsr_tile.load %in0[%arg0] : f32 -> f32
// CHECK-NEXT:     %10 = tsr_tile.map "add_f32"(%9, %0) : (f32, f32) -> f32
// CHECK-NEXT:     %11 = tsr_tile.map "neg_f32"(%10) : (f32) -> f32
// CHECK-NEXT:     tsr_tile.store %11, %out0[%arg0] : f32 -> f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
tsr_graph.trace "number" values [0, 1] strides [[], []] (%v0: !t, %v1: tensor<f32>) {
  %v8 = tsr_graph.add %v0, %v1 step 40 values [8] until [41] : (!t, tensor<f32>) -> !t
  %v9 = tsr_graph.neg %v8 step 41 values [9] until [end] : (!t) -> !t
}

// -----
// A transposed operand: its strides come from the table, its elements one by one.
// CHECK-LABEL: tsr_tile.kernel @k51 at 51 steps [50, 51] inputs [0, 1] outputs [9] dims {{\[}}[0, 0], [0, 1], [0, -2]] strides {{\[}}[1, -1], [], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[2]
// CHECK-NEXT:   %1 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %2 = arith.muli %arg0, %1 : i64
// CHECK-NEXT:     %3 = arith.divui %1, %c16_i64 : i64
// CHECK-NEXT:     %4 = arith.muli %3, %c16_i64 : i64
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %4 step %c16_i64  : i64 {
// CHECK-NEXT:       %9 = arith.muli %arg1, %0 : i64
// CHECK-NEXT:       %10 = arith.addi %arg0, %9 : i64
// CHECK-NEXT:       %11 = tsr_tile.load %in0[%10] stride %0 : f32 -> vector<16xf32>
// CHECK-NEXT:       %12 = arith.addi %2, %arg1 : i64
// CHECK-NEXT:       %13 = tsr_tile.load %in1[%12] : f32 -> vector<16xf32>
// CHECK-NEXT:       %14 = tsr_tile.map "add_f32"(%11, %13) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %15 = tsr_tile.map "neg_f32"(%14) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %15, %out0[%12] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %5 = arith.subi %1, %4 : i64
// CHECK-NEXT:     %6 = arith.divui %5, %c4_i64 : i64
// CHECK-NEXT:     %7 = arith.muli %6, %c4_i64 : i64
// CHECK-NEXT:     %8 = arith.addi %4, %7 : i64
// CHECK-NEXT:     scf.for %arg1 = %4 to %8 step %c4_i64  : i64 {
// CHECK-NEXT:       %9 = arith.muli %arg1, %0 : i64
// CHECK-NEXT:       %10 = arith.addi %arg0, %9 : i64
// CHECK-NEXT:       %11 = tsr_tile.load %in0[%10] stride %0 : f32 -> vector<4xf32>
// CHECK-NEXT:       %12 = arith.addi %2, %arg1 : i64
// CHECK-NEXT:       %13 = tsr_tile.load %in1[%12] : f32 -> vector<4xf32>
// CHECK-NEXT:       %14 = tsr_tile.map "add_f32"(%11, %13) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %15 = tsr_tile.map "neg_f32"(%14) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %15, %out0[%12] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %8 to %1 step %c1_i64  : i64 {
// CHECK-NEXT:       %9 = arith.muli %arg1, %0 : i64
// CHECK-NEXT:       %10 = arith.addi %arg0, %9 : i64
// CHECK-NEXT:       %11 = tsr_tile.load %in0[%10] : f32 -> f32
// CHECK-NEXT:       %12 = arith.addi %2, %arg1 : i64
// CHECK-NEXT:       %13 = tsr_tile.load %in1[%12] : f32 -> f32
// CHECK-NEXT:       %14 = tsr_tile.map "add_f32"(%11, %13) : (f32, f32) -> f32
// CHECK-NEXT:       %15 = tsr_tile.map "neg_f32"(%14) : (f32) -> f32
// CHECK-NEXT:       tsr_tile.store %15, %out0[%12] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
tsr_graph.trace "strided" values [0, 1] strides [[1, -1], []] (%v0: !t, %v1: !t) {
  %v8 = tsr_graph.add %v0, %v1 step 50 values [8] until [51] : (!t, !t) -> !t
  %v9 = tsr_graph.neg %v8 step 51 values [9] until [end] : (!t) -> !t
}

// -----
// Rows that are apart: elements of a row are neighbours.
// CHECK-LABEL: tsr_tile.kernel @k61 at 61 steps [60, 61] inputs [0, 1] outputs [9] dims {{\[}}[0, 0], [0, 1], [0, -1]] strides {{\[}}[-1, 1], [], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[2]
// CHECK-NEXT:   %1 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %2 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %3 = arith.muli %arg0, %1 : i64
// CHECK-NEXT:     %4 = arith.divui %1, %c16_i64 : i64
// CHECK-NEXT:     %5 = arith.muli %4, %c16_i64 : i64
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %5 step %c16_i64  : i64 {
// CHECK-NEXT:       %10 = arith.addi %2, %arg1 : i64
// CHECK-NEXT:       %11 = tsr_tile.load %in0[%10] : f32 -> vector<16xf32>
// CHECK-NEXT:       %12 = arith.addi %3, %arg1 : i64
// CHECK-NEXT:       %13 = tsr_tile.load %in1[%12] : f32 -> vector<16xf32>
// CHECK-NEXT:       %14 = tsr_tile.map "add_f32"(%11, %13) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %15 = tsr_tile.map "neg_f32"(%14) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %15, %out0[%12] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %6 = arith.subi %1, %5 : i64
// CHECK-NEXT:     %7 = arith.divui %6, %c4_i64 : i64
// CHECK-NEXT:     %8 = arith.muli %7, %c4_i64 : i64
// CHECK-NEXT:     %9 = arith.addi %5, %8 : i64
// CHECK-NEXT:     scf.for %arg1 = %5 to %9 step %c4_i64  : i64 {
// CHECK-NEXT:       %10 = arith.addi %2, %arg1 : i64
// CHECK-NEXT:       %11 = tsr_tile.load %in0[%10] : f32 -> vector<4xf32>
// CHECK-NEXT:       %12 = arith.addi %3, %arg1 : i64
// CHECK-NEXT:       %13 = tsr_tile.load %in1[%12] : f32 -> vector<4xf32>
// CHECK-NEXT:       %14 = tsr_tile.map "add_f32"(%11, %13) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %15 = tsr_tile.map "neg_f32"(%14) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %15, %out0[%12] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %9 to %1 step %c1_i64  : i64 {
// CHECK-NEXT:       %10 = arith.addi %2, %arg1 : i64
// CHECK-NEXT:       %11 = tsr_tile.load %in0[%10] : f32 -> f32
// CHECK-NEXT:       %12 = arith.addi %3, %arg1 : i64
// CHECK-NEXT:       %13 = tsr_tile.load %in1[%12] : f32 -> f32
// CHECK-NEXT:       %14 = tsr_tile.map "add_f32"(%11, %13) : (f32, f32) -> f32
// CHECK-NEXT:       %15 = tsr_tile.map "neg_f32"(%14) : (f32) -> f32
// CHECK-NEXT:       tsr_tile.store %15, %out0[%12] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
tsr_graph.trace "apart" values [0, 1] strides [[-1, 1], []] (%v0: !t, %v1: !t) {
  %v8 = tsr_graph.add %v0, %v1 step 60 values [8] until [61] : (!t, !t) -> !t
  %v9 = tsr_graph.neg %v8 step 61 values [9] until [end] : (!t) -> !t
}

// -----
// Stride 0, as a broadcast view has it: as a row.
// CHECK-LABEL: tsr_tile.kernel @k71 at 71 steps [70, 71] inputs [0, 1] outputs [9] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[0, 1], [], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %3 step %c16_i64  : i64 {
// CHECK-NEXT:       %8 = tsr_tile.load %in0[%arg1] : f32 -> vector<16xf32>
// CHECK-NEXT:       %9 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%9] : f32 -> vector<16xf32>
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%8, %10) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %12, %out0[%9] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %4 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %5 = arith.divui %4, %c4_i64 : i64
// CHECK-NEXT:     %6 = arith.muli %5, %c4_i64 : i64
// CHECK-NEXT:     %7 = arith.addi %3, %6 : i64
// CHECK-NEXT:     scf.for %arg1 = %3 to %7 step %c4_i64  : i64 {
// CHECK-NEXT:       %8 = tsr_tile.load %in0[%arg1] : f32 -> vector<4xf32>
// CHECK-NEXT:       %9 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%9] : f32 -> vector<4xf32>
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%8, %10) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %12, %out0[%9] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %7 to %0 step %c1_i64  : i64 {
// CHECK-NEXT:       %8 = tsr_tile.load %in0[%arg1] : f32 -> f32
// CHECK-NEXT:       %9 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%9] : f32 -> f32
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%8, %10) : (f32, f32) -> f32
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (f32) -> f32
// CHECK-NEXT:       tsr_tile.store %12, %out0[%9] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!t = tensor<?x?xf32, [0, 1]>
tsr_graph.trace "still" values [0, 1] strides [[0, 1], []] (%v0: !t, %v1: !t) {
  %v8 = tsr_graph.add %v0, %v1 step 70 values [8] until [71] : (!t, !t) -> !t
  %v9 = tsr_graph.neg %v8 step 71 values [9] until [end] : (!t) -> !t
}

// -----
// Rank 0: one task, and no vectors.
// CHECK-LABEL: tsr_tile.kernel @k81 at 81 steps [80, 81] inputs [0] outputs [9] dims [] strides {{\[}}[], []] tasks [] unit [] grain 32768 scratch []
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %0 = tsr_tile.load %in0[%c0_i64] : f32 -> f32
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = tsr_tile.map "exp_f32"(%0) : (f32) -> f32
// CHECK-NEXT:     %2 = tsr_tile.map "neg_f32"(%1) : (f32) -> f32
// CHECK-NEXT:     tsr_tile.store %2, %out0[%c0_i64] : f32 -> f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "rank_0" values [0] strides [[]] (%v0: tensor<f32>) {
  %v8 = tsr_graph.exp %v0 step 80 values [8] until [81] : (tensor<f32>) -> tensor<f32>
  %v9 = tsr_graph.neg %v8 step 81 values [9] until [end] : (tensor<f32>) -> tensor<f32>
}

// -----
// Dims of 1 make no loop.
// CHECK-LABEL: tsr_tile.kernel @k91 at 91 steps [90, 91] inputs [0] outputs [9] dims {{\[}}[0, 0], [0, 2]] strides {{\[}}[], []] tasks [0, 1] unit [] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = arith.subi %end, %begin : i64
// CHECK-NEXT:   %1 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:   %2 = arith.muli %1, %c16_i64 : i64
// CHECK-NEXT:   %3 = arith.addi %begin, %2 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %3 step %c16_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f32 -> vector<16xf32>
// CHECK-NEXT:     %9 = tsr_tile.map "exp_f32"(%8) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:     %10 = tsr_tile.map "neg_f32"(%9) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:     tsr_tile.store %10, %out0[%arg0] : vector<16xf32> -> f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %4 = arith.subi %end, %3 : i64
// CHECK-NEXT:   %5 = arith.divui %4, %c4_i64 : i64
// CHECK-NEXT:   %6 = arith.muli %5, %c4_i64 : i64
// CHECK-NEXT:   %7 = arith.addi %3, %6 : i64
// CHECK-NEXT:   scf.for %arg0 = %3 to %7 step %c4_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f32 -> vector<4xf32>
// CHECK-NEXT:     %9 = tsr_tile.map "exp_f32"(%8) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:     %10 = tsr_tile.map "neg_f32"(%9) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:     tsr_tile.store %10, %out0[%arg0] : vector<4xf32> -> f32
// CHECK-NEXT:   }
// CHECK-NEXT:   scf.for %arg0 = %7 to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %8 = tsr_tile.load %in0[%arg0] : f32 -> f32
// CHECK-NEXT:     %9 = tsr_tile.map "exp_f32"(%8) : (f32) -> f32
// CHECK-NEXT:     %10 = tsr_tile.map "neg_f32"(%9) : (f32) -> f32
// CHECK-NEXT:     tsr_tile.store %10, %out0[%arg0] : f32 -> f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
!u = tensor<?x1x?xf32, [0, -1, 1]>
tsr_graph.trace "ones" values [0] strides [[]] (%v0: !u) {
  %v8 = tsr_graph.exp %v0 step 90 values [8] until [91] : (!u) -> !u
  %v9 = tsr_graph.neg %v8 step 91 values [9] until [end] : (!u) -> !u
}

// -----
// Dims of 1 between two others do not hide that those do not join.
// CHECK-LABEL: tsr_tile.kernel @k101 at 101 steps [100, 101] inputs [0, 1] outputs [9] dims {{\[}}[0, 0], [0, 2]] strides {{\[}}[], [], []] tasks [0] unit [1] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[1]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %3 step %c16_i64  : i64 {
// CHECK-NEXT:       %8 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %9 = tsr_tile.load %in0[%8] : f32 -> vector<16xf32>
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%arg1] : f32 -> vector<16xf32>
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%9, %10) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %12, %out0[%8] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %4 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %5 = arith.divui %4, %c4_i64 : i64
// CHECK-NEXT:     %6 = arith.muli %5, %c4_i64 : i64
// CHECK-NEXT:     %7 = arith.addi %3, %6 : i64
// CHECK-NEXT:     scf.for %arg1 = %3 to %7 step %c4_i64  : i64 {
// CHECK-NEXT:       %8 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %9 = tsr_tile.load %in0[%8] : f32 -> vector<4xf32>
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%arg1] : f32 -> vector<4xf32>
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%9, %10) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %12, %out0[%8] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %7 to %0 step %c1_i64  : i64 {
// CHECK-NEXT:       %8 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %9 = tsr_tile.load %in0[%8] : f32 -> f32
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%arg1] : f32 -> f32
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%9, %10) : (f32, f32) -> f32
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (f32) -> f32
// CHECK-NEXT:       tsr_tile.store %12, %out0[%8] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!u = tensor<?x1x?xf32, [0, -1, 1]>
!r = tensor<?xf32, [1]>
tsr_graph.trace "ones_row" values [0, 1] strides [[], []] (%v0: !u, %v1: !r) {
  %v8 = tsr_graph.add %v0, %v1 step 100 values [8] until [101] : (!u, !r) -> !u
  %v9 = tsr_graph.neg %v8 step 101 values [9] until [end] : (!u) -> !u
}

// -----
// Three dims of which the two inner ones join.
// CHECK-LABEL: tsr_tile.kernel @k111 at 111 steps [110, 111] inputs [0, 1] outputs [9] dims {{\[}}[0, 0], [0, 1], [0, 2]] strides {{\[}}[], [], []] tasks [0] unit [1, 2] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[2]
// CHECK-NEXT:   %1 = tsr_tile.dim %table[1]
// CHECK-NEXT:   %2 = arith.muli %1, %0 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %3 = arith.muli %arg0, %2 : i64
// CHECK-NEXT:     %4 = arith.divui %2, %c16_i64 : i64
// CHECK-NEXT:     %5 = arith.muli %4, %c16_i64 : i64
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %5 step %c16_i64  : i64 {
// CHECK-NEXT:       %10 = arith.addi %3, %arg1 : i64
// CHECK-NEXT:       %11 = tsr_tile.load %in0[%10] : f32 -> vector<16xf32>
// CHECK-NEXT:       %12 = tsr_tile.load %in1[%arg1] : f32 -> vector<16xf32>
// CHECK-NEXT:       %13 = tsr_tile.map "add_f32"(%11, %12) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %14 = tsr_tile.map "neg_f32"(%13) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %14, %out0[%10] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %6 = arith.subi %2, %5 : i64
// CHECK-NEXT:     %7 = arith.divui %6, %c4_i64 : i64
// CHECK-NEXT:     %8 = arith.muli %7, %c4_i64 : i64
// CHECK-NEXT:     %9 = arith.addi %5, %8 : i64
// CHECK-NEXT:     scf.for %arg1 = %5 to %9 step %c4_i64  : i64 {
// CHECK-NEXT:       %10 = arith.addi %3, %arg1 : i64
// CHECK-NEXT:       %11 = tsr_tile.load %in0[%10] : f32 -> vector<4xf32>
// CHECK-NEXT:       %12 = tsr_tile.load %in1[%arg1] : f32 -> vector<4xf32>
// CHECK-NEXT:       %13 = tsr_tile.map "add_f32"(%11, %12) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %14 = tsr_tile.map "neg_f32"(%13) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %14, %out0[%10] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %9 to %2 step %c1_i64  : i64 {
// CHECK-NEXT:       %10 = arith.addi %3, %arg1 : i64
// CHECK-NEXT:       %11 = tsr_tile.load %in0[%10] : f32 -> f32
// CHECK-NEXT:       %12 = tsr_tile.load %in1[%arg1] : f32 -> f32
// CHECK-NEXT:       %13 = tsr_tile.map "add_f32"(%11, %12) : (f32, f32) -> f32
// CHECK-NEXT:       %14 = tsr_tile.map "neg_f32"(%13) : (f32) -> f32
// CHECK-NEXT:       tsr_tile.store %14, %out0[%10] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!u = tensor<?x?x?xf32, [0, 1, 2]>
!w = tensor<?x?xf32, [1, 2]>
tsr_graph.trace "inner" values [0, 1] strides [[], []] (%v0: !u, %v1: !w) {
  %v8 = tsr_graph.add %v0, %v1 step 110 values [8] until [111] : (!u, !w) -> !u
  %v9 = tsr_graph.neg %v8 step 111 values [9] until [end] : (!u) -> !u
}

// -----
// The outer two join; the index is taken apart for nobody.
// CHECK-LABEL: tsr_tile.kernel @k121 at 121 steps [120, 121] inputs [0, 1] outputs [9] dims {{\[}}[0, 0], [0, 1], [0, 2]] strides {{\[}}[], [], []] tasks [0, 1] unit [2] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[2]
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %1 = arith.muli %arg0, %0 : i64
// CHECK-NEXT:     %2 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %3 = arith.muli %2, %c16_i64 : i64
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %3 step %c16_i64  : i64 {
// CHECK-NEXT:       %8 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %9 = tsr_tile.load %in0[%8] : f32 -> vector<16xf32>
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%arg1] : f32 -> vector<16xf32>
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%9, %10) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %12, %out0[%8] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %4 = arith.subi %0, %3 : i64
// CHECK-NEXT:     %5 = arith.divui %4, %c4_i64 : i64
// CHECK-NEXT:     %6 = arith.muli %5, %c4_i64 : i64
// CHECK-NEXT:     %7 = arith.addi %3, %6 : i64
// CHECK-NEXT:     scf.for %arg1 = %3 to %7 step %c4_i64  : i64 {
// CHECK-NEXT:       %8 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %9 = tsr_tile.load %in0[%8] : f32 -> vector<4xf32>
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%arg1] : f32 -> vector<4xf32>
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%9, %10) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %12, %out0[%8] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %7 to %0 step %c1_i64  : i64 {
// CHECK-NEXT:       %8 = arith.addi %1, %arg1 : i64
// CHECK-NEXT:       %9 = tsr_tile.load %in0[%8] : f32 -> f32
// CHECK-NEXT:       %10 = tsr_tile.load %in1[%arg1] : f32 -> f32
// CHECK-NEXT:       %11 = tsr_tile.map "add_f32"(%9, %10) : (f32, f32) -> f32
// CHECK-NEXT:       %12 = tsr_tile.map "neg_f32"(%11) : (f32) -> f32
// CHECK-NEXT:       tsr_tile.store %12, %out0[%8] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!u = tensor<?x?x?xf32, [0, 1, 2]>
!w = tensor<?xf32, [2]>
tsr_graph.trace "outer" values [0, 1] strides [[], []] (%v0: !u, %v1: !w) {
  %v8 = tsr_graph.add %v0, %v1 step 120 values [8] until [121] : (!u, !w) -> !u
  %v9 = tsr_graph.neg %v8 step 121 values [9] until [end] : (!u) -> !u
}

// -----
// Three loops: the index of a task is taken apart.
// CHECK-LABEL: tsr_tile.kernel @k131 at 131 steps [130, 131] inputs [0, 1] outputs [9] dims {{\[}}[0, 0], [0, 1], [0, 2]] strides {{\[}}[], [], []] tasks [0, 1] unit [2] grain 32768 scratch []
// CHECK-NEXT:   %c4_i64 = arith.constant 4 : i64
// CHECK-NEXT:   %c16_i64 = arith.constant 16 : i64
// CHECK-NEXT:   %c0_i64 = arith.constant 0 : i64
// CHECK-NEXT:   %c1_i64 = arith.constant 1 : i64
// CHECK-NEXT:   %0 = tsr_tile.dim %table[2]
// CHECK-NEXT:   %1 = tsr_tile.dim %table[1]
// CHECK-NEXT:   %2 = arith.muli %1, %0 : i64
// CHECK-NEXT:   scf.for %arg0 = %begin to %end step %c1_i64  : i64 {
// CHECK-NEXT:     %3 = arith.remui %arg0, %1 : i64
// CHECK-NEXT:     %4 = arith.divui %arg0, %1 : i64
// CHECK-NEXT:     %5 = arith.muli %4, %2 : i64
// CHECK-NEXT:     %6 = arith.muli %3, %0 : i64
// CHECK-NEXT:     %7 = arith.addi %5, %6 : i64
// CHECK-NEXT:     %8 = arith.muli %4, %0 : i64
// CHECK-NEXT:     %9 = arith.divui %0, %c16_i64 : i64
// CHECK-NEXT:     %10 = arith.muli %9, %c16_i64 : i64
// CHECK-NEXT:     scf.for %arg1 = %c0_i64 to %10 step %c16_i64  : i64 {
// CHECK-NEXT:       %15 = arith.addi %7, %arg1 : i64
// CHECK-NEXT:       %16 = tsr_tile.load %in0[%15] : f32 -> vector<16xf32>
// CHECK-NEXT:       %17 = arith.addi %8, %arg1 : i64
// CHECK-NEXT:       %18 = tsr_tile.load %in1[%17] : f32 -> vector<16xf32>
// CHECK-NEXT:       %19 = tsr_tile.map "add_f32"(%16, %18) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       %20 = tsr_tile.map "neg_f32"(%19) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:       tsr_tile.store %20, %out0[%15] : vector<16xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %11 = arith.subi %0, %10 : i64
// CHECK-NEXT:     %12 = arith.divui %11, %c4_i64 : i64
// CHECK-NEXT:     %13 = arith.muli %12, %c4_i64 : i64
// CHECK-NEXT:     %14 = arith.addi %10, %13 : i64
// CHECK-NEXT:     scf.for %arg1 = %10 to %14 step %c4_i64  : i64 {
// CHECK-NEXT:       %15 = arith.addi %7, %arg1 : i64
// CHECK-NEXT:       %16 = tsr_tile.load %in0[%15] : f32 -> vector<4xf32>
// CHECK-NEXT:       %17 = arith.addi %8, %arg1 : i64
// CHECK-NEXT:       %18 = tsr_tile.load %in1[%17] : f32 -> vector<4xf32>
// CHECK-NEXT:       %19 = tsr_tile.map "add_f32"(%16, %18) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       %20 = tsr_tile.map "neg_f32"(%19) : (vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:       tsr_tile.store %20, %out0[%15] : vector<4xf32> -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:     scf.for %arg1 = %14 to %0 step %c1_i64  : i64 {
// CHECK-NEXT:       %15 = arith.addi %7, %arg1 : i64
// CHECK-NEXT:       %16 = tsr_tile.load %in0[%15] : f32 -> f32
// CHECK-NEXT:       %17 = arith.addi %8, %arg1 : i64
// CHECK-NEXT:       %18 = tsr_tile.load %in1[%17] : f32 -> f32
// CHECK-NEXT:       %19 = tsr_tile.map "add_f32"(%16, %18) : (f32, f32) -> f32
// CHECK-NEXT:       %20 = tsr_tile.map "neg_f32"(%19) : (f32) -> f32
// CHECK-NEXT:       tsr_tile.store %20, %out0[%15] : f32 -> f32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
!u = tensor<?x?x?xf32, [0, 1, 2]>
!w = tensor<?x1x?xf32, [0, -1, 2]>
tsr_graph.trace "three" values [0, 1] strides [[], []] (%v0: !u, %v1: !w) {
  %v8 = tsr_graph.add %v0, %v1 step 130 values [8] until [131] : (!u, !w) -> !u
  %v9 = tsr_graph.neg %v8 step 131 values [9] until [end] : (!u) -> !u
}
