// Generated code: cpu_fused, compile_latency, symbolic.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "bench/benchmarks.h"
#include "bench/team.h"
#include "bench/tracing.h"

namespace bench {
namespace {

using tessera::Function;
using tessera::Tensor;

constexpr int64_t kSide = 4096;
constexpr double kBytes = 4.0 * kSide * kSide;

struct Program {
  const char* name;
  double operands;  // that must be read and written, each of 64 MiB
  Tensor (*run)(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& w, const Tensor& b);
};

// Each is at a place of its own; w and b are rows.
const Program kPrograms[] = {
    {"chain", 4,
     [](const Tensor& x, const Tensor& y, const Tensor& z, const Tensor&, const Tensor&) {
       return (x * y + z) * 0.5 + x;
     }},
    {"gelu", 2,
     [](const Tensor& x, const Tensor&, const Tensor&, const Tensor& w, const Tensor& b) {
       return tessera::gelu(x * w + b) * 0.5 + x;
     }},
    {"softmax", 2,
     [](const Tensor& x, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
       return tessera::softmax(x * 0.125, -1);
     }},
    {"softmax_by_hand", 2,
     [](const Tensor& x, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
       Tensor e = tessera::exp(x - tessera::max(x, -1, true));
       return e / tessera::sum(e, -1, true);
     }},
    {"layer_norm", 3,
     [](const Tensor& x, const Tensor& y, const Tensor&, const Tensor& w, const Tensor& b) {
       return tessera::layer_norm(x + y, w, b);
     }},
    {"rms_norm", 3,
     [](const Tensor& x, const Tensor& y, const Tensor&, const Tensor& w, const Tensor&) {
       return tessera::rms_norm(x + y, w);
     }},
};

const Program* FindProgram(const std::string& name) {
  for (const Program& p : kPrograms)
    if (name == p.name) return &p;
  return nullptr;
}

/// What is read decides when ops run.
void Read(const Tensor& t) {
  volatile float first = t.read<float>()[0];
  (void)first;
}

// ---- compile_latency

Function ChainOfTen() {
  return Function::parse(R"(func @chain(%x: tensor<R x C x f32>, %b: tensor<C x f32>) -> tensor<R x C x f32> {
  %0 = mul %x, %b
  %1 = add %0, %b
  %2 = exp %1
  %3 = add %2, %x
  %4 = mul %3, %b
  %5 = relu %4
  %6 = sub %5, %x
  %7 = abs %6
  %8 = add %7, %b
  %9 = mul %8, %x
  return %9
}
)")
      .value();
}
Function SoftmaxFunction() {
  return Function::parse(R"(func @f(%x: tensor<R x C x f32>, %b: tensor<C x f32>) -> tensor<R x C x f32> {
  %0 = mul %x, %b
  %1 = softmax %0
  return %1
}
)")
      .value();
}
Function NormFunction() {
  return Function::parse(R"(func @f(%x: tensor<R x C x f32>, %b: tensor<C x f32>) -> tensor<R x C x f32> {
  %0 = add %x, %b
  %1 = layer_norm %0, %b, %b
  return %1
}
)")
      .value();
}
Function MlpFunction() {
  return Function::parse(R"(
func @f(%x: tensor<R x C x f32>, %b: tensor<C x f32>, %w: tensor<C x C x f32>) -> tensor<R x C x f32> {
  %0 = layer_norm %x, %b, %b
  %1 = matmul %0, %w
  %2 = add %1, %b
  %3 = gelu %2
  %4 = matmul %3, %w
  %5 = add %4, %b
  %6 = add %5, %x
  return %6
}
)")
      .value();
}

/// Milliseconds of the call in which the code was made, the options being such that a call makes it.
Series CompileTrial(const std::string& which) {
  Function f = which == "chain"        ? ChainOfTen()
               : which == "softmax"    ? SoftmaxFunction()
               : which == "layer_norm" ? NormFunction()
                                       : MlpFunction();
  std::vector<Tensor> args = {tessera::randn({16, 64}), tessera::randn({64})};
  if (which == "mlp") args.push_back(tessera::randn({64, 64}));
  double worst = 0, last = 0;
  for (int i = 0; i < 40; ++i) {
    const double before = Metric("codes_made");
    const double start = Now();
    Read(f.call(args));
    const double seconds = Now() - start;
    if (Metric("codes_made") > before) worst = std::max(worst, seconds);
    last = seconds;
  }
  return {{"compile", {worst - last}}, {"codes", {Metric("codes_made")}}, {"hits", {Metric("cache_hits")}}};
}

Series SymbolicTrial() {
  Function f = ChainOfTen();
  const Tensor b = tessera::randn({64});
  double seconds = 0;
  for (int64_t k = 0; k < 2000; ++k) {
    const Tensor x = tessera::randn({2 + k % 200, 64});
    const double start = Now();
    Read(f.call({x, b}));
    if (k >= 1000) seconds += Now() - start;
  }
  return {{"seconds", {seconds / 1000}}, {"codes", {Metric("codes_made")}}};
}

}  // namespace

