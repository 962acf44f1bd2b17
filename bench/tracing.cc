#include "bench/tracing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "bench/benchmarks.h"
#include "bench/programs.h"
#include "bench/share.h"

namespace bench {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kWarmSeconds = 0.15;
// Code of tier 3 is asked for when versions have run for 0.2 s, and tuned after that: a long loop has it nearly always.
constexpr double kWarmTrainSeconds = 1.5;
constexpr double kShareSeconds = 0.3;

std::vector<std::string> Environment(Tier tier, const Settings& settings) {
  std::vector<std::string> environment = settings;
  environment.push_back(tier == Tier::one ? "TESSERA_TIER=1" : tier == Tier::two ? "TESSERA_TIER=2" : "TESSERA_TIER=3");
  return environment;
}

/// Until versions are there: the pauses leave the processor to the thread that builds them.
void WarmUp(const Timed& timed, double seconds) {
  const double end = Now() + seconds;
  for (int64_t n = 1; Now() < end; n = std::min<int64_t>(n * 2, 256)) {
    for (const double pause = Now() + 5e-3; Now() < pause;) timed(n);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// The part of the time of `timed`, in place of its seconds. The clock is read outside of batches of a millisecond.
Timed ShareTask(const Timed& timed, bool generated) {
  if (!timed) return {};
  return [timed, generated](int64_t) {
    const auto batch = static_cast<int64_t>(1 + 1e-3 / std::max(timed(1), 1e-9));
    const Share share = SampleShare([&] { timed(batch); }, kShareSeconds);
    return generated ? share.generated : share.blas;
  };
}

double AskMetric(const Process& process, const std::string& name) {
  return PeerProcess::Task(process, "metric " + name)(1);
}

double OfSorted(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const size_t low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

Process StartTracing(Tier tier, const Settings& settings) {
  Process process =
      PeerProcess::Start({ProgramFolder() + "/tessera_bench", "--serve", "tracing"}, Environment(tier, settings));
  if (process == nullptr) throw std::runtime_error("the process that serves the tracing tasks does not start");
  return process;
}

Probe ProbeTask(const Process& process, const std::string& task, int64_t runs) {
  const Timed timed = PeerProcess::Task(process, task);
  timed(1);
  const char* const names[] = {"ops_executed", "version_ops", "ops_deferred"};
  double counts[3];
  for (int i = 0; i < 3; ++i) counts[i] = -AskMetric(process, names[i]);
  timed(runs);
  for (int i = 0; i < 3; ++i) counts[i] += AskMetric(process, names[i]);
  const double ops = std::isnan(counts[1]) ? counts[0] : counts[0] + counts[1];
  return {ops / static_cast<double>(runs), counts[1] / ops, counts[2] / ops};
}

std::vector<std::pair<std::string, std::string>> ShareOf(const Process& process, const std::string& task) {
  return {{"generated", Json(PeerProcess::Task(process, "share " + task)(1))},
          {"blas", Json(PeerProcess::Task(process, "blas " + task)(1))}};
}

Series RunTrial(const std::string& trial, Tier tier, const Settings& settings) {
  std::string output;
  if (!RunProgram({ProgramFolder() + "/tessera_bench", "--trial", trial}, Environment(tier, settings), &output))
    throw std::runtime_error("the process of the trial '" + trial + "' failed");
  Series series;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, number;
    words >> name;
    std::vector<double>& values = series[name];
    while (words >> number) values.push_back(std::strtod(number.c_str(), nullptr));  // >> would refuse nan
  }
  return series;
}

Timed TracingTask(const std::string& task) {
  static std::map<std::string, Timed> made;  // a function that is parsed anew would be cold
  Timed& timed = made[task];
  if (timed) return timed;
  if (task.starts_with("metric ")) return timed = [name = task.substr(7)](int64_t) { return Metric(name); };
  for (const bool generated : {true, false})
    if (const std::string verb = generated ? "share " : "blas "; task.starts_with(verb))
      return timed = ShareTask(TracingTask(task.substr(verb.size())), generated);
  timed = CallsTask(task);
  if (!timed) timed = LoopsTask(task);
  if (timed) {
    WarmUp(timed, task == "train" ? kWarmTrainSeconds : kWarmSeconds);
    return timed;
  }
  timed = FusedTask(task);  // these warm up themselves
  if (!timed) timed = ProgramTask(task);
  return timed;
}

int TracingTrial(const std::string& trial) {
  Series series = CallsTrial(trial);
  if (series.empty()) series = LoopsTrial(trial);
  for (const auto find : {CompileTrial, JitTrial, SymbolicTrial, StallTrial, WarmUpTrial, GpuTrial})
    if (series.empty()) series = find(trial);
  for (const auto& [name, values] : series) {
    std::printf("%s", name.c_str());
    for (const double value : values) std::printf(" %.9e", value);
    std::printf("\n");
  }
  return series.empty() ? EXIT_FAILURE : EXIT_SUCCESS;
}

double Metric(const std::string& name) {
  for (const tessera::MetricValue& metric : tessera::Runtime::metrics())
    if (metric.name == name) return static_cast<double>(metric.value);
  return kNaN;
}

void SetOption(const std::string& name, const std::string& value) {
  (void)tessera::Runtime::set_option(name, value).ok();
}

tessera::Function AddChain(int ops) {
  std::string text = "func @chain(%x: tensor<64 x f32>, %b: tensor<64 x f32>) -> tensor<64 x f32> {\n";
  std::string last = "%x";
  for (int i = 0; i < ops; ++i) {
    const std::string name = "%v" + std::to_string(i);
    text += "  " + name + " = add " + last + ", %b\n";
    last = name;
  }
  return tessera::Function::parse(text + "  return " + last + "\n}\n").value();
}

tessera::Tensor Filled(float value) { return tessera::Tensor::from(std::vector<float>(64, value)); }

double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return kNaN;
  std::sort(values.begin(), values.end());
  return OfSorted(values, q);
}

Summary Summarize(std::vector<double> values) {
  if (values.empty()) return {kNaN, kNaN, kNaN};
  std::sort(values.begin(), values.end());
  const double median = OfSorted(values, 0.5);
  return {median, values.front(), (OfSorted(values, 0.75) - OfSorted(values, 0.25)) / median};
}

Summary Less(const Summary& a, const Summary& b) {
  const double rest = a.median - b.median;
  return {rest, a.best - b.best, a.spread * a.median / std::abs(rest)};
}

std::string Json(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace bench
