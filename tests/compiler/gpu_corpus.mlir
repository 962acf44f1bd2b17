// Traces for gpu_corpus_test.cc, each with its name and the number of kernels that it becomes. What is not in a kernel
// is left to tier 1.

// gelu_f32_static: 1
!t = tensor<16384x8192xf32>
!r = tensor<8192xf32>
!s = tensor<f32>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []]
    (%v0: !t, %v1: !r, %v2: !r, %v3: !s) {
  %v4 = tsr_graph.mul %v0, %v1 step 0 values [4] until [1] : (!t, !r) -> !t
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!t, !r) -> !t
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!t) -> !t
  %v7 = tsr_graph.mul %v6, %v3 step 3 values [7] until [4] : (!t, !s) -> !t
  %v8 = tsr_graph.add %v7, %v0 step 4 values [8] until [end] : (!t, !t) -> !t
}

// -----

// gelu_f32_symbolic: 1
!t = tensor<?x?xf32, [0, 1]>
!r = tensor<?xf32, [1]>
!s = tensor<f32>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []] likely [16384, 8192]
    (%v0: !t, %v1: !r, %v2: !r, %v3: !s) {
  %v4 = tsr_graph.mul %v0, %v1 step 0 values [4] until [1] : (!t, !r) -> !t
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!t, !r) -> !t
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!t) -> !t
  %v7 = tsr_graph.mul %v6, %v3 step 3 values [7] until [4] : (!t, !s) -> !t
  %v8 = tsr_graph.add %v7, %v0 step 4 values [8] until [end] : (!t, !t) -> !t
}

// -----

// gelu_bf16_static: 1
!t = tensor<16384x8192xbf16>
!r = tensor<8192xbf16>
!s = tensor<bf16>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []]
    (%v0: !t, %v1: !r, %v2: !r, %v3: !s) {
  %v4 = tsr_graph.mul %v0, %v1 step 0 values [4] until [1] : (!t, !r) -> !t
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!t, !r) -> !t
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!t) -> !t
  %v7 = tsr_graph.mul %v6, %v3 step 3 values [7] until [4] : (!t, !s) -> !t
  %v8 = tsr_graph.add %v7, %v0 step 4 values [8] until [end] : (!t, !t) -> !t
}

// -----

// gelu_bf16_symbolic: 1
!t = tensor<?x?xbf16, [0, 1]>
!r = tensor<?xbf16, [1]>
!s = tensor<bf16>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []] likely [16384, 8192]
    (%v0: !t, %v1: !r, %v2: !r, %v3: !s) {
  %v4 = tsr_graph.mul %v0, %v1 step 0 values [4] until [1] : (!t, !r) -> !t
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!t, !r) -> !t
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!t) -> !t
  %v7 = tsr_graph.mul %v6, %v3 step 3 values [7] until [4] : (!t, !s) -> !t
  %v8 = tsr_graph.add %v7, %v0 step 4 values [8] until [end] : (!t, !t) -> !t
}

// -----

// softmax_f32_block: 1
!t = tensor<16384x8192xf32>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] {axis = -1 : i64} : (!t) -> !t
}

// -----

// softmax_bf16_warp: 1
!t = tensor<32768x1024xbf16>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] {axis = -1 : i64} : (!t) -> !t
}

// -----

// softmax_bf16_symbolic: 1
!t = tensor<?x?xbf16, [0, 1]>
tsr_graph.trace "function" values [0] strides [[]] likely [4096, 32768]
    (%v0: !t) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] {axis = -1 : i64} : (!t) -> !t
}

// -----

// log_softmax_f16_long: 1
!t = tensor<4096x50257xf16>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.log_softmax %v0 step 0 values [1] until [end] {axis = -1 : i64} : (!t) -> !t
}

// -----

// layer_norm_f32_1024_threads: 1
!t = tensor<4096x32768xf32>
!r = tensor<32768xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !t, %v1: !r, %v2: !r) {
  %v3 = tsr_graph.layer_norm %v0, %v1, %v2 step 0 values [3] until [end] {dims = 1 : i64, eps = 1.0e-05 : f64} : (!t, !r, !r) -> !t
}

// -----

// layer_norm_bf16_block: 1
!t = tensor<16384x8192xbf16>
!r = tensor<8192xbf16>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !t, %v1: !r, %v2: !r) {
  %v3 = tsr_graph.layer_norm %v0, %v1, %v2 step 0 values [3] until [end] {dims = 1 : i64, eps = 1.0e-05 : f64} : (!t, !r, !r) -> !t
}

// -----

// layer_norm_bf16_symbolic: 1
!t = tensor<?x?xbf16, [0, 1]>
!r = tensor<?xbf16, [1]>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []] likely [16384, 8192]
    (%v0: !t, %v1: !r, %v2: !r) {
  %v3 = tsr_graph.layer_norm %v0, %v1, %v2 step 0 values [3] until [end] {dims = 1 : i64, eps = 1.0e-05 : f64} : (!t, !r, !r) -> !t
}

