// What the verifier of tsr_target refuses.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{has strides for each view}}
tsr_target.launch @k0 at 0 steps [0] inputs [0] outputs [1] dims [] strides [[]] tasks [-9] unit [] grain 1 scratch []

// -----

// expected-error@+1 {{has pairs for dims: a value and a dim of it}}
tsr_target.launch @k0 at 0 steps [0] inputs [0] outputs [1] dims [[0]] strides [[], []] tasks [0] unit [] grain 1
    scratch []

// -----

// expected-error@+1 {{has no entry 1 in dims}}
tsr_target.launch @k0 at 0 steps [0] inputs [0] outputs [1] dims [[0, 0]] strides [[], []] tasks [0, 1] unit [] grain 1
    scratch []

// -----

// expected-error@+1 {{has no entry 0 in dims}}
tsr_target.launch @k0 at 0 steps [0] inputs [0] outputs [1] dims [] strides [[], []] tasks [-9] unit [0] grain 1
    scratch []
