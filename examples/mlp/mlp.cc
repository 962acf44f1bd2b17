// Two spirals and a small network that tells them apart.
#include <tessera/nn.h>
#include <tessera/optim.h>
#include <tessera/tessera.h>

#include <cstdio>

using namespace tessera;

int main() {
  manual_seed(1);
  nn::Params params(/*seed=*/1);
  nn::Linear in(params / "in", 2, 64, true, nn::kaiming(2)), hidden(params / "hidden", 64, 64, true, nn::kaiming(64)),
      out(params / "out", 64, 1);
  optim::AdamW optimizer(params, {.rate = 3e-3});
  for (int step = 1; step <= 2000; ++step) {
    const Tensor label = cast(rand({256, 1}) > 0.5, f32), turn = sqrt(rand({256, 1})) * 9.0;
    const Tensor angle = turn + label * 3.14159265 + randn({256, 1}) * 0.05;
    const Tensor x = concat({cos(angle) * turn, sin(angle) * turn}, 1) / 9.0;
    Tensor logit;
    auto [loss, grads] = nn::value_and_grad(params, [&] {
      logit = out(relu(hidden(relu(in(x)))));
      return mean(softplus(logit) - logit * label);
    });
    optimizer.step(grads);
    if (step % 200 == 0) {
      const Tensor right = mean(cast((logit > 0.0) == (label > 0.5), f32));
      std::printf("step %4d  loss %.3f  right %.0f%%\n", step, loss.item<float>(), 100 * right.item<float>());
    }
  }
}
