// Every row of the tables of the tiers (deopt_reasons.def, guards.def, trace_abort.def, and the rows of metrics.def and
// events.def that are theirs) is provoked here, by a program wherever one can. The switches have no default, so that a
// new row does not compile before it has its provocation.
#include <cstdio>
#include <set>
#include <thread>

#include "runtime/fault.h"
#include "runtime/metrics.h"
#include "runtime/ring.h"
#include "runtime/trace/reader.h"
#include "tests/unit/tiers_code_testing.h"
#include "tests/unit/tiers_function_testing.h"
#include "tiers_testing.h"
#include "tools/trace/analysis.h"
#include "tools/trace/text.h"

namespace tessera {
namespace {

using deopt::DeoptReason;
using deopt::GuardFailure;
using deopt::GuardKind;
using deopt::Ledger;
using tracer::TraceAbort;
using Settings = std::map<std::string, std::string>;

Settings Hot(const Settings& more = {}) {
  Settings settings = more;
  settings.merge(HotAtOnce());
  return settings;
}

Tensor Ramp(int64_t n) { return iota({n}, 0, 0.5, 0.25, f32); }
Tensor Ones(int64_t n) { return Tensor::from(std::vector<float>(static_cast<size_t>(n), 1.0f)); }

// ---- programs

/// Runs `body` with 0 until it has versions, then with 1.
void Change(const std::function<Tensor(int change)>& body) {
  RunBoth([&](Log& log) {
    for (int i = 0; i < 30; ++i) log.Add(body(i < 24 ? 0 : 1));
  });
}

/// Sizes as the program gets them, one for each iteration.
void Sizes(const std::vector<int64_t>& sizes) {
  RunBoth([&](Log& log) {
    for (const int64_t n : sizes) {
      const Tensor x = Ones(n);
      log.Add(tanh(x * 2.0) + x);
    }
  });
}

Tensor Small(const Tensor& x) { return tanh(x * 2.0) + x; }

/// Calls the first function of `text`; `between` may look at the program before each call.
void Function(const std::string& text, const std::vector<Tensor>& args, const Settings& settings = {},
              const std::function<void(int)>& between = nullptr, int calls = 12) {
  const OptionScope scope(Hot(settings));
  Ledger::Get().Clear();
  testing::Program program(text);
  for (int i = 0; i < calls; ++i) {
    if (between) between(i);
    program.Call(args);
  }
}

constexpr char kThreeOps[] = R"(func @f(%x: tensor<3 x f32>) -> tensor<3 x f32> {
  %a = exp %x
  %b = neg %a
  %c = add %b, %a
  return %c
})";

constexpr char kTwoWays[] = R"(func @f(%n: tensor<i64>) -> tensor<f32> {
  %r = for %i in (0, %n, 1) (%a = 1.0) -> (tensor<f32>) {
    %m = mod %i, 2
    %odd = eq %m, 1
    %b = if %odd -> (tensor<f32>) {
      %c = mul %a, 0.5
      yield %c
    } else {
      %d = add %a, 0.25
      yield %d
    }
    %e = add %b, 0.125
    yield %e
  }
  return %r
})";

/// A failure that nothing in the product produces yet, booked for a version that a program has.
void BookByHand(GuardFailure failure) {
  Change([](int) { return Small(Ramp(6)); });
  failure.reason = Info(failure.guard).reason;
  for (const auto& anchor : tiers::Manager::Get().anchors()) {
    const auto versions = anchor->versions();
    if (versions.empty()) continue;
    return tiers::Manager::Get().AddExit(*anchor, *versions[0], std::move(failure));
  }
  ADD_FAILURE() << "no version to book it for";
}

GuardFailure FailedAlignment() {
  const Tensor x = Ramp(8);
  const Tensor odd = x[{{1, 8}}];
  deopt::InputGuard guard;
  guard.device = &odd.impl()->device();
  guard.dtype = odd.dtype();
  guard.rank = 1;
  guard.dims[0] = 7;
  guard.strides[0] = 1;
  guard.alignment = 64;
  deopt::Symbols symbols;
  GuardFailure failure;
  EXPECT_FALSE(deopt::CheckInput(guard, *odd.impl(), {}, symbols, &failure));
  return failure;
}

