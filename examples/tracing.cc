// A training loop in plain C++ that gets faster while it runs: nothing in it says what to record or to compile. The
// batch changes its size on the way. docs/tracing.md explains what is printed; TESSERA_DEBUG=1 shows decisions as they
// are taken, and TESSERA_TIER=1 switches everything off.
#include <tessera/tessera.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

using namespace tessera;

namespace {

// Two layers, trained to tell whether the numbers of a row sum to more than 0. The gradients are written by hand.
struct Model {
  Tensor w1 = randn({4, 8}) * 0.3, b1 = zeros({8});
  Tensor w2 = randn({8, 1}) * 0.3, b2 = zeros({1});

  Tensor Train(const Tensor& x, const Tensor& y, double rate) {
    Tensor h = tanh(matmul(x, w1) + b1);
    Tensor p = sigmoid(matmul(h, w2) + b2);
    Tensor error = (p - y) / static_cast<double>(x.dim(0));
    Tensor back = matmul(error, transpose(w2)) * (1.0 - square(h));
    w2 -= rate * matmul(transpose(h), error);
    b2 -= rate * sum(error, 0);
    w1 -= rate * matmul(transpose(x), back);
    b1 -= rate * sum(back, 0);
    return mean(abs(p - y));
  }
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Metric(const char* name) {
  for (const MetricValue& m : Runtime::metrics())
    if (m.name == name) return static_cast<double>(m.value);
  return 0;
}

}  // namespace

int main() {
  manual_seed(1);
  Model model;
  long step = 0;
  std::printf("     steps      rows  us per step  in versions  error\n");
  // Batches of `low` rows, then `low + 1` and so on up to `high`, and again.
  auto train = [&](int steps, int64_t low, int64_t high) {
    const double version_ops = Metric("version_ops"), tier1_ops = Metric("ops_executed"), start = Now();
    const long first = step;
    float error = 0;
    for (; step < first + steps; ++step) {
      Tensor x = randn({low + step % (high - low + 1), 4});
      Tensor y = cast(sum(x, 1, true) > 0.0, DType::f32);
      const double rate = 0.5 / (1.0 + 1e-3 * static_cast<double>(step));
      error = model.Train(x, y, rate).item<float>();
    }
    const double us = (Now() - start) / steps * 1e6;
    const double in_versions = Metric("version_ops") - version_ops, in_tier1 = Metric("ops_executed") - tier1_ops;
    std::printf("%5ld..%-5ld %2d to %-2d %12.1f %11.0f%%  %5.3f\n", first, step - 1, static_cast<int>(low),
                static_cast<int>(high), us, 100 * in_versions / (in_versions + in_tier1), error);
  };
  for (int steps : {10, 10, 20, 60, 900, 1000}) train(steps, 8, 8);
  for (int steps : {10, 90, 900, 1000}) train(steps, 12, 12);
  for (int steps : {10, 90, 900, 1000}) train(steps, 5, 20);
  std::printf("\n%s", Runtime::explain().c_str());
}