// -----

// layer_norm_f32_symbolic: 1
!t = tensor<?x?xf32, [0, 1]>
!r = tensor<?xf32, [1]>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []] likely [16384, 8192]
    (%v0: !t, %v1: !r, %v2: !r) {
  %v3 = tsr_graph.layer_norm %v0, %v1, %v2 step 0 values [3] until [end] {dims = 1 : i64, eps = 1.0e-05 : f64} : (!t, !r, !r) -> !t
}

// -----

// rms_norm_f32_warp: 1
!t = tensor<32768x1024xf32>
!r = tensor<1024xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.rms_norm %v0, %v1 step 0 values [2] until [end] {dims = 1 : i64, eps = 1.0e-06 : f64} : (!t, !r) -> !t
}

// -----

// rms_norm_f64_block: 1
!t = tensor<4096x1024xf64>
!r = tensor<1024xf64>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.rms_norm %v0, %v1 step 0 values [2] until [end] {dims = 1 : i64, eps = 1.0e-06 : f64} : (!t, !r) -> !t
}

// -----

// sum_f32_block: 1
!t = tensor<16384x8192xf32>
!r = tensor<16384x1xf32>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.sum %v0 step 0 values [1] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !r
}

// -----

// sum_f64_odd: 1
!t = tensor<2048x1000xf64>
!r = tensor<2048x1xf64>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.sum %v0 step 0 values [1] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !r
}

// -----

// sum_bf16_short: 1
!t = tensor<100000x16xbf16>
!r = tensor<100000x1xbf16>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.sum %v0 step 0 values [1] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !r
}

// -----

// sum_f32_unaligned: 1
!t = tensor<300x4097xf32>
!r = tensor<300x1xf32>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.sum %v0 step 0 values [1] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !r
}

// -----

// max_i32: 1
!t = tensor<?x?xi32, [0, 1]>
!r = tensor<?x1xi32, [0, -1]>
tsr_graph.trace "function" values [0] strides [[]] likely [1000, 500]
    (%v0: !t) {
  %v1 = tsr_graph.max %v0 step 0 values [1] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !r
}

// -----

// var_f32: 1
!t = tensor<512x3000xf32>
!r = tensor<512x1xf32>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.var %v0 step 0 values [1] until [end] {axes = array<i64: 1>, correction = 1.0 : f64, keepdims = true} : (!t) -> !r
}

// -----

// logsumexp_f16: 1
!t = tensor<?x?xf16, [0, 1]>
!r = tensor<?x1xf16, [0, -1]>
tsr_graph.trace "function" values [0] strides [[]] likely [512, 300]
    (%v0: !t) {
  %v1 = tsr_graph.logsumexp %v0 step 0 values [1] until [end] {axes = array<i64: 1>, keepdims = true} : (!t) -> !r
}

// -----

// residual_rms_norm_two_results: 1
!t = tensor<8192x4096xbf16>
!r = tensor<4096xbf16>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !t, %v1: !t, %v2: !r) {
  %v3 = tsr_graph.add %v0, %v1 step 0 values [3] until [end] : (!t, !t) -> !t
  %v4 = tsr_graph.rms_norm %v3, %v2 step 1 values [4] until [end] {dims = 1 : i64, eps = 1.0e-06 : f64} : (!t, !r) -> !t
}

// -----

// sum_all_small: 1
!t = tensor<16x64xf32>
!r = tensor<1x1xf32>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.sum %v0 step 0 values [1] until [end] {axes = array<i64: 0, 1>, keepdims = true} : (!t) -> !r
}

// -----

// sum_all_large: 0
!t = tensor<16384x8192xf32>
!r = tensor<1x1xf32>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.sum %v0 step 0 values [1] until [end] {axes = array<i64: 0, 1>, keepdims = true} : (!t) -> !r
}

// -----

// strided: 1
!t = tensor<?x?xf32, [0, 1]>
tsr_graph.trace "function" values [0, 1] strides [[1, -1], [-1, 1]] likely [1024, 1024]
    (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [1] : (!t, !t) -> !t
  %v3 = tsr_graph.tanh %v2 step 1 values [3] until [end] : (!t) -> !t
}

// -----

// outer_broadcast: 1
!t = tensor<512x8x64xf32>
!c = tensor<512x1x64xf32>
!r = tensor<8x1xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !c, %v1: !r) {
  %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [1] : (!c, !r) -> !t
  %v3 = tsr_graph.exp %v2 step 1 values [3] until [end] : (!t) -> !t
}

// -----

// chain_f64: 1
!t = tensor<?xf64, [0]>
tsr_graph.trace "function" values [0] strides [[]] likely [10000000]
    (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.sin %v1 step 1 values [2] until [end] : (!t) -> !t
}

// -----

