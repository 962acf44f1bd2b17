// Stores past the caches are instructions of their own, and a fence ends the kernel: they are in no order with others.
// RUN: tessera-opt %s --stage=llvm --tier=3 --lanes=64 | llc -mtriple=x86_64 -mattr=+avx512f,+avx512vl | FileCheck %s
// RUN: tessera-opt %s --stage=llvm --tier=3 --lanes=32 | llc -mtriple=x86_64 -mattr=+avx2 | FileCheck %s --check-prefix=AVX2

// CHECK-LABEL: k1:
// CHECK-COUNT-4: vmovntps %zmm
// CHECK-NOT: vmovnt
// CHECK: sfence
// CHECK-NOT: {{%[xyz]mm}}
// CHECK: retq

// AVX2-LABEL: k1:
// AVX2-COUNT-4: vmovntps %ymm
// AVX2-NOT: vmovnt
// AVX2: sfence
// AVX2-NOT: {{%[xyz]mm}}
// AVX2: retq
!t = tensor<4000x4099xf32>
!r = tensor<4099xf32>
tsr_graph.trace "rows" values [0, 1] strides [[], []] (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [1] : (!t, !r) -> !t
  %v3 = tsr_graph.add %v2, %v0 step 1 values [3] until [end] : (!t, !t) -> !t
}
