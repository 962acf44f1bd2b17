// Ops that only touch each element once are as fast as memory is; a copy of as many bytes says how fast that is.
#include <tessera/tessera.h>

#include "bench/benchmarks.h"
#include "bench/handwritten.h"
#include "bench/team.h"

namespace bench {
namespace {

using tessera::Tensor;

constexpr int64_t kCount = int64_t{16} << 20;  // 64 MiB of f32
constexpr double kOperandBytes = 4.0 * kCount;

struct Case {
  const char* name;
  double bytes;  // read and written
  std::function<Tensor()> run;
};

}  // namespace

void CpuElementwise() {
  const Floats source(kCount * 3 / 2), destination(kCount * 3 / 2);
  const std::span<const float> values(source.data(), static_cast<size_t>(kCount));
  const Tensor a = Tensor::from(values, {kCount});
  const Tensor b = Tensor::from(values, {kCount});
  const Case cases[] = {
      {"add", 3 * kOperandBytes, [&] { return a + b; }},
      {"mul", 3 * kOperandBytes, [&] { return a * b; }},
      {"exp", 2 * kOperandBytes, [&] { return tessera::exp(a); }},
      {"sum", 1 * kOperandBytes, [&] { return tessera::sum(a); }},
  };
  for (const Case& c : cases) {
    const int64_t copied = static_cast<int64_t>(c.bytes / 2);
    Figure figure{.name = std::string("cpu_elementwise/") + c.name,
                  .unit = Rate("GB/s", c.bytes * 1e-9),
                  .goal = {Goal::ratio_at_least, 0.9},
                  .note = "bytes read and written, 64 MiB for each operand and the result"};
    const Race race = RunRace(
        {Loop([&] { Tensor r = c.run(); }), Loop([&] { ThreadedCopy(destination.data(), source.data(), copied); })},
        Budget());
    Report(figure, race, {"threaded memcpy of as many bytes"});
  }

  // exp again, where the arithmetic may be what limits it: against other implementations of it.
  std::vector<Timed> contenders = {Loop([&] { Tensor r = tessera::exp(a); })};
  std::vector<std::string> peers;
  Figure figure{.name = "cpu_elementwise/exp", .unit = Rate("GB/s", 2 * kOperandBytes * 1e-9)};
  auto add_peer = [&](const char* name, ExpLoop* loop) {
    peers.push_back(name);
    contenders.push_back(Loop([&source, &destination, loop] {
      AllCores().Run(kCount, 64, [&](int64_t begin, int64_t end) {
        loop(source.data() + begin, destination.data() + begin, end - begin);
      });
    }));
  };
  if (ExpLoop* loop = SleefExp())
    add_peer("SLEEF, 1 ulp, threaded", loop);
  else
    figure.note = "no SLEEF peer: libsleef.so.3 cannot be opened or has no function for this instruction set";
  if (ExpLoop* loop = HandwrittenExp()) add_peer("hand-written, threaded", loop);
  Report(figure, RunRace(contenders, Budget()), peers);
}

}  // namespace bench