GuardFailure FailedProperty() {
  const Tensor x = Tensor::from<float>({1, 0, 1});
  const deopt::ValueProperty property{deopt::ValueProperty::Kind::all_true, 0, 0};
  EXPECT_FALSE(deopt::Holds(property, *x.impl()));
  GuardFailure failure;
  failure.guard = GuardKind::value_property;
  failure.expected = ToString(property);
  failure.seen = "a zero";
  return failure;
}

// ---- guards.def

// Attention whose mask was causal and is another one.
void OtherMask() {
  if (!HasCompiler()) return BookByHand(FailedProperty());
  Settings settings = CodeAtOnce({3, true}, /*bitwise=*/false);
  settings["profit_gate"] = "false";
  const OptionScope scope(settings);
  const Tensor x = random_normal(1, 0, {1, 4, 8}), causal = tril(ones({4, 4})) > 0.5, all = ones({4, 4}) > 0.5;
  for (int i = 0; i < 20; ++i) (attention(x, x, x, i < 16 ? causal : all) * 2.0).to_vector<float>();
}

// The same in a buffer.
void OtherMaskInBuffer() {
  if (!HasCompiler()) {
    GuardFailure failure = FailedProperty();
    failure.guard = GuardKind::buffer_version;
    return BookByHand(std::move(failure));
  }
  Settings settings = CodeAtOnce({3, true}, /*bitwise=*/false);
  settings["profit_gate"] = "false";
  const OptionScope scope(settings);
  const tessera::Function f = tessera::Function::parse(R"(
buffer @mask : tensor<4 x 4 x bool>
func @f(%x: tensor<1 x 4 x 8 x f32>) -> tensor<1 x 4 x 8 x f32> {
  %m = buffer_read {buffer = "mask"}
  %a = attention %x, %x, %x, %m
  %y = mul %a, 2.0
  return %y
}
)")
                                  .value();
  const Tensor x = random_normal(1, 0, {1, 4, 8});
  for (int i = 0; i < 20; ++i) {
    if (i % 16 == 0)
      EXPECT_TRUE(f.module().set_buffer("mask", (i == 0 ? tril(ones({4, 4})) : ones({4, 4})) > 0.5).ok());
    f.call({x}).to_vector<float>();
  }
}

