// What is said of GPUs in a trace: numbers of recordings that are made by hand, so that they are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/trace_testing.h"
#include "tools/trace/analysis.h"
#include "tools/trace/export.h"
#include "tools/trace/gpu_text.h"
#include "tools/trace/html.h"
#include "tools/trace/text.h"

namespace tessera::tools {
namespace {

using rt::ActivityKind;
using rt::ActivityOwner;
using rt::EventKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_trace::Recording;

constexpr ActivityOwner kOp{ActivityOwner::Kind::op, 3, 1};  // tanh at walk.cc:8
ActivityOwner Step(int32_t step, int64_t version = 1) { return {ActivityOwner::Kind::step, step, version}; }

const KernelSummary* Find(const Analysis& a, const std::string& name) {
  for (const KernelSummary& k : a.kernels)
    if (k.name == name) return &k;
  return nullptr;
}
std::string Words(const KernelSummary& kernel) {
  std::string words;
  for (const Verdict& v : kernel.verdicts) words += v.words + "\n";
  return words;
}

TEST(ToolsTraceWork, StepsAreReadAsTheyAreWritten) {
  const StepText step = ParseStep("12: y7, y8 = split y4 n3=2 {axis=-1, parts=2}  f32[8,s0], f32[8,4]  @step:12");
  EXPECT_THAT(step.results, ElementsAre("y7", "y8"));
  EXPECT_EQ(step.op, "split");
  EXPECT_THAT(step.operands, ElementsAre("y4", "n3=2"));
  EXPECT_EQ(step.attrs, "{axis=-1, parts=2}");
  EXPECT_THAT(step.types, ElementsAre("f32[8,s0]", "f32[8,4]"));
  EXPECT_EQ(ParseStep("").op, "");
  EXPECT_EQ(ParseStep("3: branch y4 is true").op, "branch");
}

TEST(ToolsTraceWork, Formulas) {
  EXPECT_EQ(Evaluate("4*s0*s1 + 12", {{"s0", 2}, {"s1", 3}}), 36);
  EXPECT_EQ(Evaluate("0", {}), 0);
  EXPECT_FALSE(Evaluate("4*s0", {}).has_value());
  EXPECT_FALSE(Evaluate("", {}).has_value());
}

TEST(ToolsTraceGpu, TimeIsSummedByKernelAndOwner) {
  const TraceData data = Recording()
                             .Gpu()
                             .Kernel(1, "tanh_f32")
                             .Kernel(2, "tanh_f32", 2000)  // the same with another grid
                             .Version(1, "tier 2", 1, 1, 1, 1)
                             .Add(rt::trace::TraceRow{1,
                                                      "walk.cc:8",
                                                      1,
                                                      "cuda:0",
                                                      100,
                                                      {{"0: y1 = tanh x0  f32[8]  walk.cc:9", 1, "src/walk.cc", 9, 1}},
                                                      "loop"})
                             .Activity(ActivityKind::kernel, 100, 50, 1, kOp)
                             .Activity(ActivityKind::kernel, 200, 70, 2, kOp)
                             .Activity(ActivityKind::kernel, 300, 10, 1, Step(0))
                             .Activity(ActivityKind::copy_out, 320, 40, 0, {}, 0, 7, 0, 4096)
                             .EndBatch()
                             .Read();
  const Analysis a = Analyse(data);
  ASSERT_EQ(a.kernels.size(), 3u);
  EXPECT_EQ(a.kernels[0].runs.count, 2);
  EXPECT_EQ(a.kernels[0].runs.ns, 120);
  EXPECT_EQ(a.kernels[0].runs.longest_ns, 70);
  EXPECT_EQ(a.kernels[0].grids, 2);
  EXPECT_EQ(a.kernels[0].row->blocks, 2000) << "the grid that had most of the time";
  EXPECT_EQ(a.kernels[0].line, "walk.cc:8");
  EXPECT_EQ(OwnerText(a.kernels[0]), "tanh at walk.cc:8");
  EXPECT_EQ(LaneOf(a.kernels[0]), Lane::tier1);
  EXPECT_EQ(a.kernels[1].name, "copy to the host");
  EXPECT_EQ(a.kernels[1].bytes, 4096);
  EXPECT_EQ(OwnerText(a.kernels[2]), "tanh at walk.cc:9, step 0 of version 1");
  EXPECT_EQ(a.kernels[2].what, "y1 = tanh x0");
  EXPECT_EQ(a.kernels[2].place, "walk.cc:8");
  EXPECT_EQ(LaneOf(a.kernels[2]), Lane::tier2);
  EXPECT_THAT(a.kernel_of, ElementsAre(0, 0, 2, 1));
  EXPECT_EQ(a.gpu_busy_ns, 170);
}

TEST(ToolsTraceGpu, IdleTimeHasAReason) {
  Recording recording;
  recording.Gpu().Kernel(1, "k");
  // Two streams overlap: the union counts.
  recording.Activity(ActivityKind::kernel, 0, 100, 1, {}, 0, 7);
  recording.Activity(ActivityKind::kernel, 50, 100, 1, {}, 0, 8);
  // From 150 on nothing ran; this was launched at 130, before the end of what came before.
  recording.Activity(ActivityKind::kernel, 170, 30, 1, {}, 130, 7);
  // The host launched this one only at 290.
  recording.Activity(ActivityKind::kernel, 300, 100, 1, {}, 290, 7);
  // The program waited until 405, and launched then.
  recording.Activity(ActivityKind::wait, 310, 95, 0, {}, 0, 7);
  recording.Activity(ActivityKind::kernel, 500, 100, 1, {}, 480, 7);
  // Nobody knows when this one was launched.
  recording.Activity(ActivityKind::kernel, 605, 10, 1, {}, 0, 7);
  const TraceData data = recording.EndBatch().Read();
  const Analysis a = Analyse(data);
  ASSERT_EQ(a.gpus.size(), 1u);
  const GpuSummary& gpu = a.gpus[0];
  EXPECT_EQ(gpu.busy_ns, 390);
  EXPECT_EQ(gpu.idle_ns, 225);
  EXPECT_EQ(gpu.unknown_gaps.ns, 5);
  EXPECT_EQ(gpu.device_gaps.ns, 20);
  EXPECT_EQ(gpu.host_gaps.count, 2);
  EXPECT_EQ(gpu.host_gaps.ns, 200);
  EXPECT_EQ(gpu.waited_gaps.ns, 100);
  EXPECT_EQ(gpu.launch_to_start.ns, 30);
  EXPECT_THAT(gpu.streams, ElementsAre(7, 8));
  ASSERT_EQ(gpu.longest_gaps.size(), 4u);
  EXPECT_EQ(gpu.longest_gaps[0].ns, 100);
  int64_t binned = 0;
  for (const int64_t ns : gpu.busy_bins) binned += ns;
  EXPECT_EQ(binned, gpu.busy_ns) << "nothing is lost between bins";
}

TEST(ToolsTraceGpu, Occupancy) {
  const rt::trace::GpuRow gpu{0, "", "", 132, 0, 0, 0, 0, 2048, 32, 65536, 233'472};
  const auto of = [&](int64_t threads, int64_t registers, int64_t shared) {
    return OccupancyOf({1, "k", 1, threads, registers, shared}, gpu);
  };
  EXPECT_EQ(of(256, 32, 0).blocks, 8);
  EXPECT_STREQ(of(256, 32, 0).limited_by, "threads");
  EXPECT_DOUBLE_EQ(of(256, 32, 0).share, 1);
  // 255 registers are given out as 256 for each thread.
  EXPECT_EQ(of(128, 255, 0).blocks, 2);
  EXPECT_STREQ(of(128, 255, 0).limited_by, "registers");
  EXPECT_DOUBLE_EQ(of(128, 255, 0).share, 0.125);
  // A block has another kilobyte of shared memory for the system.
  EXPECT_EQ(of(128, 32, 114 * 1024).blocks, 1);
  EXPECT_EQ(of(128, 32, 113 * 1024).blocks, 2);
  EXPECT_STREQ(of(128, 32, 113 * 1024).limited_by, "shared memory");
  EXPECT_EQ(of(32, 16, 0).blocks, 32);
  EXPECT_STREQ(of(32, 16, 0).limited_by, "blocks");
  EXPECT_EQ(of(0, 16, 0).blocks, 0) << "not known";
  EXPECT_EQ(of(INT64_MAX, INT64_MAX, INT64_MAX).blocks, 0) << "of a damaged file";
}

/// One kernel of a version with the given report; it takes `ns`.
TraceData WithReport(const char* report, int64_t ns, const char* type = "f32[1000,1000]",
                     const std::map<std::string, double>& measures = {}, int64_t blocks = 1000,
                     int64_t registers = 32) {
  Recording recording;
  recording.Gpu().Kernel(1, "k0", blocks, 256, registers).Version(1, "tier 3", 1, 1, 1, 1);
  recording.Add(rt::trace::TraceRow{
      1, "walk.cc:8", 1, "cuda:0", 100, {{std::string("0: y1 = tanh x0  ") + type, 1, "src/walk.cc", 9, 1}}, "loop"});
  recording.Add(rt::trace::StageRow{1, "report", report});
  if (!measures.empty()) recording.Measures(1, Step(0), measures);
  recording.Activity(ActivityKind::kernel, 0, ns, 1, Step(0));
  return recording.EndBatch().Read();
}
constexpr char kTanh[] =
    "kernel k0 in place of step 0\n"
    "  reads       4000000 bytes\n"
    "  writes      4000000 bytes\n"
    "  arithmetic  1000000 operations and 1000000 functions such as exp\n";

TEST(ToolsTraceGpu, TheReportOfTheCompilerTellsWhatAKernelMustDo) {
  const TraceData data = WithReport(kTanh, 4000);
  const Analysis a = Analyse(data);
  const KernelSummary& k = a.kernels.at(0);
  EXPECT_DOUBLE_EQ(k.work.bytes, 8e6);
  EXPECT_DOUBLE_EQ(k.work.flops, 21e6);
  EXPECT_NEAR(k.bytes_per_s, 2e12, 1e6);
  EXPECT_NEAR(k.memory_share, 0.5, 1e-9);
  EXPECT_NEAR(k.flops, 21e6 / 4e-6, 1e6);
  EXPECT_NEAR(k.compute_share, 21e6 / 4e-6 / 60e12, 1e-9);
}

TEST(ToolsTraceGpu, DimsThatAVersionLeavesOpenAreThoseOfAnotherTraceOfThePlace) {
  Recording recording;
  recording.Gpu().Kernel(1, "k0").Version(1, "tier 2", 1, 1, 1, 1, "walk.cc:8", 2);
  for (const auto& [id, type] : {std::pair(1, "f32[50,20]"), std::pair(2, "f32[s0,20]")})
    recording.Add(rt::trace::TraceRow{
        id, "walk.cc:8", 1, "cuda:0", 100, {{std::string("0: y1 = tanh x0  ") + type, 1, "", 9, 1}}, "loop"});
  recording.Add(rt::trace::StageRow{
      1, "report", "kernel k0 in place of step 0\n  reads       80*s0 bytes\n  writes      80*s0 bytes\n"});
  recording.Activity(ActivityKind::kernel, 0, 1000, 1, Step(0)).EndBatch();
  const TraceData data = recording.Read();
  const Analysis a = Analyse(data);
  EXPECT_DOUBLE_EQ(a.kernels.at(0).work.bytes, 8000);
  EXPECT_TRUE(a.kernels[0].work.is_guess);
  EXPECT_THAT(KernelsTable(a, 5), HasSubstr("~8 GB/s"));
}

TEST(ToolsTraceGpu, DimsThatOnlyTheCodeLeavesOpenAreThoseOfTheTrace) {
  Recording recording;
  recording.Gpu().Kernel(1, "k1").Version(1, "tier 2", 1, 1, 1, 1);
  recording.Add(rt::trace::TraceRow{
      1,
      "walk.cc:8",
      1,
      "cuda:0",
      100,
      {{"0: y2 = tanh x0  f32[50,20]", 1, "", 9, 1}, {"1: y3, y4 = split y2  f32[50,7], f32[50,13]", 1, "", 9, 1}},
      "loop"});
  recording.Add(rt::trace::StageRow{1, "graph", R"(module {
  tsr_graph.trace "eager" values [0] likely [64] (%v0: tensor<?xf32, [3]> loc(unknown)) {
    %0 = tsr_graph.cast %v0 : (tensor<?xf32, [3]>) -> tensor<?xf32, [3]> loc(#loc1)
    %v2 = tsr_graph.tanh %0 step 0 values [2] : (tensor<?xf32, [3]>) -> tensor<?x20xf32, [1]> loc(#loc1)
    %v3, %v4 = tsr_graph.split %v2 step 1 values [3, 4] : (tensor<?x20xf32, [1]>) -> (tensor<?x7xf32, [1]>, tensor<50x?xf32, [2]>)
})"});
  recording.Add(rt::trace::StageRow{
      1, "report",
      "kernel k1 in place of steps 0, 1\n  reads       80*s1 bytes\n  writes      4*s1*s2 + s3 + s4 bytes\n"
      "a function counts as 20 operations\nsymbol s4 is dim 1 of value 3\n"});
  recording.Activity(ActivityKind::kernel, 0, 1000, 1, Step(1)).EndBatch();
  TraceData data = recording.Read();
  EXPECT_DOUBLE_EQ(Analyse(data).kernels.at(0).work.bytes, 80 * 50 + 4 * 50 * 13 + 8 + 7)
      << "x0 is f32[8], as its guard says";
  EXPECT_FALSE(Analyse(data).kernels[0].work.is_guess);
  // Without the report nobody knows which steps the kernel does.
  std::erase_if(data.stages, [](const auto& row) { return row.stage == "report"; });
  EXPECT_EQ(Analyse(data).kernels.at(0).work.bytes, 0);
}

TEST(ToolsTraceGpu, ProductsOfTheLibraryFollowFromShapes) {
  Recording recording;
  recording.Gpu().Kernel(1, "nvjet_big").Kernel(2, "splitk_reduce");
  rt::trace::VersionRow version;
  version.id = version.trace_id = 1;
  version.place = "@step:1";
  version.generator = "tier 3";
  version.guards = {{0, "x0: bf16[512,2048] on cuda:0, dense"}, {1, "x1: bf16[1024,2048] on cuda:0, dense"}};
  recording.Add(version);
  recording.Add(rt::trace::TraceRow{1,
                                    "@step:1",
                                    0,
                                    "cuda:0",
                                    100,
                                    {{"0: y2 = matmul x0 x1 {transpose_b=true}  bf16[512,1024]  @step:3", 1, "", 3, 1}},
                                    "loop"});
  recording.Activity(ActivityKind::kernel, 0, 4000, 1, Step(0)).Activity(ActivityKind::kernel, 4000, 500, 2, Step(0));
  const TraceData data = recording.EndBatch().Read();
  const Analysis a = Analyse(data);
  const KernelSummary* big = Find(a, "nvjet_big");
  ASSERT_NE(big, nullptr);
  EXPECT_DOUBLE_EQ(big->work.flops, 2.0 * 512 * 1024 * 2048);
  EXPECT_DOUBLE_EQ(big->work.bytes, 2.0 * (512 * 2048 + 1024 * 2048 + 512 * 1024));
  EXPECT_NEAR(big->compute_share, big->work.flops / 4e-6 / 1e15, 1e-9);
  EXPECT_EQ(big->line, "@step:3");
  EXPECT_EQ(Find(a, "splitk_reduce")->work.flops, 0) << "it only helps";
  EXPECT_THAT(Words(*big), HasSubstr("tensor cores busy 54 %"));
}

TEST(ToolsTraceGpu, StepsThatAreAlikeAreOneRow) {
  Recording recording;
  recording.Gpu().Kernel(1, "nvjet").Kernel(2, "nvjet", 500);
  rt::trace::VersionRow version;
  version.id = version.trace_id = 1;
  version.place = "@step:1";
  version.generator = "tier 2";
  version.guards = {{0, "x0: bf16[64,128] on cuda:0, dense"}, {1, "x1: bf16[64,32] on cuda:0, dense"}};
  recording.Add(version);
  const auto step = [](int i, const char* place) {
    const std::string text = "y" + std::to_string(i + 2) + " = dot_general x0 x1 {contract_a=[0], contract_b=[0]}";
    return rt::trace::StepRow{std::to_string(i) + ": " + text + "  bf16[128,32]  " + place, 1, "a/net.cc",
                              i < 2 ? 7 : 9, 1};
  };
  recording.Add(rt::trace::TraceRow{
      1, "@step:1", 0, "cuda:0", 1, {step(0, "net.cc:7"), step(1, "net.cc:7"), step(2, "net.cc:9")}, "loop"});
  recording.Activity(ActivityKind::kernel, 0, 1000, 1, Step(0)).Activity(ActivityKind::kernel, 1000, 3000, 2, Step(1));
  recording.Activity(ActivityKind::kernel, 4000, 500, 1, Step(2));
  const TraceData data = recording.EndBatch().Read();
  const Analysis a = Analyse(data);
  ASSERT_EQ(a.kernels.size(), 3u);
  EXPECT_DOUBLE_EQ(a.kernels[0].work.flops, 2.0 * 128 * 32 * 64);
  ASSERT_EQ(a.kernel_rows.size(), 2u);
  EXPECT_EQ(a.kernel_rows[0].runs.ns, 4000);
  EXPECT_EQ(a.kernel_rows[0].runs.count, 2);
  EXPECT_EQ(a.kernel_rows[0].runs.longest_ns, 3000);
  EXPECT_DOUBLE_EQ(a.kernel_rows[0].work.flops, 2.0 * 128 * 32 * 64) << "of one launch";
  EXPECT_NEAR(a.kernel_rows[0].flops, 2.0 * 128 * 32 * 64 / 2000e-9, 1e3);
  EXPECT_EQ(OwnerText(a.kernel_rows[0]), "dot_general at net.cc:7, 2 steps of version 1");
  EXPECT_EQ(OwnerText(a.kernel_rows[1]), "dot_general at net.cc:9, step 2 of version 1");
}

TEST(ToolsTraceGpu, KernelsOfOneStepShareItsWork) {
  Recording recording;
  recording.Gpu().Kernel(1, "keys").Kernel(2, "queries").Kernel(3, "helper").Version(1, "tier 2", 1, 1, 1, 1);
  recording.Add(rt::trace::TraceRow{
      1, "walk.cc:8", 1, "cuda:0", 1, {{"0: y2 = tanh x0  f32[8]  walk.cc:9", 1, "src/walk.cc", 9, 1}}, "loop"});
  recording.Activity(ActivityKind::kernel, 0, 600, 1, Step(0)).Activity(ActivityKind::kernel, 600, 300, 2, Step(0));
  recording.Activity(ActivityKind::kernel, 900, 100, 3, Step(0)).EndBatch();
  const TraceData data = recording.Read();
  const Analysis a = Analyse(data);
  // f32[8] is read and written.
  EXPECT_DOUBLE_EQ(Find(a, "keys")->work.bytes, 64.0 * 2 / 3);
  EXPECT_DOUBLE_EQ(Find(a, "queries")->work.bytes, 64.0 / 3);
  EXPECT_EQ(Find(a, "helper")->work.bytes, 0);
  EXPECT_DOUBLE_EQ(Find(a, "keys")->bytes_per_s, Find(a, "queries")->bytes_per_s);
}

TEST(ToolsTraceGpu, NamesOfKernels) {
  EXPECT_EQ(KernelName("k12"), "k12");
  EXPECT_EQ(KernelName("_ZN8cublasLt19splitKreduce_kernelILi32ELi16EEEvv"), "cublasLt::splitKreduce_kernel");
  EXPECT_EQ(KernelName("_ZN3net12_GLOBAL__N_14plusEPf"), "net::plus");
  EXPECT_EQ(KernelName("_Z4plusPf"), "plus");
  for (const char* odd : {"_Z", "_ZN", "_ZN99999999999999999999a", "_ZN5abc", "_Z0x", ""})
    EXPECT_EQ(KernelName(odd), odd);
}

TEST(ToolsTraceVerdicts, EachRuleSpeaks) {
  const auto words = [](int64_t ns, const std::map<std::string, double>& measures, int64_t blocks = 100'000,
                        int64_t registers = 32) {
    const TraceData data = WithReport(kTanh, ns, "f32[1000,1000]", measures, blocks, registers);
    const Analysis a = Analyse(data);
    for (const Verdict& v : a.kernels.at(0).verdicts) EXPECT_FALSE(v.advice.empty()) << v.words;
    return Words(a.kernels.at(0));
  };
  EXPECT_THAT(words(2200, {}), HasSubstr("memory-bound at 91 % of the memory's rate"));
  EXPECT_THAT(words(20'000, {}, 26), HasSubstr("latency-bound: 26 blocks for 100 multiprocessors"));
  EXPECT_THAT(words(20'000, {}, 100'000, 250), HasSubstr("limited by registers: 12 % occupancy"));
  EXPECT_THAT(words(20'000, {}, 900), HasSubstr("a short last wave: 1.12 waves of blocks"));
  EXPECT_THAT(words(3000, {}), HasSubstr("tiny: 3 us"));
  EXPECT_THAT(words(20'000, {{"tensor_percent", 70}}), HasSubstr("tensor cores busy 70 %"));
  EXPECT_THAT(words(20'000, {{"issue_percent", 80}, {"fma_percent", 70}}),
              HasSubstr("arithmetic-bound: issue slots busy 80 %"));
  EXPECT_THAT(words(20'000, {{"issue_percent", 30}, {"special_percent", 90}, {"alu_percent", 20}}),
              HasSubstr("arithmetic-bound: units for special functions and conversions busy 90 %"));
  EXPECT_THAT(words(20'000, {{"fma_percent", 61}}), HasSubstr("units for products and sums busy 61 %"));
  EXPECT_THAT(words(20'000, {{"alu_percent", 75}}), HasSubstr("units for integers, comparisons and logic busy 75 %"));
  EXPECT_THAT(words(20'000, {{"l2_percent", 80}}), HasSubstr("bound by the L2 cache, 80 %"));
  EXPECT_THAT(words(20'000, {{"l2_out_percent", 70}}), HasSubstr("bound by the L2 cache, 70 %"));
  EXPECT_THAT(words(20'000, {{"l1_percent", 90}}), HasSubstr("bound by the L1 cache and shared memory, 90 %"));
  EXPECT_THAT(words(20'000, {{"bank_conflicts", 3}, {"shared_wavefronts", 10}}), HasSubstr("bank conflicts: 30 %"));
  EXPECT_THAT(words(20'000, {{"load_bytes_per_sector_percent", 25}}),
              HasSubstr("partial sectors: 25 % of the bytes that its loads move are used"));
  EXPECT_THAT(words(20'000, {{"store_bytes_per_sector_percent", 12}}), HasSubstr("its stores move"));
  EXPECT_THAT(words(20'000, {{"local_bytes", 2048}}), HasSubstr("spills: 2 KiB of local memory moved"));
  EXPECT_THAT(words(20'000, {{"dram_read_bytes", 16e6}, {"dram_write_bytes", 4e6}}),
              HasSubstr("moves 2.5 times the bytes that it must"));
  EXPECT_THAT(words(20'000, {{"stall_memory", 50}}), HasSubstr("waits for memory: 50 %"));
  EXPECT_THAT(words(20'000, {{"stall_barrier", 25}}), HasSubstr("waits at barriers: 25 %"));
  EXPECT_THAT(words(20'000, {{"stall_mio", 25}}), HasSubstr("waits for shared memory and special functions: 25 %"));
  EXPECT_THAT(words(20'000, {{"stall_math", 45}}), HasSubstr("waits for arithmetic units: 45 %"));
  EXPECT_THAT(words(20'000, {{"stall_wait", 45}}), HasSubstr("waits for its own instructions: 45 %"));
  EXPECT_THAT(words(20'000, {}), HasSubstr("10 % of what the GPU could"));
  const TraceData spilled = WithReport(
      "kernel k0 in place of step 0\n  code        blocks of 256 threads; 168 registers, 19 spills, 19 reloads\n",
      20'000);
  EXPECT_THAT(Words(Analyse(spilled).kernels.at(0)),
              HasSubstr("spills: the assembler found no register for 19 values"));
  // One that runs at the memory's rate is not blamed for its registers.
  EXPECT_THAT(words(2200, {}, 100'000, 250), Not(HasSubstr("registers")));
}

TEST(ToolsTraceGpu, NodesOfAGraphHaveTheStepsOfTheirVersion) {
  const auto data = rt::trace::ReadTrace(testing_trace::GpuSample(20));
  ASSERT_TRUE(data.ok()) << data.status();
  const Analysis a = Analyse(*data);
  const KernelSummary* attention = Find(a, "tessera_attention<bf16, 64>");
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(attention->part, 4);
  EXPECT_EQ(attention->in_graph, 20);
  EXPECT_EQ(attention->line, "train.cc:45");
  EXPECT_EQ(attention->place, "@Step:40");
  EXPECT_THAT(Words(*attention), HasSubstr("bank conflicts: 38 %"));
  const std::string report = ReportText(a);
  EXPECT_THAT(report, HasSubstr("GPU 0: NVIDIA H200, 2 streams"));
  EXPECT_THAT(report, HasSubstr("recorded by CUPTI 13.0"));
  EXPECT_THAT(report, HasSubstr("memory-bound at 91 % of the memory's rate"));
  EXPECT_THAT(report, HasSubstr("idle, host"));
  EXPECT_THAT(TopText(a, TopBy::kernel, 3), HasSubstr("tessera_attention"));
  const auto explained = ExplainTrace(a, "@Step:40", "");
  ASSERT_TRUE(explained.ok());
  EXPECT_THAT(*explained, HasSubstr("kernels on GPUs\n"));
  EXPECT_THAT(*explained, HasSubstr("26 blocks of 512 threads, 120 registers"));
  EXPECT_THAT(*explained, HasSubstr("spills: 80 KiB of local memory moved: fewer values alive at once"));
  EXPECT_THAT(DiffText(a, a, 5), HasSubstr("kernels of GPUs that changed most"));
  EXPECT_THAT(EventsText(a, true), HasSubstr("[gpu 0 stream 7] kernel 23 us k1, layer_norm at train.cc:42"));
  EXPECT_THAT(EventsText(a, false), Not(HasSubstr(" us ")));
  EXPECT_THAT(EventsText(a, false), HasSubstr("[gpu 0 stream 7] kernel k5"));
}

std::string Titles(const Analysis& a) {
  std::string titles;
  for (const Finding& f : a.findings) {
    EXPECT_FALSE(f.advice.empty());
    titles += f.title + " | " + f.detail + "\n";
  }
  return titles;
}

TEST(ToolsTraceGpu, WhatMattersIsFound) {
  Recording recording;
  recording.Gpu().Kernel(1, "small");
  int64_t at = 0;
  for (int i = 0; i < 200; ++i, at += 10'000) recording.Activity(ActivityKind::kernel, at, 2'000, 1, kOp, at - 1'000);
  for (int i = 0; i < 3; ++i, at += 200'000) {
    recording.Activity(ActivityKind::copy_out, at, 50'000, 0, kOp, at - 1'000, 7, 0, 1 << 20);
    recording.Activity(ActivityKind::wait, at, 51'000, 0, {}, 0, 7);
    recording.Activity(ActivityKind::overhead, at, 150'000, 0);
  }
  const TraceData data = recording.EndBatch(0, /*lost=*/5).Read();
  const Analysis a = Analyse(data);
  const std::string titles = Titles(a);
  EXPECT_THAT(titles, HasSubstr("GPU 0 was idle for"));
  EXPECT_THAT(titles, HasSubstr("the host is behind"));
  EXPECT_THAT(titles, HasSubstr("GPU 0 ran dry 2 times because the program waited for it"));
  EXPECT_THAT(titles, HasSubstr("100 % of the kernels on GPU 0 are shorter than 4 us"));
  EXPECT_THAT(titles, HasSubstr("Copies to the host are"));
  EXPECT_THAT(titles, HasSubstr("most by tanh at walk.cc:8"));
  EXPECT_THAT(titles, HasSubstr("5 records of GPUs were lost"));
  EXPECT_THAT(titles, HasSubstr("CUPTI itself took 450 us"));
}

TEST(ToolsTraceGpu, WithoutCuptiThatIsSaid) {
  Recording recording;
  recording.Gpu().Add(rt::trace::MetaRow{"gpu", "events: another tool holds CUPTI"});
  recording.Activity(ActivityKind::stretch, 0, 1000, 0, kOp).EndBatch();
  const TraceData data = recording.Read();
  const Analysis a = Analyse(data);
  EXPECT_THAT(Titles(a), HasSubstr("CUPTI could not be used | events: another tool holds CUPTI"));
  EXPECT_EQ(a.kernels.at(0).name, "all that it launched");
  EXPECT_THAT(KernelsTable(a, 3), HasSubstr("tanh at walk.cc:8"));
}

TEST(ToolsTraceGpu, WhatAGpuIsConnectedToIsSaid) {
  Recording recording;
  recording.Gpu().Activity(ActivityKind::stretch, 0, 1000, 0, kOp).EndBatch();
  // Twice: a recording that was interrupted is told again.
  for (int i = 0; i < 2; ++i) {
    recording.Add(rt::trace::LinkRow{1, 0, "GPU-b", "GPU-a", 18, 450'000'000'000, 4, 1});
    recording.Add(rt::trace::LinkRow{0, -1, "GPU-a", "processor 0", 1, 0, 2, 0});
    recording.Add(rt::trace::LinkRow{1, 2, "GPU-b", "GPU-c", 18, 450'000'000'000, 4, 1});
  }
  const TraceData data = recording.Read();
  const std::string text = GpusText(Analyse(data));
  EXPECT_THAT(text, HasSubstr("  NVLink            18 links to GPU 1 through a switch, 450 GB/s, version 4\n"
                              "  NVLink            1 link to processor 0, rate not known, version 2\n"));
  EXPECT_THAT(LinksOf(data, 0), testing::SizeIs(2));
  EXPECT_THAT(ReportJson(Analyse(data), "x"),
              HasSubstr(R"("links":["18 links to GPU 1 through a switch, 450 GB/s, version 4",)"));
}

TEST(ToolsTraceGpu, WhatMeasuringTookIsSaid) {
  Recording recording;
  recording.Gpu().Activity(ActivityKind::stretch, 0, 1000, 0, kOp).EndBatch();
  for (const char* so_far : {"1 runs, the last one of 3 kernels in 4 passes", "2 runs, the last one in 4 passes"})
    recording.Add(rt::trace::MetaRow{"measures", so_far});
  const TraceData data = recording.Read();
  EXPECT_THAT(GpusText(Analyse(data)), HasSubstr("counters were read of 2 runs, the last one in 4 passes\n"));
}

TEST(ToolsTraceGpu, AGpuOfWhichNothingIsKnownIsMentioned) {
  Recording recording;
  recording.Gpu().Add(rt::trace::MetaRow{"gpu", "another tool holds CUPTI"}).Event(EventKind::op, 0, 1000, 3, 8, 1);
  const TraceData data = recording.Read();
  EXPECT_THAT(Titles(Analyse(data)), HasSubstr("nothing that ran on it was recorded | another tool holds CUPTI"));
}

TEST(ToolsTraceGpu, RooflinesOfBothKindsOfDevices) {
  Recording recording;
  recording.Version(1, "tier 3", 10, 1000, 2000, 1).Add(rt::trace::MetaRow{"options", "peak_gbps=10 peak_gflops=50"});
  recording.Add(rt::trace::TraceRow{1, "walk.cc:8", 1, "cpu", 100, {{"0: y1 = tanh x0  f32[8]", 1, "", 9, 1}}, "loop"});
  recording.Add(rt::trace::StageRow{1, "report", kTanh}).Event(EventKind::version_run, 0, 10'000, 1, 10, 1);
  const TraceData data = recording.Read();
  const std::string json = ReportJson(Analyse(data), "x");
  EXPECT_THAT(json, HasSubstr(R"("title":"cpu, a point for each version","bytes":1e+10)"));
  // 21 million operations and 8 million bytes in a microsecond.
  EXPECT_THAT(json, HasSubstr(R"(["version 1 of walk.cc:8",2.625,2.1e+13,10000,)"));
  const auto gpu = rt::trace::ReadTrace(testing_trace::GpuSample(3));
  ASSERT_TRUE(gpu.ok());
  EXPECT_THAT(ReportJson(Analyse(*gpu), "x"), HasSubstr(R"("title":"GPU 0: NVIDIA H200","bytes":4.8e+12)"));
}

TEST(ToolsTraceGpu, ATraceWithoutGpusSaysNothingOfThem) {
  const TraceData data = Recording().Event(EventKind::op, 0, 1000, 3, 8, 1).Read();
  const Analysis a = Analyse(data);
  EXPECT_THAT(GpusText(a), IsEmpty());
  EXPECT_THAT(ReportText(a), Not(HasSubstr("GPU")));
  EXPECT_EQ(TopText(a, TopBy::kernel, 3), "nothing of that kind was recorded\n");
}

}  // namespace
}  // namespace tessera::tools
