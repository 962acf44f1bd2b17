// tsr-lower-to-llvm: what becomes of each op of tsr_tile (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-lower-to-llvm | FileCheck %s

// The arguments come from the array of views; an entry of the table is a load.
// CHECK-LABEL: llvm.func @k0(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: i64, %arg4: i64) {
// CHECK-NEXT:   %0 = llvm.getelementptr %arg0[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK-NEXT:   %1 = llvm.load %0 : !llvm.ptr -> !llvm.ptr
// CHECK-NEXT:   %2 = llvm.getelementptr %arg0[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK-NEXT:   %3 = llvm.load %2 : !llvm.ptr -> !llvm.ptr
// CHECK-NEXT:   %4 = llvm.mlir.constant(1 : i64) : i64
// CHECK-NEXT:   %5 = llvm.getelementptr %arg2[%4] : (!llvm.ptr, i64) -> !llvm.ptr, i64
// CHECK-NEXT:   %6 = llvm.load %5 : !llvm.ptr -> i64
// CHECK-NEXT:   %7 = llvm.getelementptr %1[%6] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   %8 = llvm.load %7 {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:   %9 = llvm.getelementptr %3[%arg3] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   llvm.store %8, %9 {alignment = 4 : i64} : f32, !llvm.ptr
// CHECK-NEXT:   llvm.return
// CHECK-NEXT: }
// CHECK-LABEL: tsr_target.launch @k0 at 0 steps [0] inputs [4] outputs [5] dims {{\[}}[4, 0], [4, -1]] strides {{\[}}[-1], []] tasks [0] unit [] grain 32768 scratch [4, 8]
tsr_tile.kernel @k0 at 0 steps [0] inputs [4] outputs [5] dims [[4, 0], [4, -1]] strides [[-1], []] tasks [0] unit []
    grain 32768 scratch [4, 8]
    (%in0: !llvm.ptr, %out0: !llvm.ptr, %scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.dim %table[1]
  %1 = tsr_tile.load %in0[%0] : f32 -> f32
  tsr_tile.store %1, %out0[%begin] : f32 -> f32
}

// -----
// Memory holds narrow floats as bits, bool as bytes. Vectors are aligned as their elements are.
// CHECK-LABEL: llvm.func @tsr_load_f8e5m2(i8) -> f32
// CHECK-LABEL: llvm.func @tsr_store_bf16_v8(vector<8xf32>) -> vector<8xi16>
// CHECK-LABEL: llvm.func @tsr_load_bf16_v8(vector<8xi16>) -> vector<8xf32>
// CHECK-LABEL: llvm.func @k1(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: i64, %arg4: i64) {
// CHECK-NEXT:   %0 = llvm.getelementptr %arg0[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK-NEXT:   %1 = llvm.load %0 : !llvm.ptr -> !llvm.ptr
// CHECK-NEXT:   %2 = llvm.getelementptr %1[%arg3] : (!llvm.ptr, i64) -> !llvm.ptr, i16
// CHECK-NEXT:   %3 = llvm.load %2 {alignment = 2 : i64} : !llvm.ptr -> vector<8xi16>
// CHECK-NEXT:   %4 = llvm.call @tsr_load_bf16_v8(%3) : (vector<8xi16>) -> vector<8xf32>
// CHECK-NEXT:   %5 = llvm.call @tsr_store_bf16_v8(%4) : (vector<8xf32>) -> vector<8xi16>
// CHECK-NEXT:   %6 = llvm.getelementptr %1[%arg3] : (!llvm.ptr, i64) -> !llvm.ptr, i16
// CHECK-NEXT:   llvm.store %5, %6 {alignment = 2 : i64} : vector<8xi16>, !llvm.ptr
// CHECK-NEXT:   %7 = llvm.getelementptr %1[%arg3] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:   %8 = llvm.load %7 {alignment = 1 : i64} : !llvm.ptr -> vector<8xi8>
// CHECK-NEXT:   %9 = llvm.getelementptr %1[%arg3] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:   llvm.store %8, %9 {alignment = 1 : i64} : vector<8xi8>, !llvm.ptr
// CHECK-NEXT:   %10 = llvm.getelementptr %1[%arg3] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK-NEXT:   %11 = llvm.load %10 {alignment = 1 : i64} : !llvm.ptr -> i8
// CHECK-NEXT:   %12 = llvm.call @tsr_load_f8e5m2(%11) : (i8) -> f32
// CHECK-NEXT:   %13 = llvm.getelementptr %1[%arg3] : (!llvm.ptr, i64) -> !llvm.ptr, f64
// CHECK-NEXT:   %14 = llvm.load %13 {alignment = 8 : i64} : !llvm.ptr -> vector<8xf64>
// CHECK-NEXT:   llvm.return
// CHECK-NEXT: }
// CHECK-LABEL: tsr_target.launch @k1 at 1 steps [1] inputs [0] outputs [] dims [] strides {{\[}}[]] tasks [-9] unit [] grain 1 scratch []
tsr_tile.kernel @k1 at 1 steps [1] inputs [0] outputs [] dims [] strides [[]] tasks [-9] unit [] grain 1 scratch []
    (%in0: !llvm.ptr, %scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %in0[%begin] : bf16 -> vector<8xf32>
  tsr_tile.store %0, %in0[%begin] : vector<8xf32> -> bf16
  %1 = tsr_tile.load %in0[%begin] : i1 -> vector<8xi8>
  tsr_tile.store %1, %in0[%begin] : vector<8xi8> -> i1
  %2 = tsr_tile.load %in0[%begin] : f8E5M2 -> f32
  %3 = tsr_tile.load %in0[%begin] : f64 -> vector<8xf64>
}

