// What loops of small ops cost with the engine, with no annotation in them: eager_defer, recording_overhead,
// eager_loop, shape_churn.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "bench/benchmarks.h"
#include "bench/tracing.h"
#include "bench/tracing_mlp.h"

namespace bench {
namespace {

using tessera::Function;
using tessera::Tensor;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---- eager_defer, and the loops of recording_overhead

constexpr int kDeferOps = 200;
constexpr int kRecordOps = 1000;
constexpr int kTurns = 250;

[[gnu::noinline]] Tensor Deferred(const Tensor& x, const Tensor& a, const Tensor& b) {
  Tensor v = x;
  TSR_BENCH_HUNDRED(v = v * a; v = v + b;)
  return v;
}

[[gnu::noinline]] Tensor Recorded(const Tensor& x, const Tensor& b) {
  Tensor v = x;
  TSR_BENCH_THOUSAND(v = v + b;)
  return v;
}

/// Only the part before the read is timed, or all of it.
Timed DeferTask(bool whole) {
  return [whole, x = Filled(1), a = Filled(0.5f), b = Filled(1)](int64_t n) {
    double seconds = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double start = Now();
      const Tensor v = Deferred(x, a, b);
      const double issued = Now();
      v.read<float>();
      seconds += (whole ? Now() : issued) - start;
    }
    return seconds;
  };
}

Function WhileFunction() {
  return Function::parse(R"(
func @loop(%x: tensor<f32>, %a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %n, %y = while (%i = 0, %v = %x) -> (tensor<i64>, tensor<f32>) {
    %go = lt %i, )" + std::to_string(kTurns) +
                         R"(
    yield %go
  } do {
    %next = add %i, 1
    %m = mul %v, %a
    %s = add %m, %b
    yield %next, %s
  }
  return %y
}
)")
      .value();
}

Timed WithTier(const char* tier, Timed timed) {
  return [tier, timed](int64_t n) {
    SetOption("tier", tier);
    // Counts begin anew where an option has changed, which programs seldom do: that is not what is asked for.
    constexpr int64_t kUntilDecay = 32;
    timed(kUntilDecay);
    return timed(n);
  };
}

/// Times and the number of traces after each iteration. `body` is one iteration.
template <class F>
Series EachIteration(int iterations, F body) {
  Series series;
  for (int i = 0; i < iterations; ++i) {
    const double start = Now();
    body();
    series["seconds"].push_back(Now() - start);
    series["traces"].push_back(Metric("traces_recorded"));
  }
  return series;
}

Series RecordingTrial(const std::string& kind) {
  const Tensor x = Filled(0), b = Filled(1e-3f);
  if (kind == "eager") return EachIteration(100, [&] { Recorded(x, b).read<float>(); });
  const Function chain = AddChain(kRecordOps);
  const std::vector<Tensor> args = {x, b};
  return EachIteration(400, [&] { chain(args); });
}

/// Seconds of an iteration that was recorded and of those before the first one. A recording may be closed by the first
/// op of the next iteration, so the slower of the two counts.
struct RecordingTimes {
  double recorded = kNaN, plain = kNaN;
};
RecordingTimes FindRecording(const Series& trial) {
  const std::vector<double>&seconds = trial.at("seconds"), &traces = trial.at("traces");
  constexpr size_t kCold = 4;
  std::vector<double> plain, recorded;
  for (size_t i = kCold; i < seconds.size(); ++i) {
    if (traces[i] > traces[i - 1])
      recorded.push_back(std::max(seconds[i], seconds[i - 1]));
    else if (recorded.empty() && i + 1 < seconds.size() && traces[i + 1] == traces[i])
      plain.push_back(seconds[i]);
  }
  if (recorded.empty()) return {};
  return {recorded.front(), Median(plain)};
}

void ReportRecording(const std::string& kind, int trials) {
  std::vector<double> recorded, plain, ratios;
  for (int i = 0; i < trials; ++i) {
    const RecordingTimes times = FindRecording(RunTrial("recording " + kind, Tier::all));
    if (std::isnan(times.recorded)) continue;
    recorded.push_back(times.recorded);
    plain.push_back(times.plain);
    ratios.push_back(times.plain / times.recorded);
  }
  Figure figure{.name = "recording_overhead/recording_" + kind,
                .unit = Nanoseconds(kRecordOps),
                .ours = Summarize(recorded),
                .peer = "tier 1, the iterations before",
                .theirs = Summarize(plain),
                .ratio = Median(ratios),
                .goal = {Goal::ratio_at_least, 0.5}};
  figure.note = "an op of the one iteration of 1000 adds on 64 f32 that was recorded; median over processes";
  if (recorded.empty()) figure.note += "; nothing was recorded";
  Report(figure);
}

