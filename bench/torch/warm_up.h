// The programs of warm_up in LibTorch.
#ifndef TESSERA_BENCH_TORCH_WARM_UP_H_
#define TESSERA_BENCH_TORCH_WARM_UP_H_

#include <string>
#include <vector>

/// Runs "mlp R D" or "block T D" (bench/programs.h) and prints how many iterations are done at these times after
/// `begin`, on the steady clock, and then when the first one was. kind: "eager", or "script" for TorchScript. Gives the
/// exit status.
int PrintWarmUp(const std::string& kind, const std::string& program, double begin, const std::vector<double>& times);

#endif  // TESSERA_BENCH_TORCH_WARM_UP_H_
