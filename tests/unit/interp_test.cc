// The interpreter and dispatch: observer, frames, allocation, faults, threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "interp/api/eager.h"
#include "interp/interpreter.h"
#include "runtime/fault.h"
#include "runtime/metrics.h"
#include "runtime/ring.h"
#include "runtime/thread_pool.h"
#include "tessera/tessera.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TSR_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TSR_TEST_SANITIZED 1
#endif

#ifndef TSR_TEST_SANITIZED
// Counts this thread's heap allocations. Sanitizers bring an operator new of their own.
static thread_local int64_t t_allocations = 0;
[[gnu::noinline]] void* operator new(size_t size) {
  ++t_allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif

namespace tessera {
namespace {

TEST(Observer, SeesEveryOpWithItsPlace) {
  struct Recorder : interp::Observer {
    std::vector<std::string> ops;
    std::vector<interp::Pc> pcs;
    std::vector<int> lines;
    int enters = 0, exits = 0, back_edges = 0, branches = 0;
    void OnOp(const interp::Event& e) override {
      ops.emplace_back(ir::Info(e.op).name);
      pcs.push_back(e.pc);
      lines.push_back(e.source.line);
      EXPECT_LE(e.start_ns, e.end_ns);
      for (rt::TensorImpl* y : e.out) EXPECT_NE(y, nullptr);
    }
    void OnFunctionEnter(const void*) override { ++enters; }
    void OnFunctionExit(const void*) override { ++exits; }
    void OnBackEdge(interp::Pc) override { ++back_edges; }
    void OnBranch(interp::Pc, bool) override { ++branches; }
  } recorder;
  Tensor x = ones({3});
  Function f = *Function::parse(R"(func @f(%x: tensor<N x f32>) -> tensor<N x f32> {
    %r = for %i in (0, 3, 1) (%a = %x) -> (tensor<N x f32>) {
      %b = mul %a, 2.0
      yield %b
    }
    return %r
  })");
  interp::SetObserver(&recorder);
  const int line = __LINE__ + 1;
  const auto step = [&]() __attribute__((noinline)) { x = exp(x); };
  step();
  step();
  f.call({x});
  interp::SetObserver(nullptr);
  EXPECT_EQ(recorder.ops, (std::vector<std::string>{"exp", "exp", "mul", "mul", "mul"}));
  EXPECT_EQ(recorder.lines[0], line);
  EXPECT_EQ(recorder.pcs[0].base, recorder.pcs[1].base) << "one call site";
  EXPECT_EQ(recorder.pcs[0].index, -1);
  EXPECT_EQ(recorder.pcs[2].index, recorder.pcs[3].index);
  EXPECT_EQ(recorder.lines[2], 3) << "the line of the Graph IR text";
  EXPECT_EQ(recorder.enters, 1);
  EXPECT_EQ(recorder.exits, 1);
  EXPECT_EQ(recorder.back_edges, 3);
  EXPECT_EQ(recorder.branches, 4);
}

TEST(Observer, CallSitesDiffer) {
  struct Recorder : interp::Observer {
    std::vector<interp::Pc> pcs;
    void OnOp(const interp::Event& e) override { pcs.push_back(e.pc); }
  } recorder;
  Tensor x = ones({3});
  interp::SetObserver(&recorder);
  Tensor a = x + x;
  Tensor b = x + x;
  Tensor c = operator+(x, x);
  interp::SetObserver(nullptr);
  ASSERT_EQ(recorder.pcs.size(), 3u);
  EXPECT_NE(recorder.pcs[0].base, recorder.pcs[1].base);
  EXPECT_NE(recorder.pcs[1].base, recorder.pcs[2].base);
  EXPECT_NE(recorder.pcs[0].path, recorder.pcs[1].path);
}

#ifndef TSR_TEST_SANITIZED
TEST(Interpreter, TheLoopAllocatesNothing) {
  Function f = *Function::parse(R"(func @f(%x: tensor<N x f32>, %n: tensor<i64>) -> tensor<N x f32> {
    %last, %r = while (%i = 0, %a = %x) -> (tensor<i64>, tensor<N x f32>) {
      %go = lt %i, %n
      yield %go
    } do {
      %j = add %i, 1
      %b = mul %a, 1.5
      %c = sub %b, %a
      %d = transpose %c
      %e = sum %d {axes = [0], keepdims = true}
      %g = add %d, %e
      yield %j, %g
    }
    return %r
  })");
  const Tensor x = ones({16});
  auto allocations = [&](int64_t n) {
    const Tensor count = Tensor::scalar(n);
    const std::vector<Tensor> args = {x, count};
    f(args);  // warms the pools
    const int64_t before = t_allocations;
    f(args);
    return t_allocations - before;
  };
  // Of tier 1; a version keeps a list of what it holds.
  ASSERT_TRUE(Runtime::set_option("tier", "1").ok());
  const int64_t once = allocations(1), often = allocations(500);
  ASSERT_TRUE(Runtime::set_option("tier", "3").ok());
  EXPECT_EQ(once, often) << "an iteration allocates from the heap";
}
#endif

TEST(Interpreter, FunctionsRunOnSeveralThreads) {
  Function f = *Function::parse(R"(
    buffer @calls : tensor<i64>
    func @f(%x: tensor<N x f32>) -> tensor<N x f32> {
      buffer_add 1 {buffer = "calls"}
      %y = mul %x, 2.0
      %z = add %y, 1.0
      return %z
    })");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Tensor x = full({7}, t);
      for (int i = 0; i < 250; ++i) wrong += f.call({x}).to_vector<float>()[6] != static_cast<float>(2 * t + 1);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(f.module().buffer("calls")->item<int64_t>(), 1000);
}

TEST(Interpreter, ChecksArguments) {
  Function f = *Function::parse(
      "func @f(%x: tensor<B x S x f32>, %y: tensor<(B*2) x f32>) -> tensor<B x S x f32> where S % 8 == 0 {\n"
      "  return %x\n}");
  auto message = [&](const std::vector<Tensor>& args) -> std::string {
    try {
      f(args);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({zeros({2, 8}), zeros({4})}), "no error");
  EXPECT_EQ(message({zeros({2, 8})}), "@f takes 2 arguments, not 1");
  EXPECT_EQ(message({zeros({2, 8}, f64), zeros({4})}), "@f: argument 0 (%x) must be f32[B,S], not f64[2,8]; cast it");
  EXPECT_EQ(message({zeros({2}), zeros({4})}), "@f: argument 0 (%x) must be f32[B,S], not f32[2]");
  EXPECT_EQ(message({zeros({2, 8}), zeros({5})}), "@f: argument 1 is f32[5], and dim 0 must be (2*B) = 4");
  EXPECT_NE(message({zeros({2, 9}), zeros({4})}).find("S % 8 == 0"), std::string::npos)
      << message({zeros({2, 9}), zeros({4})});
}

// Code without branches and calls holds no references to its arguments: it must neither work in their memory nor give
// them away, whatever becomes of it.
TEST(Interpreter, StraightCodeLeavesArgumentsToTheCaller) {
  const Module module = *Module::parse(R"(func @same(%x: tensor<2 x f32>) -> (tensor<2 x f32>, tensor<2 x f32>) {
  return %x, %x
}
func @mixed(%x: tensor<2 x f32>, %y: tensor<2 x f32>) -> (tensor<2 x f32>, tensor<2 x f32>) {
  %s = add %x, %y
  %t = mul %s, %s
  return %t, %y
}
func @fails(%x: tensor<2 x f32>, %i: tensor<1 x i64>) -> tensor<1 x f32> {
  %s = add %x, 1.0
  %t = mul %s, %x
  %g = take %s, %i
  %u = add %g, 1.0
  return %u
}
)");
  const std::vector<float> values = {1, 2};
  Tensor x = Tensor::from<float>({1, 2});
  const Tensor y = Tensor::from<float>({3, 4});
  for (int i = 0; i < 100; ++i) {  // in tier 1 and in whatever takes over from it
    {
      const std::vector<Tensor> same = (*module.function("same"))({x});
      EXPECT_TRUE(same[0].shares_storage_with(x) && same[1].shares_storage_with(x));
      const std::vector<Tensor> mixed = (*module.function("mixed"))({x, y});
      EXPECT_EQ(mixed[0].to_vector<float>(), (std::vector<float>{16, 36}));
      EXPECT_TRUE(mixed[1].shares_storage_with(y));
      EXPECT_THROW(module.function("fails")->call({x, Tensor::from<int64_t>({7})}), Error);
      EXPECT_EQ(module.function("fails")->call({x, Tensor::from<int64_t>({1})}).item<float>(), 4);
    }
    EXPECT_EQ(x.to_vector<float>(), values);
    // Nobody else holds it any more.
    const float* before = x.read<float>().data();
    EXPECT_EQ(x.write<float>().data(), before);
  }
}

TEST(Interpreter, CallGivesTheOneResult) {
  const Module module = *Module::parse(R"(func @one(%x: tensor<2 x f32>) -> tensor<2 x f32> {
  %y = mul %x, %x
  return %y
}
func @two(%x: tensor<2 x f32>) -> (tensor<2 x f32>, tensor<2 x f32>) {
  return %x, %x
}
)");
  const Tensor x = Tensor::from<float>({1, 3});
  EXPECT_EQ(module.function("one")->call({x}).to_vector<float>(), (std::vector<float>{1, 9}));
  EXPECT_THROW(module.function("two")->call({x}), Error);
  EXPECT_THROW(module.function("one")->call({Tensor()}), Error);
}