// ---- eager_loop

constexpr int kLayers = 10;
constexpr int64_t kWidth = 16, kBatch = 8;
constexpr int kStepOps = kLayers * kOpsPerLayer + kOpsPerLoss;

Timed TrainTask() {
  auto mlp = std::make_shared<Mlp>(kLayers, kWidth);
  const Tensor x = Numbers({kBatch, kWidth}, 1), y = Numbers({kBatch, kWidth}, 2);
  return Loop([mlp, x, y] { mlp->Step(x, y).item<float>(); });
}

/// The matrix products of a step and nothing else: no engine makes them go away.
Timed ProductsTask() {
  const Tensor x = Numbers({kBatch, kWidth}, 1), w = Numbers({kWidth, kWidth}, 2);
  return Loop([x, w] {
    for (int i = 0; i < kLayers; ++i) {
      tessera::matmul(x, w);
      tessera::matmul(x, x, true);
      tessera::matmul(x, w, false, true);
    }
  });
}

// ---- shape_churn

constexpr int kChurnLayers = 2;
constexpr int64_t kChurnWidth = 4;
constexpr size_t kChurn = 1000;
constexpr size_t kSettled = 50;  // iterations after which most ops should run in versions

/// 1000 shapes [B, S, width], no two alike, in an order without pattern. Of all pairs B and S from 2 on, those with the
/// smallest product, so that the ops stay small.
std::vector<tessera::Dims> ChurnShapes() {
  std::vector<tessera::Dims> pairs, shapes;
  for (int64_t product = 4; pairs.size() < kChurn; ++product)
    for (int64_t b = 2; b <= product / 2; ++b)
      if (product % b == 0) pairs.push_back({b, product / b, kChurnWidth});
  for (size_t i = 0; i < kChurn; ++i) shapes.push_back(pairs[i * 389 % kChurn]);
  return shapes;
}

Series ChurnTrial(const std::string& kind) {
  std::vector<Tensor> xs, ys;
  for (const tessera::Dims& shape : ChurnShapes()) {
    xs.push_back(Numbers(shape, 1));
    ys.push_back(Numbers(shape, 2));
  }
  Mlp mlp(kChurnLayers, kChurnWidth);
  const Function step = MlpFunction(kChurnLayers, kChurnWidth);
  // The BLAS is opened by the first product that is large enough for it: milliseconds that would hide the rest.
  const Tensor large = Numbers({256, 256}, 1);
  tessera::matmul(large, large).read<float>();
  // Its threads turn round and round for a while in case more is to come, on the core that the builder would have.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  double seconds = 0, executed = 0, versions = 0;
  Series series;
  for (size_t i = 0; i < kChurn; ++i) {
    if (i == kSettled) {
      executed = Metric("ops_executed");
      versions = Metric("version_ops");
    }
    const double start = Now();
    (kind == "eager" ? mlp.Step(xs[i], ys[i]) : step.call({xs[i], ys[i]})).item<float>();
    seconds += Now() - start;
    series["cumulative"].push_back(seconds);
  }
  versions = Metric("version_ops") - versions;
  executed = Metric("ops_executed") - executed;
  series["in_versions"] = {versions / (versions + executed)};
  return series;
}

