// tsr-lower-kernels: products of bf16 whose elements are multiplied as words
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --tsr-lower-kernels --canonicalize --cse --schedule=*:form=packed,rows=4,columns=8,depth=8,mr=2,nr=4,words=1 | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tsr-fuse --tsr-decompose --tsr-lower-kernels --canonicalize --cse --schedule=*:form=packed,rows=4,columns=8,depth=8,mr=2,nr=4,words=2 | FileCheck %s --check-prefix=PAIRS

// Panels and copies have half the bytes of f32: 128 for two panels, 64 for four rows, 64 for a tile.
// CHECK-LABEL: tsr_tile.kernel @k1 {{.*}} plus 256
// CHECK: %[[COPY:.*]] = llvm.getelementptr %scratch[128]
// Rows of the left factor lie along the sum: their words are as they are in memory. The offset there is in elements.
// CHECK: scf.for %[[ROW:.*]] = %c0_i64 to %c4_i64
// CHECK-NEXT: %[[TO:.*]] = arith.muli %[[ROW]], %c4_i64
// CHECK-NEXT: %[[FROM:.*]] = arith.muli %[[ROW]], %c8_i64
// CHECK-NEXT: %[[WORDS:.*]] = tsr_tile.load %in0[%[[FROM]]] : bf16 -> vector<4xi32>
// CHECK-NEXT: tsr_tile.store %[[WORDS]], %[[COPY]][%[[TO]]] : vector<4xi32> -> i32
// Two rows of the right factor, which run along the columns, become one of words.
// CHECK: %[[LOW:.*]] = tsr_tile.load %in1[%{{.*}}] : bf16 -> vector<4xf32>
// CHECK: %[[HIGH:.*]] = tsr_tile.load %in1[%{{.*}}] : bf16 -> vector<4xf32>
// CHECK-NEXT: %[[PAIR:.*]] = tsr_tile.words %[[LOW]], %[[HIGH]] : vector<4xf32> -> vector<4xi32>
// CHECK-NEXT: tsr_tile.store %[[PAIR]], %scratch[%{{.*}}] : vector<4xi32> -> i32
// Eight elements of the sum are four steps, for each of two rows.
// CHECK: %[[LEFT:.*]] = tsr_tile.load %[[COPY]][%{{.*}}] : i32 -> vector<4xi32>
// CHECK: %[[RIGHT:.*]] = tsr_tile.load %scratch[%{{.*}}] : i32 -> vector<4xi32>
// CHECK-NEXT: %[[WORD:.*]] = tsr_tile.lane %[[LEFT]][0] : vector<4xi32> -> vector<4xi32>
// CHECK-NEXT: tsr_tile.multiply_words %[[WORD]], %[[RIGHT]], %{{.*}} : vector<4xi32>, vector<4xf32>
// CHECK-COUNT-7: tsr_tile.multiply_words
// CHECK-NOT: tsr_tile.multiply_words
// CHECK: tsr_tile.map "relu_f32"
// PAIRS-LABEL: tsr_tile.kernel @k1 {{.*}} plus 256
// PAIRS: %[[COPY:.*]] = llvm.getelementptr %scratch[128]
// Two words of a row, then two of the one below it.
// PAIRS: scf.for %[[ROW:.*]] = %c0_i64 to %c4_i64
// PAIRS-NEXT: %[[PAIR:.*]] = arith.divui %[[ROW]], %c2_i64
// PAIRS-NEXT: %[[BASE:.*]] = arith.muli %[[PAIR]], %c8_i64
// PAIRS-NEXT: %[[HALF:.*]] = arith.remui %[[ROW]], %c2_i64
// PAIRS-NEXT: %[[BESIDE:.*]] = arith.muli %[[HALF]], %c2_i64
// PAIRS-NEXT: %[[TO:.*]] = arith.addi %[[BASE]], %[[BESIDE]]
// PAIRS: %[[WORDS:.*]] = tsr_tile.load %in0[%{{.*}}] : bf16 -> vector<2xi32>
// PAIRS-NEXT: %[[AT:.*]] = arith.addi %[[TO]], %{{.*}}
// PAIRS-NEXT: tsr_tile.store %[[WORDS]], %[[COPY]][%[[AT]]] : vector<2xi32> -> i32
// Four rows of the right factor become two words of each column.
// PAIRS: %[[FIRST:.*]] = tsr_tile.words
// PAIRS: %[[SECOND:.*]] = tsr_tile.words
// PAIRS-NEXT: %[[LOW:.*]] = tsr_tile.shuffle %[[FIRST]], %[[SECOND]] [0, 4, 1, 5]
// PAIRS-NEXT: tsr_tile.store %[[LOW]], %scratch
// PAIRS-NEXT: %[[HIGH:.*]] = tsr_tile.shuffle %[[FIRST]], %[[SECOND]] [2, 6, 3, 7]
// PAIRS: tsr_tile.store %[[HIGH]], %scratch
// Sums of two rows and two columns lie together, until they are rows again.
// PAIRS-COUNT-4: tsr_tile.multiply_words {{.*}} pairs : vector<4xi32>, vector<4xf32>
// PAIRS-NEXT: %[[UPPER:.*]] = tsr_tile.shuffle {{.*}} [0, 1, 4, 5] : vector<4xf32>
// PAIRS-NEXT: %[[LOWER:.*]] = tsr_tile.shuffle {{.*}} [2, 3, 6, 7] : vector<4xf32>
// PAIRS: tsr_tile.store %[[UPPER]], %[[TILE:.*]][%c0_i64]
// PAIRS-NEXT: tsr_tile.store %[[LOWER]], %[[TILE]][%c4_i64]
// PAIRS: tsr_tile.map "relu_f32"
!a = tensor<4x8xbf16>
tsr_graph.trace "across" values [0, 1] strides [[], []] (%v0: !a, %v1: tensor<8x8xbf16>) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!a, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
}

