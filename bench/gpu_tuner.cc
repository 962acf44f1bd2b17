// gpu_tuner_model: how good the cut is that the model of costs chooses for a product on tensor cores
// (sched/product.cc), before anything was measured: against every cut that the tuner could try, for shapes that the
// model was not made from.
#include <cmath>
#include <random>
#include <string>

#include "bench/benchmarks.h"
#include "bench/gpu.h"
#include "bench/gpu_processes.h"

namespace bench {

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
  std::mt19937_64 rng(20261118);
  const auto size = [&](double low, double high) {
    const double at = std::uniform_real_distribution<double>(std::log(low), std::log(high))(rng);
    return static_cast<int64_t>(std::exp(at)) / 8 * 8;
  };
  double worst = 1, logs = 0;
  int within = 0;
  std::string worst_shape, all;
  for (int i = 0; i < kShapes; ++i) {
    const int64_t m = size(512, 8192), n = size(512, 8192), k = size(256, 8192);
    const char* const program = i % 2 == 0 ? "bias_gelu_tanh" : "bias_residual";
    const std::string shape =
        std::string(program) + " " + std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k);
    const std::string task = "linear " + shape;
    std::vector<Timed> contenders = {PeerProcess::Task(model, task)};
    for (const Process& cut : cuts) contenders.push_back(PeerProcess::Task(cut, task));
    const Race race = RunRace(contenders, Budget());
    double part = 1;  // of the speed of the best
    for (const double ratio : race.ratios) part = std::min(part, ratio);
    logs += std::log(part);
    within += part >= 0.95;
    if (part < worst) {
      worst = part;
      worst_shape = shape;
    }
    all += (i > 0 ? ", " : "[") + JsonString(shape + ": " + std::to_string(part).substr(0, 5));
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
