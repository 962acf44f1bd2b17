// gpu_tuner_model: how good the cut is that the model of costs chooses for a product on tensor cores
// (sched/product.cc), before anything was measured: against every cut that the tuner could try, for shapes that the
// model was not made from. gpu_tuner_delay: how long steps of a program take while the tuner searches.
#include <tessera/tessera.h>

#include <array>
#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <thread>

#include "bench/benchmarks.h"
#include "bench/gpu.h"
#include "bench/gpu_processes.h"

namespace bench {
namespace {

using tessera::Runtime;
using tessera::Tensor;

/// The mean time of a step of an MLP block, from the first code of tier 3 on: until the tuner is done, or, where it is
/// off, for a while.
Timed DelayTask(int64_t m, int64_t n, int64_t k, bool tunes) {
  const auto normal = [](const tessera::Dims& dims, int64_t seed, double scale) {
    return tessera::random_normal(seed, 0, dims, 0, scale, tessera::f32).cast(tessera::bf16);
  };
  const std::vector<Tensor> args = {normal({m, k}, 1, 1), normal({k, n}, 2, 0.03), normal({n}, 3, 1),
                                    normal({n, k}, 4, 0.03), normal({k}, 5, 1)};
  return [args, tunes](int64_t) {
    constexpr double kLongest = 20, kWithout = 2;  // seconds
    const tessera::Function f =
        tessera::Function::parse(
            "func @mlp(%x: tensor<M x K x bf16>, %v: tensor<K x N x bf16>, %b: tensor<N x bf16>, %w: tensor<N x K x "
            "bf16>, %c: tensor<K x bf16>) -> tensor<M x K x bf16> {\n  %p = matmul %x, %v\n  %q = add %p, %b\n"
            "  %g = gelu_tanh %q\n  %r = matmul %g, %w\n  %s = add %r, %c\n  %y = add %s, %x\n  return %y\n}\n")
            .value();
    const auto step = [&] {
      const double start = Now();
      f(args);
      Runtime::synchronize(args[0].device()).ok();
      return Now() - start;
    };
    const auto is_told = [](const char* what) { return Runtime::explain().find(what) != std::string::npos; };
    const double start = Now();
    while (!is_told("tier 3") && Now() - start < kLongest)
      for (int i = 0; i < 20; ++i) step();
    const double begin = Now();
    double sum = 0;
    int64_t steps = 0;
    while (Now() - begin < (tunes ? kLongest : kWithout) && !(tunes && is_told("tuned: "))) {
      for (int i = 0; i < 50; ++i, ++steps) sum += step();
    }
    return sum / static_cast<double>(steps);
  };
}

}  // namespace

Timed GpuTunerTask(const std::string& task) {
  std::istringstream words(task);
  std::string name, which;
  int64_t m = 0, n = 0, k = 0;
  words >> name >> which >> m >> n >> k;
  return name == "delay" ? DelayTask(m, n, k, which == "tuned") : Timed();
}

void GpuTunerDelay() {
  CheckGpu();
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{4096, 4096, 1024}, {8192, 16384, 4096}}) {
    // One after the other: each is to have the device for itself.
    const std::string shape = std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k);
    const Settings slow_start = {"TESSERA_CACHE=false", "TESSERA_BACKGROUND=true"};
    const double searching = PeerProcess::Task(StartGpu(Tier::all, slow_start), "delay tuned " + shape)(1);
    Settings off = slow_start;
    off.push_back("TESSERA_TUNE_BUDGET=0");
    const double alone = PeerProcess::Task(StartGpu(Tier::all, off), "delay untuned " + shape)(1);
    Figure figure{
        .name = "gpu_tuner_delay/mlp_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
        .unit = Milliseconds(),
        .peer = "nothing is tried",
        .ratio = alone / searching,
        .goal = {Goal::ratio_at_least, 0.98},
        .note = "a step, on average, while other ways to cut its products are tried"};
    figure.ours.median = figure.ours.best = searching;
    figure.theirs.median = figure.theirs.best = alone;
    Report(figure);
  }
}

