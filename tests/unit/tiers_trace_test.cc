// What the engine records: one id runs from source lines through traces and versions to deopts.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <thread>

#include "runtime/file.h"
#include "runtime/trace/reader.h"
#include "tiers_testing.h"

namespace tessera {
namespace {

using rt::EventKind;
using rt::trace::TraceData;
using rt::trace::TraceEvent;

std::string PathOf(const char* name) { return testing::TempDir() + "tiers_trace_test_" + name; }

TraceData MustRead(const std::string& path) {
  auto data = rt::trace::ReadTraceFile(path);
  EXPECT_TRUE(data.ok()) << data.status();
  std::remove(path.c_str());
  return data.ok() ? *std::move(data) : TraceData();
}

std::vector<const TraceEvent*> Of(const TraceData& data, EventKind kind) {
  std::vector<const TraceEvent*> events;
  for (const TraceEvent& e : data.events)
    if (e.kind == kind) events.push_back(&e);
  return events;
}

TraceData RecordHot(const std::string& path, const std::function<void()>& program) {
  OptionScope scope(HotAtOnce());
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  EXPECT_TRUE(Runtime::trace_start(path).ok());
  program();
  tiers::Manager::Get().Drain();
  EXPECT_TRUE(Runtime::trace_stop().ok());
  return MustRead(path);
}

TEST(TiersTrace, OpsHaveTheirSourceLines) {
  const std::string path = PathOf("lines");
  int line = 0;
  const TraceData data = [&] {
    OptionScope scope({{"tier", "1"}});
    EXPECT_TRUE(Runtime::trace_start(path).ok());
    const Tensor x = ones({8});
    line = __LINE__ + 1;
    const Tensor y = add(x, x);
    EXPECT_TRUE(Runtime::trace_stop().ok());
    return MustRead(path);
  }();
  bool found = false;
  for (const TraceEvent* e : Of(data, EventKind::op)) {
    if (data.Name("op", e->a) != "add") continue;
    found = true;
    EXPECT_EQ(data.SiteName(e->c), "tiers_trace_test.cc:" + std::to_string(line));
    EXPECT_EQ(e->b, 8);
  }
  EXPECT_TRUE(found);
  if (!std::filesystem::exists(__FILE__)) return;  // the tests were built elsewhere
  const auto source = std::find_if(data.sources.begin(), data.sources.end(), [](const auto& s) {
    return s.file.find("tiers_trace_test.cc") != std::string::npos;
  });
  ASSERT_NE(source, data.sources.end()) << "the text of the file is there";
  EXPECT_NE(source->text.find("OpsHaveTheirSourceLines"), std::string::npos);
}

TEST(TiersTrace, OneIdRunsThroughAllOfIt) {
  const TraceData data = RecordHot(PathOf("ids"), [] {
    Tensor w = ones({8});
    for (int i = 0; i < 40; ++i) {
      Step step;
      if (i == 30) w = ones({12});
      w = tanh(w * 0.5 + 0.25) - w * 0.125;
    }
    w.to_bytes();
  });
  EXPECT_EQ(Of(data, EventKind::step).size(), 40u);
  ASSERT_FALSE(data.versions.empty());
  ASSERT_FALSE(Of(data, EventKind::version_run).empty());
  std::set<int64_t> built, installed;
  for (const TraceEvent* e : Of(data, EventKind::version_build)) built.insert(e->a);
  for (const TraceEvent* e : Of(data, EventKind::version_install)) installed.insert(e->a);
  for (const TraceEvent* e : Of(data, EventKind::version_run)) {
    const rt::trace::VersionRow* version = data.FindVersion(e->a);
    ASSERT_NE(version, nullptr);
    EXPECT_TRUE(built.contains(version->id));
    EXPECT_TRUE(installed.contains(version->id));
    const rt::trace::TraceRow* trace = data.FindTrace(version->trace_id);
    ASSERT_NE(trace, nullptr);
    EXPECT_EQ(static_cast<int64_t>(trace->steps.size()), version->steps);
    EXPECT_EQ(e->c, version->steps);
    EXPECT_FALSE(version->guards.empty());
    EXPECT_NE(version->guards[0].text.find("f32["), std::string::npos) << version->guards[0].text;
    for (const auto& step : trace->steps) EXPECT_NE(step.file.find("tiers_trace_test.cc"), std::string::npos);
  }
  // The other shape: a guard failed, with what was expected and seen.
  const auto deopt = std::find_if(data.deopts.begin(), data.deopts.end(),
                                  [&](const auto& d) { return data.Name("deopt_reason", d.reason) == "shape"; });
  ASSERT_NE(deopt, data.deopts.end());
  EXPECT_EQ(deopt->expected, "8");
  EXPECT_EQ(deopt->seen, "12");
  EXPECT_EQ(data.Words("deopt_reason", deopt->reason), "a dim is not one that the version serves");
  EXPECT_EQ(Of(data, EventKind::deopt).size(), data.deopts.size());
}

TEST(TiersTrace, EveryReasonHasItsWords) {
  const TraceData data = RecordHot(PathOf("words"), [] {});
  for (const auto& r : deopt::kDeoptReasons) {
    EXPECT_EQ(data.Name("deopt_reason", static_cast<int64_t>(r.id)), r.name);
    EXPECT_EQ(data.Words("deopt_reason", static_cast<int64_t>(r.id)), r.message);
  }
  for (const auto& a : tracer::kTraceAborts)
    EXPECT_EQ(data.Words("trace_abort", static_cast<int64_t>(a.id)), a.message);
  for (const auto& g : deopt::kGuards) EXPECT_EQ(data.Words("guard", static_cast<int64_t>(g.id)), g.summary);
}

TEST(TiersTrace, GeneratedCodeHasItsStages) {
  if (!HasCompiler()) GTEST_SKIP() << "there is no compiler";
  OptionScope scope({{"compile_after", "0"}, {"specialise_after", "0"}, {"trace_stages", "60000"}});
  const TraceData data = RecordHot(PathOf("stages"), [] {
    Tensor w = ones({4096});
    for (int i = 0; i < 40; ++i) w = tanh(w * 0.5 + 0.25) - w * 0.125;
    w.to_bytes();
  });
  std::set<std::string> stages;
  for (const auto& row : data.stages) {
    EXPECT_FALSE(row.text.empty());
    const rt::trace::VersionRow* version = data.FindVersion(row.version);
    ASSERT_NE(version, nullptr);
    EXPECT_NE(version->generator, "replay");
    stages.insert(row.stage);
  }
  EXPECT_EQ(stages, (std::set<std::string>{"asm", "graph", "llvm", "report", "sched", "target", "tile"}));
  std::set<std::string> parts;
  for (const TraceEvent* e : Of(data, EventKind::compile_stage)) parts.insert(data.Name("compile_stage", e->b));
  EXPECT_TRUE(parts.contains("emit") && parts.contains("load"));
}

TEST(TiersTrace, SpansHaveTheirNames) {
  const TraceData data = RecordHot(PathOf("spans"), [] {
    for (int i = 0; i < 3; ++i) {
      TraceSpan outer("epoch");
      TraceSpan inner(i == 1 ? "save" : "load");
    }
  });
  std::vector<std::string> names;
  for (const TraceEvent* e : Of(data, EventKind::span)) {
    const auto row =
        std::find_if(data.spans.begin(), data.spans.end(), [&](const auto& s) { return s.number == e->a; });
    ASSERT_NE(row, data.spans.end());
    names.push_back(row->name);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"epoch", "epoch", "epoch", "load", "load", "save"}));
}

