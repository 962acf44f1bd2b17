// The ledger: what is kept, what is forgotten, what is written, and the text of Explain(), word for word. Also the text
// of a trace, whose names of values the ledger uses.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "deopt/ledger.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/ring.h"

namespace tessera::deopt {
namespace {

using tracer::TraceAbort;

VersionRecord Version(const std::string& place, Rung rung = Rung::exact) {
  VersionRecord v;
  v.trace = place;
  v.rung = rung;
  v.state = "live";
  return v;
}

DeoptRecord Deopt(const std::string& place, GuardKind guard, const std::string& expected, const std::string& seen,
                  int64_t version = 1) {
  DeoptRecord d;
  d.version = version;
  d.trace = place;
  d.failure.guard = guard;
  d.failure.reason = Info(guard).reason;
  d.failure.expected = expected;
  d.failure.seen = seen;
  d.policy = Info(d.failure.reason).policy;
  return d;
}

// The failure that the documentation shows.
DeoptRecord ShapeDeopt(int64_t version = 1) {
  DeoptRecord d = Deopt("train.cc:40", GuardKind::exact_dim, "32", "48", version);
  d.failure.step = 3;
  d.failure.value = 1;
  d.failure.dim = 0;
  d.failure.source = {"/home/me/train.cc", 42, 5};
  return d;
}

// Sets an option until the end of the scope.
class WithOption {
 public:
  WithOption(const std::string& name, const std::string& value) : name_(name), before_(*rt::options().Get(name)) {
    EXPECT_TRUE(rt::options().Set(name_, value).ok());
  }
  ~WithOption() { EXPECT_TRUE(rt::options().Set(name_, before_).ok()); }

 private:
  std::string name_, before_;
};

// Collects the log until the end of the scope, each line as "level: text".
class LogLines {
 public:
  LogLines() {
    rt::SetLogSink([this](int level, std::string_view line) {
      lines_.push_back(std::to_string(level) + ": " + std::string(line));
    });
  }
  ~LogLines() { rt::SetLogSink({}); }
  std::vector<std::string> Take() { return std::exchange(lines_, {}); }

