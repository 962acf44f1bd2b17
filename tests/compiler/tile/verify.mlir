// What the verifiers of tsr_tile refuse. A kernel without views has four arguments.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{takes 1 views, scratch, a table and the two ends of a range}}
tsr_tile.kernel @k0 at 0 steps [] inputs [0] outputs [] dims [] strides [[]] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
}

// -----

// expected-error@+1 {{has strides for each view}}
tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [[]] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  // expected-error@+1 {{has tiles of 'f32' for 'bf16' in memory}}
  %0 = tsr_tile.load %scratch[%begin] : bf16 -> vector<8xbf16>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : i1 -> vector<8xi8>
  // expected-error@+1 {{has tiles of 'f64' for 'f64' in memory}}
  tsr_tile.store %0, %scratch[%begin] : vector<8xi8> -> f64
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<24xf32>
  // expected-error@+1 {{that streams has whole lines of 64 bytes, and no condition}}
  tsr_tile.store %0, %scratch[%begin] streams : vector<24xf32> -> f32
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  // expected-error@+1 {{operand #0 must be pointer, but got 'i64'}}
  %0 = "tsr_tile.dim"(%begin) {index = 0 : i64} : (i64) -> i64
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  // expected-error@+1 {{makes a vector of what it is given}}
  %0 = tsr_tile.splat %begin : i64 -> vector<8xf32>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<8xf32>
  // expected-error@+1 {{makes f64 of as many f32}}
  %1 = tsr_tile.widen %0 : vector<8xf32> -> vector<4xf64>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<8xf32>
  // expected-error@+1 {{makes one element, or a few of them, of a vector}}
  %1 = tsr_tile.reduce "add_f64" %0 : vector<8xf32> -> f64
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<8xf32>
  // expected-error@+1 {{halves its lanes}}
  %1 = tsr_tile.reduce "add_f32" %0 : vector<8xf32> -> vector<8xf32>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<6xf32>
  // expected-error@+1 {{halves its lanes, which are a power of two}}
  %1 = tsr_tile.reduce "add_f32" %0 : vector<6xf32> -> f32
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  // expected-error@+1 {{has no map 0}}
  tsr_tile.copy map 0 [%begin, %end] to %begin signal %end
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    maps [[0, 1, 64, 0, 64]] (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  // expected-error@+1 {{takes two to five indices}}
  tsr_tile.copy map 0 [%begin] to %begin signal %end
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  // expected-error@+1 {{takes a multiple of 8 from 24 to 256}}
  tsr_tile.registers 41
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<64xf32>
  // expected-error@+1 {{has 128 sums of f32 in a thread}}
  %1 = tsr_tile.multiply %0, %begin, %end rows 64 columns 256 depth 64 : bf16, vector<64xf32>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<64xf32>
  // expected-error@+1 {{takes pieces of 64 bf16 or f16 along the sum}}
  %1 = tsr_tile.multiply %0, %begin, %end rows 64 columns 128 depth 64 : f32, vector<64xf32>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<64xf32>
  // expected-error@+1 {{takes pieces of 64 bf16 or f16 along the sum, or of 32 tf32}}
  %1 = tsr_tile.multiply %0, %begin, %end rows 64 columns 128 depth 32 right_across : tf32, vector<64xf32>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<8xf32>
  // expected-error@+1 {{of f32 has no half 1}}
  tsr_tile.lay_down %0, %0 to %begin half 1 : vector<8xf32> -> f32
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<64xf32>
  // expected-error@+1 {{takes sixteens of the sums}}
  %1, %2 = tsr_tile.collect %0[56] : vector<64xf32> -> vector<8xf32>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  // expected-error@+1 {{names no op: embeding}}
  tsr_tile.report "embeding" %begin of %end to %begin
}

// -----

tsr_tile.kernel @k at 0 steps [0] inputs [0] outputs [1] dims [] strides [[], []] tasks [] unit [] grain 1 scratch []
    (%in0: !llvm.ptr, %out0: !llvm.ptr, %scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %x = tsr_tile.load %in0[%begin] : f32 -> f32
  // expected-error@+1 {{halves its blocks, which are a power of two and at most 8}}
  %y = tsr_tile.cluster_reduce "add_f32"(%x) threads 256 blocks 16 to %begin signal %end : (f32) -> f32
}

// -----

tsr_tile.kernel @k at 0 steps [0] inputs [0] outputs [1] dims [] strides [[], []] tasks [] unit [] grain 1 scratch []
    (%in0: !llvm.ptr, %out0: !llvm.ptr, %scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %x = tsr_tile.load %in0[%begin] : f32 -> f32
  // expected-error@+1 {{makes one of each of its operands}}
  %y = tsr_tile.cluster_reduce "add_f32"(%x, %x) threads 256 blocks 4 to %begin signal %end : (f32, f32) -> f32
}

// -----

tsr_tile.kernel @k at 0 steps [0] inputs [0] outputs [1] dims [] strides [[], []] tasks [] unit [] grain 1 scratch []
    (%in0: !llvm.ptr, %out0: !llvm.ptr, %scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %x = tsr_tile.load %in0[%begin] : f32 -> f32
  // expected-error@+1 {{has whole warps in a block}}
  %y = tsr_tile.cluster_reduce "add_f32"(%x) threads 16 blocks 4 to %begin signal %end : (f32) -> f32
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : bf16 -> vector<8xi32>
  // expected-error@+1 {{has no words of elements that lie apart}}
  %1 = tsr_tile.load %scratch[%begin] stride %end : bf16 -> vector<8xi32>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  // expected-error@+1 {{has tiles of 'f32' for 'f16' in memory}}
  %0 = tsr_tile.load %scratch[%begin] : f16 -> vector<8xi32>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<8xf32>
  // expected-error@+1 {{makes words of as many f32}}
  %1 = tsr_tile.words %0, %0 : vector<8xf32> -> vector<4xi32>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<8xf32>
  %1 = tsr_tile.load %scratch[%begin] : bf16 -> vector<4xi32>
  // expected-error@+1 {{adds to a vector of f32 the products of as many words}}
  %2 = tsr_tile.multiply_words %1, %1, %0 : vector<4xi32>, vector<8xf32>
}

// -----

tsr_tile.kernel @k0 at 0 steps [] inputs [] outputs [] dims [] strides [] tasks [] unit [] grain 1 scratch []
    (%scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
  %0 = tsr_tile.load %scratch[%begin] : f32 -> vector<8xf32>
  %1 = tsr_tile.load %scratch[%begin] : bf16 -> vector<8xi32>
  // expected-error@+1 {{has two rows of two sums in pairs}}
  %2 = tsr_tile.multiply_words %1, %1, %0 pairs : vector<8xi32>, vector<8xf32>
}