// -----
// Elements that are apart are loaded one by one.
// CHECK-LABEL: llvm.func @k2(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: i64, %arg4: i64) {
// CHECK-NEXT:   %0 = llvm.getelementptr %arg0[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK-NEXT:   %1 = llvm.load %0 : !llvm.ptr -> !llvm.ptr
// CHECK-NEXT:   %2 = llvm.mlir.poison : vector<4xf32>
// CHECK-NEXT:   %3 = llvm.getelementptr %1[%arg3] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   %4 = llvm.load %3 {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:   %5 = llvm.mlir.constant(0 : i32) : i32
// CHECK-NEXT:   %6 = llvm.insertelement %4, %2[%5 : i32] : vector<4xf32>
// CHECK-NEXT:   %7 = llvm.add %arg3, %arg4 : i64
// CHECK-NEXT:   %8 = llvm.getelementptr %1[%7] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   %9 = llvm.load %8 {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:   %10 = llvm.mlir.constant(1 : i32) : i32
// CHECK-NEXT:   %11 = llvm.insertelement %9, %6[%10 : i32] : vector<4xf32>
// CHECK-NEXT:   %12 = llvm.add %7, %arg4 : i64
// CHECK-NEXT:   %13 = llvm.getelementptr %1[%12] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   %14 = llvm.load %13 {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:   %15 = llvm.mlir.constant(2 : i32) : i32
// CHECK-NEXT:   %16 = llvm.insertelement %14, %11[%15 : i32] : vector<4xf32>
// CHECK-NEXT:   %17 = llvm.add %12, %arg4 : i64
// CHECK-NEXT:   %18 = llvm.getelementptr %1[%17] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   %19 = llvm.load %18 {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:   %20 = llvm.mlir.constant(3 : i32) : i32
// CHECK-NEXT:   %21 = llvm.insertelement %19, %16[%20 : i32] : vector<4xf32>
// CHECK-NEXT:   llvm.return
// CHECK-NEXT: }
// CHECK-LABEL: tsr_target.launch @k2 at 2 steps [2] inputs [0] outputs [] dims [] strides {{\[}}[-1]] tasks [-9] unit [] grain 1 scratch []
tsr_tile.kernel @k2 at 2 steps [2] inputs [0] outputs [] dims [] strides [[-1]] tasks [-9] unit [] grain 1 scratch []
    (%in0: !llvm.ptr, %scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %in0[%begin] stride %end : f32 -> vector<4xf32>
}