TEST(TiersTrace, CopiesBetweenDevices) {
  const TraceData data = RecordHot(PathOf("copies"), [] { ones({16}).to(Device::find("null").value()); });
  const auto copies = Of(data, EventKind::copy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0]->a, 64) << "bytes";
  EXPECT_EQ(copies[0]->b, 1) << "from the host";
}

TEST(TiersTrace, VersionsOfBeforeTheRecordingAreInIt) {
  OptionScope scope(HotAtOnce());
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  Tensor w = ones({8});
  const auto round = [&] { w = tanh(w * 0.5 + 0.25) - w * 0.125; };
  const std::string path = PathOf("before");
  for (int i = 0; i < 80; ++i) {
    if (i == 40) ASSERT_TRUE(Runtime::trace_start(path).ok());
    round();
  }
  w.to_bytes();
  ASSERT_TRUE(Runtime::trace_stop().ok());
  const TraceData data = MustRead(path);
  ASSERT_FALSE(Of(data, EventKind::version_run).empty());
  for (const TraceEvent* e : Of(data, EventKind::version_run)) {
    ASSERT_NE(data.FindVersion(e->a), nullptr);
    EXPECT_NE(data.FindTrace(data.FindVersion(e->a)->trace_id), nullptr);
  }
}

TEST(TiersTrace, RecordingChangesNoResult) {
  const std::string path = PathOf("results");
  const auto program = [](Log& log) {
    Tensor w = ones({8});
    for (int i = 0; i < 40; ++i) w = tanh(w * 0.5 + 0.25) - w * (i == 20 ? 0.25 : 0.125);
    log.Add(w);
  };
  ASSERT_TRUE(Runtime::trace_start(path).ok());
  RunBoth(program);
  ASSERT_TRUE(Runtime::trace_stop().ok());
  EXPECT_FALSE(MustRead(path).events.empty());
}

