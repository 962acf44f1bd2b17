// What a program feels while its versions are compiled: how long each call takes, from the first one to tier 3.
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "bench/benchmarks.h"
#include "bench/machine.h"
#include "bench/programs.h"
#include "bench/tracing.h"

namespace bench {
namespace {

constexpr double kMostSeconds = 6;      // of one trial
constexpr double kWaitSeconds = 10e-3;  // that the builder may wait for a core
constexpr double kOneSeconds = 1.0;     // of a trial of tier 1
constexpr int kTrials = 5;

std::string NameOf(pid_t thread) {
  std::string name;
  std::getline(std::ifstream("/proc/self/task/" + std::to_string(thread) + "/comm"), name);
  return name;
}

/// The thread that builds versions: it alone has the name of the program, the threads of the pool have their own. 0
/// while there is none.
pid_t Builder() {
  pid_t found = 0;
  DIR* folder = opendir("/proc/self/task");
  if (folder == nullptr) return 0;
  const std::string name = NameOf(getpid());
  while (const dirent* entry = readdir(folder)) {
    const auto thread = static_cast<pid_t>(std::atoi(entry->d_name));
    if (thread > 0 && thread != getpid() && NameOf(thread) == name) found = thread;
  }
  closedir(folder);
  return found;
}

/// Seconds of processor time of another thread of this process; 0 for no thread.
double ThreadSeconds(pid_t thread) {
  constexpr clockid_t kPerThread = 4, kScheduler = 2;  // as the kernel makes the clocks of threads
  timespec t = {};
  if (thread != 0) clock_gettime((~static_cast<clockid_t>(thread) << 3) | kPerThread | kScheduler, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// A thread for each core that does nothing but run, while this lives.
class Load {
 public:
  explicit Load(int threads) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
  }
  ~Load() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

void ReportStall(const std::string& name, const std::string& program, bool loaded) {
  const std::string trial = "stall " + program;
  // For each trial a quantile of its calls.
  std::vector<double> p50, p99, most, all99, one50, one99, one_most, ratios, calls, tier3;
  for (int k = 0; k < kTrials; ++k) {
    const Load load(loaded ? Cores() : 0);
    Series runs[2];
    for (const int i : {k % 2, 1 - k % 2})
      runs[i] = RunTrial(trial, i == 0 ? Tier::all : Tier::one, {"TESSERA_CACHE=false"});
    const std::vector<double>&compiling = runs[0]["compiling"], &one = runs[1]["seconds"];
    tier3.push_back(runs[0]["tier3"].empty() ? NAN : runs[0]["tier3"][0]);
    all99.push_back(Quantile(runs[0]["seconds"], 0.99));
    one50.push_back(Median(one));
    one99.push_back(Quantile(one, 0.99));
    one_most.push_back(Quantile(one, 1));
    calls.push_back(static_cast<double>(compiling.size()));
    if (compiling.empty()) continue;
    p50.push_back(Median(compiling));
    p99.push_back(Quantile(compiling, 0.99));
    most.push_back(Quantile(compiling, 1));
    ratios.push_back(one99.back() / p99.back());
  }
  Figure figure{.name = "no_stall/" + name + (loaded ? "_loaded" : ""), .unit = {"us", 1e6, false}};
  if (!loaded) figure.goal = {Goal::ratio_at_least, 1 / 1.2};
  figure.ours = Summarize(p99);
  figure.peer = "tier 1";
  figure.theirs = Summarize(one99);
  figure.ratio = Median(ratios);
  figure.more = {{"p50", Json(1e6 * Median(p50))},
                 {"max", Json(1e6 * Median(most))},
                 {"p99_cold_to_tier3", Json(1e6 * Median(all99))},
                 {"peer_p50", Json(1e6 * Median(one50))},
                 {"peer_max", Json(1e6 * Median(one_most))},
                 {"calls", Json(Median(calls))},
                 {"tier3_after_ms", Json(1e3 * Median(tier3))}};
  figure.note = std::string("99th percentile of the calls during which a version was being built") +
                (loaded ? ", with a busy thread on each core besides" : "") +
                "; p99_cold_to_tier3: of all calls up to then; medians over processes";
  Report(figure);
}

}  // namespace

/// Seconds of each call until tier 3 is there, and of those while something was being built.
Series StallTrial(const std::string& trial) {
  if (!trial.starts_with("stall ")) return {};
  const std::optional<Program> program = MakeProgram(trial.substr(6));
  if (!program) return {};
  const bool one = tessera::Runtime::option("tier").value() == "1";
  // The BLAS is opened by the first product, which is no stall of ours.
  const tessera::Tensor large = tessera::randn({256, 256});
  tessera::matmul(large, large).read<float>();
  struct Call {
    double start, stop;
  };
  std::vector<Call> calls;
  std::vector<double> working;  // when the builder had got further
  double tier3 = 0, looked = 0;
  pid_t builder = 0;
  double built = 0;
  const double begin = Now();
  for (double end = begin + (one ? kOneSeconds : kMostSeconds), start = begin; start < end && tier3 == 0;
       start = Now()) {
    program->Run();
    const double stop = Now();
    calls.push_back({start, stop});
    if (one) continue;
    if (const double seconds = ThreadSeconds(builder); seconds > built) {
      built = seconds;
      working.push_back(stop);
    }
    if (stop - looked < 1e-3) continue;
    looked = stop;
    if (builder == 0) builder = Builder();
    if (Metric("codes_made") >= 2) tier3 = stop - begin;  // tier 2, then tier 3 in its place
  }
  // A builder that waits for a core is building too.
  Series series;
  for (const Call& call : calls) {
    series["seconds"].push_back(call.stop - call.start);
    const auto next = std::lower_bound(working.begin(), working.end(), call.start);
    const bool soon = next != working.end() && *next < call.stop + kWaitSeconds;
    const bool before = next != working.begin() && *(next - 1) > call.start - kWaitSeconds;
    if (soon || before) series["compiling"].push_back(call.stop - call.start);
  }
  if (tier3 > 0) series["tier3"] = {tier3};
  return series;
}

void NoStall() {
  for (const bool loaded : {false, true}) {
    ReportStall("chain", "chain 64 256", loaded);
    ReportStall("mlp", "mlp 64 128", loaded);
  }
}

}  // namespace bench
