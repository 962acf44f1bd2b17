// What the benchmarks of the tracing engine share. A change of options makes versions void, so the engine and tier 1
// never run in one process: each is a process of its own that serves tasks, or one that runs a trial from its start.
#ifndef TESSERA_BENCH_TRACING_H_
#define TESSERA_BENCH_TRACING_H_

#include <tessera/tessera.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness.h"
#include "bench/peer_process.h"

// The text x ten, a hundred and a thousand times: an eager op is told apart by its place in the program, so a stretch
// of n ops needs n places.
#define TSR_BENCH_TEN(x) x x x x x x x x x x
#define TSR_BENCH_HUNDRED(x) TSR_BENCH_TEN(TSR_BENCH_TEN(x))
#define TSR_BENCH_THOUSAND(x) TSR_BENCH_TEN(TSR_BENCH_HUNDRED(x))

namespace bench {

enum class Tier { one, two, all };
/// "NAME=VALUE" with the environment variables of options.
using Settings = std::vector<std::string>;
/// nvJitLink asks a cache of the driver's first: without it every compile makes its own code.
inline constexpr char kNoDriverCache[] = "CUDA_CACHE_DISABLE=1";

// ---- served tasks: warmed up when they are first asked for, then timed in turn with those of other processes
using Process = std::shared_ptr<PeerProcess>;
/// Throws if it does not start.
Process StartTracing(Tier tier, const Settings& settings = {});

/// What `runs` more runs of a task did, in this process's metrics. NaN where there is no such metric.
struct Probe {
  double ops = 0;          // of one run, wherever they ran
  double in_versions = 0;  // part of the ops that ran in versions
  double deferred = 0;     // part of the ops that waited for a version
};
Probe ProbeTask(const Process& process, const std::string& task, int64_t runs = 100);
/// The keys "generated" and "blas" of a figure: parts of the time that the thread which runs a task spends in generated
/// code and in the BLAS (share.h).
std::vector<std::pair<std::string, std::string>> ShareOf(const Process& process, const std::string& task);

// ---- trials: one fresh process that prints lists of numbers and ends
using Series = std::map<std::string, std::vector<double>>;
Series RunTrial(const std::string& trial, Tier tier, const Settings& settings = {});

// ---- used in those processes
/// NaN where this build has no such metric.
double Metric(const std::string& name);
/// A build without that option stays as it is.
void SetOption(const std::string& name, const std::string& value);
/// Empty for an unknown name.
Timed CallsTask(const std::string& task);
Timed LoopsTask(const std::string& task);
Timed FusedTask(const std::string& task);
Series CallsTrial(const std::string& trial);
Series LoopsTrial(const std::string& trial);
Series CompileTrial(const std::string& trial);
Series JitTrial(const std::string& trial);
Series SymbolicTrial(const std::string& trial);
Series StallTrial(const std::string& trial);
Series WarmUpTrial(const std::string& trial);
Series GpuTrial(const std::string& trial);
/// `ops` dependent adds of %b to tensor<64 x f32> in a function of (%x, %b).
tessera::Function AddChain(int ops);
tessera::Tensor Filled(float value);  // 64 floats

// ---- figures
double Median(std::vector<double> values);              // NaN of nothing
double Quantile(std::vector<double> values, double q);  // the same
Summary Summarize(std::vector<double> values);
/// a without b; the spread is that of a.
Summary Less(const Summary& a, const Summary& b);
/// As harness.cc prints numbers; null for NaN.
std::string Json(double value);

}  // namespace bench

#endif  // TESSERA_BENCH_TRACING_H_
