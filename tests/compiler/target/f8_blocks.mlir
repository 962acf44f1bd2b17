// Scales for blocks of f8: sums of a piece are multiplied with them and added to the others in one instruction
// RUN: tessera-opt %s --tier=3 --target=sm_90a --stage=asm | FileCheck %s
// RUN: tessera-opt %s --tier=3 --target=sm_90a --stage=cuda --schedule=*:source=1 | FileCheck %s --check-prefix=CUDA

// The end of the loop stands before its beginning here.
// CHECK: fma.rn.f32 [[A:%r[0-9]+]], {{%r[0-9]+}}, [[U:%r[0-9]+]], [[A]];
// CHECK-NEXT: fma.rn.f32 [[B:%r[0-9]+]], {{%r[0-9]+}}, [[U]], [[B]];
// CHECK-NEXT: fma.rn.f32 [[C:%r[0-9]+]], {{%r[0-9]+}}, [[L:%r[0-9]+]], [[C]];
// CHECK: wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3
// CHECK: ld.global.b32 [[U]]
// CHECK-NEXT: ld.global.b32 [[L]]
// CHECK: wgmma.wait_group.sync.aligned 0
// CUDA: wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3
// CUDA: __fmaf_rn
!x8 = tensor<512x256xf8E4M3FN>
!b = tensor<512x2x128xf32>
!s = tensor<512x2x1xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !x8, %v1: !x8, %v2: !s) {
  %v3 = tsr_graph.reshape %v0 step 0 values [3] until [1] {"tsr.strides" = array<i64>} : (!x8) -> tensor<512x2x128xf8E4M3FN>
  %v4 = tsr_graph.cast %v3 step 1 values [4] until [2] {dtype = "f32"} : (tensor<512x2x128xf8E4M3FN>) -> !b
  %v5 = tsr_graph.mul %v2, %v4 step 2 values [5] until [4] : (!s, !b) -> !b
  %v6 = tsr_graph.reshape %v5 step 3 values [6] until [4] {"tsr.strides" = array<i64>} : (!b) -> tensor<512x256xf32>
  %v7 = tsr_graph.cast %v6 step 4 values [7] until [6] {dtype = "bf16"} : (tensor<512x256xf32>) -> tensor<512x256xbf16>
  %v8 = tsr_graph.cast %v1 step 5 values [8] until [6] {dtype = "bf16"} : (!x8) -> tensor<512x256xbf16>
  %v9 = tsr_graph.matmul %v7, %v8 step 6 values [9] until [end] {transpose_b = true} : (tensor<512x256xbf16>, tensor<512x256xbf16>) -> tensor<512x512xbf16>
}