void ReportChurn(const std::string& kind) {
  // A moment is one at which tier 1 has run for so long. Before that, what the engine does once per process decides: it
  // starts a thread (about 60 us where this was written) and takes notes of a few steps. `most_behind_us` says what all
  // of that is, from the first step on, and `worst_from_200_us` what it is as a ratio that early.
  constexpr double kMoment = 1e-3, kEarly = 200e-6;
  constexpr int kTrials = 41;
  std::vector<std::vector<double>> ours(kChurn), theirs(kChurn);  // [iteration][trial]
  std::vector<double> ratios, in_versions;
  for (int trial = 0; trial < kTrials; ++trial) {
    Series runs[2];
    for (const int k : {trial % 2, 1 - trial % 2}) runs[k] = RunTrial("churn " + kind, k == 0 ? Tier::all : Tier::one);
    for (size_t i = 0; i < kChurn; ++i) {
      ours[i].push_back(runs[0].at("cumulative")[i]);
      theirs[i].push_back(runs[1].at("cumulative")[i]);
    }
    ratios.push_back(theirs.back().back() / ours.back().back());
    in_versions.push_back(runs[0].at("in_versions")[0]);
  }
  double worst = 0, at = 0, early = 0, behind = 0;
  for (size_t i = 0; i < kChurn; ++i) {
    // Of two processes one after the other: a machine that is slower for a while is so for both.
    std::vector<double> ratio_of, behind_of;
    for (int trial = 0; trial < kTrials; ++trial) {
      ratio_of.push_back(ours[i][trial] / theirs[i][trial]);
      behind_of.push_back(ours[i][trial] - theirs[i][trial]);
    }
    const double one = Median(theirs[i]), ratio = Median(ratio_of);
    behind = std::max(behind, Median(behind_of));
    if (one >= kEarly) early = std::max(early, ratio);
    if (one < kMoment || ratio <= worst) continue;
    worst = ratio;
    at = static_cast<double>(i);
  }
  const double settled = Median(in_versions);
  Figure total{.name = "shape_churn/" + kind,
               .unit = Milliseconds(),
               .ours = Summarize(ours.back()),
               .peer = "tier 1",
               .theirs = Summarize(theirs.back()),
               .ratio = Median(ratios),
               .goal = {Goal::ratio_at_least, 1.25}};
  total.more = {{"in_versions", Json(settled)},
                {"in_versions_goal", "\"at least 0.9\""},
                {"in_versions_goal_met", settled >= 0.9 ? "true" : "false"}};
  total.note =
      "1000 training steps of about 60 ops, no two with the same batch and length, from the start of a process; "
      "in_versions: part of the ops after the first 50 steps";
  Report(total);
  Figure moment{.name = "shape_churn/" + kind + "_worst",
                .unit = {"x", 1, false},
                .ours = {worst, worst, 0},
                .goal = {Goal::value_at_most, 1.1}};
  moment.more = {{"step", Json(at)}, {"most_behind_us", Json(behind * 1e6)}, {"worst_from_200_us", Json(early)}};
  moment.note =
      "time since the start against tier 1 after as many steps, at the worst step from 1 ms of tier 1 on (median of 41 "
      "pairs of processes); most_behind_us: the most by which it is behind at any step";
  Report(moment);
}

}  // namespace

Timed LoopsTask(const std::string& task) {
  if (task == "defer issue") return DeferTask(false);
  if (task == "defer whole") return DeferTask(true);
  if (task == "train") return TrainTask();
  if (task == "products") return ProductsTask();
  if (task.starts_with("counting ")) {
    const char* tier = task.ends_with(" on") ? "3" : "1";
    if (task.starts_with("counting eager ")) return WithTier(tier, DeferTask(true));
    const std::vector<Tensor> args = {Tensor::scalar(1.0f), Tensor::scalar(0.5f), Tensor::scalar(1.0f)};
    return WithTier(tier, Loop([loop = WhileFunction(), args] { loop(args); }));
  }
  return {};
}

Series LoopsTrial(const std::string& trial) {
  for (const std::string kind : {"eager", "function"}) {
    if (trial == "recording " + kind) return RecordingTrial(kind);
    if (trial == "churn " + kind) return ChurnTrial(kind);
  }
  return {};
}

void EagerDefer() {
  const Process engine = StartTracing(Tier::all), one = StartTracing(Tier::one);
  const Race race = RunRace({PeerProcess::Task(engine, "defer issue"), PeerProcess::Task(engine, "defer whole"),
                             PeerProcess::Task(one, "defer whole")},
                            Budget());
  const Probe probe = ProbeTask(engine, "defer whole", 1000);
  Figure figure{.name = "eager_defer/issue", .unit = Nanoseconds(kDeferOps), .goal = {Goal::value_at_most, 40}};
  figure.more = {{"deferred", Json(probe.deferred)}, {"in_versions", Json(probe.in_versions)}};
  figure.ours = race.times[0];
  figure.note = "one of 200 mul and add on 64 f32 in a C++ loop, handle included, up to the read that makes them run";
  Report(figure);
  figure.name = "eager_defer/flush";
  figure.goal = {};
  figure.ours = Less(race.times[1], race.times[0]);
  figure.note = "the same, from the read to its end: the ops as a version, kernels included";
  Report(figure);
  figure.name = "eager_defer/whole";
  figure.ours = race.times[1];
  figure.peer = "tier 1";
  figure.theirs = race.times[2];
  figure.ratio = race.ratios[2] / race.ratios[1];
  figure.note = "the same, both together";
  Report(figure);
}