// -----
// The sum is odd: what would lie beyond it in the last word of a row is zero, and is not read.
// CHECK-LABEL: tsr_tile.kernel @k1
// CHECK: tsr_tile.load %in0[%{{.*}}] : bf16 -> vector<4xi32>
// CHECK: %[[X:.*]] = tsr_tile.load %in0[%{{.*}}] : bf16 -> f32
// CHECK-NEXT: %[[IS:.*]] = arith.cmpi sgt
// CHECK-NEXT: %[[LOW:.*]] = arith.select %[[IS]], %[[X]], %cst
// CHECK: %[[AT:.*]] = arith.minsi
// CHECK: %[[Y:.*]] = tsr_tile.load %in0[%{{.*}}] : bf16 -> f32
// CHECK-NEXT: %[[IS:.*]] = arith.cmpi sgt
// CHECK-NEXT: %[[HIGH:.*]] = arith.select %[[IS]], %[[Y]], %cst
// CHECK-NEXT: tsr_tile.words %[[LOW]], %[[HIGH]] : f32 -> i32
// Whole words of columns, which lie along the sum, are turned as they are.
// CHECK: } else {
// CHECK-COUNT-4: tsr_tile.load %in1[%{{.*}}] : bf16 -> vector<4xi32>
// CHECK-COUNT-8: tsr_tile.shuffle {{.*}} : vector<4xi32>
// CHECK-COUNT-4: tsr_tile.store {{.*}} : vector<4xi32> -> i32
// PAIRS-LABEL: tsr_tile.kernel @k1
// PAIRS: tsr_tile.load %in0[%{{.*}}] : bf16 -> vector<2xi32>
// PAIRS-COUNT-4: arith.select
// PAIRS: } else {
// PAIRS-COUNT-2: tsr_tile.load %in1[%{{.*}}] : bf16 -> vector<4xi32>
// PAIRS: tsr_tile.shuffle {{.*}} [0, 1, 4, 5] : vector<4xi32>
// PAIRS: tsr_tile.shuffle {{.*}} [2, 3, 6, 7] : vector<4xi32>
!a = tensor<4x11xbf16>
tsr_graph.trace "along" values [0, 1] strides [[], []] (%v0: !a, %v1: tensor<8x11xbf16>) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_b = true} : (!a, tensor<8x11xbf16>) -> tensor<4x8xbf16>
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
}
