// Which products of bf16 are multiplied as words: by the model where the target has bfmmla, and as a schedule says.
// RUN: tessera-opt %s --split-input-file --tsr-fuse --lanes=64 --bf16=avx512 | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: tessera-opt %s --split-input-file --tsr-fuse --lanes=16 --bf16=neon | FileCheck %s --check-prefixes=CHECK,ARM
// RUN: tessera-opt %s --split-input-file --tsr-fuse --lanes=64 | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: tessera-opt %s --split-input-file --tsr-fuse --lanes=64 --schedule=*:words=1 | FileCheck %s --check-prefixes=CHECK,X86
// RUN: tessera-opt %s --split-input-file --tsr-fuse --lanes=64 --bf16=avx512 --schedule=*:words=1 | FileCheck %s --check-prefixes=CHECK,X86
// With a matrix, on Arm: tier 1 has the same instruction, and which is faster is not known.
// RUN: tessera-opt %s --split-input-file --tsr-fuse --lanes=16 --bf16=neon --library-bf16 | FileCheck %s --check-prefixes=CHECK,LIBRARY

// CHECK-LABEL: tsr_graph.trace "weights"
// X86: product = {{.*}}words = 1
// ARM: product = {{.*}}words = 2
// NONE-NOT: words
// LIBRARY-NOT: product
// CHECK: }
!a = tensor<64x33xbf16>
tsr_graph.trace "weights" values [0, 1] strides [[], []] (%v0: !a, %v1: tensor<33x48xbf16>) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!a, tensor<33x48xbf16>) -> tensor<64x48xbf16>
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (tensor<64x48xbf16>) -> tensor<64x48xbf16>
}

// -----
// Other dtypes, and factors of two, are widened, whatever a schedule says of all products.
// CHECK-LABEL: tsr_graph.trace "others"
// CHECK: product
// CHECK-NOT: words
// CHECK: product
// CHECK-NOT: words
// CHECK: }
!h = tensor<64x33xf16>
!y = tensor<64x48xf16>
tsr_graph.trace "others" values [0, 1, 2] strides [[], [], []] (%v0: !h, %v1: tensor<33x48xf16>, %v2: tensor<48x40xbf16>) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] : (!h, tensor<33x48xf16>) -> !y
  %v4 = tsr_graph.matmul %v3, %v2 step 1 values [4] until [end] : (!y, tensor<48x40xbf16>) -> tensor<64x40xf32>
}

// -----
// A product of f32 whose factors were bf16 before casts is computed as it was written, though they are read as bf16.
// CHECK-LABEL: tsr_graph.trace "casts"
// CHECK: product
// CHECK-NOT: words
// CHECK: tsr_graph.matmul {{.*}} : (tensor<64x33xbf16>, tensor<33x48xbf16>) -> tensor<64x48xf32>
!b = tensor<64x33xbf16>
!f = tensor<64x33xf32>
tsr_graph.trace "casts" values [0, 1] strides [[], []] (%v0: !b, %v1: tensor<33x48xbf16>) {
  %v2 = tsr_graph.cast %v0 step 0 values [2] until [2] {dtype = f32} : (!b) -> !f
  %v3 = tsr_graph.cast %v1 step 1 values [3] until [2] {dtype = f32} : (tensor<33x48xbf16>) -> tensor<33x48xf32>
  %v4 = tsr_graph.matmul %v2, %v3 step 2 values [4] until [3] : (!f, tensor<33x48xf32>) -> tensor<64x48xf32>
  %v5 = tsr_graph.relu %v4 step 3 values [5] until [end] : (tensor<64x48xf32>) -> tensor<64x48xf32>
}

// -----
// Nor are factors of kernels that need whole rows, such as scores of attention.
// CHECK-LABEL: tsr_graph.trace "scores"
// CHECK: product
// CHECK-NOT: words
// CHECK: }
!q = tensor<2x64x32xbf16>
!s = tensor<2x64x64xbf16>
tsr_graph.trace "scores" values [0, 1] strides [[], []] (%v0: !q, %v1: !q) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_b = true} : (!q, !q) -> !s
  %v3 = tsr_graph.softmax %v2 step 1 values [3] until [end] {axis = -1 : i64} : (!s) -> !s
}