// -----
// Functions by their names, with the lanes in the name; a splat; lanes in halves.
// CHECK-LABEL: llvm.func @tsr_add_f64(f64, f64) -> f64
// CHECK-LABEL: llvm.func @tsr_add_f64_v2(vector<2xf64>, vector<2xf64>) -> vector<2xf64>
// CHECK-LABEL: llvm.func @tsr_add_f64_v4(vector<4xf64>, vector<4xf64>) -> vector<4xf64>
// CHECK-LABEL: llvm.func @tsr_exp_f32_v8(vector<8xf32>) -> vector<8xf32>
// CHECK-LABEL: llvm.func @tsr_exp_f32(f32) -> f32
// CHECK-LABEL: llvm.func @k3(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: i64, %arg4: i64) {
// CHECK-NEXT:   %0 = llvm.getelementptr %arg0[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK-NEXT:   %1 = llvm.load %0 : !llvm.ptr -> !llvm.ptr
// CHECK-NEXT:   %2 = llvm.getelementptr %1[%arg3] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   %3 = llvm.load %2 {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:   %4 = llvm.call @tsr_exp_f32(%3) : (f32) -> f32
// CHECK-NEXT:   %5 = llvm.mlir.poison : vector<8xf32>
// CHECK-NEXT:   %6 = llvm.mlir.constant(0 : i32) : i32
// CHECK-NEXT:   %7 = llvm.insertelement %4, %5[%6 : i32] : vector<8xf32>
// CHECK-NEXT:   %8 = llvm.shufflevector %7, %5 [0, 0, 0, 0, 0, 0, 0, 0] : vector<8xf32>
// CHECK-NEXT:   %9 = llvm.call @tsr_exp_f32_v8(%8) : (vector<8xf32>) -> vector<8xf32>
// CHECK-NEXT:   %10 = llvm.call @tsr_exp_f32_v8(%9) : (vector<8xf32>) -> vector<8xf32>
// CHECK-NEXT:   %11 = llvm.fpext %10 : vector<8xf32> to vector<8xf64>
// CHECK-NEXT:   %12 = llvm.shufflevector %11, %11 [0, 1, 2, 3] : vector<8xf64>
// CHECK-NEXT:   %13 = llvm.shufflevector %11, %11 [4, 5, 6, 7] : vector<8xf64>
// CHECK-NEXT:   %14 = llvm.call @tsr_add_f64_v4(%12, %13) : (vector<4xf64>, vector<4xf64>) -> vector<4xf64>
// CHECK-NEXT:   %15 = llvm.shufflevector %14, %14 [0, 1] : vector<4xf64>
// CHECK-NEXT:   %16 = llvm.shufflevector %14, %14 [2, 3] : vector<4xf64>
// CHECK-NEXT:   %17 = llvm.call @tsr_add_f64_v2(%15, %16) : (vector<2xf64>, vector<2xf64>) -> vector<2xf64>
// CHECK-NEXT:   %18 = llvm.mlir.constant(0 : i32) : i32
// CHECK-NEXT:   %19 = llvm.extractelement %17[%18 : i32] : vector<2xf64>
// CHECK-NEXT:   %20 = llvm.mlir.constant(1 : i32) : i32
// CHECK-NEXT:   %21 = llvm.extractelement %17[%20 : i32] : vector<2xf64>
// CHECK-NEXT:   %22 = llvm.call @tsr_add_f64(%19, %21) : (f64, f64) -> f64
// CHECK-NEXT:   llvm.return
// CHECK-NEXT: }
// CHECK-LABEL: tsr_target.launch @k3 at 3 steps [3] inputs [0] outputs [] dims [] strides {{\[}}[]] tasks [-9] unit [] grain 1 scratch []
tsr_tile.kernel @k3 at 3 steps [3] inputs [0] outputs [] dims [] strides [[]] tasks [-9] unit [] grain 1 scratch []
    (%in0: !llvm.ptr, %scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %in0[%begin] : f32 -> f32
  %1 = tsr_tile.map "exp_f32"(%0) : (f32) -> f32
  %2 = tsr_tile.splat %1 : f32 -> vector<8xf32>
  %3 = tsr_tile.map "exp_f32"(%2) : (vector<8xf32>) -> vector<8xf32>
  %4 = tsr_tile.map "exp_f32"(%3) : (vector<8xf32>) -> vector<8xf32>
  %5 = tsr_tile.widen %4 : vector<8xf32> -> vector<8xf64>
  %6 = tsr_tile.reduce "add_f64" %5 : vector<8xf64> -> f64
}