TEST(TiersTrace, AVersionThatRefusesSaysWhichGuardFailedAndWhoServes) {
  const TraceData data = RecordHot(PathOf("refused"), [] {
    Function f = *Function::parse(R"(func @f(%x: tensor<N x f32>) -> tensor<N x f32> {
      %a = exp %x
      %b = neg %a
      %c = add %b, %a
      return %c
    })");
    for (int i = 0; i < 80; ++i) f.call({ones({i % 2 == 0 ? 8 : 1})});
  });
  const auto refused = Of(data, EventKind::version_refused);
  ASSERT_FALSE(refused.empty());
  for (const TraceEvent* e : refused) {
    ASSERT_NE(data.FindVersion(e->a), nullptr);
    ASSERT_NE(data.FindVersion(e->c), nullptr);
    EXPECT_NE(e->a, e->c);
    EXPECT_EQ(data.FindVersion(e->a)->place, data.FindVersion(e->c)->place);
    EXPECT_THAT(data.Name("guard", e->b), ::testing::AnyOf("exact_dim", "range")) << "a dim of 1 has its own version";
  }
  ASSERT_FALSE(data.refusals.empty());
  EXPECT_THAT(data.refusals[0].seen, ::testing::AnyOf("1", "8"));
}

TEST(TiersTrace, EagerVersionsSayThatToo) {
  // A round begins with a dim of 1 or of 8; within one, the second operand is what differs.
  for (const bool at_once : {true, false}) {
    const TraceData data = RecordHot(PathOf("refused_eager"), [&] {
      const Tensor first = ones({8}), others[] = {ones({8}), ones({1})};
      for (int i = 0; i < 200; ++i) {
        const Tensor& other = others[i % 2];
        const Tensor x = exp(at_once ? other : first);
        const Tensor y = tanh(x) * other;
        (y + x).to_bytes();
      }
    });
    const auto refused = Of(data, EventKind::version_refused);
    ASSERT_FALSE(refused.empty()) << at_once;
    for (const TraceEvent* e : refused) {
      ASSERT_NE(data.FindVersion(e->a), nullptr);
      EXPECT_NE(e->a, e->c);
      EXPECT_THAT(data.Name("guard", e->b), ::testing::AnyOf("exact_dim", "range", "equal_dims")) << at_once;
    }
    // With what was expected and seen, for the first few.
    ASSERT_FALSE(data.refusals.empty());
    EXPECT_LE(data.refusals.size(), 32u * data.versions.size());
    for (const auto& row : data.refusals) {
      EXPECT_THAT(row.seen, ::testing::AnyOf("1", "8")) << at_once;
      EXPECT_FALSE(row.expected.empty());
      EXPECT_NE(row.expected, row.seen);
      EXPECT_GE(row.value, 0);
    }
  }
}

}  // namespace
}  // namespace tessera
