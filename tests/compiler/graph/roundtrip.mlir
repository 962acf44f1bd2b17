// The generic form, which the core writes, and the assembly that is shown are the same ops.
// RUN: tessera-opt %s --verify-roundtrip | FileCheck %s
// RUN: tessera-opt --stage=graph < %s | FileCheck %s
// RUN: tessera-opt %s | tessera-opt --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// CHECK-LABEL: tsr_graph.trace "function" values [0, 1, 7] strides {{\[}}[], [-1, 1], []]
// CHECK-SAME: (%v0: tensor<?x16xf32, [0, -1]>, %v1: tensor<?x16xf32, [0, -1]>, %v7: tensor<f32>) {
// CHECK-NEXT: %[[CAST:.*]] = tsr_graph.cast %v7 : (tensor<f32>) -> tensor<f64>
// CHECK-NEXT: %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [3] :
// CHECK-SAME: (tensor<?x16xf32, [0, -1]>, tensor<?x16xf32, [0, -1]>) -> tensor<?x16xf32, [0, -1]>
// CHECK-NEXT: %v3 = tsr_graph.sum %v2 step 1 values [3] until [end] {axes = array<i64: 1>, keepdims = true} :
// CHECK-NEXT: tsr_graph.step "branch" %v3 step 2 values [] until [] : (tensor<?x1xf32, [0, -1]>) -> ()
// CHECK-NEXT: %v4, %v5 = tsr_graph.split %v2 step 3 values [4, 5] until [3, end]
// CHECK-NEXT: tsr_graph.number 5.000000e-01 : tensor<f32>
// CHECK-NEXT: tsr_graph.reduce "max" %v2 rank 1 : tensor<?x16xf32, [0, -1]> -> tensor<?x1xf32, [0, -1]>
// CHECK-NEXT: tsr_graph.reduce "mean" %v2 rank 1 correction 1.000000e+00 :

// GENERIC: <{strides = [array<i64>, array<i64: -1, 1>, array<i64>], sym_name = "function", values = array<i32: 0, 1, 7>}>
// GENERIC: "tsr_graph.sum"({{.*}}) <{axes = array<i64: 1>, keepdims = true, step = 1 : i32, until = array<i32: 2147483647>, values = array<i32: 3>}>
// GENERIC: "tsr_graph.step"({{.*}}) <{kind = "branch", step = 2 : i32, until = array<i32>, values = array<i32>}>
"tsr_graph.trace"() ({
^bb0(%v0: tensor<?x16xf32, [0, -1]>, %v1: tensor<?x16xf32, [0, -1]>, %v7: tensor<f32>):
  %c0 = "tsr_graph.cast"(%v7) : (tensor<f32>) -> tensor<f64>
  %v2 = "tsr_graph.add"(%v0, %v1) {step = 0 : i32, values = array<i32: 2>, until = array<i32: 3>}
      : (tensor<?x16xf32, [0, -1]>, tensor<?x16xf32, [0, -1]>) -> (tensor<?x16xf32, [0, -1]>)
  %v3 = "tsr_graph.sum"(%v2) {step = 1 : i32, values = array<i32: 3>, until = array<i32: 2147483647>,
      axes = array<i64: 1>, keepdims = true} : (tensor<?x16xf32, [0, -1]>) -> (tensor<?x1xf32, [0, -1]>)
  "tsr_graph.step"(%v3) {step = 2 : i32, values = array<i32>, until = array<i32>, kind = "branch"}
      : (tensor<?x1xf32, [0, -1]>) -> ()
  %v4, %v5 = "tsr_graph.split"(%v2) {step = 3 : i32, values = array<i32: 4, 5>, until = array<i32: 3, 2147483647>}
      : (tensor<?x16xf32, [0, -1]>) -> (tensor<?x8xf32, [0, -1]>, tensor<?x8xf32, [0, -1]>)
  %n = "tsr_graph.number"() {value = 0.5} : () -> tensor<f32>
  %m = "tsr_graph.reduce"(%v2) {kind = "max", rank = 1 : i64}
      : (tensor<?x16xf32, [0, -1]>) -> tensor<?x1xf32, [0, -1]>
  %u = "tsr_graph.reduce"(%v2) {kind = "mean", rank = 1 : i64, correction = 1.0}
      : (tensor<?x16xf32, [0, -1]>) -> tensor<?x1xf32, [0, -1]>
}) {sym_name = "function", values = array<i32: 0, 1, 7>, strides = [array<i64>, array<i64: -1, 1>, array<i64>]}
  : () -> ()
