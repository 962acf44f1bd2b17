// tsr-lower-to-nvvm: rows of which each block of a cluster has a part
// RUN: tessera-opt %s --target=sm_90 --stage=asm | FileCheck %s
// RUN: tessera-opt %s --target=sm_90 --stage=target | FileCheck %s --check-prefix=LAUNCH

// CHECK: .version 8.1
// CHECK: .visible .entry k0(
// CHECK: .maxntid 256
// CHECK: .reqnctapercluster 4
// CHECK: mbarrier.init.shared::cta.b64 [{{.*}}], 1;
// CHECK: mbarrier.arrive.expect_tx.shared::cta.b64 _, [{{.*}}], 128;
// CHECK: cp.async.cg.shared.global
// Nobody waits for what is on its way to memory.
// CHECK: fence.mbarrier_init.release.cluster;
// CHECK-NEXT: barrier.cluster.arrive.relaxed;
// CHECK-NEXT: barrier.cluster.wait.acquire;
// Each of the 32 warps sends to four blocks, and reads what all have sent to its own.
// CHECK: setp.lt.u32 p, {{.*}}, 4;
// CHECK: mapa.shared::cluster.u32 a
// CHECK: mapa.shared::cluster.u32 s
// CHECK: st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [a], {{.*}}, [s];
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK: ld.shared.b32
// CHECK: shfl.sync.bfly.b32
// CHECK: st.async
// CHECK: mbarrier.try_wait
// CHECK: st.global.v4.b32
// CHECK-NOT: arrive.release
// CHECK-NOT: bar.sync

// A row is a task of four blocks.
// LAUNCH: tsr_target.launch @k0 {{.*}} tasks [-1001] unit [-32769] {{.*}} team [256, 1, 33296, 0, 4]
!t = tensor<1000x32768xf32>
tsr_graph.trace "function" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] : (!t) -> !t
}
