// The programs of warm_up in LibTorch.
#ifndef TESSERA_BENCH_TORCH_WARM_UP_H_
#define TESSERA_BENCH_TORCH_WARM_UP_H_

#include <string>

/// Runs "mlp R D" or "block T D" (bench/programs.h) and prints how many iterations are done at the times of
/// bench/warm_up.cc after `begin`, on the steady clock. kind: "eager", or "script" for TorchScript. Gives the exit
/// status.
int PrintWarmUp(const std::string& kind, const std::string& program, double begin);

#endif  // TESSERA_BENCH_TORCH_WARM_UP_H_
