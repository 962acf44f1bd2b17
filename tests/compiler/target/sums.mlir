// The sums of tensor cores are values of their own in LLVM IR, also around the loop that adds to them. No vector of all of
// them is left.
// RUN: tessera-opt %s --tier=3 --target=sm_90a "--schedule=*:rows=128,columns=128,stages=6,apart=1,cluster=2" --stage=llvm | FileCheck %s

// CHECK-LABEL: define ptx_kernel void @k1
// CHECK-NOT: <128 x float>
// CHECK: phi float
// CHECK-NOT: <128 x float>
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK-NOT: <128 x float>
// CHECK: stmatrix
// CHECK-NOT: <128 x float>
// CHECK: ret void
!t = tensor<512x512xbf16>
tsr_graph.trace "sums" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!t, !t) -> !t
  %v3 = tsr_graph.silu %v2 step 1 values [3] until [end] : (!t) -> !t
}
