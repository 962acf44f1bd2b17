// How far a program has come, by the time since its process was started.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "bench/benchmarks.h"
#include "bench/programs.h"
#include "bench/tracing.h"

namespace bench {
namespace {

constexpr double kAt[] = {0.01, 0.03, 0.1, 0.3, 1, 3};
constexpr int kTrials = 3;

struct Row {
  const char* name;
  const char* program;
};
constexpr Row kRows[] = {{"mlp", "mlp 64 128"}, {"transformer_block", "block 64 128"}};

struct Way {
  const char* name;
  Tier tier;
  Settings settings;
};

/// "17.25": now, on the clock that all processes share.
std::string Clock() {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f", Now());
  return text;
}

/// Iterations done at each time of kAt, medians over the trials. Empty if there is no such peer.
using Curve = std::vector<double>;
template <class F>
Curve Measure(F trial) {
  std::vector<std::vector<double>> done(std::size(kAt));
  for (int k = 0; k < kTrials; ++k) {
    const std::vector<double> one = trial();
    if (one.size() != std::size(kAt)) return {};
    for (size_t i = 0; i < one.size(); ++i) done[i].push_back(one[i]);
  }
  Curve curve;
  for (const std::vector<double>& values : done) curve.push_back(Median(values));
  return curve;
}

/// LibTorch, as tensor ops or as TorchScript. It prints the numbers.
Curve Torch(const std::string& kind, const std::string& program) {
  return Measure([&] {
    std::string output;
    std::vector<double> done;
    if (!RunProgram({ProgramFolder() + "/tessera_bench_torch", "--warm_up", kind, program, Clock()}, {}, &output))
      return done;
    std::istringstream numbers(output);
    for (double number = 0; numbers >> number;) done.push_back(number);
    return done;
  });
}

std::string CurveJson(const Curve& curve) {
  std::string json = "{";
  for (size_t i = 0; i < curve.size(); ++i)
    json += (i == 0 ? "\"" : ", \"") + Json(1e3 * kAt[i]) + "\": " + Json(curve[i]);
  return json + "}";
}

/// A count as a figure: the harness knows rates by the seconds that one takes.
Summary Count(double count) { return {1 / count, 1 / count, 0}; }

}  // namespace

/// "warm_up CLOCK NAME": iterations done at each time of kAt after CLOCK.
Series WarmUpTrial(const std::string& trial) {
  std::istringstream words(trial);
  std::string verb, name;
  double begin = 0;
  words >> verb >> begin;
  if (verb != "warm_up" || !std::getline(words >> std::ws, name)) return {};
  const std::optional<Program> program = MakeProgram(name);
  if (!program) return {};
  std::vector<double> done;
  for (double iterations = 0; done.size() < std::size(kAt);) {
    const double now = Now() - begin;
    while (done.size() < std::size(kAt) && now >= kAt[done.size()]) done.push_back(iterations);
    program->Run();
    ++iterations;
  }
  return {{"done", done}, {"codes", {Metric("codes_made")}}};
}

void WarmUp() {
  const std::string folder = ProgramFolder() + "/warm_up_cache";
  const Way ways[] = {
      {"tier_1", Tier::one, {}},
      {"replay", Tier::all, {"TESSERA_COMPILER_LIBRARY=none"}},
      {"tier_2", Tier::two, {"TESSERA_CACHE=false"}},
      {"tiers_2_3", Tier::all, {"TESSERA_CACHE=false"}},
      {"tiers_2_3_cached", Tier::all, {"TESSERA_CACHE_DIR=" + folder}},
  };
  for (const Row& p : kRows) {
    Curve one;
    auto report = [&](const std::string& name, const Curve& curve, const std::string& note) {
      Figure figure{.name = std::string("warm_up/") + p.name + "/" + name, .unit = Rate("iterations", 1)};
      figure.note = note;
      if (!curve.empty()) {
        figure.ours = Count(curve.back());
        figure.more = {{"at_ms", CurveJson(curve)}};
        if (name != "tier_1") {
          figure.peer = "tier 1";
          figure.theirs = Count(one.back());
          figure.ratio = curve.back() / one.back();
        }
      } else {
        figure.ours = {NAN, NAN, NAN};
      }
      Report(figure);
    };
    for (const Way& way : ways) {
      auto trial = [&] { return RunTrial("warm_up " + Clock() + " " + p.program, way.tier, way.settings)["done"]; };
      if (way.settings.size() == 1 && way.settings[0].starts_with("TESSERA_CACHE_DIR")) trial();  // fills it
      const Curve curve = Measure(trial);
      if (way.tier == Tier::one) one = curve;
      report(way.name, curve, "calls done 3 s after the start of the process; at_ms: the same by milliseconds");
    }
    for (const std::string kind : {"eager", "script"}) {
      const Curve curve = Torch(kind, p.program);
      report(kind == "eager" ? "libtorch" : "torchscript", curve,
             curve.empty() ? "no LibTorch peer: tessera_bench_torch is not beside this program, or fails"
                           : "inference mode; torch.compile needs PyTorch for Python, which is not looked for");
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace bench
