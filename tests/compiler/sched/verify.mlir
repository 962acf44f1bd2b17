// What the verifiers of tsr_sched refuse.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{has as many block arguments as operands}}
  %v1 = "tsr_sched.kernel"(%v0) ({
    %n = tsr_graph.number 1.0 : tensor<8xf32>
    tsr_sched.yield %n : tensor<8xf32>
  }) {name = "k0", position = 0 : i32, steps = array<i32: 0>, inputs = array<i32: 0>, outputs = array<i32: 1>,
      strides = [array<i64>], row = 0 : i64, lanes = 8 : i64, grain = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{block arguments have the types of the operands}}
  %v1 = "tsr_sched.kernel"(%v0) ({
  ^bb0(%x: tensor<8xf16>):
    %n = tsr_graph.number 1.0 : tensor<8xf32>
    tsr_sched.yield %n : tensor<8xf32>
  }) {name = "k0", position = 0 : i32, steps = array<i32: 0>, inputs = array<i32: 0>, outputs = array<i32: 1>,
      strides = [array<i64>], row = 0 : i64, lanes = 8 : i64, grain = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{ends with tsr_sched.yield}}
  %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides [[]] row 0 lanes 8 grain 1
      (%x = %v0 : tensor<8xf32>) -> (tensor<8xf32>) {
    %y = tsr_graph.exp %x : (tensor<8xf32>) -> tensor<8xf32>
  }
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{yields what it returns}}
  %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides [[]] row 0 lanes 8 grain 1
      (%x = %v0 : tensor<8xf32>) -> (tensor<8xf16>) {
    tsr_sched.yield %x : tensor<8xf32>
  }
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{names each operand and each result}}
  %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [] strides [[]] row 0 lanes 8 grain 1
      (%x = %v0 : tensor<8xf32>) -> (tensor<8xf32>) {
    tsr_sched.yield %x : tensor<8xf32>
  }
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{has strides for each operand}}
  %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides [] row 0 lanes 8 grain 1
      (%x = %v0 : tensor<8xf32>) -> (tensor<8xf32>) {
    tsr_sched.yield %x : tensor<8xf32>
  }
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{lanes are a power of two}}
  %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides [[]] row 0 lanes 6 grain 1
      (%x = %v0 : tensor<8xf32>) -> (tensor<8xf32>) {
    tsr_sched.yield %x : tensor<8xf32>
  }
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{expects parent op 'tsr_sched.kernel'}}
  tsr_sched.yield %v0 : tensor<8xf32>
}

// -----

tsr_graph.trace "t" values [0, 1] strides [[], []] (%v0: tensor<8x8xf32>, %v1: tensor<8x8xf32>) {
  // expected-error@+1 {{computes a left factor that its schedule does not copy}}
  %v2 = tsr_sched.kernel @k0 at 0 steps [0, 1] inputs [0, 1] outputs [2] strides [[], []] row 0 lanes 8 grain 1
      {product = {form = "dot", rows = 8 : i64, columns = 64 : i64, depth = 64 : i64, mr = 2 : i64, nr = 2 : i64}}
      (%x = %v0 : tensor<8x8xf32>, %w = %v1 : tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %h = tsr_graph.relu %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %y = tsr_graph.matmul %h, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    tsr_sched.yield %y : tensor<8x8xf32>
  }
}

// -----