 private:
  std::vector<std::string> lines_;
};

TEST(Ledger, NothingYet) {
  EXPECT_EQ(Ledger().Explain(),
            "nothing got hot yet: no place came back often enough to be recorded (options hot_eager, hot_loop and "
            "hot_function), so everything ran in tier 1\n");
}

TEST(Ledger, APlaceWaitsUntilItHasAVersion) {
  Ledger ledger;
  ledger.AddWait("@f:1", "a version pays after 60 arrivals, and there were 42");
  ledger.AddWait("@g:9", "why not");
  EXPECT_EQ(ledger.Explain(),
            "places that are hot, but not enough for a version to pay\n"
            "  place  why\n"
            "  @f:1   a version pays after 60 arrivals, and there were 42\n"
            "  @g:9   why not\n");
  ledger.AddVersion(Version("@f:1"));
  EXPECT_EQ(ledger.Explain().find("pays after"), std::string::npos);
  EXPECT_NE(ledger.Explain().find("why not"), std::string::npos);
}

TEST(Ledger, ExplainWordForWord) {
  Ledger ledger;
  VersionRecord v = Version("train.cc:40");
  v.generator = "replay";
  v.cause = "hot after 16 arrivals";
  v.steps = 12;
  v.recording_ns = 1'500'000;
  v.compile_ns = 4'000'000;
  v.tier1_ns = 1'200'000;
  v.bytes = 65536;
  v.counters->runs = 1000;
  v.counters->timed_runs = 10;
  v.counters->timed_ns = 8'000'000;
  EXPECT_EQ(ledger.AddVersion(v), 1);

  v = Version("train.cc:40", Rung::symbolic);  // needs more runs
  v.cause = "generalised: dim 0 of x1 was 32, now 48";
  v.steps = 12;
  v.compile_ns = 9'000'000;
  v.tier1_ns = 1'200'000;
  v.counters->runs = 4;
  v.counters->timed_runs = 2;
  v.counters->timed_ns = 2'000'000;
  EXPECT_EQ(ledger.AddVersion(v), 2);

  v = Version("@step:7");  // slower than tier 1
  v.cause = "hot after 40 arrivals";
  v.steps = 3;
  v.compile_ns = 20'000;
  v.tier1_ns = 900;
  v.counters->runs = 50;
  v.counters->timed_runs = 50;
  v.counters->timed_ns = 50'500;
  v.state = "dropped: slower than tier 1";
  EXPECT_EQ(ledger.AddVersion(v), 3);

  v = Version("@a_function_with_a_very_long_name_indeed:1234");  // not measured
  v.state = "queued";
  EXPECT_EQ(ledger.AddVersion(v), 4);

  ledger.AddDeopt(Deopt("@step:7", GuardKind::strides, "[1048576,1024,32,1]", "[1,33554432,1048576,32]"));
  ledger.AddDeopt(ShapeDeopt());
  ledger.AddDeopt(ShapeDeopt());
  DeoptRecord read = Deopt("train.cc:40", GuardKind::branch, "", "");
  read.failure.reason = DeoptReason::read;
  read.failure.step = 5;
  read.failure.source.line = 9;
  read.policy = Policy::record;
  ledger.AddDeopt(read);
  ledger.AddAbort("train.cc:80", TraceAbort::too_long, 1'200'000);
  ledger.AddAbort("train.cc:80", TraceAbort::too_long, 1'300'000);
  ledger.AddAbort("train.cc:60", TraceAbort::host_effect, 700);
  {
    LogLines log;
    ledger.AddPin("ledger_test.cc:80", "4 recordings were aborted, the last one: too_long");
  }
  EXPECT_EQ(ledger.Explain(),
            R"(versions: traces that were compiled, and the time of one run in tier 1 and in the version
  id  place                     rung      steps  runs  compile  tier 1  version    saved  break-even          state
   1  train.cc:40               exact        12  1000     4 ms  1.2 ms   800 us   400 ms  after 10 runs       live
      hot after 16 arrivals; made by replay; recorded in 1.5 ms; holds 64 KiB
   2  train.cc:40               symbolic     12     4     9 ms  1.2 ms     1 ms   800 us  not yet (needs 45)  live
      generalised: dim 0 of x1 was 32, now 48
   3  @step:7                   exact         3    50    20 us  900 ns  1.01 us  -5.5 us  never at this rate  dropped
      hot after 40 arrivals; dropped: slower than tier 1
   4  ...long_name_indeed:1234  exact         0     0        -       -        -        -  not yet             queued
  in all: 4 versions, compile 13 ms, saved 401 ms

deopts: versions that were left before their end, and what the last one was about
  place        reason  count  last guard  expected             seen                  policy
  train.cc:40  shape       2  exact_dim   32                   48                    generalise
      a dim is not one that the version serves: dim 0 of operand x1 at train.cc:42
  @step:7      layout      1  strides     [1048576,1024,32,1]  [1,33554432,10485...  record
      an operand lies in memory in another way: expected [1048576,1024,32,1], seen [1,33554432,1048576,32]
  train.cc:40  read        1  -                                                      record
      a value was read before the trace ended: step 5 at line 9

aborts: recordings that came to nothing, and the time they took
  place        reason       count    time
  train.cc:80  too_long         2  2.5 ms
      more ops than the option trace_ops allows
  train.cc:60  host_effect      1  700 ns
      an effect on the host came first: print, host_read, or a value read by the program

places that stay in tier 1
  place              why
  ledger_test.cc:80  4 recordings were aborted, the last one: too_long
)");
}

TEST(Ledger, BreakEvenOfVersionsThatCostNothingOrTooMuch) {
  Ledger ledger;
  VersionRecord v = Version("a.cc:1");
  v.tier1_ns = 1000;
  v.counters->runs = v.counters->timed_runs = 5;
  v.counters->timed_ns = 5 * 999;
  ledger.AddVersion(v);
  EXPECT_NE(ledger.Explain().find("after 1 run "), std::string::npos) << ledger.Explain();
  ledger.Update(1, [](VersionRecord& r) { r.compile_ns = INT64_MAX; });
  EXPECT_NE(ledger.Explain().find("never at this rate"), std::string::npos) << ledger.Explain();
}

TEST(Ledger, UpdateChangesOneVersion) {
  Ledger ledger;
  VersionRecord v = Version("a.cc:1");
  v.counters = nullptr;
  ledger.AddVersion(v);
  ledger.AddVersion(Version("a.cc:2"));
  ledger.Update(2, [](VersionRecord& r) { r.state = "evicted: least useful"; });
  ledger.Update(99, [](VersionRecord&) { FAIL() << "there is no version 99"; });
  const std::vector<VersionRecord> versions = ledger.versions();
  ASSERT_EQ(versions.size(), 2u);
  EXPECT_EQ(versions[0].id, 1);
  EXPECT_EQ(versions[0].state, "live");
  EXPECT_NE(versions[0].counters, nullptr);
  EXPECT_EQ(versions[1].id, 2);
  EXPECT_EQ(versions[1].state, "evicted: least useful");
}

TEST(Ledger, ForgetsTheOldestDeadVersionsButNotWhatTheyCost) {
  Ledger ledger;
  ledger.AddVersion(Version("live.cc:1"));
  const int64_t kMore = 10;
  for (int64_t i = 0; i < static_cast<int64_t>(Ledger::kKeptVersions) + kMore; ++i) {
    VersionRecord v = Version("dead.cc:1");
    v.state = i % 3 == 0 ? "dropped: slower" : i % 3 == 1 ? "evicted: least useful" : "failed: no memory";
    v.compile_ns = 1'000'000;
    ledger.AddVersion(v);
  }
  const std::vector<VersionRecord> versions = ledger.versions();
  ASSERT_EQ(versions.size(), Ledger::kKeptVersions + 1);
  EXPECT_EQ(versions[0].trace, "live.cc:1");
  EXPECT_EQ(versions[1].id, 2 + kMore);
  EXPECT_NE(ledger.Explain().find("  in all: 1035 versions (10 dead and not listed), compile 1.03 s, saved 0 ns\n"),
            std::string::npos);
}

TEST(Ledger, CountsAndKeepsTheLastDeopts) {
  Ledger ledger;
  for (int i = 0; i < 300; ++i) {
    DeoptRecord d = Deopt("a.cc:1", i % 2 ? GuardKind::range : GuardKind::dtype, "", "", i);
    d.time_ns = i == 299 ? 0 : i + 1;
    ledger.AddDeopt(d);
  }
  const std::vector<DeoptRecord> deopts = ledger.deopts();
  ASSERT_EQ(deopts.size(), Ledger::kKeptDeopts);
  EXPECT_EQ(deopts.front().version, 300 - static_cast<int64_t>(Ledger::kKeptDeopts));
  EXPECT_EQ(deopts.back().version, 299);
  EXPECT_GT(deopts.back().time_ns, 300);  // now
  EXPECT_EQ(ledger.count(DeoptReason::shape), 150);
  EXPECT_EQ(ledger.count(DeoptReason::dtype), 150);
  EXPECT_EQ(ledger.count(DeoptReason::rank), 0);
  EXPECT_EQ(ledger.count(GuardKind::range), 150);
  EXPECT_EQ(ledger.count(GuardKind::exact_dim), 0);
  ledger.AddAbort("a.cc:1", TraceAbort::left, 1);
  EXPECT_EQ(ledger.count(TraceAbort::left), 1);
  EXPECT_EQ(ledger.count(TraceAbort::too_long), 0);
}

TEST(Ledger, ADeoptWithoutAGuardCountsUnderNone) {
  Ledger ledger;
  DeoptRecord d = Deopt("a.cc:1", GuardKind::branch, "", "");
  d.failure.reason = DeoptReason::op_failed;
  ledger.AddDeopt(d);
  EXPECT_EQ(ledger.count(GuardKind::branch), 0);
  d.failure.reason = DeoptReason::forced;
  ledger.AddDeopt(d);
  EXPECT_EQ(ledger.count(GuardKind::branch), 1);
}

TEST(Ledger, RowsAreBoundedAndTheRestIsSummed) {
  Ledger ledger;
  LogLines log;
  const int kMore = 5;
  for (int i = 0; i < static_cast<int>(Ledger::kKeptRows) + kMore; ++i) {
    const std::string place = "many.cc:" + std::to_string(i);
    ledger.AddDeopt(Deopt(place, GuardKind::dtype, "f32", "f64"));
    ledger.AddAbort(place, TraceAbort::unrolled, 2000);
  }
  const std::string text = ledger.Explain();
  EXPECT_NE(text.find("\n  many.cc:1023  dtype "), std::string::npos);
  EXPECT_NE(text.find("\n  many.cc:1023  unrolled "), std::string::npos);
  EXPECT_EQ(text.find("many.cc:1024"), std::string::npos);
  EXPECT_NE(text.find("\n  others                    5\n"), std::string::npos);
  EXPECT_NE(text.find("\n  others                      5  10 us\n"), std::string::npos);
  EXPECT_EQ(ledger.count(DeoptReason::dtype), static_cast<int64_t>(Ledger::kKeptRows) + kMore);
}

TEST(Ledger, DeoptsAreWrittenOncePerPlaceAndReason) {
  Ledger ledger;
  LogLines log;
  const WithOption quiet("debug", "1");
  ledger.AddVersion(Version("train.cc:40"));
  ledger.AddDeopt(ShapeDeopt());
  const std::string text =
      "deopt of version 1 (train.cc:40, exact): shape: dim 0 of operand x1 at train.cc:42: expected 32, seen 48; "
      "policy: generalise";
  EXPECT_EQ(log.Take(), std::vector<std::string>{"1: " + text});
  ledger.AddDeopt(ShapeDeopt());
  EXPECT_EQ(log.Take(), std::vector<std::string>{});
  const WithOption all("debug", "3");
  ledger.AddDeopt(ShapeDeopt());
  EXPECT_EQ(log.Take(), std::vector<std::string>{"3: " + text});

  // Another reason, a version that nobody knows, and no texts.
  DeoptRecord d = Deopt("train.cc:40", GuardKind::escape, "", "", 77);
  d.failure.step = 2;
  ledger.AddDeopt(d);
  EXPECT_EQ(log.Take(), std::vector<std::string>{
                            "1: deopt of version 77 (train.cc:40): escape: step 2: a handle outlived its recorded "
                            "death; its value was kept in memory of its own; policy: keep"});
  d = Deopt("@f:3", GuardKind::scalar_value, "0.1", "0.2", 77);
  d.failure.value = 4;
  d.failure.source.line = 12;
  ledger.AddDeopt(d);
  EXPECT_EQ(log.Take(), std::vector<std::string>{"1: deopt of version 77 (@f:3): scalar: number n4 at line 12: "
                                                 "expected 0.1, seen 0.2; policy: generalise"});
}

TEST(Ledger, AbortsAndPinsAreWritten) {
  Ledger ledger;
  LogLines log;
  const WithOption debug("debug", "1");
  ledger.AddAbort("train.cc:40", TraceAbort::too_long, 1'200'000);
  ledger.AddAbort("train.cc:40", TraceAbort::too_long, 1'200'000);
  EXPECT_EQ(log.Take(), std::vector<std::string>{"1: recording of train.cc:40 aborted after 1.2 ms: too_long: more ops "
                                                 "than the option trace_ops allows"});
  // Warnings are written once per process, so this place must be new.
  const std::string place = "train.cc:" + std::to_string(rt::NowNs());
  ledger.AddPin(place, "40 deopts without a run between them");
  ledger.AddPin(place, "something else");
  EXPECT_EQ(log.Take(),
            std::vector<std::string>{"0: " + place + " stays in tier 1: 40 deopts without a run between them"});
}

TEST(Ledger, WritesEvents) {
  const WithOption events("events", "64");
  const int64_t version = rt::NowNs(), ns = version + 1;  // no other event has these numbers
  Ledger ledger;
  ledger.AddDeopt(ShapeDeopt(version));
  ledger.AddAbort("a.cc:1", TraceAbort::left, ns);
  int deopts = 0, aborts = 0;
  for (const rt::Event& e : rt::GlobalRing()->Snapshot()) {
    if (e.kind == rt::EventKind::deopt && e.a == version) {
      ++deopts;
      EXPECT_EQ(e.b, static_cast<int64_t>(DeoptReason::shape));
      EXPECT_EQ(e.c, 3);
    }
    if (e.kind == rt::EventKind::trace_abort && e.duration_ns == ns) {
      ++aborts;
      EXPECT_EQ(e.a, static_cast<int64_t>(TraceAbort::left));
    }
  }
  EXPECT_EQ(deopts, 1);
  EXPECT_EQ(aborts, 1);
}

TEST(Ledger, ClearForgetsAllButTheIds) {
  Ledger ledger;
  LogLines log;
  EXPECT_EQ(ledger.AddVersion(Version("a.cc:1")), 1);
  ledger.AddDeopt(ShapeDeopt());
  ledger.AddAbort("a.cc:1", TraceAbort::left, 1);
  ledger.AddPin("ledger_clear_test.cc:1", "why not");
  ledger.Clear();
  EXPECT_EQ(ledger.Explain(), Ledger().Explain());
  EXPECT_TRUE(ledger.versions().empty());
  EXPECT_TRUE(ledger.deopts().empty());
  EXPECT_EQ(ledger.count(DeoptReason::shape), 0);
  EXPECT_EQ(ledger.count(GuardKind::exact_dim), 0);
  EXPECT_EQ(ledger.count(TraceAbort::left), 0);
  EXPECT_EQ(ledger.AddVersion(Version("a.cc:1")), 2);
}

TEST(Ledger, ManyThreads) {
  Ledger ledger;
  LogLines log;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&ledger, t] {
      const std::string place = "threads.cc:" + std::to_string(t);
      for (int i = 0; i < 200; ++i) {
        const int64_t id = ledger.AddVersion(Version(place));
        ledger.Update(id, [](VersionRecord& v) { v.counters->runs.fetch_add(1, std::memory_order_relaxed); });
        ledger.AddDeopt(Deopt(place, GuardKind::dtype, "f32", "f64", id));
        ledger.AddAbort(place, TraceAbort::left, 1);
        if (i % 50 == 0) {
          EXPECT_NE(ledger.Explain().find(place), std::string::npos);
        }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ledger.versions().size(), 800u);
  EXPECT_EQ(ledger.count(GuardKind::dtype), 800);
  EXPECT_EQ(ledger.count(TraceAbort::left), 800);
}

TEST(TraceText, OneLineForEachStep) {
  using tracer::TraceStep;
  using tracer::TraceValue;
  tracer::Trace trace;
  trace.is_eager = true;
  trace.symbols = std::make_shared<ir::SymbolTable>();
  const int64_t batch = trace.symbols->Named("s0");
  const auto value = [&trace](TraceValue::Kind kind, DType dtype, const ir::Ints& dims) -> TraceValue& {
    TraceValue& v = trace.values.emplace_back();
    v.kind = kind;
    v.type.dtype = dtype;
    v.type.rank = static_cast<uint8_t>(dims.size());
    std::copy(dims.begin(), dims.end(), v.type.dims);
    return v;
  };
  value(TraceValue::Kind::input, DType::f32, {batch, 64});
  value(TraceValue::Kind::constant, DType::f32, {64});
  value(TraceValue::Kind::number, DType::f64, {}).number.f = 0.5;
  TraceValue& fixed = value(TraceValue::Kind::number, DType::i64, {});
  fixed.number.i = 3;
  fixed.is_fixed = true;
  for (int i = 0; i < 4; ++i) value(TraceValue::Kind::result, DType::f32, {batch, 64});
  value(TraceValue::Kind::result, DType::f32, {batch, 1});

  const auto step = [&trace](TraceStep::Kind kind, ir::Op op, std::vector<tracer::ValueId> out,
                             std::vector<tracer::ValueId> in, int line) -> TraceStep& {
    TraceStep& s = trace.steps.emplace_back();
    s.kind = kind;
    s.op = op;
    s.out.assign(out.begin(), out.end());
    s.in.assign(in.begin(), in.end());
    s.source = {"/home/me/train.cc", line, 1};
    return s;
  };
  step(TraceStep::Kind::op, ir::Op::k_add, {4}, {0, 1}, 40);
  step(TraceStep::Kind::op, ir::Op::k_mul, {5}, {4, 2}, 41);
  TraceStep& sum = step(TraceStep::Kind::op, ir::Op::k_sum, {8}, {5}, 42);
  const ir::OpInfo& info = ir::Info(ir::Op::k_sum);
  for (const ir::AttrSpec& spec : info.attrs) sum.attrs.push_back(spec.default_value);
  sum.attrs[ir::FindAttr(info, "axes")] = ir::Ints{1};
  sum.attrs[ir::FindAttr(info, "keepdims")] = true;
  TraceStep& reshape = step(TraceStep::Kind::op, ir::Op::k_reshape, {6}, {5}, 43);
  reshape.attrs = {ir::Ints{batch, 64}};
  step(TraceStep::Kind::branch, {}, {}, {8}, 44).outcome = true;
  step(TraceStep::Kind::for_begin, {}, {}, {3, 3, 3}, 45).counter = 0;
  TraceStep& next = step(TraceStep::Kind::for_next, {}, {7}, {}, 45);
  next.counter = 0;
  next.outcome = true;
  step(TraceStep::Kind::buffer_write, {}, {}, {7}, 46).target = 2;
  step(TraceStep::Kind::op, ir::Op::k_add, {4}, {0, tracer::kNoValue}, 0).source = {};
  EXPECT_EQ(tracer::ToString(trace), R"(0: y4 = add x0 c1  f32[s0,64]  train.cc:40
1: y5 = mul y4 n2=0.5  f32[s0,64]  train.cc:41
2: y8 = sum y5 {axes=[1], keepdims=true}  f32[s0,1]  train.cc:42
3: y6 = reshape y5 {dims=[s0,64]}  f32[s0,64]  train.cc:43
4: branch y8 is true  train.cc:44
5: for_begin counter 0: 3 3 3  train.cc:45
6: y7 = for_next counter 0 has more  f32[s0,64]  train.cc:45
7: buffer_write buffer 2: y7  train.cc:46
8: y4 = add x0 _  f32[s0,64]
)");

  // In a function the place is the function's line, or its instruction where no line is known.
  interp::Bytecode code;
  code.name = "step";
  trace.is_eager = false;
  trace.frames.emplace_back().code = &code;
  trace.steps.resize(2);
  trace.steps[0].source = {nullptr, 7, 3};
  trace.steps[1].source = {};
  trace.steps[1].pc = 5;
  EXPECT_EQ(tracer::ToString(trace), R"(0: y4 = add x0 c1  f32[s0,64]  @step:7
1: y5 = mul y4 n2=0.5  f32[s0,64]  @step pc 5
)");
  EXPECT_EQ(tracer::ToString(tracer::Trace()), "");
}

}  // namespace
}  // namespace tessera::deopt
