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

/// Iterations done at each time of kAt, and when the first one was done; medians over the trials. Empty if there is no
/// such peer.
struct Curve {
  std::vector<double> done;
  double first = NAN;
};
template <class F>
Curve Measure(F trial) {
  std::vector<std::vector<double>> numbers(std::size(kAt) + 1);
  for (int k = 0; k < kTrials; ++k) {
    const std::vector<double> one = trial();
    if (one.size() != numbers.size()) return {};
    for (size_t i = 0; i < one.size(); ++i) numbers[i].push_back(one[i]);
  }
  Curve curve{{}, Median(numbers.back())};
  for (size_t i = 0; i < std::size(kAt); ++i) curve.done.push_back(Median(numbers[i]));
  return curve;
}

/// A peer, which prints the numbers.
Curve Peer(const std::vector<std::string>& command) {
  return Measure([&] {
    std::vector<std::string> words = command;
    words.push_back(Clock());
    for (const double at : kAt) words.push_back(Json(at));
    std::string output;
    std::vector<double> numbers;
    if (!RunProgram(words, {}, &output)) return numbers;
    std::istringstream stream(output);
    for (double number = 0; stream >> number;) numbers.push_back(number);
    return numbers;
  });
}

/// Where the scripts of peers are; empty if nowhere.
std::string ScriptOf(const std::string& name) {
  for (const char* folder : {"/../../../bench/", "/../../bench/"})
    if (const std::string path = ProgramFolder() + folder + name; std::filesystem::exists(path)) return path;
  return "";
}

std::string CurveJson(const Curve& curve) {
  std::string json = "{";
  for (size_t i = 0; i < curve.done.size(); ++i)
    json += (i == 0 ? "\"" : ", \"") + Json(1e3 * kAt[i]) + "\": " + Json(curve.done[i]);
  return json + "}";
}

/// A count as a figure: the harness knows rates by the seconds that one takes.
Summary Count(double count) { return {1 / count, 1 / count, 0}; }

}  // namespace

/// "warm_up CLOCK NAME": iterations done at each time of kAt after CLOCK, and then when the first one was.
Series WarmUpTrial(const std::string& trial) {
  std::istringstream words(trial);
  std::string verb, name;
  double begin = 0;
  words >> verb >> begin;
  if (verb != "warm_up" || !std::getline(words >> std::ws, name)) return {};
  const std::optional<Program> program = MakeProgram(name);
  if (!program) return {};
  std::vector<double> done;
  double first = 0;
  for (double iterations = 0; done.size() < std::size(kAt);) {
    const double now = Now() - begin;
    while (done.size() < std::size(kAt) && now >= kAt[done.size()]) done.push_back(iterations);
    program->Run();
    if (++iterations == 1) first = Now() - begin;
  }
  done.push_back(first);
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
      if (!curve.done.empty()) {
        figure.ours = Count(curve.done.back());
        figure.more = {{"at_ms", CurveJson(curve)}, {"first_ms", Json(1e3 * curve.first)}};
        if (name != "tier_1") {
          figure.peer = "tier 1";
          figure.theirs = Count(one.done.back());
          figure.ratio = curve.done.back() / one.done.back();
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
    const auto peer = [&](const std::string& name, const std::string& program, const char* kind, const char* missing) {
      std::vector<std::string> command = {program, kind, p.program};
      if (program.ends_with(".py")) command.insert(command.begin(), "python3");
      if (program.ends_with("_torch")) command.insert(command.begin() + 1, "--warm_up");
      const Curve curve = program.empty() ? Curve() : Peer(command);
      report(name, curve, curve.done.empty() ? missing : "inference mode");
    };
    const std::string libtorch = ProgramFolder() + "/tessera_bench_torch", script = ScriptOf("warm_up_torch.py");
    peer("libtorch", libtorch, "eager", "no LibTorch peer: tessera_bench_torch is not beside this program, or fails");
    peer("torchscript", libtorch, "script", "no LibTorch peer");
    peer("pytorch_eager", script, "eager", "no PyTorch peer: python3 cannot import torch");
    peer("pytorch_compiled", script, "compiled", "no PyTorch peer");
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace bench