// A row without a producer in the product: `alignment`, because kernels take data as it lies. Its check runs here.
void Provoke(GuardKind guard) {
  switch (guard) {
    case GuardKind::configuration:
      return Function(kThreeOps, {Ramp(3)}, {}, [](int i) {
        if (i == 10) EXPECT_TRUE(rt::options().Set("trace_depth", "8").ok());
      });
    case GuardKind::device:
      return RunBoth([](Log& log) {
               const Tensor here = Ramp(6), there = here.to(Device::null());
               for (int i = 0; i < 30; ++i) log.Add(std::string(Small(i < 24 ? here : there).device().name()));
             }),
             void();
    case GuardKind::dtype:
      return Change([](int c) { return Small(c ? Tensor::from<double>({1, 2}) : Tensor::from<float>({1, 2})); });
    case GuardKind::rank:
      return Change([](int c) {
        return Small(c ? Tensor::from<float>({1, 2, 3, 4}, {2, 2}) : Tensor::from<float>({1, 2, 3, 4}));
      });
    case GuardKind::exact_dim: return Change([](int c) { return Small(Ones(8 + c)); });
    case GuardKind::range: return Sizes({8, 8, 8, 8, 9, 11, 17, 30, 5, 77, 8, 9, 10, 11, 12, 13, 14, 15, 1, 16});
    case GuardKind::divisible: {
      std::vector<int64_t> sizes;
      for (int i = 0; i < 30; ++i) sizes.push_back(i % 2 ? 32 : 48);
      sizes.push_back(40);
      return Sizes(sizes);
    }
    case GuardKind::equal_dims:
      return RunBoth([](Log& log) {
               for (int i = 0; i < 60; ++i) {
                 const int64_t n = 2 + i * 7 % 31;
                 const Tensor x = Ones(n), y = Ones(i < 50 ? n : n + 3);
                 log.Add(sum(x * 2.0) + sum(y * 3.0));
               }
             }),
             void();
    case GuardKind::strides: {
      const Tensor m = Tensor::from<float>({1, 2, 3, 4}, {2, 2}), t = m.transpose();
      return Change([&](int c) { return Small(c ? t : m); });
    }
    case GuardKind::alignment: return BookByHand(FailedAlignment());
    case GuardKind::scalar_value: return Change([](int c) { return softmax(reshape(Ones(6), {2, 3}) * 2.0, c); });
    case GuardKind::aliasing:
      return Change([](int c) {
        const Tensor x = Ones(6), y = x * 2.0, z = x + 3.0;
        return (c ? z : y) / (x + 1.0);
      });
    case GuardKind::branch:
      return Change([](int c) {
        const Tensor y = Ones(6) * 2.0;
        return c ? tanh(y) : exp(y);
      });
    case GuardKind::escape:
      return RunBoth([](Log& log) {
               Tensor w = Ones(8), kept;
               for (int i = 0; i < 30; ++i) {
                 Tensor a = w * 2.0;
                 Tensor b = a + 1.0;
                 if (i == 25) kept = b;
                 w = tanh(b) * 0.5;
               }
               log.Add(kept);
               log.Add(w);
             }),
             void();
    case GuardKind::buffer_version: return OtherMaskInBuffer();
    case GuardKind::value_property: return OtherMask();
  }
}

TEST(TiersTables, EveryGuardFails) {
  for (const deopt::GuardInfo& row : deopt::kGuards) {
    SCOPED_TRACE(row.name);
    Provoke(row.id);
    EXPECT_GT(Ledger::Get().count(row.id), 0) << Runtime::explain();
    EXPECT_GT(Ledger::Get().count(row.reason), 0);
    EXPECT_NE(Runtime::explain().find(row.name), std::string::npos) << Runtime::explain();
  }
}

// ---- deopt_reasons.def

void Provoke(DeoptReason reason) {
  switch (reason) {
    // Those that stand for a guard.
    case DeoptReason::configuration: return Provoke(GuardKind::configuration);
    case DeoptReason::device: return Provoke(GuardKind::device);
    case DeoptReason::dtype: return Provoke(GuardKind::dtype);
    case DeoptReason::rank: return Provoke(GuardKind::rank);
    case DeoptReason::shape: return Provoke(GuardKind::exact_dim);
    case DeoptReason::layout: return Provoke(GuardKind::strides);
    case DeoptReason::scalar: return Provoke(GuardKind::scalar_value);
    case DeoptReason::dataflow: return Provoke(GuardKind::aliasing);
    case DeoptReason::branch: return Function(kTwoWays, {Tensor::scalar(int64_t{20})});
    case DeoptReason::escape: return Provoke(GuardKind::escape);
    case DeoptReason::buffer: return Provoke(GuardKind::buffer_version);
    case DeoptReason::value: return Provoke(GuardKind::value_property);

    case DeoptReason::read:
    case DeoptReason::other_thread:
      return RunBoth([&](Log& log) {
               Tensor w = Ones(8);
               for (int i = 0; i < 40; ++i) {
                 Tensor a = w * 2.0;
                 Tensor b = a + 1.0;
                 const auto look = [&] { log.Add(a); };
                 if (i == 30 && reason == DeoptReason::read) look();
                 if (i == 30 && reason == DeoptReason::other_thread) std::thread(look).join();
                 w = tanh(b) - a * 0.125;
               }
               log.Add(w);
             }),
             void();
    case DeoptReason::op_failed:
      return RunBoth([](Log& log) {
               Tensor table = reshape(Ones(12), {4, 3});
               for (int i = 0; i < 40; ++i) {
                 const Tensor ids = Tensor::from<int64_t>({i % 4, i == 33 ? 4 : 0});
                 const Tensor scaled = table * 0.5;
                 Tensor rows;
                 log.Try([&] { rows = embedding(scaled, ids); });
                 if (rows.defined()) table = table + sum(rows) * 0.001;
               }
               log.Add(table);
             }),
             void();
    case DeoptReason::forced: return Function(kThreeOps, {Ramp(3)}, {{"deopt_every", "2"}});
  }
}

