// tsr-fuse: lanes and grain of the schedule. The widest dtype of a kernel decides.
// RUN: tessera-opt %s --tsr-fuse | FileCheck %s
// RUN: tessera-opt %s --tsr-fuse --lanes=32 --grain=7 | FileCheck %s --check-prefix=WIDE
// RUN: tessera-opt %s --tsr-fuse --lanes=64 | FileCheck %s --check-prefix=WIDEST
// RUN: not tessera-opt %s --tsr-fuse --lanes=12 2>&1 | FileCheck %s --check-prefix=WRONG

// CHECK: tsr_sched.kernel @k1 {{.*}} lanes 16 grain 32768
// CHECK: tsr_sched.kernel @k3 {{.*}} lanes 8 grain 32768
// CHECK: tsr_sched.kernel @k5 {{.*}} lanes 16 grain 32768
// WIDE: tsr_sched.kernel @k1 {{.*}} lanes 32 grain 7
// WIDE: tsr_sched.kernel @k3 {{.*}} lanes 16 grain 7
// WIDE: tsr_sched.kernel @k5 {{.*}} lanes 32 grain 7
// Two registers for each value of a softmax, where those are of 64 bytes.
// CHECK: tsr_sched.kernel @k6 {{.*}} lanes 16
// WIDE: tsr_sched.kernel @k6 {{.*}} lanes 32
// WIDEST: tsr_sched.kernel @k1 {{.*}} lanes 64
// WIDEST: tsr_sched.kernel @k6 {{.*}} lanes 32
// WRONG: tessera-opt: --lanes is a power of two
!r = tensor<16xf32>
!d = tensor<16xf64>
!i = tensor<16xi8>
!m = tensor<8x16xf32>
tsr_graph.trace "t" values [0, 3, 6, 9] strides [[], [], [], []] (%v0: !r, %v3: !d, %v6: !i, %v9: !m) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!r) -> !r
  %v2 = tsr_graph.neg %v1 step 1 values [2] until [end] : (!r) -> !r
  %v4 = tsr_graph.exp %v3 step 2 values [4] until [3] : (!d) -> !d
  %v5 = tsr_graph.neg %v4 step 3 values [5] until [end] : (!d) -> !d
  %v7 = tsr_graph.abs %v6 step 4 values [7] until [5] : (!i) -> !i
  %v8 = tsr_graph.neg %v7 step 5 values [8] until [end] : (!i) -> !i
  %v10 = tsr_graph.softmax %v9 step 6 values [10] until [end] {axis = -1 : i64} : (!m) -> !m
}