// chain_f16: 1
!t = tensor<?xf16, [0]>
tsr_graph.trace "function" values [0] strides [[]] likely [10000000]
    (%v0: !t) {
  %v1 = tsr_graph.silu %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.sigmoid %v1 step 1 values [2] until [end] : (!t) -> !t
}

// -----

// chain_f8e4m3fn: 1
!t = tensor<?xf8E4M3FN, [0]>
tsr_graph.trace "function" values [0] strides [[]] likely [10000000]
    (%v0: !t) {
  %v1 = tsr_graph.relu %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.neg %v1 step 1 values [2] until [end] : (!t) -> !t
}

// -----

// chain_f8e5m2: 1
!t = tensor<?xf8E5M2, [0]>
tsr_graph.trace "function" values [0] strides [[]] likely [10000000]
    (%v0: !t) {
  %v1 = tsr_graph.tanh %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.neg %v1 step 1 values [2] until [end] : (!t) -> !t
}

// -----

// chain_i64: 1
!t = tensor<?xi64, [0]>
tsr_graph.trace "function" values [0] strides [[]] likely [10000000]
    (%v0: !t) {
  %v1 = tsr_graph.abs %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.neg %v1 step 1 values [2] until [end] : (!t) -> !t
}

// -----

// chain_i32: 1
!t = tensor<?xi32, [0]>
tsr_graph.trace "function" values [0] strides [[]] likely [10000000]
    (%v0: !t) {
  %v1 = tsr_graph.abs %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.square %v1 step 1 values [2] until [end] : (!t) -> !t
}

// -----

// chain_i8: 1
!t = tensor<?xi8, [0]>
tsr_graph.trace "function" values [0] strides [[]] likely [10000000]
    (%v0: !t) {
  %v1 = tsr_graph.abs %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.neg %v1 step 1 values [2] until [end] : (!t) -> !t
}

// -----

// chain_ui8: 1
!t = tensor<?xui8, [0]>
tsr_graph.trace "function" values [0] strides [[]] likely [10000000]
    (%v0: !t) {
  %v1 = tsr_graph.square %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.square %v1 step 1 values [2] until [end] : (!t) -> !t
}

// -----

// bool_where: 1
!t = tensor<1000x333xf32>
!b = tensor<1000x333xi1>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.lt %v0, %v1 step 0 values [2] until [1] : (!t, !t) -> !b
  %v3 = tsr_graph.logical_not %v2 step 1 values [3] until [end] : (!b) -> !b
  %v4 = tsr_graph.where %v3, %v0, %v1 step 2 values [4] until [end] : (!b, !t, !t) -> !t
}

// -----

// casts: 1
!t = tensor<4096x4096xbf16>
!u = tensor<4096x4096xf32>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.cast %v0 step 0 values [1] until [1] : (!t) -> !u
  %v2 = tsr_graph.exp %v1 step 1 values [2] until [2] : (!u) -> !u
  %v3 = tsr_graph.cast %v2 step 2 values [3] until [end] : (!u) -> !t
}

// -----

// after_a_product: 1
!t = tensor<512x512xbf16>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] : (!t, !t) -> !t
  %v3 = tsr_graph.gelu %v2 step 1 values [3] until [2] : (!t) -> !t
  %v4 = tsr_graph.neg %v3 step 2 values [4] until [end] : (!t) -> !t
}

// -----

// linear_gelu: 1
!x = tensor<8192x1024xbf16>
!w = tensor<1024x4096xbf16>
!b = tensor<4096xbf16>
!y = tensor<8192x4096xbf16>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !x, %v1: !w, %v2: !b) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] : (!x, !w) -> !y
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [2] : (!y, !b) -> !y
  %v5 = tsr_graph.gelu %v4 step 2 values [5] until [end] : (!y) -> !y
}

// -----

// linear_residual: 1
!x = tensor<4096x4096xf16>
!w = tensor<4096x4096xf16>
!b = tensor<4096xf16>
!y = tensor<4096x4096xf16>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []]
    (%v0: !x, %v1: !w, %v2: !b, %v3: !y) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1] {transpose_b = true} : (!x, !w) -> !y
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!y, !b) -> !y
  %v6 = tsr_graph.add %v5, %v3 step 2 values [6] until [end] : (!y, !y) -> !y
}

// -----

// linear_batched_symbolic: 1
!x = tensor<?x?x?xbf16, [0, 1, 2]>
!w = tensor<?x?x?xbf16, [0, 2, 3]>
!y = tensor<?x?x?xbf16, [0, 1, 3]>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []] likely [8, 1024, 512, 2048]
    (%v0: !x, %v1: !w, %v2: !y) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] : (!x, !w) -> !y
  %v4 = tsr_graph.relu %v3 step 1 values [4] until [2] : (!y) -> !y
  %v5 = tsr_graph.mul %v4, %v2 step 2 values [5] until [end] : (!y, !y) -> !y
}

