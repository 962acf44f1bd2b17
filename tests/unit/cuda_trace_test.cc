// Recorded traces of programs on a GPU: every kernel is there, with who launched it and how long it took. Without a GPU
// there is nothing to run.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "runtime/activity.h"
#include "runtime/log.h"
#include "runtime/trace/reader.h"
#include "tiers_testing.h"

namespace tessera {
namespace {

using rt::ActivityKind;
using rt::ActivityOwner;
using rt::EventKind;
using rt::trace::GpuActivity;
using rt::trace::TraceData;

class CudaTrace : public testing::Test {
 protected:
  void SetUp() override {
    if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
    before_ = Runtime::device();
    Runtime::set_device(*Device::find("cuda"));
    tiers::Manager::Get().Reset();
  }
  void TearDown() override { Runtime::set_device(before_); }

  /// What a program left in its trace; without CUPTI the test ends.
  TraceData Record(const std::function<void()>& program) {
    const std::string path = testing::TempDir() + "cuda_trace_test_file";
    EXPECT_TRUE(Runtime::trace_start(path).ok());
    program();
    tiers::Manager::Get().Drain();
    EXPECT_TRUE(Runtime::trace_stop().ok());
    auto data = rt::trace::ReadTraceFile(path);
    EXPECT_TRUE(data.ok()) << data.status();
    std::remove(path.c_str());
    return data.ok() ? *std::move(data) : TraceData();
  }
  static std::string How(const TraceData& data) {
    for (const auto& row : data.meta)
      if (row.key == "gpu") return row.value;
    return "";
  }
  static std::vector<GpuActivity> Of(const TraceData& data, ActivityKind kind) {
    std::vector<GpuActivity> some;
    for (const GpuActivity& a : data.activities)
      if (a.kind == kind) some.push_back(a);
    return some;
  }

