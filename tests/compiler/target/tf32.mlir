// Instructions of products in tf32: eight elements of the sum at a time; where each warp multiplies for itself, it rounds
// what it loads, and elsewhere the copy did.
// RUN: tessera-opt %s --tier=3 --target=sm_90a --tf32 --schedule='*:rows=128,columns=128,stages=4,apart=1,cluster=2' --stage=asm | FileCheck %s
// RUN: tessera-opt %s --tier=3 --target=sm_80 --tf32 --stage=asm | FileCheck %s --check-prefix=WARPS
// RUN: tessera-opt %s --tier=3 --target=sm_90a --tf32 --stage=target | FileCheck %s --check-prefix=LAUNCH

// CHECK-NOT: cvt.rna.tf32
// CHECK-COUNT-8: wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {{.*}}, p, 1, 1;
// CHECK: st.shared.v2.f32 [a+0]
// CHECK: st.shared.v2.f32 [a+1024]
// CHECK-NOT: stmatrix
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta
// WARPS: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// WARPS-COUNT-4: cvt.rna.tf32.f32 l
// WARPS: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// WARPS-COUNT-4: cvt.rna.tf32.f32 r
// WARPS: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
// LAUNCH: tsr_target.launch @k1
// LAUNCH-SAME: maps {{\[}}[0, 1, 32, 0, 128, -1], [1, 1, 32, 0, {{[0-9]+}}, -1], [2, 1, 32, 0, 16]]
!t = tensor<512x512xf32>
tsr_graph.trace "sums" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_b = true} : (!t, !t) -> !t
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!t) -> !t
}
