// From a trace to a kernel of a product, or of attention, on tensor cores, by the compiler and from the cache on disk.
// Without a GPU, libraries stand in for the driver and cuBLASLt (tests/unit/libraries): kernels are made for sm_90a and
// do nothing.
#include <tessera/tessera.h>

#include <algorithm>
#include <filesystem>

#include "bench/benchmarks.h"
#include "bench/tracing.h"

namespace bench {
namespace {

using tessera::Function;
using tessera::Tensor;

struct Row {
  const char* name;
  const char* steps;  // to %y: of a product from %p on, of attention all of them
  double goal_ms;     // without the cache
  bool is_attention = false;
};
constexpr Row kRows[] = {
    {"linear_bias_gelu", "  %q = add %p, %b\n  %y = gelu %q\n", 500},
    {"linear_residual", "  %q = add %p, %b\n  %y = add %q, %r\n", 500},
    {"linear_gelu_residual", "  %q = add %p, %b\n  %g = gelu %q\n  %y = add %g, %r\n", 500},
    {"attention_capped",
     "  %s = matmul %q, %k {transpose_b = true}\n  %a = mul %s, 0.005\n  %b = tanh %a\n  %x = mul %b, 20.0\n"
     "  %w = softmax %x {axis = -1}\n  %y = matmul %w, %v\n",
     1000, true},
};
constexpr int kTrials = 7;
constexpr int kReplayUs = 10000;  // that are spent in a replay before code is made
// Of each dim of a product: its tile is that of larger ones. (Of 512 it is smaller, and made in a third of the time.)
constexpr int64_t kSize = 2048;
constexpr int64_t kHeads = 4, kQueries = 512, kColumns = 64;

/// The function and what it is called with.
std::pair<Function, std::vector<Tensor>> ProgramOf(const Row& row) {
  const auto zeros = [](const tessera::Dims& dims) { return tessera::zeros(dims, tessera::bf16); };
  const std::string steps = std::string(row.steps) + "  return %y\n}\n";
  if (row.is_attention) {
    const std::string t = "tensor<B x H x S x " + std::to_string(kColumns) + " x bf16>";
    const Tensor x = zeros({1, kHeads, kQueries, kColumns});
    return {Function::parse("func @attention(%q: " + t + ", %k: " + t + ", %v: " + t + ") -> " + t + " {\n" + steps)
                .value(),
            {x, x, x}};
  }
  return {Function::parse("func @linear(%x: tensor<M x K x bf16>, %w: tensor<K x N x bf16>, %b: tensor<N x bf16>, "
                          "%r: tensor<M x N x bf16>) -> tensor<M x N x bf16> {\n  %p = matmul %x, %w\n" +
                          steps)
              .value(),
          {zeros({kSize, kSize}), zeros({kSize, kSize}), zeros({kSize}), zeros({kSize, kSize})}};
}

std::string StandIns() { return ProgramFolder() + "/../tests/stand_in_cuda"; }

void ReportRow(const Row& row, Tier tier, bool cached, const std::string& folder, bool has_gpu) {
  Settings settings = {"TESSERA_DEVICE=cuda", "TESSERA_BACKGROUND=false", "TESSERA_HOT_FUNCTION=1",
                       "TESSERA_PROFIT_GATE=false", "TESSERA_TUNE_BUDGET=0"};
  // A replay has run before, which has memory of its own to take the first time.
  for (const char* name : {"TESSERA_COMPILE_AFTER=", "TESSERA_SPECIALISE_AFTER="})
    settings.push_back(name + std::to_string(kReplayUs));
  if (!has_gpu)
    settings.insert(settings.end(), {"LD_LIBRARY_PATH=" + StandIns(), "STAND_IN_HOPPER=1", "STAND_IN_IDLE=1"});
  const std::string trial = std::string("jit ") + row.name;
  if (cached) {
    settings.push_back("TESSERA_CACHE_DIR=" + folder);
    RunTrial(trial, tier, settings);  // fills it
  } else {
    settings.insert(settings.end(), {"TESSERA_CACHE=false", kNoDriverCache});
  }
  std::vector<double> seconds, kernels, hits;
  for (int k = 0; k < kTrials; ++k) {
    Series series = RunTrial(trial, tier, settings);
    seconds.insert(seconds.end(), series["compile"].begin(), series["compile"].end());
    kernels = series["kernels"];
    hits = series["hits"];
  }
  Figure figure{.name = std::string("jit_latency/") + row.name + (tier == Tier::two ? "_tier2" : "_tier3") +
                        (cached ? "_cached" : ""),
                .unit = Milliseconds(),
                .goal = {Goal::value_at_most, cached ? 5.0 : row.goal_ms}};
  figure.ours = Summarize(seconds);
  figure.note = std::string("the first of a process: with opening the compiler") + (cached ? "" : " and nvJitLink") +
                (has_gpu ? "" : "; for sm_90a, without a GPU: loading it there is not in it");
  figure.more = {{"kernels_generated", Json(Median(kernels))}};
  if (cached) figure.more.push_back({"cache_hits", Json(Median(hits))});
  Report(figure);
}

}  // namespace

/// Seconds of the call in which code was made, less the one before, and of the first with the code, less a later one.
Series JitTrial(const std::string& trial) {
  if (!trial.starts_with("jit ")) return {};
  const auto* const row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& known) { return trial.substr(4) == known.name; });
  if (row == std::end(kRows)) return {};
  const auto [f, args] = ProgramOf(*row);
  constexpr int kMostCalls = 100000, kLaterCalls = 20;
  std::vector<double> times;
  size_t made = 0;  // the call in which it was
  while (times.size() < kMostCalls && (made == 0 || times.size() <= made + kLaterCalls)) {
    const double start = Now();
    f(args);
    times.push_back(Now() - start);
    if (made == 0 && Metric("codes_made") > 0) made = times.size() - 1;
  }
  std::vector<double> compile;
  if (made > 0) compile.push_back(times[made] - times[made - 1] + times[made + 1] - times.back());
  return {{"compile", compile}, {"hits", {Metric("cache_hits")}}, {"kernels", {Metric("kernels_generated")}}};
}

void JitLatency() {
  const bool has_gpu = tessera::Device::find("cuda").ok();
  if (!has_gpu && !std::filesystem::exists(StandIns()))
    throw std::runtime_error("there is no GPU, and " + StandIns() + ", which is built with the tests, is not there");
  const std::string folder = ProgramFolder() + "/jit_latency_cache";
  for (const Row& row : kRows)
    for (const Tier tier : {Tier::two, Tier::all})
      for (const bool cached : {false, true}) ReportRow(row, tier, cached, folder, has_gpu);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace bench