void GpuTunerModel() {
  CheckGpu();
  // Rows and columns of a tile, pieces in the ring, whether groups are apart, blocks that share: what the tuner's space
  // has for sm_90a.
  std::vector<Process> cuts;
  for (const char* cut :
       {"rows=128,columns=128,stages=6,apart=1,cluster=2", "rows=128,columns=128,stages=6,apart=1,cluster=0",
        "rows=128,columns=256,stages=4,apart=0,cluster=0", "rows=128,columns=256,stages=4,apart=0,cluster=2",
        "rows=256,columns=128,stages=4,apart=0,cluster=2", "rows=128,columns=128,stages=6,apart=0,cluster=0",
        "rows=128,columns=64,stages=6,apart=0,cluster=0"})
    cuts.push_back(StartGpu(Tier::all, {"TESSERA_TUNE_BUDGET=0", "TESSERA_BACKGROUND=false",
                                        std::string("TESSERA_SCHEDULE=*:form=tensor,") + cut}));
  const Process model =
      StartGpu(Tier::all, {"TESSERA_TUNE_BUDGET=0", "TESSERA_BACKGROUND=false", "TESSERA_SCHEDULE=*:form=tensor"});
  constexpr int kShapes = 50;
  std::mt19937_64 rng(5);  // other shapes than those that the model was made from
  const auto size = [&](double low, double high, int64_t unit) {
    const double at = std::uniform_real_distribution<double>(std::log(low), std::log(high))(rng);
    return static_cast<int64_t>(std::exp(at)) / unit * unit;
  };
  double worst = 1, logs = 0;
  int within = 0;
  std::string worst_shape, all;
  for (int i = 0; i < kShapes; ++i) {
    // Half of them as models have them, with rows that begin at lines of memory.
    const int64_t unit = i % 4 < 2 ? 64 : 8;
    const int64_t m = size(512, 8192, unit), n = size(512, 8192, unit), k = size(256, 8192, unit);
    const char* const program = i % 2 == 0 ? "bias_gelu_tanh" : "bias_residual";
    const std::string shape =
        std::string(program) + " " + std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k);
    const std::string task = "linear " + shape;
    std::vector<Timed> contenders = {PeerProcess::Task(model, task)};
    for (const Process& cut : cuts) contenders.push_back(PeerProcess::Task(cut, task));
    // Compilers, of which each process has one, run at the same time.
    std::vector<std::thread> compiling;
    compiling.reserve(contenders.size());
    for (const Timed& contender : contenders) compiling.emplace_back([&contender] { contender(1); });
    for (std::thread& one : compiling) one.join();
    const Race race = RunRace(contenders, Budget());
    double part = 1;  // of the speed of the best
    for (const double ratio : race.ratios) part = std::min(part, ratio);
    logs += std::log(part);
    within += part >= 0.95;
    if (part < worst) {
      worst = part;
      worst_shape = shape;
    }
    // Beside it, what the choice does of the speed of each cut.
    std::string of_each;
    for (const double ratio : race.ratios) of_each += " " + std::to_string(ratio).substr(0, 5);
    all += (i > 0 ? ", " : "[") + JsonString(shape + ": " + std::to_string(part).substr(0, 5) + ";" + of_each);
    Progress(shape + " " + std::to_string(part));
  }
  Figure figure{.name = "gpu_tuner_model/mean",
                .unit = {"of the best", 1, false},
                .peer = "the fastest of seven cuts",
                .ratio = std::exp(logs / kShapes),
                .goal = {Goal::ratio_at_least, 0.95}};
  figure.ours.median = figure.ours.best = figure.ratio;
  figure.theirs.median = figure.theirs.best = 1;
  figure.more = {{"within_95_percent", std::to_string(within)},
                 {"shapes", std::to_string(kShapes)},
                 {"worst_shape", JsonString(worst_shape)},
                 {"all", all + "]"}};
  Report(figure);
  figure.name = "gpu_tuner_model/worst";
  figure.ratio = figure.ours.median = figure.ours.best = worst;
  figure.more.pop_back();
  Report(figure);
}

}  // namespace bench
