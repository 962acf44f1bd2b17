// Which way do the stripes go? A small convolutional network on pictures that are made as they are needed.
#include <tessera/nn.h>
#include <tessera/optim.h>
#include <tessera/tessera.h>

#include <cstdio>

using namespace tessera;

int main() {
  manual_seed(1);
  nn::Params params(/*seed=*/1);
  nn::Conv first(params / "first", 1, 8, {3, 3}, {2, 2}, {1, 1}),
      second(params / "second", 8, 16, {3, 3}, {2, 2}, {1, 1});
  nn::Linear out(params / "out", 16, 4);
  optim::AdamW optimizer(params, {.rate = 3e-3, .decay = 0.01});
  const int64_t batch = 64, side = 16;
  const Tensor row = iota({1, side, side}, 1, 0, 1, f32), column = iota({1, side, side}, 2, 0, 1, f32);
  for (int step = 1; step <= 300; ++step) {
    // Stripes at 0, 45, 90 or 135 degrees, anywhere, in noise.
    const Tensor label = randint(0, 4, {batch}), angle = cast(label, f32).reshape({batch, 1, 1}) * (3.14159265 / 4);
    const Tensor phase = rand({batch, 1, 1}) * 6.28;
    const Tensor stripes = sin((row * cos(angle) + column * sin(angle)) * 1.2 + phase);
    const Tensor x = (stripes + randn({batch, side, side}) * 0.5).unsqueeze({1});
    Tensor logits;
    auto [loss, grads] = nn::value_and_grad(params, [&] {
      const Tensor h = relu(second(relu(first(x))));
      logits = out(mean(square(h), {2, 3}));
      return mean(cross_entropy(logits, label));
    });
    optimizer.step(grads);
    if (step % 50 == 0) {
      const Tensor right = mean(cast(argmax(logits, 1) == label, f32));
      std::printf("step %3d  loss %.3f  right %.0f%%\n", step, loss.item<float>(), 100 * right.item<float>());
    }
  }
}