// -----

// tf32_linear: 1
!x = tensor<8192x1024xf32>
!w = tensor<4096x1024xf32>
!b = tensor<4096xf32>
!y = tensor<8192x4096xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !x, %v1: !w, %v2: !b) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {transpose_b = true} : (!x, !w) -> !y
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [2] : (!y, !b) -> !y
  %v5 = tsr_graph.relu %v4 step 2 values [5] until [end] : (!y) -> !y
}

// -----

// tf32_gelu_residual: 1
!x = tensor<4096x4096xf32>
!b = tensor<4096xf32>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []]
    (%v0: !x, %v1: !x, %v2: !b, %v3: !x) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1] {transpose_b = true} : (!x, !x) -> !x
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!x, !b) -> !x
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!x) -> !x
  %v7 = tsr_graph.add %v6, %v3 step 3 values [7] until [end] : (!x, !x) -> !x
}

// -----

// tf32_batched_symbolic: 1
!x = tensor<?x?x?xf32, [0, 1, 2]>
!w = tensor<?x?x?xf32, [0, 3, 2]>
!y = tensor<?x?x?xf32, [0, 1, 3]>
tsr_graph.trace "function" values [0, 1] strides [[], []] likely [8, 1024, 512, 2048]
    (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_b = true} : (!x, !w) -> !y
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!y) -> !y
}

// -----

// few_rows_1: 1
!x = tensor<1x4096xbf16>
!w = tensor<4096x4096xbf16>
!b = tensor<4096xbf16>
!y = tensor<1x4096xbf16>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []]
    (%v0: !x, %v1: !w, %v2: !b, %v3: !y) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1] : (!x, !w) -> !y
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!y, !b) -> !y
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!y) -> !y
  %v7 = tsr_graph.add %v6, %v3 step 3 values [7] until [end] : (!y, !y) -> !y
}

// -----

// few_rows_16_transposed: 1
!x = tensor<16x4096xf16>
!w = tensor<14336x4096xf16>
!b = tensor<14336xf16>
!y = tensor<16x14336xf16>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []]
    (%v0: !x, %v1: !w, %v2: !b, %v3: !y) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1] {transpose_b = true} : (!x, !w) -> !y
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!y, !b) -> !y
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!y) -> !y
  %v7 = tsr_graph.add %v6, %v3 step 3 values [7] until [end] : (!y, !y) -> !y
}

// -----

// few_rows_64: 1
!x = tensor<64x4096xbf16>
!w = tensor<4096x14336xbf16>
!b = tensor<14336xbf16>
!y = tensor<64x14336xbf16>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []]
    (%v0: !x, %v1: !w, %v2: !b, %v3: !y) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1] : (!x, !w) -> !y
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!y, !b) -> !y
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!y) -> !y
  %v7 = tsr_graph.add %v6, %v3 step 3 values [7] until [end] : (!y, !y) -> !y
}

// -----

// few_rows_64_transposed: 1
!x = tensor<64x4096xbf16>
!w = tensor<4096x4096xbf16>
!b = tensor<4096xbf16>
!y = tensor<64x4096xbf16>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []]
    (%v0: !x, %v1: !w, %v2: !b, %v3: !y) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1] {transpose_b = true} : (!x, !w) -> !y
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!y, !b) -> !y
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!y) -> !y
  %v7 = tsr_graph.add %v6, %v3 step 3 values [7] until [end] : (!y, !y) -> !y
}

// -----

// few_rows_symbolic: 1
!x = tensor<?x?xbf16, [0, 1]>
!w = tensor<?x?xbf16, [1, 2]>
!b = tensor<?xbf16, [2]>
!y = tensor<?x?xbf16, [0, 2]>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []] likely [8, 4096, 4096]
    (%v0: !x, %v1: !w, %v2: !b, %v3: !y) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1] : (!x, !w) -> !y
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!y, !b) -> !y
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!y) -> !y
  %v7 = tsr_graph.add %v6, %v3 step 3 values [7] until [end] : (!y, !y) -> !y
}

// -----

// few_rows_symbolic_transposed: 1
!x = tensor<?x?xbf16, [0, 1]>
!w = tensor<?x?xbf16, [2, 1]>
!b = tensor<?xbf16, [2]>
!y = tensor<?x?xbf16, [0, 2]>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[], [], [], []] likely [13, 4096, 4096]
    (%v0: !x, %v1: !w, %v2: !b, %v3: !y) {
  %v4 = tsr_graph.matmul %v0, %v1 step 0 values [4] until [1] {transpose_b = true} : (!x, !w) -> !y
  %v5 = tsr_graph.add %v4, %v2 step 1 values [5] until [2] : (!y, !b) -> !y
  %v6 = tsr_graph.gelu %v5 step 2 values [6] until [3] : (!y) -> !y
  %v7 = tsr_graph.add %v6, %v3 step 3 values [7] until [end] : (!y, !y) -> !y
}