Timed GeneratedTask(const std::string& task) {
  const Program* program = task.starts_with("generated ") ? FindProgram(task.substr(10)) : nullptr;
  if (program == nullptr) return nullptr;
  const Tensor x = tessera::randn({kSide, kSide}), y = tessera::randn({kSide, kSide}),
               z = tessera::randn({kSide, kSide}), w = tessera::randn({kSide}), b = tessera::randn({kSide});
  const Timed timed = Loop([=] { Read(program->run(x, y, z, w, b)); });
  // Hot, built, compiled, and compiled again: each takes some runs.
  for (int round = 0; round < 4; ++round) {
    timed(20);
    tessera::Runtime::wait_for_builds();
  }
  return timed;
}

Series GeneratedTrial(const std::string& trial) {
  if (trial.starts_with("compile ")) return CompileTrial(trial.substr(8));
  if (trial == "symbolic") return SymbolicTrial();
  return {};
}

void CpuFused() {
  const Process engine =
      StartTracing(Tier::all, {"TESSERA_CACHE=false", "TESSERA_COMPILE_AFTER=0", "TESSERA_SPECIALISE_AFTER=0"});
  const Process tier1 = StartTracing(Tier::one);
  const Floats to(kSide * kSide * 2), from(kSide * kSide * 2);
  for (const Program& p : kPrograms) {
    const std::string task = std::string("generated ") + p.name;
    const auto bytes = static_cast<int64_t>(p.operands * kBytes / 2);
    const Race race = RunRace(
        {PeerProcess::Task(engine, task), PeerProcess::Task(tier1, task),
         Loop([&] { ThreadedCopy(reinterpret_cast<char*>(to.data()), reinterpret_cast<char*>(from.data()), bytes); })},
        Budget());
    const double made = PeerProcess::Task(engine, "metric kernels_generated")(1);
    Figure figure{.name = std::string("cpu_fused/") + p.name, .unit = Rate("GB/s", p.operands * kBytes * 1e-9)};
    figure.note = made > 0 ? "" : "no generated code ran";
    figure.ours = race.times[0];
    const bool is_chain = std::string(p.name) == "chain";
    const Goal goals[] = {{Goal::ratio_at_least, is_chain ? 3.0 : 1.5}, {Goal::ratio_at_least, 0.85}};
    const char* const peers[] = {"tier 1", "threaded memcpy of as many bytes"};
    for (size_t k = 0; k < 2; ++k) {
      if (k == 1 && !is_chain) continue;  // arithmetic is the limit of the others
      figure.peer = peers[k];
      figure.theirs = race.times[k + 1];
      figure.ratio = race.ratios[k + 1];
      figure.goal = goals[k];
      Report(figure);
    }
  }
}

void CompileLatency() {
  const std::string folder = ProgramFolder() + "/compile_latency_cache";
  const Settings now = {"TESSERA_BACKGROUND=false", "TESSERA_HOT_FUNCTION=1", "TESSERA_COMPILE_AFTER=0",
                        "TESSERA_PROFIT_GATE=false"};
  for (const char* program : {"chain", "softmax", "layer_norm", "mlp"}) {
    for (const char* tier : {"2", "3"}) {
      Settings settings = now;
      settings.push_back(std::string("TESSERA_TIER=") + tier);
      settings.push_back("TESSERA_SPECIALISE_AFTER=0");
      for (const bool cached : {false, true}) {
        Settings with = settings;
        if (cached) {
          with.push_back("TESSERA_CACHE_DIR=" + folder);
          RunTrial(std::string("compile ") + program, Tier::all, with);  // fills it
        } else {
          with.push_back("TESSERA_CACHE=false");
        }
        std::vector<double> seconds;
        for (int k = 0; k < 5; ++k)
          seconds.push_back(RunTrial(std::string("compile ") + program, Tier::all, with)["compile"][0]);
        Figure figure{.name = std::string("compile_latency/") + program + "_tier" + tier + (cached ? "_cached" : ""),
                      .unit = Milliseconds()};
        figure.ours = Summarize(seconds);
        figure.note = "from the start of a process: with opening the library and a new context";
        if (cached)
          figure.goal = {Goal::value_at_most, 5};
        else if (std::string(program) == "chain")
          figure.goal = {Goal::value_at_most, 50};
        Report(figure);
      }
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

void Symbolic() {
  const Settings settings = {"TESSERA_CACHE=false", "TESSERA_HOT_FUNCTION=10", "TESSERA_COMPILE_AFTER=0"};
  std::vector<double> ours, theirs;
  double codes = 0;
  for (int k = 0; k < 3; ++k) {
    Series engine = RunTrial("symbolic", Tier::all, settings);
    ours.push_back(engine["seconds"][0]);
    codes = engine["codes"][0];
    theirs.push_back(RunTrial("symbolic", Tier::one)["seconds"][0]);
  }
  Figure figure{.name = "symbolic/200_shapes", .unit = {"us", 1e6, false}};
  figure.ours = Summarize(ours);
  figure.peer = "tier 1";
  figure.theirs = Summarize(theirs);
  figure.ratio = figure.theirs.median / figure.ours.median;
  figure.more = {{"compiles", Json(codes)}};
  figure.note = "one call, ten ops, rows from 2 to 201; goal: at most 3 compiles";
  Report(figure);
}

}  // namespace bench
