// tsr-lower-kernels-gpu: matrix products on devices other than sm_90a, where each warp multiplies for itself
// RUN: tessera-opt %s --tier=3 --target=sm_80 --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --tier=3 --target=sm_90a --schedule=*:form=tensor,rows=256,columns=128,stages=3,apart=0,cluster=0,warps=1 --tsr-fuse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s --check-prefix=LARGE

// All threads copy, two pieces ahead; what lies beyond the factors is zero. No piece is overwritten before everybody
// has used it.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK-SAME: blocks [1, 128, 128]
// CHECK-SAME: team [256, 1, 1, {{[0-9]+}}] aligned [0, 1, 2]
// CHECK-COUNT-4: tsr_tile.fetch %in0{{.*}} lanes 8 if %{{.*}} : f16
// CHECK-COUNT-4: tsr_tile.fetch %in1{{.*}} lanes 8 if %{{.*}} : f16
// CHECK: tsr_tile.commit
// CHECK-COUNT-8: tsr_tile.fetch
// CHECK: tsr_tile.commit
// CHECK: scf.for
// CHECK: tsr_tile.await pending 1
// CHECK-NEXT: tsr_tile.barrier
// CHECK-COUNT-8: tsr_tile.fetch
// CHECK: tsr_tile.commit
// CHECK: tsr_tile.multiply {{.*}} rows 64 columns 128 depth 64 left_across by_warps : f16, vector<64xf32>
// CHECK-NOT: tsr_tile.multiplied
// CHECK: tsr_tile.await{{$}}
// CHECK-NEXT: tsr_tile.barrier
// CHECK: tsr_tile.collect
// LARGE-LABEL: tsr_tile.kernel @k1
// LARGE-SAME: blocks [1, 256, 128]
// LARGE-NOT: maps
// LARGE: tsr_tile.multiply {{.*}} rows 128 columns 128 depth 64 left_across by_warps : f16, vector<128xf32>
!a = tensor<8x512x4096xf16>
!b = tensor<8x4096x512xf16>
!y = tensor<8x4096x4096xf16>
tsr_graph.trace "batched" values [0, 1] strides [[], []] (%v0: !a, %v1: !b) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_a = true, transpose_b = true} : (!a, !b) -> !y
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!y) -> !y
}
