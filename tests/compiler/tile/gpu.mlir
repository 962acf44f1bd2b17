// tsr-lower-kernels-gpu: how rows are shared among threads, and what is left to tier 1
// RUN: tessera-opt %s --split-input-file --target=sm_90 --tsr-fuse --tsr-decompose --cse --tsr-lower-kernels-gpu --canonicalize --cse | FileCheck %s

// Vectors of 8, two of each operand in flight, each operand's before anything is stored. One scalar loop for what is
// not aligned.
// CHECK-LABEL: tsr_tile.kernel @k1 at 1
// CHECK-SAME: dims [] strides {{\[}}[], [], []] tasks [-65, -8193] unit [] grain 32768 scratch [] team [256, 4096, 4, 0]
// CHECK: %[[IN:.*]] = llvm.ptrtoint %in0
// CHECK: tsr_tile.place "block"
// CHECK: scf.for
// CHECK: scf.if
// CHECK-COUNT-4: tsr_tile.load {{.*}} aligned : bf16 -> vector<8xf32>
// CHECK-NOT: tsr_tile.load
// CHECK: tsr_tile.map "add_f32_narrow"
// CHECK: tsr_tile.map "exp_f32_narrow"
// CHECK: tsr_tile.store {{.*}} aligned : vector<8xf32> -> bf16
// CHECK: tsr_tile.map "add_f32_narrow"
// CHECK: tsr_tile.store {{.*}} aligned : vector<8xf32> -> bf16
// CHECK: scf.for
// CHECK: tsr_tile.load %in0[{{.*}}] : bf16 -> f32
// CHECK: tsr_tile.store {{.*}} : f32 -> bf16
!t = tensor<64x8192xbf16>
!r = tensor<8192xbf16>
tsr_graph.trace "elements" values [0, 1] strides [[], []] (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [1] : (!t, !r) -> !t
  %v3 = tsr_graph.exp %v2 step 1 values [3] until [end] : (!t) -> !t
}

// -----

// A row of 1024 is a warp's, in registers: it is read once. Nobody but the first thread stores the number.
// CHECK-LABEL: tsr_tile.kernel @k0
// CHECK-SAME: tasks [-1001] unit [-1025] {{.*}} team [256, 8, 3, 0]
// CHECK-COUNT-8: tsr_tile.load {{.*}} aligned : f32 -> vector<4xf32>
// CHECK-NOT: tsr_tile.load
// CHECK-COUNT-7: arith.addf {{.*}} : vector<4xf32>
// CHECK: tsr_tile.reduce "add_f32"
// CHECK: tsr_tile.team_reduce "add_f32" {{.*}} threads 32 {{.*}} slot 0 : f32
// CHECK: scf.if
// CHECK: tsr_tile.store
// Rows that are not aligned: sums of f32 for eight steps, then f64.
// CHECK: } else {
// CHECK: tsr_tile.widen
// CHECK: tsr_tile.team_reduce "add_f64" {{.*}} threads 32
!t = tensor<1000x1024xf32>
!r = tensor<1000x1xf32>
tsr_graph.trace "warps" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.sum %v0 step 0 values [1] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !r
}

// -----

// A block for each row, cut for the size that was seen; vectors beyond the end of a row are loaded again, and count for
// nothing. One slot: a barrier before it is used for the next row.
// CHECK-LABEL: tsr_tile.kernel @k0
// CHECK-SAME: plus 256 team [512, 1, 2, 0]
// CHECK: arith.cmpi ule, {{.*}} %c8192_i64
// CHECK: arith.minui
// CHECK-COUNT-4: tsr_tile.load {{.*}} aligned : f32 -> vector<4xf32>
// CHECK: arith.select {{.*}} : vector<4xf32>
// CHECK: tsr_tile.team_reduce "maximum_f32" {{.*}} threads 512
// CHECK: tsr_tile.barrier
!t = tensor<?x?xf32, [0, 1]>
!r = tensor<?x1xf32, [0, -1]>
tsr_graph.trace "block" values [0] strides [[]] likely [16384, 8192] (%v0: !t) {
  %v1 = tsr_graph.max %v0 step 0 values [1] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !r
}

// -----

// A product is the library's, and so is a sum of everything, for which one block would not do.
// CHECK-NOT: tsr_tile.kernel
!t = tensor<16384x8192xf32>
!r = tensor<1x1xf32>
tsr_graph.trace "left" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [end] {transpose_b = true} : (!t, !t) -> tensor<16384x16384xf32>
  %v3 = tsr_graph.sum %v0 step 1 values [3] until [end] {axes = array<i64: 0, 1>, keepdims = true} : (!t) -> !r
}

