// What the verifiers of tsr_graph refuse.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{names each of its arguments: 1 arguments, 2 values}}
tsr_graph.trace "t" values [0, 1] strides [[]] (%v0: tensor<8xf32>) {
}

// -----

// expected-error@+1 {{has strides for each argument}}
tsr_graph.trace "t" values [0] strides [] (%v0: tensor<8xf32>) {
}

// -----

// expected-error@+1 {{array of lists of numbers}}
"tsr_graph.trace"() ({
^bb0(%v0: tensor<8xf32>):
}) {sym_name = "t", values = array<i32: 0>, strides = [1]} : () -> ()

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{takes 2 operands, not 1}}
  %v1 = tsr_graph.add %v0 step 0 : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{has one id for each result}}
  %0 = tsr_graph.exp %v0 step 0 values [1, 2] : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{has one result}}
  %0:2 = tsr_graph.exp %v0 step 0 : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{cannot broadcast 'tensor<8xf32>' to 'tensor<9xf32>'}}
  %v1 = tsr_graph.exp %v0 step 0 : (tensor<8xf32>) -> tensor<9xf32>
}

// -----

// Equal sizes of different symbols are not known to be equal.
tsr_graph.trace "t" values [0, 1] strides [[], []] (%v0: tensor<?xf32, [0]>, %v1: tensor<?xf32, [1]>) {
  // expected-error@+1 {{cannot broadcast}}
  %v2 = tsr_graph.add %v0, %v1 step 0 : (tensor<?xf32, [0]>, tensor<?xf32, [1]>) -> tensor<?xf32, [0]>
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<2x8xf32>) {
  // expected-error@+1 {{has an operand of a higher rank than its result}}
  %v1 = tsr_graph.exp %v0 step 0 : (tensor<2x8xf32>) -> tensor<8xf32>
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{must be variadic of tensor of a known rank}}
  %v1 = tsr_graph.exp %v0 step 0 : (tensor<8xf32>) -> f32
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8xf32>) {
  // expected-error@+1 {{requires attribute 'step'}}
  tsr_graph.step "branch" %v0 : (tensor<8xf32>) -> ()
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8x4xf32>) {
  // expected-error@+1 {{reduces at most all dims and keeps them}}
  %0 = tsr_graph.reduce "sum" %v0 rank 3 : tensor<8x4xf32> -> tensor<1x1xf32>
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8x4xf32>) {
  // expected-error@+1 {{reduces at most all dims and keeps them}}
  %0 = tsr_graph.reduce "sum" %v0 rank 1 : tensor<8x4xf32> -> tensor<8xf32>
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8x4xf32>) {
  // expected-error@+1 {{dim 1 of the result is not 1}}
  %0 = tsr_graph.reduce "sum" %v0 rank 1 : tensor<8x4xf32> -> tensor<8x4xf32>
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8x4xf32>) {
  // expected-error@+1 {{dim 0 of the result is not that of the operand}}
  %0 = tsr_graph.reduce "sum" %v0 rank 1 : tensor<8x4xf32> -> tensor<9x1xf32>
}

// -----

tsr_graph.trace "t" values [0] strides [[]] (%v0: tensor<8x4xf32>) {
  // expected-error@+1 {{has kind sum, mean, max, min, var or logsumexp, not product}}
  %0 = tsr_graph.reduce "product" %v0 rank 1 : tensor<8x4xf32> -> tensor<8x1xf32>
}
