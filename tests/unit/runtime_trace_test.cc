// The recorder and the reader of traces: what is written comes back, and nothing else does harm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/fault.h"
#include "runtime/file.h"
#include "runtime/log.h"
#include "runtime/memory_events.h"
#include "runtime/options.h"
#include "runtime/trace/file.h"
#include "runtime/trace/reader.h"
#include "runtime/trace/recorder.h"

namespace tessera::rt::trace {
namespace {

using ::testing::HasSubstr;

std::string PathOf(const char* name) { return testing::TempDir() + "runtime_trace_test_" + name; }

int64_t CountOf(const TraceData& data, EventKind kind) {
  int64_t n = 0;
  for (const TraceEvent& e : data.events) n += e.kind == kind;
  return n;
}

TEST(TraceCoding, NumbersComeBack) {
  const int64_t numbers[] = {0, 1, -1, 63, 64, -64, -65, 1 << 20, INT64_MAX, INT64_MIN, INT64_MIN + 1};
  std::string bytes;
  for (const int64_t v : numbers) PutSigned(&bytes, v);
  PutUnsigned(&bytes, UINT64_MAX);
  Cursor in(bytes);
  for (const int64_t v : numbers) EXPECT_EQ(in.Signed(), v);
  EXPECT_EQ(in.Unsigned(), UINT64_MAX);
  EXPECT_TRUE(in.ok());
  EXPECT_EQ(in.left(), 0u);
  EXPECT_EQ(in.Unsigned(), 0u);
  EXPECT_FALSE(in.ok()) << "past the end";
  Cursor endless(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12));
  endless.Unsigned();
  EXPECT_FALSE(endless.ok()) << "more bits than a number has";
  Cursor longer(
      std::string_view("\x05"
                       "abc",
                       4));
  EXPECT_EQ(longer.Bytes(), "");
  EXPECT_FALSE(longer.ok());
}

TEST(TraceCoding, ChecksumsTellBytesApart) {
  std::set<uint64_t> sums;
  std::string bytes(37, 'a');
  sums.insert(Checksum(bytes));
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = 'b';
    sums.insert(Checksum(bytes));
    bytes[i] = 'a';
    sums.insert(Checksum(std::string_view(bytes).substr(0, i)));
  }
  EXPECT_EQ(sums.size(), 1 + 2 * bytes.size());
}

class Recording : public testing::Test {
 protected:
  void TearDown() override {
    DisarmFaults();
    (void)Recorder::Get().Stop();
    Recorder::Get().Keep(0);
    SetLogSink({});
    ASSERT_TRUE(options().Set("trace_redact", "false").ok());
    for (const std::string& path : paths_) std::remove(path.c_str());
  }
  std::string File(const char* name) {
    paths_.push_back(PathOf(name));
    return paths_.back();
  }
  static TraceData MustRead(const std::string& path) {
    auto data = ReadTraceFile(path);
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? *std::move(data) : TraceData();
  }
  std::vector<std::string> paths_;
};

