// From source text to Graph IR: functions whose types are written, so that defining them compiles them.
#include <tessera/lang.h>

#include <stdexcept>

#include "bench/benchmarks.h"

namespace bench {
namespace {

constexpr int kFunctions = 500;

// A layer with norms, products, a loop, a branch, slices and a comment: 21 lines.
std::string ProgramText() {
  std::string text;
  for (int i = 0; i < kFunctions; ++i) {
    text += "def block_" + std::to_string(i) +
            R"((x: Tensor["B", "S", 64, f32], w1: Tensor[64, 256, f32], w2: Tensor[256, 64, f32], n: int):
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    scale = 1 / sqrt(square(centred).mean(axis=-1, keepdims=True) + 1e-5)
    h = centred * scale
    # the two products
    h = gelu(h @ w1)
    h = h @ w2
    y = x + h
    for i in range(n):
        y = y * 0.5 + x
        if y.sum() > 100:
            y = y - 1
        else:
            y = y + 1
    first = y[0, 1:]
    total = first.sum() * 2
    z = where(y > total, y, -y)
    z = clip(z, -1, 1)
    return z

)";
  }
  return text;
}

}  // namespace

void LangFrontEnd() {
  const std::string text = ProgramText();
  double lines = 0;
  for (char c : text) lines += c == '\n';
  const auto run = Loop([&] {
    tessera::Session session;
    if (const tessera::Evaluation done = session.evaluate(text); !done.ok) throw std::runtime_error(done.text());
  });
  Figure figure{.name = "lang_front_end", .unit = Nanoseconds(lines), .goal = {Goal::value_at_most, 2000}};
  figure.note =
      "a line; 2000 are 500,000 lines a second. 500 functions of 21 lines with full types: read, checked, lowered to "
      "Graph IR and freed; no peer";
  Report(figure, RunRace({run}, Budget()), {});
}

}  // namespace bench
