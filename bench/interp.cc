// What an instruction of Graph IR costs when the arithmetic is nothing, and how fast text is read.
#include <tessera/tessera.h>

#include "bench/benchmarks.h"

namespace bench {
namespace {

using tessera::Function;
using tessera::Tensor;

constexpr int kChain = 1000;
constexpr int kIterations = 250;

/// x * a + b, over and over: with a = 0.5 and b = 1 it stays near 2.
std::string ChainText(int instructions, const std::string& type) {
  std::string text = "func @chain(%x: " + type + ", %a: " + type + ", %b: " + type + ") -> " + type + " {\n";
  std::string last = "%x";
  for (int i = 0; i < instructions; ++i) {
    const std::string name = "%v" + std::to_string(i);
    text += "  " + name + (i % 2 == 0 ? " = mul " + last + ", %a\n" : " = add " + last + ", %b\n");
    last = name;
  }
  return text + "  return " + last + "\n}\n";
}

std::string LoopText() {
  return R"(
func @loop(%x: tensor<f32>, %a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %n, %y = while (%i = 0, %v = %x) -> (tensor<i64>, tensor<f32>) {
    %go = lt %i, )" +
         std::to_string(kIterations) + R"(
    yield %go
  } do {
    %next = add %i, 1
    %m = mul %v, %a
    %s = add %m, %b
    yield %next, %s
  }
  return %y
}
)";
}

}  // namespace

void InterpOverhead() {
  const Tensor x = Tensor::scalar(1.0f), a = Tensor::scalar(0.5f), b = Tensor::scalar(1.0f);
  const std::vector<Tensor> args = {x, a, b};
  auto eager = Loop([&] {
    Tensor v = x;
    for (int i = 0; i < kChain / 2; ++i) {
      v = v * a;
      v = v + b;
    }
  });
  const Function chain = Function::parse(ChainText(kChain, "tensor<f32>")).value();
  Figure figure{.name = "interp_overhead/chain",
                .unit = Nanoseconds(kChain),
                .goal = {Goal::value_at_most, 60},
                .note = "one of 1000 dependent mul and add on f32 scalars"};
  Report(figure, RunRace({Loop([&] { chain(args); }), eager}, Budget()), {"the same ops called eagerly"});

  auto eager_loop = Loop([&] {
    Tensor i = Tensor::scalar(int64_t{0});
    Tensor v = x;
    while ((i < kIterations).item<bool>()) {
      i = i + 1;
      Tensor m = v * a;
      v = m + b;
    }
  });
  const Function loop = Function::parse(LoopText()).value();
  figure.name = "interp_overhead/while";
  figure.unit = Nanoseconds(4 * kIterations);
  figure.note = "one of the lt, add, mul and add in each of 250 turns of a while loop; its yields are not counted";
  Report(figure, RunRace({Loop([&] { loop(args); }), eager_loop}, Budget()), {"the same ops called eagerly"});
}

void Parse() {
  const std::string text = ChainText(10'000, "tensor<B x 768 x f32>");
  auto parse = Loop([&] { tessera::Module::parse(text).value(); });
  Figure figure{.name = "parse", .unit = Rate("MB/s", static_cast<double>(text.size()) * 1e-6)};
  figure.note = "text of 10000 mul and add on tensor<B x 768 x f32>: parsed, types inferred, verified; no peer";
  Report(figure, RunRace({parse}, Budget() / 2), {});
}

}  // namespace bench
