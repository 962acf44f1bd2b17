// The programs that several benchmarks of the tiers run, as functions of Graph IR with arguments of their own. A name
// is words: what it is, then its dims.
#ifndef TESSERA_BENCH_PROGRAMS_H_
#define TESSERA_BENCH_PROGRAMS_H_

#include <tessera/tessera.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness.h"

namespace bench {

struct Program {
  std::optional<tessera::Function> function;
  std::vector<tessera::Tensor> args;
  /// Where there is no function: eager ops.
  std::function<tessera::Tensor(const std::vector<tessera::Tensor>&)> eager = nullptr;

  /// One call whose result is there when it returns.
  void Run() const;
  /// Of the arguments.
  int64_t Bytes() const;
};

/// chain R C             ten element-wise ops
/// numbers R C           seven eager ops with host numbers that are always the same
/// add R C, exp R C, softmax R C, sums R C            one op, or a few reductions
/// scaled_softmax R C, softmax_by_hand R C, layer_norm R C, rms_norm R C  the second in five ops; norms of a sum
/// gemm M N K, gemm_nt M N K       one product; nt: b is [N, K]
/// gemm_gelu M N K, linear M N K   a product with bias and gelu, or with bias and relu
/// mlp R D               norm, two products with bias, gelu between, and the residual; four times as wide inside
/// attention H T E, attention_op H T E, attention_masked H T E  for q, k and v of [1, H, T, E]: five ops, the op, or
/// the op
///                       with a causal mask that is a tensor
/// block T D             a transformer block of 4 heads: norm, attention, residual, and the mlp above
/// Empty for any other name.
std::optional<Program> MakeProgram(const std::string& name);

/// "program NAME" as a served task, warmed up through all tiers that the options allow. "memory NAME" gives, in place
/// of seconds, the most MiB of the pool that were in use during a call, less the arguments. Empty for an unknown name.
Timed ProgramTask(const std::string& task);

}  // namespace bench

#endif  // TESSERA_BENCH_PROGRAMS_H_
