// Training a GPT, from the start of a process: the versions, tier 1, and PyTorch and JAX where python3 has them.
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
  /// Seconds after which a peer that compiles may stop: with a new length in each step it compiles for minutes.
  int limit_s = 0;
  /// Steps of a second run of ours, with the code that the first one left: what a step takes when nothing is compiled
  /// any more. 0: the first run tells. Peers are through with compiling long before their last steps.
  int steady_steps = 0;
  /// Steps are alike, so that each is to be one trace: one run of one version.
  bool one_trace = true;
};

/// A script of bench/, from the build tree or a bundle; empty: it is not there.
std::string Script(const std::string& name) {
  for (const char* folder : {"/../../../bench/", "/../../bench/"})
    if (const std::string path = ProgramFolder() + folder + name; std::filesystem::exists(path)) return path;
  return "";
}

/// Python with the peers: python3, or what the variable names.
std::string Python() {
  const char* named = std::getenv("TESSERA_BENCH_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

/// From the start of a process. Empty: it failed.
std::string RunTraining(const Row& row, std::vector<std::string> command, const std::vector<std::string>& environment,
                        const std::vector<std::string>& more) {
  for (const std::string& word :
       {std::string(row.size), std::to_string(row.steps), std::string(row.device), std::string(row.dtype), Clock()})
    command.push_back(word);
  command.insert(command.end(), more.begin(), more.end());
  std::string output;
  return RunProgram(command, environment, &output) ? output : std::string();
}

struct Contender {
  std::string name;
  std::string output;  // of its process; empty: it did not run
};

/// Ours first, then the peers.
std::vector<Contender> RunAll(const Row& row) {
  const std::string program = ProgramFolder() + "/tessera_train_gpt";
  std::vector<Contender> all = {{"Tessera", RunTraining(row, {program}, {}, {})}};
  if (all[0].output.empty()) throw std::runtime_error("tessera_train_gpt failed");
  all.push_back({"tier 1", RunTraining(row, {program}, {"TESSERA_TIER=1"}, {})});
  std::vector<std::string> limit;
  if (row.limit_s > 0) limit = {"--limit", std::to_string(row.limit_s)};
  const auto peer = [&](const char* name, const char* script, std::vector<std::string> words) {
    const std::string path = Script(script);
    words.insert(words.end(), limit.begin(), limit.end());
    all.push_back({name, path.empty() ? "" : RunTraining(row, {Python(), path}, {}, words)});
  };
  peer("PyTorch, eager", "train_gpt_torch.py", {"eager"});
  peer("PyTorch, compiled", "train_gpt_torch.py", {"compiled"});
  peer("JAX", "train_gpt_jax.py", {});
  return all;
}

/// From "key": on, an array of arrays as it stands there; "null" where there is none.
std::string Pairs(const std::string& json, const std::string& key) {
  const size_t at = json.find("\"" + key + "\": [");
  const size_t end = at == std::string::npos ? at : json.find("]]", at);
  return end == std::string::npos ? "null" : json.substr(at + key.size() + 4, end + 2 - at - key.size() - 4);
}

void Train(const Row& row, const std::string& name) {
  const std::vector<Contender> all = RunAll(row);
  const std::string& ours = all[0].output;
  std::string steady = ours;
  if (row.steady_steps > 0) {
    Row longer = row;
    longer.steps = row.steady_steps;
    steady = RunTraining(longer, {ProgramFolder() + "/tessera_train_gpt"}, {}, {});
    if (steady.empty()) throw std::runtime_error("tessera_train_gpt failed");
  }
  for (size_t i = 1; i < all.size(); ++i) {
    const std::string& theirs = all[i].output;
    Figure figure;
    figure.name = name;
    figure.unit = Milliseconds();
    figure.ours.median = Key(steady, "step_s");
    figure.ours.best = Key(steady, "best_s");
    figure.more = {{"first_s", std::to_string(Key(ours, "first_s"))},
                   {"all_s", std::to_string(Key(ours, "all_s"))},
                   {"steps", std::to_string(row.steps)},
                   {"in_versions", std::to_string(Key(ours, "in_versions"))},
                   {"runs_a_step", std::to_string(Key(steady, "runs_a_step"))},
                   {"parameters", std::to_string(static_cast<int64_t>(Key(ours, "parameters")))},
                   {"peak_bytes",
                    std::to_string(static_cast<int64_t>(std::max(Key(ours, "peak_bytes"), Key(steady, "peak_bytes"))))},
                   {"loss", std::to_string(Key(ours, "loss"))},
                   {"at", Pairs(ours, "at")}};
    if (theirs.empty()) {
      figure.note = all[i].name + " did not run";
    } else {
      const auto done = static_cast<int>(Key(theirs, "steps_done"));
      figure.peer = all[i].name;
      figure.theirs.median = Key(theirs, "step_s");
      figure.theirs.best = Key(theirs, "best_s");
      if (done < row.steps) {
        // It has no second half to speak of.
        figure.theirs.median = figure.theirs.best = Key(theirs, "all_s") / std::max(done, 1);
        figure.note = all[i].name + " had done " + std::to_string(done) + " of " + std::to_string(row.steps) +
                      " steps after " + std::to_string(static_cast<int>(Key(theirs, "all_s"))) + " s, and was stopped";
      }
      figure.ratio = figure.theirs.median / figure.ours.median;
      figure.more.emplace_back("peer_first_s", std::to_string(Key(theirs, "first_s")));
      figure.more.emplace_back("peer_all_s", std::to_string(Key(theirs, "all_s")));
      figure.more.emplace_back("peer_steps_done", std::to_string(done));
      figure.more.emplace_back("peer_peak_bytes", std::to_string(static_cast<int64_t>(Key(theirs, "peak_bytes"))));
      figure.more.emplace_back("peer_at", Pairs(theirs, "at"));
    }
    Report(figure);
  }
  const double in_versions = Key(steady, "in_versions"), runs = Key(steady, "runs_a_step");
  if (row.one_trace && (in_versions < 0.9999 || runs < 0.99 || runs > 1.01)) {
    throw std::runtime_error("a step is not one trace: " + std::to_string(in_versions) + " of its ops ran in " +
                             std::to_string(runs) + " runs of versions a step");
  }
}

}  // namespace

void TrainGpt() { Train({"tiny", 2000, "cpu", "F32"}, "train_gpt/tiny"); }
void TrainGpt10m() { Train({"10m", 120, "cpu", "F32"}, "train_gpt/10m"); }

void GpuTrainGpt() {
  CheckGpu();
  Train({"124m", 120, "cuda", "BF16", /*limit_s=*/0, /*steady_steps=*/400}, "gpu_train_gpt/124m");
}

void GpuTrainLengths() {
  CheckGpu();
  Train({"124m_lengths", 60, "cuda", "BF16", /*limit_s=*/120, /*steady_steps=*/0, /*one_trace=*/false},
        "gpu_train_lengths/124m");
}

void GpuTrainLoss() {
  CheckGpu();
  const Row row = {"124m", 200, "cuda", "BF16"};
  const auto train = [&](const char* loss) {
    const std::string output = RunTraining(row, {ProgramFolder() + "/tessera_train_gpt"}, {}, {"--loss", loss});
    if (output.empty()) throw std::runtime_error("tessera_train_gpt failed");
    return output;
  };
  const std::string chunked = train("chunked"), whole = train("whole");
  Figure figure{.name = "gpu_train_loss/124m", .unit = Milliseconds(), .peer = "all logits at once"};
  figure.ours.median = Key(chunked, "step_s");
  figure.ours.best = Key(chunked, "best_s");
  figure.theirs.median = Key(whole, "step_s");
  figure.theirs.best = Key(whole, "best_s");
  figure.ratio = figure.theirs.median / figure.ours.median;
  figure.more = {{"loss", std::to_string(Key(chunked, "loss"))},
                 {"peer_loss", std::to_string(Key(whole, "loss"))},
                 {"peak_bytes", std::to_string(static_cast<int64_t>(Key(chunked, "peak_bytes")))},
                 {"peer_peak_bytes", std::to_string(static_cast<int64_t>(Key(whole, "peak_bytes")))}};
  Report(figure);
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