// -----

// few_rows_alone: 1
!x = tensor<8x4096xbf16>
!w = tensor<4096x4096xbf16>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !x, %v1: !w) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [end] : (!x, !w) -> !x
}

// -----

// column_sums_f32_symbolic: 1
!t = tensor<?x?xf32, [0, 1]>
!r = tensor<?xf32, [1]>
tsr_graph.trace "function" values [0, 1] strides [[], []] likely [16384, 4096] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [end] : (!t, !t) -> !t
  %v3 = tsr_graph.sum %v2 step 1 values [3] until [end] {axes = array<i64: 0>} : (!t) -> !r
  %v4 = tsr_graph.max %v2 step 2 values [4] until [end] {axes = array<i64: 0>} : (!t) -> !r
}

// -----

// column_sums_bf16_of_a_gradient: 1
!t = tensor<8192x16384xbf16>
!r = tensor<16384xbf16>
!s = tensor<bf16>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !t, %v2: !s) {
  %v3 = tsr_graph.tanh %v0 step 0 values [3] until [1] : (!t) -> !t
  %v4 = tsr_graph.mul %v3, %v3 step 1 values [4] until [2] : (!t, !t) -> !t
  %v5 = tsr_graph.sub %v2, %v4 step 2 values [5] until [3] : (!s, !t) -> !t
  %v6 = tsr_graph.mul %v5, %v1 step 3 values [6] until [end] : (!t, !t) -> !t
  %v7 = tsr_graph.sum %v6 step 4 values [7] until [end] {axes = array<i64: 0>} : (!t) -> !r
}

// -----

// column_means_of_gelu_f32: 1
!t = tensor<16x4x1000x512xf32>
!w = tensor<1000x1xf32>
!r = tensor<16x512xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !t, %v1: !w) {
  %v2 = tsr_graph.gelu %v0 step 0 values [2] until [1] : (!t) -> !t
  %v3 = tsr_graph.mul %v2, %v1 step 1 values [3] until [2] : (!t, !w) -> !t
  %v4 = tsr_graph.mean %v3 step 2 values [4] until [end] {axes = array<i64: 1, 2>} : (!t) -> !r
}

// -----

// column_sums_f64_and_squares: 1
!t = tensor<16384x4096xf64>
!r = tensor<4096xf64>
tsr_graph.trace "function" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.square %v0 step 0 values [1] until [2] : (!t) -> !t
  %v2 = tsr_graph.sum %v0 step 1 values [2] until [end] {axes = array<i64: 0>} : (!t) -> !r
  %v3 = tsr_graph.sum %v1 step 2 values [3] until [end] {axes = array<i64: 0>} : (!t) -> !r
}

// -----

// column_sums_f16_odd: 1
!t = tensor<999x16002xf16>
!r = tensor<16002xf16>
tsr_graph.trace "function" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.abs %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.sum %v1 step 1 values [2] until [end] {axes = array<i64: 0>} : (!t) -> !r
}

// -----

// silu_f64_one_run: 1
!t = tensor<8192x8192xf64>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.silu %v0 step 0 values [2] until [1] : (!t) -> !t
  %v3 = tsr_graph.mul %v2, %v1 step 1 values [3] until [end] : (!t, !t) -> !t
}

// -----

// tanh_to_bool_of_pairs: 1
!t = tensor<9000000x6xf32>
!b = tensor<9000000x6xi1>
!r = tensor<6xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.tanh %v0 step 0 values [2] until [1] : (!t) -> !t
  %v3 = tsr_graph.gt %v2, %v1 step 1 values [3] until [end] : (!t, !r) -> !b
}

// -----

// transposed_exp_f32: 1
!t = tensor<8192x4096xf32>
!x = tensor<4096x8192xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !x, %v1: !t) {
  %v2 = tsr_graph.transpose %v0 step 0 values [2] until [2] {"tsr.strides" = array<i64: 1, -1>} : (!x) -> !t
  %v3 = tsr_graph.exp %v2 step 1 values [3] until [2] : (!t) -> !t
  %v4 = tsr_graph.add %v3, %v1 step 2 values [4] until [end] : (!t, !t) -> !t
}

// -----

// transposed_gelu_bf16_symbolic: 1
!t = tensor<?x?x?xbf16, [0, 1, 2]>
!r = tensor<?xbf16, [2]>
!n = tensor<?x1xbf16, [1, -1]>
tsr_graph.trace "function" values [0, 1, 2, 3] strides [[-1, 1, -1], [], [], []] likely [16, 1024, 4096]
    (%v0: !t, %v1: !r, %v2: !n, %v3: !t) {
  %v4 = tsr_graph.add %v0, %v1 step 0 values [4] until [1] : (!t, !r) -> !t
  %v5 = tsr_graph.gelu %v4 step 1 values [5] until [2] : (!t) -> !t
  %v6 = tsr_graph.mul %v5, %v2 step 2 values [6] until [3] : (!t, !n) -> !t
  %v7 = tsr_graph.add %v6, %v3 step 3 values [7] until [end] : (!t, !t) -> !t
}

