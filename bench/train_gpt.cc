// Training a GPT, from the start of a process: the versions, tier 1, and PyTorch where python3 has it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "bench/benchmarks.h"
#include "bench/gpu_processes.h"
#include "bench/peer_process.h"

namespace bench {
namespace {

/// A number of a flat JSON object; -1 where it is not there.
double Key(const std::string& json, const std::string& key) {
  const size_t at = json.find("\"" + key + "\": ");
  return at == std::string::npos ? -1 : std::atof(json.c_str() + at + key.size() + 4);
}

std::string Clock() {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f", Now());
  return text;
}

struct Row {
  const char* size;
  int steps;
  const char* device;
  const char* dtype;
  bool compiled = true;  // PyTorch is also measured with torch.compile
};

void Train(const Row& row, const std::string& name) {
  const std::vector<std::string> arguments = {row.size, std::to_string(row.steps), row.device, row.dtype};
  const auto run = [&](std::vector<std::string> command, const std::vector<std::string>& environment,
                       const char* last) {
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.push_back(Clock());
    if (last != nullptr) command.emplace_back(last);
    std::string output;
    return RunProgram(command, environment, &output) ? output : std::string();
  };
  const std::string program = ProgramFolder() + "/tessera_train_gpt";
  std::string torch;
  for (const char* folder : {"/../../../bench", "/../../bench"}) {
    const std::string script = ProgramFolder() + folder + "/train_gpt_torch.py";
    if (torch.empty() && std::filesystem::exists(script)) torch = script;
  }
  const std::string ours = run({program}, {}, nullptr);
  if (ours.empty()) throw std::runtime_error("tessera_train_gpt failed");

  const auto report = [&](const std::string& peer, const std::string& theirs) {
    Figure figure;
    figure.name = name;
    figure.unit = Milliseconds();
    figure.ours.median = Key(ours, "step_s");
    figure.ours.best = Key(ours, "best_s");
    figure.more = {{"first_s", std::to_string(Key(ours, "first_s"))},
                   {"all_s", std::to_string(Key(ours, "all_s"))},
                   {"steps", std::to_string(row.steps)},
                   {"in_versions", std::to_string(Key(ours, "in_versions"))},
                   {"parameters", std::to_string(static_cast<int64_t>(Key(ours, "parameters")))},
                   {"peak_bytes", std::to_string(static_cast<int64_t>(Key(ours, "peak_bytes")))},
                   {"loss", std::to_string(Key(ours, "loss"))}};
    if (theirs.empty()) {
      figure.note = peer + " did not run";
    } else {
      figure.peer = peer;
      figure.theirs.median = Key(theirs, "step_s");
      figure.theirs.best = Key(theirs, "best_s");
      figure.ratio = figure.theirs.median / figure.ours.median;
      figure.more.emplace_back("peer_first_s", std::to_string(Key(theirs, "first_s")));
      figure.more.emplace_back("peer_all_s", std::to_string(Key(theirs, "all_s")));
      figure.more.emplace_back("peer_peak_bytes", std::to_string(static_cast<int64_t>(Key(theirs, "peak_bytes"))));
    }
    Report(figure);
  };
  report("tier 1", run({program}, {"TESSERA_TIER=1"}, nullptr));
  report("PyTorch, eager", torch.empty() ? "" : run({"python3", torch}, {}, "eager"));
  if (row.compiled) report("PyTorch, compiled", torch.empty() ? "" : run({"python3", torch}, {}, "compiled"));
}

}  // namespace

void TrainGpt() {
  Train({"tiny", 2000, "cpu", "F32"}, "train_gpt/tiny");
  Train({"10m", 60, "cpu", "F32"}, "train_gpt/10m");
}

void GpuTrainGpt() {
  CheckGpu();
  Train({"124m", 120, "cuda", "BF16"}, "gpu_train_gpt/124m");
}

void GpuTrainLengths() {
  CheckGpu();
  // torch.compile makes new code for each length: minutes.
  Train({"124m_lengths", 60, "cuda", "BF16", /*compiled=*/false}, "gpu_train_lengths/124m");
}

void GpuTraceOverhead() {
  CheckGpu();
  // After these it is through with compiling.
  constexpr int kWarmUp = 120;
  const std::string file = (std::filesystem::temp_directory_path() / "tessera_bench_gpt.trace").string();
  std::string output;
  if (!RunProgram(
          {ProgramFolder() + "/tessera_train_gpt", "124m", std::to_string(kWarmUp), "cuda", "BF16", Clock(), file}, {},
          &output))
    throw std::runtime_error("tessera_train_gpt failed");
  Figure figure{.name = "gpu_trace_overhead/124m", .unit = Milliseconds(), .peer = "without recording"};
  figure.ours.median = Key(output, "with_s");
  figure.ours.best = Key(output, "with_best_s");
  figure.theirs.median = Key(output, "without_s");
  figure.theirs.best = Key(output, "without_best_s");
  figure.ratio = Key(output, "ratio");
  figure.goal = {Goal::ratio_at_least, 1 / 1.02};
  const double once = Key(output, "bytes_once"), each = Key(output, "bytes_each");
  figure.more = {{"before_s", std::to_string(Key(output, "before_s"))},
                 {"worst_ratio", std::to_string(Key(output, "worst_ratio"))},
                 {"best_ratio", std::to_string(Key(output, "best_ratio"))},
                 {"bytes_once", std::to_string(static_cast<int64_t>(once))},
                 {"bytes_per_1000_steps", std::to_string(static_cast<int64_t>(once + 1000 * each))}};
  Report(figure);
}

}  // namespace bench
