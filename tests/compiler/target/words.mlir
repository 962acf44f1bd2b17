// Words of bf16: taken apart, and by the instructions of both architectures.
// RUN: tessera-opt %s --tsr-lower-to-llvm | FileCheck %s --check-prefixes=CHECK,APART
// RUN: tessera-opt %s --tsr-lower-to-llvm --bf16=avx512 | FileCheck %s --check-prefixes=CHECK,X86
// RUN: tessera-opt %s --tsr-lower-to-llvm --bf16=neon | FileCheck %s --check-prefixes=CHECK,ARM

tsr_tile.kernel @k0 at 0 steps [] inputs [0] outputs [1] dims [] strides [[], []] tasks [] unit [] grain 1 scratch []
    (%in0: !llvm.ptr, %out0: !llvm.ptr, %scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  // The offset is in elements.
  // CHECK: %[[AT:.*]] = llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, i16
  // CHECK: %[[A:.*]] = llvm.load %[[AT]] {alignment = 2 : i64} : !llvm.ptr -> vector<4xi32>
  %a = tsr_tile.load %in0[%begin] : bf16 -> vector<4xi32>
  %x = tsr_tile.load %in0[%begin] : f32 -> vector<4xf32>
  // CHECK: %[[X:.*]] = llvm.bitcast %{{.*}} : vector<4xf32> to vector<4xi32>
  // CHECK: %[[LOW:.*]] = llvm.lshr %[[X]], %{{.*}} : vector<4xi32>
  // CHECK: %[[HIGH:.*]] = llvm.and %{{.*}}, %{{.*}} : vector<4xi32>
  // CHECK: %[[B:.*]] = llvm.or %[[LOW]], %[[HIGH]] : vector<4xi32>
  %b = tsr_tile.words %x, %x : vector<4xf32> -> vector<4xi32>
  // APART: llvm.shl %[[A]]
  // APART: llvm.shl %[[B]]
  // APART: llvm.intr.fma
  // APART: llvm.and %[[A]]
  // APART: llvm.and %[[B]]
  // APART: llvm.intr.fma
  // X86: llvm.bitcast %[[A]] : vector<4xi32> to vector<8xbf16>
  // X86: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.128"({{.*}}) : (vector<4xf32>, vector<8xbf16>, vector<8xbf16>) -> vector<4xf32>
  // ARM: llvm.call_intrinsic "llvm.aarch64.neon.bfdot.v4f32.v8bf16"({{.*}}) : (vector<4xf32>, vector<8xbf16>, vector<8xbf16>) -> vector<4xf32>
  %c = tsr_tile.multiply_words %a, %b, %x : vector<4xi32>, vector<4xf32>
  // Rows and columns of squares: x86 has nothing for them.
  // APART-COUNT-2: llvm.shufflevector
  // APART-COUNT-2: llvm.intr.fma
  // APART-COUNT-2: llvm.shufflevector
  // APART-COUNT-2: llvm.intr.fma
  // X86-COUNT-4: llvm.intr.fma
  // ARM: llvm.call_intrinsic "llvm.aarch64.neon.bfmmla"({{.*}}) : (vector<4xf32>, vector<8xbf16>, vector<8xbf16>) -> vector<4xf32>
  %d = tsr_tile.multiply_words %a, %b, %c pairs : vector<4xi32>, vector<4xf32>
  tsr_tile.store %d, %out0[%begin] : vector<4xf32> -> f32
  // Wider vectors: one instruction, where there is one of that width.
  %w = tsr_tile.load %in0[%begin] : bf16 -> i32
  %e = tsr_tile.splat %w : i32 -> vector<16xi32>
  %y = tsr_tile.load %in0[%begin] : f32 -> vector<16xf32>
  // APART-COUNT-2: llvm.intr.fma
  // X86: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"({{.*}}) : (vector<16xf32>, vector<32xbf16>, vector<32xbf16>) -> vector<16xf32>
  // ARM-COUNT-2: llvm.intr.fma
  %f = tsr_tile.multiply_words %e, %e, %y : vector<16xi32>, vector<16xf32>
  tsr_tile.store %f, %out0[%begin] : vector<16xf32> -> f32
}
