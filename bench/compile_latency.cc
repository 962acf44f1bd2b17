// From a trace to generated code, by the compiler and from the cache on disk.
#include <filesystem>

#include "bench/benchmarks.h"
#include "bench/programs.h"
#include "bench/tracing.h"

namespace bench {
namespace {

struct Row {
  const char* name;
  const char* program;
  double tier2_ms;  // goal; 0: none
};
constexpr Row kRows[] = {
    {"chain", "chain 16 64", 50}, {"softmax", "scaled_softmax 16 64", 0},    {"layer_norm", "layer_norm 16 64", 0},
    {"mlp", "mlp 16 64", 0},      {"transformer_block", "block 32 64", 600},
};
constexpr int kTrials = 5;

void ReportRow(const Row& row, Tier tier, bool cached, const std::string& folder) {
  Settings settings = {"TESSERA_BACKGROUND=false", "TESSERA_HOT_FUNCTION=1", "TESSERA_COMPILE_AFTER=0",
                       "TESSERA_PROFIT_GATE=false", "TESSERA_SPECIALISE_AFTER=0"};
  const std::string trial = std::string("compile ") + row.program;
  if (cached) {
    settings.push_back("TESSERA_CACHE_DIR=" + folder);
    RunTrial(trial, tier, settings);  // fills it
  } else {
    settings.push_back("TESSERA_CACHE=false");
  }
  std::vector<double> seconds;
  double hits = 0;
  for (int k = 0; k < kTrials; ++k) {
    Series series = RunTrial(trial, tier, settings);
    hits = series["hits"][0];
    seconds.insert(seconds.end(), series["compile"].begin(), series["compile"].end());
  }
  Figure figure{.name = std::string("compile_latency/") + row.name + (tier == Tier::two ? "_tier2" : "_tier3") +
                        (cached ? "_cached" : ""),
                .unit = Milliseconds()};
  figure.ours = Summarize(seconds);
  figure.note = "the first of a process: with opening the library and a new context";
  if (cached) {
    figure.goal = {Goal::value_at_most, 5};
    figure.more = {{"cache_hits", Json(hits)}};
  } else if (tier == Tier::two && row.tier2_ms > 0) {
    figure.goal = {Goal::value_at_most, row.tier2_ms};
  }
  Report(figure);
}

}  // namespace

namespace {
/// Seconds of the run in which the program's code was made, less one of those after it, the options being such that a
/// run makes it; nothing where none was.
std::optional<double> SecondsOfCompile(const std::string& program) {
  const std::optional<Program> made = MakeProgram(program);
  if (!made) return std::nullopt;
  const double before = Metric("codes_made");
  std::optional<double> compile;
  double last = 0;
  for (int i = 0; i < 40; ++i) {
    const double start = Now();
    made->Run();
    last = Now() - start;
    if (!compile && Metric("codes_made") > before) compile = last;
  }
  return compile ? std::optional(*compile - last) : std::nullopt;
}
}  // namespace

/// "compile P", or "compile Q then P": Q is what the process compiles first.
Series CompileTrial(const std::string& trial) {
  if (!trial.starts_with("compile ")) return {};
  std::string program = trial.substr(8);
  Series series;
  if (const size_t then = program.find(" then "); then != std::string::npos) {
    if (const std::optional<double> first = SecondsOfCompile(program.substr(0, then))) series["first"] = {*first};
    program = program.substr(then + 6);
  }
  if (const std::optional<double> seconds = SecondsOfCompile(program)) series["compile"] = {*seconds};
  series["hits"] = {Metric("cache_hits")};
  return series;
}

void CompileLatency() {
  const std::string folder = ProgramFolder() + "/compile_latency_cache";
  for (const Row& row : kRows)
    for (const Tier tier : {Tier::two, Tier::all})
      for (const bool cached : {false, true}) ReportRow(row, tier, cached, folder);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace bench
