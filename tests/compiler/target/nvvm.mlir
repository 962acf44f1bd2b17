// tsr-lower-to-nvvm: parameters, places and the plan
// RUN: tessera-opt %s --target=sm_90 --stage=target | FileCheck %s
// RUN: tessera-opt %s --target=sm_90 --stage=asm | FileCheck %s --check-prefix=PTX
// RUN: not tessera-opt %s --target=sm_35 --stage=asm 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: not for sm_35

// CHECK: llvm.mlir.global internal @k1_shared() {{.*}}addr_space = 3
// Two views, two dims and the number of tasks.
// CHECK: llvm.func ptx_kernelcc @k1(%arg0: i64, %arg1: i64, %arg2: i64, %arg3: i64, %arg4: i64)
// CHECK-SAME: ["nvvm.maxntid", "512"]
// One branch, if no view is a slot.
// CHECK: %[[ANY:.*]] = llvm.or %arg0, %arg1 : i64
// CHECK: %[[IS:.*]] = llvm.icmp "slt" %[[ANY]]
// CHECK: llvm.cond_br %[[IS]], ^{{.*}}, ^{{.*}}(%arg0, %arg1 : i64, i64)
// CHECK: llvm.icmp "slt" %arg0
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> i64
// CHECK: llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.i32"
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK: tsr_target.launch @k1 at 1 steps [0, 1] inputs [0] outputs [2] dims {{\[}}[0, 0], [0, 1]] strides {{\[}}[], []] tasks [0] unit [1] grain 32768 scratch [] team [512, 1, 0, 0]

// PTX: .target sm_90
// PTX: .visible .entry k1(
// PTX: .maxntid 512
// PTX: .minnctapersm 2
// An address in bit 63's place is followed.
// PTX: setp.{{[a-z]+}}.s64
// PTX: and.b64 {{.*}} 9223372036854775807
// PTX: ld.global.b64
// PTX-COUNT-4: ld.global.v4.b32
// PTX: max.NaN.f32
// PTX: shfl.sync.bfly.b32
// PTX: st.shared.b32
// PTX: bar{{(rier)?(.cta)?}}.sync
// PTX: ld.shared.b32
// Nothing is contracted but what says so.
// PTX: sub.rn.f32
// PTX: fma.rn.f32
// PTX: st.global.v4.b32
// PTX-NOT: {{mul|add|sub}}.f32
!t = tensor<?x?xf32, [0, 1]>
tsr_graph.trace "function" values [0] strides [[]] likely [16384, 8192] (%v0: !t) {
  %v1 = tsr_graph.neg %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.softmax %v1 step 1 values [2] until [end] {axis = -1 : i64} : (!t) -> !t
}
