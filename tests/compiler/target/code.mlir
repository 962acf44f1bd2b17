// LLVM IR and assembly: the functions of ops are there, inlined or widened, and nothing is left to be found elsewhere.
// RUN: tessera-opt %s --stage=llvm | FileCheck %s
// RUN: tessera-opt %s --stage=llvm --tier=3 | FileCheck %s
// RUN: tessera-opt %s --stage=asm | FileCheck %s --check-prefix=ASM
// RUN: not tessera-opt %s --stage=binary 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: tessera-opt --list-passes | FileCheck %s --check-prefix=PASSES

// CHECK: define {{.*}}void @k1(ptr
// CHECK: <16 x float>
// CHECK-NOT: declare {{.*}}@tsr_exp
// ASM: {{^}}k1:
// ASM: ret
// STAGE: Cannot find option named 'binary'
// PASSES-DAG: --tsr-fuse
// PASSES-DAG: --tsr-decompose
// PASSES-DAG: --tsr-lower-kernels
// PASSES-DAG: --tsr-lower-to-llvm
// PASSES-DAG: --canonicalize
// PASSES-DAG: --cse
// PASSES-DAG: --symbol-dce
// PASSES-DAG: --convert-scf-to-cf
// PASSES-DAG: --convert-arith-to-llvm
// PASSES-DAG: --convert-cf-to-llvm
// PASSES-DAG: --reconcile-unrealized-casts
!t = tensor<8x16xf32>
tsr_graph.trace "function" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.neg %v1 step 1 values [2] until [end] : (!t) -> !t
}
