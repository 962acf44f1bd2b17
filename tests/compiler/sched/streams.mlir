// Results larger than the caches go past them: of element-wise kernels, on x86, as far as sizes are known or were seen.
// RUN: tessera-opt %s --split-input-file --tsr-fuse --lanes=64 | FileCheck %s --check-prefixes=CHECK,X86
// RUN: tessera-opt %s --split-input-file --tsr-fuse --lanes=16 | FileCheck %s --check-prefixes=CHECK,ARM

// 32 MiB.
// CHECK-LABEL: tsr_graph.trace "large"
// X86: tsr_sched.kernel {{.*}} grain 32768 streams (
// ARM: tsr_sched.kernel {{.*}} grain 32768 (
!t = tensor<2048x4096xf32>
tsr_graph.trace "large" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.mul %v1, %v0 step 1 values [2] until [end] : (!t, !t) -> !t
}

// -----
// CHECK-LABEL: tsr_graph.trace "less"
// CHECK-NOT: streams
!t = tensor<2048x4095xf32>
tsr_graph.trace "less" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.mul %v1, %v0 step 1 values [2] until [end] : (!t, !t) -> !t
}

// -----
// CHECK-LABEL: tsr_graph.trace "seen"
// X86: tsr_sched.kernel {{.*}} streams (
!t = tensor<?x4096xbf16, [0, -1]>
tsr_graph.trace "seen" values [0] strides [[]] likely [4096] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.mul %v1, %v0 step 1 values [2] until [end] : (!t, !t) -> !t
}

// -----
// CHECK-LABEL: tsr_graph.trace "unknown"
// CHECK-NOT: streams
!t = tensor<?x4096xbf16, [0, -1]>
tsr_graph.trace "unknown" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.mul %v1, %v0 step 1 values [2] until [end] : (!t, !t) -> !t
}

// -----
// What is written here is read again, or is small.
// CHECK-LABEL: tsr_graph.trace "rows"
// CHECK-NOT: streams
!t = tensor<4096x4096xf32>
tsr_graph.trace "rows" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] {axis = -1 : i64} : (!t) -> !t
}

// -----
// CHECK-LABEL: tsr_graph.trace "sum"
// CHECK-NOT: streams
!t = tensor<4096x4096xf32>
!r = tensor<4096xf32>
tsr_graph.trace "sum" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.sum %v1 step 1 values [2] until [end] {axes = array<i64: 1>, keepdims = false} : (!t) -> !r
}
