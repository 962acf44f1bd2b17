// A training step as people write it by hand: a residual network of small layers, forward, backward, and stochastic
// gradient descent with clipping, weight decay and Nesterov's momentum. 30 ops a layer and 4 for the loss. Nothing in
// it knows of traces.
#ifndef TESSERA_BENCH_TRACING_MLP_H_
#define TESSERA_BENCH_TRACING_MLP_H_

#include <tessera/tessera.h>

#include <string>
#include <vector>

namespace bench {

constexpr int kOpsPerLayer = 30;
constexpr int kOpsPerLoss = 4;

class Mlp {
 public:
  Mlp(int layers, int64_t width);
  /// One step on [rows, width] or [B, S, width]; gives the loss, which the caller may read.
  tessera::Tensor Step(const tessera::Tensor& x, const tessera::Tensor& y);

 private:
  struct Parameter {
    tessera::Tensor value, momentum;
    void Update(const tessera::Tensor& gradient, double rate);
  };
  struct Layer {
    Parameter weight, bias;
    tessera::Tensor input, active;  // kept for the way back
  };
  std::vector<Layer> layers_;
  int64_t steps_ = 0;
};

/// The same step as Graph IR: @step(x, y) with the parameters in buffers, for x of any [B, S, width].
tessera::Function MlpFunction(int layers, int64_t width);

/// Numbers between -scale and scale, the same for the same seed.
tessera::Tensor Numbers(const tessera::Dims& dims, uint32_t seed, float scale = 1);

}  // namespace bench

#endif  // TESSERA_BENCH_TRACING_MLP_H_