TEST(TiersTables, EveryDeoptReasonIsBooked) {
  for (const deopt::DeoptReasonInfo& row : deopt::kDeoptReasons) {
    SCOPED_TRACE(row.name);
    // Whoever looks at a recording sees it with its words.
    const std::string path = ::testing::TempDir() + "tiers_tables_test_deopts";
    ASSERT_TRUE(Runtime::trace_start(path).ok());
    Provoke(row.id);
    ASSERT_TRUE(Runtime::trace_stop().ok());
    EXPECT_GT(Ledger::Get().count(row.id), 0) << Runtime::explain();
    EXPECT_NE(Runtime::explain().find(row.name), std::string::npos) << Runtime::explain();
    const auto data = rt::trace::ReadTraceFile(path);
    std::remove(path.c_str());
    ASSERT_TRUE(data.ok()) << data.status();
    const std::string text = tools::ReportText(tools::Analyse(*data), /*rows=*/100);
    EXPECT_NE(text.find(row.message), std::string::npos) << text;
  }
}

// ---- trace_abort.def

void EagerAbort(const std::function<void(Log&, int i)>& body, const Settings& settings = {}) {
  RunBoth(
      [&](Log& log) {
        for (int i = 0; i < 30; ++i) body(log, i);
      },
      Hot(settings));
}

/// Steps of which no two are the same ops. Nothing but the step itself gets hot.
void UnstableSteps(Log& log, int steps) {
  for (int i = 0; i < steps; ++i) {
    const Step step;
    Tensor w = Ones(4) * 2.0;
    for (int k = 0; k <= i; ++k) w = tanh(w);
    log.Add(w);
  }
}

void Provoke(TraceAbort reason) {
  switch (reason) {
    case TraceAbort::too_long: return Function(kThreeOps, {Ramp(3)}, {{"trace_ops", "2"}});
    case TraceAbort::too_short: return EagerAbort([](Log& log, int) { log.Add(tanh(Ones(4))); });
    case TraceAbort::unrolled:
      return Function(kTwoWays, {Tensor::scalar(int64_t{9})}, {{"trace_unroll", "1"}, {"hot_loop", "100000"}});
    case TraceAbort::left:
      return Function(kTwoWays, {Tensor::scalar(int64_t{1})}, {{"hot_loop", "1"}, {"hot_function", "100000"}});
    case TraceAbort::host_effect:
      return Function(R"(func @f(%x: tensor<3 x f32>) -> tensor<3 x f32> {
          print %x {label = "x"}
          %a = exp %x
          return %a
        })",
                      {Ramp(3)});
    case TraceAbort::op_failed:
      return EagerAbort([](Log& log, int) {
        const Tensor x = Ones(8) * 0.5, other = Ones(3);
        log.Try([&] { (void)(x + other); });
      });
    case TraceAbort::other_device:
      return EagerAbort([](Log&, int) {
        const Tensor x = Ramp(8).to(Device::null());
        (void)Small(x);
      });
    case TraceAbort::other_thread:
      return EagerAbort([](Log& log, int) {
        const Tensor a = Ones(4) * 0.5;
        std::thread([&] { log.Add(a); }).join();
        (void)Small(a);
      });
    case TraceAbort::unstable:
      return RunBoth([](Log& log) { UnstableSteps(log, 30); }, Hot({{"hot_eager", "1000"}})), void();
    case TraceAbort::configuration:
      return EagerAbort([](Log& log, int) {
        Tensor w = tanh(Ones(4) * 0.5);
        EXPECT_TRUE(rt::options().Set("trace_depth", "8").ok());
        const Step step;  // counts nothing, and so needs no time in which the options stay
        w = w + 0.25;
        EXPECT_TRUE(rt::options().Set("trace_depth", "8").ok());
        w = w * 0.5;
        log.Add(w);
      });
    case TraceAbort::thread_end:
      return RunBoth([](Log& log) {
               Tensor w = Ones(8);
               std::thread([&] {
                 for (int i = 0; i < 11; ++i) w = tanh(w * 0.5) + 0.25;
               }).join();
               log.Add(w);
             }),
             void();
    case TraceAbort::no_memory:
      rt::ArmFault(rt::Fault::recording, 4, 3);
      EagerAbort([](Log& log, int) { log.Add(Small(Ones(4))); });
      return rt::DisarmFaults();
  }
}

