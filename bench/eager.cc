// What one op costs when the arithmetic is nothing: dispatch, type inference, allocation and free.
#include <tessera/tessera.h>

#include <memory>

#include "bench/benchmarks.h"
#include "bench/peer_process.h"

namespace bench {
namespace {

using tessera::Tensor;

// Speaks the protocol of peer_serve.h.
constexpr const char* kNumpyPeer = R"(
import sys, time
import numpy as np
a = np.ones(64, np.float32)
b = np.ones(64, np.float32)
def add(n):
    start = time.perf_counter()
    for _ in range(n):
        a + b
    return time.perf_counter() - start
print('ready', flush=True)
for line in iter(sys.stdin.readline, ''):
    n, task = line.split(' ', 1)
    print('%.9e' % (add(int(n)) if task.strip() == 'add64' else -1.0), flush=True)
)";

constexpr const char* kNoTorch =
    "no LibTorch peer: tessera_bench_torch is not beside this program; bench/README.md says how to build it";

std::shared_ptr<PeerProcess> Torch() {
  return PeerProcess::Start({ProgramFolder() + "/tessera_bench_torch", "--serve"});
}

std::shared_ptr<PeerProcess> Numpy() {
  for (const char* python : {"python3", "/usr/bin/python3"})
    if (auto peer = PeerProcess::Start({"sh", "-c", "exec \"$0\" -c \"$1\" 2>/dev/null", python, kNumpyPeer}))
      return peer;
  return nullptr;
}

}  // namespace

void EagerSmall() {
  const Tensor a = tessera::ones({64});
  const Tensor b = tessera::ones({64});
  std::vector<Timed> contenders = {Loop([&] { Tensor c = a + b; })};
  std::vector<std::string> peers;
  Figure figure{.name = "eager_small", .unit = Nanoseconds(), .goal = {Goal::value_at_most, 250}};
  figure.note = "a + b on 64 f32, the result allocated and freed each time";
  if (auto torch = Torch()) {
    contenders.push_back(PeerProcess::Task(torch, "add64"));
    peers.push_back("LibTorch, inference mode");
  } else {
    figure.note += std::string("; ") + kNoTorch;
  }
  if (auto numpy = Numpy()) {
    contenders.push_back(PeerProcess::Task(numpy, "add64"));
    peers.push_back("NumPy, with Python's loop");
  } else {
    figure.note += "; no NumPy peer: python3 cannot import numpy";
  }
  Report(figure, RunRace(contenders, Budget()), peers);

  Figure number{.name = "eager_small/number", .unit = Nanoseconds(), .goal = {Goal::value_at_most, 250}};
  number.note = "a * 0.5 on 64 f32; the number is an operand of the call";
  Report(number, RunRace({Loop([&] { Tensor c = a * 0.5; })}, Budget() / 4), {});
}

void EagerViews() {
  const Tensor a = tessera::ones({64, 32});
  auto views = [&] {
    Tensor t = a.transpose();
    Tensor s = t[{{1, 9}}];
  };
  std::vector<Timed> contenders = {Loop(views)};
  std::vector<std::string> peers;
  Figure figure{.name = "eager_views", .unit = Nanoseconds()};
  figure.note = "a transpose and a slice of it; no elements move";
  if (auto torch = Torch()) {
    contenders.push_back(PeerProcess::Task(torch, "views"));
    peers.push_back("LibTorch, inference mode");
  } else {
    figure.note += std::string("; ") + kNoTorch;
  }
  Report(figure, RunRace(contenders, Budget() / 2), peers);
}

}  // namespace bench
