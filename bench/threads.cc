// What the cores beyond the first bring. The peer is this program with one thread.
#include <tessera/tessera.h>

#include <stdexcept>

#include "bench/benchmarks.h"
#include "bench/machine.h"
#include "bench/peer_process.h"

namespace bench {
namespace {

using tessera::Tensor;

struct Case {
  const char* name;
  Tensor (*run)(const Tensor& x);
};
constexpr Case kCases[] = {
    {"matmul", [](const Tensor& x) { return tessera::matmul(x, x); }},
    {"add", [](const Tensor& x) { return x + x; }},
    {"exp", [](const Tensor& x) { return tessera::exp(x); }},
    {"softmax", [](const Tensor& x) { return tessera::softmax(x); }},
};

}  // namespace

Timed ThreadsTask(const std::string& task) {
  for (const Case& c : kCases)
    if (task == c.name) return Loop([run = c.run, x = tessera::ones({1024, 1024})] { Tensor y = run(x); });
  return {};
}

void CpuThreads() {
  auto one = PeerProcess::Start({ProgramFolder() + "/tessera_bench", "--serve", "threads"}, {"TESSERA_THREADS=1"});
  if (one == nullptr) throw std::runtime_error("the process with one thread does not start");
  for (const Case& c : kCases) {
    Figure figure{.name = std::string("cpu_threads/") + c.name, .unit = Milliseconds()};
    figure.note = "1024 x 1024 f32; threads here: " + std::to_string(Cores());
    Report(figure, RunRace({ThreadsTask(c.name), PeerProcess::Task(one, c.name)}, Budget() / 2), {"one thread"});
  }
}

}  // namespace bench