// Every fault point: a clean error, and the next call works.
TEST(Faults, AllocationFailsOneOpOnly) {
  const Tensor x = ones({1 << 20});
  rt::ArmFault(rt::Fault::allocation, 1);
  try {
    x + x;
    ADD_FAILURE() << "did not fail";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::resource_exhausted) << e.what();
    EXPECT_NE(std::string(e.what()).find("interp_test.cc"), std::string::npos) << e.what();
  }
  EXPECT_EQ((x + x).to_vector<float>()[0], 2.0f);
}

TEST(Faults, FilesFailCleanly) {
  const std::string path = testing::TempDir() + "/tessera_fault.npy";
  const Tensor x = ones({3});
  ASSERT_TRUE(save_npy(x, path).ok());
  rt::ArmFault(rt::Fault::file_write, 1);
  EXPECT_EQ(save_npy(x * 2, path).code(), Code::resource_exhausted);
  EXPECT_EQ(load_npy(path)->to_vector<float>(), x.to_vector<float>()) << "the old file is whole";
  for (rt::Fault fault : {rt::Fault::file_open, rt::Fault::file_read}) {
    rt::ArmFault(fault, 1);
    EXPECT_FALSE(load_npy(path).ok());
    EXPECT_TRUE(load_npy(path).ok());
  }
  std::remove(path.c_str());
}