TEST(TiersTables, EveryTraceAbortIsBooked) {
  for (const tracer::TraceAbortInfo& row : tracer::kTraceAborts) {
    SCOPED_TRACE(row.name);
    Provoke(row.id);
    EXPECT_GT(Ledger::Get().count(row.id), 0) << Runtime::explain();
    EXPECT_NE(Runtime::explain().find(row.message), std::string::npos) << Runtime::explain();
  }
}

TEST(TiersTables, AnUnstablePlaceGetsNoVersionAndIsLeftAloneInTheEnd) {
  const OptionScope scope(Hot({{"hot_eager", "100000"}, {"trace_attempts", "2"}}));
  tiers::Manager::Get().Reset();
  Ledger::Get().Clear();
  Log log;
  UnstableSteps(log, 150);
  EXPECT_EQ(Aborts(TraceAbort::unstable), 2) << Runtime::explain();
  EXPECT_EQ(Ledger::Get().versions().size(), 0u) << Runtime::explain();
}

TEST(TiersTables, ARecordingWithoutMemoryLosesNothingElse) {
  rt::ArmFault(rt::Fault::recording, 5, 1);
  const int64_t runs = MetricNow("version_runs");
  RunBoth([](Log& log) {
    Tensor w = Ones(8);
    for (int i = 0; i < 40; ++i) {
      w = tanh(w * 0.5) + 0.25;
      if (i % 8 == 0) log.Add(w);
    }
    log.Add(w);
  });
  rt::DisarmFaults();
  EXPECT_EQ(Aborts(TraceAbort::no_memory), 1) << Runtime::explain();
  EXPECT_GT(MetricNow("version_runs"), runs) << "it is recorded again: " << Runtime::explain();
}

// ---- metrics.def and events.def

Settings CodeAtOnce() { return Hot({{"compile_after", "0"}, {"specialise_after", "0"}}); }

/// A loop that is worth a kernel.
void Loop(Log& log) {
  Tensor w = Ones(8);
  for (int i = 0; i < 40; ++i) w = tanh(w * 0.5) + 0.25;
  log.Add(w);
}

/// Two versions of one place, which take turns: for a dim of 1, and for the others.
void TwoVersions() {
  const OptionScope scope(Hot({}));
  testing::Program program(R"(func @f(%x: tensor<N x f32>) -> tensor<N x f32> {
    %a = exp %x
    %b = neg %a
    %c = add %b, %a
    return %c
  })");
  for (int i = 0; i < 80; ++i) program.Call({Ones(i % 2 == 0 ? 8 : 1)});
}

/// A loop that is ahead of its condition when that ends it.
void RunsAhead() {
  const OptionScope scope({{"background", "false"}, {"hot_loop", "2"}, {"profit_gate", "false"}, {"run_ahead", "4"}});
  testing::Program program(R"(func @f(%x: tensor<N x f32>) -> tensor<N x f32> {
    %r = while (%a = %x) -> (tensor<N x f32>) {
      %m = max %a {axes = [0]}
      %go = gt %m, 0.001
      yield %go
    } do {
      %b = mul %a, 0.5
      %c = sub %b, 0.0001
      yield %c
    }
    return %r
  })");
  for (int i = 0; i < 8; ++i) program.Call({Ones(4)});
}

