// A product of bf16 with what follows it in assembly of both architectures, whichever this machine has: sums stay in
// registers between instructions that multiply. (The compiler, too, leaves llc's schedulers out: see codegen.cc.)
// RUN: tessera-opt %s --stage=llvm --tier=3 --lanes=64 --bf16=avx512 --schedule=*:words=1 | llc -mtriple=x86_64 -mattr=+avx512f,+avx512bw,+avx512vl,+avx512bf16 | FileCheck %s --check-prefix=X86
// RUN: tessera-opt %s --stage=llvm --tier=3 --lanes=16 --bf16=neon | llc -mtriple=aarch64 -mattr=+bf16 -enable-misched=false -enable-post-misched=false | FileCheck %s --check-prefix=ARM
// RUN: tessera-opt %s --stage=llvm --tier=3 --lanes=16 --bf16=neon --schedule=*:words=1 | llc -mtriple=aarch64 -mattr=+bf16 | FileCheck %s --check-prefix=DOT
// RUN: tessera-opt %s --stage=llvm --tier=3 --lanes=16 | llc -mtriple=aarch64 | FileCheck %s --check-prefix=NONE

// X86-LABEL: k1:
// X86: vdpbf16ps
// X86-NOT: (%rsp), %zmm
// X86-NOT: %zmm{{[0-9]+}}, {{.*}}(%rsp)
// X86-COUNT-46: vdpbf16ps
// X86: ret
// ARM-LABEL: k1:
// ARM: bfmmla
// ARM-NOT: {{(ldr|str)}} q{{.*}}[sp
// ARM-COUNT-23: bfmmla
// ARM: ret
// DOT-LABEL: k1:
// DOT: bfdot
// NONE-LABEL: k1:
// NONE-NOT: bfmmla
// NONE-NOT: bfdot
// NONE: fmla
tsr_graph.trace "f" values [0, 1] strides [[], []] (%v0: tensor<64x512xbf16>, %v1: tensor<512x256xbf16>) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (tensor<64x512xbf16>, tensor<512x256xbf16>) -> tensor<64x256xbf16>
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (tensor<64x256xbf16>) -> tensor<64x256xbf16>
}