  Device before_ = Device::cpu();
};

// A loop that gets hot: products by the library, element-wise ops, a reduction.
Tensor Round(const Tensor& x, const Tensor& w) { return tanh(matmul(x, w)) - mean(x, {-1}, true); }

TEST_F(CudaTrace, EveryKernelOfTier1IsThereWithItsOp) {
  OptionScope scope({{"tier", "1"}});
  const Tensor x = full({256, 256}, 0.5), w = full({256, 256}, 0.01);
  int line = 0;
  const TraceData data = Record([&] {
    for (int i = 0; i < 10; ++i) {
      line = __LINE__ + 1;
      const Tensor y = exp(x) + matmul(x, w);
      sum(y).item<float>();
    }
  });
  if (!How(data).starts_with("CUPTI")) GTEST_SKIP() << How(data);
  EXPECT_EQ(data.gpu_lost, 0);
  ASSERT_EQ(data.gpus.size(), 1u);
  EXPECT_GT(data.gpus[0].bytes_per_s, 100'000'000'000);
  EXPECT_GT(data.gpus[0].multiprocessors, 0);
  const std::vector<GpuActivity> kernels = Of(data, ActivityKind::kernel);
  std::map<std::string, int> by_op;
  for (const GpuActivity& k : kernels) {
    ASSERT_EQ(k.owner, ActivityOwner::Kind::op) << data.FindKernel(k.kernel)->name;
    ++by_op[data.Name("op", k.part)];
    EXPECT_EQ(data.SiteName(k.number).substr(0, 19), "cuda_trace_test.cc:");
    if (data.Name("op", k.part) == "exp") {
      EXPECT_EQ(data.SiteName(k.number), "cuda_trace_test.cc:" + std::to_string(line));
    }
    ASSERT_NE(data.FindKernel(k.kernel), nullptr);
    EXPECT_FALSE(data.FindKernel(k.kernel)->name.empty());
    EXPECT_GE(k.start_ns, k.launched_ns);
    EXPECT_GT(k.launched_ns, 0);
  }
  EXPECT_EQ(by_op["exp"], 10);
  EXPECT_EQ(by_op["add"], 10);
  EXPECT_GE(by_op["matmul"], 10);
  EXPECT_GE(by_op["sum"], 10);
  EXPECT_EQ(Of(data, ActivityKind::copy_out).size(), 10u);
}

TEST_F(CudaTrace, KernelsOfGraphsBelongToStepsOfTheirVersions) {
  OptionScope scope(HotAtOnce());
  const TraceData data = Record([&] {
    Tensor x = full({512, 512}, 0.5);
    const Tensor w = full({512, 512}, 0.01);
    for (int i = 0; i < 200; ++i) {
      x = Round(x, w);
      if (i % 20 == 0) tiers::Manager::Get().Drain();
    }
    x.read<float>();
  });
  if (!How(data).starts_with("CUPTI")) GTEST_SKIP() << How(data);
  int64_t in_graphs = 0;
  std::set<int64_t> versions;
  for (const GpuActivity& a : data.activities) {
    if (a.kind > ActivityKind::set || !a.in_graph) continue;
    ++in_graphs;
    ASSERT_EQ(a.owner, ActivityOwner::Kind::step);
    versions.insert(a.number);
    const auto* version = data.FindVersion(a.number);
    ASSERT_NE(version, nullptr);
    const auto* trace = data.FindTrace(version->trace_id);
    ASSERT_NE(trace, nullptr);
    ASSERT_GE(a.part, 0) << "the step is known";
    ASSERT_LT(a.part, static_cast<int32_t>(trace->steps.size()));
    // The library's product belongs to the step that is one.
    const std::string& name = a.kernel != 0 ? data.FindKernel(a.kernel)->name : "";
    if (name.find("gemm") != std::string::npos || name.find("nvjet") != std::string::npos) {
      EXPECT_NE(trace->steps[static_cast<size_t>(a.part)].text.find("matmul"), std::string::npos) << name;
    }
  }
  EXPECT_GT(in_graphs, 100);
  EXPECT_FALSE(versions.empty());
  int64_t unowned = 0;
  for (const GpuActivity& a : data.activities)
    unowned += a.kind == ActivityKind::kernel && a.owner == ActivityOwner::Kind::nobody;
  EXPECT_EQ(unowned, 0);
}

TEST_F(CudaTrace, TimesAreThoseOfEvents) {
  OptionScope scope({{"tier", "1"}});
  const Tensor x = full({1 << 28}, 0.5);
  exp(x);
  const auto program = [&] {
    for (int i = 0; i < 9; ++i) exp(x);
    EXPECT_TRUE(Runtime::synchronize(Runtime::device()).ok());
  };
  const TraceData data = Record(program);
  if (!How(data).starts_with("CUPTI")) GTEST_SKIP() << How(data);
  std::vector<double> kernels, stretches;
  for (const GpuActivity& k : Of(data, ActivityKind::kernel)) kernels.push_back(static_cast<double>(k.ns));
  ASSERT_TRUE(rt::ActivityRecorder::StartEvents([&](absl::Span<const rt::Activity> some) {
                for (const rt::Activity& a : some) stretches.push_back(static_cast<double>(a.end_ns - a.start_ns));
              }).ok());
  program();
  rt::ActivityRecorder::Stop();
  ASSERT_EQ(kernels.size(), 9u);
  ASSERT_EQ(stretches.size(), 9u);
  std::sort(kernels.begin(), kernels.end());
  std::sort(stretches.begin(), stretches.end());
  ASSERT_GT(kernels[4], 100'000);
  EXPECT_NEAR(kernels[4] / stretches[4], 1, 0.03);
}

TEST_F(CudaTrace, AnotherClientOfCuptiLeavesEvents) {
  void* library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) GTEST_SKIP() << "no CUPTI in the path of libraries";
  using Callback = void (*)(void*, int, uint32_t, const void*);
  const auto subscribe = reinterpret_cast<int (*)(void**, Callback, void*)>(dlsym(library, "cuptiSubscribe"));
  const auto unsubscribe = reinterpret_cast<int (*)(void*)>(dlsym(library, "cuptiUnsubscribe"));
  ASSERT_NE(subscribe, nullptr);
  void* subscriber = nullptr;
  ASSERT_EQ(subscribe(&subscriber, [](void*, int, uint32_t, const void*) {}, nullptr), 0);
  OptionScope scope({{"tier", "1"}});
  const Tensor x = full({1 << 26}, 0.5);
  float value = 0;
  const TraceData data = Record([&] {
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = exp(-y);
    value = max(y).item<float>();
  });
  ASSERT_EQ(unsubscribe(subscriber), 0);
  double expected = 0.5;
  for (int i = 0; i < 10; ++i) expected = std::exp(-expected);
  EXPECT_NEAR(value, expected, 1e-5);
  EXPECT_THAT(How(data), testing::HasSubstr("another tool holds CUPTI"));
  std::map<std::string, int64_t> by_op;
  int64_t end = 0;
  for (const GpuActivity& s : Of(data, ActivityKind::stretch)) {
    ASSERT_EQ(s.owner, ActivityOwner::Kind::op);
    ++by_op[data.Name("op", s.part)];
    EXPECT_GE(s.start_ns, end) << "one after the other";
    end = s.start_ns + s.ns;
    // A quarter of a GiB, read and written.
    if (data.Name("op", s.part) == "exp") {
      EXPECT_GT(s.ns, 20'000);
    }
  }
  EXPECT_EQ(by_op["exp"], 10);
  EXPECT_EQ(by_op["neg"], 10);
  EXPECT_TRUE(Of(data, ActivityKind::kernel).empty());
  int64_t launches = 0;
  for (const auto& e : data.events) launches += e.kind == EventKind::launch && e.b == 1;
  EXPECT_GE(launches, 21);
  // And CUPTI again when it is free.
  const TraceData again = Record([&] { exp(x); });
  EXPECT_THAT(How(again), testing::StartsWith("CUPTI"));
  EXPECT_EQ(Of(again, ActivityKind::kernel).size(), 1u);
}

// In a process of their own: CUPTI gives no samples where a graph ran before.
class CudaMeasures : public CudaTrace {};

TEST_F(CudaMeasures, CountersAndSamplesOfVersions) {
  auto options = HotAtOnce();
  options["trace_measures"] = "2";
  options["debug"] = "2";
  OptionScope scope(options);
  constexpr int64_t kBytes = int64_t{4} << 26;
  std::string log;
  rt::SetLogSink([&](int, std::string_view line) { log += std::string(line) + "\n"; });
  Tensor x = full({1 << 26}, 0.5);
  const TraceData data = Record([&] {
    for (int i = 0; i < 400; ++i) {
      x = exp(-x) * 0.5 + 0.1;
      if (i % 20 == 0 && i <= 60) tiers::Manager::Get().Drain();  // then the last version stays
    }
  });
  rt::SetLogSink({});
  double expected = 0.5;
  for (int i = 0; i < 400; ++i) expected = std::exp(-expected) * 0.5 + 0.1;
  EXPECT_NEAR(x.read<float>()[12345], expected, 1e-4);
  if (log.find("trace_measures") != std::string::npos) GTEST_SKIP() << log;
  ASSERT_FALSE(data.measures.empty()) << log;
  const auto value = [&](const rt::trace::MeasureRow& row, const char* name) {
    for (size_t i = 0; i < row.thousandths.size(); ++i)
      if (data.Name("measure", static_cast<int64_t>(i)) == name) return static_cast<double>(row.thousandths[i]) / 1000;
    return -1.0;
  };
  bool whole = false;
  for (const auto& row : data.measures) {
    EXPECT_EQ(ActivityOwner::Unpack(row.owner).kind, ActivityOwner::Kind::step);
    ASSERT_NE(data.FindKernel(row.kernel), nullptr);
    EXPECT_GT(value(row, "time_ns"), 0);
    const double read = value(row, "dram_read_bytes");
    whole |= read > 0.9 * kBytes && read < 1.2 * kBytes && value(row, "dram_percent") > 50;
    EXPECT_GT(value(row, "occupancy_percent"), 0);
    EXPECT_LE(value(row, "occupancy_percent"), 100);
  }
  EXPECT_TRUE(whole) << "one kernel reads all of it once";
  EXPECT_THAT(data.meta, testing::Contains(testing::Field(&rt::trace::MetaRow::key, "measures")));
  // A run before those was sampled.
  ASSERT_FALSE(data.pcs.empty()) << log;
  int64_t samples = 0;
  for (const auto& row : data.pcs) {
    EXPECT_NE(data.FindVersion(row.version), nullptr);
    EXPECT_FALSE(row.function.empty());
    EXPECT_GE(row.pc, 0);
    for (const auto& stall : row.stalls) samples += stall.samples;
  }
  EXPECT_GT(samples, 100);
}

}  // namespace
}  // namespace tessera