TEST(Memory, LimitRefusesOneOpAndRecovers) {
  rt::Device& cpu = rt::Cpu();
  Tensor x = ones({1 << 22});
  cpu.Trim();
  cpu.SetMemoryLimit(cpu.memory_stats().bytes_in_use + cpu.memory_stats().bytes_cached + (1 << 20));
  EXPECT_THROW(x + x, Error);
  cpu.SetMemoryLimit(0);
  EXPECT_EQ((x + x).to_vector<float>()[5], 2.0f);
}

TEST(Memory, PeakIsThatOfTheLiveValues) {
  // A chain of 20 ops on 4 MiB keeps two values alive at a time, not twenty.
  std::string text = "func @f(%x0: tensor<N x f32>) -> tensor<N x f32> {\n";
  for (int i = 0; i < 20; ++i) text += "  %x" + std::to_string(i + 1) + " = add %x" + std::to_string(i) + ", 1.0\n";
  Function f = *Function::parse(text + "  return %x20\n}");
  const Tensor x = ones({1 << 20});
  Runtime::reset_peak_memory(Device::cpu());
  const int64_t before = Runtime::memory(Device::cpu()).bytes_in_use;
  Tensor y = f.call({x});
  const int64_t peak = Runtime::memory(Device::cpu()).peak_bytes - before;
  EXPECT_GE(peak, 2 * (4 << 20));
  EXPECT_LE(peak, 3 * (4 << 20));
}

TEST(Events, RingHoldsTheOps) {
  ASSERT_TRUE(Runtime::set_option("events", "64").ok());
  Tensor x = ones({5});
  Tensor y = exp(x);
  ASSERT_NE(rt::GlobalRing(), nullptr);
  int found = 0;
  for (const rt::Event& e : rt::GlobalRing()->Snapshot()) {
    found += e.kind == rt::EventKind::op && e.a == static_cast<int64_t>(ir::Op::k_exp) && e.b == 5;
  }
  EXPECT_EQ(found, 1);
  EXPECT_TRUE(Runtime::set_option("events", "0").ok());
}

