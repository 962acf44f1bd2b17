// What it costs to get into a version and out of it: trace_call, guards_depth, deopt_latency.
#include <array>
#include <cmath>
#include <limits>

#include "bench/benchmarks.h"
#include "bench/tracing.h"

namespace bench {
namespace {

using tessera::Function;
using tessera::Module;
using tessera::Tensor;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---- guards_depth

/// A function that adds `count` parameters, which are buffers. distinct: one buffer each; else one for all.
Function BufferFunction(int count, bool distinct) {
  std::string buffers, body, last = "%x";
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i), buffer = distinct ? n : "0";
    if (distinct || i == 0) buffers += "buffer @p" + n + " : tensor<64 x f32>\n";
    body += "  %r" + n + " = buffer_read {buffer = \"p" + buffer + "\"} : tensor<64 x f32>\n";
    body += "  %v" + n + " = add " + last + ", %r" + n + "\n";
    last = "%v" + n;
  }
  return Function::parse(buffers + "func @sum(%x: tensor<64 x f32>) -> tensor<64 x f32> {\n" + body + "  return " +
                         last + "\n}\n")
      .value();
}

/// The same called eagerly, with a place in the program for each op. kDistinct makes two stretches of them, so that the
/// versions of one are not those of the other.
template <int kCount, bool kDistinct>
[[gnu::noinline]] Tensor AddParameters(const Tensor& x, const std::vector<Tensor>& parameters) {
  static_assert(kCount == 10 || kCount == 100 || kCount == 1000);
  const Tensor* p = parameters.data();
  Tensor v = x;
#define TSR_ADD \
  v = v + *p;   \
  p += kDistinct;
  if constexpr (kCount == 10) {
    TSR_BENCH_TEN(TSR_ADD)
  } else if constexpr (kCount == 100) {
    TSR_BENCH_HUNDRED(TSR_ADD)
  } else {
    TSR_BENCH_THOUSAND(TSR_ADD)
  }
#undef TSR_ADD
  return v;
}

// The parameters are tensors of their own on the same memory: with memory of their own a thousand of them do not fit
// into the innermost cache, and it is not guards that are timed.
template <int kCount>
Timed Parameters(const std::string& kind, bool distinct) {
  const Tensor x = Filled(0), memory = Filled(1e-3f);
  const auto parameter = [&] { return tessera::reshape(memory, {memory.size()}); };
  if (kind == "buffers") {
    const Function sum = BufferFunction(kCount, distinct);
    for (const std::string& name : sum.module().buffer_names()) (void)sum.module().set_buffer(name, parameter()).ok();
    return Loop([sum, args = std::vector<Tensor>{x}] { sum(args); });
  }
  std::vector<Tensor> parameters;
  for (int i = 0; i < (distinct ? kCount : 1); ++i) parameters.push_back(parameter());
  return Loop([x, parameters, distinct] {
    Tensor v = distinct ? AddParameters<kCount, true>(x, parameters) : AddParameters<kCount, false>(x, parameters);
    v.read<float>();
  });
}

void ReportGuards(const std::string& kind, int count) {
  const std::string task = "guards " + kind + " " + std::to_string(count);
  const Process engine = StartTracing(Tier::all), one = StartTracing(Tier::one);
  std::vector<Timed> contenders;
  for (const Process& process : {engine, one})
    for (const char* which : {" distinct", " same"}) contenders.push_back(PeerProcess::Task(process, task + which));
  const Race race = RunRace(contenders, Budget() / 4);
  Figure figure{.name = "guards_depth/" + kind + "_" + std::to_string(count), .unit = Nanoseconds()};
  figure.ours = Less(race.times[0], race.times[1]);
  figure.peer = "tier 1";
  figure.theirs = Less(race.times[2], race.times[3]);
  figure.ratio = race.ratios[2];
  const Probe probe = ProbeTask(engine, task + " distinct");
  figure.more = {{"per_parameter", Json(figure.ours.median * 1e9 / count)},
                 {"per_op", Json(race.times[0].median * 1e9 / count)},
                 {"per_op_same", Json(race.times[1].median * 1e9 / count)},
                 {"peer_per_op", Json(race.times[2].median * 1e9 / count)},
                 {"in_versions", Json(probe.in_versions)}};
  figure.note = "a sum of " + std::to_string(count) +
                " parameters of 64 f32 on the same memory, less the same ops on one parameter: what "
                "the parameters cost beyond their ops; per_op and ratio are of the whole";
  Report(figure);
}

// ---- deopt_latency

