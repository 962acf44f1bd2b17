// What ran on GPUs, in a trace: numbers of owners, rows that come back, nodes of graphs that find their steps.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/trace/file.h"
#include "runtime/trace/reader.h"

namespace tessera::rt::trace {
namespace {

template <class Row>
void Append(std::string* bytes, std::vector<Row> rows) {
  std::string payload;
  RowWriter writer(&payload, nullptr);
  for (Row& row : rows) row.Fields(writer);
  AppendBlock(bytes, kKindOf<Row>, static_cast<uint32_t>(rows.size()), payload);
}

/// Rows as the recorder writes them, from absolute numbers.
ActivityBatchRow Batch(int64_t gpu, int64_t lost, std::vector<ActivityRow> rows) {
  ActivityRow last;
  for (ActivityRow& row : rows) {
    const ActivityRow now = row;
    row.start_ns -= last.start_ns + last.ns;
    row.launched_ns -= last.launched_ns;
    row.kernel -= last.kernel;
    row.stream -= last.stream;
    row.correlation -= last.correlation;
    row.owner -= last.owner;
    last = now;
  }
  return {gpu, lost, std::move(rows)};
}

constexpr auto kKernel = static_cast<int64_t>(ActivityKind::kernel);
int64_t Graph(int64_t number) { return ActivityOwner{ActivityOwner::Kind::graph, 0, number}.Pack(); }

TEST(TraceGpu, OwnersAreOneNumber) {
  for (const auto kind :
       {ActivityOwner::Kind::nobody, ActivityOwner::Kind::op, ActivityOwner::Kind::step, ActivityOwner::Kind::graph}) {
    const ActivityOwner owner = {kind, 9999, 4'000'000'000};
    const ActivityOwner back = ActivityOwner::Unpack(owner.Pack());
    EXPECT_EQ(back.kind, kind);
    EXPECT_EQ(back.part, 9999);
    EXPECT_EQ(back.number, 4'000'000'000);
  }
  EXPECT_EQ(ActivityOwner{}.Pack(), 0);
}

TEST(TraceGpu, ActivitiesComeBackByStart) {
  std::string bytes = HeaderBytes(false);
  Append<ClockRow>(&bytes, {{100, 1000, 5000}, {200, 1100, 5100}});
  Append<KernelRow>(&bytes, {{1, "gemm", 132, 256, 90, 4096}, {2, "add", 10, 128, 16, 0}});
  const int64_t op = ActivityOwner{ActivityOwner::Kind::op, 7, 3}.Pack();
  Append<ActivityBatchRow>(&bytes,
                           {Batch(0, 2,
                                  {{kKernel, 1500, 40, 1450, 2, 0, 7, 12, op},
                                   {kKernel, 1300, 100, 0, 1, 0, 7, 11, 0},
                                   {static_cast<int64_t>(ActivityKind::copy_out), 1600, 5, 1590, 0, 64, 9, 13, op},
                                   {99, 1700, 5, 0, 0, 0, 0, 0, 0}})});
  const auto data = ReadTrace(bytes);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->activities.size(), 3u);
  EXPECT_EQ(data->gpu_lost, 2);
  EXPECT_EQ(data->unknown, 1) << "a kind that this build does not know";
  const GpuActivity &gemm = data->activities[0], &add = data->activities[1], &copy = data->activities[2];
  EXPECT_EQ(gemm.start_ns, 300);
  EXPECT_EQ(gemm.ns, 100);
  EXPECT_EQ(gemm.launched_ns, -1) << "not known";
  EXPECT_EQ(gemm.owner, ActivityOwner::Kind::nobody);
  ASSERT_NE(data->FindKernel(gemm.kernel), nullptr);
  EXPECT_EQ(data->FindKernel(gemm.kernel)->name, "gemm");
  EXPECT_EQ(add.launched_ns, 450);
  EXPECT_EQ(add.owner, ActivityOwner::Kind::op);
  EXPECT_EQ(add.part, 7);
  EXPECT_EQ(add.number, 3);
  EXPECT_EQ(add.stream, 7u);
  EXPECT_EQ(copy.bytes, 64);
  EXPECT_EQ(copy.kernel, 0u);
  EXPECT_EQ(copy.correlation, 13);
  EXPECT_EQ(data->duration_ns, 605);
}

// Two launches of a graph of three nodes, of which the second lost a record; and one of a graph that nobody knows.
std::string Graphs() {
  std::string bytes = HeaderBytes(false);
  Append<ClockRow>(&bytes, {{0, 0, 0}});
  Append<GraphRow>(&bytes, {{5, 42, {0, 3, 3}}});
  Append<ActivityBatchRow>(&bytes, {Batch(0, 0,
                                          {{kKernel, 30, 5, 1, 3, 0, 7, 11, Graph(5)},
                                           {kKernel, 10, 5, 1, 1, 0, 7, 11, Graph(5)},
                                           {kKernel, 20, 5, 1, 2, 0, 7, 11, Graph(5)},
                                           {kKernel, 50, 5, 41, 1, 0, 7, 12, Graph(5)},
                                           {kKernel, 60, 5, 41, 2, 0, 7, 12, Graph(5)},
                                           {kKernel, 80, 5, 71, 1, 0, 7, 13, Graph(6)}})});
  return bytes;
}

TEST(TraceGpu, NodesOfGraphsFindTheirSteps) {
  const auto data = ReadTrace(Graphs());
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->activities.size(), 6u);
  const int32_t steps[] = {0, 3, 3, -1, -1, -1};
  for (size_t i = 0; i < 6; ++i) {
    const GpuActivity& a = data->activities[i];
    EXPECT_EQ(a.part, steps[i]) << i;
    EXPECT_TRUE(a.in_graph);
    EXPECT_EQ(a.owner, i < 5 ? ActivityOwner::Kind::step : ActivityOwner::Kind::nobody);
    EXPECT_EQ(a.number, i < 5 ? 42 : 0);
  }
}

// Where a version is one kernel, each of its launches is a run.
TEST(TraceGpu, MeasuresOfAVersionOfOneKernelFindIt) {
  const int64_t owner = ActivityOwner{ActivityOwner::Kind::step, 3, 42}.Pack();
  std::string bytes = HeaderBytes(false);
  Append<ClockRow>(&bytes, {{0, 0, 0}});
  Append<ActivityBatchRow>(&bytes, {Batch(0, 0,
                                          {{kKernel, 10, 5, 1, 2, 0, 7, 21, owner},
                                           {kKernel, 20, 5, 11, 2, 0, 7, 22, owner},
                                           {kKernel, 30, 5, 21, 2, 0, 7, 23, owner}})});
  Append<MeasureRow>(&bytes, {{0, 0, ActivityOwner{ActivityOwner::Kind::step, 0, 42}.Pack(), {5000}}});
  const auto data = ReadTrace(bytes);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->measures.size(), 1u);
  EXPECT_EQ(data->measures[0].kernel, 2);
  EXPECT_EQ(ActivityOwner::Unpack(data->measures[0].owner).part, 3);
}

TEST(TraceGpu, MeasuresFindTheirKernels) {
  std::string bytes = Graphs();
  const auto nth = [](int32_t n) { return ActivityOwner{ActivityOwner::Kind::step, n, 42}.Pack(); };
  // Two runs of three kernels were measured; those of another version have no launch.
  std::vector<MeasureRow> rows;
  for (int64_t i = 0; i < 6; ++i) rows.push_back({0, 0, nth(static_cast<int32_t>(i % 3)), {i * 1000, -1000}});
  rows.push_back({0, 0, ActivityOwner{ActivityOwner::Kind::step, 0, 77}.Pack(), {1}});
  Append<MeasureRow>(&bytes, rows);
  const auto data = ReadTrace(bytes);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->measures.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(data->measures[i].kernel, static_cast<int64_t>(i % 3) + 1);
    EXPECT_EQ(ActivityOwner::Unpack(data->measures[i].owner).part, i % 3 == 0 ? 0 : 3);
    EXPECT_EQ(data->measures[i].thousandths[0], static_cast<int64_t>(i) * 1000);
  }
}

TEST(TraceGpu, AnyNumbersDoNoHarm) {
  std::string bytes = HeaderBytes(false);
  Append<ClockRow>(&bytes, {{0, INT64_MIN, 0}});
  Append<GraphRow>(&bytes, {{-1, -1, {INT64_MAX, INT64_MIN}}, {5, 1, {}}});
  const ActivityRow wild = {kKernel, INT64_MAX, INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN, -1, -1, INT64_MAX};
  Append<ActivityBatchRow>(&bytes, {{-1, -1, {wild, wild, wild}}, {0, 0, {}}});
  Append<MeasureRow>(&bytes, {{-1, -1, INT64_MIN, {}}, {0, 0, -1, {INT64_MIN}}});
  Append<GpuSampleRow>(&bytes, {{INT64_MAX, -1, -1, -1}});
  EXPECT_TRUE(ReadTrace(bytes).ok());
}

}  // namespace
}  // namespace tessera::rt::trace
