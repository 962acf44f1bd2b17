// Kernels that would be the same share a function, and that has a form which runs many of them in one launch.
// RUN: tessera-opt %s --target=sm_90 --stage=target --tier=3 | FileCheck %s
// RUN: tessera-opt %s --target=sm_90 --stage=asm --tier=3 | FileCheck %s --check-prefix=PTX
// RUN: tessera-opt %s --stage=target --tier=3 | FileCheck %s --check-prefix=HOST

// Three words for each kernel and one more for where its blocks begin: 127 of them are nearly 4 KiB.
// CHECK: llvm.func ptx_kernelcc @k1_many(%arg0: !llvm.ptr {llvm.align = 8 : i64, llvm.byval = !llvm.array<509 x i64>})
// CHECK-SAME: ["nvvm.maxntid", "[[THREADS:[0-9]+]]"]
// CHECK: llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.ctaid.x"
// Seven steps of a search.
// CHECK-COUNT-7: llvm.intr.umin
// CHECK: llvm.func ptx_kernelcc @k1(%arg0: i64, %arg1: i64, %arg2: i64)
// CHECK-SAME: ["nvvm.maxntid", "[[THREADS]]"]
// CHECK: tsr_target.launch @k1 at 1 {{.*}} many 127
// CHECK: tsr_target.launch @k3 at 3 {{.*}} code @k1 many 127
// Alone of its kind.
// CHECK-NOT: @k5_many
// CHECK: llvm.func ptx_kernelcc @k5(
// CHECK: tsr_target.launch @k5 at 5
// CHECK-NOT: many

// Parameters are read where they are, not copied to the stack first.
// PTX: .visible .entry k1_many(
// PTX-NEXT: .param .align 8 .b8 k1_many_param_0[4072]
// PTX-NOT: .local
// PTX: ld.param.b64 {{.*}}, [%rd
// PTX-NOT: .local
// PTX: .visible .entry k1(

// HOST-NOT: many
!a = tensor<1000xf32>
!b = tensor<999xf32>
tsr_graph.trace "eager" values [0, 3, 6] strides [[], [], []] (%v0: !a, %v3: !a, %v6: !b) {
  %v1 = tsr_graph.square %v0 step 0 values [1] until [1] : (!a) -> !a
  %v2 = tsr_graph.neg %v1 step 1 values [2] until [end] : (!a) -> !a
  %v4 = tsr_graph.square %v3 step 2 values [4] until [3] : (!a) -> !a
  %v5 = tsr_graph.neg %v4 step 3 values [5] until [end] : (!a) -> !a
  %v7 = tsr_graph.square %v6 step 4 values [7] until [5] : (!b) -> !b
  %v8 = tsr_graph.neg %v7 step 5 values [8] until [end] : (!b) -> !b
}