// -----

// Operands that only the result needs come during the last reduction, and one vector ahead of their use. A sum of
// squares takes the products in unrounded. A block has one row, and no loop.
// CHECK-LABEL: tsr_tile.kernel @k0
// CHECK-SAME: team [512, 1, 2, 0]
// CHECK: scf.if
// CHECK-NOT: scf.for
// CHECK-COUNT-4: tsr_tile.load %in0{{.*}} aligned : f32 -> vector<4xf32>
// CHECK-COUNT-3: tsr_tile.fma
// CHECK: tsr_tile.load %in1{{.*}} aligned
// CHECK: tsr_tile.team_reduce "add_f32"
// CHECK: tsr_tile.load %in1{{.*}} aligned
// CHECK: tsr_tile.store {{.*}} aligned
!t = tensor<16384x8192xf32>
!r = tensor<8192xf32>
tsr_graph.trace "early" values [0, 1] strides [[], []] (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.rms_norm %v0, %v1 step 0 values [2] until [end] {dims = 1 : i64, eps = 1.0e-06 : f64} : (!t, !r) -> !t
}

// -----

// Much arithmetic for many elements: a block has two rows of a column of 1024 elements at once, and reads the weights
// for both. There is so much that it goes on for two steps. With 16384 rows there is no odd one.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK-SAME: team [256, 4096, 5, 0]
// CHECK: scf.for
// CHECK: tsr_tile.load %in1{{.*}} aligned : f32 -> vector<4xf32>
// CHECK-COUNT-2: tsr_tile.load %in0{{.*}} aligned : f32 -> vector<4xf32>
// CHECK-NOT: tsr_tile.load
// CHECK-NOT: arith.minui
// CHECK-COUNT-2: tsr_tile.store {{.*}} aligned : vector<4xf32> -> f32
// CHECK: scf.if
// CHECK: tsr_tile.load %in0[{{.*}}] : f32 -> f32
!t = tensor<16384x8192xf32>
!r = tensor<8192xf32>
tsr_graph.trace "columns" values [0, 1] strides [[], []] (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [1] : (!t, !r) -> !t
  %v3 = tsr_graph.gelu %v2 step 1 values [3] until [end] : (!t) -> !t
}

// -----

// Of narrow elements there are more for the same bytes. Blocks stay: each has a column of 2048 elements, whose weights it
// keeps as it computes with them, and takes two rows at a time; the next two are on their way while it computes.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK-SAME: team [256, 2048, 4, 8192]
// CHECK: scf.for
// CHECK: tsr_tile.load %in1{{.*}} aligned : bf16 -> vector<8xf32>
// CHECK: scf.if
// CHECK-COUNT-2: tsr_tile.fetch %in0[{{.*}}] to {{.*}} lanes 8 : bf16
// CHECK: scf.for
// CHECK: tsr_tile.await
// CHECK-NOT: tsr_tile.load
// CHECK-COUNT-2: tsr_tile.fetched {{.*}} : bf16 -> vector<8xf32>
// CHECK-NOT: arith.minui
// CHECK: scf.if
// CHECK-COUNT-2: tsr_tile.fetch %in0
// CHECK-COUNT-2: tsr_tile.store {{.*}} aligned : vector<8xf32> -> bf16
!t = tensor<16384x8192xbf16>
!r = tensor<8192xbf16>
tsr_graph.trace "ahead" values [0, 1] strides [[], []] (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [1] : (!t, !r) -> !t
  %v3 = tsr_graph.gelu %v2 step 1 values [3] until [end] : (!t) -> !t
}

// -----

// One row of a length that is not known: the last pieces may be missing. Others are fetched in their place, and are
// not stored.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK-SAME: team [256, 2048, 4, 8192]
// CHECK: tsr_tile.await
// CHECK: arith.cmpi ult
// CHECK: arith.minui
// CHECK: tsr_tile.store {{.*}} aligned if {{.*}} : vector<8xf32> -> bf16
!t = tensor<?x1024xbf16, [0, -1]>
tsr_graph.trace "ahead_of_some" values [0] strides [[]] likely [65536] (%v0: !t) {
  %v1 = tsr_graph.silu %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.add %v1, %v0 step 1 values [2] until [end] : (!t, !t) -> !t
}