TEST_F(Recording, EventsOfThreadsComeBackInOrder) {
  const std::string path = File("order");
  Record(EventKind::step, 1000);
  ASSERT_TRUE(Recorder::Get().Start(path).ok());
  EXPECT_TRUE(RecorderOn());
  for (int i = 1; i <= 5; ++i) Record(EventKind::step, i);
  std::thread([] {
    for (int i = 0; i < 3; ++i) RecordFor(EventKind::blas_load, 2'000'000, i, -i);
  }).join();
  RecordSince(EventKind::span, Ticks(), Recorder::Get().SpanNumber("a stretch"), 0, 0);
  ASSERT_TRUE(Recorder::Get().Stop().ok());
  EXPECT_FALSE(RecorderOn());
  Record(EventKind::step, 2000);

  const TraceData data = MustRead(path);
  EXPECT_TRUE(data.is_complete);
  EXPECT_FALSE(data.is_redacted);
  EXPECT_EQ(data.lost, 0);
  std::vector<int64_t> steps, loads;
  std::set<uint32_t> threads;
  int64_t last = INT64_MIN;
  for (const TraceEvent& e : data.events) {
    EXPECT_GE(e.start_ns, last);
    last = e.start_ns;
    if (e.kind == EventKind::step) steps.push_back(e.a);
    if (e.kind == EventKind::blas_load) {
      loads.push_back(e.a);
      EXPECT_EQ(e.b, -e.a);
      EXPECT_NEAR(static_cast<double>(e.ns), 2e6, 2e4);
    }
    if (e.kind == EventKind::step || e.kind == EventKind::blas_load) threads.insert(e.thread);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(loads, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(threads.size(), 2u);
  ASSERT_EQ(data.spans.size(), 1u);
  EXPECT_EQ(data.spans[0].name, "a stretch");
  EXPECT_EQ(data.Name("event", static_cast<int64_t>(EventKind::op)), "op");
  EXPECT_EQ(data.Name("event", 12345), "event 12345");
  EXPECT_FALSE(data.samples.empty());
  EXPECT_GE(data.duration_ns, 0);
}

TEST_F(Recording, AFileIsForItsOwnerAlone) {
  const std::string path = File("mode"), link = File("link");
  {
    std::fclose(std::fopen(path.c_str(), "w"));
  }
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  ASSERT_TRUE(Recorder::Get().Start(path).ok());
  EXPECT_THAT(std::string(Recorder::Get().Start(File("second")).message()), HasSubstr("is open; stop it"));
  ASSERT_TRUE(Recorder::Get().Stop().ok());
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_FALSE(Recorder::Get().Stop().ok()) << "none is open";
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  EXPECT_FALSE(Recorder::Get().Start(link).ok()) << "what a link points to is not overwritten";
  EXPECT_FALSE(Recorder::Get().Start("/no/such/folder/trace").ok());
  EXPECT_FALSE(Recorder::Get().Start("/dev/null").ok());
  EXPECT_FALSE(RecorderOn());
}

TEST_F(Recording, EveryEventIsWrittenOrCounted) {
  const std::string path = File("many");
  ASSERT_TRUE(Recorder::Get().Start(path).ok());
  constexpr int kEach = 300'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < kEach; ++i) RecordSince(EventKind::op, Ticks(), 3, i, 7);
    });
  for (std::thread& t : threads) t.join();
  ASSERT_TRUE(Recorder::Get().Stop().ok());
  const TraceData data = MustRead(path);
  EXPECT_EQ(CountOf(data, EventKind::op) + data.lost, 3 * kEach);
  EXPECT_GT(CountOf(data, EventKind::op), 0);
  EXPECT_LT(data.bytes, 40 * (CountOf(data, EventKind::op) + 10'000)) << "40 MB for a million events";
}

TEST_F(Recording, AFullDiskEndsTheRecordingAndNothingElse) {
  const std::string path = File("full");
  std::vector<std::string> lines;
  SetLogSink([&](int level, std::string_view line) {
    if (level == 0) lines.emplace_back(line);
  });
  ASSERT_TRUE(Recorder::Get().Start(path).ok());
  ArmFault(Fault::file_write, 1, -1);
  for (int i = 0; i < 1000; ++i) Record(EventKind::step, i);
  const absl::Status status = Recorder::Get().Stop();
  DisarmFaults();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_FALSE(RecorderOn());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("the recording ended early: cannot write"));
  EXPECT_THAT(lines[0], HasSubstr("No space left on device"));
  // And the next one is as good as ever.
  ASSERT_TRUE(Recorder::Get().Start(path).ok());
  Record(EventKind::step, 1);
  ASSERT_TRUE(Recorder::Get().Stop().ok());
  EXPECT_EQ(CountOf(MustRead(path), EventKind::step), 1);
}

TEST_F(Recording, TheLastSecondsAreDumped) {
  const std::string path = File("dump");
  EXPECT_THAT(std::string(Recorder::Get().Dump(path).message()), HasSubstr("trace_keep"));
  Recorder::Get().Keep(60);
  for (int i = 0; i < 10; ++i) Record(EventKind::step, i);
  ASSERT_TRUE(Recorder::Get().Dump(path).ok());
  EXPECT_EQ(CountOf(MustRead(path), EventKind::step), 10);
  // Recording goes on, beside a file too; both have all that they need.
  const std::string file = File("beside");
  ASSERT_TRUE(Recorder::Get().Start(file).ok());
  Record(EventKind::step, 10);
  ASSERT_TRUE(Recorder::Get().Stop().ok());
  EXPECT_TRUE(RecorderOn());
  const TraceData beside = MustRead(file);
  EXPECT_EQ(beside.Name("event", 0), "op");
  EXPECT_GE(CountOf(beside, EventKind::step), 1);
  ASSERT_TRUE(Recorder::Get().Dump(path).ok());
  EXPECT_EQ(CountOf(MustRead(path), EventKind::step), 11);
  Recorder::Get().Keep(0);
  EXPECT_FALSE(RecorderOn());
}

TEST_F(Recording, ADumpThatFailsLeavesTheOneBefore) {
  const std::string path = File("dump");
  Recorder::Get().Keep(60);
  for (int i = 0; i < 10; ++i) Record(EventKind::step, i);
  ASSERT_TRUE(Recorder::Get().Dump(path).ok());
  Record(EventKind::step, 10);
  ArmFault(Fault::file_write, 1, -1);
  EXPECT_FALSE(Recorder::Get().Dump(path).ok());
  DisarmFaults();
  EXPECT_EQ(CountOf(MustRead(path), EventKind::step), 10);
  // A link is not written through, nor replaced.
  const std::string link = File("link");
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  EXPECT_FALSE(Recorder::Get().Dump(link).ok());
  EXPECT_EQ(CountOf(MustRead(path), EventKind::step), 10);
  struct stat info;
  ASSERT_EQ(::lstat(link.c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  ASSERT_EQ(::lstat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  Recorder::Get().Keep(0);
}

TEST_F(Recording, TheFileIsTheParentsAfterAFork) {
  const std::string path = File("fork");
  ASSERT_TRUE(Recorder::Get().Start(path).ok());
  Record(EventKind::step, 1);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool off = !RecorderOn();
    for (int i = 0; i < 1000; ++i) Record(EventKind::step, 2);
    const bool stops = Recorder::Get().Stop().ok(), starts = Recorder::Get().Start(path).ok();
    ::_exit(off && stops && !starts ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  Record(EventKind::step, 3);
  ASSERT_TRUE(Recorder::Get().Stop().ok());
  std::vector<int64_t> steps;
  for (const TraceEvent& e : MustRead(path).events)
    if (e.kind == EventKind::step) steps.push_back(e.a);
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 3}));
}

TEST_F(Recording, RedactedFilesTellNothing) {
  const std::string path = File("redacted");
  ASSERT_TRUE(options().Set("trace_redact", "true").ok());
  ASSERT_TRUE(Recorder::Get().Start(path).ok());
  ThreadBuffer* buffer = BufferOfThread();
  ASSERT_NE(buffer, nullptr);
  static const char kFile[] = "/home/hidden/secret_model.cc";
  const uint32_t site = Recorder::Get().SiteNumber(*buffer, &path, -1, kFile, 42, 7, "", "secret_function");
  EXPECT_EQ(buffer->FindSite(&path, -1, kFile, 42), site);
  RecordSince(EventKind::op, Ticks(), 3, 31337, site);
  RecordFor(EventKind::system_allocation, 5, 31337, 31337, MemoryWhy{MemoryReason::span, 1}.Pack());
  Recorder::Get().Add(StageRow{1, "graph", "secret text"});
  Recorder::Get().Add(
      DeoptRow{0, 1, "secret_model.cc:42", 4, 4, 0, 0, 0, kFile, 42, "secret expected", "secret seen", "keep"});
  ASSERT_TRUE(Recorder::Get().Stop().ok());
  const auto bytes = ReadFile(path);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(bytes->find("secret"), std::string::npos);
  EXPECT_EQ(bytes->find("hidden"), std::string::npos);
  const TraceData data = MustRead(path);
  EXPECT_TRUE(data.is_redacted);
  for (const TraceEvent& e : data.events)
    if (e.kind == EventKind::op) EXPECT_EQ(e.b, 0) << "sizes are shapes";
  for (const TraceEvent& e : data.events) {
    if (e.kind != EventKind::system_allocation) continue;
    EXPECT_EQ(e.a + e.b, 0) << "and so are bytes";
    EXPECT_EQ(MemoryWhy::GpuOf(e.c), 1);
  }
  ASSERT_EQ(data.deopts.size(), 1u);
  EXPECT_EQ(data.deopts[0].reason, 4);
  EXPECT_EQ(data.deopts[0].file, data.sites.back().file) << "the same name has the same token";
}

/// A small file with every kind of block.
std::string Sample() {
  std::string bytes = HeaderBytes(false);
  const auto add = [&](auto row) {
    std::string text;
    RowWriter writer(&text, nullptr);
    row.Fields(writer);
    AppendBlock(&bytes, kKindOf<decltype(row)>, 1, text);
  };
  add(MetaRow{"command", "train"});
  add(NameRow{"event", static_cast<int64_t>(EventKind::op), "op", "an op"});
  add(ClockRow{1000, 5000, 1});
  add(ClockRow{2000, 15000, 1});
  add(ThreadRow{1, 77, "main"});
  add(SiteRow{1, "a/b.cc", 12, 3, ""});
  add(SpanRow{1, "s"});
  add(TraceRow{1, "b.cc:12", 1, "cpu", 100, {{"0: add", 10, "a/b.cc", 12, 3}}, "loop"});
  add(VersionRow{1,  1,  "b.cc:12", "replay",           "exact", "hot", "", "live", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                 12, 13, 14,        {{0, "x0: f32[8]"}}});
  add(DeoptRow{1500, 1, "b.cc:12", 4, 4, 0, 0, 0, "a/b.cc", 12, "8", "9", "generalise"});
  add(AbortRow{"b.cc:12", 2, 3, 4});
  add(PinRow{"b.cc:12", "why"});
  add(StageRow{1, "graph", "text"});
  add(SourceRow{"a/b.cc", "int x;\n"});
  add(SampleRow{1500, 10, 20, {1, 2, 3}});
  add(GpuRow{0, "GPU", "sm_90a", 132, 1 << 30, 4, 5, 6, 2048, 32, 65536, 1 << 17});
  add(KernelRow{1, "k0", 26, 128, 40, 0});
  add(GraphRow{3, 1, {0}});
  const int64_t graph = ActivityOwner{ActivityOwner::Kind::graph, 0, 3}.Pack();
  const int64_t op = ActivityOwner{ActivityOwner::Kind::op, 9, 1}.Pack();
  add(ActivityBatchRow{0, 2, {{0, 6000, 70, 5500, 1, 0, 7, 11, graph}, {1, 430, 30, 600, -1, 64, 1, 1, op - graph}}});
  add(GpuSampleRow{1500, 0, 30, 40});
  add(MeasureRow{0, 0, ActivityOwner{ActivityOwner::Kind::step, 0, 1}.Pack(), {1500, -1000}});
  add(PcRow{1, "k0", 16, {{"wait", 3}}});
  add(RefusalRow{1500, 1, 2, 4, 0, 0, 0, "8", "9"});
  add(LinkRow{0, 1, "GPU-a", "GPU-b", 18, 450'000'000'000, 4, 1});
  std::string events;
  for (const uint64_t v : {1, 0}) PutUnsigned(&events, v);
  for (int i = 0; i < 2; ++i) {
    events += '\0';
    PutSigned(&events, i == 0 ? 1100 : 100);
    PutUnsigned(&events, 50);
    for (const int64_t v : {1, 2, 0}) PutSigned(&events, v);
  }
  AppendBlock(&bytes, BlockKind::events, 2, events);
  add(EndRow{1900, 2, 0, "stopped"});
  return bytes;
}

TEST(TraceReader, TimesAreNanosecondsSinceTheBeginning) {
  const auto data = ReadTrace(Sample());
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->events.size(), 2u);
  EXPECT_EQ(data->events[0].start_ns, 500);  // ticks 1050 of 1000, ten nanoseconds each
  EXPECT_EQ(data->events[0].ns, 500);
  EXPECT_EQ(data->events[1].start_ns, 1500);
  EXPECT_EQ(data->events[1].a, 2) << "payloads are differences";
  EXPECT_EQ(data->deopts[0].ticks, 5000);
  EXPECT_EQ(data->SiteName(1), "b.cc:12");
  EXPECT_EQ(data->SiteName(2), "");
  ASSERT_NE(data->FindVersion(1), nullptr);
  EXPECT_EQ(data->FindVersion(1)->guards[0].text, "x0: f32[8]");
  EXPECT_EQ(data->FindTrace(1)->steps[0].text, "0: add");
  EXPECT_EQ(data->FindTrace(2), nullptr);
  EXPECT_TRUE(data->is_complete);
}

TEST(TraceReader, EveryKindOfBlockIsInTheSample) {
  const auto data = ReadTrace(Sample());
  ASSERT_TRUE(data.ok()) << data.status();
#define TSR_TRACE_BLOCK(name, Row, summary) \
  if (kKindOf<Row> != BlockKind::batches) EXPECT_FALSE(data->name.empty()) << #name;
#include "runtime/trace/blocks.def"
  EXPECT_FALSE(data->activities.empty()) << "what batches become";
}

TEST(TraceReader, ActivitiesHaveTheirTimesAndOwners) {
  const auto data = ReadTrace(Sample());
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->gpu_lost, 2);
  ASSERT_EQ(data->activities.size(), 2u);
  const GpuActivity &kernel = data->activities[0], &copy = data->activities[1];
  EXPECT_EQ(kernel.kind, ActivityKind::kernel);
  EXPECT_EQ(kernel.start_ns, 1000) << "the recording began at 5000";
  EXPECT_EQ(kernel.launched_ns, 500);
  EXPECT_EQ(kernel.ns, 70);
  EXPECT_TRUE(kernel.in_graph);
  EXPECT_EQ(kernel.owner, ActivityOwner::Kind::step) << "its graph says which";
  EXPECT_EQ(kernel.number, 1);
  EXPECT_EQ(kernel.part, 0);
  EXPECT_EQ(copy.kind, ActivityKind::copy_in);
  EXPECT_EQ(copy.start_ns, 1500);
  EXPECT_EQ(copy.launched_ns, 1100);
  EXPECT_EQ(copy.kernel, 0u);
  EXPECT_EQ(copy.bytes, 64);
  EXPECT_EQ(copy.stream, 8u);
  EXPECT_EQ(copy.owner, ActivityOwner::Kind::op);
  EXPECT_EQ(copy.part, 9);
  EXPECT_EQ(data->FindKernel(1)->registers, 40);
  EXPECT_EQ(data->FindGpu(0)->target, "sm_90a");
}

TEST(TraceReader, DamageIsAnError) {
  const std::string good = Sample();
  int unnoticed = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    const auto data = ReadTrace(bad);
    // A block that says it is longer than the file looks like one that was not written to its end.
    if (data.ok() && data->is_complete) ++unnoticed;
    if (!data.ok()) EXPECT_FALSE(data.status().message().empty());
  }
  EXPECT_LE(unnoticed, 4) << "the flags of the header";
  EXPECT_FALSE(ReadTrace("").ok());
  EXPECT_FALSE(ReadTrace("not a trace at all, but long enough").ok());
  std::string other = good;
  other[8] = 99;
  EXPECT_THAT(std::string(ReadTrace(other).status().message()), HasSubstr("version 99 of the format"));
  EXPECT_FALSE(ReadTraceFile(PathOf("none")).ok());
}

TEST(TraceReader, WhatWasWrittenBeforeAProcessDiedCanBeRead) {
  const std::string good = Sample();
  for (size_t n = sizeof(FileHeader); n < good.size(); ++n) {
    const auto data = ReadTrace(std::string_view(good).substr(0, n));
    ASSERT_TRUE(data.ok()) << n << ": " << data.status();
    EXPECT_FALSE(data->is_complete);
  }
}

TEST(TraceReader, RowsOfLaterVersionsAreLeftOut) {
  std::string bytes = Sample();
  AppendBlock(&bytes, static_cast<BlockKind>(4711), 3, "something new");
  const auto data = ReadTrace(bytes);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->events.size(), 2u);
}

TEST(TraceReader, HugeCountsAskForNoMemory) {
  std::string rows;
  PutUnsigned(&rows, uint64_t{1} << 60);
  for (const BlockKind kind : {BlockKind::events, BlockKind::versions, BlockKind::samples, BlockKind::sources}) {
    std::string bytes = HeaderBytes(false);
    AppendBlock(&bytes, kind, UINT32_MAX, rows);
    EXPECT_FALSE(ReadTrace(bytes).ok());
  }
}

}  // namespace
}  // namespace tessera::rt::trace