// Every row of metrics.def is counted by something; those of the tiers have a test of their own (tiers_tables_test.cc).
TEST(Metrics, EveryRowMoves) {
  const rt::MetricValues before = rt::SnapshotMetrics();
  const Tensor x = ones({256, 256});
  matmul(x, x);
  Function::parse("func @f(%x: tensor<N x M x f32>) -> tensor<N x M x f32> {\n  %y = exp %x\n  return %y\n}")
      ->call({x});
  // Two threads that split loops all the time: sooner or later one finds the pool taken.
  const auto moved = [&](rt::Metric m) {
    return rt::SnapshotMetrics()[static_cast<int>(m)] > before[static_cast<int>(m)];
  };
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) x + x;
  });
  for (int i = 0; i < 100000 && !(moved(rt::Metric::parallel_inline) && moved(rt::Metric::parallel_regions)); ++i)
    x + x;
  stop = true;
  other.join();
  for (const rt::MetricInfo& row : rt::kMetrics) {
    // With one core nothing is ever split.
    if (rt::NumThreads() == 1 && row.name.starts_with("parallel")) continue;
    if (row.id >= rt::Metric::traces_recorded) continue;
    // Of CUDA devices: cuda_device_test.cc, cuda_churn_test.cc.
    if (row.id == rt::Metric::graphs_launched || row.id == rt::Metric::products_chosen ||
        row.id == rt::Metric::products_tried)
      continue;
    EXPECT_TRUE(moved(row.id)) << row.name;
  }
}

TEST(Builder, SchedulesAndShards) {
  Builder b;
  FunctionBuilder f = b.function("layer");
  const Value x = f.param("x", f32, {"B", "K"}), w = f.param("w", f32, {"K", 64});
  f.schedule("form=packed,rows=64");
  f.autotune("nr=8 nr=16", "K");
  f.ret({f.shard(f.op("matmul", {x, w}), "dp,tp:4")});
  Result<Module> module = b.build();
  ASSERT_TRUE(module.ok()) << module.status().message();
  const std::string text = module.value().to_string();
  EXPECT_NE(text.find(R"(with {schedule = "form=packed,rows=64", space = "nr=8 nr=16", key = "K"})"), std::string::npos)
      << text;
  EXPECT_NE(text.find(R"(tensor<B x 64 x f32> {shard = "dp,tp:4"})"), std::string::npos) << text;

  Builder bad;
  FunctionBuilder g = bad.function("g");
  g.schedule("rows=0");
  g.ret({g.param("x", f32, {"B"})});
  EXPECT_NE(bad.build().status().message().find("rows is 1 to 1048576, not 0"), std::string::npos);
  Builder worse;
  FunctionBuilder h = worse.function("h");
  h.ret({h.shard(h.op("neg", {h.param("x", f32, {"B", 6})}), "*,tp:4")});
  EXPECT_NE(worse.build().status().message().find("cannot be divided evenly among 4 devices of tp"), std::string::npos);
}

TEST(Builder, BuildsWhatTextSays) {
  Builder b;
  b.buffer("calls", i64, {});
  FunctionBuilder f = b.function("f");
  Value x = f.param("x", f32, {"B", 4});
  f.op("buffer_add", {1}, {{"buffer", std::string("calls")}});
  std::vector<Value> r = f.for_(
      0, 3, 1, {x}, [&](Value, const std::vector<Value>& v) { return std::vector<Operand>{f.op("mul", {v[0], 2.0})}; });
  Value s = f.op("sum", {r[0]}, {{"axes", Dims{1}}});
  f.ret({r[0], s});
  Result<Module> module = b.build();
  ASSERT_TRUE(module.ok()) << module.status().message();
  std::vector<Tensor> out = (*module->function("f"))({ones({2, 4})});
  EXPECT_EQ(out[0].to_vector<float>()[7], 8.0f);
  EXPECT_EQ(out[1].to_vector<float>(), (std::vector<float>{32, 32}));
  EXPECT_EQ(module->buffer("calls")->item<int64_t>(), 1);
  EXPECT_TRUE(Module::parse(module->to_string()).ok()) << module->to_string();

  Builder bad;
  FunctionBuilder g = bad.function("g");
  Value y = g.param("y", f32, {2});
  g.ret({g.op("matmull", {y, y})});
  Result<Module> failed = bad.build();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().message(), "there is no op matmull; did you mean matmul?");
}

}  // namespace
}  // namespace tessera