void RecordingOverhead() {
  // A difference of 3 % takes more rounds than others, on a machine whose speed changes from one moment to the next.
  constexpr double kCountingTimes = 4;
  // Nothing gets hot, so the option can change within one process, and no difference between processes is measured.
  const std::string never = "536870912";
  const Process process = StartTracing(
      Tier::all, {"TESSERA_HOT_EAGER=" + never, "TESSERA_HOT_LOOP=" + never, "TESSERA_HOT_FUNCTION=" + never});
  for (const std::string kind : {"eager", "while"}) {
    const Race race = RunRace({PeerProcess::Task(process, "counting " + kind + " on"),
                               PeerProcess::Task(process, "counting " + kind + " off")},
                              kCountingTimes * Budget());
    Figure figure{.name = "recording_overhead/counting_" + kind,
                  .unit = Nanoseconds(kind == "eager" ? kDeferOps : 4 * kTurns),
                  .goal = {Goal::ratio_at_least, 1 / 1.03}};
    figure.note = kind == "eager" ? "one of 200 mul and add on 64 f32, counted but never hot"
                                  : "one of the lt, add, mul and add in each of 250 turns, counted but never hot";
    Report(figure, race, {"tier 1 without counts (option tier = 1)"});
  }
  ReportRecording("eager", 15);
  ReportRecording("function", 15);
}

void EagerLoop() {
  const Process engine = StartTracing(Tier::all), one = StartTracing(Tier::one),
                replay = StartTracing(Tier::all, {"TESSERA_COMPILER_LIBRARY=none"});
  const Process kernels = PeerProcess::Start({ProgramFolder() + "/tessera_bench_kernels"});
  std::vector<Timed> contenders = {PeerProcess::Task(engine, "train"), PeerProcess::Task(one, "train"),
                                   PeerProcess::Task(one, "products")};
  if (kernels != nullptr) contenders.push_back(PeerProcess::Task(kernels, "layers " + std::to_string(kLayers)));
  const Race race = RunRace(contenders, Budget());
  const Probe probe = ProbeTask(engine, "train", 1000);
  Figure figure{.name = "eager_loop/per_op", .unit = Nanoseconds(kStepOps), .goal = {Goal::value_at_most, 90}};
  figure.more = {{"ops", Json(probe.ops)},
                 {"in_versions", Json(probe.in_versions)},
                 {"products_per_op", Json(race.times[2].median * 1e9 / kStepOps)},
                 {"kernels_per_op", Json(kernels == nullptr ? kNaN : race.times[3].median * 1e9 / kStepOps)}};
  figure.note =
      "an op of a training step of 10 layers, 8 rows, width 16, all told: kernels, issue, and reading the loss; "
      "products_per_op: what its 30 products alone take in tier 1; kernels_per_op: the kernels of all layers, called "
      "directly";
  Report(figure, race, {"tier 1"});
  figure.name = "eager_loop/step";
  figure.unit = {"us", 1e6, false};
  figure.goal = {Goal::ratio_at_least, 3};
  figure.note = "the same for a step";
  Report(figure, race, {"tier 1"});
  // A race of its own: the two processes above do what they did before there was a third.
  const Race of_replay = RunRace({PeerProcess::Task(replay, "train"), PeerProcess::Task(one, "train")}, Budget());
  figure.more = {{"in_versions", Json(ProbeTask(replay, "train", 1000).in_versions)}};
  figure.name = "eager_loop/replay_step";
  figure.note = "the same without a compiler: the replay version";
  Report(figure, of_replay, {"tier 1"});
  figure.name = "eager_loop/replay_per_op";
  figure.unit = Nanoseconds(kStepOps);
  figure.goal = {Goal::value_at_most, 90};
  Report(figure, of_replay, {"tier 1"});
}

void ShapeChurn() {
  ReportChurn("eager");
  ReportChurn("function");
}

}  // namespace bench
