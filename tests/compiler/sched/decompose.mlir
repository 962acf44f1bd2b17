// tsr-decompose: each op that it takes apart (update_checks.py writes the checks)
// RUN: tessera-opt %s --split-input-file --tsr-decompose | FileCheck %s

// One reduction.
// CHECK-LABEL: tsr_graph.trace "sum"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.reduce "sum" %in0 rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<8x1xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "sum" values [0] strides [[]] (%v0: tensor<8x16xf32>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides [[]] row 1 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xf32>) -> (tensor<8x1xf32>) {
    %y = tsr_graph.sum %in0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x16xf32>) -> tensor<8x1xf32>
    tsr_sched.yield %y : tensor<8x1xf32>
  }
}

// -----
// The dims go: a reshape over dims of 1.
// CHECK-LABEL: tsr_graph.trace "mean"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.reduce "mean" %in0 rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %1 = tsr_graph.reshape %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "mean" values [0] strides [[]] (%v0: tensor<8x16xf32>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides [[]] row 1 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xf32>) -> (tensor<8xf32>) {
    %y = tsr_graph.mean %in0 {axes = array<i64: -1>} : (tensor<8x16xf32>) -> tensor<8xf32>
    tsr_sched.yield %y : tensor<8xf32>
  }
}

// -----
// All dims, none of which stay.
// CHECK-LABEL: tsr_graph.trace "max"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides {{\[}}[]] row 2
// CHECK-NEXT:     %0 = tsr_graph.reduce "max" %in0 rank 2 : tensor<8x16xf32> -> tensor<1x1xf32>
// CHECK-NEXT:     %1 = tsr_graph.reshape %0
// CHECK-NEXT:     tsr_sched.yield %1 : tensor<f32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "max" values [0] strides [[]] (%v0: tensor<8x16xf32>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides [[]] row 2 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xf32>) -> (tensor<f32>) {
    %y = tsr_graph.max %in0 : (tensor<8x16xf32>) -> tensor<f32>
    tsr_sched.yield %y : tensor<f32>
  }
}

// -----
// What only compares needs no wider dtype.
// CHECK-LABEL: tsr_graph.trace "min"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.reduce "min" %in0 rank 1 : tensor<8x16xbf16> -> tensor<8x1xbf16>
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<8x1xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "min" values [0] strides [[]] (%v0: tensor<8x16xbf16>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides [[]] row 1 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xbf16>) -> (tensor<8x1xbf16>) {
    %y = tsr_graph.min %in0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x16xbf16>) -> tensor<8x1xbf16>
    tsr_sched.yield %y : tensor<8x1xbf16>
  }
}

// -----
// About the mean, in a second pass; divided by one element less.
// CHECK-LABEL: tsr_graph.trace "var"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.reduce "mean" %in0 rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %1 = tsr_graph.sub %in0, %0
// CHECK-NEXT:     %2 = tsr_graph.mul %1, %1
// CHECK-NEXT:     %3 = tsr_graph.reduce "mean" %2 rank 1 correction 1.000000e+00 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     tsr_sched.yield %3 : tensor<8x1xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "var" values [0] strides [[]] (%v0: tensor<8x16xf32>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides [[]] row 1 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xf32>) -> (tensor<8x1xf32>) {
    %y = tsr_graph.var %in0 {axes = array<i64: 1>, keepdims = true, correction = 1.0 : f64} : (tensor<8x16xf32>) -> tensor<8x1xf32>
    tsr_sched.yield %y : tensor<8x1xf32>
  }
}

// -----
// Where the largest element is infinite, zero is subtracted in its place.
// CHECK-LABEL: tsr_graph.trace "logsumexp"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.reduce "max" %in0 rank 1 loose : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %1 = tsr_graph.number 0.000000e+00 : tensor<f32>
// CHECK-NEXT:     %2 = tsr_graph.isfinite %0
// CHECK-NEXT:     %3 = tsr_graph.where %2, %0, %1
// CHECK-NEXT:     %4 = tsr_graph.sub %in0, %3
// CHECK-NEXT:     %5 = tsr_graph.exp %4
// CHECK-NEXT:     %6 = tsr_graph.reduce "sum" %5 rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %7 = tsr_graph.log %6
// CHECK-NEXT:     %8 = tsr_graph.add %7, %3
// CHECK-NEXT:     tsr_sched.yield %8 : tensor<8x1xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "logsumexp" values [0] strides [[]] (%v0: tensor<8x16xf32>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides [[]] row 1 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xf32>) -> (tensor<8x1xf32>) {
    %y = tsr_graph.logsumexp %in0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x16xf32>) -> tensor<8x1xf32>
    tsr_sched.yield %y : tensor<8x1xf32>
  }
}