tsr_graph.trace "t" values [0, 1] strides [[], []] (%v0: tensor<8x8xf32>, %v1: tensor<8x8xf32>) {
  // expected-error@+1 {{computes a left factor, and not element by element}}
  %v2 = tsr_sched.kernel @k0 at 0 steps [0, 1] inputs [0, 1] outputs [2] strides [[], []] row 0 lanes 8 grain 1
      {product = {form = "packed", rows = 8 : i64, columns = 64 : i64, depth = 64 : i64, mr = 2 : i64, nr = 16 : i64}}
      (%x = %v0 : tensor<8x8xf32>, %w = %v1 : tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %h = tsr_graph.softmax %x {axis = -1 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %y = tsr_graph.matmul %h, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    tsr_sched.yield %y : tensor<8x8xf32>
  }
}

// -----

tsr_graph.trace "t" values [0, 1] strides [[], []] (%v0: tensor<8x8xf32>, %v1: tensor<8x8xf32>) {
  // expected-error@+1 {{computes a left factor that is transposed}}
  %v2 = tsr_sched.kernel @k0 at 0 steps [0, 1] inputs [0, 1] outputs [2] strides [[], []] row 0 lanes 8 grain 1
      {product = {form = "packed", rows = 8 : i64, columns = 64 : i64, depth = 64 : i64, mr = 2 : i64, nr = 16 : i64}}
      (%x = %v0 : tensor<8x8xf32>, %w = %v1 : tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %h = tsr_graph.relu %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %y = tsr_graph.matmul %h, %w {transpose_a = true} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    tsr_sched.yield %y : tensor<8x8xf32>
  }
}

// -----

tsr_graph.trace "t" values [0, 1] strides [[], []] (%v0: tensor<8x8xf32>, %v1: tensor<8x8xf32>) {
  // expected-error@+1 {{computes the left factor of the first of two products}}
  %v2 = tsr_sched.kernel @k0 at 0 steps [0, 1, 2] inputs [0, 1] outputs [2] strides [[], []] row 0 lanes 8 grain 1
      {product = {form = "packed", rows = 8 : i64, columns = 64 : i64, depth = 64 : i64, mr = 2 : i64, nr = 16 : i64}}
      (%x = %v0 : tensor<8x8xf32>, %w = %v1 : tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %h = tsr_graph.relu %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %y = tsr_graph.matmul %h, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %z = tsr_graph.matmul %y, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    tsr_sched.yield %z : tensor<8x8xf32>
  }
}

// -----

tsr_graph.trace "t" values [0, 2] strides [[], []] (%v0: tensor<8xf32>, %v2: tensor<4xf32>) {
  // expected-error@+1 {{writes a part of an operand for each update}}
  %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 2] outputs [1] strides [[], []] row 0 updates [[0, 0, 1]] lanes 8 grain 1
      (%x = %v0 : tensor<8xf32>, %u = %v2 : tensor<4xf32>) -> (tensor<8xf32>) {
    %y = tsr_graph.exp %u : (tensor<4xf32>) -> tensor<4xf32>
    tsr_sched.yield %y : tensor<4xf32>
  }
}

// -----

tsr_graph.trace "t" values [0, 2] strides [[], []] (%v0: tensor<8xf32>, %v2: tensor<4xf32>) {
  // expected-error@+1 {{writes a part of an operand for each update}}
  %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 2] outputs [1] strides [[], []] row 0 updates [[0, 1, 1, 0]] lanes 8 grain 1
      (%x = %v0 : tensor<8xf32>, %u = %v2 : tensor<4xf32>) -> (tensor<8xf32>) {
    %y = tsr_graph.exp %u : (tensor<4xf32>) -> tensor<4xf32>
    tsr_sched.yield %y : tensor<4xf32>
  }
}

// -----

tsr_graph.trace "t" values [0, 2] strides [[], []] (%v0: tensor<8xf32>, %v2: tensor<4xf32>) {
  // expected-error@+1 {{writes a part of an operand for each update}}
  %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 2] outputs [1] strides [[], []] row 0 updates [[0, 0, 1, 1]] lanes 8 grain 1
      (%x = %v0 : tensor<8xf32>, %u = %v2 : tensor<4xf32>) -> (tensor<8xf32>) {
    %y = tsr_graph.exp %u : (tensor<4xf32>) -> tensor<4xf32>
    tsr_sched.yield %y : tensor<4xf32>
  }
}

// -----
// Words are of bf16.
tsr_graph.trace "t" values [0, 1] strides [[], []] (%v0: tensor<8x16xf32>, %v1: tensor<16x8xbf16>) {
  // expected-error@+1 {{has words of two elements where factors or results are not bf16, or for whole rows}}
  %v2 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1] outputs [2] strides [[], []] row 0 lanes 8 grain 1
      {product = {form = "packed", rows = 8 : i64, columns = 64 : i64, depth = 64 : i64, mr = 2 : i64, nr = 16 : i64, words = 1 : i64}}
      (%x = %v0 : tensor<8x16xf32>, %y = %v1 : tensor<16x8xbf16>) -> (tensor<8x8xf32>) {
    %0 = tsr_graph.matmul %x, %y : (tensor<8x16xf32>, tensor<16x8xbf16>) -> tensor<8x8xf32>
    tsr_sched.yield %0 : tensor<8x8xf32>
  }
}

// -----
// A piece of the sum has whole words, and rows come in pairs with two of them.
tsr_graph.trace "t" values [0, 1] strides [[], []] (%v0: tensor<8x16xbf16>, %v1: tensor<16x8xbf16>) {
  // expected-error@+1 {{has a matrix product that cannot be cut as its schedule says}}
  %v2 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1] outputs [2] strides [[], []] row 0 lanes 8 grain 1
      {product = {form = "packed", rows = 8 : i64, columns = 64 : i64, depth = 63 : i64, mr = 2 : i64, nr = 16 : i64, words = 1 : i64}}
      (%x = %v0 : tensor<8x16xbf16>, %y = %v1 : tensor<16x8xbf16>) -> (tensor<8x8xbf16>) {
    %0 = tsr_graph.matmul %x, %y : (tensor<8x16xbf16>, tensor<16x8xbf16>) -> tensor<8x8xbf16>
    tsr_sched.yield %0 : tensor<8x8xbf16>
  }
}

// -----