// -----

// transposed_cast_alone: 1
!x = tensor<4096x8192xf32>
!t = tensor<4096x8192xbf16>
tsr_graph.trace "function" values [0] strides [[1, -1]] (%v0: !x) {
  %v1 = tsr_graph.cast %v0 step 0 values [1] until [end] : (!x) -> !t
}

// -----

// transposed_copy_alone: 1
!t = tensor<4096x8192xf32>
tsr_graph.trace "function" values [0] strides [[1, -1]] (%v0: !t) {
  %v1 = tsr_graph.copy %v0 step 0 values [1] until [end] : (!t) -> !t
}

// -----

// transposed_two_f64: 1
!t = tensor<?x?xf64, [0, 1]>
!f = tensor<?x?xf32, [0, 1]>
tsr_graph.trace "function" values [0, 1, 2] strides [[1, -1], [1, -1], []] (%v0: !t, %v1: !f, %v2: !t) {
  %v3 = tsr_graph.cast %v1 step 0 values [3] until [1] : (!f) -> !t
  %v4 = tsr_graph.mul %v0, %v3 step 1 values [4] until [2] : (!t, !t) -> !t
  %v5 = tsr_graph.add %v4, %v2 step 2 values [5] until [end] : (!t, !t) -> !t
}

// -----

// transposed_many_operands_f32: 1
!t = tensor<?x?xf32, [0, 1]>
!b = tensor<?x?xi1, [0, 1]>
tsr_graph.trace "function" values [0, 1, 2, 3, 4] strides [[1, -1], [], [], [1, -1], []] likely [4000, 4000]
    (%v0: !t, %v1: !t, %v2: !t, %v3: !t, %v4: !t) {
  %v5 = tsr_graph.mul %v0, %v1 step 0 values [5] until [1] : (!t, !t) -> !t
  %v6 = tsr_graph.tanh %v5 step 1 values [6] until [end] : (!t) -> !t
  %v7 = tsr_graph.sub %v6, %v2 step 2 values [7] until [3] : (!t, !t) -> !t
  %v8 = tsr_graph.mul %v7, %v3 step 3 values [8] until [4] : (!t, !t) -> !t
  %v9 = tsr_graph.gt %v8, %v4 step 4 values [9] until [end] : (!t, !t) -> !b
}

// -----

// tokens_and_positions_norm: 1
!t = tensor<?x?xf32, [0, 1]>
!p = tensor<?x?xbf16, [3, 1]>
!x = tensor<?x?x?xf32, [2, 3, 1]>
!r = tensor<?xf32, [1]>
!i = tensor<?x?xi64, [2, 3]>
tsr_graph.trace "function" values [0, 1, 2, 3, 8, 9] strides [[], [], [], [], [], []]
    likely [50000, 1024, 8, 2048, 4096]
    (%v0: !t, %v1: !i, %v2: tensor<?x?xbf16, [4, 1]>, %v3: tensor<?xi32, [3]>, %v8: !r, %v9: !r) {
  %v4 = tsr_graph.embedding %v0, %v1 step 0 values [4] until [3] : (!t, !i) -> !x
  %v5 = tsr_graph.take %v2, %v3 step 1 values [5] until [2] {axis = 0 : i64} : (tensor<?x?xbf16, [4, 1]>, tensor<?xi32, [3]>) -> !p
  %c = tsr_graph.cast %v5 : (!p) -> tensor<?x?xf32, [3, 1]>
  %v6 = tsr_graph.add %v4, %c step 2 values [6] until [3] : (!x, tensor<?x?xf32, [3, 1]>) -> !x
  %v7 = tsr_graph.layer_norm %v6, %v8, %v9 step 3 values [7] until [end] {dims = 1 : i64, eps = 1.0e-05 : f64} : (!x, !r, !r) -> !x
}

// -----

// embedding_add_bf16: 1
!t = tensor<50000x1024xbf16>
!i = tensor<16384xi64>
!x = tensor<16384x1024xbf16>
tsr_graph.trace "eager" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !i, %v2: !x) {
  %v3 = tsr_graph.embedding %v0, %v1 step 0 values [3] until [1] : (!t, !i) -> !x
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [end] : (!x, !x) -> !x
}

// -----

// embedding_alone: 0
!t = tensor<50000x1024xbf16>
!i = tensor<16384xi64>
!x = tensor<16384x1024xbf16>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !t, %v1: !i) {
  %v2 = tsr_graph.embedding %v0, %v1 step 0 values [2] until [end] : (!t, !i) -> !x
}

// -----