/// 100 values that are alive when the branch goes one way or the other, then a sum of them. The way that is seldom
/// taken begins with a host_read, which says when tier 1 has come to it.
Function BranchFunction() {
  std::string text =
      "func @branch(%x: tensor<64 x f32>, %b: tensor<64 x f32>, %p: tensor<bool>) -> tensor<64 x f32> {\n";
  for (int i = 0; i < 100; ++i)
    text += "  %v" + std::to_string(i) + " = add " + (i == 0 ? "%x" : "%v" + std::to_string(i - 1)) + ", %b\n";
  text += R"(  %s = if %p -> (tensor<64 x f32>) {
    %y = add %v99, %b
    yield %y
  } else {
    host_read %v99 {label = "left"}
    %z = sub %v99, %b
    yield %z
  }
)";
  std::string last = "%s";
  for (int i = 0; i < 100; ++i) {
    text += "  %s" + std::to_string(i) + " = add " + last + ", %v" + std::to_string(i) + "\n";
    last = "%s" + std::to_string(i);
  }
  return Function::parse(text + "  return " + last + "\n}\n").value();
}

template <class F>
double Once(F body) {
  const double start = Now();
  body();
  return Now() - start;
}

template <class F>
void RunFor(double seconds, F body) {
  for (const double end = Now() + seconds; Now() < end;) body();
}

Series FunctionDeopts() {
  const Function branch = BranchFunction();
  const Tensor x = Filled(0), b = Filled(1e-3f);
  const std::vector<Tensor> usual = {x, b, Tensor::scalar(true)}, other = {x, b, Tensor::scalar(false)};
  double left = 0;
  branch.module().on_host_read([&](std::string_view, const Tensor&) { left = Now(); });
  RunFor(0.15, [&] { branch(usual); });
  Series series;
  const double before = Metric("deopts");
  for (int turn = 0; turn < 100; ++turn) {
    for (int i = 0; i < 9; ++i) branch(usual);
    series["usual"].push_back(Once([&] { branch(usual); }));
    const double start = Now();
    branch(other);
    series["other"].push_back(left - start);
  }
  series["deopts"] = {Metric("deopts") - before};
  return series;
}

struct EagerTimes {
  double op = 0, read = 0;
};

/// 100 values whose handles live on, and an op that is one of two. `kept` is as long.
[[gnu::noinline]] EagerTimes EagerBranch(const Tensor& x, const Tensor& b, bool usual, std::array<Tensor, 100>& kept) {
  EagerTimes times;
  Tensor* value = kept.data();
  const Tensor* last = &x;
  TSR_BENCH_HUNDRED(*value = *last + b; last = value++;)
  const double start = Now();
  Tensor y = usual ? *last + b : *last - b;
  times.op = Now() - start;
  y = y * b;
  times.read = Once([&] { y.read<float>(); });
  return times;
}

/// Fewer deopts than an op needs to get hot, or the other way would become a trace of its own.
Series EagerDeopts() {
  const Tensor x = Filled(0), b = Filled(1e-3f);
  std::array<Tensor, 100> kept;
  RunFor(0.15, [&] { EagerBranch(x, b, true, kept); });
  Series series;
  const double before = Metric("deopts");
  for (int turn = 0; turn < 12; ++turn) {
    for (int i = 0; i < 20; ++i) EagerBranch(x, b, true, kept);
    series["run"].push_back(EagerBranch(x, b, true, kept).read);
    series["op"].push_back(EagerBranch(x, b, false, kept).op);
  }
  series["deopts"] = {Metric("deopts") - before};
  return series;
}

/// What one process measured, in seconds.
struct DeoptTimes {
  double latency = 0;  // beyond what the version does where it is not left
  double whole = 0;    // what was timed
  double deopts = 0;   // for each time that one was provoked
};

DeoptTimes FunctionLatency(const Series& trial) {
  const double whole = Median(trial.at("other"));
  return {whole - Median(trial.at("usual")) / 2, whole,
          trial.at("deopts")[0] / static_cast<double>(trial.at("other").size())};
}

DeoptTimes EagerLatency(const Series& trial) {
  const double whole = Median(trial.at("op"));
  return {whole - Median(trial.at("run")), whole, trial.at("deopts")[0] / static_cast<double>(trial.at("op").size())};
}

void ReportDeopts(const std::string& kind, DeoptTimes (*latency)(const Series&), const std::string& note) {
  // Exits are to stay exits, and versions to stay there whether they pay or not: what is asked for is what an exit
  // costs.
  const Settings settings = {"TESSERA_HOT_EXIT=1073741824", "TESSERA_PROFIT_GATE=false"};
  constexpr int kTrials = 9;
  std::vector<double> latencies, wholes, deopts;
  for (int i = 0; i < kTrials; ++i) {
    const DeoptTimes times = latency(RunTrial("deopt " + kind, Tier::all, settings));
    latencies.push_back(times.latency);
    wholes.push_back(times.whole);
    deopts.push_back(times.deopts);
  }
  const double per_exit = Median(deopts);
  const bool happened = per_exit >= 0.5;
  Figure figure{.name = "deopt_latency/" + kind, .unit = {"us", 1e6, false}, .goal = {Goal::value_at_most, 5}};
  figure.ours = happened ? Summarize(latencies) : Summary{kNaN, kNaN, kNaN};
  figure.more = {{"whole_us", Json(Median(wholes) * 1e6)}, {"deopts_each", Json(per_exit)}};
  figure.note = note + (happened ? "" : "; nothing was deoptimised, so there is no latency to report");
  Report(figure);
}

}  // namespace