tsr_graph.trace "t" values [0, 1] strides [[], []] (%v0: tensor<8x16xbf16>, %v1: tensor<16x8xbf16>) {
  // expected-error@+1 {{has a matrix product that cannot be cut as its schedule says}}
  %v2 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1] outputs [2] strides [[], []] row 0 lanes 8 grain 1
      {product = {form = "packed", rows = 9 : i64, columns = 64 : i64, depth = 64 : i64, mr = 3 : i64, nr = 16 : i64, words = 2 : i64}}
      (%x = %v0 : tensor<8x16xbf16>, %y = %v1 : tensor<16x8xbf16>) -> (tensor<8x8xbf16>) {
    %0 = tsr_graph.matmul %x, %y : (tensor<8x16xbf16>, tensor<16x8xbf16>) -> tensor<8x8xbf16>
    tsr_sched.yield %0 : tensor<8x8xbf16>
  }
}

// -----
// Scales are there for whole blocks of 128 elements along the sum.
tsr_graph.trace "t" values [0, 1, 2] strides [[], [], []]
    (%v0: tensor<128x256xf8E4M3FN>, %v1: tensor<128x256xf8E4M3FN>, %v2: tensor<128x4x1xf32>) {
  // expected-error@+1 {{has scales that do not fit the blocks of their factor}}
  %v3 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1, 2] outputs [3] strides [[], [], []] row 0 lanes 8 grain 1
      {product = {form = "tensor", rows = 128 : i64, columns = 128 : i64, depth = 128 : i64, stages = 4 : i64, apart = 0 : i64}}
      (%x = %v0 : tensor<128x256xf8E4M3FN>, %w = %v1 : tensor<128x256xf8E4M3FN>, %s = %v2 : tensor<128x4x1xf32>) -> (tensor<128x128xbf16>) {
    %0 = tsr_graph.matmul %x, %w, %s {scales = array<i64: 2, 1, 0, 0, 1, -1, 1, 0, -1, -1>, transpose_b = true} : (tensor<128x256xf8E4M3FN>, tensor<128x256xf8E4M3FN>, tensor<128x4x1xf32>) -> tensor<128x128xbf16>
    tsr_sched.yield %0 : tensor<128x128xbf16>
  }
}

// -----
// Of the right factor those of single rows would be scales of single columns.
tsr_graph.trace "t" values [0, 1, 2] strides [[], [], []]
    (%v0: tensor<128x256xf8E4M3FN>, %v1: tensor<128x256xf8E4M3FN>, %v2: tensor<128x2x1xf32>) {
  // expected-error@+1 {{has scales for single columns of a product}}
  %v3 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1, 2] outputs [3] strides [[], [], []] row 0 lanes 8 grain 1
      {product = {form = "tensor", rows = 128 : i64, columns = 128 : i64, depth = 128 : i64, stages = 4 : i64, apart = 0 : i64}}
      (%x = %v0 : tensor<128x256xf8E4M3FN>, %w = %v1 : tensor<128x256xf8E4M3FN>, %s = %v2 : tensor<128x2x1xf32>) -> (tensor<128x128xbf16>) {
    %0 = tsr_graph.matmul %x, %w, %s {scales = array<i64: -1, 1, 0, -1, -1, 2, 1, 0, 0, 1>, transpose_b = true} : (tensor<128x256xf8E4M3FN>, tensor<128x256xf8E4M3FN>, tensor<128x2x1xf32>) -> tensor<128x128xbf16>
    tsr_sched.yield %0 : tensor<128x128xbf16>
  }
}

// -----
// A tile of 192 columns has parts that lie in two blocks.
tsr_graph.trace "t" values [0, 1, 2] strides [[], [], []]
    (%v0: tensor<128x256xf8E4M3FN>, %v1: tensor<128x256xf8E4M3FN>, %v2: tensor<128x2x1xf32>) {
  // expected-error@+1 {{has scales for blocks that its schedule does not have}}
  %v3 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1, 2] outputs [3] strides [[], [], []] row 0 lanes 8 grain 1
      {product = {form = "tensor", rows = 128 : i64, columns = 192 : i64, depth = 128 : i64, stages = 4 : i64, apart = 0 : i64}}
      (%x = %v0 : tensor<128x256xf8E4M3FN>, %w = %v1 : tensor<128x256xf8E4M3FN>, %s = %v2 : tensor<128x2x1xf32>) -> (tensor<128x128xbf16>) {
    %0 = tsr_graph.matmul %x, %w, %s {scales = array<i64: 2, 1, 0, 0, 1, -1, 1, 0, -1, -1>, transpose_b = true} : (tensor<128x256xf8E4M3FN>, tensor<128x256xf8E4M3FN>, tensor<128x2x1xf32>) -> tensor<128x128xbf16>
    tsr_sched.yield %0 : tensor<128x128xbf16>
  }
}