// take_of_odd_rows_f64: 1
!t = tensor<500x77xf64>
!i = tensor<4000xi32>
!x = tensor<4000x77xf64>
!s = tensor<4000xf64>
tsr_graph.trace "function" values [0, 1] strides [[-1, 1], []] (%v0: !t, %v1: !i) {
  %v2 = tsr_graph.take %v0, %v1 step 0 values [2] until [1] {axis = 0 : i64} : (!t, !i) -> !x
  %v3 = tsr_graph.square %v2 step 1 values [3] until [2] : (!x) -> !x
  %v4 = tsr_graph.sum %v3 step 2 values [4] until [end] {axes = array<i64: 1>} : (!x) -> !s
}

// -----

// gelu_f32_short: 1
!t = tensor<32768x1024xf32>
!r = tensor<1024xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !t, %v1: !r, %v2: !r) {
  %v3 = tsr_graph.mul %v0, %v1 step 0 values [3] until [1] : (!t, !r) -> !t
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [2] : (!t, !r) -> !t
  %v5 = tsr_graph.gelu %v4 step 2 values [5] until [3] : (!t) -> !t
  %v6 = tsr_graph.add %v5, %v0 step 3 values [6] until [end] : (!t, !t) -> !t
}

// -----

// softmax_bf16_shared: 1
!t = tensor<4096x32768xbf16>
tsr_graph.trace "function" values [0] strides [[]]
    (%v0: !t) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] {axis = -1 : i64} : (!t) -> !t
}

// -----

// layer_norm_f32_shared: 1
!t = tensor<4096x12000xf32>
!r = tensor<12000xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !t, %v1: !r, %v2: !r) {
  %v3 = tsr_graph.layer_norm %v0, %v1, %v2 step 0 values [3] until [end] {dims = 1 : i64, eps = 1.0e-05 : f64} : (!t, !r, !r) -> !t
}

// -----

// layer_norm_bf16_beyond: 1
!t = tensor<2048x65536xbf16>
!r = tensor<65536xbf16>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []]
    (%v0: !t, %v1: !r, %v2: !r) {
  %v3 = tsr_graph.layer_norm %v0, %v1, %v2 step 0 values [3] until [end] {dims = 1 : i64, eps = 1.0e-05 : f64} : (!t, !r, !r) -> !t
}

// -----

// rms_norm_f32_beyond: 1
!t = tensor<2048x65536xf32>
!r = tensor<65536xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.rms_norm %v0, %v1 step 0 values [2] until [end] {dims = 1 : i64, eps = 1.0e-06 : f64} : (!t, !r) -> !t
}

// -----

// kv_update_bf16_symbolic: 1
!k = tensor<?x?x1x?xf32, [0, 1, -1, 2]>
!w = tensor<?xf32, [2]>
!c = tensor<?x?x?x?xbf16, [0, 1, 3, 2]>
!u = tensor<?x?x1x?xbf16, [0, 1, -1, 2]>
tsr_graph.trace "eager" values [0, 1, 2] strides [[], [], []] likely [32, 8, 128, 4096]
    (%v0: !k, %v1: !w, %v2: !c) {
  %v3 = tsr_graph.mul %v0, %v1 step 0 values [3] until [1] : (!k, !w) -> !k
  %v4 = tsr_graph.cast %v3 step 1 values [4] until [2] : (!k) -> !u
  %v5 = tsr_graph.update_slice %v2, %v4 step 2 values [5] until [end] {steps = array<i64>} : (!c, !u) -> !c
}

// -----

// turned_update_bf16: 1
!k = tensor<32x8x128x64xbf16>
!r = tensor<128x64xbf16>
!c = tensor<32x8x4096x128xbf16>
tsr_graph.trace "eager" values [0, 1, 2, 3, 4] strides [[-1, -1, -1, 1], [-1, -1, -1, 1], [], [], []]
    (%v0: !k, %v1: !k, %v2: !r, %v3: !r, %v4: !c) {
  %v5 = tsr_graph.mul %v0, %v2 step 0 values [5] until [2] : (!k, !r) -> !k
  %v6 = tsr_graph.mul %v1, %v3 step 1 values [6] until [2] : (!k, !r) -> !k
  %v7 = tsr_graph.sub %v5, %v6 step 2 values [7] until [3] : (!k, !k) -> !k
  %v8 = tsr_graph.update_slice %v4, %v7 step 3 values [8] until [7] {steps = array<i64>} : (!c, !k) -> !c
  %v9 = tsr_graph.mul %v1, %v2 step 4 values [9] until [6] : (!k, !r) -> !k
  %v10 = tsr_graph.mul %v0, %v3 step 5 values [10] until [6] : (!k, !r) -> !k
  %v11 = tsr_graph.add %v9, %v10 step 6 values [11] until [7] : (!k, !k) -> !k
  %v12 = tsr_graph.update_slice %v8, %v11 step 7 values [12] until [end] {steps = array<i64>} : (!c, !k) -> !c
}

// -----

