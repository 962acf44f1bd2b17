// The training library as a user links it: a line is fitted.
#include <tessera/data.h>
#include <tessera/nn.h>
#include <tessera/optim.h>
#include <tessera/tessera.h>
#include <tessera/train.h>

#include <cmath>
#include <cstdio>

using namespace tessera;

int main() {
  nn::Params params(1);
  nn::Linear line(params / "line", 1, 1);
  optim::Sgd sgd(params, {.rate = 0.1});
  const Tensor x = linspace(-1, 1, 32).reshape({32, 1}), y = x * 3.0 - 0.5;
  for (int i = 0; i < 300; ++i) sgd.step(nn::value_and_grad(params, [&] { return mean(square(line(x) - y)); }).grads);
  const float slope = line.weight->value.item<float>(), base = line.bias->value.item<float>();
  if (std::abs(slope - 3) < 1e-3 && std::abs(base + 0.5) < 1e-3) return 0;
  std::fprintf(stderr, "train: %g x %+g\n", slope, base);
  return 1;
}