Timed CallsTask(const std::string& task) {
  if (task.starts_with("call ")) {
    const Function chain = AddChain(std::stoi(task.substr(5)));
    return Loop([chain, args = std::vector<Tensor>{Filled(0), Filled(0)}] { chain.call(args); });
  }
  for (const std::string kind : {"buffers", "eager"})
    for (const bool distinct : {true, false}) {
      const std::string end = distinct ? " distinct" : " same";
      if (task == "guards " + kind + " 10" + end) return Parameters<10>(kind, distinct);
      if (task == "guards " + kind + " 100" + end) return Parameters<100>(kind, distinct);
      if (task == "guards " + kind + " 1000" + end) return Parameters<1000>(kind, distinct);
    }
  return {};
}

Series CallsTrial(const std::string& trial) {
  if (trial == "deopt function") return FunctionDeopts();
  if (trial == "deopt eager") return EagerDeopts();
  return {};
}

void TraceCall() {
  const Process engine = StartTracing(Tier::all), one = StartTracing(Tier::one);
  const Process kernels = PeerProcess::Start({ProgramFolder() + "/tessera_bench_kernels"});
  // One op leaves nothing to gain and stays in tier 1; two are the shortest trace.
  const int counts[] = {1, 2, 100};
  std::vector<Timed> contenders;
  for (const int count : counts) contenders.push_back(PeerProcess::Task(engine, "call " + std::to_string(count)));
  for (const int count : counts) contenders.push_back(PeerProcess::Task(one, "call " + std::to_string(count)));
  if (kernels != nullptr)
    for (const int count : counts) contenders.push_back(PeerProcess::Task(kernels, "add " + std::to_string(count)));
  std::vector<Summary> times = RunRace(contenders, Budget()).times;
  times.resize(9, {kNaN, kNaN, kNaN});

  auto report = [&](Figure figure, int index, const Summary& ours, const Summary& theirs) {
    figure.ours = ours;
    figure.peer = "tier 1";
    figure.theirs = theirs;
    figure.ratio = theirs.median / ours.median;
    const Probe probe = ProbeTask(engine, "call " + std::to_string(counts[index]), 1000);
    figure.more = {{"call_ns", Json(times[index].median * 1e9)},
                   {"peer_call_ns", Json(times[3 + index].median * 1e9)},
                   {"kernels_ns", Json(times[6 + index].median * 1e9)},
                   {"in_versions", Json(probe.in_versions)}};
    if (kernels == nullptr) figure.note += "; tessera_bench_kernels is not there: it is built with the tests";
    Report(figure);
  };
  for (int i = 0; i < 2; ++i) {
    Figure figure{.name = "trace_call/ops_" + std::to_string(counts[i]),
                  .unit = Nanoseconds(),
                  .goal = {Goal::value_at_most, 200.0 + 10 * counts[i]}};
    figure.note = "a call of a function from C++, less its kernels called directly; its adds on 64 f32: " +
                  std::to_string(counts[i]) + "; 200 ns for the call and 10 for each op";
    report(figure, i, Less(times[i], times[6 + i]), Less(times[3 + i], times[6 + i]));
  }
  Figure figure{.name = "trace_call/per_op", .unit = Nanoseconds(98), .goal = {Goal::value_at_most, 10}};
  figure.note = "an op more in the called function: from 2 to 100 adds on 64 f32, less their kernels called directly";
  const Summary kernel = Less(times[8], times[7]);
  report(figure, 2, Less(Less(times[2], times[1]), kernel), Less(Less(times[5], times[4]), kernel));
}

void GuardsDepth() {
  for (const char* kind : {"buffers", "eager"})
    for (const int count : {10, 100, 1000}) ReportGuards(kind, count);
}

void DeoptLatency() {
  ReportDeopts("function", FunctionLatency,
               "from the call of a function that leaves its version at a branch, with 100 values alive, to the first "
               "instruction in tier 1, less half a call that stays there, since as many ops lie before the branch as "
               "after it; median over processes");
  ReportDeopts("eager", EagerLatency,
               "an op other than the expected one after 100 that wait and whose handles live: the time of that op, in "
               "which they run and it runs in tier 1, less that of the read for which 102 run where the version is not "
               "left; median over processes");
}

}  // namespace bench