// turned_update_bf16_symbolic: 1
!k = tensor<?x?x?x?xbf16, [0, 1, 2, 3]>
!r = tensor<?x?xbf16, [2, 3]>
!c = tensor<?x?x?x?xbf16, [0, 1, 4, 5]>
tsr_graph.trace "eager" values [0, 1, 2, 3, 4] strides [[-1, -1, -1, 1], [-1, -1, -1, 1], [], [], []] likely [32, 8, 128, 64, 4096, 128]
    (%v0: !k, %v1: !k, %v2: !r, %v3: !r, %v4: !c) {
  %v5 = tsr_graph.mul %v0, %v2 step 0 values [5] until [2] : (!k, !r) -> !k
  %v6 = tsr_graph.mul %v1, %v3 step 1 values [6] until [2] : (!k, !r) -> !k
  %v7 = tsr_graph.sub %v5, %v6 step 2 values [7] until [3] : (!k, !k) -> !k
  %v8 = tsr_graph.update_slice %v4, %v7 step 3 values [8] until [7] {steps = array<i64>} : (!c, !k) -> !c
  %v9 = tsr_graph.mul %v1, %v2 step 4 values [9] until [6] : (!k, !r) -> !k
  %v10 = tsr_graph.mul %v0, %v3 step 5 values [10] until [6] : (!k, !r) -> !k
  %v11 = tsr_graph.add %v9, %v10 step 6 values [11] until [7] : (!k, !k) -> !k
  %v12 = tsr_graph.update_slice %v8, %v11 step 7 values [12] until [end] {steps = array<i64>} : (!c, !k) -> !c
}

// -----

// rms_norm_update_f16: 1
!t = tensor<512x8x128xf16>
!w = tensor<128xf16>
!c = tensor<4096x8x128xf16>
tsr_graph.trace "eager" values [0, 1, 2] strides [[], [], []]
    (%v0: !t, %v1: !w, %v2: !c) {
  %v3 = tsr_graph.rms_norm %v0, %v1 step 0 values [3] until [1] {dims = 1 : i64, eps = 1.0e-06 : f64} : (!t, !w) -> !t
  %v4 = tsr_graph.update_slice %v2, %v3 step 1 values [4] until [end] {steps = array<i64>} : (!c, !t) -> !c
}

// -----

// transposed_update_f32_symbolic: 1
!t = tensor<?x?xf32, [0, 1]>
!c = tensor<?x?xf32, [2, 3]>
tsr_graph.trace "eager" values [0, 1] strides [[1, -1], []] likely [4096, 4096, 8192, 8192]
    (%v0: !t, %v1: !c) {
  %v2 = tsr_graph.exp %v0 step 0 values [2] until [1] : (!t) -> !t
  %v3 = tsr_graph.update_slice %v1, %v2 step 1 values [3] until [end] {steps = array<i64>} : (!c, !t) -> !c
}

// -----

// layer_norm_bf16_of_a_cluster: 1
!t = tensor<1024x131072xbf16>
!r = tensor<131072xbf16>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !r, %v2: !r) {
  %v3 = tsr_graph.layer_norm %v0, %v1, %v2 step 0 values [3] until [end] : (!t, !r, !r) -> !t
}

// -----

// layer_norm_f32_of_a_cluster: 1
!t = tensor<511x131072xf32>
!r = tensor<131072xf32>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !r, %v2: !r) {
  %v3 = tsr_graph.layer_norm %v0, %v1, %v2 step 0 values [3] until [end] : (!t, !r, !r) -> !t
}

// -----

// softmax_f32_of_a_cluster: 1
!t = tensor<512x131072xf32>
tsr_graph.trace "function" values [0] strides [[]] (%v0: !t) {
  %v3 = tsr_graph.softmax %v0 step 0 values [3] until [end] : (!t) -> !t
}

// -----

// softmax_bf16_of_a_cluster: 1
!t = tensor<1024x100000xbf16>
tsr_graph.trace "function" values [0] strides [[]] (%v0: !t) {
  %v3 = tsr_graph.softmax %v0 step 0 values [3] until [end] : (!t) -> !t
}

// -----

// add_norm_bf16_of_a_cluster: 1
!t = tensor<1024x65536xbf16>
!r = tensor<65536xbf16>
tsr_graph.trace "function" values [0, 1, 2] strides [[], [], []] (%v0: !t, %v1: !t, %v2: !r) {
  %v3 = tsr_graph.add %v0, %v1 step 0 values [3] until [end] : (!t, !t) -> !t
  %v4 = tsr_graph.rms_norm %v3, %v2 step 1 values [4] until [end] : (!t, !r) -> !t
}

// -----

// rms_norm_f32_of_large_blocks: 1
!t = tensor<300x262144xf32>
!r = tensor<262144xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !t, %v1: !r) {
  %v3 = tsr_graph.rms_norm %v0, %v1 step 0 values [3] until [end] : (!t, !r) -> !t
}