// -----
// The largest element is subtracted; the exponential is computed once.
// CHECK-LABEL: tsr_graph.trace "softmax"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.reduce "max" %in0 rank 1 loose : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %1 = tsr_graph.sub %in0, %0
// CHECK-NEXT:     %2 = tsr_graph.exp %1 {weight}
// CHECK-NEXT:     %3 = tsr_graph.reduce "sum" %2 rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %4 = tsr_graph.reciprocal %3
// CHECK-NEXT:     %5 = tsr_graph.mul %2, %4
// CHECK-NEXT:     tsr_sched.yield %5 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "softmax" values [0] strides [[]] (%v0: tensor<8x16xf32>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides [[]] row 1 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xf32>) -> (tensor<8x16xf32>) {
    %y = tsr_graph.softmax %in0 {axis = -1 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    tsr_sched.yield %y : tensor<8x16xf32>
  }
}

// -----
// Narrow floats are computed in f32 and rounded once.
// CHECK-LABEL: tsr_graph.trace "log_softmax"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.cast %in0
// CHECK-NEXT:     %1 = tsr_graph.reduce "max" %0 rank 1 loose : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %2 = tsr_graph.sub %0, %1
// CHECK-NEXT:     %3 = tsr_graph.exp %2 {weight}
// CHECK-NEXT:     %4 = tsr_graph.reduce "sum" %3 rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %5 = tsr_graph.log %4
// CHECK-NEXT:     %6 = tsr_graph.sub %2, %5
// CHECK-NEXT:     %7 = tsr_graph.cast %6
// CHECK-NEXT:     tsr_sched.yield %7 : tensor<8x16xf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "log_softmax" values [0] strides [[]] (%v0: tensor<8x16xf16>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides [[]] row 1 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xf16>) -> (tensor<8x16xf16>) {
    %y = tsr_graph.log_softmax %in0 {axis = -1 : i64} : (tensor<8x16xf16>) -> tensor<8x16xf16>
    tsr_sched.yield %y : tensor<8x16xf16>
  }
}

// -----
// Weight and bias.
// CHECK-LABEL: tsr_graph.trace "layer_norm"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1, 2] outputs [9] strides {{\[}}[], [], []] row 1
// CHECK-NEXT:     %0 = tsr_graph.reduce "mean" %in0 rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %1 = tsr_graph.sub %in0, %0
// CHECK-NEXT:     %2 = tsr_graph.mul %1, %1
// CHECK-NEXT:     %3 = tsr_graph.number 1.000000e-05 : tensor<f32>
// CHECK-NEXT:     %4 = tsr_graph.reduce "mean" %2 rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %5 = tsr_graph.add %4, %3
// CHECK-NEXT:     %6 = tsr_graph.rsqrt %5
// CHECK-NEXT:     %7 = tsr_graph.mul %1, %6
// CHECK-NEXT:     %8 = tsr_graph.mul %7, %in1
// CHECK-NEXT:     %9 = tsr_graph.add %8, %in2
// CHECK-NEXT:     tsr_sched.yield %9 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "layer_norm" values [0, 1, 2] strides [[], [], []] (%v0: tensor<8x16xf32>, %v1: tensor<16xf32>, %v2: tensor<16xf32>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1, 2] outputs [9] strides [[], [], []] row 1 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xf32>, %in1 = %v1 : tensor<16xf32>, %in2 = %v2 : tensor<16xf32>) -> (tensor<8x16xf32>) {
    %y = tsr_graph.layer_norm %in0, %in1, %in2 {dims = 1 : i64, eps = 1.0e-05 : f64} : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    tsr_sched.yield %y : tensor<8x16xf32>
  }
}