/// Recordings, an abort, versions, bridges, deopts, and versions that go. Generated code, and a compile that fails,
/// where there is a compiler.
void ABitOfEverything() {
  Provoke(TraceAbort::too_short);
  Provoke(DeoptReason::read);
  Provoke(DeoptReason::branch);
  TwoVersions();
  RunsAhead();
  if (!HasCompiler()) return;
  RunBoth(Loop, CodeAtOnce());
  rt::ArmFault(rt::Fault::compile, 1, -1);
  RunBoth(Loop, CodeAtOnce());
  rt::DisarmFaults();
}

TEST(TiersTables, AVersionForWhichNoCodeCanBeGeneratedStaysAsItIs) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  const int64_t made = MetricNow("codes_made"), failed = MetricNow("codes_failed"), runs = MetricNow("version_runs");
  const int64_t kernels = MetricNow("kernels_generated");
  rt::ArmFault(rt::Fault::compile, 1, -1);
  RunBoth(Loop, CodeAtOnce());
  rt::DisarmFaults();
  EXPECT_EQ(MetricNow("codes_made"), made);
  EXPECT_EQ(MetricNow("kernels_generated"), kernels);
  EXPECT_GT(MetricNow("version_runs"), runs + 20) << Runtime::explain();
  int64_t noted = 0;
  for (const deopt::VersionRecord& version : Ledger::Get().versions()) {
    EXPECT_EQ(version.generator, "replay");
    noted += version.note == "no generated code: the compiler failed (fault)";
  }
  EXPECT_GT(noted, 0) << Runtime::explain();
  EXPECT_EQ(MetricNow("codes_failed"), failed + noted) << "it is asked once for each version";
  EXPECT_NE(Runtime::explain().find("the compiler failed"), std::string::npos) << Runtime::explain();
}

TEST(TiersTables, EveryMetricOfTheTiersMoves) {
  const rt::MetricValues before = rt::SnapshotMetrics();
  ABitOfEverything();
  const rt::MetricValues now = rt::SnapshotMetrics();
  for (const rt::MetricInfo& row : rt::kMetrics) {
    // Those of the cache, behind the tiers' own, are runtime's.
    if (row.id < rt::Metric::traces_recorded || row.id >= rt::Metric::cache_hits) continue;
    if (row.id >= rt::Metric::codes_made && !HasCompiler()) continue;
    // On a GPU only: cuda_batches_test.cc, cuda_epilogues_test.cc.
    if (row.id == rt::Metric::kernels_batched || row.id == rt::Metric::products_fused) continue;
    const auto i = static_cast<size_t>(row.id);
    EXPECT_GT(now[i], before[i]) << row.name;
  }
}

TEST(TiersTables, EveryEventOfTheTiersIsInTheRing) {
  const OptionScope scope({{"events", "65536"}});
  ABitOfEverything();
  {
    const Step step;
  }
  std::set<rt::EventKind> seen;
  for (const rt::Event& event : rt::GlobalRing()->Snapshot()) seen.insert(event.kind);
  for (const rt::EventInfo& row : rt::kEvents) {
    if (row.id < rt::EventKind::trace_record) continue;
    if (row.id == rt::EventKind::compile_stage && !HasCompiler()) continue;
    // Copies need another device, launches a GPU (cuda_trace_test.cc), and spans are in recordings alone:
    // tiers_trace_test.cc.
    if (row.id == rt::EventKind::copy || row.id == rt::EventKind::span || row.id == rt::EventKind::launch) continue;
    EXPECT_TRUE(seen.contains(row.id)) << row.name;
  }
}

}  // namespace
}  // namespace tessera
