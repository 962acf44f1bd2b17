// What is said of a trace: numbers of a recording that is made by hand, so that they are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/memory_events.h"
#include "tests/unit/trace_testing.h"
#include "tools/trace/analysis.h"
#include "tools/trace/export.h"
#include "tools/trace/html.h"
#include "tools/trace/live.h"
#include "tools/trace/text.h"

namespace tessera::tools {
namespace {

using rt::EventKind;
using rt::trace::TraceData;
using ::testing::HasSubstr;
using testing_trace::Recording;

int64_t NsOf(const Analysis& a, Lane lane) { return a.lane_ns[static_cast<size_t>(lane)]; }

TEST(ToolsTrace, TimeGoesToWhoHadIt) {
  const TraceData data = Recording()
                             .Version(1, "replay", 1, 1, 1, 1)
                             .Version(2, "tier 2", 1, 1, 1, 1)
                             .Version(3, "tier 3", 1, 1, 1, 1)
                             .Event(EventKind::op, 0, 100, 3, 8, 1)
                             .Event(EventKind::op, 150, 50, 3, 8, 2)
                             .Event(EventKind::version_run, 300, 200, 1, 2, 5)
                             .Event(EventKind::version_run, 500, 300, 2, 1, 5)
                             .Event(EventKind::version_run, 800, 200, 3, 1, 5)
                             .Event(EventKind::version_build, 0, 700, 3, 5, 3, /*thread=*/2)
                             .Read();
  const Analysis a = Analyse(data, 10);
  EXPECT_EQ(data.duration_ns, 1000);
  EXPECT_EQ(NsOf(a, Lane::tier1), 150);
  EXPECT_EQ(NsOf(a, Lane::replay), 200);
  EXPECT_EQ(NsOf(a, Lane::tier2), 300);
  EXPECT_EQ(NsOf(a, Lane::tier3), 200);
  EXPECT_EQ(NsOf(a, Lane::compile), 700);
  EXPECT_EQ(a.busy_ns, 850);
  EXPECT_EQ(a.main_thread, 1);
  EXPECT_EQ(a.main_idle_ns, 150) << "from 100 to 150 and from 200 to 300";
  EXPECT_EQ(a.ops.count, 2);
  EXPECT_EQ(a.version_runs.count, 4);
  EXPECT_EQ(a.version_steps.count, 20);
  std::array<int64_t, kNumLanes> bins{};
  int64_t ops = 0;
  for (const Bin& bin : a.bins) {
    for (size_t i = 0; i < bins.size(); ++i) bins[i] += bin.ns[i];
    ops += bin.ops;
  }
  EXPECT_EQ(bins, a.lane_ns) << "nothing is lost between bins";
  EXPECT_EQ(ops, 22);
  ASSERT_EQ(a.site_rows.size(), 1u) << "two sites of one line are one row";
  EXPECT_EQ(a.site_rows[0].runs.ns, 150);
  EXPECT_THAT(TopText(a, TopBy::line, 5), HasSubstr("walk.cc:8"));
  EXPECT_THAT(TopText(a, TopBy::op, 5), HasSubstr("tanh"));
}

TEST(ToolsTrace, VersionsAreJudgedAsInTheLedger) {
  const TraceData data = Recording()
                             .Version(1, "replay", 100, 40, 100, 600)    // saves 60 a run: pays after 10
                             .Version(2, "tier 2", 100, 90, 100, 5000)   // saves 10: needs 500
                             .Version(3, "tier 3", 100, 130, 100, 5000)  // slower
                             .Event(EventKind::op, 0, 1000, 3, 8, 1)
                             .Read();
  const Analysis a = Analyse(data);
  ASSERT_EQ(a.versions.size(), 3u);
  EXPECT_EQ(a.versions[0].break_even, "after 10 runs");
  EXPECT_DOUBLE_EQ(a.versions[0].saved_ns, 6000);
  EXPECT_EQ(a.versions[1].break_even, "not yet (needs 500)");
  EXPECT_EQ(a.versions[2].break_even, "never at this rate");
  EXPECT_DOUBLE_EQ(a.versions[2].saved_ns, -3000);
  ASSERT_EQ(a.places.size(), 1u);
  EXPECT_EQ(a.places[0].tier, 3);
  EXPECT_EQ(a.places[0].compile_ns, 10600);
  const auto slower = std::find_if(a.findings.begin(), a.findings.end(), [](const Finding& f) {
    return f.title == "Version 3 of walk.cc:8 was slower than tier 1";
  });
  ASSERT_NE(slower, a.findings.end());
  EXPECT_DOUBLE_EQ(slower->cost_ns, 3000);
}

TEST(ToolsTrace, WhatMattersIsFound) {
  Recording recording;
  recording.Lost(7).Event(EventKind::op, 0, 1000, 3, 8, 1);
  recording.Version(1, "replay", 10, 40, 100, 600).Version(2, "replay", 10, 40, 100, 600, "walk.cc:9", 2);
  for (const int64_t id : {1, 2})
    recording.Add(rt::trace::TraceRow{
        id, id == 1 ? "walk.cc:8" : "walk.cc:9", 1, "cpu", 100, {{"0: tanh", 1, "", 8, 1}}, "stopped"});
  recording.Event(EventKind::version_run, 1000, 400, 1, 10, 5).Event(EventKind::version_run, 1400, 400, 2, 10, 5);
  for (int i = 0; i < 9; ++i)
    recording.Add(
        rt::trace::DeoptRow{100, 1, "walk.cc:8", 4, 4, 0, 1, 0, "", 8, "8", std::to_string(9 + i), "generalise"});
  recording.Add(rt::trace::PinRow{"walk.cc:8", "it was slow"});
  const TraceData data = recording.Read();
  const Analysis a = Analyse(data);
  std::string titles;
  for (size_t i = 0; i < a.findings.size(); ++i) {
    titles += a.findings[i].title + "\n";
    if (i > 0) EXPECT_LE(a.findings[i].cost_ns, a.findings[i - 1].cost_ns);
    EXPECT_FALSE(a.findings[i].advice.empty());
  }
  EXPECT_THAT(titles, HasSubstr("9 deopts of walk.cc:8: shape"));
  EXPECT_THAT(titles, HasSubstr("The program runs in 2 pieces: walk.cc:8, walk.cc:9"));
  EXPECT_THAT(titles, HasSubstr("walk.cc:8 stays in tier 1"));
  EXPECT_THAT(titles, HasSubstr("walk.cc:8 is the hottest line in tier 1"));
  EXPECT_THAT(titles, HasSubstr("7 events were lost"));
  const std::string text = ReportText(a);
  EXPECT_THAT(text, HasSubstr("last expected 8, seen 17"));
  EXPECT_THAT(text, HasSubstr("the recording was cut off"));
  const auto explained = ExplainTrace(a, "walk.cc:8", "");
  ASSERT_TRUE(explained.ok());
  EXPECT_THAT(*explained, HasSubstr("x1: f32[8] (checked 10 times, failed 9)"));
  EXPECT_THAT(*explained, HasSubstr("x0: f32[8] (checked 10 times, failed 0)"));
  EXPECT_FALSE(ExplainTrace(a, "walk.cc:8", "asm").ok());
}

TEST(ToolsTrace, MemoryFromTheSystemIsShown) {
  Recording recording;
  for (const auto& [number, name, words] :
       {std::tuple(rt::MemoryReason::block, "block", "no block was free"),
        std::tuple(rt::MemoryReason::cache_full, "cache_full", "too much was kept")})
    recording.Add(rt::trace::NameRow{"memory_reason", static_cast<int64_t>(number), name, words});
  const int64_t host = rt::MemoryWhy{rt::MemoryReason::block}.Pack(),
                gpu = rt::MemoryWhy{rt::MemoryReason::cache_full, 3}.Pack();
  recording.Event(EventKind::op, 0, 10'000, 3, 8, 1);
  recording.Event(EventKind::system_allocation, 100, 300, 1 << 20, 1 << 20, host);
  recording.Event(EventKind::system_allocation, 500, 100, 1 << 21, 3 << 20, host);
  recording.Event(EventKind::system_free, 700, 2'000, 1 << 21, 1 << 20, gpu);
  const TraceData data = recording.Read();
  const Analysis a = Analyse(data);
  ASSERT_EQ(a.memory_rows.size(), 2u);
  EXPECT_EQ(a.memory_rows[0].gpu, 3);
  EXPECT_FALSE(a.memory_rows[0].is_taken);
  EXPECT_EQ(a.memory_rows[1].bytes, 3 << 20);
  EXPECT_EQ(a.memory_rows[1].runs.count, 2);
  EXPECT_EQ(a.memory_rows[1].runs.longest_ns, 300);
  EXPECT_EQ(NsOf(a, Lane::other), 0) << "it is time of the op";
  const std::string text = ReportText(a);
  EXPECT_THAT(text, HasSubstr("memory that pools took from the system and gave back"));
  EXPECT_THAT(text, testing::ContainsRegex("GPU 3 +given back +1 +2 MiB +2 us +2 us +too much was kept"));
  EXPECT_THAT(text, testing::ContainsRegex("host +taken +2 +3 MiB +400 ns +300 ns +no block was free"));
  EXPECT_THAT(text, HasSubstr("Memory was taken from the system and given back 3 times (about 2.4 us)"));
  EXPECT_THAT(EventsText(a, false), HasSubstr("system_free give back memory of the GPU 3: cache_full, bytes 2097152"));
  EXPECT_THAT(ChromeTrace(a), HasSubstr("take memory of the host: block"));
  EXPECT_THAT(ReportJson(a, "x"), HasSubstr(R"(["GPU 3","given back","too much was kept",1,2097152,2000,2000])"));
}

TEST(ToolsTrace, WhatVersionsRefusedAndWhereTheyLeftForABridge) {
  Recording recording;
  recording.Version(1, "replay", 10, 40, 100, 600).Version(2, "replay", 10, 40, 100, 600);
  recording.Add(rt::trace::NameRow{"guard", 6, "exact_dim", ""});
  recording.Event(EventKind::version_refused, 10, 0, 1, 6, 2).Event(EventKind::version_refused, 20, 0, 1, -1, 2);
  recording.Add(rt::trace::RefusalRow{10, 1, 2, 6, 0, 0, 1, "8", "12"});
  recording.Event(EventKind::bridge, 30, 0, 2, 3);
  const TraceData data = recording.Read();
  const Analysis a = Analyse(data);
  const auto explained = ExplainTrace(a, "walk.cc:8", "");
  ASSERT_TRUE(explained.ok());
  EXPECT_THAT(*explained, HasSubstr("refused     2 times where it begins, while another version of the place served"));
  EXPECT_THAT(*explained, HasSubstr("guard exact_dim, dim 1 of x0: expected 8, seen 12; version 2 served"));
  EXPECT_THAT(ReportJson(a, "x"), HasSubstr(R"("refusals":[[10,"exact_dim","x0","8","12",2]])"));
  EXPECT_THAT(*explained, HasSubstr("bridges     left 1 time for a bridge, not for tier 1"));
  const std::string events = EventsText(a, false);
  EXPECT_THAT(events, HasSubstr("version_refused refused: version 1 of walk.cc:8, guard exact_dim"));
  EXPECT_THAT(events, HasSubstr("bridge bridge from version 2 of walk.cc:8, version id 2, step 3"));
}

TEST(ToolsTrace, AQuietTraceHasNoFindings) {
  const TraceData data =
      Recording().Version(1, "tier 2", 1000, 40, 100, 600).Event(EventKind::version_run, 0, 1000, 1, 25, 5).Read();
  EXPECT_TRUE(Analyse(data).findings.empty());
}

TEST(ToolsTrace, JsonIsSafeInAPage) {
  EXPECT_EQ(JsonString("plain \xc3\xa9"), "\"plain \xc3\xa9\"");
  EXPECT_EQ(JsonString("</script>&\"\\\n\t"), "\"\\u003c/script\\u003e\\u0026\\\"\\\\\\n\\u0009\"");
  EXPECT_EQ(JsonString("\xff\xc0\x80\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(JsonString("\xe2\x82"), "\"\\ufffd\\ufffd\"") << "cut off";
}

TEST(ToolsTrace, ManyEventsMakeASmallPage) {
  std::string text;
  rt::trace::PutUnsigned(&text, 1);
  rt::trace::PutUnsigned(&text, 0);
  constexpr uint32_t kEvents = 300'000;
  for (uint32_t i = 0; i < kEvents; ++i) {
    text += static_cast<char>(EventKind::op);
    rt::trace::PutSigned(&text, i % 1000 == 0 ? 3000 : 20);
    rt::trace::PutUnsigned(&text, 10);
    for (const int64_t v : {i == 0 ? 3 : 0, 0, 0}) rt::trace::PutSigned(&text, v);
  }
  std::string bytes = Recording().bytes();
  rt::trace::AppendBlock(&bytes, rt::trace::BlockKind::events, kEvents, text);
  const auto data = rt::trace::ReadTrace(bytes);
  ASSERT_TRUE(data.ok()) << data.status();
  const std::string json = ReportJson(Analyse(*data), "many");
  // Five numbers a slice, of which the last is how many events are in it.
  const size_t from = json.find("\"slices\":[") + 10, to = json.find(']', from);
  int64_t numbers = 1, events = 0, value = 0;
  for (size_t i = from; i <= to; ++i) {
    if (json[i] >= '0' && json[i] <= '9') {
      value = value * 10 + (json[i] - '0');
      continue;
    }
    if (json[i] == '-') continue;
    if (numbers % 5 == 0) events += value;
    value = 0;
    ++numbers;
  }
  EXPECT_EQ(events, kEvents) << "none is forgotten";
  EXPECT_LE(static_cast<size_t>(numbers / 5), kMostSlices);
  EXPECT_LT(json.size(), 4u << 20);
}

TEST(ToolsTrace, ALiveTraceForgetsWhatIsOld) {
  Recording recording;
  recording.Event(EventKind::op, 0, 10, 3, 8, 1);
  LiveTrace live(2);
  // Byte by byte: a block may come in any pieces.
  for (const char c : recording.bytes()) ASSERT_TRUE(live.Add(std::string_view(&c, 1), 0).ok());
  ASSERT_TRUE(live.Read().ok());
  EXPECT_EQ(live.Read()->events.size(), 1u);
  const std::string more =
      Recording().Event(EventKind::op, 20, 10, 3, 8, 1).bytes().substr(sizeof(rt::trace::FileHeader));
  ASSERT_TRUE(live.Add(more, 3'000'000'000).ok());
  EXPECT_EQ(live.Read()->events.size(), 1u) << "the first is older than two seconds";
  // What ran on GPUs goes with its time, too; kernels stay.
  std::string gpu = Recording().Kernel(1, "k").Activity(rt::ActivityKind::kernel, 40, 10, 1).EndBatch().bytes();
  ASSERT_TRUE(live.Add(gpu.substr(sizeof(rt::trace::FileHeader)), 3'000'000'000).ok());
  EXPECT_EQ(live.Read()->activities.size(), 1u);
  ASSERT_TRUE(live.Add("", 6'000'000'000).ok());
  EXPECT_TRUE(live.Read()->activities.empty());
  EXPECT_EQ(live.Read()->kernels.size(), 1u);
  EXPECT_FALSE(live.Add("this is no block, whatever it may be", 3'000'000'000).ok());
}

}  // namespace
}  // namespace tessera::tools