// -----
// About zero; over two dims; without eps, the default of the op; a bf16 weight.
// CHECK-LABEL: tsr_graph.trace "rms_norm"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1] outputs [9] strides {{\[}}[], []] row 2
// CHECK-NEXT:     %0 = tsr_graph.cast %in0
// CHECK-NEXT:     %1 = tsr_graph.mul %0, %0
// CHECK-NEXT:     %2 = tsr_graph.number 9.9999999999999995E-7 : tensor<f32>
// CHECK-NEXT:     %3 = tsr_graph.reduce "mean" %1 rank 2 : tensor<8x16xf32> -> tensor<1x1xf32>
// CHECK-NEXT:     %4 = tsr_graph.add %3, %2
// CHECK-NEXT:     %5 = tsr_graph.rsqrt %4
// CHECK-NEXT:     %6 = tsr_graph.mul %0, %5
// CHECK-NEXT:     %7 = tsr_graph.cast %in1
// CHECK-NEXT:     %8 = tsr_graph.mul %6, %7
// CHECK-NEXT:     %9 = tsr_graph.cast %8
// CHECK-NEXT:     tsr_sched.yield %9 : tensor<8x16xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "rms_norm" values [0, 1] strides [[], []] (%v0: tensor<8x16xbf16>, %v1: tensor<8x16xbf16>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1] outputs [9] strides [[], []] row 2 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xbf16>, %in1 = %v1 : tensor<8x16xbf16>) -> (tensor<8x16xbf16>) {
    %y = tsr_graph.rms_norm %in0, %in1 {dims = 2 : i64} : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
    tsr_sched.yield %y : tensor<8x16xbf16>
  }
}

// -----
// What is element-wise stays as it is.
// CHECK-LABEL: tsr_graph.trace "exp"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.exp %in0
// CHECK-NEXT:     tsr_sched.yield %0 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "exp" values [0] strides [[]] (%v0: tensor<8x16xf32>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides [[]] row 1 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xf32>) -> (tensor<8x16xf32>) {
    %y = tsr_graph.exp %in0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
    tsr_sched.yield %y : tensor<8x16xf32>
  }
}

// -----
// A softmax that was written by hand.
// CHECK-LABEL: tsr_graph.trace "by_hand"
// CHECK-NEXT:   %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.reduce "max" %in0 rank 1 loose : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %1 = tsr_graph.sub %in0, %0
// CHECK-NEXT:     %2 = tsr_graph.exp %1 {weight}
// CHECK-NEXT:     %3 = tsr_graph.reduce "sum" %2 rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %4 = tsr_graph.reciprocal %3
// CHECK-NEXT:     %5 = tsr_graph.mul %2, %4
// CHECK-NEXT:     tsr_sched.yield %5 : tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "by_hand" values [0] strides [[]] (%v0: tensor<8x16xf32>) {
  %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [9] strides [[]] row 1 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xf32>) -> (tensor<8x16xf32>) {
    %m = tsr_graph.max %in0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x16xf32>) -> tensor<8x1xf32>
    %d = tsr_graph.sub %in0, %m : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
    %e = tsr_graph.exp %d : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %s = tsr_graph.sum %e {axes = array<i64: 1>, keepdims = true} : (tensor<8x16xf32>) -> tensor<8x1xf32>
    %y = tsr_graph.div %e, %s : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
    tsr_sched.yield %y : tensor<8x16xf32>
  }
}

// -----
// The exponentials are needed as they are.
// CHECK-LABEL: tsr_graph.trace "not_softmax"
// CHECK-NEXT:   %v8, %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [8, 9] strides {{\[}}[]] row 1
// CHECK-NEXT:     %0 = tsr_graph.reduce "max" %in0 rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %1 = tsr_graph.sub %in0, %0
// CHECK-NEXT:     %2 = tsr_graph.exp %1
// CHECK-NEXT:     %3 = tsr_graph.reduce "sum" %2 rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
// CHECK-NEXT:     %4 = tsr_graph.div %2, %3
// CHECK-NEXT:     tsr_sched.yield %2, %4 : tensor<8x16xf32>, tensor<8x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
tsr_graph.trace "not_softmax" values [0] strides [[]] (%v0: tensor<8x16xf32>) {
  %v8, %v9 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [8, 9] strides [[]] row 1 lanes 8 grain 1
      (%in0 = %v0 : tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    %m = tsr_graph.max %in0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x16xf32>) -> tensor<8x1xf32>
    %d = tsr_graph.sub %in0, %m : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
    %e = tsr_graph.exp %d : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %s = tsr_graph.sum %e {axes = array<i64: 1>, keepdims = true} : (tensor<8x16xf32>) -> tensor<8x1xf32>
    %y = tsr_graph.div %e, %s : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
    tsr_sched.yield %e, %y : tensor<8x16xf32>, tensor<8x16xf32>
  }
}
